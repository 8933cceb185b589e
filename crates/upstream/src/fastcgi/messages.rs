//! Log messages that a FastCGI server sends with a response (STDERR).
//!
//! A STDERR record may be as short as a byte, and each message in the log has a prefix with time
//! and request: bytes that arrive together become one message. Above the limit of the application
//! ([`LogLimit`]) its server is not read until there is room, so no message is lost and no other
//! application waits.

use std::fmt::Display;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_http::timer::Timer;
use howdah_sys::log::{Level, Log};
use memchr::{memmem, memrchr};
use tokio::time::Instant;

use crate::log_limit::LogLimit;

/// Maximum number of bytes of a message in the log; a longer one is split.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Messages of one response, each of which begins with `P`.
pub struct Messages<P: Display> {
    prefix: P,
    log: Arc<Log>,
    limit: Arc<LogLimit>,
    gathered: Vec<u8>,
    /// Number of bytes of `gathered` that were searched for a fatal error.
    searched: usize,
}

/// Beginnings of PHP's messages about errors that end a script.
const FATAL_ERRORS: [&[u8]; 3] =
    [b"PHP Fatal error: ", b"PHP Parse error: ", b"PHP Recoverable fatal error: "];

impl<P: Display> Messages<P> {
    /// Creates an empty buffer.
    pub fn new(prefix: P, log: &Arc<Log>, limit: &Arc<LogLimit>) -> Self {
        let (log, limit) = (Arc::clone(log), Arc::clone(limit));
        Messages { prefix, log, limit, gathered: Vec::new(), searched: 0 }
    }

    /// Adds bytes, for one of the `poll` functions to write.
    pub fn push(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
    }

    /// Returns true if the bytes that were added since the last call have PHP's message about an
    /// error that ends the script.
    pub fn has_fatal_error(&mut self) -> bool {
        // A record may end within the words.
        const LONGEST: usize = 27;
        let from = self.searched.saturating_sub(LONGEST).min(self.gathered.len());
        self.searched = self.gathered.len();
        let new = &self.gathered[from..];
        FATAL_ERRORS.iter().any(|words| memmem::find(new, words).is_some())
    }

    /// Returns the number of bytes that are not written yet.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.gathered.len()
    }

    /// Writes a message while there are enough bytes for one of the maximum length. Pending: the
    /// task is woken when the log has room.
    pub fn poll_full(&mut self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        while self.gathered.len() >= MAX_MESSAGE {
            let lines = memrchr(b'\n', &self.gathered).map(|at| at + 1);
            ready!(self.poll_write(lines.unwrap_or(self.gathered.len()), timer, cx));
        }
        Poll::Ready(())
    }

    /// Writes the complete lines. Pending: the task is woken when the log has room.
    pub fn poll_lines(&mut self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        match memrchr(b'\n', &self.gathered) {
            Some(at) => self.poll_write(at + 1, timer, cx),
            None => Poll::Ready(()),
        }
    }

    /// Writes all bytes. Pending: the task is woken when the log has room.
    pub fn poll_all(&mut self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_write(self.gathered.len(), timer, cx)
    }

    fn poll_write(&mut self, len: usize, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        if len == 0 {
            return Poll::Ready(());
        }
        loop {
            match self.limit.wait() {
                Duration::ZERO => break,
                wait => ready!(timer.poll(cx, Instant::now() + wait)),
            }
        }
        let len = len.min(self.gathered.len());
        self.searched = self.searched.saturating_sub(len);
        let rest = self.gathered.split_off(len);
        let message = std::mem::replace(&mut self.gathered, rest);
        let message = message.trim_ascii_end();
        if !message.is_empty() {
            let text = String::from_utf8_lossy(message);
            self.limit.write(&self.log, Level::Error, format_args!("{}: {text}", self.prefix));
        }
        Poll::Ready(())
    }
}

impl<P: Display> Drop for Messages<P> {
    /// Writes the rest of a response that has ended early, or counts it: a drop cannot wait for
    /// room.
    fn drop(&mut self) {
        let message = self.gathered.trim_ascii_end();
        if !message.is_empty() {
            let (text, prefix) = (String::from_utf8_lossy(message), &self.prefix);
            self.limit.write_or_count(&self.log, Level::Error, format_args!("{prefix}: {text}"));
        }
    }
}
