//! Messages in one direction through a pipe.
//!
//! A socket would carry descriptors too. The kernel closes descriptors that the reader does not
//! take, in the reader's context, and closing some of them can take hours (a TCP connection that
//! lingers). A process that must not be blocked by a hostile one therefore reads from a pipe. Each
//! message is preceded by its length.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{self, Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

/// Maximum size of one read, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// Size of the length before each message, in bytes.
const PREFIX: usize = 4;

/// Creates a pipe, closed on exec. Returns its reading end, which never blocks, and its writing
/// end, which does.
pub fn new() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // Each end has its own open file description: the writer cannot change the reader's mode.
    rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// Writes one message; waits until there is room for it.
pub fn send(pipe: impl AsFd, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| Errno::MSGSIZE)?;
    let mut packet = Vec::with_capacity(PREFIX + message.len());
    packet.extend_from_slice(&length.to_le_bytes());
    packet.extend_from_slice(message);
    let mut rest = &packet[..];
    while !rest.is_empty() {
        let written = retry_on_intr(|| io::write(&pipe, rest))?;
        rest = &rest[written..];
    }
    Ok(())
}

/// Result of [`Reader::receive`].
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(Vec<u8>),
    /// There is no complete message.
    Empty,
    /// All writers have closed the pipe.
    Closed,
}

/// Reads messages from a pipe.
#[derive(Debug)]
pub struct Reader {
    limit: usize,
    buffer: Vec<u8>,
}

impl Reader {
    /// Creates a reader of messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Reader { limit, buffer: Vec::new() }
    }

    /// Receives the next message from a pipe whose reading end does not block. Error `MSGSIZE` if
    /// the message is too long; the pipe can no longer be used then.
    pub fn receive(&mut self, pipe: impl AsFd) -> io::Result<Received> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Received::Message(message));
            }
            let start = self.buffer.len();
            self.buffer.resize(start + READ_BYTES, 0);
            let read = retry_on_intr(|| io::read(&pipe, &mut self.buffer[start..]));
            self.buffer.truncate(start + read.unwrap_or(0));
            match read {
                Ok(0) => return Ok(Received::Closed),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(Received::Empty),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if [`Reader::receive`] returns a message or an error without reading.
    pub fn has_read(&self) -> bool {
        self.buffer.split_first_chunk::<PREFIX>().is_some_and(|(prefix, rest)| {
            let length = u32::from_le_bytes(*prefix) as usize;
            length > self.limit || rest.len() >= length
        })
    }

    /// Takes a complete message from the buffer.
    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > self.limit {
            return Err(Errno::MSGSIZE);
        }
        let Some(message) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.buffer.drain(..PREFIX + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn messages_arrive_whole_and_in_order_however_they_are_cut() {
        let (read, write) = new().unwrap();
        let mut reader = Reader::new(1000);
        assert_eq!(reader.receive(&read), Ok(Received::Empty));
        assert!(!reader.has_read());
        let long = vec![7; 1000];
        send(&write, b"").unwrap();
        send(&write, &long).unwrap();
        for byte in [2, 0, 0, 0, b'h', b'i'] {
            io::write(&write, &[byte]).unwrap();
            if byte == b'h' {
                assert_eq!(reader.receive(&read), Ok(Received::Message(Vec::new())));
                assert!(reader.has_read());
                assert_eq!(reader.receive(&read), Ok(Received::Message(long.clone())));
                assert_eq!(reader.receive(&read), Ok(Received::Empty), "half a message");
            }
        }
        drop(write);
        assert_eq!(reader.receive(&read), Ok(Received::Message(b"hi".to_vec())));
        // A process that another test has just forked has the end for writing too, for a moment.
        while reader.receive(&read) != Ok(Received::Closed) {
            let _ = poll(&mut [PollFd::new(&read, PollFlags::IN)], None);
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_an_error_before_it_has_come() {
        let (read, write) = new().unwrap();
        io::write(&write, &1001u32.to_le_bytes()).unwrap();
        assert_eq!(Reader::new(1000).receive(&read), Err(Errno::MSGSIZE));
    }

    #[test]
    fn a_reader_does_not_wait_whatever_the_writer_does() {
        let (read, write) = new().unwrap();
        rustix::fs::fcntl_setfl(&write, rustix::fs::OFlags::empty()).unwrap();
        assert_eq!(Reader::new(9).receive(&read), Ok(Received::Empty));
    }
}
