//! Errors of clients, with the codes that they are told by (RFC 9114, 8.1; RFC 9204, 6).

use std::fmt;

/// An error code of HTTP/3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Code {
    /// No error: the connection or the stream is no longer needed.
    NoError = 0x100,
    /// The server failed.
    InternalError = 0x102,
    /// The client opened a stream that it must not open.
    StreamCreationError = 0x103,
    /// A stream that the connection needs was closed.
    ClosedCriticalStream = 0x104,
    /// A frame in a place where it is not permitted.
    FrameUnexpected = 0x105,
    /// A frame with a wrong layout or size.
    FrameError = 0x106,
    /// The client causes too much work.
    ExcessiveLoad = 0x107,
    /// A stream or push id that was not permitted.
    IdError = 0x108,
    /// An error in the payload of SETTINGS.
    SettingsError = 0x109,
    /// The control stream does not begin with SETTINGS.
    MissingSettings = 0x10a,
    /// The request was not processed, and may be sent again.
    RequestRejected = 0x10b,
    /// The request or the response is no longer wanted.
    RequestCancelled = 0x10c,
    /// The stream ended before the head of the request.
    RequestIncomplete = 0x10d,
    /// A malformed message.
    MessageError = 0x10e,
    /// A field section that cannot be decoded.
    QpackDecompressionFailed = 0x200,
    /// An instruction on the encoder stream that cannot be followed.
    QpackEncoderStreamError = 0x201,
    /// An instruction on the decoder stream that cannot be followed.
    QpackDecoderStreamError = 0x202,
}

impl Code {
    /// Returns the number.
    pub fn number(self) -> u64 {
        self as u64
    }
}

/// An error for which the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// Code.
    pub code: Code,
    /// Reason, for the log and the client.
    pub reason: &'static str,
}

impl ConnectionError {
    /// Creates an error.
    pub const fn new(code: Code, reason: &'static str) -> Self {
        ConnectionError { code, reason }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (error {:#x})", self.reason, self.code.number())
    }
}

/// An error on a request stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamError {
    /// The connection is closed.
    Connection(ConnectionError),
    /// The message is malformed (RFC 9114, 4.1.2); the connection continues.
    Malformed,
    /// The stream ended before the head of the request (RFC 9114, 4.1).
    Incomplete,
    /// The head or trailer is longer than announced with SETTINGS_MAX_FIELD_SECTION_SIZE.
    TooLong,
}

impl From<ConnectionError> for StreamError {
    fn from(error: ConnectionError) -> Self {
        StreamError::Connection(error)
    }
}
