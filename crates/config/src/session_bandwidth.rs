//! `bandwidth` of an upstream: the speed of each session with its servers.

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;

/// `bandwidth` of an upstream.
pub(crate) static SESSION_BANDWIDTH: Shape = Shape {
    name: "session_bandwidth",
    parts: &[&[
        Key::new("upload", Kind::Bytes(1), "Bytes a second from the client to the server")
            .default("unlimited")
            .details("`proxy_upload_rate`"),
        Key::new("download", Kind::Bytes(1), "Bytes a second from the server to the client")
            .default("unlimited")
            .details("`proxy_download_rate`"),
    ]],
};

/// The speed of a session in bytes a second; `None` in a direction without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionBandwidth {
    /// From the client to the server.
    pub upload: Option<u64>,
    /// From the server to the client.
    pub download: Option<u64>,
}

impl SessionBandwidth {
    pub(crate) fn read(node: &Node<'_>) -> Result<SessionBandwidth, Error> {
        let object = node.object(&SESSION_BANDWIDTH)?;
        let size = |key| object.read(key, |node| node.size(1));
        let bandwidth = SessionBandwidth { upload: size("upload")?, download: size("download")? };
        object.end()?;
        Ok(bandwidth)
    }
}
