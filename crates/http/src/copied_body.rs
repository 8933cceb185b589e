//! Copies of request bodies: [`CopiedBody`] keeps one while a handler reads the body, and
//! [`StoredBody`] gives it to another request.

use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::body::BodySource;
use crate::exchange::{BodyError, Carrier, Disconnect};
use crate::message::FieldBlock;

/// Carrier that keeps a copy of the body. It neither reads more than the handler does nor delays
/// it.
pub struct CopiedBody<'c> {
    carrier: &'c dyn Carrier,
    max: u64,
    copy: RefCell<Vec<u8>>,
    state: Cell<CopyState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyState {
    Reading,
    Whole,
    /// The body is too long, or could not be read.
    Lost,
}

impl<'c> CopiedBody<'c> {
    /// Wraps a carrier. Bodies of more than `max` bytes are not kept.
    pub fn new(carrier: &'c dyn Carrier, max: u64) -> Self {
        let state = match carrier.body_len() {
            Some(0) => CopyState::Whole,
            Some(length) if length > max => CopyState::Lost,
            _ => CopyState::Reading,
        };
        CopiedBody { carrier, max, copy: RefCell::default(), state: Cell::new(state) }
    }

    /// Returns the copy of a body that was read to its end.
    pub fn take(&self) -> Option<Bytes> {
        (self.state.get() == CopyState::Whole).then(|| self.copy.take().into())
    }

    fn keep(&self, part: &Result<Option<Bytes>, BodyError>) {
        let copy = &mut *self.copy.borrow_mut();
        let state = match part {
            Ok(Some(bytes)) if (copy.len() + bytes.len()) as u64 <= self.max => {
                copy.extend_from_slice(bytes);
                match self.carrier.body_len() {
                    Some(length) if length == copy.len() as u64 => CopyState::Whole,
                    _ => CopyState::Reading,
                }
            }
            Ok(None) => CopyState::Whole,
            _ => CopyState::Lost,
        };
        if state == CopyState::Lost {
            *copy = Vec::new();
        }
        self.state.set(state);
    }
}

impl BodySource for CopiedBody<'_> {
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let polled = self.carrier.poll_body(cx);
        if let (Poll::Ready(part), CopyState::Reading) = (&polled, self.state.get()) {
            self.keep(part);
        }
        polled
    }

    fn trailer(&self) -> Bytes {
        self.carrier.trailer()
    }
}

impl Carrier for CopiedBody<'_> {
    fn body_len(&self) -> Option<u64> {
        self.carrier.body_len()
    }

    fn limit_body(&self, max: u64) {
        self.carrier.limit_body(max);
    }

    fn awaits_body(&self, waits: bool) {
        self.carrier.awaits_body(waits);
    }

    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        self.carrier.queue_interim(status, fields)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carrier.poll_flush(cx)
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        self.carrier.poll_gone(cx)
    }
}

/// Carrier of a request of the server itself, which no client waits for, with its body.
#[derive(Debug)]
pub struct StoredBody {
    rest: RefCell<Option<Bytes>>,
    length: u64,
}

impl StoredBody {
    /// Creates the carrier of a body.
    pub fn new(body: Bytes) -> StoredBody {
        let length = body.len() as u64;
        StoredBody { rest: RefCell::new(Some(body).filter(|body| !body.is_empty())), length }
    }
}

impl BodySource for StoredBody {
    fn poll_body(&self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        Poll::Ready(Ok(self.rest.take()))
    }
}

impl Carrier for StoredBody {
    fn body_len(&self) -> Option<u64> {
        Some(self.length)
    }

    fn limit_body(&self, _: u64) {}

    fn queue_interim(&self, _: u16, _: &FieldBlock) -> io::Result<()> {
        Ok(())
    }

    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_gone(&self, _: &mut Context<'_>) -> Poll<Disconnect> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body of these parts through a copy of at most `max` bytes.
    fn copy(parts: &[&'static str], max: u64, reads: usize) -> Option<Bytes> {
        let whole = StoredBody::new(Bytes::from(parts.concat()));
        let copied = CopiedBody::new(&whole, max);
        let mut context = Context::from_waker(std::task::Waker::noop());
        for _ in 0..reads {
            assert!(copied.poll_body(&mut context).is_ready());
        }
        copied.take()
    }

    #[test]
    fn a_body_is_kept_if_it_was_read_and_is_not_too_long() {
        assert_eq!(copy(&["abc"], 3, 1).as_deref(), Some(&b"abc"[..]));
        assert_eq!(copy(&["abc"], 3, 2).as_deref(), Some(&b"abc"[..]));
        assert_eq!(copy(&["abc"], 3, 0), None, "the handler has not read it");
        assert_eq!(copy(&["abc"], 2, 2), None, "it is too long");
        assert_eq!(copy(&[], 0, 0).as_deref(), Some(&b""[..]));
    }
}
