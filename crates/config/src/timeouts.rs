//! `timeouts` of upstreams and FastCGI applications.

use std::time::Duration;

use crate::error::Error;
use crate::node::{Node, Object};

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
        let object = node.object()?;
        let seconds = |key| object.read(key, |node| node.seconds(1));
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

impl Default for Timeouts {
    /// Returns Unit's and nginx's values, with two exceptions: 10 seconds to connect, as later
    /// successes are rare, and an hour for tunnels, as WebSockets are often silent for minutes and
    /// cost little.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Timeouts {
            connect: Duration::from_secs(10),
            send: minute,
            first_byte: minute,
            read: minute,
            idle: minute,
            tunnel: 60 * minute,
        }
    }
}

impl Timeouts {
    /// Reads the timeouts of FastCGI servers, which have no tunnels.
    pub(crate) fn read(node: &Node<'_>) -> Result<Timeouts, Error> {
        let object = node.object()?;
        let timeouts = Timeouts::read_common(&object)?;
        object.end()?;
        Ok(timeouts)
    }

    /// Reads the timeouts of HTTP servers.
    pub(crate) fn read_http(node: &Node<'_>) -> Result<Timeouts, Error> {
        let object = node.object()?;
        let common = Timeouts::read_common(&object)?;
        let tunnel = object.read("tunnel", |node| node.seconds(1))?.unwrap_or(common.tunnel);
        object.end()?;
        Ok(Timeouts { tunnel, ..common })
    }

    fn read_common(object: &Object<'_>) -> Result<Timeouts, Error> {
        let default = Timeouts::default();
        let seconds = |node: &Node<'_>| node.seconds(1);
        Ok(Timeouts {
            connect: object.read("connect", seconds)?.unwrap_or(default.connect),
            send: object.read("send", seconds)?.unwrap_or(default.send),
            first_byte: object.read("first_byte", seconds)?.unwrap_or(default.first_byte),
            read: object.read("read", seconds)?.unwrap_or(default.read),
            idle: object.read("idle", seconds)?.unwrap_or(default.idle),
            tunnel: default.tunnel,
        })
    }
}
