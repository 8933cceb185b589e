//! Output of body bytes, within the limits for sending.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::output::{FLUSH_SIZE, MAX_COPY};
use super::transport::{Io, Transport};
use crate::body::SendError;
use crate::body::in_kernel::KernelCopy;
use crate::limits::Limits;
use crate::memory::{Charge, FREE_BYTES, RESPONSES};
use crate::message::{Request, Trailer};

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
    /// The request whose owner answers for the memory of the output; `None` if it counts elsewhere.
    pub request: Option<&'c Request>,
    /// The memory of the output while the client does not read.
    pub charge: Option<Charge>,
    /// Number of the last bytes of the output that count elsewhere: a piece of a stream.
    pub counted: usize,
}

impl<I: Io> Sender<'_, I> {
    /// Sends all output.
    pub async fn flush(&mut self) -> Result<(), SendError> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Sends all output. The output that the client does not read counts as memory of the request's
    /// owner.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let transport = &mut *self.transport.borrow_mut();
        let poll = transport.poll_flush(cx, self.limits);
        match (poll.is_pending(), self.request) {
            (true, Some(request)) => {
                let new = || Charge::new(&RESPONSES, request.owner());
                let charge = self.charge.get_or_insert_with(new);
                transport.work.out.hold(charge, self.counted, &self.limits.temporary)?;
            }
            _ => self.charge = None,
        }
        poll.map_err(SendError::from)
    }

    /// Returns the number of bytes above which the output is sent before more is added. A piece
    /// that counts elsewhere does so until the next one.
    pub fn flush_size(&self) -> usize {
        if self.counted > 0 { FREE_BYTES } else { FLUSH_SIZE }
    }

    /// Passes bytes of the body to the output: up to [`MAX_COPY`] bytes are copied.
    pub async fn bytes(&mut self, bytes: Bytes) -> Result<(), SendError> {
        self.sent += bytes.len() as u64;
        let must_flush = {
            let out = &mut self.transport.borrow_mut().work.out;
            if bytes.len() <= MAX_COPY {
                out.put(&bytes);
                out.waiting() > self.flush_size()
            } else {
                out.put_large(bytes, b"");
                true
            }
        };
        if must_flush { self.flush().await } else { Ok(()) }
    }
}
