//! A request and its response.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::admission::StreamMemory;
use super::carrier::StreamCarrier;
use super::direction::{Incoming, Outgoing, Reset};
use super::send;
use super::shared::Shared;
use super::tasks::StreamEnd;
use super::turns::{Priority, Turn};
use crate::body::Body;
use crate::body_length::BodyLength;
use crate::exchange::{Exchange, Handler, RequestRecord, SendOutcome};
use crate::h1::Refusal;
use crate::h1::head::Head;
use crate::limits::Limits;
use crate::message::{ConnectionFields, ConnectionInfo, FieldBlock, Request, Response};

/// Maximum number of bytes of an unread body that are received and discarded after the response.
const MAX_DISCARDED_BODY: usize = 64 * 1024;

/// Maximum time for discarding an unread body.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the length of the body in bytes; `None` if it is not announced.
pub(crate) fn body_length(
    head: &Head,
    has_body: bool,
    limits: &Limits,
) -> Result<Option<u64>, Refusal> {
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
pub(crate) struct Answer<H> {
    pub handler: H,
    /// Facts about the connection.
    pub info: Arc<ConnectionInfo>,
    /// Arrival of the request.
    started_at: Instant,
    pub limits: Rc<Limits>,
    pub shared: Rc<Shared>,
    memory: StreamMemory,
    priority: Priority,
    /// Length of the head in bytes.
    head_len: u64,
}

/// Facts about a request for its record.
#[derive(Default)]
pub(crate) struct Facts<'r> {
    pub request: Option<&'r Request>,
    pub refused_line: &'r [u8],
    pub refusal: Option<&'static str>,
    /// Bytes of the body received.
    pub received: u64,
}

impl<H: Handler> Answer<H> {
    /// Creates the state for a request that arrived at `started_at`, whose head had `head_len`
    /// bytes.
    pub fn new(
        handler: H,
        memory: StreamMemory,
        info: Arc<ConnectionInfo>,
        started_at: Instant,
        priority: Priority,
        head_len: usize,
    ) -> Answer<H> {
        let (limits, shared) = (handler.limits(), Rc::clone(memory.shared()));
        let head_len = head_len as u64;
        Answer { handler, info, started_at, limits, shared, memory, priority, head_len }
    }

    /// Answers a request with a body of `length` bytes, `None` if that is not announced. Returns
    /// also the direction of the request, if the handler has left a part of the body unread.
    pub async fn exchange<I: Incoming, O: Outgoing>(
        &self,
        head: Head,
        length: Option<u64>,
        incoming: I,
        outgoing: O,
    ) -> (StreamEnd, Option<I>) {
        let expects_continue = head.expects_continue;
        let carrier = self.carrier(incoming, outgoing, length, expects_continue);
        let is_head = head.method.as_ref() == b"HEAD";
        let (request, mut response) = self.handle(head, &carrier).await;
        let Some(mut outgoing) = carrier.take_outgoing() else {
            return (StreamEnd::Abandoned, None);
        };
        let feed = response.take_feed();
        let facts = Facts { request: Some(&request), ..Facts::default() };
        if carrier.is_malformed() {
            outgoing.reset(Reset::Malformed);
            let facts = Facts { received: carrier.received(), ..facts };
            let (fields, added) = (&response.fields, ConnectionFields::default());
            let end = self.report(&facts, 400, fields, added, 0, SendOutcome::ClientGone);
            return (end, None);
        }
        let received = || carrier.received();
        let sending = self.send(outgoing, response, is_head, facts, &received);
        let end = match feed {
            None => sending.await,
            Some(feed) => Box::pin(feed.fill_beside(&carrier, sending)).await,
        };
        (end, Some(carrier.into_incoming()))
    }

    /// Creates the carrier of the request.
    pub fn carrier<I: Incoming, O: Outgoing>(
        &self,
        incoming: I,
        outgoing: O,
        length: Option<u64>,
        expects_continue: bool,
    ) -> StreamCarrier<'_, I, O> {
        let (shared, memory, limits) = (&self.shared, &self.memory, &self.limits);
        StreamCarrier::new(incoming, outgoing, shared, memory, limits, length, expects_continue)
    }

    /// Lets the handler answer.
    pub async fn handle<I: Incoming, O: Outgoing>(
        &self,
        head: Head,
        carrier: &StreamCarrier<'_, I, O>,
    ) -> (Request, Response) {
        let request = head.into_request(Arc::clone(&self.info), self.handler.next_id());
        let mut exchange = Exchange::new(request, self.started_at.into_std(), carrier);
        let response = self.handler.handle(&mut exchange).await;
        (exchange.request, response)
    }

    /// Answers a head that cannot be read, of which `text` is known. Other streams continue.
    pub async fn refuse<O: Outgoing>(
        &self,
        refusal: Refusal,
        text: &[u8],
        outgoing: O,
    ) -> StreamEnd {
        let line = memchr::memchr(b'\r', text).unwrap_or(text.len()).min(self.limits.max_line);
        let refused_line = text.get(..line).unwrap_or_default();
        let response = self.handler.error(refusal.into());
        let facts = Facts { refused_line, refusal: Some(refusal.reason()), ..Facts::default() };
        self.send(outgoing, response, false, facts, &|| 0).await
    }

    /// Sends a response and reports its record. `received` returns the number of bytes of the body
    /// of the request.
    pub async fn send<O: Outgoing>(
        &self,
        outgoing: O,
        mut response: Response,
        is_head: bool,
        facts: Facts<'_>,
        received: &dyn Fn() -> u64,
    ) -> StreamEnd {
        if !self.memory.is_admitted() {
            return self.refuse_stream(outgoing, response, &facts);
        }
        let has_no_body = matches!(response.status, 204 | 304);
        // A body with an announced length has no trailer.
        let has_trailer = response.trailer().is_some_and(|trailer| !trailer.lines().is_empty());
        let length = response.body.len().filter(|_| !has_no_body && !has_trailer);
        let added = self.connection_fields(&response, length);
        let (status, fields) = (response.status, response.fields.clone());
        let sends_body = !has_no_body && !is_head && length != Some(0);
        let turn = Turn::new(&self.shared.turns, outgoing.id(), self.priority);
        let body = sends_body.then_some(turn);
        let (request, limits, shared) = (facts.request, &self.limits, &self.shared);
        let sending = send::send(outgoing, request, &mut response, &added, body, limits, shared);
        let (body_sent, result) = sending.await;
        let facts = Facts { received: received(), ..facts };
        let end = self.report(&facts, status, &fields, added, body_sent, result.into());
        // A stream counts until its producer has stopped, so that a client which resets its streams
        // cannot occupy more producers than one that waits.
        if let (StreamEnd::Abandoned, Body::Stream(stream)) = (end, &mut response.body) {
            poll_fn(|cx| stream.poll_finished(cx)).await;
        }
        end
    }

    /// Resets the stream of a request for which there is no memory. The client may send it again
    /// (RFC 9113, 8.7; RFC 9114, 4.1.1).
    fn refuse_stream<O: Outgoing>(
        &self,
        mut outgoing: O,
        response: Response,
        facts: &Facts<'_>,
    ) -> StreamEnd {
        outgoing.reset(Reset::Refused);
        let added = ConnectionFields::default();
        self.report(facts, response.status, &response.fields, added, 0, SendOutcome::ClientGone);
        StreamEnd::Refused
    }

    /// Returns the fields that the connection adds to a response.
    pub fn connection_fields(
        &self,
        response: &Response,
        length: Option<u64>,
    ) -> ConnectionFields<'_> {
        ConnectionFields {
            server: if response.adds_server { &self.limits.server } else { b"" },
            date: response.adds_date,
            length,
            ..ConnectionFields::default()
        }
    }

    /// Reports the record of a request and its response.
    pub fn report(
        &self,
        facts: &Facts<'_>,
        status: u16,
        fields: &FieldBlock,
        added: ConnectionFields<'_>,
        body_sent: u64,
        outcome: SendOutcome,
    ) -> StreamEnd {
        self.handler.log_request(&RequestRecord {
            connection: &self.info,
            request: facts.request,
            refused_line: facts.refused_line,
            refusal: facts.refusal,
            status,
            fields,
            connection_fields: added,
            received: self.head_len + facts.received,
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
/// reset the stream. Returns true at the end of the body.
pub(crate) async fn discard_body(incoming: &mut impl Incoming) -> bool {
    let mut discarded = 0;
    let rest = async {
        while discarded <= MAX_DISCARDED_BODY {
            match poll_fn(|cx| incoming.poll_data(cx)).await {
                Ok(Some(bytes)) => discarded += bytes.len(),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        false
    };
    timeout(DISCARD_TIMEOUT, rest).await.unwrap_or(false)
}
