//! Settings of a connection, and the limits that they imply.

use h2::server::Builder;

use crate::limits::Limits;
use crate::streams::{MAX_ABANDONED, MAX_STREAMS, SEND_BUFFER_SIZE};

/// Flow-control window of a request body in bytes.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Flow-control window of all request bodies of a connection in bytes.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

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
