//! `timeouts`: how long to wait for another server.

use std::time::Duration;

use crate::error::Error;
use crate::node::{Node, Object};

/// How long to wait for another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the server to take more of the request.
    pub send: Duration,
    /// From the end of the request to the end of the response's head.
    pub first_byte: Duration,
    /// For more of the response.
    pub read: Duration,
    /// How long an idle connection is kept.
    pub idle: Duration,
    /// How long a connection that has left HTTP, such as a WebSocket, may be silent.
    pub tunnel: Duration,
}

impl Default for Timeouts {
    /// Those of Unit and nginx; a connection that takes longer than 10 seconds will not come. A
    /// minute's silence is nothing unusual on a WebSocket, and one that waits costs little.
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
    /// Those of FastCGI servers, which know no tunnels.
    pub(crate) fn read(node: &Node<'_>) -> Result<Timeouts, Error> {
        let object = node.object()?;
        let timeouts = Timeouts::read_common(&object)?;
        object.end()?;
        Ok(timeouts)
    }

    /// Those of HTTP servers.
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
