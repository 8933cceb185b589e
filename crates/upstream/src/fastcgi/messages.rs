//! What a FastCGI server writes to the log with an answer (STDERR).
//!
//! Records of the protocol may be as short as a byte, and each record of the log costs a line with
//! time and request: what comes together is one record of the log. A site has a limit
//! ([`LogLimit`]); above it no more is read from its servers until there is room, so nothing is
//! lost and nobody else waits.

use std::fmt::Display;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_http::timer::Timer;
use howdah_sys::log::{Level, Log};
use memchr::memrchr;
use tokio::time::Instant;

use crate::log_limit::LogLimit;

/// Bytes that are gathered for one record; what is longer goes on in another one.
pub const MAX_RECORD: usize = 64 << 10;

/// The messages of one answer.
pub struct Messages<W: Display> {
    /// What each record begins with.
    whose: W,
    log: Arc<Log>,
    limit: Arc<LogLimit>,
    gathered: Vec<u8>,
}

impl<W: Display> Messages<W> {
    /// None has come yet.
    pub fn new(whose: W, log: &Arc<Log>, limit: &Arc<LogLimit>) -> Self {
        let (log, limit) = (Arc::clone(log), Arc::clone(limit));
        Messages { whose, log, limit, gathered: Vec::new() }
    }

    /// Adds bytes, which are not written before one of the others is called.
    pub fn push(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
    }

    /// Bytes that are not written yet.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.gathered.len()
    }

    /// Writes what there is if it is as long as a record may be. Pending: the task is woken when there
    /// is room for it.
    pub fn poll_full(&mut self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        while self.gathered.len() >= MAX_RECORD {
            let lines = memrchr(b'\n', &self.gathered).map(|at| at + 1);
            ready!(self.poll_write(lines.unwrap_or(self.gathered.len()), timer, cx));
        }
        Poll::Ready(())
    }

    /// Writes the lines that are complete. Pending: the task is woken when there is room for them.
    pub fn poll_lines(&mut self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        match memrchr(b'\n', &self.gathered) {
            Some(at) => self.poll_write(at + 1, timer, cx),
            None => Poll::Ready(()),
        }
    }

    /// Writes all there is.
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
        let rest = self.gathered.split_off(len.min(self.gathered.len()));
        let message = std::mem::replace(&mut self.gathered, rest);
        let message = message.trim_ascii_end();
        if !message.is_empty() {
            let text = String::from_utf8_lossy(message);
            self.limit.write(&self.log, Level::Error, format_args!("{}: {text}", self.whose));
        }
        Poll::Ready(())
    }
}

impl<W: Display> Drop for Messages<W> {
    /// The answer was cut, or nobody wants it any more: nothing can wait for room.
    fn drop(&mut self) {
        let message = self.gathered.trim_ascii_end();
        if !message.is_empty() {
            let (text, whose) = (String::from_utf8_lossy(message), &self.whose);
            self.limit.write_or_count(&self.log, Level::Error, format_args!("{whose}: {text}"));
        }
    }
}
