//! Requests that other HTTP servers answer: `proxy` and `upstreams`.
//!
//! 1. The body is taken from the client: memory, then an unlinked file. So a slow client holds no
//!    connection to a server.
//! 2. A server is chosen by weighted turns ([`balance`], [`thread`]).
//! 3. The request is written anew for it ([`request`]) and sent over an idle connection or a new
//!    one ([`transport`], `conversation`).
//! 4. The head of the response is read strictly ([`response`]). Interim responses are passed on.
//! 5. The body follows at the client's pace (`body`); then the connection is kept or closed.
//!
//! A request is sent a second time only if that cannot do anything twice: the connection was never
//! made, or the method is idempotent, there is no body, and no byte of an answer has come. So a
//! request that must not be repeated never goes over an idle connection, which the server may
//! close at the same moment.
//!
//! Servers are those of the configuration and nothing else: no part of a request makes an address.

pub mod balance;
mod body;
mod conversation;
mod hop;
pub mod request;
pub mod response;
pub mod thread;
mod transport;
pub mod upstream;

use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use howdah_config::Address;

use self::body::Home;
use self::conversation::{Content, Conversation};
use self::response::{Head, Malformed};
use self::thread::ProxyThread;
use self::transport::Stream;
use self::upstream::Upstream;
use crate::exchange::Exchange;
use crate::message::Response;
use crate::php::body::{CollectError, collect};
use crate::respond;

/// Status of a request whose client left before its answer; nginx's number, for the log only.
const CLIENT_GONE: u16 = 499;

/// How long to wait for an upstream.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the upstream to take more of the request.
    pub send: Duration,
    /// From the end of the request to the end of the response's head.
    pub first_byte: Duration,
    /// For more of the body.
    pub read: Duration,
    /// How long an idle connection is kept.
    pub idle: Duration,
}

impl Default for Timeouts {
    /// Those of Unit and nginx; a connection that takes longer than 10 seconds will not come.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Timeouts {
            connect: Duration::from_secs(10),
            send: minute,
            first_byte: minute,
            read: minute,
            idle: minute,
        }
    }
}

/// Where the bodies of requests wait.
#[derive(Debug)]
pub struct Buffer<'a> {
    /// Bytes kept in memory.
    pub memory: u64,
    /// Directory for the files of longer ones.
    pub directory: &'a Path,
}

/// Why an upstream gave no response.
#[derive(Debug)]
enum Failure {
    Connect(io::Error),
    ConnectTimeout,
    Send(io::Error),
    SendTimeout,
    HeadTimeout,
    Read(io::Error),
    ReadTimeout,
    Closed,
    Malformed(Malformed),
    Upgraded,
    ClientGone,
}

/// A request on its way to a server; for the log, and for keeping the connection.
#[derive(Debug, Clone)]
struct Attempt {
    upstream: Arc<Upstream>,
    address: Address,
    id: u64,
    method: Bytes,
    target: Bytes,
}

/// Passes a request on; the response is there as soon as its head is.
pub async fn run(
    thread: &Rc<ProxyThread>,
    upstream: &Arc<Upstream>,
    buffer: &Buffer<'_>,
    exchange: &mut Exchange<'_>,
) -> Response {
    let content = match collect(exchange, buffer.memory, buffer.directory).await {
        Ok(body) => Content::from(body),
        Err(CollectError::Client(error)) => return refuse(error.status()),
        Err(CollectError::Disk(error)) => {
            let id = exchange.request.id;
            thread.complain(format_args!("\"{upstream}\" request {id}: no room: {error}"));
            return refuse(507);
        }
    };
    let mut tried = Vec::new();
    let mut status = 502;
    while tried.len() < upstream.tries {
        let Some(index) = thread.next_server(upstream, &tried) else { break };
        let Some(server) = upstream.servers.get(index) else { break };
        tried.push(index);
        let attempt = Attempt::new(upstream, &server.address, exchange);
        match attempt.make(thread, &content, exchange).await {
            Ok(response) => return response,
            Err((failure, may_repeat)) => {
                attempt.complain(thread, &failure);
                status = failure.status();
                if !may_repeat {
                    break;
                }
            }
        }
    }
    if tried.is_empty() {
        let id = exchange.request.id;
        thread.complain(format_args!("\"{upstream}\" request {id}: no server has a weight"));
    }
    refuse(status)
}

impl Attempt {
    fn new(upstream: &Arc<Upstream>, address: &Address, exchange: &Exchange<'_>) -> Self {
        Attempt {
            upstream: Arc::clone(upstream),
            address: address.clone(),
            id: exchange.request.id,
            method: exchange.request.method.clone(),
            target: exchange.request.target.clone(),
        }
    }

    /// Asks one server, over an idle connection if there is one. A failure comes with whether
    /// another server may be asked.
    async fn make(
        &self,
        thread: &Rc<ProxyThread>,
        content: &Content,
        exchange: &Exchange<'_>,
    ) -> Result<Response, (Failure, bool)> {
        let keep = self.upstream.keepalive > 0;
        let head = request::head(&exchange.request, &self.address, content.len(), keep);
        let head = head.ok_or((Failure::Malformed(Malformed("the path is empty")), false))?;
        let repeatable = content.len() == 0 && request::is_idempotent(&self.method);
        if keep
            && repeatable
            && let Some(stream) = thread.take(&self.address)
        {
            match self.ask(thread, stream, head.clone(), content, exchange).await {
                // The server has closed the connection as we were going to use it.
                Err((Failure::Closed | Failure::Read(_) | Failure::Send(_), false)) => {}
                Err((failure, _)) => return Err((failure, false)),
                Ok(response) => return Ok(response),
            }
        }
        let stream = self.connect(thread, exchange).await;
        let stream = stream.map_err(|failure| {
            let left = matches!(failure, Failure::ClientGone);
            (failure, !left)
        })?;
        let result = self.ask(thread, stream, head, content, exchange).await;
        result.map_err(|(failure, answered)| {
            let broken = matches!(failure, Failure::Closed | Failure::Read(_) | Failure::Send(_));
            (failure, broken && repeatable && !answered)
        })
    }

    async fn connect(
        &self,
        thread: &ProxyThread,
        exchange: &Exchange<'_>,
    ) -> Result<Stream, Failure> {
        tokio::select! {
            biased;
            connected = tokio::time::timeout(
                thread.timeouts().connect,
                Stream::connect(&self.address),
            ) => match connected {
                Ok(connected) => connected.map_err(Failure::Connect),
                Err(_) => Err(Failure::ConnectTimeout),
            },
            _ = exchange.client_gone() => Err(Failure::ClientGone),
        }
    }

    /// Sends the request and waits for the head of its response. A failure comes with whether any
    /// byte of an answer has come.
    async fn ask(
        &self,
        thread: &Rc<ProxyThread>,
        stream: Stream,
        head: Vec<u8>,
        content: &Content,
        exchange: &Exchange<'_>,
    ) -> Result<Response, (Failure, bool)> {
        let to_head = self.method.as_ref() == b"HEAD";
        let timeouts = thread.timeouts();
        let mut conversation = Conversation::new(stream, head, content.clone(), to_head, timeouts);
        loop {
            let next = tokio::select! {
                biased;
                next = std::future::poll_fn(|cx| conversation.poll_head(cx)) => next,
                _ = exchange.client_gone() => Err(Failure::ClientGone),
            };
            let head = next.map_err(|failure| (failure, conversation.answered()))?;
            match head.status {
                // We have sent the body unasked, and told the client to go on ourselves.
                100 => {}
                101 => return Err((Failure::Upgraded, true)),
                ..200 => {
                    let _ = exchange.interim(head.status, &head.fields).await;
                }
                _ => {
                    let response = self.respond(thread, conversation, head);
                    return response.map_err(|malformed| (malformed.into(), true));
                }
            }
        }
    }

    fn respond(
        &self,
        thread: &Rc<ProxyThread>,
        conversation: Conversation,
        head: Head,
    ) -> Result<Response, Malformed> {
        let keep = head.keep_alive && self.upstream.keepalive > 0;
        let home = Home { thread: Rc::clone(thread), attempt: self.clone(), keep };
        let body = body::body(conversation, head.length, home)?;
        let Head { status, reason, fields, dated, .. } = head;
        Ok(Response { reason, fields, adds_date: !dated, ..Response::new(status, body) })
    }

    fn complain(&self, thread: &ProxyThread, failure: &Failure) {
        if !matches!(failure, Failure::ClientGone) {
            thread.complain(format_args!("{self}: {failure}"));
        }
    }
}

fn refuse(status: u16) -> Response {
    let mut response = respond::error(status);
    // What the client still sends of a body that was not taken cannot be told from a request.
    response.close = matches!(status, 400 | 408 | 413 | CLIENT_GONE);
    response
}

impl Failure {
    /// What the client is told.
    fn status(&self) -> u16 {
        match self {
            Failure::ConnectTimeout
            | Failure::SendTimeout
            | Failure::HeadTimeout
            | Failure::ReadTimeout => 504,
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
            Failure::Connect(error) => write!(f, "cannot connect: {error}"),
            Failure::ConnectTimeout => f.write_str("the connection was not accepted in time"),
            Failure::Send(error) => write!(f, "the request was not taken: {error}"),
            Failure::SendTimeout => f.write_str("the request was not taken in time"),
            Failure::HeadTimeout => f.write_str("no response came in time"),
            Failure::Read(error) => write!(f, "the response cannot be read: {error}"),
            Failure::ReadTimeout => f.write_str("the rest of the response did not come in time"),
            Failure::Closed => f.write_str("the connection was closed before the response ended"),
            Failure::Malformed(Malformed(what)) => f.write_str(what),
            Failure::Upgraded => f.write_str("it switched protocols, which nobody asked for"),
            Failure::ClientGone => f.write_str("the client has left"),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        let (method, target) = (text(&self.method), text(&self.target));
        write!(f, "\"{}\" request {}: {method} {target} ({})", self.upstream, self.id, self.address)
    }
}

#[cfg(test)]
mod tests;
