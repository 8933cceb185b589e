//! The connection of an exchange: request body, interim responses, disconnection of the client.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Response};

use super::admission::StreamMemory;
use super::blocks::MalformedRequest;
use super::send::put_fields;
use super::shared::Shared;
use crate::body::{BodyError, BodySource};
use crate::exchange::{Carrier, Disconnect};
use crate::limits::Limits;
use crate::message::{FieldBlock, Request};
use crate::timer::{ProgressDeadline, Throughput, Timer};

/// The carrier of one request.
pub(super) struct StreamCarrier<'c> {
    limits: Rc<Limits>,
    shared: Rc<Shared>,
    memory: &'c StreamMemory,
    /// True while the handler waits for more of the body.
    awaits_body: Cell<bool>,
    /// Number of the stream.
    number: u32,
    /// Length of the body in bytes, if it is announced.
    length: Option<u64>,
    body: RefCell<Body>,
    /// Handle for the response, until that is sent.
    respond: RefCell<Option<SendResponse<Bytes>>>,
}

/// State of reading a request body.
struct Body {
    stream: RecvStream,
    /// Bytes returned so far.
    received: u64,
    /// Maximum length in bytes.
    max: u64,
    end: Option<Result<(), BodyError>>,
    trailer: Bytes,
    /// The client waits for `100 Continue`.
    expects_continue: bool,
    timer: Timer,
    rate: Throughput,
    deadline: ProgressDeadline,
}

impl<'c> StreamCarrier<'c> {
    /// Creates the carrier of a request. `length` is that of the body in bytes, if it is announced.
    pub fn new(
        stream: RecvStream,
        respond: SendResponse<Bytes>,
        shared: &Rc<Shared>,
        memory: &'c StreamMemory,
        limits: &Rc<Limits>,
        length: Option<u64>,
        expects_continue: bool,
    ) -> Self {
        let body = Body {
            stream,
            received: 0,
            max: limits.max_body,
            end: None,
            trailer: Bytes::new(),
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
            number: respond.stream_id().into(),
            length,
            body: RefCell::new(body),
            respond: RefCell::new(Some(respond)),
        }
    }

    /// Marks the request as one without a body: the bytes of the stream belong to a tunnel.
    pub fn without_body(self) -> Self {
        self.body.borrow_mut().end = Some(Ok(()));
        self
    }

    /// Takes the handle for the response. `None` after the first call.
    pub fn take_respond(&self) -> Option<SendResponse<Bytes>> {
        self.respond.take()
    }

    /// Returns the number of bytes of the body that were returned.
    pub fn received(&self) -> u64 {
        self.body.borrow().received
    }

    /// Returns the rest of the body. When it is dropped, `h2` refuses the bytes that still arrive.
    pub fn into_rest(self) -> RecvStream {
        self.body.into_inner().stream
    }

    /// Reads the next bytes of the body, without a timeout. Ready with `None` at the end.
    fn poll_data(
        &self,
        body: &mut Body,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        while let Some(data) = ready!(body.stream.poll_data(cx)) {
            let bytes = data.map_err(|error| {
                if error.is_library() { BodyError::Malformed } else { BodyError::Closed }
            })?;
            // Makes room in the flow-control window; fails only if the connection has ended.
            let _ = body.stream.flow_control().release_capacity(bytes.len());
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
        let fields = ready!(body.stream.poll_trailers(cx)).map_err(|_| BodyError::Closed)?;
        if self.shared.flaws.has(self.number, MalformedRequest::PseudoInTrailer) {
            return Poll::Ready(Err(BodyError::Malformed));
        }
        body.trailer = lines(fields.unwrap_or_default());
        Poll::Ready(Ok(None))
    }
}

impl BodySource for StreamCarrier<'_> {
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
        self.body.borrow().trailer.clone()
    }
}

impl Carrier for StreamCarrier<'_> {
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
        let mut response = Response::new(());
        *response.status_mut() = status.try_into().map_err(|_| invalid())?;
        put_fields(response.headers_mut(), fields);
        // An error shows again when the response is sent.
        if let Some(respond) = &mut *self.respond.borrow_mut() {
            let _ = respond.send_informational(response);
            self.shared.output.add_head(fields);
        }
        Ok(())
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The task of the connection sends the output.
        match self.shared.output.poll_room(None, cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => self.poll_gone(cx).map(|_| Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        match &mut *self.respond.borrow_mut() {
            Some(respond) => respond.poll_reset(cx).map(|_| Disconnect::Reset),
            None => Poll::Pending, // the sender of the response watches the client
        }
    }
}

/// Formats fields as `name: value` lines.
fn lines(fields: HeaderMap) -> Bytes {
    let mut lines = Vec::new();
    for (name, value) in &fields {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines.into()
}
