//! Output of a connection that the library keeps until the client takes it.
//!
//! Heads are not subject to flow control, and each stream may have a piece of its body in the
//! output. Beyond a small size, responses wait until the client has taken all. A connection whose
//! owner has memory left may keep more, so that many streams are sent together.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

use crate::memory::{Charge, FREE_BYTES, RESPONSES};
use crate::message::{FieldBlock, Request};

/// Bytes of output from which responses wait in any case.
const MAX_BYTES: usize = 128 << 10;

/// Approximate memory of a field in bytes, without its text.
const FIELD_BYTES: usize = 160;

/// Output of a connection.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Bytes that the client may not have taken.
    bytes: Cell<usize>,
    charge: RefCell<Option<Charge>>,
    /// Responses that wait for room.
    waiting: RefCell<Vec<Waker>>,
}

impl Output {
    /// Ready when there is room for another piece of a response to a request. [`Output::set_sent`]
    /// wakes the task.
    pub fn poll_room(&self, request: Option<&Request>, cx: &mut Context<'_>) -> Poll<()> {
        let bytes = self.bytes.get();
        if bytes < FREE_BYTES || (bytes < MAX_BYTES && self.may_keep_more(request)) {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Returns true if as much memory as a connection may have is counted, or can be.
    fn may_keep_more(&self, request: Option<&Request>) -> bool {
        let mut kept = self.charge.borrow_mut();
        if kept.is_none() {
            let Some(request) = request else { return false };
            let mut charge = Charge::new(&RESPONSES, request.owner());
            *kept = charge.hold(MAX_BYTES).then_some(charge);
        }
        kept.is_some()
    }

    /// Adds bytes that are passed to the library.
    pub fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Adds a head that is passed to the library.
    pub fn add_head(&self, fields: &FieldBlock) {
        let text = fields.as_bytes();
        self.add(text.len() + memchr::memchr_iter(b'\n', text).count() * FIELD_BYTES);
    }

    /// Notes that the client has taken all.
    pub fn set_sent(&self) {
        if self.bytes.replace(0) > 0 {
            self.charge.take();
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::request;

    #[test]
    fn responses_wait_for_output_that_was_not_taken() {
        let request = request("/", &[]);
        let mut cx = Context::from_waker(Waker::noop());
        let mut fields = FieldBlock::default();
        fields.push("x", "v".repeat(10_000));
        let mut heads = |output: &Output, request| {
            let mut heads = 0;
            while output.poll_room(request, &mut cx).is_ready() {
                output.add_head(&fields);
                heads += 1;
            }
            assert!(output.poll_room(request, &mut cx).is_pending());
            heads
        };
        let output = Output::default();
        assert_eq!(heads(&output, Some(&request)), MAX_BYTES / 10_000);
        assert!(!output.waiting.borrow().is_empty());
        output.set_sent();
        assert!(output.waiting.borrow().is_empty() && output.charge.borrow().is_none());
        assert_eq!(heads(&output, None), 2, "without memory, little is kept");
    }
}
