//! Limits for clients, in time and in bytes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

/// Limits of a connection and of its requests. The defaults are those of NGINX Unit where it has
/// the option, otherwise those that Apache and nginx agree on; requests are read strictly.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum time from the first byte of a request head to its last; 408 after that.
    pub header_timeout: Duration,
    /// Maximum time between two reads of a request body; 408 after that.
    pub body_timeout: Duration,
    /// Maximum time between two successful writes; then the connection is closed.
    pub send_timeout: Duration,
    /// Maximum time between a response and the next request; then the connection is closed.
    pub idle_timeout: Duration,
    /// Minimum average speed of the client in sending a body and in taking a response, in bytes per
    /// second of waiting, once `grace` has passed; 0 for no limit. It stops clients that evade the
    /// timeouts by sending a byte now and then.
    pub min_rate: u64,
    /// Time for which a client may be slower than `min_rate`.
    pub grace: Duration,
    /// Maximum length of a request head in bytes, including the request line; 431 above.
    pub max_head: usize,
    /// Length in bytes that a request line and each field value must be below; 414 or 431
    /// otherwise.
    pub max_line: usize,
    /// Maximum number of fields of a request head; 431 above.
    pub max_fields: usize,
    /// Maximum length of a request body in bytes; 413 above, before any byte is read if the length
    /// is announced. A handler may set a lower limit.
    pub max_body: u64,
    /// Request bodies may be chunked, without an announced length; otherwise 411.
    pub chunked_bodies: bool,
    /// Maximum number of requests of a connection.
    pub max_requests: Option<u64>,
    /// Drop request fields whose name has a byte other than a letter, a digit or `-`. PHP maps `.`,
    /// `_` and `-` to the same byte, so that the field could replace another.
    pub discard_unsafe_fields: bool,
    /// Refuse requests that HTTP/1.1 forbids and NGINX Unit accepts: without `Host`, with an
    /// invalid host, with spaces in the target (otherwise read as `%20`) or with a fragment
    /// (otherwise cut off).
    pub strict: bool,
    /// Value of the `Server` field; no field if empty.
    pub server: Bytes,
    /// Directory for temporary files of bodies that do not stay in memory.
    pub temporary: Arc<Path>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(180),
            min_rate: 500,
            grace: Duration::from_secs(20),
            max_head: 32 * 1024,
            max_line: 8 * 1024,
            max_fields: 100,
            max_body: 8 * 1024 * 1024,
            chunked_bodies: true,
            max_requests: None,
            discard_unsafe_fields: true,
            strict: true,
            server: Bytes::from_static(b"Howdah"),
            temporary: Path::new("/tmp").into(),
        }
    }
}
