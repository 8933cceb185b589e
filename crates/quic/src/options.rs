//! Options of an endpoint.

use std::time::Duration;

/// When new clients have to prove their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retry {
    /// All.
    Always,
    /// If many handshakes are not complete.
    #[default]
    Auto,
    /// None.
    Never,
}

/// Options of an endpoint that may change while it has connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// When new clients have to prove their addresses.
    pub retry: Retry,
    /// Maximum number of streams in both directions that a peer may have open.
    pub max_streams: u32,
    /// Time without a packet after which a connection ends.
    pub idle_timeout: Duration,
    /// Time within which a handshake has to be complete.
    pub handshake_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            retry: Retry::Auto,
            max_streams: 100,
            idle_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
        }
    }
}
