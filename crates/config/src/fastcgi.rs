//! Applications of type `fastcgi`: sites that PHP-FPM, php-cgi or another FastCGI server runs.

use std::time::Duration;

use howdah_template::Template;

use crate::address::Address;
use crate::buffering::{BUFFERING, REQUEST_BUFFERING};
use crate::delegation::{self, Delegation};
use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::node::{Node, default_of_reader};
use crate::php::{PhpTarget, ROOT, SCRIPT_KEYS, TARGET};
use crate::script_variables;
use crate::target::Target;
use crate::timeouts::{TIMEOUTS, Timeouts};
use crate::upstream::MAX_KEEPALIVE;

/// A member of `applications` that FastCGI servers run.
pub(crate) static FASTCGI: Shape = Shape {
    name: "fastcgi",
    parts: &[
        &[
            Key::new("type", Kind::Word(&["fastcgi"]), "The application runs on a FastCGI server")
                .required(),
            Key::new(
                "server",
                Kind::Text,
                "Address of the server, such as `\"unix:/run/php/php8.2-fpm.sock\"`",
            )
            .default("required without `upstream`")
            .details(
                "Its [address](listeners.md) or [name](#proxy) with a port: \
                 `unix:/run/php/php8.2-fpm.sock`, `10.0.0.5:9000`; nginx's `fastcgi_pass`",
            ),
            Key::new("upstream", Kind::Text, "Name of an upstream, in place of `server`")
                .default("none")
                .details(
                    "The servers of the [upstream](#upstreams) share the requests by its \
                     `balance`, `tries`, `retry`, `failures`, `slow_start`, `sticky`, `queue` and \
                     `timeouts`. Its settings of HTTP have no effect here, and it must have no \
                     `health`, `http2`, `tls` and `proxy_protocol`",
                ),
            ROOT.default("required without `targets`")
                .details("The directory as the server sees it: inside its chroot, on its machine"),
        ],
        SCRIPT_KEYS,
        &[
            Key::new(
                "targets",
                Kind::Named(&Kind::Object(&TARGET)),
                "Several roots and scripts by name",
            )
            .default("none")
            .details("As [for PHP](applications.md)"),
            Key::new(
                "params",
                Kind::Named(&Kind::Text),
                "Parameters in addition to those of CGI, or in place of them, with variables",
            )
            .default("none")
            .details(
                "See [Variables](variables.md); nginx's `fastcgi_param`. An empty value is omitted",
            ),
            Key::new("limits", Kind::Object(&FASTCGI_LIMITS), "Limits of requests to the servers")
                .details("See below"),
            Key::new(
                "keepalive",
                Kind::Integer(0, MAX_KEEPALIVE),
                "Maximum number of idle connections that are kept to each server",
            )
            .default("0")
            .details("nginx's `keepalive` with `fastcgi_keep_conn on`"),
            Key::new("timeouts", Kind::Object(&TIMEOUTS), "Timeouts of connections to the servers")
                .default("those of the upstream")
                .details("See below"),
            BUFFERING,
            REQUEST_BUFFERING,
        ],
        delegation::KEYS,
    ],
};

/// `limits` of a FastCGI application.
static FASTCGI_LIMITS: Shape = Shape {
    name: "fastcgi_limits",
    parts: &[&[
        Key::new("connections", Kind::Integer(1, COUNT), "Maximum number of concurrent requests")
            .default("`keepalive`, or unlimited without it"),
        Key::new(
            "queue",
            Kind::Integer(0, COUNT),
            "Maximum number of requests that wait for a connection; further requests get 503",
        )
        .default("8192"),
        Key::new(
            "queue_timeout",
            Kind::Seconds(0),
            "Maximum seconds that a request waits for a connection; 0 is no limit",
        )
        .default("none"),
    ]],
};

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
        let object = node.object(&FASTCGI)?;
        let server = object.read("server", read_address)?.map(Servers::One);
        let upstream = object.read("upstream", read_upstream)?.map(Servers::Upstream);
        let servers = match (server, upstream) {
            (Some(_), Some(_)) => {
                return Err(node.invalid("must not have both \"server\" and \"upstream\""));
            }
            (Some(servers), None) | (None, Some(servers)) => servers,
            (None, None) => return Err(object.missing(&["server", "upstream"])),
        };
        let keepalive = object.integer_or_default("keepalive")?;
        let fastcgi = FastCgi {
            name: name.to_owned(),
            servers,
            targets: PhpTarget::read_all(&object)?,
            params: object.read("params", script_variables::read)?.unwrap_or_default(),
            limits: object.read("limits", FastCgiLimits::read)?.unwrap_or_default(),
            keepalive,
            timeouts: object.read("timeouts", Timeouts::read)?,
            buffering: object.switch("buffering")?,
            request_buffering: object.switch("request_buffering")?,
            delegation: Delegation::read(&object)?,
        };
        object.end()?;
        Ok(fastcgi)
    }
}

default_of_reader!(FastCgiLimits, FastCgiLimits::read);

impl FastCgiLimits {
    fn read(node: &Node<'_>) -> Result<FastCgiLimits, Error> {
        let object = node.object(&FASTCGI_LIMITS)?;
        let limits = FastCgiLimits {
            connections: object.integer("connections")?,
            queue: object.integer_or_default("queue")?,
            queue_timeout: object.seconds("queue_timeout")?.filter(|timeout| !timeout.is_zero()),
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
