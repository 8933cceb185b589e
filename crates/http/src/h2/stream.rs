//! A request and its response.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::ext::Protocol;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::Request as Received;
use http::header::SEC_WEBSOCKET_ACCEPT;
use http::request::Parts;
use tokio::time::{Instant, timeout};

use super::admission::StreamMemory;
use super::blocks::MalformedRequest;
use super::carrier::StreamCarrier;
use super::head;
use super::send;
use super::shared::Shared;
use super::tasks::StreamEnd;
use super::tunnel::Channel;
use super::turns::{Priority, Turn};
use super::websocket::Handshake;
use crate::body::Body;
use crate::body_length::BodyLength;
use crate::error_status::RequestError;
use crate::exchange::{Exchange, Handler, RequestRecord, SendOutcome};
use crate::h1::Refusal;
use crate::h1::head::Head;
use crate::input::Input;
use crate::limits::Limits;
use crate::message::{ConnectionFields, FieldBlock, Request, Response};
use crate::tunnel::{CloseReason, Tunnel, TunnelResult};

/// Maximum number of bytes of an unread body that are received and discarded after the response.
const MAX_DISCARDED_BODY: usize = 64 * 1024;

/// Maximum time for discarding an unread body.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers the request of a stream.
pub(super) async fn answer<H: Handler>(
    handler: H,
    shared: Rc<Shared>,
    received: Received<RecvStream>,
    respond: SendResponse<Bytes>,
) -> StreamEnd {
    let started_at = Instant::now();
    let limits = handler.limits();
    let (parts, body) = received.into_parts();
    let websocket = parts.extensions.get::<Protocol>().map(|_| Handshake::new());
    let stream = respond.stream_id().into();
    let (head, text) = read_head(&parts, websocket.as_ref(), stream, &limits, &shared);
    let priority = parts.headers.get_all("priority").iter().map(|value| value.as_bytes());
    let priority = Priority::read(priority);
    drop(parts);
    let head = head.and_then(|head| {
        let has_body = websocket.is_none() && !body.is_end_stream();
        body_length(&head, has_body, &limits).map(|length| (head, length))
    });
    let head_len = text.len() as u64;
    let memory = StreamMemory::new(&shared);
    let answer = Answer { handler, started_at, limits, shared, memory, priority, head_len };
    let end = match (head, websocket) {
        (Ok((head, _)), Some(handshake)) => answer.websocket(head, &handshake, body, respond).await,
        (Ok((head, length)), None) => answer.exchange(head, length, body, respond).await,
        (Err(refusal), _) => answer.refuse(refusal, &text, respond).await,
    };
    answer.shared.flaws.forget(stream);
    end
}

/// Reads the head of a request. The second value is its text in HTTP/1.
fn read_head(
    parts: &Parts,
    websocket: Option<&Handshake>,
    stream: u32,
    limits: &Limits,
    shared: &Shared,
) -> (Result<Head, Refusal>, Bytes) {
    let (head, text) = head::read(parts, websocket, limits);
    let protocol = parts.extensions.get().map(Protocol::as_str);
    let refusal = match protocol {
        // If the reading is not strict, the fragment is cut off, as by `h2`.
        _ if limits.strict && shared.flaws.has(stream, MalformedRequest::Fragment) => {
            Some(Refusal::Fragment)
        }
        Some(protocol) if protocol != "websocket" => Some(Refusal::Protocol),
        _ => None,
    };
    (refusal.map_or(head, Err), text)
}

/// Returns the length of the body in bytes; `None` if it is not announced.
fn body_length(head: &Head, has_body: bool, limits: &Limits) -> Result<Option<u64>, Refusal> {
    match head.body {
        _ if !has_body => Ok(Some(0)),
        BodyLength::Known(length) if head.fields.get("content-length").is_some() => {
            Ok(Some(length))
        }
        _ if limits.chunked_bodies => Ok(None),
        _ => Err(Refusal::LengthRequired),
    }
}

/// State of answering a request.
struct Answer<H> {
    handler: H,
    /// Arrival of the request.
    started_at: Instant,
    limits: Rc<Limits>,
    shared: Rc<Shared>,
    memory: StreamMemory,
    priority: Priority,
    /// Length of the head in bytes.
    head_len: u64,
}

/// Facts about a request for its record.
#[derive(Default)]
struct Facts<'r> {
    request: Option<&'r Request>,
    refused_line: &'r [u8],
    refusal: Option<&'static str>,
    carrier: Option<&'r StreamCarrier<'r>>,
    /// Bytes received by a tunnel.
    tunnelled: u64,
}

impl<H: Handler> Answer<H> {
    async fn exchange(
        &self,
        head: Head,
        length: Option<u64>,
        body: RecvStream,
        respond: SendResponse<Bytes>,
    ) -> StreamEnd {
        let stream = respond.stream_id().into();
        let expects_continue = head.expects_continue;
        let carrier = self.carrier(body, respond, length, expects_continue);
        let is_head = head.method.as_ref() == b"HEAD";
        let (request, mut response) = self.handle(head, &carrier).await;
        let Some(mut respond) = carrier.take_respond() else { return StreamEnd::Abandoned };
        let feed = response.take_feed();
        let facts = Facts { request: Some(&request), carrier: Some(&carrier), ..Facts::default() };
        if self.shared.flaws.has(stream, MalformedRequest::PseudoInTrailer) {
            // A malformed request is a stream error, regardless of the handler's response (RFC
            // 9113, 8.1.1).
            respond.send_reset(Reason::PROTOCOL_ERROR);
            let (fields, added) = (&response.fields, ConnectionFields::default());
            return self.report(&facts, 400, fields, added, 0, SendOutcome::ClientGone);
        }
        let sending = self.send(respond, response, is_head, facts);
        let end = match feed {
            None => sending.await,
            Some(feed) => Box::pin(feed.fill_beside(&carrier, sending)).await,
        };
        let rest = carrier.into_rest();
        if end == StreamEnd::Answered {
            let _ = timeout(DISCARD_TIMEOUT, discard_body(rest)).await;
        }
        end
    }

    fn carrier(
        &self,
        body: RecvStream,
        respond: SendResponse<Bytes>,
        length: Option<u64>,
        expects_continue: bool,
    ) -> StreamCarrier<'_> {
        let (shared, memory, limits) = (&self.shared, &self.memory, &self.limits);
        StreamCarrier::new(body, respond, shared, memory, limits, length, expects_continue)
    }

    /// Lets the handler answer.
    async fn handle(&self, head: Head, carrier: &StreamCarrier<'_>) -> (Request, Response) {
        let request = head.into_request(Arc::clone(&self.shared.info), self.handler.next_id());
        let mut exchange = Exchange::new(request, self.started_at.into_std(), carrier);
        let response = self.handler.handle(&mut exchange).await;
        (exchange.request, response)
    }

    /// Answers a request for a WebSocket, and runs the tunnel.
    async fn websocket(
        &self,
        head: Head,
        handshake: &Handshake,
        stream: RecvStream,
        respond: SendResponse<Bytes>,
    ) -> StreamEnd {
        let carrier = self.carrier(stream, respond, Some(0), false).without_body();
        let (request, mut response) = self.handle(head, &carrier).await;
        let Some(respond) = carrier.take_respond() else { return StreamEnd::Abandoned };
        let facts = Facts { request: Some(&request), ..Facts::default() };
        let error = match response.take_tunnel() {
            Some(tunnel) if handshake.is_accepted(&response.fields) => {
                let stream = carrier.into_rest();
                return self.run_tunnel(tunnel, response, stream, respond, facts).await;
            }
            Some(_) => self.handler.error(RequestError::NoResponse),
            // The client would take status 2xx for a WebSocket.
            None if (200..300).contains(&response.status) => {
                self.handler.error(RequestError::NoTunnel)
            }
            None => response,
        };
        self.send(respond, error, false, facts).await
    }

    /// Accepts a request for a WebSocket, and runs the tunnel.
    async fn run_tunnel(
        &self,
        tunnel: Tunnel,
        mut response: Response,
        stream: RecvStream,
        mut respond: SendResponse<Bytes>,
        facts: Facts<'_>,
    ) -> StreamEnd {
        response.status = 200;
        let added = self.connection_fields(&response, None);
        let mut head = send::head(&response, &added);
        head.headers_mut().remove(SEC_WEBSOCKET_ACCEPT);
        let mut carried =
            TunnelResult { from_client: 0, to_client: 0, reason: CloseReason::Client };
        self.shared.output.add_head(&response.fields);
        if let Ok(to) = respond.send_response(head, false) {
            let mut channel = Channel::new(stream, to, Rc::clone(&self.shared));
            let draining = self.shared.phase.signal().register();
            carried = Box::pin(tunnel.run(&mut channel, Input::default(), &draining)).await;
            channel.close(carried.reason);
        }
        let facts = Facts { tunnelled: carried.from_client, ..facts };
        let outcome = carried.reason.into();
        self.report(&facts, 200, &response.fields, added, carried.to_client, outcome)
    }

    /// Answers a head that cannot be read. Other streams continue.
    async fn refuse(
        &self,
        refusal: Refusal,
        text: &[u8],
        respond: SendResponse<Bytes>,
    ) -> StreamEnd {
        let line = memchr::memchr(b'\r', text).unwrap_or(text.len()).min(self.limits.max_line);
        let refused_line = text.get(..line).unwrap_or_default();
        let response = self.handler.error(refusal.into());
        let facts = Facts { refused_line, refusal: Some(refusal.reason()), ..Facts::default() };
        self.send(respond, response, false, facts).await
    }

    /// Sends a response and reports its record.
    async fn send(
        &self,
        respond: SendResponse<Bytes>,
        mut response: Response,
        is_head: bool,
        facts: Facts<'_>,
    ) -> StreamEnd {
        if !self.memory.is_admitted() {
            return self.refuse_stream(respond, response, &facts);
        }
        let has_no_body = matches!(response.status, 204 | 304);
        // A body with an announced length has no trailer.
        let has_trailer = response.trailer().is_some_and(|trailer| !trailer.lines().is_empty());
        let length = response.body.len().filter(|_| !has_no_body && !has_trailer);
        let added = self.connection_fields(&response, length);
        let (status, fields) = (response.status, response.fields.clone());
        let sends_body = !has_no_body && !is_head && length != Some(0);
        let turn = Turn::new(&self.shared.turns, respond.stream_id().into(), self.priority);
        let body = sends_body.then_some(turn);
        let (request, limits, shared) = (facts.request, &self.limits, &self.shared);
        let sending = send::send(respond, request, &mut response, &added, body, limits, shared);
        let (body_sent, result) = sending.await;
        let end = self.report(&facts, status, &fields, added, body_sent, result.into());
        // A stream counts until its producer has stopped, so that a client which resets its streams
        // cannot occupy more producers than one that waits.
        if let (StreamEnd::Abandoned, Body::Stream(stream)) = (end, &mut response.body) {
            poll_fn(|cx| stream.poll_finished(cx)).await;
        }
        end
    }

    /// Resets the stream of a request for which there is no memory. The client may send it again
    /// (RFC 9113, 8.7).
    fn refuse_stream(
        &self,
        mut respond: SendResponse<Bytes>,
        response: Response,
        facts: &Facts<'_>,
    ) -> StreamEnd {
        respond.send_reset(Reason::REFUSED_STREAM);
        let added = ConnectionFields::default();
        self.report(facts, response.status, &response.fields, added, 0, SendOutcome::ClientGone);
        StreamEnd::Refused
    }

    fn connection_fields(&self, response: &Response, length: Option<u64>) -> ConnectionFields<'_> {
        ConnectionFields {
            server: if response.adds_server { &self.limits.server } else { b"" },
            date: response.adds_date,
            length,
            ..ConnectionFields::default()
        }
    }

    fn report(
        &self,
        facts: &Facts<'_>,
        status: u16,
        fields: &FieldBlock,
        added: ConnectionFields<'_>,
        body_sent: u64,
        outcome: SendOutcome,
    ) -> StreamEnd {
        self.handler.log_request(&RequestRecord {
            connection: &self.shared.info,
            request: facts.request,
            refused_line: facts.refused_line,
            refusal: facts.refusal,
            status,
            fields,
            connection_fields: added,
            received: self.head_len
                + facts.tunnelled
                + facts.carrier.map_or(0, |carrier| carrier.received()),
            sent: fields.as_bytes().len() as u64 + body_sent,
            body_sent,
            elapsed: self.started_at.elapsed(),
            outcome,
        });
        match outcome {
            SendOutcome::ClientGone => StreamEnd::Abandoned,
            SendOutcome::Complete | SendOutcome::BodyFailed => StreamEnd::Answered,
        }
    }
}

/// Receives and discards the unread rest of a body, if it is short. To drop the body at once would
/// reset the stream.
async fn discard_body(mut body: RecvStream) {
    let mut discarded = 0;
    while discarded <= MAX_DISCARDED_BODY
        && let Some(Ok(bytes)) = poll_fn(|cx| body.poll_data(cx)).await
    {
        discarded += bytes.len();
        let _ = body.flow_control().release_capacity(bytes.len());
    }
}
