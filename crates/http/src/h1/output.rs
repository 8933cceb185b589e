//! The output of a connection: a buffer for heads and short bodies, and one large piece after it.
//! While the client does not read, the output beyond the limits of memory is in a file.
//!
//! Responses to pipelined requests are collected in the buffer and sent in one write. A thread
//! keeps a spare buffer for its connections, so a connection without output has none.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use crate::body::spilled::Spilled;
use crate::memory::{Charge, FREE_BYTES};

/// Maximum length in bytes of a body that is copied into the buffer. Beyond, a second slice of a
/// vectored write costs less.
pub(crate) const MAX_COPY: usize = 16 * 1024;

/// Number of bytes above which the output is sent before more is added.
pub(crate) const FLUSH_SIZE: usize = 64 * 1024;

thread_local! {
    static SPARE_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes to be sent.
#[derive(Default)]
pub(crate) struct Output {
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that were sent.
    sent: usize,
    /// Large piece after the buffer.
    large: Bytes,
    /// Its length before any of it was sent.
    whole: usize,
    /// Bytes after the large piece.
    end: &'static [u8],
    /// Bytes after the large piece that are in a file: while there are any, all further ones go
    /// there.
    spilled: Option<Box<Spilled>>,
    /// The file failed.
    has_failed: bool,
    /// Number of bytes of all output so far.
    queued: u64,
    /// The stream may still hold bytes that were written to it.
    needs_flush: bool,
}

impl Output {
    /// Appends bytes to the buffer. There must be no large piece: see [`Output::put_large`].
    pub fn put(&mut self, bytes: &[u8]) {
        self.queued += bytes.len() as u64;
        if let Some(spilled) = &mut self.spilled {
            self.has_failed |= spilled.push(bytes).is_err();
            return;
        }
        debug_assert!(self.large.is_empty() && self.end.is_empty());
        if self.buffer.capacity() == 0 {
            self.buffer = SPARE_BUFFER.take();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Appends a large piece and the bytes after it. Callers append more only when both are sent.
    pub fn put_large(&mut self, bytes: Bytes, end: &'static [u8]) {
        if self.spilled.is_some() {
            self.put(&bytes);
            return self.put(end);
        }
        self.queued += (bytes.len() + end.len()) as u64;
        self.whole = bytes.len();
        self.large = bytes;
        self.end = end;
    }

    /// Counts bytes that were sent without this output, by `sendfile`.
    pub fn bypassed(&mut self, bytes: u64) {
        self.queued += bytes;
    }

    /// Returns the number of bytes to be sent.
    pub fn waiting(&self) -> usize {
        let spilled = self.spilled.as_ref().map_or(0, |spilled| spilled.len());
        self.buffer.len() - self.sent
            + self.large.len()
            + self.end.len()
            + usize::try_from(spilled).unwrap_or(usize::MAX >> 1)
    }

    /// Counts the bytes in memory, of which the client takes none at the moment, without the last
    /// `counted` ones, which count elsewhere. Those that may not stay there go to a file in
    /// `directory`.
    pub fn hold(
        &mut self,
        charge: &mut Charge,
        counted: usize,
        directory: &Path,
    ) -> io::Result<()> {
        if self.spilled.is_some() {
            charge.release();
            return Ok(());
        }
        // The rest of a large piece would keep all of it.
        if self.large.len() <= self.whole / 2 && self.large.is_unique() {
            (self.large, self.whole) = (Bytes::copy_from_slice(&self.large), self.large.len());
        }
        let (own, large) = match counted {
            0 => (self.buffer.len(), Some(&self.large)),
            _ if self.large.is_empty() => (self.buffer.len().saturating_sub(counted), None),
            _ => (self.buffer.len(), None),
        };
        if charge.hold_with(own, large, self.whole) {
            return Ok(());
        }
        charge.release();
        let mut spilled = Spilled::new(directory, Some(charge.owner()))?;
        for part in [self.buffered(), &self.large, self.end] {
            spilled.push(part)?;
        }
        self.release();
        (self.large, self.end) = (Bytes::new(), &[]);
        self.spilled = Some(Box::new(spilled));
        Ok(())
    }

    /// Takes the next bytes out of the file, once those before it were sent.
    fn load(&mut self) -> io::Result<()> {
        if self.has_failed {
            return Err(io::ErrorKind::Other.into());
        }
        if self.buffered().is_empty()
            && self.large.is_empty()
            && let Some(spilled) = &mut self.spilled
        {
            self.large = spilled.pop(FREE_BYTES)?;
        }
        Ok(())
    }

    /// Returns the number of bytes of all output so far, sent or not.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns true if a part of the output is in a file.
    pub fn is_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Returns the unsent bytes of the buffer.
    pub fn buffered(&self) -> &[u8] {
        self.buffer.get(self.sent..).unwrap_or_default()
    }

    /// Returns true if all output was sent.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0 && !self.needs_flush
    }

    /// Sends output. Ready with the number of bytes after the first write; 0 when all output was
    /// sent.
    pub fn poll_write<I: AsyncWrite + Unpin>(
        &mut self,
        io: &mut I,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.waiting() == 0 {
            if self.needs_flush {
                ready!(Pin::new(io).poll_flush(cx))?;
                self.needs_flush = false;
            }
            return Poll::Ready(Ok(0));
        }
        self.load()?;
        let io = Pin::new(io);
        let written = if self.large.is_empty() && self.end.is_empty() {
            ready!(io.poll_write(cx, self.buffered()))?
        } else {
            let slices =
                [IoSlice::new(self.buffered()), IoSlice::new(&self.large), IoSlice::new(self.end)];
            ready!(io.poll_write_vectored(cx, &slices))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.needs_flush = true;
        self.advance(written);
        Poll::Ready(Ok(written))
    }

    /// Removes bytes that were sent.
    pub fn advance(&mut self, count: usize) {
        let buffered = count.min(self.buffer.len() - self.sent);
        self.sent += buffered;
        if self.sent == self.buffer.len() {
            self.release();
        }
        let large = (count - buffered).min(self.large.len());
        self.large.advance(large);
        if self.large.is_empty() {
            self.large = Bytes::new();
        }
        self.end = self.end.get(count - buffered - large..).unwrap_or_default();
        if self.large.is_empty() && self.spilled.as_ref().is_some_and(|spilled| spilled.len() == 0)
        {
            self.spilled = None;
        }
    }

    /// Drops all output: it cannot be sent.
    pub fn clear(&mut self) {
        self.queued -= self.waiting() as u64;
        self.release();
        self.large = Bytes::new();
        self.end = &[];
        (self.spilled, self.has_failed) = (None, false);
        self.needs_flush = false;
    }

    /// Returns the buffer to the thread.
    fn release(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.sent = 0;
        buffer.clear();
        // A buffer that grew large is not kept.
        if buffer.capacity() <= 2 * FLUSH_SIZE {
            SPARE_BUFFER.set(buffer);
        }
    }
}
