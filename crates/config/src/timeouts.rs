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
