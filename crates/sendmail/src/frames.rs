//! Messages on the pipes of a submission, with time limits.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};

/// Maximum length of a message in bytes: the addresses of all recipients fit.
pub const MAX_FRAME: usize = 512 * 1024;

/// An end of a pipe that does not block.
#[derive(Debug)]
pub(crate) struct Pipe(OwnedFd);

impl Pipe {
    pub(crate) fn new(end: OwnedFd) -> io::Result<Pipe> {
        let flags = rustix::fs::fcntl_getfl(&end)?;
        rustix::fs::fcntl_setfl(&end, flags | OFlags::NONBLOCK)?;
        Ok(Pipe(end))
    }

    /// Writes a message.
    pub(crate) fn send(&self, message: &[u8], deadline: Instant) -> io::Result<()> {
        let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        for mut rest in [&length.to_le_bytes()[..], message] {
            while !rest.is_empty() {
                match retry_on_intr(|| rustix::io::write(&self.0, rest)) {
                    Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                    Err(Errno::AGAIN) => wait(&self.0, PollFlags::OUT, deadline)?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Reads a message. Error `UnexpectedEof` if the other end is closed.
    pub(crate) fn receive(&self, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.fill(&mut length, deadline)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_FRAME {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut message = vec![0; length];
        self.fill(&mut message, deadline)?;
        Ok(message)
    }

    fn fill(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
        let mut at = 0;
        while let Some(rest) = buffer.get_mut(at..).filter(|rest| !rest.is_empty()) {
            match retry_on_intr(|| rustix::io::read(&self.0, &mut *rest)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => at += read,
                Err(Errno::AGAIN) => wait(&self.0, PollFlags::IN, deadline)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Waits until a descriptor is ready. Error `TimedOut` after the deadline.
pub(crate) fn wait(fd: impl AsFd, flags: PollFlags, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let timeout = Timespec::try_from(left + Duration::from_millis(1)).ok();
    match poll(&mut [PollFd::new(&fd, flags)], timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
