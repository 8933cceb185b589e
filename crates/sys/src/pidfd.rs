//! Descriptors of processes, which never refer to another process with the same id.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{self, Errno};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A descriptor of a process.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process that has this id now. Error `SRCH` if there is none.
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        pidfd_open(pid, PidfdFlags::empty()).map(PidFd)
    }

    /// Sends a signal. Error `SRCH` if the process has ended and was reaped.
    pub fn send(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
        pidfd_send_signal(&self.0, signal)
    }

    /// Returns true if the process has ended, reaped or not.
    pub fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// The descriptor becomes readable when the process ends.
impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::signals;

    #[test]
    fn a_process_that_has_ended_is_not_another_one_with_its_id() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = PidFd::open(child.id()).unwrap();
        assert!(!process.has_ended());
        process.send(signals::SIGKILL).unwrap();
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        poll(&mut ended, None).unwrap();
        assert!(process.has_ended(), "before its parent knows");
        child.wait().unwrap();
        assert!(process.has_ended());
        assert_eq!(process.send(signals::SIGKILL), Err(Errno::SRCH));
    }

    #[test]
    fn there_is_no_process_without_an_id() {
        assert_eq!(PidFd::open(0).unwrap_err(), Errno::SRCH);
        assert_eq!(PidFd::open(u32::MAX).unwrap_err(), Errno::SRCH);
    }
}
