//! `upstreams`: groups of servers among which requests are balanced.

use std::time::Duration;

use howdah_template::Template;
use serde_json::Value;

use crate::address::Address;
use crate::delegation::Delegation;
use crate::error::Error;
use crate::node::{Node, Shown};
use crate::replacement::Replacement;
use crate::request_headers::{self, RequestHeaders};
use crate::retry::Retry;
use crate::sticky::Sticky;
use crate::templates;
use crate::timeouts::Timeouts;
use crate::upstream_tls::UpstreamTls;

/// A group of servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The name in `upstreams`.
    pub name: String,
    /// The servers in document order.
    pub servers: Vec<UpstreamServer>,
    /// The balancing method.
    pub balance: Balance,
    /// Maximum number of servers tried for one request; all if `None`.
    pub tries: Option<usize>,
    /// Requests that another server gets after a failure.
    pub retry: Retry,
    /// Maximum number of idle connections to each server, per router thread.
    pub keepalive: usize,
    /// Passive health checks.
    pub failures: Failures,
    /// Time in which the weight of a recovered server rises to its full value.
    pub slow_start: Option<Duration>,
    /// Active health checks.
    pub health: Option<Health>,
    /// The cookie for session persistence.
    pub sticky: Option<Sticky>,
    /// Maximum number of requests that wait while all servers have `max_connections`; further ones
    /// are answered with 503.
    pub queue: u32,
    /// Maximum time a request waits in the queue.
    pub queue_timeout: Option<Duration>,
    /// Timeouts of connections to the servers.
    pub timeouts: Timeouts,
    /// The `Host` field of requests; the client's if `None`.
    pub host: Option<Template>,
    /// Request header fields to set, or with `None` to remove.
    pub headers: RequestHeaders,
    /// Fields with the client's address and scheme.
    pub forwarded: ForwardedFields,
    /// TLS settings; `None` for plain HTTP.
    pub tls: Option<UpstreamTls>,
    /// True if the servers speak HTTP/2, without TLS by prior knowledge.
    pub http2: bool,
    /// True if trailers of requests are forwarded, which requires chunked bodies.
    pub request_trailers: bool,
    /// The version of the PROXY protocol that each connection begins with, 1 or 2.
    pub proxy_protocol: Option<u8>,
    /// True if responses are read as fast as servers send them; otherwise at the client's pace.
    pub buffering: bool,
    /// True if a request is sent on only when all of its body has arrived.
    pub request_buffering: bool,
    /// Permitted targets of `X-Accel-Redirect` and `X-Sendfile`.
    pub delegation: Delegation,
    /// Prefixes of `Location` that are replaced, in addition to the server's own address; `None`
    /// replaces nothing.
    pub rewrite_location: Option<Vec<Replacement>>,
    /// Replacements of the `Domain` of cookies.
    pub cookie_domain: Vec<Replacement>,
    /// Replacements of prefixes of the `Path` of cookies.
    pub cookie_path: Vec<Replacement>,
}

/// Request header fields with the client's address and scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForwardedFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Real-IP`.
    pub x: bool,
    /// `Forwarded` (RFC 7239).
    pub standard: bool,
}

/// Balancing methods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Balance {
    /// Weighted round robin.
    #[default]
    RoundRobin,
    /// The server with the fewest requests in relation to its weight.
    LeastConnections,
    /// The less loaded of two random servers.
    TwoChoices,
    /// Consistent hashing of this text: when servers are added or removed, few texts change their
    /// server.
    Hash(Template),
}

/// Passive health checks: a server with failures is not used for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// Number of failures within `time` after which a server is not used; 0 disables the check.
    pub max: u32,
    /// Also the time for which the server is not used. It doubles with each further failure, up to
    /// sixteen times.
    pub time: Duration,
}

impl Default for Failures {
    /// Returns the defaults of nginx.
    fn default() -> Self {
        Failures { max: 1, time: Duration::from_secs(10) }
    }
}

/// Active health checks: requests that servers must answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The request target.
    pub uri: String,
    /// The `Host` field; the server's address if `None`.
    pub host: Option<String>,
    /// Time between two checks.
    pub interval: Duration,
    /// Maximum time for the response.
    pub timeout: Duration,
    /// The lowest and the highest status of a healthy server.
    pub status: (u16, u16),
    /// Text that the first 64 KiB of the body must contain.
    pub body: Option<String>,
    /// Name of the service that gRPC's health service is asked for, empty for the server; `None` for a
    /// request of HTTP.
    pub grpc: Option<String>,
    /// Number of successes in a row after which a server is healthy.
    pub rise: u32,
    /// Number of failures in a row after which a server is unhealthy.
    pub fall: u32,
}

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamServer {
    /// Its address.
    pub address: Address,
    /// The name and port in the document, if the address was looked up.
    pub named: Option<Address>,
    /// The weight, from 0 to 1,000,000; a server with 0 gets no requests.
    pub weight: f64,
    /// Maximum number of concurrent requests.
    pub max_connections: Option<u32>,
    /// True if the server is used only if no other can be.
    pub backup: bool,
    /// True if the server gets only clients of existing sessions.
    pub drain: bool,
}

impl Upstream {
    /// Returns an upstream with these servers and the defaults of the document.
    pub fn new(name: &str, servers: Vec<UpstreamServer>) -> Upstream {
        Upstream {
            name: name.to_owned(),
            servers,
            balance: Balance::default(),
            tries: None,
            retry: Retry::default(),
            keepalive: 0,
            failures: Failures::default(),
            slow_start: None,
            health: None,
            sticky: None,
            queue: 8192,
            queue_timeout: None,
            timeouts: Timeouts::default(),
            host: None,
            headers: Vec::new(),
            forwarded: ForwardedFields::default(),
            tls: None,
            http2: false,
            request_trailers: false,
            proxy_protocol: None,
            buffering: true,
            request_buffering: true,
            delegation: Delegation::default(),
            rewrite_location: Some(Vec::new()),
            cookie_domain: Vec::new(),
            cookie_path: Vec::new(),
        }
    }

    /// Reads the members of `upstreams`.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<Upstream>, Error> {
        let mut upstreams = Vec::new();
        for (name, upstream) in node.members()? {
            upstreams.extend(node.part(Upstream::read(name, &upstream))?);
        }
        Ok(upstreams)
    }

    fn read(name: &str, node: &Node<'_>) -> Result<Upstream, Error> {
        let object = node.object()?;
        let mut servers = Vec::new();
        let listed = object.required("servers")?;
        let members = listed.members().map_err(|error| {
            match listed.value.get(0).and_then(Value::as_str) {
                Some(first) => error.with_hint(format!("write {{\"{}\": {{}}}}", Shown(first))),
                None => error,
            }
        })?;
        for (address, server) in members {
            servers.push(UpstreamServer::read(address, &server)?);
        }
        let seconds = |node: &Node<'_>| node.seconds(0);
        let set = |time: &Duration| !time.is_zero();
        let http2 = object.boolean("http2")?.unwrap_or(false);
        let proxy_protocol = object
            .read("proxy_protocol", |node| node.integer(1..=2))?
            .and_then(|version| u8::try_from(version).ok());
        let keeps_none = http2 || proxy_protocol.is_some();
        let usual_keepalive = if keeps_none { 0 } else { node.scope.defaults.keepalive };
        let keepalive = object.read("keepalive", |node| small(node, 0, 10_000))?;
        let default = Upstream::new(name, servers);
        let upstream = Upstream {
            balance: object.read("balance", Balance::read)?.unwrap_or_default(),
            // As in Unit: only one server per request, regardless of earlier failures.
            tries: Some(object.read("tries", |node| small(node, 1, 100))?.unwrap_or(1)),
            retry: object.read("retry", Retry::read)?.unwrap_or_default(),
            keepalive: keepalive.unwrap_or(usual_keepalive),
            failures: object.read("failures", Failures::read)?.unwrap_or(Failures::NEVER),
            slow_start: object.read("slow_start", seconds)?.filter(set),
            health: object.read("health", Health::read)?,
            sticky: object.read("sticky", Sticky::read)?,
            queue: object.read("queue", |node| node.count(0))?.unwrap_or(default.queue),
            queue_timeout: object.read("queue_timeout", seconds)?.filter(set),
            timeouts: object.read("timeouts", Timeouts::read_http)?.unwrap_or_default(),
            host: object.read("host", templates::read)?,
            headers: object.read("headers", request_headers::read)?.unwrap_or_default(),
            forwarded: object.read("forwarded", ForwardedFields::read)?.unwrap_or_default(),
            tls: object.read("tls", UpstreamTls::read)?.flatten(),
            http2,
            request_trailers: object.boolean("request_trailers")?.unwrap_or(false),
            proxy_protocol,
            buffering: object.boolean("buffering")?.unwrap_or(default.buffering),
            request_buffering: object
                .boolean("request_buffering")?
                .unwrap_or(default.request_buffering),
            delegation: Delegation::read(&object)?,
            rewrite_location: object
                .read("rewrite_location", Replacement::read_locations)?
                .unwrap_or_else(|| Some(Vec::new())),
            cookie_domain: object.read("cookie_domain", read_cookies)?.unwrap_or_default(),
            cookie_path: object.read("cookie_path", read_cookies)?.unwrap_or_default(),
            ..default
        };
        if let (Some(_), true, Some(node)) =
            (upstream.proxy_protocol, upstream.keepalive > 0, object.optional("keepalive"))
        {
            let reason = "cannot go with \"proxy_protocol\", as a connection belongs to one client";
            return Err(node.invalid(reason));
        }
        let is_grpc = upstream.health.as_ref().is_some_and(|health| health.grpc.is_some());
        if let (true, false, Some(node)) = (is_grpc, upstream.http2, object.optional("health")) {
            let error = node.invalid("has \"grpc\", which needs \"http2\" in the upstream");
            return Err(error.with_hint("write \"http2\": true"));
        }
        let mut keys = HTTP1_KEYS.iter().filter_map(|key| object.optional(key));
        if let (true, Some(node)) = (upstream.http2, keys.next()) {
            let error = node.invalid("cannot go with \"http2\", whose connections are shared");
            return Err(error.with_hint(
                "leave it out: idle connections are kept for \"idle\" of \"timeouts\"",
            ));
        }
        if let (Some(tls), Some(node)) = (&upstream.tls, object.optional("tls")) {
            let nameless = |server: &UpstreamServer| {
                matches!(server.address, Address::Unix(_) | Address::Abstract(_))
            };
            if tls.server_name.is_none() && tls.verify && upstream.servers.iter().any(nameless) {
                let error = node.invalid("must have \"server_name\", as a unix socket has no name");
                return Err(error);
            }
        }
        object.end()?;
        Ok(upstream)
    }
}

/// Keys that cannot stand beside `http2`.
const HTTP1_KEYS: [&str; 2] = ["keepalive", "proxy_protocol"];

impl Balance {
    fn read(node: &Node<'_>) -> Result<Balance, Error> {
        const HINT: &str = "write \"round_robin\", \"least_connections\", \"two_choices\" \
                            or {\"hash\": \"$remote_addr\"}";
        if node.value.is_object() {
            let object = node.object()?;
            let hash = object.required("hash")?;
            let template = templates::read(&hash)?;
            if template.constant().is_some() {
                let error = hash.invalid("has no variable, so all requests would go to one server");
                return Err(error.with_hint("write \"$remote_addr\", or \"$cookie_NAME\""));
            }
            object.end()?;
            return Ok(Balance::Hash(template));
        }
        match node.value.as_str() {
            Some("round_robin") => Ok(Balance::RoundRobin),
            Some("least_connections") => Ok(Balance::LeastConnections),
            Some("two_choices") => Ok(Balance::TwoChoices),
            Some(name) => {
                let problem = format!("is \"{}\", which is no way to choose a server", Shown(name));
                Err(node.invalid(problem).with_hint(match name {
                    "least_conn" => "write \"least_connections\"",
                    "ip_hash" => "write {\"hash\": \"$remote_addr\"}",
                    random if random.starts_with("random") => {
                        "write \"two_choices\", which is nginx's \"random two\""
                    }
                    _ => HINT,
                }))
            }
            None => Err(node.wrong_type("a string or an object").with_hint(HINT)),
        }
    }
}

impl ForwardedFields {
    pub(crate) fn read(node: &Node<'_>) -> Result<ForwardedFields, Error> {
        let mut fields = ForwardedFields::default();
        for kind in node.one_or_many() {
            match kind.string()? {
                "x-forwarded" => fields.x = true,
                "forwarded" => fields.standard = true,
                _ => {
                    let error = kind.invalid("is no kind of fields about the client");
                    return Err(error.with_hint("write \"x-forwarded\" or \"forwarded\""));
                }
            }
        }
        Ok(fields)
    }
}

impl Failures {
    /// Disabled checks.
    pub const NEVER: Failures = Failures { max: 0, time: Duration::from_secs(10) };

    fn read(node: &Node<'_>) -> Result<Failures, Error> {
        if !node.value.is_object() {
            let hint = "write {\"max\": 3, \"time\": 10}, or {} for nginx's defaults";
            return Err(node.wrong_type("an object").with_hint(hint));
        }
        let object = node.object()?;
        let default = Failures::default();
        let failures = Failures {
            max: object.read("max", |node| node.count(0))?.unwrap_or(default.max),
            time: object.read("time", |node| node.seconds(1))?.unwrap_or(default.time),
        };
        object.end()?;
        Ok(failures)
    }
}

impl Health {
    fn read(node: &Node<'_>) -> Result<Health, Error> {
        let object = node.object()?;
        let grpc = object.read("grpc", read_service)?;
        let uri = match object.optional("uri") {
            None if grpc.is_some() => None,
            _ => Some(object.required("uri")?),
        };
        let seconds = |node: &Node<'_>| node.seconds(1);
        if let (Some(_), Some(node)) = (&grpc, &uri) {
            return Err(node.invalid("cannot go with \"grpc\", whose path is fixed"));
        }
        let health = Health {
            uri: uri.as_ref().map(read_line).transpose()?.unwrap_or_default(),
            grpc,
            host: object.read("host", read_line)?,
            interval: object.read("interval", seconds)?.unwrap_or(Duration::from_secs(5)),
            timeout: object.read("timeout", seconds)?.unwrap_or(Duration::from_secs(5)),
            status: object.read("status", read_status)?.unwrap_or((200, 399)),
            body: object.text("body")?,
            rise: object.read("rise", |node| node.count(1))?.unwrap_or(1),
            fall: object.read("fall", |node| node.count(1))?.unwrap_or(1),
        };
        if let Some(uri) = uri.filter(|_| !health.uri.starts_with('/')) {
            return Err(uri.invalid("must start with \"/\""));
        }
        for key in ["status", "body"] {
            if let (Some(_), Some(node)) = (&health.grpc, object.optional(key)) {
                return Err(node.invalid("cannot go with \"grpc\", which has a status of its own"));
            }
        }
        object.end()?;
        Ok(health)
    }
}

impl UpstreamServer {
    /// Returns a server with defaults but for its address and weight.
    pub fn new(address: Address, weight: f64) -> UpstreamServer {
        UpstreamServer {
            address,
            named: None,
            weight,
            max_connections: None,
            backup: false,
            drain: false,
        }
    }

    fn read(address: &str, node: &Node<'_>) -> Result<UpstreamServer, Error> {
        let address = Address::parse_server(address).map_err(|error| node.invalid(error))?;
        let object = node.object()?;
        let server = UpstreamServer {
            address,
            named: None,
            weight: object.read("weight", read_weight)?.unwrap_or(1.0),
            max_connections: object.read("max_connections", |node| node.count(1))?,
            backup: object.boolean("backup")?.unwrap_or(false),
            drain: object.boolean("drain")?.unwrap_or(false),
        };
        object.end()?;
        Ok(server)
    }
}

fn read_weight(node: &Node<'_>) -> Result<f64, Error> {
    let weight = node.value.as_f64().ok_or_else(|| node.wrong_type("a number"))?;
    match (0.0..=1_000_000.0).contains(&weight) {
        true => Ok(weight),
        false => Err(node.invalid(format_args!("must be between 0 and 1000000, but is {weight}"))),
    }
}

/// Reads a small integer.
fn small(node: &Node<'_>, low: i64, high: i64) -> Result<usize, Error> {
    let number = node.integer(low..=high)?;
    Ok(usize::try_from(number).unwrap_or(1)) // in range by the line above
}

fn read_cookies(node: &Node<'_>) -> Result<Vec<Replacement>, Error> {
    Replacement::read_all(node, true)
}

/// Reads true, or the name of a service of gRPC.
fn read_service(node: &Node<'_>) -> Result<String, Error> {
    const HINT: &str =
        "write true for the server, or the name of a service such as \"shop.Greeter\"";
    match (node.value.as_bool(), node.value.as_str()) {
        (Some(true), _) => Ok(String::new()),
        (_, Some(_)) if node.text()?.len() <= 1000 => node.text().map(str::to_owned),
        (Some(false), _) | (_, Some(_)) => {
            Err(node.invalid("must be the name of a service").with_hint(HINT))
        }
        _ => Err(node.wrong_type("true or a string").with_hint(HINT)),
    }
}

/// Reads a status, or an array of the lowest and the highest.
pub(crate) fn read_status(node: &Node<'_>) -> Result<(u16, u16), Error> {
    let status = |node: &Node<'_>| {
        node.integer(100..=599).map(|status| u16::try_from(status).unwrap_or(599))
    };
    if node.value.is_number() {
        let only = status(node)?;
        return Ok((only, only));
    }
    let bounds = node.elements()?.map(|bound| status(&bound)).collect::<Result<Vec<_>, _>>()?;
    match bounds.as_slice() {
        [low, high] if low <= high => Ok((*low, *high)),
        _ => Err(node.invalid("must be a status, or an array of the lowest and the highest")),
    }
}

/// Reads text for the head of a request: without control characters.
fn read_line(node: &Node<'_>) -> Result<String, Error> {
    let text = node.string()?;
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(node.invalid("must be of visible ASCII characters, without spaces")),
    }
}
