//! The interface between the protocols and the handlers of requests.
//!
//! A protocol reads a request, passes it to a [`Handler`] as an [`Exchange`], sends the response
//! that the handler returns, and reports the outcome. A handler does not depend on the protocol: it
//! reaches the connection through [`Carrier`] only.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::body::{BodySource, SendError};
use crate::error_status::RequestError;
use crate::feed::Feed;
use crate::forward::End;
use crate::limits::Limits;
use crate::memory::Owner;
use crate::message::{
    ConnectionFields, ConnectionInfo, FieldBlock, Request, Response, is_internal_field,
};
use crate::respond;

pub use crate::body::BodyError;

/// Answers requests. A handler serves the connections of one thread, so it need not be `Send`.
pub trait Handler {
    /// Returns the current limits. Called once per request, so that a new configuration applies
    /// from the next request on.
    fn limits(&self) -> Rc<Limits>;

    /// Returns the number of the next request, unique within the instance.
    fn next_id(&self) -> u64;

    /// Answers a request. The handler need not read the body. The future is polled to its end even
    /// if the client closes the connection; see [`Exchange::client_gone`].
    fn handle(&self, exchange: &mut Exchange<'_>) -> impl Future<Output = Response>;

    /// Returns the response to a request that never became an [`Exchange`]: its head is malformed
    /// or did not arrive in time.
    fn error(&self, error: RequestError) -> Response {
        respond::refuse(error)
    }

    /// Reports a response that is complete or was cut short. Called once per request or refused
    /// head, when the last byte was passed to the system, or to the buffer that pipelined responses
    /// share.
    fn log_request(&self, record: &RequestRecord<'_>);

    /// Reports a connection that is closed because the client misbehaves. Called at most once per
    /// connection.
    fn log_misbehaviour(&self, _connection: &ConnectionInfo, _reason: &dyn fmt::Display) {}

    /// Returns the owner of the memory of a connection that has no request yet.
    fn owner(&self, connection: &ConnectionInfo) -> Owner {
        connection.owner()
    }

    /// Called at the beginning of each turn of a task that answers a request of an HTTP/2 or HTTP/3
    /// connection. The tasks of connections are the server's own.
    fn begin_turn(&self) {}
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

    fn error(&self, error: RequestError) -> Response {
        (**self).error(error)
    }

    fn log_request(&self, record: &RequestRecord<'_>) {
        (**self).log_request(record);
    }

    fn log_misbehaviour(&self, connection: &ConnectionInfo, reason: &dyn fmt::Display) {
        (**self).log_misbehaviour(connection, reason);
    }

    fn owner(&self, connection: &ConnectionInfo) -> Owner {
        (**self).owner(connection)
    }

    fn begin_turn(&self) {
        (**self).begin_turn();
    }
}

/// A request and its connection, while the request is being answered.
pub struct Exchange<'c> {
    /// The request; a handler may rewrite it.
    pub request: Request,
    /// Arrival of the first byte of the request.
    pub started_at: Instant,
    /// The fields that interim responses may have.
    pub interim_fields: InterimFields,
    carrier: &'c dyn Carrier,
}

/// The fields that an interim response may have: no others than the final response, which later
/// steps change. Fields for the server itself are never among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterimFields {
    /// Only `Link` is sent: it is not known yet which of the others the final response will have.
    pub only_link: bool,
    /// Names of fields that are not sent.
    pub hidden: Vec<Box<str>>,
}

impl InterimFields {
    /// Returns those of the fields that may be sent.
    fn of(&self, fields: &FieldBlock) -> FieldBlock {
        let is_sent = |name: &[u8]| {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            !is_internal_field(name)
                && (!self.only_link || is("link"))
                && !self.hidden.iter().any(|hidden| is(hidden))
        };
        if fields.iter().all(|(name, _)| is_sent(name)) {
            return fields.clone();
        }
        let mut lines = Vec::with_capacity(fields.as_bytes().len());
        for (name, value) in fields.iter().filter(|(name, _)| is_sent(name)) {
            [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
        }
        FieldBlock::from_lines(lines.into())
    }
}

impl<'c> Exchange<'c> {
    /// Combines a request with the connection that it came on.
    pub fn new(request: Request, started_at: Instant, carrier: &'c dyn Carrier) -> Self {
        Exchange { request, started_at, interim_fields: InterimFields::default(), carrier }
    }

    /// Returns the length of the request body in bytes: `Some(0)` without a body, `None` for a
    /// chunked one.
    pub fn body_len(&self) -> Option<u64> {
        self.carrier.body_len()
    }

    /// Sets the maximum length of the body in bytes; initially [`Limits::max_body`].
    ///
    /// # Errors
    /// [`BodyError::TooLarge`] if the announced length is greater.
    pub fn limit_body(&self, max: u64) -> Result<(), BodyError> {
        self.carrier.limit_body(max);
        match self.body_len() {
            Some(length) if length > max => Err(BodyError::TooLarge),
            _ => Ok(()),
        }
    }

    /// Returns the next bytes of the body, never empty; `None` at its end. The first call tells a
    /// client that waits for `100 Continue` to send it.
    ///
    /// # Errors
    /// The body cannot be read further; the handler answers with [`RequestError::Body`].
    pub async fn read_body(&mut self) -> Result<Option<Bytes>, BodyError> {
        let wait = BodyWait(self.carrier);
        poll_fn(|cx| {
            let bytes = wait.0.poll_body(cx);
            if bytes.is_pending() {
                wait.0.awaits_body(true);
            }
            bytes
        })
        .await
    }

    /// Reads the body into a feed, in place of [`Exchange::read_body`].
    pub fn poll_fill(&self, feed: &Feed, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        feed.poll_fill(self.carrier, cx)
    }

    /// Returns the lines of the trailer, once the body has been read to its end. They are untrusted
    /// and never become fields of the request.
    pub fn trailer(&self) -> Bytes {
        self.carrier.trailer()
    }

    /// Sends an interim response (1xx except 101) with those of `fields` that it may have. No
    /// effect for HTTP/1.0, which has no interim responses.
    pub async fn interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        self.carrier.queue_interim(status, &self.interim_fields.of(fields))?;
        poll_fn(|cx| self.carrier.poll_flush(cx)).await
    }

    /// Returns false if the request is refused, because its owner has no memory left for it. To be
    /// asked when the site of the request is known, or another one; the response is then not sent.
    pub fn admits(&self) -> bool {
        self.carrier.admits(&self.request)
    }

    /// Returns the connection of the exchange.
    pub fn carrier(&self) -> &'c dyn Carrier {
        self.carrier
    }

    /// Returns a carrier for a further request on the same connection that has no body, even if
    /// this one has.
    pub fn without_body(&self) -> WithoutBody<'c> {
        WithoutBody(self.carrier)
    }

    /// Waits until the client has closed or reset the connection. Cancel-safe: no byte of the body
    /// or of a further request is lost.
    ///
    /// A client that has shut down its sending direction only cannot be told from one that has
    /// closed the connection until something is sent: as in nginx, both are [`Disconnect::Closed`].
    pub async fn client_gone(&self) -> Disconnect {
        poll_fn(|cx| self.poll_gone(cx)).await
    }

    /// Does `work` until the client has closed or reset the connection; then returns `None`. Work
    /// that yields now and then ends soon.
    pub async fn unless_gone<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => self.poll_gone(cx).map(|_| None),
        })
        .await
    }

    /// Polls for the event of [`Exchange::client_gone`].
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        self.carrier.poll_gone(cx)
    }
}

/// A handler's wait for more of the body, until dropped.
struct BodyWait<'c>(&'c dyn Carrier);

impl Drop for BodyWait<'_> {
    fn drop(&mut self) {
        self.0.awaits_body(false);
    }
}

/// The connection of an exchange. Implemented by each protocol.
pub trait Carrier: BodySource {
    /// Implements [`Exchange::body_len`].
    fn body_len(&self) -> Option<u64>;
    /// Sets the maximum length of the body in bytes.
    fn limit_body(&self, max: u64);
    /// Records whether the handler only waits for more of the body. The connection may be evicted
    /// meanwhile.
    fn awaits_body(&self, _waits: bool) {}
    /// Returns false if the owner of the request, which is known now, has no memory left for it.
    /// The handler then returns a response at once, which is not sent.
    fn admits(&self, _request: &Request) -> bool {
        true
    }
    /// Appends an interim response to the output.
    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()>;
    /// Sends the output.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Implements [`Exchange::poll_gone`].
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Disconnect>;
}

/// Carrier of a request without a body.
pub struct WithoutBody<'c>(&'c dyn Carrier);

impl BodySource for WithoutBody<'_> {
    fn poll_body(&self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        Poll::Ready(Ok(None))
    }
}

impl Carrier for WithoutBody<'_> {
    fn body_len(&self) -> Option<u64> {
        Some(0)
    }

    fn admits(&self, request: &Request) -> bool {
        self.0.admits(request)
    }

    fn limit_body(&self, _: u64) {}

    fn queue_interim(&self, status: u16, fields: &FieldBlock) -> io::Result<()> {
        self.0.queue_interim(status, fields)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        self.0.poll_gone(cx)
    }
}

/// State of a connection that the client has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// The client has ended its sending; most likely it has closed the connection.
    Closed,
    /// The connection is broken.
    Reset,
}

/// Record of a request and its response, for the access log.
#[derive(Debug)]
pub struct RequestRecord<'a> {
    /// Connection of the request.
    pub connection: &'a Arc<ConnectionInfo>,
    /// The request; `None` if its head was refused.
    pub request: Option<&'a Request>,
    /// Request line of a refused head, as far as it arrived; otherwise empty. A head that is
    /// incomplete when the client disconnects counts as refused with status 400, though no response
    /// was sent.
    pub refused_line: &'a [u8],
    /// Reason for which the head was refused.
    pub refusal: Option<&'static str>,
    /// Status of the response.
    pub status: u16,
    /// Header fields of the response.
    pub fields: &'a FieldBlock,
    /// Fields that the connection has added to the response.
    pub connection_fields: ConnectionFields<'a>,
    /// Bytes of the request: head and body.
    pub received: u64,
    /// Bytes of the response, including head and framing.
    pub sent: u64,
    /// Bytes of the response body.
    pub body_sent: u64,
    /// Time from the first byte of the request until the connection had the last of the response.
    pub elapsed: Duration,
    /// Result of sending the response.
    pub outcome: SendOutcome,
}

/// Result of sending a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    /// The response was sent completely.
    Complete,
    /// The client closed the connection, or was too slow.
    ClientGone,
    /// The body failed, or was shorter than announced. The client sees a cut connection.
    BodyFailed,
}

impl From<Result<(), SendError>> for SendOutcome {
    fn from(result: Result<(), SendError>) -> Self {
        match result {
            Ok(()) => SendOutcome::Complete,
            Err(SendError::ClientGone) => SendOutcome::ClientGone,
            Err(SendError::BodyFailed) => SendOutcome::BodyFailed,
        }
    }
}

impl From<End> for SendOutcome {
    fn from(reason: End) -> Self {
        match reason {
            End::Finished | End::TimedOut => SendOutcome::Complete,
            End::Client => SendOutcome::ClientGone,
            End::Server => SendOutcome::BodyFailed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(rule: &InterimFields, lines: &[(&str, &str)]) -> String {
        let mut fields = FieldBlock::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value));
        String::from_utf8(rule.of(&fields).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn an_interim_response_has_no_field_that_the_final_one_cannot_have() {
        let lines = [
            ("Link", "</a.css>"),
            ("x-accel-redirect", "/secret"),
            ("X-Sendfile", "/srv/secret"),
            ("X-Accel-Expires", "5"),
            ("X-Powered-By", "PHP"),
        ];
        let all = InterimFields::default();
        assert_eq!(sent(&all, &lines), "Link: </a.css>\r\nX-Powered-By: PHP\r\n");
        let hidden = InterimFields { hidden: vec!["x-powered-by".into()], ..all.clone() };
        assert_eq!(sent(&hidden, &lines), "Link: </a.css>\r\n");
        let few = InterimFields { only_link: true, ..all };
        assert_eq!(sent(&few, &lines), "Link: </a.css>\r\n");
    }
}
