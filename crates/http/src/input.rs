//! What has been received and not been used yet.
//!
//! All reads of a thread go into one large buffer; what came is copied into a buffer of its own
//! size, or takes the large one with it if it filled half of it. So a connection that waits holds
//! nothing, one that trickles holds little, and a large upload is not copied.

use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Size of a read.
const READ: usize = 64 * 1024;

thread_local! {
    static SPARE: Cell<BytesMut> = Cell::new(BytesMut::new());
}

/// Received bytes.
#[derive(Default)]
pub struct Input {
    bytes: BytesMut,
}

impl Input {
    /// Reads once. The number of bytes that came; 0 at the end.
    pub fn poll_read<I: AsyncRead + Unpin>(
        &mut self,
        io: &mut I,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut spare = SPARE.take();
        if spare.capacity() < READ {
            spare = BytesMut::with_capacity(READ);
        }
        let result = pin!(io.read_buf(&mut spare)).poll(cx);
        if self.bytes.is_empty() && spare.len() >= READ / 2 {
            self.bytes = spare;
            return result;
        }
        if self.bytes.is_empty() {
            self.bytes = BytesMut::from(&spare[..]);
        } else {
            self.bytes.extend_from_slice(&spare);
        }
        spare.clear();
        SPARE.set(spare);
        Poll::Ready(Ok(ready!(result)?))
    }

    /// Whether so much waits already that reading ahead must stop.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= READ
    }

    /// All that waits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the first `len` bytes, or all if there are fewer.
    pub fn take(&mut self, len: usize) -> Bytes {
        if len >= self.bytes.len() {
            std::mem::take(&mut self.bytes).freeze()
        } else {
            self.bytes.split_to(len).freeze()
        }
    }

    /// Drops the first `len` bytes, or all if there are fewer.
    pub fn skip(&mut self, len: usize) {
        if len >= self.bytes.len() {
            self.clear();
        } else {
            self.bytes.advance(len); // to split it would share it, which is an allocation
        }
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.bytes = BytesMut::new();
    }
}
