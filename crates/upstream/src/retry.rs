//! Passes a request to a server, and to another one if that one fails.
//!
//! 1. A server is selected ([`crate::servers::selection`]).
//! 2. The request uses an idle connection if it may be repeated, otherwise a new one. If the server
//!    has closed the idle connection, a new one to the same server follows.
//! 3. The attempt succeeds when the head of the response is complete. A failure counts against the
//!    server, which may then not be used for a while, and is logged.
//! 4. Within the retry budget, the upstream's number of tries and its time for them, another server
//!    follows if no connection was made, or the settings permit it ([`crate::retry_policy`]).
//!    Without settings, no effect can happen twice: the method is idempotent, there is no body, and
//!    no byte of a response has arrived.
//! 5. The settings may name statuses after which another server is asked, if one has room.
//!    Otherwise the client gets the response.
//!
//! A request that must not be repeated therefore never uses an idle connection of HTTP/1, which the
//! server may close at the same moment. Over HTTP/2 a server can say which requests it has not
//! processed.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use howdah_config::{Retry, ServerOptions};
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::Response;
use howdah_http::message::ShownRequestId;
use howdah_http::request_body::CollectError;
use howdah_http::respond::refuse;
use howdah_http::variables::VariableSource;
use howdah_sys::plain::Plain;

use crate::attempt_facts::AttemptFacts;
use crate::failure::Failure;
use crate::log_limit::LogLimit;
use crate::retry_policy::{BodyKind, RetryPolicy, is_failure};
use crate::servers::selection::{ActiveRequest, Affinity};
use crate::servers::server::Server;
use crate::servers::upstream::Upstream;
use crate::thread::UpstreamThread;
use crate::transfer::BufferSettings;
use crate::transfer::content::Content;

/// A client's request with its body, on the thread that serves it.
pub struct RequestContext<'a, 'c, O> {
    /// State of the thread.
    pub thread: &'a Rc<UpstreamThread>,
    /// The request.
    pub exchange: &'a Exchange<'c>,
    /// Body of the request.
    pub content: &'a Content,
    /// Upstream or site that the request is for.
    pub owner: &'a O,
    /// Options of the actions on the way of the request.
    pub options: &'a Arc<ServerOptions>,
}

/// An upstream or a site, which requests are for.
pub trait Owner: fmt::Display {
    /// Returns the path of the upstream or application in the document; `None` if only an action
    /// names the server.
    fn place(&self) -> Option<String>;

    /// Returns the limit on the owner's log messages.
    fn log_limit(&self) -> &LogLimit;

    /// Returns the servers that may answer.
    fn upstream(&self) -> &Arc<Upstream>;
}

impl Owner for Arc<Upstream> {
    fn place(&self) -> Option<String> {
        self.name.starts_with("upstreams/").then(|| self.name.to_string())
    }

    fn log_limit(&self) -> &LogLimit {
        &self.log_limit
    }

    fn upstream(&self) -> &Arc<Upstream> {
        self
    }
}

/// A request in the protocol of its servers.
pub trait Protocol {
    /// Upstream or site that the request is for; named in the log.
    type Owner: Clone + Owner;
    /// A connection to a server.
    type Connection;
    /// A request as it is sent to a server.
    type Encoded;
    /// A response whose head is complete, with its connection.
    type Answer;

    /// Returns the request of the client.
    fn context(&self) -> &RequestContext<'_, '_, Self::Owner>;

    /// Writes the request for a server. An error ends the request and counts against no server.
    fn encode(&self, server: &Server) -> Result<Self::Encoded, Failure>;

    /// Takes an idle connection to a server. Returns `None` unless the request `is_repeatable`.
    fn take_idle(&self, server: &Server, is_repeatable: bool) -> Option<Self::Connection>;

    /// Opens a connection to a server, within the connect timeout.
    fn connect(&self, server: &Server) -> impl Future<Output = Result<Self::Connection, Failure>>;

    /// Sends the request and waits for the head of the response.
    fn send(
        &self,
        attempt: &Attempt<Self::Owner>,
        connection: Self::Connection,
        request: Self::Encoded,
    ) -> impl Future<Output = Result<Self::Answer, SendError>>;

    /// Without settings, another server may get a request after the first-byte timeout.
    const RETRIES_AFTER_TIMEOUT: bool;

    /// Returns the status of a response.
    fn status(answer: &Self::Answer) -> u16;

    /// Builds the response for the client. An error ends the request.
    fn respond(
        &self,
        attempt: &Attempt<Self::Owner>,
        answer: Self::Answer,
        active: ActiveRequest,
    ) -> Result<Response, Failure>;
}

impl<O: Owner> RequestContext<'_, '_, O> {
    /// Returns the settings for requests that are sent again.
    fn retry(&self) -> &Retry {
        self.options.retry.as_ref().unwrap_or(&self.owner.upstream().config.retry)
    }

    /// Logs a problem of the request, which no server has got.
    fn log(&self, problem: fmt::Arguments<'_>) {
        log_request(self.thread, (self.owner, self.owner.log_limit()), self.exchange, problem);
    }
}

/// Failure of a request that was sent.
#[derive(Debug)]
pub struct SendError {
    /// Reason of the failure.
    pub failure: Failure,
    /// A byte of a response has arrived.
    pub has_input: bool,
}

/// A request that is passed to one server; displayed in the log.
#[derive(Debug, Clone)]
pub struct Attempt<O> {
    /// Upstream or site that the request is for.
    pub owner: O,
    /// Server that gets the request.
    pub server: Arc<Server>,
    /// Facts for variables.
    pub facts: AttemptFacts,
    options: Arc<ServerOptions>,
    id: u64,
    method: Bytes,
    target: Bytes,
}

/// Failure of an attempt.
struct AttemptError {
    failure: Failure,
    /// Another server may get the request.
    may_retry: bool,
}

impl AttemptError {
    fn last(failure: Failure) -> Self {
        AttemptError { failure, may_retry: false }
    }
}

/// Reads the body of a request: in full, unless it `is_streamed`. A body that is not wanted is empty.
pub async fn read_content(
    thread: &UpstreamThread,
    (owner, log_limit): (&impl fmt::Display, &LogLimit),
    buffer: &BufferSettings<'_>,
    is_streamed: bool,
    is_wanted: bool,
    exchange: &mut Exchange<'_>,
) -> Result<Content, RequestError> {
    if !is_wanted {
        return Ok(Content::Memory(Bytes::new()));
    }
    Content::read(exchange, buffer, is_streamed).await.map_err(|error| match error {
        CollectError::Client(error) => error.into(),
        CollectError::Disk(error) => {
            let problem = format_args!("the body cannot be stored: {}", Plain(&error));
            log_request(thread, (owner, log_limit), exchange, problem);
            RequestError::NotStored
        }
    })
}

/// Logs the reason why a request was not passed to a server.
pub fn log_request(
    thread: &UpstreamThread,
    (owner, log_limit): (&impl fmt::Display, &LogLimit),
    exchange: &Exchange<'_>,
    problem: fmt::Arguments<'_>,
) {
    let id = ShownRequestId(exchange.request.id);
    thread.log_error(log_limit, format_args!("\"{owner}\" request {id}: {problem}"));
}

/// Passes a request to one server after another until one answers.
pub async fn run<P: Protocol>(protocol: &P) -> Response {
    let context = protocol.context();
    let (upstream, exchange) = (context.owner.upstream(), context.exchange);
    upstream.retry_budget.deposit();
    let affinity =
        Affinity::of(upstream, &VariableSource::of(&exchange.request, exchange.started_at));
    let mut round = Round::new(protocol);
    let mut error = RequestError::NoResponse;
    while round.tried.len() < upstream.tries {
        let active = match round.next.take() {
            Some(active) => active,
            None => match choose_server(protocol, &round.tried, &affinity).await {
                Ok(Some(active)) => active,
                Ok(None) => break,
                Err(error) => return refuse(error),
            },
        };
        round.tried.push(active.index());
        let Some(server) = active.server() else {
            context.log(format_args!("its server has just been removed from the upstream"));
            break;
        };
        let attempt = Attempt::new(context.owner, server, context.options, exchange);
        let failed = match attempt.run(protocol, active, round.is_repeatable).await {
            Ok((answer, active)) => {
                let answered = P::status(&answer);
                if round.goes_on_after(answered, &affinity) {
                    attempt.refused(protocol, answered, &active);
                    error = RequestError::Stated(answered);
                    continue;
                }
                attempt.respond(protocol, answer, active)
            }
            Err(error) => Err(error),
        };
        match failed {
            Ok(response) => {
                attempt.facts.set_status(response.status);
                let is_secure = exchange.request.connection.scheme() == "https";
                return match affinity.sticky_cookie(upstream, &attempt.server, is_secure) {
                    Some(cookie) => response.with("Set-Cookie", cookie),
                    None => response,
                };
            }
            Err(AttemptError { failure, may_retry }) => {
                attempt.log_failure(protocol, &failure);
                error = RequestError::from(&failure);
                attempt.facts.set_status(error.status());
                if !may_retry || !round.has_try_left() || !upstream.retry_budget.withdraw() {
                    break;
                }
            }
        }
    }
    if round.tried.is_empty() {
        let problem = if upstream.servers.is_empty() {
            "it has no servers"
        } else {
            "each of its servers has \"weight\": 0 or \"drain\": true"
        };
        context.log(format_args!("{problem}"));
    }
    refuse(error)
}

/// The attempts of one request.
struct Round<'p, P: Protocol> {
    protocol: &'p P,
    started_at: Instant,
    /// The request may be sent twice.
    is_repeatable: bool,
    /// Indexes of the servers that have got the request.
    tried: Vec<usize>,
    /// The next server, if it is chosen already.
    next: Option<ActiveRequest>,
}

impl<'p, P: Protocol> Round<'p, P> {
    fn new(protocol: &'p P) -> Self {
        let RequestContext { exchange, content, .. } = protocol.context();
        let is_repeatable =
            policy(protocol).may_repeat(&exchange.request.method, content.body_kind());
        let (started_at, tried) = (Instant::now(), Vec::new());
        Round { protocol, started_at, is_repeatable, tried, next: None }
    }

    /// Returns true if the settings permit another attempt.
    fn has_try_left(&self) -> bool {
        let context = self.protocol.context();
        let limit = context.retry().timeout;
        self.tried.len() < context.owner.upstream().tries
            && limit.is_none_or(|limit| self.started_at.elapsed() < limit)
    }

    /// Returns true if another server is asked after a response with this status. It is chosen
    /// then: the response is dropped only if there is one.
    fn goes_on_after(&mut self, status: u16, affinity: &Affinity) -> bool {
        let context = self.protocol.context();
        let upstream = context.owner.upstream();
        let may_go_on = context.retry().is_on_status(status)
            && self.is_repeatable
            && self.has_try_left()
            && upstream.servers.len() > self.tried.len()
            && upstream.retry_budget.withdraw();
        if may_go_on {
            let selector = context.thread.selector();
            self.next = upstream.try_acquire(selector, &self.tried, affinity);
            if self.next.is_none() {
                upstream.retry_budget.give_back();
            }
        }
        self.next.is_some()
    }
}

/// Returns true if a request on a kept connection is sent again on a new one to the same server.
fn is_lost<P: Protocol>(protocol: &P, error: &SendError, is_repeatable: bool) -> bool {
    let SendError { failure, has_input } = error;
    let is_lost = is_repeatable && failure.is_closed_connection();
    !has_input && (is_lost || failure.is_unprocessed(is_stored(protocol)))
}

/// Returns true if the body of the request can be sent again.
fn is_stored<P: Protocol>(protocol: &P) -> bool {
    protocol.context().content.body_kind() != BodyKind::Streamed
}

fn policy<P: Protocol>(protocol: &P) -> RetryPolicy<'_> {
    RetryPolicy { retry: protocol.context().retry(), after_timeout: P::RETRIES_AFTER_TIMEOUT }
}

/// Selects a server, except those in `tried`; waits until one has room. Returns `None` if there is
/// none.
async fn choose_server<P: Protocol>(
    protocol: &P,
    tried: &[usize],
    affinity: &Affinity,
) -> Result<Option<ActiveRequest>, RequestError> {
    let context = protocol.context();
    let upstream = context.owner.upstream();
    let chosen = tokio::select! {
        biased;
        chosen = upstream.acquire(context.thread.selector(), tried, affinity) => chosen,
        _ = context.exchange.client_gone() => return Err(RequestError::ClientGone),
    };
    chosen.map_err(|error| {
        // Only upstreams with a name have a queue.
        let reason = error.with_key(&upstream.name);
        context.log(format_args!("{reason}"));
        RequestError::Overloaded
    })
}

impl<O: Owner> Attempt<O> {
    /// Returns the reason of a failure for the log. A timeout has the path of its key.
    pub fn reason(&self, failure: &Failure) -> String {
        let key = failure
            .timeout()
            .and_then(|timeout| self.options.timeout_key(timeout, self.owner.place().as_deref()));
        match key {
            Some(key) => format!("{failure} ({key})"),
            None => failure.to_string(),
        }
    }

    /// Logs a problem of the attempt.
    pub fn log(&self, thread: &UpstreamThread, problem: fmt::Arguments<'_>) {
        thread.log_error(self.owner.log_limit(), format_args!("{self}: {problem}"));
    }
}

impl<O: Clone + Owner> Attempt<O> {
    fn new(
        owner: &O,
        server: &Arc<Server>,
        options: &Arc<ServerOptions>,
        exchange: &Exchange<'_>,
    ) -> Self {
        Attempt {
            owner: owner.clone(),
            server: Arc::clone(server),
            facts: AttemptFacts::start(server.address.to_string(), &exchange.request.handling),
            options: Arc::clone(options),
            id: exchange.request.id,
            method: exchange.request.method.clone(),
            target: exchange.request.target.clone(),
        }
    }

    /// Returns the method of the request.
    pub fn method(&self) -> &[u8] {
        &self.method
    }

    /// Passes the request to the server, over an idle connection if allowed.
    async fn run<P: Protocol<Owner = O>>(
        &self,
        protocol: &P,
        active: ActiveRequest,
        is_repeatable: bool,
    ) -> Result<(P::Answer, ActiveRequest), AttemptError> {
        let server = &*self.server;
        let mut request = protocol.encode(server).map_err(AttemptError::last)?;
        if let Some(connection) = protocol.take_idle(server, is_repeatable) {
            self.facts.set_connected();
            match protocol.send(self, connection, request).await {
                Ok(answer) => return Ok((answer, active)),
                // The server closed the idle connection at the same moment.
                Err(error) if is_lost(protocol, &error, is_repeatable) => {
                    request = protocol.encode(server).map_err(AttemptError::last)?;
                }
                Err(error) => return Err(self.failed(protocol, error, is_repeatable, &active)),
            }
        }
        let connected = tokio::select! {
            biased;
            connected = protocol.connect(server) => connected,
            _ = protocol.context().exchange.client_gone() => Err(Failure::ClientGone),
        };
        let connection = connected.map_err(|failure| {
            self.count_failure(protocol, &failure, &active);
            AttemptError { may_retry: failure.is_by_server(), failure }
        })?;
        self.facts.set_connected();
        match protocol.send(self, connection, request).await {
            Ok(answer) => Ok((answer, active)),
            Err(error) => Err(self.failed(protocol, error, is_repeatable, &active)),
        }
    }

    /// Builds the response for the client.
    fn respond<P: Protocol<Owner = O>>(
        &self,
        protocol: &P,
        answer: P::Answer,
        active: ActiveRequest,
    ) -> Result<Response, AttemptError> {
        self.facts.set_head();
        if active.answered() {
            let message =
                format_args!("\"{}\": {} gets requests again", self.owner, self.server.address);
            protocol.context().thread.log_notice(self.owner.log_limit(), message);
        }
        protocol.respond(self, answer, active).map_err(AttemptError::last)
    }

    /// Counts the failure of a request that was sent, and decides whether another server may get
    /// it.
    fn failed<P: Protocol<Owner = O>>(
        &self,
        protocol: &P,
        SendError { failure, has_input }: SendError,
        is_repeatable: bool,
        active: &ActiveRequest,
    ) -> AttemptError {
        self.count_failure(protocol, &failure, active);
        let may_retry = failure.is_unprocessed(is_stored(protocol))
            || (is_repeatable && policy(protocol).is_after(&failure, has_input));
        AttemptError { failure, may_retry }
    }

    /// Ends an attempt whose response has a status after which another server is asked.
    fn refused<P: Protocol<Owner = O>>(&self, protocol: &P, status: u16, active: &ActiveRequest) {
        self.facts.set_head();
        self.facts.set_status(status);
        if is_failure(status) {
            self.pause(protocol, active);
        }
        let problem = format_args!("answered with {status}, so another server is asked (retry/on)");
        self.log(protocol.context().thread, problem);
    }

    /// Counts a failure against the server, unless another party caused it.
    fn count_failure<P: Protocol<Owner = O>>(
        &self,
        protocol: &P,
        failure: &Failure,
        active: &ActiveRequest,
    ) {
        if failure.is_by_server() {
            self.pause(protocol, active);
        }
    }

    /// Counts a failure against the server, which may then have a pause.
    fn pause<P: Protocol<Owner = O>>(&self, protocol: &P, active: &ActiveRequest) {
        if let Some(time) = active.failed() {
            let (owner, address, seconds) = (&self.owner, &self.server.address, time.as_secs());
            let message = format_args!(
                "\"{owner}\": {address} gets no requests for {seconds} s, because requests to it \
                 failed"
            );
            protocol.context().thread.log_notice(self.owner.log_limit(), message);
        }
    }

    /// Logs a failure, unless the client caused it.
    fn log_failure<P: Protocol<Owner = O>>(&self, protocol: &P, failure: &Failure) {
        if !failure.is_by_client() {
            self.log(protocol.context().thread, format_args!("{}", self.reason(failure)));
        }
    }
}

impl<O: fmt::Display> fmt::Display for Attempt<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        let (method, target) = (text(&self.method), text(&self.target));
        let (owner, id, address) = (&self.owner, ShownRequestId(self.id), &self.server.address);
        write!(f, "\"{owner}\" request {id}: {method} {target} ({address})")
    }
}
