//! HTTP/1's side of an exchange: the request body, interim responses, the client's presence.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::connection::{Core, Io};
use super::head::Head;
use crate::drain::{Draining, Phase};
use crate::exchange::{BodyError, Carrier, Gone};
use crate::framing::{BodyLength, Chunked, Decoded};
use crate::limits::Limits;
use crate::message::{FieldBlock, Version};
use crate::timer::{Pace, Wait};

/// Lent to a handler for the time of one request.
pub(super) struct Link<'c, I> {
    core: &'c RefCell<Core<I>>,
    drain: &'c Draining,
    limits: Rc<Limits>,
    version: Version,
    body: RefCell<BodyReader>,
}

/// A request body, taken out of what the connection receives.
struct BodyReader {
    announced: BodyLength,
    rest: Rest,
    /// Bytes given out.
    received: u64,
    max: u64,
    /// The client waits to be told to go on.
    expects_continue: bool,
    pace: Pace,
    wait: Wait,
}

enum Rest {
    Known(u64),
    Chunked(Chunked),
    Failed(BodyError),
}

/// What is left of a request body when its response is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leftover {
    /// Nothing: the next request may follow.
    Nothing,
    /// Little enough to read it and go on.
    Little,
    /// Too much, or unknown: the connection must end.
    TooMuch,
}

/// Bytes of an unread body that are read and dropped to keep a connection.
const LITTLE: u64 = 64 * 1024;

impl<'c, I: Io> Link<'c, I> {
    pub fn new(
        core: &'c RefCell<Core<I>>,
        drain: &'c Draining,
        limits: &Rc<Limits>,
        head: &Head,
    ) -> Self {
        let rest = match head.body {
            BodyLength::Known(length) => Rest::Known(length),
            BodyLength::Chunked => Rest::Chunked(Chunked::with_trailer()),
        };
        let body = BodyReader {
            announced: head.body,
            rest,
            received: 0,
            max: limits.max_body,
            expects_continue: head.expects_continue,
            pace: Pace::default(),
            wait: Wait::default(),
        };
        let (limits, version) = (Rc::clone(limits), head.version);
        Link { core, drain, limits, version, body: RefCell::new(body) }
    }

    /// Bytes of the body that were given out.
    pub fn received(&self) -> u64 {
        self.body.borrow().received
    }

    /// Drops what has come of an unread body, and tells what that leaves.
    pub fn leftover(&self) -> Leftover {
        let mut body = self.body.borrow_mut();
        let mut core = self.core.borrow_mut();
        loop {
            match body.next(&mut core) {
                Next::Bytes(_) => {}
                Next::End => return Leftover::Nothing,
                Next::NeedMore if body.expects_continue => return Leftover::TooMuch,
                Next::NeedMore => break,
                Next::Failed(_) => return Leftover::TooMuch,
            }
        }
        match body.rest {
            Rest::Known(rest) if rest <= LITTLE && core.gone.is_none() => Leftover::Little,
            _ => Leftover::TooMuch,
        }
    }
}

enum Next {
    Bytes(Bytes),
    End,
    NeedMore,
    Failed(BodyError),
}

impl BodyReader {
    /// Takes the next bytes out of what has come.
    fn next<I>(&mut self, core: &mut Core<I>) -> Next {
        let bytes = match &mut self.rest {
            Rest::Failed(error) => return Next::Failed(*error),
            Rest::Known(0) => return Next::End,
            Rest::Known(rest) => {
                let len = usize::try_from(*rest).unwrap_or(usize::MAX);
                let bytes = core.input.take(len);
                *rest -= bytes.len() as u64;
                bytes
            }
            Rest::Chunked(chunked) => match chunked.decode(core.input.as_bytes()) {
                Ok(Decoded::Data { skip, len }) => {
                    core.input.skip(skip);
                    core.input.take(len)
                }
                Ok(Decoded::NeedMore) => {
                    core.input.clear();
                    Bytes::new()
                }
                Ok(Decoded::End(len)) => {
                    core.input.skip(len);
                    return Next::End;
                }
                Err(_) => return self.fail(BodyError::Malformed),
            },
        };
        if bytes.is_empty() {
            return Next::NeedMore;
        }
        self.received += bytes.len() as u64;
        if self.received > self.max {
            return self.fail(BodyError::TooLarge);
        }
        self.wait.over(&mut self.pace, bytes.len());
        Next::Bytes(bytes)
    }

    fn fail(&mut self, error: BodyError) -> Next {
        self.rest = Rest::Failed(error);
        Next::Failed(error)
    }
}

impl<I: Io> Carrier for Link<'_, I> {
    fn body_len(&self) -> Option<u64> {
        match self.body.borrow().announced {
            BodyLength::Known(length) => Some(length),
            BodyLength::Chunked => None,
        }
    }

    fn limit_body(&self, most: u64) {
        self.body.borrow_mut().max = most;
    }

    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let mut body = self.body.borrow_mut();
        let mut core = self.core.borrow_mut();
        let error = loop {
            match body.next(&mut core) {
                Next::Bytes(bytes) => return Poll::Ready(Ok(Some(bytes))),
                Next::End => return Poll::Ready(Ok(None)),
                Next::Failed(error) => return Poll::Ready(Err(error)),
                Next::NeedMore => {}
            }
            if std::mem::take(&mut body.expects_continue) {
                core.work.out.put(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            // Responses to earlier requests must not wait for this one's body either.
            if !core.work.out.is_empty()
                && let Poll::Ready(Err(_)) = core.poll_flush(cx, &self.limits)
            {
                break BodyError::Closed;
            }
            match core.poll_read(cx) {
                Poll::Ready(Ok(0) | Err(_)) => break BodyError::Closed,
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => {
                    let (pace, limits) = (body.pace, &self.limits);
                    let patience =
                        || pace.patience(limits.body_timeout, limits.min_rate, limits.grace);
                    let deadline = body.wait.deadline(patience);
                    if self.drain.poll_evicted(cx) {
                        break BodyError::Timeout;
                    }
                    ready!(core.timer.poll(cx, deadline));
                    break BodyError::Timeout;
                }
            }
        };
        body.fail(error);
        Poll::Ready(Err(error))
    }

    fn awaits_body(&self, waits: bool) {
        match waits {
            true => self.drain.wait(Phase::Incomplete),
            false => self.drain.go_on(),
        }
    }

    fn trailer(&self) -> Bytes {
        match &self.body.borrow().rest {
            Rest::Chunked(chunked) => Bytes::copy_from_slice(chunked.trailer()),
            Rest::Known(_) | Rest::Failed(_) => Bytes::new(),
        }
    }

    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        if !(100..200).contains(&status) || status == 101 {
            let message = format!("{status} is not the status of an interim response");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if self.version >= Version::Http11 {
            let mut core = self.core.borrow_mut();
            super::respond::put_status(&mut core.work.out, status, None);
            core.work.out.put(fields.as_bytes());
            core.work.out.put(b"\r\n");
        }
        Ok(())
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.core.borrow_mut().poll_flush(cx, &self.limits)
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Gone> {
        self.core.borrow_mut().poll_gone(cx)
    }
}
