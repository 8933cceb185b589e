//! The connection of an exchange: the body of the request, and whether it is abandoned.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use howdah_wire::bytes::Malformed;

use super::connection::{Channel, Event};
use crate::body::{BodyError, BodySource};
use crate::drain::{DrainRegistration, Phase};
use crate::exchange::{Carrier, Disconnect};
use crate::h1::Io;
use crate::limits::Limits;
use crate::message::FieldBlock;
use crate::timer::{ProgressDeadline, Throughput};

/// The carrier of one request.
pub(super) struct RequestCarrier<'c, I> {
    channel: &'c RefCell<Channel<I>>,
    drain: &'c DrainRegistration,
    limits: Rc<Limits>,
    /// `CONTENT_LENGTH`; `None` if the web server does not tell the length.
    length: Option<u64>,
    body: RefCell<BodyReader>,
}

/// State of reading the body of a request.
struct BodyReader {
    /// Bytes returned so far.
    received: u64,
    /// Maximum length in bytes.
    max: u64,
    end: Option<Result<(), BodyError>>,
    rate: Throughput,
    deadline: ProgressDeadline,
}

impl<'c, I: Io> RequestCarrier<'c, I> {
    /// Creates the carrier of a request with a body of this length.
    pub fn new(
        channel: &'c RefCell<Channel<I>>,
        drain: &'c DrainRegistration,
        limits: &Rc<Limits>,
        length: Option<u64>,
    ) -> Self {
        channel.borrow_mut().skips_body = length == Some(0);
        RequestCarrier {
            channel,
            drain,
            limits: Rc::clone(limits),
            length,
            body: RefCell::new(BodyReader {
                received: 0,
                max: limits.max_body,
                end: (length == Some(0)).then_some(Ok(())),
                rate: Throughput::default(),
                deadline: ProgressDeadline::default(),
            }),
        }
    }

    /// Returns the number of bytes of the body that were returned.
    pub fn received(&self) -> u64 {
        self.body.borrow().received
    }

    /// Returns the next bytes. What is longer than the announced length is cut off, as PHP-FPM does
    /// not read it.
    fn poll_next(
        &self,
        body: &mut BodyReader,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        let channel = &mut *self.channel.borrow_mut();
        loop {
            match channel.next() {
                Ok(Some(Event::Body(mut bytes))) => {
                    body.deadline.progress(&mut body.rate, bytes.len());
                    let left = self.length.map_or(u64::MAX, |length| length - body.received);
                    bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    if bytes.is_empty() {
                        return Poll::Ready(Ok(None));
                    }
                    body.received += bytes.len() as u64;
                    if body.received > body.max {
                        return Poll::Ready(Err(BodyError::TooLarge));
                    }
                    return Poll::Ready(Ok(Some(bytes)));
                }
                Ok(Some(Event::BodyEnd)) => return Poll::Ready(Ok(None)),
                Ok(Some(Event::Abort)) => return Poll::Ready(Err(BodyError::Closed)),
                Ok(Some(Event::Head(_))) => continue,
                Ok(None) => {}
                Err(Malformed) => return Poll::Ready(Err(BodyError::Malformed)),
            }
            if !channel.transport.work.out.is_empty()
                && let Poll::Ready(Err(_)) = channel.poll_flush(cx, &self.limits)
            {
                return Poll::Ready(Err(BodyError::Closed));
            }
            match channel.poll_read(cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(BodyError::Closed)),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => {
                    let (rate, limits) = (body.rate, &self.limits);
                    let timeout =
                        || rate.remaining(limits.body_timeout, limits.min_rate, limits.grace);
                    let deadline = body.deadline.get(timeout);
                    if !self.drain.poll_evicted(cx) {
                        ready!(channel.transport.timer.poll(cx, deadline));
                    }
                    return Poll::Ready(Err(BodyError::Timeout));
                }
            }
        }
    }
}

impl<I: Io> BodySource for RequestCarrier<'_, I> {
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let body = &mut *self.body.borrow_mut();
        if let Some(end) = body.end {
            return Poll::Ready(end.map(|()| None));
        }
        let next = ready!(self.poll_next(body, cx));
        let end = match next {
            Ok(Some(_)) => return Poll::Ready(next),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        body.end = Some(end);
        self.channel.borrow_mut().skips_body = true;
        Poll::Ready(next)
    }
}

impl<I: Io> Carrier for RequestCarrier<'_, I> {
    fn body_len(&self) -> Option<u64> {
        self.length
    }

    fn limit_body(&self, max: u64) {
        self.body.borrow_mut().max = max;
    }

    fn awaits_body(&self, waits: bool) {
        if waits { self.drain.set_phase(Phase::Incomplete) } else { self.drain.resume() }
    }

    /// FastCGI has no interim responses.
    fn queue_interim(&self, _: u16, _: &FieldBlock) -> io::Result<()> {
        Ok(())
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.channel.borrow_mut().poll_flush(cx, &self.limits)
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        let channel = &mut *self.channel.borrow_mut();
        let gone = channel.poll_gone(cx);
        // Answers to other records do not wait for this request. An error shows again when the
        // response is sent.
        if gone.is_pending() && !channel.transport.work.out.is_empty() {
            let _ = channel.poll_flush(cx, &self.limits);
        }
        gone
    }
}
