//! Requests that other HTTP servers answer: `proxy` and `upstreams`.
//!
//! 1. The body is taken from the client: memory, then an unlinked file. So a slow client holds no
//!    connection to a server. Where the configuration wants it, the server gets it as it comes
//!    ([`howdah_http::feed`]).
//! 2. A server is chosen by weighted turns ([`balance`], [`thread`]).
//! 3. The request is written anew for it ([`request`]) and sent over an idle connection or a new
//!    one ([`transport`], `conversation`, `upload`).
//! 4. The head of the response is read strictly ([`response`]). Interim responses are passed on.
//!    In the final one, addresses become those that clients know (`rewrite`).
//! 5. The body (`body`) is taken as fast as the server sends it, and sent at the client's pace
//!    ([`crate::transfer::response_buffer`]); then the connection is kept or closed. A server that agrees to another
//!    protocol (101) is joined with the client (`upgraded`); until then no byte of that protocol
//!    leaves.
//!
//! A request is sent a second time only if that cannot do anything twice: the connection was never
//! made, or the method is idempotent, there is no body, and no byte of an answer has come. So a
//! request that must not be repeated never goes over an idle connection, which the server may
//! close at the same moment.
//!
//! Servers are those of the configuration and nothing else: no part of a request makes an address,
//! or a name that is looked up.

mod body;
pub mod conversation;
mod forwarded;
pub mod health_checks;
mod hop;
pub mod request;
pub mod response;
mod rewrite;
mod upgraded;

use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{self as config, Buffering, Variable};
use howdah_http::body::Body;
use howdah_http::exchange::{BodyError, Exchange};
use howdah_http::message::{After, Response, Trailer};
use howdah_http::request_body::CollectError;
use howdah_http::respond;
use howdah_http::tunnel::Tunnel;
use howdah_http::variables::{ShownRequestId, Source};

use self::body::Home;
use self::conversation::Conversation;
use self::request::{Changes, Then};
use self::response::{Head, Malformed};
use self::upgraded::Upgraded;
use crate::connections::connection::Connection;
use crate::queue::Refused;
use crate::servers::upstream::{Busy, Server, Upstream, Wish};
use crate::thread::ProxyThread;
use crate::transfer::response_buffer::Taking;
use crate::transfer::upload::{Content, Framing, Trailer as Behind, Upload};

/// Status of a request whose client left before its answer; nginx's number, for the log only.
pub const CLIENT_GONE: u16 = 499;

/// Where the bodies of requests and responses wait.
#[derive(Debug)]
pub struct Buffer<'a> {
    /// Bytes kept in memory.
    pub memory: u64,
    /// Directory for the files of longer ones, and of responses.
    pub directory: &'a Path,
    /// What the action says of it.
    pub wanted: Buffering,
}

impl<'a> Buffer<'a> {
    /// Whether bodies of requests are passed on as they come, unless `usual`ly all is taken first.
    pub fn streams(&self, usual: bool) -> bool {
        !self.wanted.requests.unwrap_or(usual)
    }

    /// How responses are taken, where `usual` is what their server's settings say.
    pub fn taking(&self, usual: bool) -> Taking<'a> {
        Taking { buffering: self.wanted.responses.unwrap_or(usual), directory: self.directory }
    }
}

/// Why an upstream gave no response.
#[derive(Debug)]
pub enum Failure {
    /// The backlog of the server had no room for the request.
    Refused(Refused),
    /// No connection could be made.
    Connect(io::Error),
    /// No connection was made in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls(String),
    /// The request could not be sent.
    Send(io::Error),
    /// The server did not take the request in time.
    SendTimeout,
    /// The head of the response did not arrive in time.
    HeadTimeout,
    /// The response could not be read.
    Read(io::Error),
    /// The body of the response did not arrive in time.
    ReadTimeout,
    /// The server closed the connection before a complete head.
    Closed,
    /// The response is not HTTP.
    Malformed(Malformed),
    /// The server changed the protocol without being asked.
    Upgraded,
    /// The client's body could not be read.
    Client(BodyError),
    /// The client closed its connection.
    ClientGone,
}

/// A request on its way to a server; for the log, and for keeping the connection.
#[derive(Debug, Clone)]
struct Attempt {
    upstream: Arc<Upstream>,
    server: Arc<Server>,
    id: u64,
    method: Bytes,
    target: Bytes,
    /// The protocols that the client would rather speak.
    upgrade: Option<Rc<[u8]>>,
    /// The client takes trailers.
    takes_trailers: bool,
}

/// A request as a server gets it.
struct Said {
    head: Vec<u8>,
    framing: Framing,
}

/// Passes a request on; the response is there as soon as its head is.
pub async fn run(
    thread: &Rc<ProxyThread>,
    upstream: &Arc<Upstream>,
    buffer: &Buffer<'_>,
    exchange: &mut Exchange<'_>,
) -> Response {
    let streams = buffer.streams(upstream.config.request_buffering);
    let content = match Content::take(exchange, buffer, streams).await {
        Ok(content) => content,
        Err(CollectError::Client(error)) => return refuse(error.status()),
        Err(CollectError::Disk(error)) => {
            let id = ShownRequestId(exchange.request.id);
            thread.complain(
                &upstream.log_limit,
                format_args!("\"{upstream}\" request {id}: the body cannot be kept: {error}"),
            );
            return refuse(507);
        }
    };
    upstream.budget.save();
    let wish = wish(upstream, exchange);
    let taking = buffer.taking(upstream.config.buffering);
    let (mut tried, mut status) = (Vec::new(), 502);
    while tried.len() < upstream.tries {
        let chosen = tokio::select! {
            biased;
            chosen = upstream.server(thread, &tried, &wish) => chosen,
            _ = exchange.client_gone() => return refuse(CLIENT_GONE),
        };
        let busy = match chosen {
            Ok(Some(busy)) => busy,
            Ok(None) => break,
            Err(refused) => {
                let id = ShownRequestId(exchange.request.id);
                let refused = format_args!("\"{upstream}\" request {id}: {refused}");
                thread.complain(&upstream.log_limit, refused);
                return refuse(503);
            }
        };
        tried.push(busy.index());
        let Some(server) = busy.server() else { break };
        let attempt = Attempt::new(upstream, server, exchange);
        let cookie = stick(upstream, server, &wish);
        match attempt.make(thread, busy, &content, taking, exchange).await {
            Ok(mut response) => {
                let source = Source::of(&exchange.request, exchange.begun);
                rewrite::apply(&upstream.config, &attempt.server.origin, &source, &mut response);
                return match cookie {
                    Some(cookie) => response.with("Set-Cookie", cookie),
                    None => response,
                };
            }
            Err((failure, may_repeat)) => {
                attempt.complain(thread, &failure);
                status = failure.status();
                if !may_repeat || tried.len() >= upstream.tries || !upstream.budget.spend() {
                    break;
                }
            }
        }
    }
    if tried.is_empty() {
        let id = ShownRequestId(exchange.request.id);
        let problem = format_args!("\"{upstream}\" request {id}: no server has a weight");
        thread.complain(&upstream.log_limit, problem);
    }
    refuse(status)
}

/// What a request says about who should answer it.
pub fn wish(upstream: &Upstream, exchange: &Exchange<'_>) -> Wish {
    let source = Source::of(&exchange.request, exchange.begun);
    let mut wish = Wish::default();
    if let config::Balance::Hash(template) = &upstream.config.balance {
        wish.key = source.expand(template);
    }
    if let Some(cookie) = &upstream.config.sticky {
        source.write(&Variable::Cookie(cookie.clone()), &mut wish.sticky);
    }
    wish
}

/// The cookie that leads a client back to a server, if it does not have it.
fn stick(upstream: &Upstream, server: &Server, wish: &Wish) -> Option<String> {
    let name = upstream.config.sticky.as_ref()?;
    (wish.sticky != server.sticky.as_bytes())
        .then(|| format!("{name}={}; Path=/; HttpOnly; SameSite=Lax", server.sticky))
}

impl Attempt {
    fn new(upstream: &Arc<Upstream>, server: &Arc<Server>, exchange: &Exchange<'_>) -> Self {
        Attempt {
            upstream: Arc::clone(upstream),
            server: Arc::clone(server),
            id: exchange.request.id,
            method: exchange.request.method.clone(),
            target: exchange.request.target.clone(),
            upgrade: match &exchange.request.error {
                None => request::upgrade(&exchange.request).map(Rc::from),
                Some(_) => None, // a page for an error is asked for
            },
            takes_trailers: request::takes_trailers(&exchange.request),
        }
    }

    /// What the server gets. `None` if the request has no path.
    fn say(&self, content: &Content, exchange: &Exchange<'_>) -> Option<Said> {
        let keep = self.upstream.config.keepalive > 0;
        let source = Source::of(&exchange.request, exchange.begun);
        let changes = Changes::new(&self.upstream.config, &exchange.request, &source);
        let then = match (&self.upgrade, keep) {
            (Some(protocols), _) => Then::Upgrade(protocols),
            (None, true) => Then::Keep,
            (None, false) => Then::Close,
        };
        let (request, origin) = (&exchange.request, &self.server.origin);
        let trailers = self.upstream.config.request_trailers;
        let framing = match (content, content.len()) {
            (Content::Feed(_), None) if trailers => {
                Framing::Chunks(Behind::ToCome(changes.clone()))
            }
            (Content::Feed(_), None) => Framing::Chunks(Behind::Lines(Vec::new())),
            (Content::Feed(_), Some(_)) | (_, Some(0)) => Framing::Length,
            // One that is known to be there.
            _ => match trailers.then(|| request::trailer(&exchange.trailer(), &changes)) {
                Some(lines) if !lines.is_empty() => Framing::Chunks(Behind::Lines(lines)),
                _ => Framing::Length,
            },
        };
        let length = content.len().filter(|_| matches!(framing, Framing::Length));
        let head = request::head(request, origin, &changes, length, then);
        Some(Said { head: head?, framing })
    }

    /// Asks one server, over an idle connection if there is one. A failure comes with whether
    /// another server may be asked.
    async fn make(
        &self,
        thread: &Rc<ProxyThread>,
        busy: Busy,
        content: &Content,
        taking: Taking<'_>,
        exchange: &Exchange<'_>,
    ) -> Result<Response, (Failure, bool)> {
        const NO_PATH: (Failure, bool) =
            (Failure::Malformed(Malformed("the path is empty")), false);
        let keeps = self.upstream.config.keepalive > 0 && self.upgrade.is_none();
        let mut said = self.say(content, exchange).ok_or(NO_PATH)?;
        let repeatable = content.is_empty() && request::is_idempotent(&self.method);
        if keeps
            && repeatable
            && let Some(stream) = thread.take(&self.server.place)
        {
            match self.ask(thread, stream, said, content, exchange).await {
                // The server has closed the connection as we were going to use it.
                Err((Failure::Closed | Failure::Read(_) | Failure::Send(_), false)) => {
                    said = self.say(content, exchange).ok_or(NO_PATH)?;
                }
                Err((failure, answered)) => {
                    self.note(thread, &busy, &failure);
                    return Err((failure, repeatable && !answered));
                }
                Ok(answer) => return self.respond(thread, busy, answer, content, taking),
            }
        }
        let stream = self.connect(exchange).await.map_err(|failure| {
            self.note(thread, &busy, &failure);
            let may_repeat = !failure.is_clients();
            (failure, may_repeat)
        })?;
        match self.ask(thread, stream, said, content, exchange).await {
            Ok(answer) => self.respond(thread, busy, answer, content, taking),
            Err((failure, answered)) => {
                self.note(thread, &busy, &failure);
                let silent = matches!(
                    failure,
                    Failure::Closed | Failure::Read(_) | Failure::Send(_) | Failure::HeadTimeout
                );
                Err((failure, silent && repeatable && !answered))
            }
        }
    }

    /// Notes that a server has failed.
    fn note(&self, thread: &ProxyThread, busy: &Busy, failure: &Failure) {
        if failure.is_clients() {
            return;
        }
        if let Some(time) = busy.failed() {
            let (upstream, address, seconds) =
                (&self.upstream, &self.server.address, time.as_secs());
            let left = format_args!("\"{upstream}\": {address} is left alone for {seconds} s");
            thread.note(&upstream.log_limit, left);
        }
    }

    async fn connect(&self, exchange: &Exchange<'_>) -> Result<Connection, Failure> {
        tokio::select! {
            biased;
            connected = tokio::time::timeout(
                self.upstream.config.timeouts.connect,
                Connection::open(&self.upstream, &self.server, Some(&exchange.request.connection)),
            ) => match connected {
                Ok(connected) => connected,
                Err(_) => Err(Failure::ConnectTimeout),
            },
            _ = exchange.client_gone() => Err(Failure::ClientGone),
        }
    }

    /// Sends the request and waits for the head of its response. A failure comes with whether any
    /// byte of an answer has come.
    async fn ask(
        &self,
        thread: &ProxyThread,
        stream: Connection,
        Said { head, framing }: Said,
        content: &Content,
        exchange: &Exchange<'_>,
    ) -> Result<(Conversation, Head), (Failure, bool)> {
        let to_head = self.method.as_ref() == b"HEAD";
        let (timeouts, timer) = (&self.upstream.config.timeouts, thread.timer());
        let upload = Upload::new(head, content, framing, exchange);
        let mut conversation = Conversation::new(stream, upload, to_head, timeouts, timer);
        loop {
            let next = content.pass_on(exchange, |cx| conversation.poll_head(cx)).await;
            let head = next.map_err(|failure| (failure, conversation.answered()))?;
            match head.status {
                // We have sent the body unasked, and told the client to go on ourselves.
                100 => {}
                101 if self.has_asked_for(head.upgrade.as_deref()) => {
                    return Ok((conversation, head));
                }
                101 => return Err((Failure::Upgraded, true)),
                ..200 => {
                    let _ = exchange.interim(head.status, &head.fields).await;
                }
                _ => return Ok((conversation, head)),
            }
        }
    }

    fn respond(
        &self,
        thread: &Rc<ProxyThread>,
        busy: Busy,
        (conversation, head): (Conversation, Head),
        content: &Content,
        taking: Taking<'_>,
    ) -> Result<Response, (Failure, bool)> {
        if busy.answered() {
            let back = format_args!("\"{}\": {} is back", self.upstream, self.server.address);
            thread.note(&self.upstream.log_limit, back);
        }
        if let Some(protocol) = &head.upgrade {
            let protocol = protocol.clone();
            return self.tunnel(busy, conversation, head, &protocol);
        }
        let keep = head.keep_alive && self.upstream.config.keepalive > 0;
        let trailer = self.takes_trailers.then(Trailer::default);
        let home = Home { thread: Rc::clone(thread), attempt: self.clone(), keep, _busy: busy };
        let body = body::body(conversation, &head, home, taking, trailer.as_ref());
        let body = body.map_err(|malformed| (malformed.into(), false))?;
        let Head { status, reason, fields, dated, .. } = head;
        // One that is there already is sent behind chunks.
        let chunked = trailer.as_ref().is_some_and(|trailer| !trailer.lines().is_empty());
        let response = Response::new(status, body);
        let feed = content.rest();
        let after = (trailer.is_some() || feed.is_some())
            .then(|| Box::new(After { trailer, feed, ..After::default() }));
        Ok(Response { reason, fields, adds_date: !dated, chunked, after, ..response })
    }

    /// Whether a server may go on with this protocol.
    fn has_asked_for(&self, protocol: Option<&[u8]>) -> bool {
        let offered = self.upgrade.as_ref().zip(protocol);
        offered.is_some_and(|(offered, protocol)| request::is_offered(protocol, offered))
    }

    /// The response after which client and server speak another protocol.
    fn tunnel(
        &self,
        busy: Busy,
        conversation: Conversation,
        head: Head,
        protocol: &[u8],
    ) -> Result<Response, (Failure, bool)> {
        // One that goes on before it has the whole request has not understood it.
        let parts = conversation.into_parts().ok_or((Failure::Upgraded, true))?;
        let far = Box::new(Upgraded::new(parts, busy));
        let patience = self.upstream.config.timeouts.tunnel;
        let Head { reason, fields, dated, .. } = head;
        let response = Response {
            reason,
            fields,
            adds_date: !dated,
            after: Some(Box::new(After {
                tunnel: Some(Tunnel { far, patience }),
                ..After::default()
            })),
            ..Response::new(101, Body::Empty)
        };
        Ok(response.with("Upgrade", protocol))
    }

    fn complain(&self, thread: &ProxyThread, failure: &Failure) {
        if !failure.is_clients() {
            thread.complain(&self.upstream.log_limit, format_args!("{self}: {failure}"));
        }
    }
}

/// The answer of the server itself when an upstream gives none.
pub fn refuse(status: u16) -> Response {
    let mut response = respond::error(status);
    // What the client still sends of a body that was not taken cannot be told from a request.
    response.close = matches!(status, 400 | 408 | 413 | CLIENT_GONE);
    response
}

impl Failure {
    /// Whether it is the client's doing.
    pub fn is_clients(&self) -> bool {
        matches!(self, Failure::Client(_) | Failure::ClientGone)
    }

    /// What the client is told.
    pub fn status(&self) -> u16 {
        match self {
            Failure::Refused(_) => 503,
            Failure::ConnectTimeout
            | Failure::SendTimeout
            | Failure::HeadTimeout
            | Failure::ReadTimeout => 504,
            Failure::Client(error) => error.status(),
            Failure::ClientGone => CLIENT_GONE,
            _ => 502,
        }
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Failure::Malformed(malformed)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(refused) => refused.fmt(f),
            Failure::Connect(error) => write!(f, "cannot connect: {error}"),
            Failure::Tls(problem) => f.write_str(problem),
            Failure::ConnectTimeout => f.write_str("the connection was not accepted in time"),
            Failure::Send(error) => write!(f, "the request was not taken: {error}"),
            Failure::SendTimeout => f.write_str("the request was not taken in time"),
            Failure::HeadTimeout => f.write_str("no response came in time"),
            Failure::Read(error) => write!(f, "the response cannot be read: {error}"),
            Failure::ReadTimeout => f.write_str("the rest of the response did not come in time"),
            Failure::Closed => f.write_str("the connection was closed before the response ended"),
            Failure::Malformed(Malformed(what)) => f.write_str(what),
            Failure::Upgraded => f.write_str("it switched to a protocol that nobody asked for"),
            Failure::Client(error) => error.fmt(f),
            Failure::ClientGone => f.write_str("the client has left"),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        let (method, target) = (text(&self.method), text(&self.target));
        let Attempt { upstream, server, .. } = self;
        let id = ShownRequestId(self.id);
        write!(f, "\"{upstream}\" request {id}: {method} {target} ({})", server.address)
    }
}

#[cfg(test)]
mod tests;
