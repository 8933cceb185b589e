//! The connection of an exchange: request body, interim responses, disconnection of the client.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::body_reader::{BodyReader, Next};
use super::head::Head;
use super::response_head::put_status;
use super::transport::{Io, Transport};
use crate::body::{BodyError, BodySource};
use crate::body_length::BodyLength;
use crate::drain::{DrainRegistration, Phase};
use crate::exchange::{Carrier, Disconnect};
use crate::limits::Limits;
use crate::message::{FieldBlock, Version};

/// The carrier of one request.
pub(super) struct RequestCarrier<'c, I> {
    transport: &'c RefCell<Transport<I>>,
    drain: &'c DrainRegistration,
    limits: Rc<Limits>,
    version: Version,
    body: RefCell<BodyReader>,
}

/// The part of a request body that is unread when the response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnreadBody {
    /// No body: the next request may follow.
    None,
    /// At most [`MAX_DISCARDED_BODY`] bytes: they are discarded, and the connection is kept.
    Short,
    /// More, or an unknown number of bytes: the connection must be closed.
    Long,
}

/// Maximum number of bytes of an unread body that are discarded to keep a connection.
const MAX_DISCARDED_BODY: u64 = 64 * 1024;

impl<'c, I: Io> RequestCarrier<'c, I> {
    /// Creates the carrier of the request with this head.
    pub fn new(
        transport: &'c RefCell<Transport<I>>,
        drain: &'c DrainRegistration,
        limits: &Rc<Limits>,
        head: &Head,
    ) -> Self {
        RequestCarrier {
            transport,
            drain,
            limits: Rc::clone(limits),
            version: head.version,
            body: RefCell::new(BodyReader::new(head, limits)),
        }
    }

    /// Returns the number of bytes of the body that were returned.
    pub fn received(&self) -> u64 {
        self.body.borrow().received
    }

    /// Discards the unread bytes that have arrived, and returns the state of the rest of the body.
    pub fn discard_received(&self) -> UnreadBody {
        let mut body = self.body.borrow_mut();
        let mut transport = self.transport.borrow_mut();
        loop {
            match body.next(&mut transport) {
                Next::Bytes(_) => {}
                Next::End => return UnreadBody::None,
                Next::NeedMore if body.expects_continue => return UnreadBody::Long,
                Next::NeedMore => break,
                Next::Failed(_) => return UnreadBody::Long,
            }
        }
        match body.remaining() {
            Some(..=MAX_DISCARDED_BODY) if transport.disconnected.is_none() => UnreadBody::Short,
            _ => UnreadBody::Long,
        }
    }
}

impl<I: Io> BodySource for RequestCarrier<'_, I> {
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let mut body = self.body.borrow_mut();
        let mut transport = self.transport.borrow_mut();
        let error = loop {
            match body.next(&mut transport) {
                Next::Bytes(bytes) => return Poll::Ready(Ok(Some(bytes))),
                Next::End => return Poll::Ready(Ok(None)),
                Next::Failed(error) => return Poll::Ready(Err(error)),
                Next::NeedMore => {}
            }
            if std::mem::take(&mut body.expects_continue) {
                transport.work.out.put(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            // Responses to earlier requests must not wait for this body either.
            if !transport.work.out.is_empty()
                && let Poll::Ready(Err(_)) = transport.poll_flush(cx, &self.limits)
            {
                break BodyError::Closed;
            }
            match transport.poll_read(cx) {
                Poll::Ready(Ok(0) | Err(_)) => break BodyError::Closed,
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => {
                    let (rate, limits) = (body.rate, &self.limits);
                    let timeout =
                        || rate.remaining(limits.body_timeout, limits.min_rate, limits.grace);
                    let deadline = body.deadline.get(timeout);
                    if self.drain.poll_evicted(cx) {
                        break BodyError::Timeout;
                    }
                    ready!(transport.timer.poll(cx, deadline));
                    break BodyError::Timeout;
                }
            }
        };
        body.fail(error);
        Poll::Ready(Err(error))
    }

    fn trailer(&self) -> Bytes {
        Bytes::copy_from_slice(self.body.borrow().trailer())
    }
}

impl<I: Io> Carrier for RequestCarrier<'_, I> {
    fn body_len(&self) -> Option<u64> {
        match self.body.borrow().announced {
            BodyLength::Known(length) => Some(length),
            BodyLength::Chunked => None,
        }
    }

    fn limit_body(&self, max: u64) {
        self.body.borrow_mut().max = max;
    }

    fn awaits_body(&self, waits: bool) {
        if waits { self.drain.set_phase(Phase::Incomplete) } else { self.drain.resume() }
    }

    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        if !(100..200).contains(&status) || status == 101 {
            let message = format!("{status} is not the status of an interim response");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if self.version >= Version::Http11 {
            let mut transport = self.transport.borrow_mut();
            put_status(&mut transport.work.out, status, None);
            transport.work.out.put(fields.as_bytes());
            transport.work.out.put(b"\r\n");
        }
        Ok(())
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.borrow_mut().poll_flush(cx, &self.limits)
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        self.transport.borrow_mut().poll_gone(cx)
    }
}
