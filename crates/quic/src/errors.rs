//! Why connections and streams end.

use std::fmt;

use quinn_proto::ConnectionError;

/// Reason for which a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// The peer's application has closed it, with its code.
    ByPeer {
        /// Code of the application's protocol.
        code: u64,
    },
    /// The peer's QUIC has closed it, with a code of RFC 9000, 20.1.
    ByTransport {
        /// The code.
        code: u64,
    },
    /// The peer has violated QUIC or TLS: the connection was closed with this code of RFC 9000, 20.1.
    Violation {
        /// The code.
        code: u64,
        /// The library's description.
        reason: String,
    },
    /// Nothing came from the peer for the idle timeout, or its handshake took too long.
    TimedOut,
    /// The peer has lost its state.
    Reset,
    /// [`crate::Connection::close`] was called, or the endpoint is gone.
    Locally,
    /// The library has failed.
    Failed,
}

impl From<ConnectionError> for Closed {
    fn from(error: ConnectionError) -> Closed {
        match error {
            ConnectionError::ApplicationClosed(close) => {
                Closed::ByPeer { code: close.error_code.into_inner() }
            }
            ConnectionError::ConnectionClosed(close) => {
                Closed::ByTransport { code: close.error_code.into() }
            }
            ConnectionError::TransportError(error) => {
                Closed::Violation { code: error.code.into(), reason: error.to_string() }
            }
            ConnectionError::TimedOut => Closed::TimedOut,
            ConnectionError::Reset => Closed::Reset,
            ConnectionError::LocallyClosed => Closed::Locally,
            ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => Closed::Failed,
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::ByPeer { code } => write!(f, "the client closed the connection ({code:#x})"),
            Closed::ByTransport { code } => {
                write!(f, "the client closed the connection (QUIC error {code:#x})")
            }
            Closed::Violation { reason, .. } => write!(f, "the client violates QUIC: {reason}"),
            Closed::TimedOut => f.write_str("the client has sent nothing for too long"),
            Closed::Reset => f.write_str("the client has lost the state of the connection"),
            Closed::Locally => f.write_str("the connection is closed"),
            Closed::Failed => f.write_str("the QUIC library has failed"),
        }
    }
}

impl std::error::Error for Closed {}

/// Reason for which no more can be read from a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The peer has reset the stream, with this code of the application's protocol.
    Reset(u64),
    /// The connection has ended.
    Closed(Closed),
}

/// Reason for which nothing can be written to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    /// The peer wants no more, with this code of the application's protocol.
    Stopped(u64),
    /// The stream was finished or reset by this end.
    Ended,
    /// The connection has ended.
    Closed(Closed),
}
