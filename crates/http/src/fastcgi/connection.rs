//! The state of a connection: its socket, the records that have arrived and the request that they
//! belong to.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use howdah_wire::bytes::Malformed;
use howdah_wire::fastcgi::{Received, RequestHead, Requests};
use tokio::time::Instant;

use crate::drain::DrainRegistration;
use crate::exchange::{Disconnect, Handler};
use crate::h1::Io;
use crate::h1::transport::Transport;
use crate::input::Input;
use crate::limits::Limits;
use crate::memory::Charge;
use crate::message::ConnectionInfo;

/// Maximum number of bytes that are skipped while a request is answered: rests of bodies, requests
/// that are refused. Beyond, the connection is read further after the response.
const MAX_SKIPPED_BYTES: usize = 64 * 1024;

/// A connection with its handler.
pub(super) struct Connection<I, H> {
    pub channel: RefCell<Channel<I>>,
    pub info: Arc<ConnectionInfo>,
    pub handler: H,
    pub drain: DrainRegistration,
    /// Arrival of the first byte of the request that is read.
    pub started_at: Cell<Option<Instant>>,
}

/// The records of a connection. Borrowed for the time of a poll, never across an await.
pub(super) struct Channel<I> {
    pub transport: Transport<I>,
    pub requests: Requests,
    /// The connection is closed once the output was sent.
    pub is_closing: bool,
    /// The web server has violated the protocol.
    pub is_malformed: bool,
    /// The body of the current request is not needed further.
    pub skips_body: bool,
    skipped: usize,
    /// The memory of parameters that have not arrived as a whole.
    pub charge: Option<Charge>,
}

/// Event of the current request.
pub(super) enum Event {
    Head(RequestHead),
    Body(Bytes),
    BodyEnd,
    Abort,
}

impl<I: Io, H: Handler> Connection<I, H> {
    pub fn new(io: I, info: Arc<ConnectionInfo>, handler: H, drain: DrainRegistration) -> Self {
        let channel = Channel {
            transport: Transport::new(io),
            requests: Requests::default(),
            is_closing: false,
            is_malformed: false,
            skips_body: false,
            skipped: 0,
            charge: None,
        };
        let (channel, started_at) = (RefCell::new(channel), Cell::new(None));
        Connection { channel, info, handler, drain, started_at }
    }

    /// Reports a violation of the protocol, if that has ended the connection.
    pub fn report_violation(&self) {
        if self.channel.borrow().is_malformed {
            let reason = "a record that violates the protocol or a limit of parameters";
            self.handler.log_misbehaviour(&self.info, &reason);
        }
    }
}

impl<I: Io> Channel<I> {
    /// Takes the next event out of the input; `None` if that has no complete one. Answers to
    /// records without a request are put into the output.
    pub fn next(&mut self) -> Result<Option<Event>, Malformed> {
        /// An event, with the length of a part of the body in place of its bytes.
        enum Found {
            Nothing,
            Event(Event),
            Body(usize),
        }
        loop {
            if self.is_malformed {
                return Err(Malformed);
            }
            let input = self.transport.input.as_bytes();
            let mut rest = input;
            let found = match self.requests.next(&mut rest) {
                Ok(None) => {
                    self.transport.input.clear();
                    return Ok(None);
                }
                Ok(Some(Received::Head(head))) => Found::Event(Event::Head(head)),
                Ok(Some(Received::Body(bytes))) => Found::Body(bytes.len()),
                Ok(Some(Received::BodyEnd)) => Found::Event(Event::BodyEnd),
                Ok(Some(Received::Abort)) => Found::Event(Event::Abort),
                Ok(Some(Received::Reply(reply))) => {
                    let mut record = Vec::new();
                    reply.put(&mut record);
                    self.transport.work.out.put(&record);
                    self.is_closing |= !reply.keeps();
                    Found::Nothing
                }
                Err(Malformed) => {
                    self.is_malformed = true;
                    return Err(Malformed);
                }
            };
            let consumed = input.len() - rest.len();
            match found {
                Found::Nothing => self.transport.input.skip(consumed),
                Found::Event(event) => {
                    self.transport.input.skip(consumed);
                    return Ok(Some(event));
                }
                // The part is the last of the consumed bytes.
                Found::Body(len) => {
                    self.transport.input.skip(consumed - len);
                    return Ok(Some(Event::Body(self.transport.input.take(len))));
                }
            }
        }
    }

    /// Begins to answer a request.
    pub fn begin(&mut self) {
        (self.skips_body, self.skipped, self.charge) = (false, 0, None);
    }

    /// Reads once, and returns the number of bytes; 0 at the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.transport.poll_read(cx)
    }

    /// Waits until the web server abandons the request or closes the connection. Reads ahead within
    /// bounds; a body that is still needed stays in the input.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        loop {
            if self.skips_body {
                match self.next() {
                    Ok(Some(Event::Abort)) => return Poll::Ready(Disconnect::Closed),
                    Ok(Some(_)) => continue,
                    Ok(None) => {}
                    Err(Malformed) => return Poll::Ready(Disconnect::Reset),
                }
            }
            if let Some(disconnected) = self.transport.disconnected {
                return Poll::Ready(disconnected);
            }
            if self.transport.input.is_full() || self.skipped > MAX_SKIPPED_BYTES {
                return Poll::Pending;
            }
            let read = ready!(self.transport.poll_read_with(cx, Input::poll_read_ahead));
            self.skipped += read.unwrap_or_default();
        }
    }

    /// Sends all output, within the limits for sending.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<io::Result<()>> {
        self.transport.poll_flush(cx, limits)
    }
}
