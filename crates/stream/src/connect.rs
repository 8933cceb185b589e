//! Connects a session to a server of its upstream, and to another one if that cannot be reached.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use howdah_config::UpstreamVariable;
use howdah_http::error_status::RequestError;
use howdah_http::handling::{Fact, Facts};
use howdah_http::message::{Request, ShownAddress};
use howdah_http::variables::VariableSource;
use howdah_upstream::connections::connection::Connection;
use howdah_upstream::failure::Failure;
use howdah_upstream::servers::selection::{ActiveRequest, Affinity};
use howdah_upstream::servers::upstream::Upstream;
use howdah_upstream::thread::UpstreamThread;

/// A connection to a server.
#[derive(Debug)]
pub struct Connected {
    /// The connection, with TLS if the upstream has it.
    pub connection: Connection,
    /// Counts the session at the server until it is dropped.
    pub active: ActiveRequest,
}

/// Connects to a server of an upstream. `session` describes the session for variables and logs. An
/// error has been logged.
pub async fn connect(
    thread: &Rc<UpstreamThread>,
    upstream: &Arc<Upstream>,
    session: &Request,
    started_at: Instant,
) -> Result<Connected, RequestError> {
    let affinity = Affinity::of(upstream, &VariableSource::of(session, started_at));
    let log = |problem: fmt::Arguments<'_>| {
        let client = ShownAddress(session.connection.peer.map(|peer| peer.ip()));
        thread.log_error(
            &upstream.log_limit,
            format_args!("\"{upstream}\" connection of {client}: {problem}"),
        );
    };
    let (mut tried, mut error) = (Vec::new(), RequestError::NoResponse);
    while tried.len() < upstream.tries {
        let active = match upstream.acquire(thread.selector(), &tried, &affinity).await {
            Ok(Some(active)) => active,
            Ok(None) => break,
            Err(full) => {
                log(format_args!("{}", full.with_key(&upstream.name)));
                return Err(RequestError::Overloaded);
            }
        };
        tried.push(active.index());
        let Some(server) = active.server() else { break };
        session.handling.add_step(Rc::new(Step::new(server.address.to_string())));
        let limit = upstream.config.timeouts.connect;
        let connecting = upstream.connect_session(server, Some(&session.connection));
        let connected = tokio::time::timeout(limit, connecting).await;
        let failure = match connected.unwrap_or(Err(Failure::ConnectTimeout)) {
            Ok(connection) => {
                if active.answered() {
                    let message =
                        format_args!("\"{upstream}\": {} gets connections again", server.address);
                    thread.log_notice(&upstream.log_limit, message);
                }
                return Ok(Connected { connection, active });
            }
            Err(failure) => failure,
        };
        let address = &server.address;
        match failure.timeout() {
            Some(key) => log(format_args!("{address}: {failure} ({upstream}/timeouts/{key})")),
            None => log(format_args!("{address}: {failure}")),
        }
        if let Some(pause) = active.failed() {
            let message = format_args!(
                "\"{upstream}\": {address} gets no connections for {} s, as it could not be \
                 reached",
                pause.as_secs()
            );
            thread.log_notice(&upstream.log_limit, message);
        }
        error = RequestError::from(&failure);
    }
    if tried.is_empty() {
        let problem = if upstream.servers.is_empty() {
            "it has no servers"
        } else {
            "each of its servers has \"weight\": 0 or \"drain\": true"
        };
        log(format_args!("{problem}"));
    }
    Err(error)
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
