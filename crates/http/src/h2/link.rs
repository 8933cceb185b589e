//! HTTP/2's side of an exchange: the request body, interim responses, the client's presence.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Response};

use super::blocks::{Flaw, Flaws};
use super::budget::Budget;
use super::send::put_fields;
use super::waiting::Waiting;
use crate::exchange::{BodyError, Carrier, Gone};
use crate::limits::Limits;
use crate::message::FieldBlock;
use crate::timer::{Pace, Timer, Wait};

/// Lent to a handler for the time of one request.
pub(super) struct Link {
    limits: Rc<Limits>,
    budget: Rc<Budget>,
    waiting: Rc<Waiting>,
    /// True while the handler waits for more of the body.
    awaits: Cell<bool>,
    flaws: Rc<Flaws>,
    /// The number of the stream.
    number: u32,
    length: Option<u64>,
    body: RefCell<Body>,
    /// Until the response is sent.
    respond: RefCell<Option<SendResponse<Bytes>>>,
}

/// What the streams of a connection share.
#[derive(Clone, Copy)]
pub(super) struct Connection<'a> {
    pub limits: &'a Rc<Limits>,
    pub budget: &'a Rc<Budget>,
    pub waiting: &'a Rc<Waiting>,
    pub flaws: &'a Rc<Flaws>,
}

struct Body {
    stream: RecvStream,
    /// Bytes given out.
    received: u64,
    max: u64,
    ended: Option<Result<(), BodyError>>,
    trailer: Bytes,
    expects_continue: bool,
    timer: Timer,
    pace: Pace,
    wait: Wait,
}

impl Link {
    /// `length` is that of the body, if it is known.
    pub fn new(
        stream: RecvStream,
        respond: SendResponse<Bytes>,
        connection: Connection<'_>,
        length: Option<u64>,
        expects_continue: bool,
    ) -> Self {
        let body = Body {
            stream,
            received: 0,
            max: connection.limits.max_body,
            ended: None,
            trailer: Bytes::new(),
            expects_continue,
            timer: Timer::default(),
            pace: Pace::default(),
            wait: Wait::default(),
        };
        let number = respond.stream_id().into();
        let (body, respond) = (RefCell::new(body), RefCell::new(Some(respond)));
        Link {
            limits: Rc::clone(connection.limits),
            budget: Rc::clone(connection.budget),
            waiting: Rc::clone(connection.waiting),
            awaits: Cell::new(false),
            flaws: Rc::clone(connection.flaws),
            number,
            length,
            body,
            respond,
        }
    }

    /// What the client sends is no body.
    pub fn without_body(self) -> Self {
        self.body.borrow_mut().ended = Some(Ok(()));
        self
    }

    /// What the response is sent with, once.
    pub fn take_respond(&self) -> Option<SendResponse<Bytes>> {
        self.respond.take()
    }

    /// Bytes of the body that were given out.
    pub fn received(&self) -> u64 {
        self.body.borrow().received
    }

    /// The rest of the body, if there is one. It is given up only when the result is dropped.
    pub fn into_rest(self) -> RecvStream {
        self.body.into_inner().stream
    }
}

impl Carrier for Link {
    fn body_len(&self) -> Option<u64> {
        self.length
    }

    fn limit_body(&self, most: u64) {
        self.body.borrow_mut().max = most;
    }

    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let body = &mut *self.body.borrow_mut();
        if let Some(ended) = body.ended {
            return Poll::Ready(ended.map(|()| None));
        }
        if std::mem::take(&mut body.expects_continue) {
            let _ = self.queue_interim(100, &FieldBlock::default());
        }
        let ended = loop {
            match body.stream.poll_data(cx) {
                Poll::Ready(Some(Ok(bytes))) => {
                    // What was taken makes room for more; a connection that is gone needs none.
                    let _ = body.stream.flow_control().release_capacity(bytes.len());
                    body.received += bytes.len() as u64;
                    body.wait.over(&mut body.pace, bytes.len());
                    if body.received > body.max {
                        break Err(BodyError::TooLarge);
                    }
                    if !bytes.is_empty() {
                        self.budget.earn_piece(bytes.len());
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                    continue;
                }
                Poll::Ready(Some(Err(error))) if error.is_library() => {
                    break Err(BodyError::Malformed);
                }
                Poll::Ready(Some(Err(_))) => break Err(BodyError::Closed),
                Poll::Ready(None) => match body.stream.poll_trailers(cx) {
                    Poll::Ready(Ok(_)) if self.flaws.has(self.number, Flaw::PseudoInTrailer) => {
                        break Err(BodyError::Malformed);
                    }
                    Poll::Ready(Ok(fields)) => {
                        body.trailer = lines(fields.unwrap_or_default());
                        break Ok(());
                    }
                    Poll::Ready(Err(_)) => break Err(BodyError::Closed),
                    Poll::Pending => {}
                },
                Poll::Pending => {}
            }
            let (pace, limits) = (body.pace, &self.limits);
            let patience = || pace.patience(limits.body_timeout, limits.min_rate, limits.grace);
            let deadline = body.wait.deadline(patience);
            ready!(body.timer.poll(cx, deadline));
            break Err(BodyError::Timeout);
        };
        body.ended = Some(ended);
        Poll::Ready(ended.map(|()| None))
    }

    fn awaits_body(&self, waits: bool) {
        if self.awaits.replace(waits) != waits {
            self.waiting.body(waits);
        }
    }

    fn trailer(&self) -> Bytes {
        self.body.borrow().trailer.clone()
    }

    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        let invalid = || {
            let message = format!("{status} is not the status of an interim response");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        if !(100..200).contains(&status) || status == 101 {
            return Err(invalid());
        }
        let mut response = Response::new(());
        *response.status_mut() = status.try_into().map_err(|_| invalid())?;
        put_fields(response.headers_mut(), fields);
        // A client that has left gets none, and is noticed when the response is sent.
        if let Some(respond) = &mut *self.respond.borrow_mut() {
            let _ = respond.send_informational(response);
        }
        Ok(())
    }

    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the connection sends what it has by itself
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Gone> {
        match &mut *self.respond.borrow_mut() {
            Some(respond) => respond.poll_reset(cx).map(|_| Gone::Reset),
            None => Poll::Pending, // who sends the response will see
        }
    }
}

/// Fields as lines.
fn lines(fields: HeaderMap) -> Bytes {
    let mut lines = Vec::new();
    for (name, value) in &fields {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines.into()
}
