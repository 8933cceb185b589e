//! Runs the commands of a deployment.
//!
//! A command runs code of the user of the site, and root often starts the deployment at a terminal.
//! So it has a session of its own: in that of the terminal it could put characters into root's input
//! (`TIOCSTI`). The keys of the terminal do not reach it there: signals that ask the deployment to
//! end are passed on.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use howdah_sys::credentials::Credentials;
use howdah_sys::pidfd::PidFd;
use howdah_sys::process::{self, Exit, Forked};
use howdah_sys::signals;
use rustix::event::{PollFd, PollFlags, poll};

/// Exit status of a process that could not become the user of the site.
const NOT_THE_USER: i32 = 126;

/// Runs a command as a user (`None`: that of this process) to its end. The first signal of `ends` is
/// sent to the command and all in its process group; the second one kills them. Error: it cannot be
/// run (exit status 127), has failed, or a signal has come.
pub(super) fn run(
    command: &mut Command,
    user: Option<&Credentials>,
    ends: &OwnedFd,
) -> Result<(), String> {
    command.stdin(Stdio::null());
    let pid = match process::fork().map_err(|error| error.to_string())? {
        Forked::Parent(pid) => pid,
        Forked::Child => {
            let is_apart = rustix::process::setsid().is_ok();
            if !is_apart || user.is_some_and(|user| user.assume().is_err()) {
                process::exit_now(NOT_THE_USER);
            }
            // Signals that this process has blocked or ignores end the command as usual.
            signals::reset();
            let _ = command.exec();
            process::exit_now(127);
        }
    };
    let asked = pass_signals_on(pid, ends);
    match (process::wait_for(pid), asked) {
        (_, Some(signal)) => Err(format!("the command was ended by signal {signal}")),
        (Some(Exit::Status(0)), None) => Ok(()),
        (Some(Exit::Status(status)), None) => match user {
            Some(user) if i32::from(status) == NOT_THE_USER => {
                Err(format!("exit status: {status}; it may not become the user \"{}\"", user.name))
            }
            _ => Err(format!("exit status: {status}")),
        },
        (Some(Exit::Signal(signal)), None) => Err(format!("it was ended by signal {signal}")),
        (None, None) => Err("its end is not known".to_owned()),
    }
}

/// Waits until a process has ended, and passes signals on to its group. Returns the first one.
fn pass_signals_on(pid: u32, ends: &OwnedFd) -> Option<i32> {
    // Its parent has not waited for it, so the id is that of no other process.
    let ended = PidFd::open(pid).ok()?;
    let mut first = None;
    while !ended.has_ended() {
        let mut ready = [PollFd::new(&ended, PollFlags::IN), PollFd::new(ends, PollFlags::IN)];
        let _ = poll(&mut ready, None);
        while let Some(signal) = signals::next(ends) {
            let sent = if first.is_none() { signal } else { signals::SIGKILL };
            first = first.or(Some(signal));
            // Before its session has begun, it is not the leader of a group.
            if signals::send_to_group(pid, sent).is_err() {
                let _ = ended.send(sent);
            }
        }
    }
    first
}
