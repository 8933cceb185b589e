//! Connects a session to a server of its upstream, and to another one if that cannot be reached.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use howdah_config::{Address, UpstreamVariable};
use howdah_http::error_status::RequestError;
use howdah_http::handling::{Fact, Facts};
use howdah_http::message::{Request, ShownAddress};
use howdah_http::variables::VariableSource;
use howdah_upstream::connections::connection::{Connection, ends};
use howdah_upstream::failure::Failure;
use howdah_upstream::servers::selection::{ActiveRequest, Affinity};
use howdah_upstream::servers::server::Server;
use howdah_upstream::servers::upstream::Upstream;
use howdah_upstream::thread::UpstreamThread;
use tokio::net::UdpSocket;

use crate::datagrams;
use crate::hops::{Ends, Hop, passed};

/// A connection to a server.
#[derive(Debug)]
pub struct Connected {
    /// The connection, with TLS if the upstream has it.
    pub connection: Connection,
    /// Counts the session at the server until it is dropped.
    pub active: ActiveRequest,
    /// The connection among those of this server to itself.
    pub hop: Hop,
}

/// Connects to a server of an upstream. `session` describes the session for variables and logs,
/// `client` is the connection on which it has come. An error has been logged.
pub async fn connect(
    thread: &Rc<UpstreamThread>,
    upstream: &Arc<Upstream>,
    session: &Request,
    started_at: Instant,
    client: Option<Ends>,
) -> Result<Connected, RequestError> {
    let open = async |server: &Server| {
        let passed = passed(client, &server.address).await.map_err(Failure::Connect)?;
        let connection = upstream.connect_session(server, Some(&session.connection)).await?;
        let hop = Hop::new(ends(&connection).map(Ends::new), passed);
        Ok((connection, hop))
    };
    let ((connection, hop), active) = reach(thread, upstream, session, started_at, open).await?;
    answered(thread, upstream, &active);
    Ok(Connected { connection, active, hop })
}

/// As [`connect`], for datagrams. Whether the server is there is known when it answers.
pub async fn connect_datagrams(
    thread: &Rc<UpstreamThread>,
    upstream: &Arc<Upstream>,
    session: &Request,
    started_at: Instant,
    client: Option<Ends>,
) -> Result<((UdpSocket, Hop), ActiveRequest), RequestError> {
    let open = async |server: &Server| {
        let Address::Inet(address) = server.address else {
            return Err(Failure::Connect(io::ErrorKind::Unsupported.into()));
        };
        let opened = async {
            let passed = passed(client, &server.address).await?;
            let socket = datagrams::session::connect(address).await?;
            let ends = Ends::new((socket.local_addr()?, address));
            Ok((socket, Hop::new(Some(ends), passed)))
        };
        opened.await.map_err(Failure::Connect)
    };
    reach(thread, upstream, session, started_at, open).await
}

/// Records that the server of a session has answered.
pub fn answered(thread: &UpstreamThread, upstream: &Upstream, active: &ActiveRequest) {
    if let (true, Some(server)) = (active.answered(), active.server()) {
        let message = format_args!("\"{upstream}\": {} gets connections again", server.address);
        thread.log_notice(&upstream.log_limit, message);
    }
}

/// Records and logs that the server of a session has failed.
pub fn failed(
    thread: &UpstreamThread,
    upstream: &Upstream,
    active: &ActiveRequest,
    session: &Request,
    problem: fmt::Arguments<'_>,
) {
    let Some(server) = active.server() else { return };
    let address = &server.address;
    log(thread, upstream, session, format_args!("{address}: {problem}"));
    if let Some(pause) = active.failed() {
        let message = format_args!(
            "\"{upstream}\": {address} gets no connections for {} s, as it could not be reached",
            pause.as_secs()
        );
        thread.log_notice(&upstream.log_limit, message);
    }
}

/// Chooses servers and opens connections to them, until one is open.
async fn reach<T>(
    thread: &Rc<UpstreamThread>,
    upstream: &Arc<Upstream>,
    session: &Request,
    started_at: Instant,
    open: impl AsyncFn(&Server) -> Result<T, Failure>,
) -> Result<(T, ActiveRequest), RequestError> {
    let affinity = Affinity::of(upstream, &VariableSource::of(session, started_at));
    let (mut tried, mut error) = (Vec::new(), RequestError::NoResponse);
    while tried.len() < upstream.tries {
        let active = match upstream.acquire(thread.selector(), &tried, &affinity).await {
            Ok(Some(active)) => active,
            Ok(None) => break,
            Err(full) => {
                let problem = full.with_key(&upstream.name);
                log(thread, upstream, session, format_args!("{problem}"));
                return Err(RequestError::Overloaded);
            }
        };
        tried.push(active.index());
        let Some(server) = active.server() else { break };
        session.handling.add_step(Rc::new(Step::new(server.address.to_string())));
        let limit = upstream.config.timeouts.connect;
        let opened = tokio::time::timeout(limit, open(server)).await;
        let failure = match opened.unwrap_or(Err(Failure::ConnectTimeout)) {
            Ok(connection) => return Ok((connection, active)),
            Err(failure) => failure,
        };
        match failure.timeout() {
            Some(key) => {
                let problem = format_args!("{failure} ({upstream}/timeouts/{key})");
                failed(thread, upstream, &active, session, problem);
            }
            None => failed(thread, upstream, &active, session, format_args!("{failure}")),
        }
        error = RequestError::from(&failure);
    }
    if tried.is_empty() {
        let problem = if upstream.servers.is_empty() {
            "it has no servers"
        } else {
            "each of its servers has \"weight\": 0 or \"drain\": true"
        };
        log(thread, upstream, session, format_args!("{problem}"));
    }
    Err(error)
}

/// Logs a problem of a session.
fn log(
    thread: &UpstreamThread,
    upstream: &Upstream,
    session: &Request,
    problem: fmt::Arguments<'_>,
) {
    let client = ShownAddress(session.connection.peer.map(|peer| peer.ip()));
    thread.log_error(
        &upstream.log_limit,
        format_args!("\"{upstream}\" connection of {client}: {problem}"),
    );
}

/// A server that a session was passed to, for variables.
#[derive(Debug)]
pub struct Step {
    address: String,
    at: Instant,
}

impl Step {
    /// Begins a step with the server of this address.
    pub fn new(address: String) -> Step {
        Step { address, at: Instant::now() }
    }
}

impl Facts for Step {
    fn began(&self) -> Option<Instant> {
        Some(self.at)
    }

    fn value(&self, variable: &howdah_config::Variable) -> Option<Fact<'_>> {
        match variable {
            howdah_config::Variable::Upstream(UpstreamVariable::Address) => {
                Some(Fact::Text(&self.address))
            }
            _ => None,
        }
    }
}
