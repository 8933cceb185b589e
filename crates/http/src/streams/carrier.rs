//! The connection of an exchange: request body, interim responses, disconnection of the client.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::admission::StreamMemory;
use super::direction::{Incoming, Outgoing};
use super::shared::Shared;
use crate::body::{BodyError, BodySource};
use crate::exchange::{Carrier, Disconnect};
use crate::limits::Limits;
use crate::message::{FieldBlock, Request};
use crate::timer::{ProgressDeadline, Throughput, Timer};

/// The carrier of one request.
pub(crate) struct StreamCarrier<'c, I, O> {
    limits: Rc<Limits>,
    shared: Rc<Shared>,
    memory: &'c StreamMemory,
    /// True while the handler waits for more of the body.
    awaits_body: Cell<bool>,
    /// Length of the body in bytes, if it is announced.
    length: Option<u64>,
    body: RefCell<Body<I>>,
    /// The direction of the response, until that is sent.
    outgoing: RefCell<Option<O>>,
}

/// State of reading a request body.
struct Body<I> {
    incoming: I,
    /// Bytes returned so far.
    received: u64,
    /// Maximum length in bytes.
    max: u64,
    end: Option<Result<(), BodyError>>,
    /// The client waits for `100 Continue`.
    expects_continue: bool,
    timer: Timer,
    rate: Throughput,
    deadline: ProgressDeadline,
}

impl<'c, I: Incoming, O: Outgoing> StreamCarrier<'c, I, O> {
    /// Creates the carrier of a request. `length` is that of the body in bytes, if it is announced.
    pub fn new(
        incoming: I,
        outgoing: O,
        shared: &Rc<Shared>,
        memory: &'c StreamMemory,
        limits: &Rc<Limits>,
        length: Option<u64>,
        expects_continue: bool,
    ) -> Self {
        let body = Body {
            incoming,
            received: 0,
            max: limits.max_body,
            end: None,
            expects_continue,
            timer: Timer::default(),
            rate: Throughput::default(),
            deadline: ProgressDeadline::default(),
        };
        StreamCarrier {
            limits: Rc::clone(limits),
            shared: Rc::clone(shared),
            memory,
            awaits_body: Cell::new(false),
            length,
            body: RefCell::new(body),
            outgoing: RefCell::new(Some(outgoing)),
        }
    }

    /// Marks the request as one without a body: the bytes of the stream belong to a tunnel.
    pub fn without_body(self) -> Self {
        self.body.borrow_mut().end = Some(Ok(()));
        self
    }

    /// Takes the direction of the response. `None` after the first call.
    pub fn take_outgoing(&self) -> Option<O> {
        self.outgoing.take()
    }

    /// Returns the number of bytes of the body that were returned.
    pub fn received(&self) -> u64 {
        self.body.borrow().received
    }

    /// Returns true if the request has turned out to be malformed.
    pub fn is_malformed(&self) -> bool {
        self.body.borrow().incoming.is_malformed()
    }

    /// Returns the direction of the request, with the rest of the body.
    pub fn into_incoming(self) -> I {
        self.body.into_inner().incoming
    }

    /// Reads the next bytes of the body, without a timeout. Ready with `None` at the end.
    fn poll_data(
        &self,
        body: &mut Body<I>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        while let Some(bytes) = ready!(body.incoming.poll_data(cx))? {
            body.received += bytes.len() as u64;
            body.deadline.progress(&mut body.rate, bytes.len());
            if body.received > body.max {
                return Poll::Ready(Err(BodyError::TooLarge));
            }
            if !bytes.is_empty() {
                self.shared.budget.earn_piece(bytes.len());
                return Poll::Ready(Ok(Some(bytes)));
            }
        }
        Poll::Ready(Ok(None))
    }
}

impl<I: Incoming, O: Outgoing> BodySource for StreamCarrier<'_, I, O> {
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let body = &mut *self.body.borrow_mut();
        if let Some(end) = body.end {
            return Poll::Ready(end.map(|()| None));
        }
        if std::mem::take(&mut body.expects_continue) {
            let _ = self.queue_interim(100, &FieldBlock::default());
        }
        let end = match self.poll_data(body, cx) {
            Poll::Ready(Ok(Some(bytes))) => return Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Ok(None)) => Ok(()),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => {
                let (rate, limits) = (body.rate, &self.limits);
                let timeout = || rate.remaining(limits.body_timeout, limits.min_rate, limits.grace);
                let deadline = body.deadline.get(timeout);
                ready!(body.timer.poll(cx, deadline));
                Err(BodyError::Timeout)
            }
        };
        body.end = Some(end);
        Poll::Ready(end.map(|()| None))
    }

    fn trailer(&self) -> Bytes {
        self.body.borrow().incoming.trailer()
    }
}

impl<I: Incoming, O: Outgoing> Carrier for StreamCarrier<'_, I, O> {
    fn body_len(&self) -> Option<u64> {
        self.length
    }

    fn limit_body(&self, max: u64) {
        self.body.borrow_mut().max = max;
    }

    fn awaits_body(&self, waits: bool) {
        if self.awaits_body.replace(waits) != waits {
            self.shared.phase.body(waits);
        }
    }

    fn admits(&self, request: &Request) -> bool {
        self.memory.count(request.owner())
    }

    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        let invalid = || {
            let message = format!("{status} is not the status of an interim response");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        if !(100..200).contains(&status) || status == 101 {
            return Err(invalid());
        }
        // An error shows again when the response is sent.
        if let Some(outgoing) = &mut *self.outgoing.borrow_mut() {
            outgoing.interim(status, fields);
        }
        Ok(())
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.outgoing.borrow_mut() {
            Some(outgoing) => {
                outgoing.poll_interim(cx).map_err(|_| io::ErrorKind::BrokenPipe.into())
            }
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        match &mut *self.outgoing.borrow_mut() {
            Some(outgoing) => outgoing.poll_reset(cx).map(|()| Disconnect::Reset),
            None => Poll::Pending, // the sender of the response watches the client
        }
    }
}
