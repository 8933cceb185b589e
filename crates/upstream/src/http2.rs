//! Servers that speak HTTP/2, such as those of gRPC.
//!
//! As [`crate::proxy`], with these differences:
//!
//! 1. Requests share connections ([`http2_pool`](crate::connections::http2_pool)). A server can
//!    refuse a request that it has not processed; then it is sent again. If a connection is lost,
//!    requests are repeated as over HTTP/1: only those that may be.
//! 2. Bodies of gRPC are streams of messages in both directions. They are neither stored nor read
//!    ahead of the other side, unless the configuration says so.
//! 3. The status of gRPC is in the trailer, which reaches clients that accept trailers.
//! 4. There is no switch to another protocol: WebSockets are refused (501).

mod body;
mod conversation;
pub mod head;
pub mod health;
mod upload;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use howdah_config::{ServerOptions, Timeouts};
use howdah_http::body::Body;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response, ResponseExtras, Trailer};
use howdah_http::respond::refuse;

use self::body::ResponseBody;
use self::conversation::Conversation;
use self::head::{Head, Outline};
use self::upload::Upload;
use crate::connections::http2_pool::{Http2Connection, Http2Slot};
use crate::failure::Failure;
use crate::proxy::framing::TrailerSource;
use crate::proxy::request;
use crate::retry::{self, Attempt, Protocol, RequestContext, SendError};
use crate::servers::selection::ActiveRequest;
use crate::servers::server::Server;
use crate::servers::upstream::Upstream;
use crate::thread::UpstreamThread;
use crate::transfer::BufferSettings;
use crate::transfer::content::Content;
use crate::transfer::response_buffer::{ResponseBuffering, TurnLimit};
use crate::transfer::upload::Source;

/// Passes a request to a server of an upstream. Returns as soon as the head of the response is
/// complete.
pub async fn run(
    thread: &Rc<UpstreamThread>,
    upstream: &Arc<Upstream>,
    buffer: &BufferSettings<'_>,
    options: &Arc<ServerOptions>,
    exchange: &mut Exchange<'_>,
) -> Response {
    if is_websocket(&exchange.request) {
        let owner = (upstream, &*upstream.log_limit);
        let problem = format_args!(
            "WebSockets do not pass to servers with \"http2\"; pass these requests to another \
             upstream, without \"http2\""
        );
        retry::log_request(thread, owner, exchange, problem);
        return refuse(RequestError::NoTunnel);
    }
    let is_buffered = !head::is_grpc(&exchange.request);
    let is_streamed = buffer.streams_request(upstream.config.request_buffering && is_buffered);
    let owner = (upstream, &*upstream.log_limit);
    let is_wanted = options.passes_body();
    let content = retry::read_content(thread, owner, buffer, is_streamed, is_wanted, exchange);
    let content = match content.await {
        Ok(content) => content,
        Err(error) => return refuse(error),
    };
    retry::run(&Http2Request {
        context: RequestContext { thread, exchange, content: &content, owner: upstream, options },
        timeouts: options.timeouts.applied_to(&upstream.config.timeouts),
        buffering: buffer.of_response(upstream.config.buffering && is_buffered),
        takes_trailers: options.passes_headers() && request::takes_trailers(&exchange.request),
    })
    .await
}

/// Returns true if a client wants to open a WebSocket.
fn is_websocket(request: &Request) -> bool {
    request::upgrade(request).is_some_and(|offered| request::is_offered(b"websocket", &offered))
}

/// A request for the HTTP/2 servers of an upstream.
struct Http2Request<'a, 'c> {
    context: RequestContext<'a, 'c, Arc<Upstream>>,
    timeouts: Timeouts,
    buffering: ResponseBuffering<'a>,
    /// The client accepts trailers.
    takes_trailers: bool,
}

/// A request as it is sent to a server.
struct EncodedRequest {
    head: http::Request<()>,
    trailer: TrailerSource,
}

impl Protocol for Http2Request<'_, '_> {
    type Owner = Arc<Upstream>;
    type Connection = Http2Slot;
    type Encoded = EncodedRequest;
    type Answer = (Conversation, Head);

    const RETRIES_AFTER_TIMEOUT: bool = true;

    fn context(&self) -> &RequestContext<'_, '_, Arc<Upstream>> {
        &self.context
    }

    fn status((_, head): &Self::Answer) -> u16 {
        head.status
    }

    fn encode(&self, server: &Server) -> Result<EncodedRequest, Failure> {
        let RequestContext { exchange, content, .. } = self.context;
        let config = &self.context.owner.config;
        let changes = self.context.changes();
        let outline = Outline {
            address: &server.origin,
            is_secure: self.context.owner.tls.is_some(),
            takes_trailers: self.takes_trailers,
            length: content.len().filter(|length| *length > 0),
        };
        let head = head::encode(&exchange.request, &changes, outline)?;
        let trailer = match content {
            _ if !config.request_trailers => TrailerSource::Lines(Vec::new()),
            Content::Feed(_) => TrailerSource::Client(changes),
            _ => TrailerSource::Lines(request::trailer(&exchange.trailer(), &changes)),
        };
        Ok(EncodedRequest { head, trailer })
    }

    /// Takes a shared connection, for any request: see [`Failure::is_unprocessed`].
    fn take_idle(&self, server: &Server, _is_repeatable: bool) -> Option<Http2Slot> {
        self.context.thread.http2().take(&server.pool_key)
    }

    async fn connect(&self, server: &Server) -> Result<Http2Slot, Failure> {
        let connected = async {
            let stream = self.context.owner.connect(server, None).await?;
            Http2Connection::begin(stream, self.timeouts.idle).await
        };
        let limit = self.timeouts.connect;
        let connected = tokio::time::timeout(limit, connected).await;
        let connection = connected.unwrap_or(Err(Failure::ConnectTimeout))?;
        let slot = connection.slot();
        self.context.thread.put_http2(&server.pool_key, connection);
        Ok(slot)
    }

    /// Passes interim responses on until the final head.
    async fn send(
        &self,
        _attempt: &Attempt<Arc<Upstream>>,
        mut slot: Http2Slot,
        EncodedRequest { head, trailer }: EncodedRequest,
    ) -> Result<(Conversation, Head), SendError> {
        let RequestContext { thread, exchange, content, .. } = self.context;
        let has_body = content.len() != Some(0);
        let unsent = |failure| SendError { failure, has_input: false };
        // The server may allow fewer requests at once than are in progress.
        let limit = self.timeouts.send;
        let ready = poll_fn(|cx| slot.sender.poll_ready(cx));
        let ready = tokio::select! {
            ready = tokio::time::timeout(limit, ready) => ready,
            _ = exchange.client_gone() => return Err(unsent(Failure::ClientGone)),
        };
        ready
            .map_err(|_| unsent(Failure::SendTimeout))?
            .map_err(|error| unsent(Failure::NotSent(error.to_string())))?;
        let (response, stream) = slot
            .sender
            .send_request(head, !has_body)
            .map_err(|error| unsent(Failure::NotSent(error.to_string())))?;
        let upload = Upload::new(stream, Source::of(content, exchange), trailer, !has_body);
        let mut conversation =
            Conversation::new(upload, response, &self.timeouts, thread.timer(), slot);
        loop {
            let next = content.wait_for(exchange, |cx| conversation.poll_head(cx)).await;
            let head = next.map_err(|failure| {
                let has_input = conversation.has_input();
                SendError { failure, has_input }
            })?;
            match head.status {
                // The client has already got a 100 when its body was read.
                100 => {}
                101 => {
                    let failure = Failure::UnexpectedUpgrade;
                    return Err(SendError { failure, has_input: true });
                }
                ..200 => {
                    let _ = exchange.interim(head.status, &head.fields).await;
                }
                _ => return Ok((conversation, head)),
            }
        }
    }

    fn respond(
        &self,
        attempt: &Attempt<Arc<Upstream>>,
        (conversation, head): (Conversation, Head),
        active: ActiveRequest,
    ) -> Result<Response, Failure> {
        let RequestContext { thread, content, .. } = self.context;
        let Head { status, fields, has_date, length } = head;
        let trailer = self.takes_trailers.then(Trailer::default);
        let is_without_body = attempt.method() == b"HEAD" || matches!(status, 204 | 304);
        let body = match is_without_body || conversation.is_ended() {
            true if is_without_body => Body::unsent(length),
            true => Body::Empty,
            false => {
                let body = ResponseBody {
                    conversation: Some(conversation),
                    left: length,
                    trailer: trailer.clone(),
                    turn: TurnLimit::default(),
                    thread: Rc::clone(thread),
                    attempt: attempt.clone(),
                    _active: active,
                };
                self.buffering.body(body, &fields)
            }
        };
        let chunked = trailer.as_ref().is_some_and(|trailer| !trailer.lines().is_empty());
        let extras = ResponseExtras::of(trailer, content.rest());
        let mut response = Response {
            fields,
            adds_date: !has_date,
            chunked,
            extras,
            ..Response::new(status, body)
        };
        self.context.rewrite(&attempt.server.origin, &mut response);
        Ok(response)
    }
}
