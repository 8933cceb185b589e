//! Limits and messages of both sockets.

/// Maximum size of a document, and of an answer of the router, in bytes.
pub(super) const MAX_TEXT: u64 = 256 << 20;

/// The error while the server stops.
pub(super) const STOPPING: &str = "the server is being stopped";
