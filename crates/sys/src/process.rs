//! Fork, exec, wait, and the privileges of a new process.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, io};

use rustix::fs::{Mode, OFlags};
pub use rustix::process::Resource;
use rustix::process::{
    DumpableBehavior, Pid, Rlimit, WaitId, WaitIdOptions, WaitOptions, WaitStatus,
    set_dumpable_behavior,
};

/// Maximum number of bytes of a file in /proc that are read.
const MAX_PROC_FILE: u64 = 16 << 20;

/// The process in which a fork has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The new process.
    Child,
    /// The parent, with the process id of the new process.
    Parent(u32),
}

/// Duplicates this process.
///
/// # Panics
/// If the process has more than one thread: the others would vanish with the locks that they hold,
/// and the child could deadlock or corrupt memory.
pub fn fork() -> io::Result<Forked> {
    assert_eq!(thread_count(), 1, "fork of a process with several threads");
    // SAFETY: there is one thread (checked above), so the child has everything that it needs to
    // continue as a full process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid as u32)),
    }
}

/// Duplicates this process; the new one does not become its child, but that of the nearest ancestor
/// that adopts orphans (see [`process_tree::adopt_orphans`](crate::process_tree::adopt_orphans)).
/// When the call returns, here and in the new process, that has happened already.
///
/// The caller must have no other children. Panics as [`fork`] does.
pub fn fork_detached() -> io::Result<Forked> {
    let (answer, question) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    if fork()? == Forked::Child {
        let between = rustix::process::getpid();
        return match fork() {
            Ok(Forked::Child) => {
                while rustix::process::getppid() == Some(between) {
                    std::thread::sleep(Duration::from_micros(50));
                }
                Ok(Forked::Child)
            }
            Ok(Forked::Parent(pid)) => {
                let written = rustix::io::write(&question, &pid.to_ne_bytes());
                exit_now(i32::from(written.is_err()))
            }
            Err(_) => exit_now(1),
        };
    }
    drop(question);
    wait();
    let mut pid = [0; 4];
    match rustix::io::retry_on_intr(|| rustix::io::read(&answer, &mut pid[..])) {
        Ok(4) => Ok(Forked::Parent(u32::from_ne_bytes(pid))),
        _ => Err(io::Error::other("the process between could not fork")),
    }
}

static COPY: AtomicBool = AtomicBool::new(false);

extern "C" fn become_copy() {
    COPY.store(true, Ordering::Relaxed);
}

/// Makes [`is_forked_copy`] return true in processes that are forked from this one.
pub fn track_forks() -> io::Result<()> {
    // SAFETY: the handler has the required signature, lives as long as the program, and only stores
    // to an atomic, which is allowed in a process that has just been forked.
    match unsafe { libc::pthread_atfork(None, None, Some(become_copy)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Returns true if this process was forked, by any code, from one that has called [`track_forks`].
pub fn is_forked_copy() -> bool {
    COPY.load(Ordering::Relaxed)
}

/// Reads a file of a process in /proc. Bytes that are not UTF-8, for example in the name of a
/// process, are replaced.
pub fn read_proc_file(pid: u32, file: &str) -> io::Result<String> {
    // The size of such a file is not known before: most need only one call with this buffer.
    let mut bytes = Vec::with_capacity(4096);
    let file = fs::File::open(format!("/proc/{pid}/{file}"))?;
    file.take(MAX_PROC_FILE).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the number of threads of this process, without the one of qemu if that runs the program: it has a memory of
/// its own.
pub fn thread_count() -> usize {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if is_emulated() { threads.saturating_sub(1).max(1) } else { threads }
}

/// Whether qemu's user mode runs this program: it answers the first path with the program, and leaves the second to the
/// kernel.
fn is_emulated() -> bool {
    let program = fs::read_link("/proc/self/exe");
    let kernels = fs::read_link("/proc/thread-self/exe");
    match (program, kernels) {
        (Ok(program), Ok(kernels)) => {
            program != kernels && kernels.to_string_lossy().contains("/qemu-")
        }
        _ => false,
    }
}

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The process returned this status.
    Status(u8),
    /// A signal killed the process.
    Signal(u8),
}

/// Reaps the next child that has ended; does not block. `None` if there is none.
pub fn reap() -> Option<(u32, Exit)> {
    loop {
        let (pid, status) = rustix::process::wait(WaitOptions::NOHANG).ok().flatten()?;
        if let Some(ended) = ended(pid, status) {
            return Some(ended);
        }
    }
}

/// Reaps a child if it has ended; does not block. Returns false while it runs.
pub fn reap_child(pid: u32) -> bool {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return true };
    !matches!(rustix::process::waitpid(Some(pid), WaitOptions::NOHANG), Ok(None))
}

/// Returns true if this process has a child, or one that has not been reaped. Asks the kernel:
/// `/proc` may have the numbers of another namespace.
pub fn has_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::All, look).is_ok()
}

/// A change of a child's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The child has ended.
    Ended(Exit),
    /// A signal has stopped the child.
    Stopped,
    /// A signal has continued the child.
    Continued,
}

/// Returns the next change of a child's state; does not block. A child that has ended is reaped.
pub fn next_change() -> Option<(u32, Change)> {
    let all = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
    let (pid, status) = rustix::process::wait(all).ok().flatten()?;
    Some(match ended(pid, status) {
        Some((pid, exit)) => (pid, Change::Ended(exit)),
        None => {
            let change = if status.continued() { Change::Continued } else { Change::Stopped };
            (pid.as_raw_nonzero().get() as u32, change)
        }
    })
}

/// Waits for the next child to end and reaps it; `None` if there are no children.
pub fn wait() -> Option<(u32, Exit)> {
    wait_for_child(None)
}

/// Waits for this child to end and reaps it; `None` if it is no child.
pub fn wait_for(pid: u32) -> Option<Exit> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    wait_for_child(Some(pid)).map(|(_, exit)| exit)
}

fn wait_for_child(pid: Option<Pid>) -> Option<(u32, Exit)> {
    loop {
        match rustix::process::waitpid(pid, WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                if let Some(ended) = ended(pid, status) {
                    return Some(ended);
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            _ => return None,
        }
    }
}

fn ended(pid: Pid, status: WaitStatus) -> Option<(u32, Exit)> {
    let pid = pid.as_raw_nonzero().get() as u32;
    let exit = match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => Exit::Status(status as u8),
        (None, Some(signal)) => Exit::Signal(signal as u8),
        (None, None) => return None, // stopped or continued
    };
    Some((pid, exit))
}

/// Ends this process without destructors and exit handlers, which belong to the parent.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` takes an integer and does not return.
    unsafe { libc::_exit(status) }
}

/// Makes the kernel kill this process when its parent ends. If the parent is another process than
/// `parent`, this process ends now. `None` for a parent in another process namespace, which has no
/// id here.
pub fn die_with_parent(parent: Option<u32>) {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
    if now != parent {
        exit_now(0);
    }
}

/// Returns true if the process runs as root; false if it is not visible.
pub fn runs_as_root(pid: u32) -> bool {
    let status = read_proc_file(pid, "status").unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_whitespace().nth(1) == Some("0"))
}

/// Prevents this process, and all that it starts, from gaining privileges, by set-user-ID files or
/// otherwise.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Makes the kernel kill this process, and all that it starts, before others of the same size if
/// memory runs out. `amount` is added to the value of `/proc/PID/oom_score_adj`, where 1000 is all
/// memory. Must be called before [`deny_tracing`], which gives the file to root.
pub fn prefer_when_memory_runs_out(amount: i32) -> io::Result<()> {
    const FILE: &str = "/proc/self/oom_score_adj";
    let now: i32 = fs::read_to_string(FILE)?.trim().parse().map_err(io::Error::other)?;
    fs::write(FILE, now.saturating_add(amount).min(1000).to_string())
}

/// Reads the auxiliary vector, which `rustix` keeps for this process and its forks. Before Linux 6.4
/// it is read from `/proc/self/auxv`, which belongs to root once the process has changed its user.
/// Must be called first.
pub fn read_auxiliary_vector() {
    let _ = rustix::param::page_size();
}

/// Prevents other processes of the same user from tracing this one, reading its memory and taking
/// its descriptors, and excludes its memory from core files (`PR_SET_DUMPABLE`). Inherited by
/// forks, reset by exec.
pub fn deny_tracing() -> io::Result<()> {
    read_auxiliary_vector();
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Undoes [`deny_tracing`]. The process must have no descriptors and no memory that other processes
/// must not have: for a copy of another process only an exec removes them with certainty.
pub fn allow_tracing() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Returns true if a process cannot gain privileges, or is not visible.
pub fn has_no_new_privileges(pid: u32) -> bool {
    let status = read_proc_file(pid, "status").unwrap_or_default();
    !status.lines().any(|line| line.starts_with("NoNewPrivs:") && line.ends_with('0'))
}

/// Empties the capability bounding set of this process. Must be called before root becomes another
/// user, which may not do so.
pub fn drop_bounding_set() {
    for capability in 0..64 {
        // SAFETY: takes integers only; unknown capabilities are refused with EINVAL, and without
        // CAP_SETPCAP with EPERM.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            break;
        }
    }
}

/// Drops all capabilities but one.
pub(crate) fn keep_capability(kept: rustix::thread::CapabilitySet) -> io::Result<()> {
    let inheritable = rustix::thread::CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: kept, permitted: kept, inheritable };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Keeps capabilities across the next change of the user, for a process that enters a sandbox
/// without `no_new_privs`.
pub fn keep_right_to_restrict_itself() -> io::Result<()> {
    Ok(rustix::thread::set_keep_capabilities(true)?)
}

/// Drops all capabilities but `CAP_SYS_ADMIN`, which entering a sandbox needs.
pub fn drop_capabilities_but_to_restrict_itself() -> io::Result<()> {
    let kept = rustix::thread::CapabilitySet::SYS_ADMIN;
    keep_capability(rustix::thread::capabilities(None)?.permitted & kept)
}

/// Returns true if this process may enter a sandbox: `no_new_privs` is set, or it has
/// `CAP_SYS_ADMIN`.
pub fn can_restrict_itself() -> bool {
    let is_able = |sets: rustix::thread::CapabilitySets| {
        sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN)
    };
    rustix::thread::no_new_privs().unwrap_or(false)
        || rustix::thread::capabilities(None).is_ok_and(is_able)
}

/// Drops all capabilities.
pub fn drop_capabilities() -> io::Result<()> {
    let none = rustix::thread::CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}

/// Marks all descriptors from `first` on as closed on exec.
pub fn close_on_exec_from(first: u32) {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: sets a flag on descriptors and closes none, so no owner is affected.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOSE_RANGE_CLOEXEC) };
}

/// Closes all descriptors but the standard streams and these. Only for a new process that uses none
/// of the others: their owners are never dropped, as with [`exit_now`].
pub fn keep_only<const COUNT: usize>(kept: [fs::File; COUNT]) -> io::Result<[fs::File; COUNT]> {
    const FIRST: i32 = 3;
    let end = FIRST + COUNT as i32;
    // First to numbers above: a descriptor must not replace one that is still to be duplicated.
    let above = kept.map(|file| {
        let copy = rustix::io::fcntl_dupfd_cloexec(&file, end);
        std::mem::forget(file);
        copy
    });
    for (target, copy) in (FIRST..).zip(above) {
        let copy = copy?;
        duplicate_to(&copy, target)?;
        std::mem::forget(copy);
    }
    // SAFETY: the owners of these descriptors are never used again (see above), and the targets
    // have been opened just now for the files that are returned.
    let only: [OwnedFd; COUNT] = unsafe {
        libc::syscall(libc::SYS_close_range, end, u32::MAX, 0);
        std::array::from_fn(|at| std::os::fd::FromRawFd::from_raw_fd(FIRST + at as i32))
    };
    Ok(only.map(fs::File::from))
}

/// Duplicates `fd` as descriptor `target`, open across exec. A `target` that is in use is replaced:
/// only for a new process, in which nothing else owns it.
pub fn duplicate_to(fd: impl AsFd, target: i32) -> io::Result<()> {
    let raw = fd.as_fd().as_raw_fd();
    let done = if raw == target {
        // SAFETY: clears the close-on-exec flag of a descriptor that `fd` keeps open.
        unsafe { libc::fcntl(raw, libc::F_SETFD, 0) }
    } else {
        // SAFETY: `raw` is open (borrowed from `fd`); the old `target` is meant to be replaced.
        unsafe { libc::dup2(raw, target) }
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the standard streams: input from /dev/null, output and errors to these descriptors.
pub fn set_standard_streams(stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> io::Result<()> {
    let null = fs::File::open("/dev/null")?;
    duplicate_to(&null, 0)?;
    set_output_streams(stdout, stderr)
}

/// Sets standard output and error. Opens no file, so that a process without access to files can
/// call it.
pub fn set_output_streams(stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> io::Result<()> {
    duplicate_to(stdout, 1)?;
    duplicate_to(stderr, 2)
}

/// Executes a program in this process. Returns only the error.
pub fn exec(program: &str, arguments: &[&str], environment: &[(String, String)]) -> io::Error {
    let (flags, mode) = (OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    match rustix::fs::open(program, flags, mode) {
        Ok(file) => exec_file(file, arguments, environment),
        Err(error) => error.into(),
    }
}

/// Opens the program that this process runs, through the kernel's link: its path may lead to
/// another file by now.
pub fn own_program() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/proc/self/exe", flags, Mode::empty())?)
}

/// Executes an open file in this process; the file needs no name. Returns only the error.
pub fn exec_file(
    program: impl AsFd,
    arguments: &[&str],
    environment: &[(String, String)],
) -> io::Error {
    let c = |text: &str| CString::new(text).map_err(io::Error::other);
    let build = || -> io::Result<_> {
        let arguments = arguments.iter().map(|a| c(a)).collect::<io::Result<Vec<_>>>()?;
        let environment = environment
            .iter()
            .map(|(name, value)| c(&format!("{name}={value}")))
            .collect::<io::Result<Vec<_>>>()?;
        Ok((arguments, environment))
    };
    let (values, variables) = match build() {
        Ok(built) => built,
        Err(error) => return error,
    };
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    // SAFETY: arguments and environment end in NUL, the lists in a null pointer, and all of them
    // live until the call has replaced this program or failed.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_fd().as_raw_fd(),
            c"".as_ptr(),
            pointers(&values).as_ptr(),
            pointers(&variables).as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOSYS) => {
            exec_named(program.as_fd(), arguments, environment)
        }
        error => error,
    }
}

/// Executes an open file by the name that it has now: Linux has execveat since version 3.19, but
/// qemu's emulation of it for single programs lacks the call, as of version 7.2 in Debian 12.
/// Returns only the error.
fn exec_named(
    program: BorrowedFd<'_>,
    arguments: &[&str],
    environment: &[(String, String)],
) -> io::Error {
    let (Ok(path), Some((title, arguments))) =
        (fs::read_link(format!("/proc/self/fd/{}", program.as_raw_fd())), arguments.split_first())
    else {
        return io::Error::from_raw_os_error(libc::ENOSYS);
    };
    let environment = environment.iter().map(|(name, value)| (name, value));
    Command::new(path).arg0(title).args(arguments).env_clear().envs(environment).exec()
}

/// Takes ownership of a descriptor that this program was started with. `None` if it is not open.
///
/// Must be called only once for each descriptor, at the start of `main`.
pub fn take_inherited(fd: i32) -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: reads the flags of a descriptor; fails if there is none.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: the descriptor is open and was passed to this program by its parent for this
    // purpose; the contract above leaves it no other owner.
    let owned = unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) };
    let _ = rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC);
    Some(owned)
}

/// Sets a soft and hard limit for this process and all that it starts; `None` for no limit.
pub fn limit(resource: Resource, limit: Option<u64>) -> io::Result<()> {
    Ok(rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The child of the test is a process of its own, which the shell replaces.
    #[test]
    fn a_file_is_executed_by_its_name_where_the_kernel_cannot_by_descriptor() {
        const NAME: &str = "HOWDAH_TEST_EXEC_NAMED";
        const ARGUMENTS: [&str; 4] = ["title", "-c", "echo $0: $VALUE", "argument"];
        if std::env::var_os(NAME).is_some() {
            let shell = fs::File::open("/bin/sh").unwrap();
            let environment = [("VALUE".to_owned(), "a value".to_owned())];
            panic!("{}", exec_named(shell.as_fd(), &ARGUMENTS, &environment));
        }
        let test = "a_file_is_executed_by_its_name_where_the_kernel_cannot_by_descriptor";
        let child = Command::new(std::env::current_exe().unwrap())
            .args([&format!("process::tests::{test}"), "--exact", "--nocapture"])
            .env(NAME, "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(output.ends_with("argument: a value\n"), "{child:?}");
    }
}
