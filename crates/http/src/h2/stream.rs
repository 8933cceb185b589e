//! One request and its response.

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
use tokio::time::{Instant, timeout};

use super::blocks::{Flaw, Flaws};
use super::budget::Budget;
use super::head;
use super::link::Link;
use super::send;
use super::tunnel::Channel;
use super::turns::{Priority, Turn, Turns};
use super::waiting::Waiting;
use super::websocket::Handshake;
use crate::body::Body;
use crate::exchange::{Exchange, Finished, Handler, Outcome};
use crate::framing::BodyLength;
use crate::h1::Refusal;
use crate::h1::head::Head;
use crate::h1::send::Cut;
use crate::input::Input;
use crate::limits::Limits;
use crate::message::{Added, ConnectionInfo, FieldBlock, Request, Response};
use crate::tunnel::{Carried, End};

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With its response.
    Answered,
    /// Before that, by the client or for a mistake of the client's.
    GivenUp,
}

/// What a stream has of its connection.
pub(super) struct Connection<H> {
    pub handler: H,
    pub info: Arc<ConnectionInfo>,
    pub turns: Rc<Turns>,
    pub budget: Rc<Budget>,
    pub waiting: Rc<Waiting>,
    pub flaws: Rc<Flaws>,
}

/// Answers the request of a stream.
pub(super) async fn answer<H: Handler>(
    connection: Connection<H>,
    received: Received<RecvStream>,
    respond: SendResponse<Bytes>,
) -> Ended {
    let Connection { handler, info, turns, budget, waiting, flaws } = connection;
    let begun = Instant::now();
    let limits = handler.limits();
    let (parts, body) = received.into_parts();
    let protocol = parts.extensions.get().map(Protocol::as_str);
    let websocket = protocol.map(|_| Handshake::new());
    let (mut read, text) = head::read(&parts, websocket.as_ref(), &limits);
    if protocol.is_some_and(|protocol| protocol != "websocket") {
        read = Err(Refusal::Protocol);
    }
    let stream = respond.stream_id().into();
    // A reading that is not strict cuts it off too.
    if limits.strict && flaws.has(stream, Flaw::Fragment) {
        read = Err(Refusal::Fragment);
    }
    let priority = parts.headers.get_all("priority").iter().map(|value| value.as_bytes());
    let priority = Priority::read(priority);
    drop(parts);
    let length = |head: &Head| match head.body {
        _ if websocket.is_some() || body.is_end_stream() => Ok(Some(0)),
        BodyLength::Known(length) if head.fields.get("content-length").is_some() => {
            Ok(Some(length))
        }
        _ if limits.chunked_bodies => Ok(None),
        _ => Err(Refusal::LengthRequired),
    };
    let read = read.and_then(|head| length(&head).map(|length| (head, length)));
    let head_len = text.len() as u64;
    let answer =
        Answer { handler, info, begun, limits, turns, budget, waiting, flaws, priority, head_len };
    let ended = match (read, websocket) {
        (Ok((head, _)), Some(handshake)) => answer.websocket(head, &handshake, body, respond).await,
        (Ok((head, length)), None) => answer.exchange(head, length, body, respond).await,
        (Err(refusal), _) => answer.refuse(refusal, &text, respond).await,
    };
    answer.flaws.forget(stream);
    ended
}

struct Answer<H> {
    handler: H,
    info: Arc<ConnectionInfo>,
    begun: Instant,
    limits: Rc<Limits>,
    turns: Rc<Turns>,
    budget: Rc<Budget>,
    waiting: Rc<Waiting>,
    flaws: Rc<Flaws>,
    priority: Priority,
    head_len: u64,
}

/// Bytes of an unread body that are read and dropped, and how long that may take.
const LEFTOVER: usize = 64 * 1024;
const LEFTOVER_TIME: Duration = Duration::from_secs(1);

async fn drop_body(mut body: RecvStream) {
    let mut dropped = 0;
    while dropped <= LEFTOVER
        && let Some(Ok(bytes)) = poll_fn(|cx| body.poll_data(cx)).await
    {
        dropped += bytes.len();
        let _ = body.flow_control().release_capacity(bytes.len());
    }
}

/// What is reported of a request beside its response.
#[derive(Default)]
struct Asked<'r> {
    request: Option<&'r Request>,
    refused_line: &'r [u8],
    refusal: Option<&'static str>,
    /// What took bytes of the body, and bytes that were taken otherwise.
    link: Option<&'r Link>,
    body: u64,
}

impl<H: Handler> Answer<H> {
    async fn exchange(
        &self,
        head: Head,
        length: Option<u64>,
        body: RecvStream,
        respond: SendResponse<Bytes>,
    ) -> Ended {
        let stream = respond.stream_id().into();
        let link = self.link(body, respond, length, head.expects_continue);
        let head_only = head.method.as_ref() == b"HEAD";
        let request = head.into_request(Arc::clone(&self.info), self.handler.next_id());
        let mut exchange = Exchange::new(request, self.begun.into_std(), &link);
        let mut response = self.handler.handle(&mut exchange).await;
        let Exchange { request, .. } = exchange;
        let Some(mut respond) = link.take_respond() else { return Ended::GivenUp };
        let feed = response.take_feed();
        let asked = Asked { request: Some(&request), link: Some(&link), ..Asked::default() };
        if self.flaws.has(stream, Flaw::PseudoInTrailer) {
            // Whatever the handler has made of it: malformed requests are stream errors (RFC 9113,
            // 8.1.1).
            respond.send_reset(Reason::PROTOCOL_ERROR);
            let (fields, added) = (&response.fields, Added::default());
            return self.report(&asked, 400, fields, added, 0, Outcome::ClientGone);
        }
        let sending = self.send(respond, response, head_only, asked);
        let ended = match feed {
            None => sending.await,
            Some(feed) => Box::pin(feed.fill_beside(&link, sending)).await,
        };
        let rest = link.into_rest();
        if ended == Ended::Answered {
            // What is still on its way is let in, if it is little; otherwise it is given up.
            let _ = timeout(LEFTOVER_TIME, drop_body(rest)).await;
        }
        ended
    }

    fn link(
        &self,
        body: RecvStream,
        respond: SendResponse<Bytes>,
        length: Option<u64>,
        expects_continue: bool,
    ) -> Link {
        let Answer { limits, budget, waiting, flaws, .. } = self;
        let connection = super::link::Connection { limits, budget, waiting, flaws };
        Link::new(body, respond, connection, length, expects_continue)
    }

    /// Answers a request for a WebSocket, and joins the client with who speaks it.
    async fn websocket(
        &self,
        head: Head,
        handshake: &Handshake,
        stream: RecvStream,
        respond: SendResponse<Bytes>,
    ) -> Ended {
        let link = self.link(stream, respond, Some(0), false).without_body();
        let request = head.into_request(Arc::clone(&self.info), self.handler.next_id());
        let mut exchange = Exchange::new(request, self.begun.into_std(), &link);
        let mut response = self.handler.handle(&mut exchange).await;
        let Exchange { request, .. } = exchange;
        let Some(mut respond) = link.take_respond() else { return Ended::GivenUp };
        let stream = link.into_rest();
        let asked = Asked { request: Some(&request), ..Asked::default() };
        let tunnel = match response.take_tunnel() {
            Some(tunnel) if handshake.is_accepted(&response.fields) => tunnel,
            Some(_) => return self.send(respond, self.handler.error(502), false, asked).await,
            // The client would take success for a WebSocket.
            None if (200..300).contains(&response.status) => {
                return self.send(respond, self.handler.error(501), false, asked).await;
            }
            None => return self.send(respond, response, false, asked).await,
        };
        response.status = 200;
        let added = self.added(&response, None);
        let mut head = send::head(&response, &added);
        head.headers_mut().remove(SEC_WEBSOCKET_ACCEPT);
        let mut carried = Carried { from_client: 0, to_client: 0, end: End::Client };
        if let Ok(to) = respond.send_response(head, false) {
            let mut channel = Channel::new(stream, to, Rc::clone(&self.budget));
            let draining = self.waiting.signal().connection();
            carried = Box::pin(tunnel.run(&mut channel, Input::default(), &draining)).await;
            channel.end(carried.end);
        }
        let outcome = match carried.end {
            End::Finished | End::Over => Outcome::Complete,
            End::Client => Outcome::ClientGone,
            End::Server => Outcome::BodyFailed,
        };
        let asked = Asked { body: carried.from_client, ..asked };
        self.report(&asked, 200, &response.fields, added, carried.to_client, outcome)
    }

    /// Answers a head that cannot be read. Other streams are not concerned.
    async fn refuse(&self, refusal: Refusal, text: &[u8], respond: SendResponse<Bytes>) -> Ended {
        let line = memchr::memchr(b'\r', text).unwrap_or(text.len()).min(self.limits.max_line);
        let refused_line = text.get(..line).unwrap_or_default();
        let refusal = (Some(refusal.reason()), self.handler.error(refusal.status()));
        let asked = Asked { refused_line, refusal: refusal.0, ..Asked::default() };
        self.send(respond, refusal.1, false, asked).await
    }

    /// Sends a response and reports it.
    async fn send(
        &self,
        respond: SendResponse<Bytes>,
        mut response: Response,
        head_only: bool,
        asked: Asked<'_>,
    ) -> Ended {
        let bodiless = matches!(response.status, 204 | 304);
        // Behind an announced length there is no trailer.
        let trailer = response.trailer().is_some_and(|trailer| !trailer.lines().is_empty());
        let length = response.body.len().filter(|_| !bodiless && !trailer);
        let added = self.added(&response, length);
        let (status, fields) = (response.status, response.fields.clone());
        let sends_body = !bodiless && !head_only && length != Some(0);
        let turn = Turn::new(&self.turns, respond.stream_id().into(), self.priority);
        let body = sends_body.then_some(turn);
        let sending = send::send(respond, &mut response, &added, body, &self.limits, &self.budget);
        let (body_sent, result) = sending.await;
        let outcome = match result {
            Ok(()) => Outcome::Complete,
            Err(Cut::Client) => Outcome::ClientGone,
            Err(Cut::Body) => Outcome::BodyFailed,
        };
        let ended = self.report(&asked, status, &fields, added, body_sent, outcome);
        // What was asked for counts until nobody works on it any more, so that a client that gives
        // up what it has asked for cannot have more done than one that waits.
        if let (Ended::GivenUp, Body::Stream(stream)) = (ended, &mut response.body) {
            poll_fn(|cx| stream.poll_over(cx)).await;
        }
        ended
    }

    fn added(&self, response: &Response, length: Option<u64>) -> Added<'_> {
        Added {
            server: if response.adds_server { &self.limits.server } else { b"" },
            date: response.adds_date,
            length,
            ..Added::default()
        }
    }

    fn report(
        &self,
        asked: &Asked<'_>,
        status: u16,
        fields: &FieldBlock,
        added: Added<'_>,
        body_sent: u64,
        outcome: Outcome,
    ) -> Ended {
        self.handler.finished(&Finished {
            connection: &self.info,
            request: asked.request,
            refused_line: asked.refused_line,
            refusal: asked.refusal,
            status,
            fields,
            added,
            received: self.head_len + asked.body + asked.link.map_or(0, Link::received),
            sent: fields.as_bytes().len() as u64 + body_sent,
            body_sent,
            elapsed: self.begun.elapsed(),
            outcome,
        });
        if outcome == Outcome::ClientGone { Ended::GivenUp } else { Ended::Answered }
    }
}
