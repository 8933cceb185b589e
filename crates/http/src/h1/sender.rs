//! Output of body bytes, within the limits for sending.

use std::cell::RefCell;
use std::future::poll_fn;

use bytes::Bytes;

use super::output::{FLUSH_SIZE, MAX_COPY};
use super::transport::{Io, Transport};
use crate::body::SendError;
use crate::body::in_kernel::KernelCopy;
use crate::limits::Limits;
use crate::message::Trailer;

/// Sender of one body.
pub(super) struct Sender<'c, I> {
    pub transport: &'c RefCell<Transport<I>>,
    pub limits: &'c Limits,
    /// Bytes of the body passed to the output.
    pub sent: u64,
    /// Trailer after the last chunk.
    pub trailer: Option<Trailer>,
    /// A copy of the body that the kernel can send.
    pub in_kernel: Option<Box<dyn KernelCopy>>,
}

impl<I: Io> Sender<'_, I> {
    /// Sends all output.
    pub async fn flush(&self) -> Result<(), SendError> {
        poll_fn(|cx| self.transport.borrow_mut().poll_flush(cx, self.limits)).await?;
        Ok(())
    }

    /// Passes bytes of the body to the output: up to [`MAX_COPY`] bytes are copied.
    pub async fn bytes(&mut self, bytes: Bytes) -> Result<(), SendError> {
        self.sent += bytes.len() as u64;
        let must_flush = {
            let out = &mut self.transport.borrow_mut().work.out;
            if bytes.len() <= MAX_COPY {
                out.put(&bytes);
                out.waiting() > FLUSH_SIZE
            } else {
                out.put_large(bytes, b"");
                true
            }
        };
        if must_flush { self.flush().await } else { Ok(()) }
    }
}
