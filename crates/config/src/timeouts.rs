//! `timeouts` of upstreams and FastCGI applications.

use std::time::Duration;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, default_of_reader};

const CONNECT: Key = Key::new("connect", Kind::Seconds(1), "Maximum seconds to connect")
    .default("10")
    .details("`proxy_connect_timeout`, `fastcgi_connect_timeout`");
const SEND: Key =
    Key::new("send", Kind::Seconds(1), "Maximum seconds between two writes of the request")
        .default("60")
        .details("`proxy_send_timeout`, `fastcgi_send_timeout`");
const FIRST_BYTE: Key = Key::new(
    "first_byte",
    Kind::Seconds(1),
    "Maximum seconds from the end of the request to the end of the response's head",
)
.default("60")
.details("`proxy_read_timeout`, `fastcgi_read_timeout`");
const READ: Key =
    Key::new("read", Kind::Seconds(1), "Maximum seconds between two reads of the response")
        .default("60")
        .details("`proxy_read_timeout`, `fastcgi_read_timeout`");
const IDLE: Key =
    Key::new("idle", Kind::Seconds(1), "Seconds after which an idle connection is closed")
        .default("60")
        .details("`keepalive_timeout`");
const TUNNEL: Key = Key::new(
    "tunnel",
    Kind::Seconds(1),
    "Maximum seconds without data on an upgraded connection, such as a WebSocket",
)
.default("3600");

const KEYS: &[Key] = &[CONNECT, SEND, FIRST_BYTE, READ, IDLE];

/// `timeouts` of an action; without a key, those of the servers count.
pub(crate) static ACTION_TIMEOUTS: Shape = Shape {
    name: "action_timeouts",
    parts: &[&[
        CONNECT.default("that of the servers"),
        SEND.default("that of the servers"),
        FIRST_BYTE.default("that of the servers"),
        READ.default("that of the servers"),
        TUNNEL.default("that of the servers"),
    ]],
};

/// `timeouts` of a FastCGI application.
pub(crate) static TIMEOUTS: Shape = Shape { name: "timeouts", parts: &[KEYS] };

/// `timeouts` of an upstream.
pub(crate) static UPSTREAM_TIMEOUTS: Shape =
    Shape { name: "upstream_timeouts", parts: &[KEYS, &[TUNNEL]] };

/// Timeouts of connections to another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time to connect.
    pub connect: Duration,
    /// Maximum time between two writes of the request.
    pub send: Duration,
    /// Maximum time from the end of the request to the end of the response's head.
    pub first_byte: Duration,
    /// Maximum time between two reads of the response.
    pub read: Duration,
    /// Time after which an idle connection is closed.
    pub idle: Duration,
    /// Maximum time without data on an upgraded connection, such as a WebSocket.
    pub tunnel: Duration,
}

/// Timeouts of an action; `None` for those of the servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeoutChanges {
    /// As [`Timeouts::connect`].
    pub connect: Option<Duration>,
    /// As [`Timeouts::send`].
    pub send: Option<Duration>,
    /// As [`Timeouts::first_byte`].
    pub first_byte: Option<Duration>,
    /// As [`Timeouts::read`].
    pub read: Option<Duration>,
    /// As [`Timeouts::tunnel`].
    pub tunnel: Option<Duration>,
}

impl TimeoutChanges {
    pub(crate) fn read(node: &Node<'_>) -> Result<TimeoutChanges, Error> {
        let object = node.object(&ACTION_TIMEOUTS)?;
        let seconds = |key| object.seconds(key);
        let timeouts = TimeoutChanges {
            connect: seconds("connect")?,
            send: seconds("send")?,
            first_byte: seconds("first_byte")?,
            read: seconds("read")?,
            tunnel: seconds("tunnel")?,
        };
        object.end()?;
        Ok(timeouts)
    }

    /// Returns true if the timeout with this key is changed.
    pub(crate) fn has(&self, key: &str) -> bool {
        match key {
            "connect" => self.connect,
            "send" => self.send,
            "first_byte" => self.first_byte,
            "read" => self.read,
            "tunnel" => self.tunnel,
            _ => None,
        }
        .is_some()
    }

    /// Returns these timeouts, with those of `other` where these have none.
    pub fn or(self, other: TimeoutChanges) -> TimeoutChanges {
        TimeoutChanges {
            connect: self.connect.or(other.connect),
            send: self.send.or(other.send),
            first_byte: self.first_byte.or(other.first_byte),
            read: self.read.or(other.read),
            tunnel: self.tunnel.or(other.tunnel),
        }
    }

    /// Returns the timeouts of servers with these changes.
    pub fn applied_to(&self, usual: &Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.unwrap_or(usual.connect),
            send: self.send.unwrap_or(usual.send),
            first_byte: self.first_byte.unwrap_or(usual.first_byte),
            read: self.read.unwrap_or(usual.read),
            idle: usual.idle,
            tunnel: self.tunnel.unwrap_or(usual.tunnel),
        }
    }
}

// The defaults are those of Unit and nginx, with two exceptions: 10 seconds to connect, as later
// successes are rare, and an hour for tunnels, as WebSockets are often silent for minutes and cost
// little.
default_of_reader!(Timeouts, Timeouts::read_http);

impl Timeouts {
    /// Reads the timeouts of FastCGI servers, which have no tunnels.
    pub(crate) fn read(node: &Node<'_>) -> Result<Timeouts, Error> {
        let object = node.object(&TIMEOUTS)?;
        let timeouts = Timeouts::read_common(&object, Timeouts::default().tunnel)?;
        object.end()?;
        Ok(timeouts)
    }

    /// Reads the timeouts of HTTP servers.
    pub(crate) fn read_http(node: &Node<'_>) -> Result<Timeouts, Error> {
        let object = node.object(&UPSTREAM_TIMEOUTS)?;
        let timeouts = Timeouts::read_common(&object, object.seconds_or_default("tunnel")?)?;
        object.end()?;
        Ok(timeouts)
    }

    fn read_common(object: &Object<'_>, tunnel: Duration) -> Result<Timeouts, Error> {
        Ok(Timeouts {
            connect: object.seconds_or_default("connect")?,
            send: object.seconds_or_default("send")?,
            first_byte: object.seconds_or_default("first_byte")?,
            read: object.seconds_or_default("read")?,
            idle: object.seconds_or_default("idle")?,
            tunnel,
        })
    }
}
