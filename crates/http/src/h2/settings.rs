//! Settings of a connection, and the limits that they imply.

use h2::server::Builder;

use crate::limits::Limits;

/// Maximum number of requests of one connection that are answered at the same time.
pub(super) const MAX_STREAMS: u32 = 100;

/// Number of requests of one connection that are answered regardless of the memory of other
/// clients.
pub(super) const FREE_STREAMS: usize = 4;

/// Memory of a request in bytes: its state, its head, and the bytes of each response that are not
/// counted.
pub(super) const STREAM_BYTES: usize = 32 * 1024;

/// Maximum number of bytes of a response that are buffered for sending.
pub(super) const SEND_BUFFER_SIZE: usize = 32 * 1024;

/// Flow-control window of a request body in bytes.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Flow-control window of all request bodies of a connection in bytes.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Number of abandoned streams, less those that ended with a response, above which a connection is
/// closed.
pub(super) const MAX_ABANDONED: u32 = 100;

/// Returns the builder of a connection with these settings.
pub(super) fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(limits.max_head).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER_SIZE)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(MAX_STREAMS as usize)
        .max_local_error_reset_streams(Some(MAX_ABANDONED as usize))
        .enable_connect_protocol();
    builder
}
