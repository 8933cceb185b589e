//! The body of a request as the connection delivers it.

use std::fmt;
use std::task::{Context, Poll};

use bytes::Bytes;

/// Source of the body of a request. Implemented by the connections of each protocol.
pub trait BodySource {
    /// Returns the next bytes, never empty; `None` at the end. The first call tells a client that
    /// waits for `100 Continue` to send it. After an error the body cannot be read further.
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;

    /// Returns the lines of the trailer once the body has been read to its end; empty if there is
    /// none.
    fn trailer(&self) -> Bytes {
        Bytes::new()
    }
}

/// Reason why the body of a request cannot be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The body is longer than allowed.
    TooLarge,
    /// The client sent too little in the time allowed.
    Timeout,
    /// The framing violates HTTP.
    Malformed,
    /// The client closed the connection within the body.
    Closed,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::TooLarge => "the request body is longer than allowed",
            BodyError::Timeout => "the request body did not arrive in time",
            BodyError::Malformed => "the framing of the request body violates HTTP",
            BodyError::Closed => "the client closed the connection within the request body",
        })
    }
}

impl std::error::Error for BodyError {}
