//! Signals as a readable descriptor, and their reset in a new process.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use rustix::io::{self, Errno};

pub use libc::{
    SIGABRT, SIGBUS, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSEGV, SIGSTOP,
    SIGSYS, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: `sigemptyset` initialises the set that it is given; `sigaddset` takes a set that is
    // initialised and refuses numbers that are no signals.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        set
    }
}

/// Blocks these signals in the calling thread and returns a non-blocking descriptor that becomes
/// readable when one of them is pending.
pub fn descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: the set is initialised; the old mask is not requested.
    let blocked = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
    if blocked != 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: the set is initialised; the result is checked before use.
    let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    // SAFETY: `signalfd` has just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the next pending signal from a descriptor of [`descriptor`]; `None` if there is none.
pub fn next(fd: impl AsFd) -> Option<i32> {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut info = [0u8; SIZE];
    let n = rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut info)).ok()?;
    let number: [u8; 4] = info[..4].try_into().ok()?;
    (n == SIZE).then(|| i32::from_ne_bytes(number))
}

/// Resets every signal to its default disposition and empties the mask, for a new process before
/// exec.
pub fn reset() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: `SIG_DFL` is a valid disposition; for numbers that cannot be changed the call
        // fails and nothing happens.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let none = set_of(&[]);
    // SAFETY: the set is initialised; the old mask is not requested.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) };
}

/// Ignores SIGPIPE: a write to a closed pipe or socket is an error and does not end the process.
pub fn ignore_pipe() {
    // SAFETY: `SIG_IGN` is a valid disposition for SIGPIPE.
    unsafe { libc::signal(SIGPIPE, libc::SIG_IGN) };
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or(Errno::SRCH)?;
    let signal = rustix::process::Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    rustix::process::kill_process(pid, signal)
}

/// Sends a signal to all processes of the group that this process leads.
pub fn send_to_group(leader: u32, signal: i32) -> io::Result<()> {
    let leader = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw);
    let leader = leader.ok_or(Errno::SRCH)?;
    let signal = rustix::process::Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    rustix::process::kill_process_group(leader, signal)
}
