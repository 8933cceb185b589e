//! Errors with which the server itself answers a request.
//!
//! Every crate names the error; [`RequestError::status`] is the only place that chooses a status
//! for one.

use crate::body::BodyError;
use crate::refusal::Refusal;

/// Reason why the server itself answers a request with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// The head cannot be accepted.
    Head(Refusal),
    /// The body cannot be read further.
    Body(BodyError),
    /// The client has left before the response.
    ClientGone,
    /// The request names no host.
    NoHost,
    /// A name and a password are required.
    Unauthenticated,
    /// The configuration denies access.
    Forbidden,
    /// There is no resource.
    NotFound,
    /// Only GET and HEAD are possible.
    MethodNotAllowed,
    /// The content does not have the requested part.
    RangeNotSatisfiable,
    /// The host requires another connection.
    Misdirected,
    /// A step of the server failed, or its configuration contradicts itself.
    Internal,
    /// The origin of the response cannot become a tunnel.
    NoTunnel,
    /// The origin gave no valid response.
    NoResponse,
    /// The part of the configuration that would answer cannot be used.
    NotInUse,
    /// The application does not run.
    NotRunning,
    /// Too many requests wait.
    Overloaded,
    /// Too many passwords are being checked.
    TooManyPasswords,
    /// The request or its site would take more memory or processor time than it may.
    NoResources,
    /// The origin did not respond in time.
    TimedOut,
    /// The client accepts cached responses only, and there is none.
    NotCached,
    /// The body of the request or of the response could not be stored.
    NotStored,
    /// A status that the configuration states, or that another server answered with.
    Stated(u16),
}

impl RequestError {
    /// Returns the status of the response. That of [`RequestError::ClientGone`] and of a body whose
    /// client closed the connection is in the log only.
    pub fn status(self) -> u16 {
        match self {
            RequestError::Head(refusal) => head_status(refusal),
            RequestError::Body(BodyError::Malformed | BodyError::Closed) => 400,
            RequestError::NoHost => 400,
            RequestError::Unauthenticated => 401,
            RequestError::Forbidden => 403,
            RequestError::NotFound => 404,
            RequestError::MethodNotAllowed => 405,
            RequestError::Body(BodyError::Timeout) => 408,
            RequestError::Body(BodyError::TooLarge) => 413,
            RequestError::RangeNotSatisfiable => 416,
            RequestError::Misdirected => 421,
            // nginx's, which its logs are known for.
            RequestError::ClientGone => 499,
            RequestError::Internal => 500,
            RequestError::NoTunnel => 501,
            RequestError::NoResponse => 502,
            RequestError::NotInUse
            | RequestError::NotRunning
            | RequestError::Overloaded
            | RequestError::TooManyPasswords
            | RequestError::NoResources => 503,
            RequestError::TimedOut | RequestError::NotCached => 504,
            RequestError::NotStored => 507,
            RequestError::Stated(status) => status,
        }
    }

    /// Returns true if the rest of the body may be unread: it cannot be told from the next request.
    pub fn closes(self) -> bool {
        matches!(self, RequestError::Body(_) | RequestError::ClientGone)
    }
}

fn head_status(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Connect => 405,
        Refusal::HeadTimeout | Refusal::IdleTimeout => 408,
        Refusal::LengthRequired => 411,
        Refusal::BodyTooLong => 413,
        Refusal::RequestLineTooLong => 414,
        Refusal::Expectation => 417,
        Refusal::FieldTooLong | Refusal::HeadTooLong | Refusal::TooManyFields => 431,
        Refusal::UnknownCoding | Refusal::Protocol => 501,
        Refusal::Version => 505,
        _ => 400,
    }
}

impl From<Refusal> for RequestError {
    fn from(refusal: Refusal) -> Self {
        RequestError::Head(refusal)
    }
}

impl From<BodyError> for RequestError {
    fn from(error: BodyError) -> Self {
        RequestError::Body(error)
    }
}
