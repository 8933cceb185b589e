//! `failures` and `health` of an upstream: which of its servers can be used.

use std::time::Duration;

use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::node::{Node, default_of_reader};

/// `failures` of an upstream.
pub(super) static FAILURES: Shape = Shape {
    name: "failures",
    parts: &[&[
        Key::new(
            "max",
            Kind::Integer(0, COUNT),
            "Number of failures after which a server is skipped; 0 disables the check",
        )
        .default("1"),
        Key::new(
            "time",
            Kind::Seconds(1),
            "Seconds in which failures are counted, and for which the server is skipped",
        )
        .default("10")
        .details(
            "The pause doubles each time the server fails again at once, up to sixteen times \
             `time`",
        ),
    ]],
};

/// `health` of an upstream.
pub(super) static HEALTH: Shape = Shape {
    name: "health",
    parts: &[&[
        Key::new("uri", Kind::Text, "Request target of the check, such as `/healthz`")
            .default("required without `grpc` and `connect`")
            .details("Servers with `http2` are asked over HTTP/2"),
        Key::new(
            "grpc",
            Kind::Either(&[Kind::Switch, Kind::Text]),
            "Asks gRPC's health service for the server, or for a service by name; in place of \
             `uri`",
        )
        .default("none")
        .details(
            "With `http2`: `true`, or the name of a service such as `\"shop.Greeter\"`. The \
             health service (`grpc.health.v1.Health/Check`) must answer `SERVING` (nginx Plus: \
             `health_check type=grpc`)",
        ),
        Key::switch(
            "connect",
            false,
            "Only connects, with `tls` up to the end of the handshake; in place of `uri`",
        )
        .details("For servers of [streams](../stream.md), which need not speak HTTP"),
        Key::new("host", Kind::Text, "The field `Host` of the check").default("the address"),
        Key::new("interval", Kind::Seconds(1), "Seconds between two checks").default("5"),
        Key::new("timeout", Kind::Seconds(1), "Maximum seconds for the response").default("5"),
        Key::new(
            "status",
            Kind::OneOrMany(&Kind::Integer(100, 599)),
            "Status of a healthy server, or an array of the lowest and the highest",
        )
        .default("[200, 399]"),
        Key::new("body", Kind::Text, "Text that the first 64 KiB of the body must contain")
            .default("anything"),
        Key::new(
            "rise",
            Kind::Integer(1, COUNT),
            "Number of consecutive successes after which a server is healthy",
        )
        .default("1"),
        Key::new(
            "fall",
            Kind::Integer(1, COUNT),
            "Number of consecutive failures after which a server is unhealthy",
        )
        .default("1"),
    ]],
};

/// Passive health checks: a server with failures is not used for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// Number of failures within `time` after which a server is not used; 0 disables the check.
    pub max: u32,
    /// Also the time for which the server is not used. It doubles with each further failure, up to
    /// sixteen times.
    pub time: Duration,
}

// The defaults are those of nginx.
default_of_reader!(Failures, Failures::read);

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
    /// The check only connects.
    pub is_connect: bool,
    /// Name of the service that gRPC's health service is asked for, empty for the server; `None`
    /// for a request of HTTP.
    pub grpc: Option<String>,
    /// Number of successes in a row after which a server is healthy.
    pub rise: u32,
    /// Number of failures in a row after which a server is unhealthy.
    pub fall: u32,
}

impl Failures {
    /// Disabled checks.
    pub const NEVER: Failures = Failures { max: 0, time: Duration::from_secs(10) };

    pub(super) fn read(node: &Node<'_>) -> Result<Failures, Error> {
        if !node.value.is_object() {
            let hint = "write {\"max\": 3, \"time\": 10}, or {} for nginx's defaults";
            return Err(node.wrong_type("an object").with_hint(hint));
        }
        let object = node.object(&FAILURES)?;
        let failures = Failures {
            max: object.integer_or_default("max")?,
            time: object.seconds_or_default("time")?,
        };
        object.end()?;
        Ok(failures)
    }
}

impl Health {
    pub(super) fn read(node: &Node<'_>) -> Result<Health, Error> {
        let object = node.object(&HEALTH)?;
        let grpc = object.read("grpc", read_service)?;
        let is_connect = object.switch("connect")?;
        let uri = match object.optional("uri") {
            None if grpc.is_some() || is_connect => None,
            _ => Some(object.required("uri")?),
        };
        if let (Some(_), Some(node)) = (&grpc, &uri) {
            return Err(node.invalid("cannot go with \"grpc\", whose path is fixed"));
        }
        for key in ["uri", "grpc", "host", "status", "body"] {
            if let (true, Some(node)) = (is_connect, object.optional(key)) {
                return Err(node.invalid("cannot go with \"connect\", which sends no request"));
            }
        }
        let health = Health {
            is_connect,
            uri: uri.as_ref().map(read_line).transpose()?.unwrap_or_default(),
            grpc,
            host: object.read("host", read_line)?,
            interval: object.seconds_or_default("interval")?,
            timeout: object.seconds_or_default("timeout")?,
            status: object.read_or_default("status", read_status)?,
            body: object.text("body")?,
            rise: object.integer_or_default("rise")?,
            fall: object.integer_or_default("fall")?,
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
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(node.invalid("must be of visible ASCII characters, without spaces"))
    }
}
