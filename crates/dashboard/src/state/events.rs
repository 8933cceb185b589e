//! Server-sent events: each open page gets the messages of the state.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use howdah_http::body::BodyStream;

use super::State;

/// Maximum number of messages that wait for a slow client. It then gets everything anew.
const MAX_WAITING: usize = 4;

/// An open page.
#[derive(Debug)]
pub(crate) struct Subscriber {
    /// The session that the page belongs to.
    pub(crate) session: u64,
    waiting: RefCell<VecDeque<Bytes>>,
    waker: RefCell<Option<Waker>>,
    /// The next message must have everything.
    needs_all: Cell<bool>,
    is_ended: Cell<bool>,
}

impl Subscriber {
    /// Returns a page that has got nothing so far.
    pub(crate) fn new(session: u64) -> Subscriber {
        Subscriber {
            session,
            waiting: RefCell::default(),
            waker: RefCell::default(),
            needs_all: Cell::new(true),
            is_ended: Cell::new(false),
        }
    }

    /// Sends a message with differences.
    pub(crate) fn send(&self, message: &Bytes) {
        if !self.needs_all.get() {
            let mut waiting = self.waiting.borrow_mut();
            if waiting.len() < MAX_WAITING {
                waiting.push_back(message.clone());
            } else {
                waiting.clear();
                self.needs_all.set(true);
            }
        }
        self.wake();
    }

    /// Ends the stream.
    pub(crate) fn end(&self) {
        self.is_ended.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The body of a response with events.
pub(crate) struct Events {
    pub(crate) subscriber: Rc<Subscriber>,
    pub(crate) state: Rc<State>,
}

impl BodyStream for Events {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let page = &self.subscriber;
        if page.is_ended.get() {
            return Poll::Ready(None);
        }
        if page.needs_all.replace(false) {
            page.waiting.borrow_mut().clear();
            return Poll::Ready(Some(Ok(self.state.everything())));
        }
        if let Some(message) = page.waiting.borrow_mut().pop_front() {
            return Poll::Ready(Some(Ok(message)));
        }
        page.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn len(&self) -> Option<u64> {
        None
    }
}

/// Returns a message of a type with an object.
pub(crate) fn message(kind: &str, data: &serde_json::Value) -> Bytes {
    // JSON has no line ends.
    Bytes::from(format!("event: {kind}\ndata: {data}\n\n"))
}
