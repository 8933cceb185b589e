//! `timeouts`: how long to wait for another server.

use std::time::Duration;

use crate::error::Error;
use crate::node::Node;

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
}

impl Default for Timeouts {
    /// Those of Unit and nginx; a connection that takes longer than 10 seconds will not come.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Timeouts {
            connect: Duration::from_secs(10),
            send: minute,
            first_byte: minute,
            read: minute,
            idle: minute,
        }
    }
}

impl Timeouts {
    pub(crate) fn read(node: &Node<'_>) -> Result<Timeouts, Error> {
        let object = node.object()?;
        let default = Timeouts::default();
        let seconds = |node: &Node<'_>| node.seconds(1);
        let timeouts = Timeouts {
            connect: object.read("connect", seconds)?.unwrap_or(default.connect),
            send: object.read("send", seconds)?.unwrap_or(default.send),
            first_byte: object.read("first_byte", seconds)?.unwrap_or(default.first_byte),
            read: object.read("read", seconds)?.unwrap_or(default.read),
            idle: object.read("idle", seconds)?.unwrap_or(default.idle),
        };
        object.end()?;
        Ok(timeouts)
    }
}
