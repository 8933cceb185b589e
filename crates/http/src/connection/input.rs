//! Input buffer of a connection.
//!
//! All reads of a thread use one large buffer. The received bytes are copied into a buffer of their
//! size; if they fill half of the large buffer, the connection keeps that one. So an idle
//! connection has no buffer, one with little input a small one, and large uploads are not copied.

use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes per read.
const READ_SIZE: usize = 64 * 1024;

/// Maximum number of bytes of a read whose data may have to wait.
const SMALL_READ_SIZE: usize = 16 * 1024;

thread_local! {
    static SPARE_BUFFER: Cell<BytesMut> = Cell::new(BytesMut::new());
}

/// Bytes that were received and not consumed yet.
#[derive(Default)]
pub struct Input {
    bytes: BytesMut,
}

impl Input {
    /// Reads once, and returns the number of bytes; 0 at the end.
    pub fn poll_read<I: AsyncRead + Unpin>(
        &mut self,
        io: &mut I,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_read_up_to(READ_SIZE, io, cx)
    }

    /// Reads once, like [`Input::poll_read`], but little: the bytes may have to wait.
    pub fn poll_read_ahead<I: AsyncRead + Unpin>(
        &mut self,
        io: &mut I,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_read_up_to(SMALL_READ_SIZE, io, cx)
    }

    fn poll_read_up_to<I: AsyncRead + Unpin>(
        &mut self,
        max: usize,
        io: &mut I,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut spare = SPARE_BUFFER.take();
        if spare.capacity() < READ_SIZE {
            spare = BytesMut::with_capacity(READ_SIZE);
        }
        let result = pin!(io.read_buf(&mut (&mut spare).limit(max))).poll(cx);
        if self.bytes.is_empty() && spare.len() >= READ_SIZE / 2 {
            self.bytes = spare;
            return result;
        }
        if self.bytes.is_empty() {
            self.bytes = BytesMut::from(&spare[..]);
        } else {
            self.bytes.extend_from_slice(&spare);
        }
        spare.clear();
        SPARE_BUFFER.set(spare);
        Poll::Ready(Ok(ready!(result)?))
    }

    /// Returns true if the input is so large that reading ahead must stop.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= SMALL_READ_SIZE
    }

    /// Returns all bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes and returns the first `len` bytes, or all if there are fewer.
    pub fn take(&mut self, len: usize) -> Bytes {
        if len >= self.bytes.len() {
            std::mem::take(&mut self.bytes).freeze()
        } else {
            self.bytes.split_to(len).freeze()
        }
    }

    /// Removes the first `len` bytes, or all if there are fewer.
    pub fn skip(&mut self, len: usize) {
        if len >= self.bytes.len() {
            self.clear();
        } else {
            self.bytes.advance(len); // to split the buffer would share it, which allocates
        }
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.bytes = BytesMut::new();
    }
}

#[cfg(test)]
impl From<&[u8]> for Input {
    fn from(bytes: &[u8]) -> Input {
        Input { bytes: BytesMut::from(bytes) }
    }
}
