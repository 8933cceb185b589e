//! What is to be sent: heads and small bodies in one buffer, a large piece beside it.
//!
//! Responses to pipelined requests gather in the buffer and leave in one write. The buffer is
//! lent by the thread, so a connection that has nothing to send holds none.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

/// Bodies up to this size are copied behind their head; beyond, a second slice costs less.
pub(super) const COPY: usize = 16 * 1024;

/// When the buffer holds this much it is sent before more is added.
pub(super) const ENOUGH: usize = 64 * 1024;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes on their way out.
#[derive(Default)]
pub(super) struct Output {
    buffer: Vec<u8>,
    /// Bytes of the buffer that are sent.
    at: usize,
    /// Goes after the buffer.
    tail: Bytes,
    /// Goes after the tail.
    end: &'static [u8],
    /// All bytes that were ever put here.
    queued: u64,
    /// Something was written that the transport may still hold.
    unflushed: bool,
}

impl Output {
    /// Adds bytes. Nothing large may be waiting: see [`Output::put_large`].
    pub fn put(&mut self, bytes: &[u8]) {
        debug_assert!(self.tail.is_empty() && self.end.is_empty());
        if self.buffer.capacity() == 0 {
            self.buffer = SPARE.take();
        }
        self.buffer.extend_from_slice(bytes);
        self.queued += bytes.len() as u64;
    }

    /// Adds a large piece, and some bytes after it, that must be sent before anything is added.
    pub fn put_large(&mut self, bytes: Bytes, end: &'static [u8]) {
        self.queued += (bytes.len() + end.len()) as u64;
        self.tail = bytes;
        self.end = end;
    }

    /// Notes bytes that were sent past this buffer.
    pub fn passed(&mut self, bytes: u64) {
        self.queued += bytes;
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.at + self.tail.len() + self.end.len()
    }

    /// Bytes that were put here so far, sent or not.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// The bytes of the buffer that wait.
    pub fn head(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// Whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0 && !self.unflushed
    }

    /// Sends. Ready with the number of bytes as soon as there is progress; 0 when all is sent.
    pub fn poll_write<I: AsyncWrite + Unpin>(
        &mut self,
        io: &mut I,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.waiting() == 0 {
            if self.unflushed {
                ready!(Pin::new(io).poll_flush(cx))?;
                self.unflushed = false;
            }
            return Poll::Ready(Ok(0));
        }
        let io = Pin::new(io);
        let written = if self.tail.is_empty() && self.end.is_empty() {
            ready!(io.poll_write(cx, self.head()))?
        } else {
            let slices =
                [IoSlice::new(self.head()), IoSlice::new(&self.tail), IoSlice::new(self.end)];
            ready!(io.poll_write_vectored(cx, &slices))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.unflushed = true;
        self.advance(written);
        Poll::Ready(Ok(written))
    }

    /// Removes bytes that were sent.
    pub fn advance(&mut self, mut sent: usize) {
        let head = sent.min(self.buffer.len() - self.at);
        self.at += head;
        sent -= head;
        if self.at == self.buffer.len() {
            self.release();
        }
        let tail = sent.min(self.tail.len());
        self.tail.advance(tail);
        if self.tail.is_empty() {
            self.tail = Bytes::new();
        }
        sent -= tail;
        self.end = self.end.get(sent..).unwrap_or_default();
    }

    /// Forgets what waits: it cannot be sent.
    pub fn clear(&mut self) {
        self.queued -= self.waiting() as u64;
        self.release();
        self.tail = Bytes::new();
        self.end = &[];
        self.unflushed = false;
    }

    fn release(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.at = 0;
        buffer.clear();
        // A buffer that grew large is not kept.
        if buffer.capacity() <= 2 * ENOUGH {
            SPARE.set(buffer);
        }
    }
}
