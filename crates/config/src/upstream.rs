//! `upstreams`: groups of servers among which requests are balanced.

mod balance;
mod health;

use std::time::Duration;

use howdah_template::Template;
use serde_json::Value;

use crate::address::Address;
use crate::buffering::{BUFFERING, REQUEST_BUFFERING};
use crate::cookie_flags::CookieFlags;
use crate::delegation::{self, Delegation};
use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::node::{Node, Shown};
use crate::replacement::Replacement;
use crate::request_headers::{self, RequestHeaders};
use crate::retry::{RETRY, Retry};
use crate::session_bandwidth::{SESSION_BANDWIDTH, SessionBandwidth};
use crate::sticky::{STICKY, Sticky};
use crate::templates;
use crate::timeouts::{Timeouts, UPSTREAM_TIMEOUTS};
use crate::udp::{UDP, UdpSessions};
use crate::upstream_tls::{UPSTREAM_TLS, UpstreamTls};

pub use self::balance::Balance;
use self::balance::HASH;
pub(crate) use self::health::read_status;
use self::health::{FAILURES, HEALTH};
pub use self::health::{Failures, Health};

/// Maximum of `keepalive`.
pub(crate) const MAX_KEEPALIVE: i64 = 10_000;

/// A member of `upstreams`.
pub(crate) static UPSTREAM: Shape = Shape {
    name: "upstream",
    parts: &[
        &[
            Key::new("servers", Kind::Named(&Kind::Object(&UPSTREAM_SERVER)), "Servers by address")
                .details("[Addresses](listeners.md), or [names](#proxy) with a port")
                .required()
                .unit(),
            Key::new(
                "balance",
                Kind::Either(&[
                    Kind::Word(&["round_robin", "least_connections", "two_choices"]),
                    Kind::Object(&HASH),
                ]),
                "Method by which a server is chosen",
            )
            .default("\"round_robin\"")
            .details(
                "Weighted round-robin; `\"least_connections\"`, round-robin among the servers \
                 with the fewest requests (nginx's `least_conn`); `\"two_choices\"`, the better \
                 of two different random servers (`random two`); or `{\"hash\": \
                 \"$remote_addr\"}`, always the same server for a value of the request \
                 (`ip_hash`, `hash … consistent`), with few values moved when servers are added \
                 or removed",
            ),
            Key::new(
                "tries",
                Kind::Integer(1, 100),
                "Maximum number of servers that a request is tried on",
            )
            .default("1")
            .details("`proxy_next_upstream_tries`; Unit tries one"),
            Key::new(
                "retry",
                Kind::Object(&RETRY),
                "Requests that another server gets after a failure",
            )
            .default("none")
            .details("Within `tries`, see below (`proxy_next_upstream`)"),
            Key::new(
                "keepalive",
                Kind::Integer(0, MAX_KEEPALIVE),
                "Maximum number of idle connections that each thread keeps to each server",
            )
            .default("32")
            .details(
                "0: a new connection for each request, the default under `--unit` and beside \
                 `http2` and `proxy_protocol`. A `proxy` in an action keeps as many. If the \
                 server closes a connection at the moment at which a request is sent on it, the \
                 request is sent again on a new one. Requests that must not be sent twice (with a \
                 body, or of a method that is not idempotent) therefore use new connections",
            ),
            Key::new(
                "failures",
                Kind::Object(&FAILURES),
                "Passive health checks: a server is skipped after failed requests",
            )
            .default("none")
            .details("`max_fails`, `fail_timeout`; `{}` is nginx's default. See below"),
            Key::new(
                "slow_start",
                Kind::Seconds(0),
                "Seconds in which the weight of a recovered server rises to its full value",
            )
            .default("0")
            .details(
                "For a server that `failures` or `health` had taken out (`slow_start` of nginx \
                 Plus). It gets all requests meanwhile if no other server of its kind can serve \
                 them",
            ),
            Key::new(
                "health",
                Kind::Object(&HEALTH),
                "Active health checks: requests of the server itself",
            )
            .default("none")
            .details("See below"),
            Key::new(
                "sticky",
                Kind::Object(&STICKY),
                "A cookie by which clients return to their server",
            )
            .default("none")
            .details("See below"),
            Key::new(
                "queue",
                Kind::Integer(0, COUNT),
                "Maximum number of requests that wait while all servers are at `max_connections`",
            )
            .default("8192")
            .details("Beyond it the response is 503"),
            Key::new("queue_timeout", Kind::Seconds(0), "Maximum seconds of that wait")
                .default("none")
                .details("Beyond it the response is 503"),
            Key::new(
                "timeouts",
                Kind::Object(&UPSTREAM_TIMEOUTS),
                "Timeouts of connections to the servers",
            )
            .details("See below"),
            Key::new(
                "host",
                Kind::Text,
                "The field `Host` of requests to the servers, with variables",
            )
            .default("the client's"),
            Key::new(
                "headers",
                Kind::Named(&Kind::Either(&[Kind::Text, Kind::Null])),
                "Request header fields to set, with variables, or with `null` to remove",
            )
            .default("none")
            .details("`proxy_set_header`. A field with an empty value is omitted"),
            BUFFERING,
            REQUEST_BUFFERING,
            Key::new(
                "rewrite_location",
                Kind::Either(&[Kind::Switch, Kind::Named(&Kind::Text)]),
                "Removes the server's own address from redirects; or an object of further \
                 prefixes to replace",
            )
            .default("true")
            .details(
                "The address, or the `host` it received, in `Location`, `Content-Location` and \
                 `Refresh`, so that clients stay on this site (nginx's `proxy_redirect`). An \
                 object of prefixes and replacements, with [variables](variables.md), replaces \
                 further prefixes: `{\"http://app.internal/shop/\": \"/\"}`. A name that begins with \
                 `~` is a regular expression; the whole address that it matches becomes the value, \
                 with `$1` to `$9`: `{\"~^http://[^/]+/(.*)$\": \"/$1\"}`. The first name that \
                 matches is used. A `proxy` in an action behaves as with `true`",
            ),
            Key::new(
                "cookie_domain",
                Kind::Named(&Kind::Either(&[Kind::Text, Kind::Null])),
                "Domains of cookies to replace, with variables, or with `null` to remove",
            )
            .default("none")
            .details("`proxy_cookie_domain`; a name after `~` as in `rewrite_location`"),
            Key::new(
                "cookie_path",
                Kind::Named(&Kind::Either(&[Kind::Text, Kind::Null])),
                "Prefixes of cookies' paths to replace, with variables, or with `null` to remove",
            )
            .default("none")
            .details("`proxy_cookie_path`; a name after `~` as in `rewrite_location`"),
            Key::new(
                "cookie_flags",
                Kind::Named(&Kind::Texts),
                "Attributes of cookies by their names: `secure`, `httponly`, `samesite=strict`, \
                 `samesite=lax` and `samesite=none` set them, `nosecure`, `nohttponly` and \
                 `nosamesite` remove them",
            )
            .default("none")
            .details(
                "`proxy_cookie_flags`. Names are [patterns](routes.md#patterns), upper and lower \
                 case are the same; the first that matches is used: `{ \"session\": [\"secure\", \
                 \"samesite=lax\"] }`",
            ),
        ],
        delegation::KEYS,
        &[
            Key::new(
                "forwarded",
                Kind::Texts,
                "Fields with the client's address and scheme to send: `\"x-forwarded\"`, \
                 `\"forwarded\"`, or both",
            )
            .default("none")
            .details(
                "`\"x-forwarded\"` for `X-Forwarded-For`, `-Proto`, `-Host` and `X-Real-IP`; \
                 `\"forwarded\"` for the field of RFC 7239. Fields of these names sent by the \
                 client are replaced. If the client is a proxy that the [listener](listeners.md) \
                 trusts, its address is appended instead",
            ),
            Key::switch("http2", false, "Uses HTTP/2 to the servers, as gRPC does").details(
                "With `tls` by ALPN, without it at once (h2c). For gRPC, see [below](#grpc). Not \
                 with `keepalive` and `proxy_protocol`, because requests share connections. \
                 WebSockets do not pass to such servers: they get 501, and a line in the log. \
                 Pass them to an upstream without `http2`",
            ),
            Key::switch("request_trailers", false, "Sends trailers of requests to the servers")
                .details("A body with trailers is sent in chunks, which many servers cannot read"),
            Key::new(
                "proxy_protocol",
                Kind::Integer(1, 2),
                "Version of the PROXY protocol header with the client's address that each \
                 connection begins with",
            )
            .default("none")
            .details(
                "HAProxy's `send-proxy`. Not with `keepalive`, because each connection belongs \
                 to one client",
            ),
            Key::new(
                "tls",
                Kind::Either(&[Kind::Switch, Kind::Object(&UPSTREAM_TLS)]),
                "TLS to the servers",
            )
            .default("false")
            .details("`true` is an object without members"),
            Key::new(
                "udp",
                Kind::Object(&UDP),
                "Sessions of clients whose datagrams are passed to the servers",
            )
            .default("none")
            .details("See [Streams](../stream.md#datagrams)"),
            Key::new(
                "bandwidth",
                Kind::Object(&SESSION_BANDWIDTH),
                "Speed of each session of streams and mail",
            )
            .default("unlimited")
            .details("See [Streams](../stream.md#upstreams)"),
        ],
    ],
};

/// A member of `servers`.
static UPSTREAM_SERVER: Shape = Shape {
    name: "upstream_server",
    parts: &[&[
        Key::new(
            "weight",
            Kind::Number,
            "Share of the requests relative to other servers, from 0 to 1000000",
        )
        .default("1")
        .details("Fractions are allowed")
        .unit(),
        Key::new(
            "max_connections",
            Kind::Integer(1, COUNT),
            "Maximum number of concurrent requests to the server, over all threads",
        )
        .default("unlimited")
        .details("`max_conns`"),
        Key::switch("backup", false, "Uses the server only when all others are down").details(
            "Their failure needs `failures`, `health` or `tries` to be noticed: `\"failures\": \
             {}, \"tries\": 2`",
        ),
        Key::switch("drain", false, "Sends the server only clients whose cookie names it"),
    ]],
};

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
    /// Sessions of clients that send datagrams.
    pub udp: UdpSessions,
    /// Speed of sessions of streams and mail.
    pub bandwidth: SessionBandwidth,
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
    /// Attributes that cookies get or lose; the first whose name matches counts.
    pub cookie_flags: Vec<CookieFlags>,
}

/// Request header fields with the client's address and scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForwardedFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Real-IP`.
    pub x: bool,
    /// `Forwarded` (RFC 7239).
    pub standard: bool,
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
            udp: UdpSessions::default(),
            bandwidth: SessionBandwidth::default(),
            buffering: true,
            request_buffering: true,
            delegation: Delegation::default(),
            rewrite_location: Some(Vec::new()),
            cookie_domain: Vec::new(),
            cookie_path: Vec::new(),
            cookie_flags: Vec::new(),
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
        let object = node.object(&UPSTREAM)?;
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
        let set = |time: &Duration| !time.is_zero();
        let http2 = object.switch("http2")?;
        let proxy_protocol = object.integer("proxy_protocol")?;
        let keeps_none = http2 || proxy_protocol.is_some();
        let usual_keepalive = if keeps_none { 0 } else { node.scope.defaults.keepalive };
        let keepalive = object.integer("keepalive")?;
        let tunnel = object.optional("timeouts").filter(|node| node.value.get("tunnel").is_some());
        let timeouts = object.read("timeouts", Timeouts::read_http)?.unwrap_or_default();
        let tunnel = tunnel.map(|_| timeouts.tunnel);
        let default = Upstream::new(name, servers);
        let upstream = Upstream {
            balance: object.read("balance", Balance::read)?.unwrap_or_default(),
            // As in Unit: only one server per request, regardless of earlier failures.
            tries: Some(object.integer_or_default("tries")?),
            retry: object.read("retry", Retry::read)?.unwrap_or_default(),
            keepalive: keepalive.unwrap_or(usual_keepalive),
            failures: object.read("failures", Failures::read)?.unwrap_or(Failures::NEVER),
            slow_start: object.seconds("slow_start")?.filter(set),
            health: object.read("health", Health::read)?,
            sticky: object.read("sticky", Sticky::read)?,
            queue: object.integer("queue")?.unwrap_or(default.queue),
            queue_timeout: object.seconds("queue_timeout")?.filter(set),
            timeouts,
            host: object.read("host", templates::read)?,
            headers: object.read("headers", request_headers::read)?.unwrap_or_default(),
            forwarded: object.read("forwarded", ForwardedFields::read)?.unwrap_or_default(),
            tls: object.read("tls", UpstreamTls::read)?.flatten(),
            http2,
            request_trailers: object.switch("request_trailers")?,
            proxy_protocol,
            udp: UdpSessions::read(&object, tunnel)?,
            bandwidth: object.read("bandwidth", SessionBandwidth::read)?.unwrap_or_default(),
            buffering: object.switch("buffering")?,
            request_buffering: object.switch("request_buffering")?,
            delegation: Delegation::read(&object)?,
            rewrite_location: object
                .read("rewrite_location", Replacement::read_locations)?
                .unwrap_or_else(|| Some(Vec::new())),
            cookie_domain: object.read("cookie_domain", read_cookies)?.unwrap_or_default(),
            cookie_path: object.read("cookie_path", read_cookies)?.unwrap_or_default(),
            cookie_flags: object.read("cookie_flags", CookieFlags::read_all)?.unwrap_or_default(),
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
        let object = node.object(&UPSTREAM_SERVER)?;
        let server = UpstreamServer {
            address,
            named: None,
            weight: object.read("weight", read_weight)?.unwrap_or(1.0),
            max_connections: object.integer("max_connections")?,
            backup: object.switch("backup")?,
            drain: object.switch("drain")?,
        };
        object.end()?;
        Ok(server)
    }
}

fn read_weight(node: &Node<'_>) -> Result<f64, Error> {
    let weight = node.value.as_f64().ok_or_else(|| node.wrong_type("a number"))?;
    if (0.0..=1_000_000.0).contains(&weight) {
        Ok(weight)
    } else {
        Err(node.invalid(format_args!("must be between 0 and 1000000, but is {weight}")))
    }
}

fn read_cookies(node: &Node<'_>) -> Result<Vec<Replacement>, Error> {
    Replacement::read_all(node, true)
}
