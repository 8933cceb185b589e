//! Tries each restriction in another process, because it cannot be undone.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

use howdah_requirements as requirements;
use rustix::process::{Pid, Rlimit, Signal};

use super::landlock::{self, Access, Domain, Grant};
use super::router_calls::ROUTER;
use super::seccomp::{self, AllowList};
use crate::process::{self, Exit};

/// Runs `run` in another process, because its effects cannot be undone, and returns the exit status
/// of that process: 0 if `run` has returned. The process has its own working directory. `test` is
/// the calling test, `case` distinguishes its calls.
fn apart(test: &str, case: &str, run: impl FnOnce()) -> Exit {
    if std::env::var(CASE).is_ok_and(|wanted| wanted == case) {
        run();
        process::exit_now(0);
    }
    if std::env::var(CASE).is_ok() {
        return GOOD; // this process is for another case
    }
    let program = std::env::current_exe().unwrap();
    let name = format!("sandbox::tests::{test}");
    let directory = tempfile::tempdir().unwrap();
    let ended = Command::new(program)
        .current_dir(directory.path())
        .args([&name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        .output()
        .unwrap();
    match (ended.status.code(), ended.status.signal()) {
        (Some(0), _) => GOOD,
        (Some(status), _) => {
            print!("{}", String::from_utf8_lossy(&ended.stderr));
            Exit::Status(status as u8)
        }
        (None, signal) => Exit::Signal(signal.unwrap() as u8),
    }
}

/// Environment variable with the case that a process of [`apart`] runs.
const CASE: &str = "HOWDAH_TEST_CASE";
const DUMPABLE: usize = libc::PR_SET_DUMPABLE as usize;
const NO_CORE: Rlimit = Rlimit { current: Some(0), maximum: Some(0) };
const GOOD: Exit = Exit::Status(0);
const KILLED: Exit = Exit::Signal(libc::SIGSYS as u8);

/// Returns true if the kernel has this Landlock version; otherwise prints the reason why the test
/// is skipped.
fn has_landlock(version: u32) -> bool {
    let found = landlock::version();
    if found < version {
        requirements::skipped(format!("it takes version {version} of Landlock, not {found}"));
    }
    found >= version
}

fn has_seccomp() -> bool {
    if !seccomp::is_available() {
        requirements::skipped("this kernel cannot filter system calls");
    }
    seccomp::is_available()
}

fn enter(domain: Domain) {
    process::no_new_privileges().unwrap();
    domain.enter().unwrap();
}

fn restrict(list: AllowList) {
    process::no_new_privileges().unwrap();
    list.install().unwrap();
}

#[test]
fn a_domain_signals_and_traces_only_itself() {
    if !has_landlock(landlock::SIGNALS) {
        return;
    }
    let ended = apart("a_domain_signals_and_traces_only_itself", "only", || {
        let parent = rustix::process::getppid().unwrap();
        let outside = parent.as_raw_nonzero();
        rustix::process::test_kill_process(parent).unwrap();
        enter(Domain::default());
        let signal = rustix::process::test_kill_process(parent);
        assert_eq!(signal, Err(rustix::io::Errno::PERM));
        let memory = File::open(format!("/proc/{outside}/mem"));
        assert_eq!(memory.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let mut started = Command::new("sleep").arg("60").spawn().unwrap();
        let child = Pid::from_child(&started);
        fs::read_link(format!("/proc/{}/exe", child.as_raw_nonzero())).unwrap();
        rustix::process::kill_process(child, Signal::KILL).unwrap();
        started.wait().unwrap();
    });
    assert_eq!(ended, GOOD);
}

#[test]
fn a_domain_that_is_not_about_files_leaves_them_alone() {
    if !has_landlock(landlock::FILES) {
        return;
    }
    // Kernels before scopes have another kind of domain.
    for version in [landlock::FILES, landlock::version()] {
        let case = format!("version {version}");
        let ended = apart("a_domain_that_is_not_about_files_leaves_them_alone", &case, || {
            process::no_new_privileges().unwrap();
            Domain::default().enter_with(version).unwrap();
            let outside = rustix::process::getppid().unwrap().as_raw_nonzero();
            File::open(format!("/proc/{outside}/mem")).unwrap_err();
            move_files();
        });
        assert_eq!(ended, GOOD, "{version}");
    }
}

fn move_files() {
    fs::create_dir("a").unwrap();
    fs::create_dir("b").unwrap();
    fs::write("a/file", "x").unwrap();
    fs::rename("a/file", "b/file").unwrap();
    fs::hard_link("b/file", "a/link").unwrap();
    fs::rename("a", "b/a").unwrap();
    fs::write("b/a/link", "y").unwrap();
    assert_eq!(fs::read("b/file").unwrap(), b"y");
    File::open("/dev/null").unwrap();
}

#[test]
fn files_outside_of_the_grants_are_closed() {
    if !has_landlock(landlock::FILES) {
        return;
    }
    let ended = apart("files_outside_of_the_grants_are_closed", "only", || {
        for name in ["read", "write", "closed"] {
            fs::create_dir(name).unwrap();
            fs::write(format!("{name}/file"), "x").unwrap();
        }
        let files = vec![
            Grant::open("read", Access::Read).unwrap(),
            Grant::open("write", Access::Write).unwrap(),
        ];
        enter(Domain { files: Some(files), ..Domain::default() });
        let denied = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        };
        assert_eq!(fs::read("read/file").unwrap(), b"x");
        denied(fs::write("read/file", "y"));
        denied(fs::write("read/new", "y"));
        denied(fs::remove_file("read/file"));
        fs::write("write/new", "y").unwrap();
        fs::create_dir("write/below").unwrap();
        fs::rename("write/new", "write/below/new").unwrap();
        denied(fs::read("closed/file").map(drop));
        denied(fs::read_dir("closed").map(drop));
        denied(fs::write("closed/new", "y"));
        denied(Command::new("/bin/true").status().map(drop));
    });
    assert_eq!(ended, GOOD);
}

#[test]
fn temporary_files_need_no_right_to_make_files() {
    use rustix::fs::{Mode, OFlags};
    if !has_landlock(landlock::FILES) {
        return;
    }
    let open = |directory: &Path| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)
    };
    if open(&std::env::temp_dir()).is_err() {
        return requirements::skipped("this file system has no files without a name");
    }
    let ended = apart("temporary_files_need_no_right_to_make_files", "only", || {
        let files = vec![Grant::open(".", Access::Use).unwrap()];
        enter(Domain { files: Some(files), ..Domain::default() });
        let file = File::from(open(Path::new(".")).unwrap());
        file.set_len(10).unwrap();
        assert!(File::create("named").is_err());
    });
    assert_eq!(ended, GOOD);
}

#[test]
fn no_tcp_socket_is_bound_in_a_domain_without() {
    if !has_landlock(landlock::BIND_TCP) {
        return;
    }
    let ended = apart("no_tcp_socket_is_bound_in_a_domain_without", "only", || {
        enter(Domain { no_bind_tcp: true, ..Domain::default() });
        let bound = std::net::TcpListener::bind("127.0.0.1:0");
        assert_eq!(bound.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    });
    assert_eq!(ended, GOOD);
}

#[test]
fn the_router_can_do_what_it_does() {
    if !has_seccomp() {
        return;
    }
    let ended = apart("the_router_can_do_what_it_does", "only", || {
        fs::write("file", "x").unwrap();
        restrict(ROUTER);
        assert_eq!(fs::read("file").unwrap(), b"x");
        let threads: Vec<_> =
            (0..4).map(|n| std::thread::spawn(move || vec![n; 1 << 20])).collect();
        let sum: usize = threads.into_iter().map(|thread| thread.join().unwrap().len()).sum();
        assert_eq!(sum, 4 << 20);
        std::thread::sleep(std::time::Duration::from_millis(1));
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        std::os::unix::net::UnixStream::connect("/nonexistent").unwrap_err();
        crate::shm::create("test", 4096).unwrap();
    });
    assert_eq!(ended, GOOD);
}

#[test]
fn an_abort_of_the_router_is_still_one() {
    if !has_seccomp() {
        return;
    }
    let ended = apart("an_abort_of_the_router_is_still_one", "only", || {
        rustix::process::setrlimit(process::Resource::Core, NO_CORE).unwrap();
        restrict(ROUTER);
        std::process::abort();
    });
    assert_eq!(ended, Exit::Signal(libc::SIGABRT as u8));
}

/// Tries a denied action; returns true if it succeeds.
type Attempt = Box<dyn Fn() -> bool>;

#[test]
fn what_no_router_does_kills_it() {
    if !has_seccomp() {
        return;
    }
    let outside = rustix::process::getppid().unwrap().as_raw_nonzero().get() as usize;
    let attempts: [(&str, Attempt); 8] = [
        ("execve", Box::new(|| Command::new("/bin/true").exec().raw_os_error().is_none())),
        (
            "fork",
            Box::new(|| call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]).is_ok()),
        ),
        ("kill", Box::new(move || call(libc::SYS_kill, [outside, 0, 0, 0, 0, 0]).is_ok())),
        ("ptrace", Box::new(move || call(libc::SYS_ptrace, [16, outside, 0, 0, 0, 0]).is_ok())),
        ("pidfd_getfd", Box::new(|| call(libc::SYS_pidfd_getfd, [0; 6]).is_ok())),
        ("prctl", Box::new(|| call(libc::SYS_prctl, [DUMPABLE, 1, 0, 0, 0, 0]).is_ok())),
        ("listen", Box::new(|| call(libc::SYS_listen, [0; 6]).is_ok())),
        ("bpf", Box::new(|| call(libc::SYS_bpf, [0; 6]).is_ok())),
    ];
    for (name, attempt) in attempts {
        let ended = apart("what_no_router_does_kills_it", name, || {
            rustix::process::setrlimit(process::Resource::Core, NO_CORE).unwrap();
            restrict(ROUTER);
            attempt();
        });
        if std::env::var_os(CASE).is_none() {
            assert_eq!(ended, KILLED, "{name}");
        }
    }
}

#[test]
fn what_is_in_no_list_does_not_exist() {
    if !has_seccomp() {
        return;
    }
    let ended = apart("what_is_in_no_list_does_not_exist", "only", || {
        restrict(ROUTER);
        for number in [libc::SYS_swapon, libc::SYS_fanotify_init, libc::SYS_getpgid] {
            assert_eq!(call(number, [0; 6]), Err(libc::ENOSYS));
        }
        // Changes of directories can be watched, but not reads of files.
        let watch =
            |events: u32| call(libc::SYS_inotify_add_watch, [0, 0, events as usize, 0, 0, 0]);
        assert_eq!(watch(libc::IN_CREATE | libc::IN_OPEN), Err(libc::ENOSYS));
        assert_ne!(watch(libc::IN_CREATE), Err(libc::ENOSYS));
        let map = |protection| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            call(libc::SYS_mmap, [0, 4096, protection as usize, flags as usize, usize::MAX, 0])
        };
        assert_eq!(map(libc::PROT_READ | libc::PROT_EXEC), Err(libc::ENOSYS), "no code is made");
        assert!(map(libc::PROT_READ | libc::PROT_WRITE).is_ok());
        let raw = rustix::net::socket(
            rustix::net::AddressFamily::NETLINK,
            rustix::net::SocketType::RAW,
            None,
        );
        assert_eq!(raw.unwrap_err(), rustix::io::Errno::NOSYS);
    });
    assert_eq!(ended, GOOD);
}

#[test]
fn limits_of_other_processes_stay_what_they_are() {
    if !has_seccomp() {
        return;
    }
    let ended = apart("limits_of_other_processes_stay_what_they_are", "only", || {
        let outside = rustix::process::getppid();
        let set = |pid| rustix::process::prlimit(pid, process::Resource::Core, NO_CORE);
        process::no_new_privileges().unwrap();
        seccomp::deny_limits_of_others().unwrap();
        assert_eq!(set(outside), Err(rustix::io::Errno::PERM));
        set(None).unwrap();
        let pid = outside.unwrap().as_raw_nonzero().get() as usize;
        let mut old = [0u64; 2];
        let old = std::ptr::from_mut(&mut old) as usize;
        let asked = call(libc::SYS_prlimit64, [pid, libc::RLIMIT_CORE as usize, 0, old, 0, 0]);
        assert_eq!(asked, Ok(0), "they can be asked for");
        assert!(Command::new("/bin/true").status().unwrap().success());
    });
    assert_eq!(ended, GOOD);
}

#[test]
fn nothing_types_into_a_terminal() {
    if !has_seccomp() {
        return;
    }
    let ended = apart("nothing_types_into_a_terminal", "only", || {
        let null = File::open("/dev/null").unwrap();
        let (file, text) = (null.as_raw_fd() as usize, b"x".as_ptr() as usize);
        let ask = |request: usize| call(libc::SYS_ioctl, [file, request, text, 0, 0, 0]);
        let typing = libc::TIOCSTI as usize;
        assert_eq!(ask(typing), Err(libc::ENOTTY));
        process::no_new_privileges().unwrap();
        seccomp::deny_typing().unwrap();
        // The kernel takes a request by its lower half.
        for request in [typing, typing | 1 << 32, 0x541c] {
            assert_eq!(ask(request), Err(libc::EPERM), "{request:x}");
        }
        assert_eq!(ask(libc::FIONREAD as usize), Err(libc::ENOTTY));
        assert!(Command::new("/bin/true").status().unwrap().success());
    });
    assert_eq!(ended, GOOD);
}

#[test]
fn every_call_has_its_reason_and_none_is_in_both_lists_with_the_same_arguments() {
    for call in ROUTER.allowed {
        assert!(!call.why.is_empty());
        let deadly = ROUTER.killed.iter().find(|deadly| deadly.number == call.number);
        if let Some(deadly) = deadly {
            assert!(!call.arguments.is_empty() && !deadly.arguments.is_empty(), "{call:?}");
        }
    }
    for list in [ROUTER.allowed, ROUTER.killed] {
        let mut numbers: Vec<_> = list.iter().map(|call| call.number).collect();
        numbers.sort_unstable();
        let all = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
}

/// Makes a system call. Error: its number.
fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<libc::c_long, i32> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the callers make calls that are denied before the kernel looks at the arguments, that
    // take no pointers, that map fresh memory which nobody uses, or that write to a buffer which
    // lives as long as the call.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        result => Ok(result),
    }
}
