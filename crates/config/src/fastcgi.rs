//! Applications of type `fastcgi`: sites that PHP-FPM, php-cgi or another FastCGI server runs.

use std::time::Duration;

use howdah_template::Template;

use crate::address::Address;
use crate::delegation::Delegation;
use crate::error::Error;
use crate::node::Node;
use crate::php::PhpTarget;
use crate::script_variables;
use crate::target::Target;
use crate::timeouts::Timeouts;

/// An application of type `fastcgi`.
#[derive(Debug, Clone, PartialEq)]
pub struct FastCgi {
    /// The name in `applications`.
    pub name: String,
    /// The FastCGI servers that run it.
    pub servers: Servers,
    /// Its targets. Their roots are paths on the FastCGI server.
    pub targets: Vec<PhpTarget>,
    /// FastCGI parameters in document order; they replace standard ones with the same name. A
    /// parameter with an empty value is not sent.
    pub params: Vec<(String, Template)>,
    /// Limits of connections and of the queue.
    pub limits: FastCgiLimits,
    /// Maximum number of idle connections to each server.
    pub keepalive: usize,
    /// Timeouts of connections to the server; `None` for those of the upstream.
    pub timeouts: Option<Timeouts>,
    /// True if responses are read as fast as the server sends them; otherwise at the client's pace.
    pub buffering: bool,
    /// True if a request is sent on only when all of its body has arrived.
    pub request_buffering: bool,
    /// Permitted targets of `X-Accel-Redirect` and `X-Sendfile`.
    pub delegation: Delegation,
}

/// The servers of a FastCGI application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Servers {
    /// One server.
    One(Address),
    /// The servers of a member of `upstreams`.
    Upstream(String),
}

/// Limits of connections and of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastCgiLimits {
    /// Maximum number of connections in use; further requests wait. If `None`, the number of kept
    /// connections, or no limit if none are kept.
    pub connections: Option<u32>,
    /// Maximum number of waiting requests; further ones are answered with 503.
    pub queue: u32,
    /// Maximum time a request waits for a connection.
    pub queue_timeout: Option<Duration>,
}

impl FastCgi {
    /// Returns true if a member of `applications` is of this type.
    pub(crate) fn is(node: &Node<'_>) -> bool {
        node.value.get("type").and_then(serde_json::Value::as_str) == Some("fastcgi")
    }

    /// Reads a member of `applications`.
    pub(crate) fn read(name: &str, node: &Node<'_>) -> Result<FastCgi, Error> {
        let object = node.object()?;
        object.required("type")?;
        let server = object.read("server", read_address)?.map(Servers::One);
        let upstream = object.read("upstream", read_upstream)?.map(Servers::Upstream);
        let servers = match (server, upstream) {
            (Some(_), Some(_)) => {
                return Err(node.invalid("must not have both \"server\" and \"upstream\""));
            }
            (Some(servers), None) | (None, Some(servers)) => servers,
            (None, None) => return Err(object.missing(&["server", "upstream"])),
        };
        let keepalive = object.read("keepalive", |node| node.integer(0..=10_000))?.unwrap_or(0);
        let fastcgi = FastCgi {
            name: name.to_owned(),
            servers,
            targets: PhpTarget::read_all(&object)?,
            params: object.read("params", script_variables::read)?.unwrap_or_default(),
            limits: object.read("limits", FastCgiLimits::read)?.unwrap_or_default(),
            keepalive: usize::try_from(keepalive).unwrap_or(0), // in range by the line above
            timeouts: object.read("timeouts", Timeouts::read)?,
            buffering: object.boolean("buffering")?.unwrap_or(true),
            request_buffering: object.boolean("request_buffering")?.unwrap_or(true),
            delegation: Delegation::read(&object)?,
        };
        object.end()?;
        Ok(fastcgi)
    }
}

impl Default for FastCgiLimits {
    /// Returns the default limits; the queue has the length of a PHP application's.
    fn default() -> Self {
        FastCgiLimits { connections: None, queue: 8192, queue_timeout: None }
    }
}

impl FastCgiLimits {
    fn read(node: &Node<'_>) -> Result<FastCgiLimits, Error> {
        let object = node.object()?;
        let limits = FastCgiLimits {
            connections: object.read("connections", |node| node.count(1))?,
            queue: object
                .read("queue", |queue| queue.count(0))?
                .unwrap_or_else(|| FastCgiLimits::default().queue),
            queue_timeout: object
                .read("queue_timeout", |timeout| timeout.seconds(0))?
                .filter(|timeout| !timeout.is_zero()),
        };
        object.end()?;
        Ok(limits)
    }
}

fn read_address(node: &Node<'_>) -> Result<Address, Error> {
    Address::parse_server(node.string()?).map_err(|error| node.invalid(error))
}

fn read_upstream(node: &Node<'_>) -> Result<String, Error> {
    let name = node.string()?.to_owned();
    Target::Upstream(name.clone()).check_defined(node)?;
    if let Some(key) = node.scope.definitions.http_only_key(&name) {
        let reason = format_args!("is an upstream with \"{key}\", which FastCGI does not speak");
        let error = node.invalid(reason);
        return Err(match key {
            "health" => error.with_hint("write \"failures\": {} in the upstream"),
            _ => error,
        });
    }
    Ok(name)
}
