//! `http3` of a listener: HTTP/3 on the UDP port beside the TCP port.

use std::time::Duration;

use crate::address::Address;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, default_of_reader};
use crate::tls::{Alpn, Tls};

/// `http3` of a listener.
pub(crate) static HTTP3: Shape = Shape {
    name: "http3",
    parts: &[&[
        Key::new(
            "retry",
            Kind::Either(&[Kind::Switch, Kind::Word(&["auto"])]),
            "New clients have to prove their addresses first: all, none, or (`\"auto\"`) while many \
             handshakes are not complete",
        )
        .default("\"auto\"")
        .details("nginx's `quic_retry`; the proof takes a round trip"),
        Key::new(
            "advertise",
            Kind::Either(&[Kind::Switch, Kind::Integer(1, 65_535)]),
            "Names HTTP/3 in responses of HTTP/1 and HTTP/2 (`Alt-Svc`): with the port of the \
             listener, or another one that clients see",
        )
        .default("true"),
        Key::new(
            "max_streams",
            Kind::Integer(1, MAX_STREAMS),
            "Maximum number of requests of one connection at the same time",
        )
        .default("100"),
        Key::new(
            "idle_timeout",
            Kind::Seconds(1),
            "Time in seconds without a packet after which a connection ends",
        )
        .default("30"),
    ]],
};

/// Begins the names of UDP sockets.
const UDP: &str = "udp:";

/// Maximum of `max_streams`.
const MAX_STREAMS: i64 = 100;

/// Settings of HTTP/3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http3 {
    /// When new clients have to prove their addresses.
    pub retry: Http3Retry,
    /// The port that responses over TCP name; `None` for none.
    pub advertise: Option<Http3Port>,
    /// Maximum number of requests of one connection at the same time.
    pub max_streams: u32,
    /// Time without a packet after which a connection ends.
    pub idle_timeout: Duration,
}

/// When new clients have to prove their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http3Retry {
    /// All clients.
    Always,
    /// While many handshakes are not complete.
    Auto,
    /// Never.
    Never,
}

/// The port of HTTP/3, as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http3Port {
    /// That of the listener.
    OfListener,
    /// Another one.
    Other(u16),
}

default_of_reader!(Http3, Http3::read_object);

impl Http3 {
    /// Returns the name of the UDP socket of a listener with HTTP/3.
    pub fn socket_name(listener: &str) -> String {
        format!("{UDP}{listener}")
    }

    /// Returns the listener of a UDP socket.
    pub fn listener_of(socket: &str) -> Option<&str> {
        socket.strip_prefix(UDP)
    }

    /// Reads the key of a listener.
    pub(crate) fn read(
        listener: &Object<'_>,
        address: &Address,
        tls: Option<&Tls>,
    ) -> Result<Option<Http3>, Error> {
        let Some(node) = listener.optional("http3") else { return Ok(None) };
        let http3 = match node.value.as_bool() {
            Some(false) => return Ok(None),
            Some(true) => Http3::default(),
            None if node.value.is_object() => Http3::read_object(&node)?,
            None => return Err(node.wrong_type("true, false or an object")),
        };
        if !matches!(address, Address::Inet(_)) {
            return Err(node.invalid("needs an IP address: HTTP/3 uses UDP, not unix sockets"));
        }
        let Some(tls) = tls else {
            let error = node.invalid("needs \"tls\": HTTP/3 is always encrypted");
            return Err(error.with_hint("add \"tls\" to the listener, or leave \"http3\" out"));
        };
        if !matches!(tls.alpn, Alpn::Http { .. }) {
            return Err(node.invalid("is for listeners of HTTP only"));
        }
        if !tls.parameters.tls13 {
            let error = node.invalid("needs TLS 1.3, which \"conf_commands\" of \"tls\" excludes");
            return Err(error.with_hint("permit TLS 1.3, or leave \"http3\" out"));
        }
        if listener.optional("proxy_protocol").is_some() {
            return Err(node
                .invalid("cannot be combined with \"proxy_protocol\", which has no form for UDP"));
        }
        Ok(Some(http3))
    }

    fn read_object(node: &Node<'_>) -> Result<Http3, Error> {
        let object = node.object(&HTTP3)?;
        let http3 = Http3 {
            retry: object.read_or_default("retry", Http3Retry::read)?,
            advertise: object.read_or_default("advertise", Http3Port::read)?,
            max_streams: object.integer_or_default("max_streams")?,
            idle_timeout: object.seconds_or_default("idle_timeout")?,
        };
        object.end()?;
        Ok(http3)
    }
}

impl Http3Retry {
    fn read(node: &Node<'_>) -> Result<Http3Retry, Error> {
        match (node.value.as_bool(), node.value.as_str()) {
            (Some(true), _) => Ok(Http3Retry::Always),
            (Some(false), _) => Ok(Http3Retry::Never),
            (_, Some("auto")) => Ok(Http3Retry::Auto),
            (_, Some(_)) => Err(node.invalid("must be true, false or \"auto\"")),
            _ => Err(node.wrong_type("true, false or \"auto\"")),
        }
    }
}

impl Http3Port {
    fn read(node: &Node<'_>) -> Result<Option<Http3Port>, Error> {
        match node.value.as_bool() {
            Some(on) => Ok(on.then_some(Http3Port::OfListener)),
            None if node.value.is_number() => {
                Ok(u16::try_from(node.integer(1..=65_535)?).ok().map(Http3Port::Other))
            }
            None => Err(node.wrong_type("true, false or a port")),
        }
    }
}
