//! The seam between a protocol and what answers its requests.
//!
//! A protocol turns bytes into an [`Exchange`], gives it to a [`Handler`], sends the response that
//! comes back and reports what became of it. A handler never learns which protocol that was:
//! what it may ask of the connection meanwhile goes through [`Carrier`].

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::feed::Feed;
use crate::limits::Limits;
use crate::message::{Added, ConnectionInfo, FieldBlock, Request, Response};

/// Answers requests. One handler serves all connections of a router thread, so nothing here
/// needs to be `Send`.
pub trait Handler {
    /// The limits in force now; asked for once per request, so that a new configuration counts
    /// from the next request on.
    fn limits(&self) -> Rc<Limits>;

    /// A number for the next request, unique within the instance.
    fn next_id(&self) -> u64;

    /// Answers a request. The body may be read, in part or not at all. The future is polled to
    /// its end even if the client leaves; see [`Exchange::client_gone`].
    fn handle(&self, exchange: &mut Exchange<'_>) -> impl Future<Output = Response>;

    /// The response for a request that never became an [`Exchange`]: one with a malformed head,
    /// or one that did not arrive in time.
    fn error(&self, status: u16) -> Response;

    /// A response is complete, or was cut. Called once per request or refused head, when the
    /// last byte was handed to the system, or joined to the next of several responses that were
    /// asked for at once.
    fn finished(&self, record: &Finished<'_>);

    /// A connection is ended for what its client does. Called at most once for a connection.
    fn cut_off(&self, _connection: &ConnectionInfo, _why: &dyn fmt::Display) {}
}

impl<H: Handler> Handler for &H {
    fn limits(&self) -> Rc<Limits> {
        (**self).limits()
    }

    fn next_id(&self) -> u64 {
        (**self).next_id()
    }

    fn handle(&self, exchange: &mut Exchange<'_>) -> impl Future<Output = Response> {
        (**self).handle(exchange)
    }

    fn error(&self, status: u16) -> Response {
        (**self).error(status)
    }

    fn finished(&self, record: &Finished<'_>) {
        (**self).finished(record);
    }

    fn cut_off(&self, connection: &ConnectionInfo, why: &dyn fmt::Display) {
        (**self).cut_off(connection, why);
    }
}

/// A request and its connection, while the request is being answered.
pub struct Exchange<'c> {
    /// The request; a handler may rewrite it.
    pub request: Request,
    /// When its first byte came, as far as we were there to see it.
    pub begun: Instant,
    carrier: &'c dyn Carrier,
}

impl<'c> Exchange<'c> {
    /// Joins a request with the connection that carries it.
    pub fn new(request: Request, begun: Instant, carrier: &'c dyn Carrier) -> Self {
        Exchange { request, begun, carrier }
    }

    /// Length of the request body: `Some(0)` if there is none, `None` if only its end will tell.
    pub fn body_len(&self) -> Option<u64> {
        self.carrier.body_len()
    }

    /// Limits the body to so many bytes; at first it is as long as [`Limits::max_body`] says. An
    /// error if more is announced.
    pub fn limit_body(&self, most: u64) -> Result<(), BodyError> {
        self.carrier.limit_body(most);
        match self.body_len() {
            Some(length) if length > most => Err(BodyError::TooLarge),
            _ => Ok(()),
        }
    }

    /// The next bytes of the body, never empty; `None` at its end. The first call tells a client
    /// that waits for it to go on (`100 Continue`). After an error the body cannot be read on:
    /// answer with [`BodyError::status`].
    pub async fn read_body(&mut self) -> Result<Option<Bytes>, BodyError> {
        let awaiting = Awaiting(self.carrier);
        poll_fn(|cx| {
            let part = awaiting.0.poll_body(cx);
            if part.is_pending() {
                awaiting.0.awaits_body(true);
            }
            part
        })
        .await
    }

    /// Takes the body for a server that gets it as it comes, in place of
    /// [`Exchange::read_body`].
    pub fn poll_fill(&self, feed: &Feed, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        feed.poll_fill(self.carrier, cx)
    }

    /// The lines of the body's trailer, once the body has been read to its end. Who sends them says
    /// what they are: they are never fields of the request.
    pub fn trailer(&self) -> Bytes {
        self.carrier.trailer()
    }

    /// Sends an interim response (1xx except 101), `fields` with it. A client that does not know
    /// interim responses (HTTP/1.0) gets none, which is no error.
    pub async fn interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        self.carrier.queue_interim(status, fields)?;
        poll_fn(|cx| self.carrier.poll_flush(cx)).await
    }

    /// The same connection for another request that has no body, whatever there is still to come.
    pub fn without_body(&self) -> WithoutBody<'c> {
        WithoutBody(self.carrier)
    }

    /// Ends when the client has closed or reset the connection. May be dropped at any time and
    /// called again; no byte of the body or of a further request is lost.
    ///
    /// A client that only shuts down its sending side looks the same as one that has left until
    /// something is sent to it: as in nginx, both count as [`Gone::Closed`].
    pub async fn client_gone(&self) -> Gone {
        poll_fn(|cx| self.poll_gone(cx)).await
    }

    /// See [`Exchange::client_gone`].
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Gone> {
        self.carrier.poll_gone(cx)
    }
}

/// A handler's wait for more of the body; dropping it ends the wait.
struct Awaiting<'c>(&'c dyn Carrier);

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        self.0.awaits_body(false);
    }
}

/// What an exchange needs of its connection. Implemented by each protocol.
pub trait Carrier {
    /// See [`Exchange::body_len`].
    fn body_len(&self) -> Option<u64>;
    /// See [`Exchange::limit_body`].
    fn limit_body(&self, most: u64);
    /// See [`Exchange::read_body`].
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;
    /// Records that the handler does nothing but wait for more of the body, or no longer waits. A
    /// connection may be closed for want of descriptors meanwhile.
    fn awaits_body(&self, _waits: bool) {}
    /// See [`Exchange::trailer`].
    fn trailer(&self) -> Bytes {
        Bytes::new()
    }
    /// Puts an interim response in the line of what is to be sent.
    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()>;
    /// Sends what is in the line.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// See [`Exchange::client_gone`].
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Gone>;
}

/// Carries a request without a body.
pub struct WithoutBody<'c>(&'c dyn Carrier);

impl Carrier for WithoutBody<'_> {
    fn body_len(&self) -> Option<u64> {
        Some(0)
    }

    fn limit_body(&self, _: u64) {}

    fn poll_body(&self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        Poll::Ready(Ok(None))
    }

    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        self.0.queue_interim(status, fields)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Gone> {
        self.0.poll_gone(cx)
    }
}

/// How a client left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It will send nothing more; most likely it has closed the connection.
    Closed,
    /// The connection is broken: nothing can be sent.
    Reset,
}

/// Why a request body cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It is longer than allowed.
    TooLarge,
    /// The client sent too little in the time allowed.
    Timeout,
    /// Its framing is not HTTP.
    Malformed,
    /// The connection ended within it.
    Closed,
}

impl BodyError {
    /// The status to answer with. After [`BodyError::Closed`] it serves the log only.
    pub fn status(self) -> u16 {
        match self {
            BodyError::TooLarge => 413,
            BodyError::Timeout => 408,
            BodyError::Malformed | BodyError::Closed => 400,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::TooLarge => "the request body is longer than allowed",
            BodyError::Timeout => "the request body did not arrive in time",
            BodyError::Malformed => "the request body is not framed as HTTP demands",
            BodyError::Closed => "the client closed the connection within the request body",
        })
    }
}

impl std::error::Error for BodyError {}

/// What became of a request; for the access log.
#[derive(Debug)]
pub struct Finished<'a> {
    /// The connection it came on.
    pub connection: &'a Arc<ConnectionInfo>,
    /// The request; `None` if its head was refused.
    pub request: Option<&'a Request>,
    /// The request line of a refused head, as far as it arrived; otherwise empty. A head that the
    /// client left off counts as refused with status 400, though nothing was sent.
    pub refused_line: &'a [u8],
    /// Why the head was refused.
    pub refusal: Option<&'static str>,
    /// Status of the response.
    pub status: u16,
    /// Header fields of the response.
    pub fields: &'a FieldBlock,
    /// Fields that the connection added.
    pub added: Added<'a>,
    /// Bytes of the request, head and body, as they came.
    pub received: u64,
    /// Bytes of the response, head and framing included.
    pub sent: u64,
    /// Bytes of the response body.
    pub body_sent: u64,
    /// From the first byte of the request to the last of the response handed to the connection.
    pub elapsed: Duration,
    /// Whether the response is whole.
    pub outcome: Outcome,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was sent.
    Complete,
    /// The client left, or took too long to take it.
    ClientGone,
    /// Its body failed, or was not as long as announced; the client sees a cut connection.
    BodyFailed,
}
