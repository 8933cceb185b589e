//! Failures of requests that are passed to another server.

use std::fmt;
use std::io;

use howdah_http::error_status::RequestError;
use howdah_http::exchange::BodyError;
use howdah_sys::plain::Plain;

use crate::queue::QueueError;

/// Problem of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Reason why a server gave no response.
#[derive(Debug)]
pub enum Failure {
    /// The request could not wait for room at the server.
    Queue(QueueError),
    /// No connection could be made.
    Connect(io::Error),
    /// No connection was made within the connect timeout.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls(String),
    /// The request could not be sent.
    Send(io::Error),
    /// The server did not take the request within the send timeout.
    SendTimeout,
    /// The head of the response did not arrive within the first-byte timeout.
    HeadTimeout,
    /// The response could not be read.
    Read(io::Error),
    /// The body of the response did not arrive within the read timeout.
    ReadTimeout,
    /// The server closed the connection before the response was complete.
    ServerClosed,
    /// The response breaks the rules of its protocol, or the request cannot be written in it.
    Malformed(Malformed),
    /// The connection was lost before the request was sent.
    NotSent(String),
    /// The server says that it has not processed the request (HTTP/2).
    RefusedStream,
    /// The server switched to a protocol that the request does not offer.
    UnexpectedUpgrade,
    /// The client's body could not be read.
    Client(BodyError),
    /// The client closed its connection.
    ClientGone,
}

impl Failure {
    /// Returns true if the client caused the failure.
    pub fn is_by_client(&self) -> bool {
        matches!(self, Failure::Client(_) | Failure::ClientGone)
    }

    /// Returns true if the failure counts against the server.
    pub fn is_by_server(&self) -> bool {
        !self.is_by_client() && !matches!(self, Failure::Queue(_))
    }

    /// Returns true if the connection ended, as an idle one does after the server has closed it.
    pub fn is_closed_connection(&self) -> bool {
        matches!(self, Failure::ServerClosed | Failure::Read(_) | Failure::Send(_))
    }

    /// Returns true if the server has surely not processed the request. `is_stored` is true if its
    /// body can be sent again.
    pub fn is_unprocessed(&self, is_stored: bool) -> bool {
        match self {
            Failure::NotSent(_) => true,
            Failure::RefusedStream => is_stored,
            _ => false,
        }
    }
}

impl From<&Failure> for RequestError {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Queue(_) => RequestError::Overloaded,
            Failure::ConnectTimeout
            | Failure::SendTimeout
            | Failure::HeadTimeout
            | Failure::ReadTimeout => RequestError::TimedOut,
            Failure::Client(error) => RequestError::Body(*error),
            Failure::ClientGone => RequestError::ClientGone,
            _ => RequestError::NoResponse,
        }
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Failure::Malformed(malformed)
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        Failure::Queue(error)
    }
}

impl Failure {
    /// Returns the timeout that has passed, by its key in `timeouts`.
    pub fn timeout(&self) -> Option<&'static str> {
        match self {
            Failure::ConnectTimeout => Some("connect"),
            Failure::SendTimeout => Some("send"),
            Failure::HeadTimeout => Some("first_byte"),
            Failure::ReadTimeout => Some("read"),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Queue(error) => error.fmt(f),
            Failure::Connect(error) => write!(f, "cannot connect: {}", Plain(error)),
            Failure::Tls(problem) => f.write_str(problem),
            Failure::ConnectTimeout => f.write_str("the connection was not accepted in time"),
            Failure::Send(error) => write!(f, "the request could not be sent: {}", Plain(error)),
            Failure::SendTimeout => f.write_str("the request could not be sent in time"),
            Failure::HeadTimeout => f.write_str("no response came in time"),
            Failure::Read(error) => write!(f, "the response cannot be read: {}", Plain(error)),
            Failure::ReadTimeout => f.write_str("the rest of the response did not come in time"),
            Failure::ServerClosed => {
                f.write_str("the connection was closed before the response ended")
            }
            Failure::Malformed(Malformed(problem)) => f.write_str(problem),
            Failure::NotSent(problem) => {
                write!(f, "the connection was lost before the request was sent: {problem}")
            }
            Failure::RefusedStream => f.write_str("it refused the request (REFUSED_STREAM)"),
            Failure::UnexpectedUpgrade => {
                f.write_str("it switched to a protocol that the request did not offer (101)")
            }
            Failure::Client(error) => error.fmt(f),
            Failure::ClientGone => f.write_str("the client has left"),
        }
    }
}
