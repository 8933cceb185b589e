//! A request and its response.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::ext::Protocol;
use h2::server::SendResponse;
use http::Request as Received;
use http::header::SEC_WEBSOCKET_ACCEPT;
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use tokio::time::Instant;

use super::blocks::{Flaws, MalformedRequest};
use super::incoming::RequestBody;
use super::outgoing::{self, ResponseStream};
use super::output::Output;
use super::tunnel::Channel;
use super::websocket::Handshake;
use crate::error_status::RequestError;
use crate::exchange::Handler;
use crate::forward::{End, Forwarded};
use crate::h1::Refusal;
use crate::h1::head::Head;
use crate::input::Input;
use crate::limits::Limits;
use crate::message::{ConnectionInfo, Response, Version};
use crate::streams::{
    Answer, Facts, Priority, RawHead, Shared, StreamEnd, StreamMemory, body_length, discard_body,
    read_head,
};
use crate::tunnel::Tunnel;

/// The connection of a stream.
#[derive(Clone)]
pub(super) struct StreamContext {
    pub info: Arc<ConnectionInfo>,
    pub shared: Rc<Shared>,
    pub flaws: Rc<Flaws>,
    pub output: Rc<Output>,
}

/// Answers the request of a stream.
pub(super) async fn answer<H: Handler>(
    handler: H,
    connection: Rc<StreamContext>,
    received: Received<RecvStream>,
    respond: SendResponse<Bytes>,
) -> StreamEnd {
    let started_at = Instant::now();
    let limits = handler.limits();
    let (parts, body) = received.into_parts();
    let websocket = parts.extensions.get::<Protocol>().map(|_| Handshake::new());
    let number = respond.stream_id().into();
    let (head, text) = head(&parts, websocket.as_ref(), number, &limits, &connection.flaws);
    let priority = parts.headers.get_all("priority").iter().map(|value| value.as_bytes());
    let priority = Priority::read(priority);
    drop(parts);
    let head = head.and_then(|head| {
        let has_body = websocket.is_none() && !body.is_end_stream();
        body_length(&head, has_body, &limits).map(|length| (head, length))
    });
    let StreamContext { info, shared, flaws, output } = &*connection;
    let (info, memory) = (Arc::clone(info), StreamMemory::new(shared));
    let answer = Answer::new(handler, memory, info, started_at, priority, text.len());
    let body = RequestBody::new(body, number, flaws);
    let response = ResponseStream::new(respond, output);
    let end = match (head, websocket) {
        (Ok((head, _)), Some(handshake)) => {
            answer_websocket(&answer, &connection, head, &handshake, body, response).await
        }
        (Ok((head, length)), None) => {
            let (end, rest) = answer.exchange(head, length, body, response).await;
            if let (StreamEnd::Answered, Some(mut rest)) = (end, rest) {
                discard_body(&mut rest).await;
            }
            end
        }
        (Err(refusal), _) => answer.refuse(refusal, &text, response).await,
    };
    flaws.forget(number);
    end
}

/// Reads the head of a request. The second value is its text in HTTP/1.
fn head(
    parts: &Parts,
    websocket: Option<&Handshake>,
    stream: u32,
    limits: &Limits,
    flaws: &Flaws,
) -> (Result<Head, Refusal>, Bytes) {
    let fields = parts.headers.iter();
    let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let fields: Vec<_> = fields.collect();
    let head = RawHead {
        version: Version::Http2,
        method: parts.method.as_str().as_bytes(),
        is_http: parts.uri.scheme_str() == Some("http"),
        authority: parts.uri.authority().map(Authority::as_str).map(str::as_bytes),
        path: parts.uri.path_and_query().map_or("/", PathAndQuery::as_str).as_bytes(),
        fields: &fields,
        websocket_key: websocket.map(Handshake::key),
    };
    let (head, text) = read_head(&head, limits);
    let protocol = parts.extensions.get().map(Protocol::as_str);
    let refusal = match protocol {
        // If the reading is not strict, the fragment is cut off, as by `h2`.
        _ if limits.strict && flaws.has(stream, MalformedRequest::Fragment) => {
            Some(Refusal::Fragment)
        }
        Some(protocol) if protocol != "websocket" => Some(Refusal::Protocol),
        _ => None,
    };
    (refusal.map_or(head, Err), text)
}

/// Answers a request for a WebSocket, and runs the tunnel.
async fn answer_websocket<H: Handler>(
    answer: &Answer<H>,
    connection: &StreamContext,
    head: Head,
    handshake: &Handshake,
    body: RequestBody,
    response: ResponseStream,
) -> StreamEnd {
    let carrier = answer.carrier(body, response, Some(0), false).without_body();
    let (request, mut response) = answer.handle(head, &carrier).await;
    let Some(outgoing) = carrier.take_outgoing() else { return StreamEnd::Abandoned };
    let facts = Facts { request: Some(&request), ..Facts::default() };
    let error = match response.take_tunnel() {
        Some(tunnel) if handshake.is_accepted(&response.fields) => {
            let stream = carrier.into_incoming().stream;
            let respond = outgoing.respond;
            return run_tunnel(answer, connection, tunnel, response, stream, respond, facts).await;
        }
        Some(_) => answer.handler.error(RequestError::NoResponse),
        // The client would take status 2xx for a WebSocket.
        None if (200..300).contains(&response.status) => {
            answer.handler.error(RequestError::NoTunnel)
        }
        None => response,
    };
    answer.send(outgoing, error, false, facts, &|| 0).await
}

/// Accepts a request for a WebSocket, and runs the tunnel.
async fn run_tunnel<H: Handler>(
    answer: &Answer<H>,
    connection: &StreamContext,
    tunnel: Tunnel,
    mut response: Response,
    stream: RecvStream,
    mut respond: SendResponse<Bytes>,
    facts: Facts<'_>,
) -> StreamEnd {
    response.status = 200;
    let added = answer.connection_fields(&response, None);
    let mut head = outgoing::head(&response, &added);
    head.headers_mut().remove(SEC_WEBSOCKET_ACCEPT);
    let mut carried = Forwarded { from_client: 0, to_client: 0, end: End::Client };
    connection.output.add_head(&response.fields);
    if let Ok(to) = respond.send_response(head, false) {
        let mut channel = Channel::new(stream, to, Rc::clone(&connection.shared));
        let draining = connection.shared.phase.signal().register();
        carried = Box::pin(tunnel.run(&mut channel, Input::default(), &draining)).await;
        channel.close(carried.end);
    }
    let facts = Facts { received: carried.from_client, ..facts };
    let outcome = carried.end.into();
    answer.report(&facts, 200, &response.fields, added, carried.to_client, outcome)
}

#[cfg(test)]
mod tests {
    use http::{Method, Request};

    use super::*;

    #[test]
    fn a_request_for_a_websocket_is_one_of_http_1_and_any_other_connect_is_refused() {
        let request = Request::builder().method(Method::CONNECT).uri("https://a/chat?room=1");
        let parts = request.header("x-a", "1").body(()).unwrap().into_parts().0;
        let (handshake, flaws) = (Handshake::new(), Flaws::default());
        let read = |websocket| head(&parts, websocket, 1, &Limits::default(), &flaws).0;
        let found = read(Some(&handshake)).unwrap();
        assert_eq!((&*found.method, &*found.target), (&b"GET"[..], &b"/chat?room=1"[..]));
        assert_eq!(found.fields.get("x-a"), Some(&b"1"[..]));
        assert_eq!(found.fields.get("sec-websocket-key"), Some(handshake.key().as_bytes()));
        assert_eq!(read(None).unwrap_err(), Refusal::Connect);
    }
}
