//! What a client may ask of us, in time and in bytes.

use std::time::Duration;

use bytes::Bytes;

/// Limits of a connection and of the requests on it. The defaults are those of NGINX Unit where
/// it has the option, else those that Apache and nginx agree on; of two ways to read a request
/// they choose the strict one.
#[derive(Debug, Clone)]
pub struct Limits {
    /// From the first byte of a request head to its last; 408 after that.
    pub header_timeout: Duration,
    /// Between two reads of a request body; 408 after that.
    pub body_timeout: Duration,
    /// Between two writes that make progress; the connection ends after that.
    pub send_timeout: Duration,
    /// How long a connection may wait for its next request; it ends without a word.
    pub idle_timeout: Duration,
    /// Bytes per second that a body or a response must move on average while we wait for the
    /// client, once `grace` has passed; 0 for no such limit. It cuts clients that beat the
    /// timeouts above with a byte now and then.
    pub min_rate: u64,
    /// How long a client may be slower than `min_rate`.
    pub grace: Duration,
    /// Bytes of a request head, its request line included: 431 above.
    pub max_head: usize,
    /// A request line or a field value must be shorter than this: 414 or 431.
    pub max_line: usize,
    /// Fields of a request head: 431 above.
    pub max_fields: usize,
    /// Bytes of a request body: 413 above, before any is read if the length is announced. A
    /// handler may allow a request less.
    pub max_body: u64,
    /// Whether a request body may come without an announced length (chunked): else 411.
    pub chunked_bodies: bool,
    /// Requests on one connection; it ends after that many.
    pub max_requests: Option<u64>,
    /// Leave out request fields whose name has a byte other than a letter, a digit or `-`. PHP
    /// folds `.` and `_` to what `-` becomes, so that such a field could stand for another.
    pub discard_unsafe_fields: bool,
    /// Refuse what HTTP/1.1 forbids and NGINX Unit takes: no `Host`, a host of characters that no
    /// name has, spaces in the target (else they are read as `%20`) or a fragment (else it is cut
    /// off).
    pub strict: bool,
    /// Value of the `Server` field; none if empty.
    pub server: Bytes,
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
        }
    }
}
