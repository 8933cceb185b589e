//! Limits and messages of both sockets.

/// Maximum size of a document in bytes.
pub(super) const MAX_TEXT: u64 = 256 << 20;

/// Maximum size of an answer of the router in bytes. The status of an application has about 1 KiB. An
/// answer is printed while it is read, and takes no more memory than both texts.
pub(super) const MAX_ANSWER: u64 = 16 << 20;

/// The error while the server stops.
pub(super) const STOPPING: &str = "the server is being stopped";

/// The error of a question to a router that has ended.
pub(super) const ROUTER_ENDED: &str = "the router has ended before it answered; another one \
                                       starts at once, unless the server is being stopped: give \
                                       the command again, and see the log";

/// Maximum number of connections to the control API that are served; further ones wait.
pub(super) const MAX_CONNECTIONS: usize = 64;
