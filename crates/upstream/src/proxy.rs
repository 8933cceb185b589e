//! HTTP proxy: `proxy` and `upstreams`.
//!
//! 1. The body is read from the client: into memory, then into an unlinked file. A slow client
//!    therefore occupies no connection to a server. If the configuration allows it, the body is
//!    streamed to the server ([`howdah_http::feed`]).
//! 2. The upstream's method selects a server ([`crate::servers::selection`]).
//! 3. The request is written anew for this server ([`request`]) and sent over an idle connection or
//!    a new one ([`crate::connections`], [`conversation`], [`crate::transfer::upload`]).
//! 4. The head of the response is parsed strictly ([`response`]). Interim responses are passed on.
//!    In the final one, the server's addresses are replaced by those that clients know (`rewrite`).
//! 5. The body (`body`) is read as fast as the server sends it, and sent at the client's pace
//!    ([`crate::transfer::response_buffer`]); then the connection is kept or closed. If the server
//!    switches to another protocol (101), client and server are connected directly (`upgraded`);
//!    until then no byte of that protocol is sent.
//!
//! Unless the configuration says otherwise, a request is sent a second time only if no effect can
//! happen twice: the connection was never made, or the method is idempotent, there is no body, and
//! no byte of a response has arrived. For the same reason a request that must not be repeated never
//! uses an idle connection, which the server may close at the same moment. [`crate::retry`]
//! implements this.
//!
//! The configuration alone determines the servers: no part of a request becomes an address or a
//! name to look up.

mod body;
pub mod changes;
pub mod conversation;
mod field_value;
mod forwarded;
pub mod framing;
pub mod hop;
pub mod request;
pub mod response;
pub mod rewrite;
mod upgraded;

use std::rc::Rc;
use std::sync::Arc;

use howdah_config::{Address, ServerOptions, Timeouts};
use howdah_http::body::Body;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Response, ResponseExtras, Trailer};
use howdah_http::respond::refuse;
use howdah_http::tunnel::Tunnel;
use howdah_http::variables::VariableSource;

use self::body::BodyContext;
use self::changes::HeadChanges;
use self::conversation::Conversation;
use self::framing::{Framing, TrailerSource};
use self::request::ConnectionOption;
use self::response::Head;
use self::upgraded::Upgraded;
use crate::connections::connection::Connection;
use crate::failure::{Failure, Malformed};
use crate::retry::{self, Attempt, Protocol, RequestContext, SendError};
use crate::servers::selection::ActiveRequest;
use crate::servers::server::Server;
use crate::servers::upstream::Upstream;
use crate::thread::UpstreamThread;
use crate::transfer::content::Content;
use crate::transfer::response_buffer::ResponseBuffering;
use crate::transfer::upload::Upload;

use crate::transfer::BufferSettings;

/// Passes a request to a server of an upstream. Returns as soon as the head of the response is
/// complete.
pub async fn run(
    thread: &Rc<UpstreamThread>,
    upstream: &Arc<Upstream>,
    buffer: &BufferSettings<'_>,
    options: &Arc<ServerOptions>,
    exchange: &mut Exchange<'_>,
) -> Response {
    let is_streamed = buffer.streams_request(upstream.config.request_buffering);
    let owner = (upstream, &*upstream.log_limit);
    let is_wanted = options.passes_body();
    let content = retry::read_content(thread, owner, buffer, is_streamed, is_wanted, exchange);
    let content = match content.await {
        Ok(content) => content,
        Err(error) => return refuse(error),
    };
    let upgrade = match &exchange.request.error {
        None if !options.passes_headers() => None,
        None => request::upgrade(&exchange.request),
        Some(_) => None, // the request is for an error page
    };
    retry::run(&HttpRequest {
        context: RequestContext { thread, exchange, content: &content, owner: upstream, options },
        timeouts: options.timeouts.applied_to(&upstream.config.timeouts),
        buffering: buffer.of_response(upstream.config.buffering),
        upgrade,
        takes_trailers: options.passes_headers() && request::takes_trailers(&exchange.request),
    })
    .await
}

/// A request for the HTTP servers of an upstream.
struct HttpRequest<'a, 'c> {
    context: RequestContext<'a, 'c, Arc<Upstream>>,
    timeouts: Timeouts,
    buffering: ResponseBuffering<'a>,
    /// Protocols that the client offers to switch to.
    upgrade: Option<Vec<u8>>,
    /// The client accepts trailers.
    takes_trailers: bool,
}

/// A request as it is sent to a server.
struct EncodedRequest {
    head: Vec<u8>,
    framing: Framing,
}

impl Protocol for HttpRequest<'_, '_> {
    type Owner = Arc<Upstream>;
    type Connection = Connection;
    type Encoded = EncodedRequest;
    type Answer = (Conversation, Head);

    const RETRIES_AFTER_TIMEOUT: bool = true;

    fn context(&self) -> &RequestContext<'_, '_, Arc<Upstream>> {
        &self.context
    }

    fn encode(&self, server: &Server) -> Result<EncodedRequest, Failure> {
        let RequestContext { exchange, content, .. } = self.context;
        let config = &self.context.owner.config;
        let changes = self.context.changes();
        let option = match &self.upgrade {
            Some(protocols) => ConnectionOption::Upgrade(protocols),
            None if config.keepalive > 0 => ConnectionOption::KeepAlive,
            None => ConnectionOption::Close,
        };
        let framing = self.framing(&changes);
        let length = content.len().filter(|_| matches!(framing, Framing::Length));
        let head = request::head(&exchange.request, &server.origin, &changes, length, option);
        Ok(EncodedRequest { head: head.ok_or(Malformed("the path is empty"))?, framing })
    }

    fn take_idle(&self, server: &Server, is_repeatable: bool) -> Option<Connection> {
        let keeps = self.context.owner.config.keepalive > 0 && self.upgrade.is_none();
        (keeps && is_repeatable).then(|| self.context.thread.take_idle(&server.pool_key))?
    }

    async fn connect(&self, server: &Server) -> Result<Connection, Failure> {
        let client = &self.context.exchange.request.connection;
        let connected = self.context.owner.connect(server, Some(client));
        let limit = self.timeouts.connect;
        tokio::time::timeout(limit, connected).await.unwrap_or(Err(Failure::ConnectTimeout))
    }

    /// Passes interim responses on until the final head.
    async fn send(
        &self,
        attempt: &Attempt<Arc<Upstream>>,
        connection: Connection,
        EncodedRequest { head, framing }: EncodedRequest,
    ) -> Result<(Conversation, Head), SendError> {
        let RequestContext { thread, exchange, content, .. } = self.context;
        let is_head = attempt.method() == b"HEAD";
        let (timeouts, timer) = (&self.timeouts, thread.timer());
        let upload = Upload::new(head, content, framing, exchange);
        let mut conversation = Conversation::new(connection, upload, is_head, timeouts, timer);
        loop {
            let next = content.wait_for(exchange, |cx| conversation.poll_head(cx)).await;
            let head = next.map_err(|failure| {
                let has_input = conversation.has_input();
                SendError { failure, has_input }
            })?;
            match head.status {
                // The client has already got a 100 when its body was read.
                100 => {}
                101 if self.has_offered(head.upgrade.as_deref()) => {
                    return Ok((conversation, head));
                }
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

    fn status((_, head): &Self::Answer) -> u16 {
        head.status
    }

    fn respond(
        &self,
        attempt: &Attempt<Arc<Upstream>>,
        (conversation, head): (Conversation, Head),
        active: ActiveRequest,
    ) -> Result<Response, Failure> {
        let mut response = match head.upgrade.clone() {
            Some(protocol) => self.tunnel(conversation, head, &protocol, active)?,
            None => self.response(attempt, conversation, head, active)?,
        };
        self.context.rewrite(&attempt.server.origin, &mut response);
        Ok(response)
    }
}

impl RequestContext<'_, '_, Arc<Upstream>> {
    /// Returns the changes that the upstream and the action make to the head of the request.
    pub fn changes(&self) -> HeadChanges {
        let request = &self.exchange.request;
        HeadChanges::new(&self.owner.config, self.options, request, &self.source())
    }

    /// Changes the fields of a response from the server at `address`, as the upstream says.
    pub fn rewrite(&self, address: &Address, response: &mut Response) {
        rewrite::apply(&self.owner.config, address, &self.source(), response);
    }

    fn source(&self) -> VariableSource<'_> {
        VariableSource::of(&self.exchange.request, self.exchange.started_at)
    }
}

impl HttpRequest<'_, '_> {
    /// Returns the framing of the body; `changes` apply to its trailer.
    fn framing(&self, changes: &HeadChanges) -> Framing {
        let content = self.context.content;
        let passes_trailers = self.context.owner.config.request_trailers;
        match (content, content.len()) {
            (Content::Feed(_), None) if passes_trailers => {
                Framing::Chunks(TrailerSource::Client(changes.clone()))
            }
            (Content::Feed(_), None) => Framing::Chunks(TrailerSource::Lines(Vec::new())),
            (Content::Feed(_), Some(_)) | (_, Some(0)) => Framing::Length,
            // The body is complete, and so is its trailer.
            _ if passes_trailers => {
                match request::trailer(&self.context.exchange.trailer(), changes) {
                    lines if lines.is_empty() => Framing::Length,
                    lines => Framing::Chunks(TrailerSource::Lines(lines)),
                }
            }
            _ => Framing::Length,
        }
    }

    /// Returns true if the request offers to switch to this protocol.
    fn has_offered(&self, protocol: Option<&[u8]>) -> bool {
        let offered = self.upgrade.as_ref().zip(protocol);
        offered.is_some_and(|(offered, protocol)| request::is_offered(protocol, offered))
    }

    fn response(
        &self,
        attempt: &Attempt<Arc<Upstream>>,
        conversation: Conversation,
        head: Head,
        active: ActiveRequest,
    ) -> Result<Response, Failure> {
        let RequestContext { thread, content, .. } = self.context;
        let trailer = self.takes_trailers.then(Trailer::default);
        let context = BodyContext {
            thread: Rc::clone(thread),
            attempt: attempt.clone(),
            keep_alive: head.keep_alive && self.context.owner.config.keepalive > 0,
            _active: active,
        };
        let body = body::body(conversation, &head, context, self.buffering, trailer.as_ref())?;
        let Head { status, reason, fields, has_date, .. } = head;
        // A trailer that has already arrived is sent after the chunks.
        let chunked = trailer.as_ref().is_some_and(|trailer| !trailer.lines().is_empty());
        let response = Response::new(status, body);
        let extras = ResponseExtras::of(trailer, content.rest());
        Ok(Response { reason, fields, adds_date: !has_date, chunked, extras, ..response })
    }

    /// Builds the response after which client and server speak another protocol.
    fn tunnel(
        &self,
        conversation: Conversation,
        head: Head,
        protocol: &[u8],
        active: ActiveRequest,
    ) -> Result<Response, Failure> {
        // A server that switches before it has the whole request has misunderstood it.
        let parts = conversation.into_parts().ok_or(Failure::UnexpectedUpgrade)?;
        let upstream = Box::new(Upgraded::new(parts, active));
        let idle_timeout = self.timeouts.tunnel;
        let Head { reason, fields, has_date, .. } = head;
        let response = Response {
            reason,
            fields,
            adds_date: !has_date,
            extras: Some(Box::new(ResponseExtras {
                tunnel: Some(Tunnel { upstream, idle_timeout }),
                ..ResponseExtras::default()
            })),
            ..Response::new(101, Body::Empty)
        };
        Ok(response.with("Upgrade", protocol))
    }
}

#[cfg(test)]
mod tests;
