//! The system calls of the router, each with its reason.
//!
//! The list comes from reading the router's code and from tracing it in all test suites. A missing
//! call fails with `ENOSYS`, which the C library and the runtime treat like an old kernel; if they
//! have no alternative, the request fails and the log says so.

use libc::{c_int, c_long};

use super::seccomp::Argument::{self, Has, Is, IsOtherProcess, IsOwnProcess, Lacks};
use super::seccomp::{AllowList, SystemCall};

/// System calls of the router.
pub const ROUTER: AllowList = AllowList { allowed: ALLOWED, killed: DEADLY };

const fn call(number: c_long, why: &'static str) -> SystemCall {
    SystemCall { number, arguments: &[], why }
}

const fn call_with(
    number: c_long,
    arguments: &'static [Argument],
    why: &'static str,
) -> SystemCall {
    SystemCall { number, arguments, why }
}

const fn bits(flags: c_int) -> u32 {
    flags as u32
}

const ALLOWED: &[SystemCall] = &[
    // Files and sockets.
    call(libc::SYS_read, "sockets, eventfds, files of /proc"),
    call(libc::SYS_write, "the log, eventfds that wake threads and workers"),
    call(libc::SYS_writev, "response head and body in one call; the log"),
    call(libc::SYS_pread64, "pieces of static files and of spooled bodies"),
    call(libc::SYS_pwrite64, "bodies and answers that are spooled, files of caches"),
    call(libc::SYS_fdatasync, "files of caches, before they are closed"),
    call(libc::SYS_preadv2, "asks whether a piece of a file is in the page cache"),
    call(libc::SYS_lseek, "documents and certificates that come as memfd are read from the start"),
    call(libc::SYS_sendfile, "static files to plain sockets"),
    call(libc::SYS_close, "whatever was opened"),
    call(libc::SYS_fcntl, "non-blocking mode, close-on-exec, copies of descriptors, seals"),
    call_with(
        libc::SYS_ioctl,
        &[Is(1, libc::FIONBIO as u32), Is(1, libc::FIONREAD as u32), Is(1, libc::TIOCOUTQ as u32)],
        "non-blocking mode, whether more has come, and how much a client has not taken",
    ),
    call(
        libc::SYS_ftruncate,
        "the size of a region that is shared with workers, and of files of caches",
    ),
    call_with(
        libc::SYS_fallocate,
        &[Is(1, bits(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE))],
        "gives back the space of the part of a response that its client has taken",
    ),
    call(
        libc::SYS_memfd_create,
        "regions, large requests, documents that are to be stored, metrics to be sent",
    ),
    call(
        libc::SYS_openat,
        "files that name no share: passwords, error pages, /proc, temporary files",
    ),
    call(libc::SYS_openat2, "files of shares, below their roots"),
    call(libc::SYS_statx, "whether files have changed"),
    call(libc::SYS_getdents64, "names in a directory, for listings and negotiation"),
    call(libc::SYS_newfstatat, "likewise, where the C library prefers it"),
    call(libc::SYS_fstat, "likewise, of open files"),
    call(libc::SYS_fstatfs, "whether a symbolic link leads into procfs"),
    call(
        libc::SYS_readlinkat,
        "symbolic links of shares; whether a new document stays where the router may read",
    ),
    call_with(
        libc::SYS_inotify_init1,
        &[Is(0, bits(libc::IN_NONBLOCK | libc::IN_CLOEXEC))],
        "whether anything has changed in directories with .htaccess files",
    ),
    call_with(
        libc::SYS_inotify_add_watch,
        &[Lacks(2, libc::IN_ACCESS | libc::IN_OPEN | libc::IN_CLOSE_NOWRITE)],
        "likewise; not the reader of a file",
    ),
    call(libc::SYS_inotify_rm_watch, "likewise"),
    call(libc::SYS_getcwd, "relative paths in a document"),
    call(libc::SYS_dup3, "standard streams lead to a log that was opened anew"),
    // Sockets.
    call_with(
        libc::SYS_socket,
        &[Is(0, bits(libc::AF_INET)), Is(0, bits(libc::AF_INET6)), Is(0, bits(libc::AF_UNIX))],
        "connections to upstreams, authorities and Valkey, questions to DNS servers",
    ),
    call(libc::SYS_connect, "likewise"),
    call(libc::SYS_bind, "a random port for a question to a DNS server; TCP is denied by Landlock"),
    call(libc::SYS_accept4, "clients"),
    call(libc::SYS_sendto, "sockets of clients and upstreams, DNS"),
    call(libc::SYS_recvfrom, "likewise"),
    call(libc::SYS_sendmsg, "messages to the supervisor and to workers, with descriptors"),
    call(libc::SYS_recvmsg, "likewise"),
    call(libc::SYS_recvmmsg, "several datagrams at once"),
    call(libc::SYS_shutdown, "the end of a connection"),
    call(libc::SYS_getsockopt, "errors of connections, credentials of the other side"),
    call(libc::SYS_setsockopt, "TCP_NODELAY, TCP_CORK, SO_LINGER and the like"),
    call(libc::SYS_getsockname, "the address that a client has connected to"),
    call(libc::SYS_getpeername, "the address of a client"),
    // Waiting.
    call(libc::SYS_epoll_create1, "a runtime for each thread"),
    call(libc::SYS_epoll_ctl, "likewise"),
    call(libc::SYS_epoll_pwait, "likewise"),
    call(libc::SYS_eventfd2, "wakes a router thread"),
    call(libc::SYS_ppoll, "waits until the supervisor's socket has room"),
    call(libc::SYS_futex, "locks, sleeping threads and workers"),
    call(libc::SYS_nanosleep, "short pauses of threads"),
    call(libc::SYS_clock_nanosleep, "likewise"),
    call(libc::SYS_sched_yield, "a thread that looks for an answer lets others run"),
    call(libc::SYS_restart_syscall, "the kernel's own, after a stop"),
    // Time, numbers, facts.
    call(libc::SYS_clock_gettime, "machines whose clock takes a system call"),
    call(libc::SYS_gettimeofday, "likewise"),
    call(libc::SYS_getrandom, "TLS, hash tables, numbers of questions"),
    call(libc::SYS_getpid, "log lines"),
    call(libc::SYS_uname, "the name of the machine in messages to a syslog server"),
    call(libc::SYS_getppid, "whether the supervisor is still there"),
    call(libc::SYS_gettid, "log lines, panics"),
    call(libc::SYS_getuid, "the user of the router"),
    call(libc::SYS_geteuid, "likewise"),
    call(libc::SYS_getgid, "likewise"),
    call(libc::SYS_getegid, "likewise"),
    call(libc::SYS_sched_getaffinity, "number of processors"),
    call_with(libc::SYS_prlimit64, &[Is(0, 0), IsOwnProcess(0)], "how many files may be open"),
    // Memory. No page is ever both written and executed.
    call_with(libc::SYS_mmap, &[Lacks(2, bits(libc::PROT_EXEC))], "memory, regions of workers"),
    call_with(libc::SYS_mprotect, &[Lacks(2, bits(libc::PROT_EXEC))], "stacks of threads, heaps"),
    call(libc::SYS_munmap, "memory"),
    call(libc::SYS_mremap, "memory that grows"),
    call(libc::SYS_madvise, "memory that is not needed for now"),
    call(libc::SYS_brk, "memory"),
    // Threads.
    call_with(
        libc::SYS_clone,
        &[Has(0, bits(libc::CLONE_THREAD))],
        "threads; clone3 is denied, as \
        its flags are out of a filter's sight, and the C library falls back to this one",
    ),
    call(libc::SYS_set_robust_list, "a new thread"),
    call(libc::SYS_rseq, "likewise"),
    call(libc::SYS_sigaltstack, "likewise: the standard library's stack for overflows"),
    call(libc::SYS_rt_sigprocmask, "likewise"),
    call(libc::SYS_rt_sigaction, "SIGPIPE; the handler of a stack overflow gives itself up"),
    call(libc::SYS_rt_sigreturn, "the end of a handler"),
    call_with(
        libc::SYS_prctl,
        &[Is(0, bits(libc::PR_SET_NAME)), Is(0, PR_SET_VMA), Is(0, PR_GET_AUXV)],
        "names of threads, and of memory where the C library gives them; size of a page",
    ),
    call_with(libc::SYS_tgkill, &[IsOwnProcess(0)], "abort after a panic that cannot unwind"),
    call(libc::SYS_exit, "the end of a thread"),
    call(libc::SYS_exit_group, "the end"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_open, "as openat"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_readlink, "as readlinkat"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_dup2, "as dup3"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_epoll_wait, "as epoll_pwait"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_poll, "as ppoll"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_time, "machines whose clock takes a system call"),
];

/// Names memory for `/proc/self/maps`.
const PR_SET_VMA: u32 = 0x5356_4d41;
/// Reads the auxiliary vector.
const PR_GET_AUXV: u32 = 0x4155_5856;

/// Calls that the router never makes: a process that makes one has been compromised. It is killed,
/// the log says so, and the supervisor starts another one.
const DEADLY: &[SystemCall] = &[
    call(libc::SYS_execve, "another program"),
    call(libc::SYS_execveat, "likewise"),
    call_with(libc::SYS_clone, &[Lacks(0, bits(libc::CLONE_THREAD))], "another process"),
    call(libc::SYS_unshare, "namespaces"),
    call(libc::SYS_setns, "likewise"),
    call(libc::SYS_ptrace, "other processes' memory and descriptors"),
    call(libc::SYS_process_vm_readv, "likewise"),
    call(libc::SYS_process_vm_writev, "likewise"),
    call(libc::SYS_pidfd_open, "likewise"),
    call(libc::SYS_pidfd_getfd, "likewise"),
    call(libc::SYS_kcmp, "likewise"),
    call(libc::SYS_kill, "signals to other processes; workers are killed by the supervisor"),
    call(libc::SYS_tkill, "likewise"),
    call_with(libc::SYS_tgkill, &[IsOtherProcess(0)], "likewise"),
    call(libc::SYS_rt_sigqueueinfo, "likewise"),
    call(libc::SYS_rt_tgsigqueueinfo, "likewise"),
    call(libc::SYS_pidfd_send_signal, "likewise"),
    call(libc::SYS_setuid, "another user"),
    call(libc::SYS_setgid, "likewise"),
    call(libc::SYS_setreuid, "likewise"),
    call(libc::SYS_setregid, "likewise"),
    call(libc::SYS_setresuid, "likewise"),
    call(libc::SYS_setresgid, "likewise"),
    call(libc::SYS_setfsuid, "likewise"),
    call(libc::SYS_setfsgid, "likewise"),
    call(libc::SYS_setgroups, "likewise"),
    call(libc::SYS_capset, "privileges"),
    call_with(
        libc::SYS_prctl,
        &[
            Is(0, bits(libc::PR_SET_DUMPABLE)),
            Is(0, bits(libc::PR_SET_PTRACER)),
            Is(0, bits(libc::PR_SET_KEEPCAPS)),
            Is(0, bits(libc::PR_SET_SECUREBITS)),
            Is(0, bits(libc::PR_CAP_AMBIENT)),
        ],
        "being traced, privileges",
    ),
    call(libc::SYS_listen, "listening: only the supervisor opens listening sockets"),
    call(libc::SYS_mount, "the file system's shape"),
    call(libc::SYS_umount2, "likewise"),
    call(libc::SYS_pivot_root, "likewise"),
    call(libc::SYS_chroot, "likewise"),
    call(libc::SYS_move_mount, "likewise"),
    call(libc::SYS_open_tree, "likewise"),
    call(libc::SYS_fsopen, "likewise"),
    call(libc::SYS_fsmount, "likewise"),
    call(libc::SYS_mount_setattr, "likewise"),
    call(libc::SYS_mknodat, "device nodes, sockets, pipes with a name"),
    call(libc::SYS_open_by_handle_at, "files past the directories that they are in"),
    call(libc::SYS_bpf, "the kernel's machinery, where faults of the kernel have been found"),
    call(libc::SYS_perf_event_open, "likewise"),
    call(libc::SYS_userfaultfd, "likewise"),
    call(libc::SYS_io_uring_setup, "likewise"),
    call(libc::SYS_io_uring_enter, "likewise"),
    call(libc::SYS_io_uring_register, "likewise"),
    call(libc::SYS_keyctl, "likewise"),
    call(libc::SYS_add_key, "likewise"),
    call(libc::SYS_request_key, "likewise"),
    call(libc::SYS_init_module, "the kernel itself"),
    call(libc::SYS_finit_module, "likewise"),
    call(libc::SYS_delete_module, "likewise"),
    call(libc::SYS_kexec_load, "likewise"),
    call(libc::SYS_reboot, "likewise"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_fork, "another process"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_vfork, "likewise"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_mknod, "as mknodat"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_iopl, "the machine's ports"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_ioperm, "likewise"),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_modify_ldt, "the kernel's machinery"),
];
