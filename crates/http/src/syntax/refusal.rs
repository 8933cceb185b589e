//! Reasons to refuse a request head.

use super::target::TargetError;

/// A reason to refuse a head. The connection is closed after the response, since the bytes after a
/// refused head may not be a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The body has another length than announced, or a malformed trailer.
    Body,
    /// Method CONNECT.
    Connect,
    /// `Content-Length` twice, or with `Transfer-Encoding`.
    ContentLengthConflict,
    /// `Content-Length` is not a decimal number.
    ContentLengthInvalid,
    /// An expectation other than `100-continue`.
    Expectation,
    /// A field has an invalid name, or a control byte in its value.
    Field,
    /// A field is longer than allowed.
    FieldTooLong,
    /// The target has a fragment (RFC 9110, 4.2.5).
    Fragment,
    /// All fields together are longer than allowed.
    HeadTooLong,
    /// The head did not arrive in time.
    HeadTimeout,
    /// No request came after the one before on the connection.
    IdleTimeout,
    /// `Host` is missing, repeated or invalid.
    Host,
    /// The body is chunked where that is not allowed.
    LengthRequired,
    /// The client disconnected within the head.
    Incomplete,
    /// A line does not end in CR LF.
    LineEnd,
    /// The method has characters other than capital letters, `-` and `_`.
    Method,
    /// Plain HTTP on a listener for TLS.
    PlainOnTls,
    /// A tunnel for a protocol other than WebSocket.
    Protocol,
    /// A pseudo-header field is missing, repeated, unknown, misplaced or malformed.
    Pseudo,
    /// The request line is not `method SP target SP version`.
    RequestLine,
    /// The request line is longer than allowed.
    RequestLineTooLong,
    /// The target's path or query.
    Target(TargetError),
    /// More fields than allowed.
    TooManyFields,
    /// The announced body is longer than allowed.
    BodyTooLong,
    /// `Transfer-Encoding` in HTTP/1.0 or more than once.
    TransferEncoding,
    /// A transfer coding other than `chunked`.
    UnknownCoding,
    /// A version other than HTTP/1.0 and HTTP/1.1.
    Version,
}

impl Refusal {
    /// Returns the text for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::Body => "a body of another length than announced, or a malformed trailer",
            Refusal::Connect => "method CONNECT, which only proxies support",
            Refusal::ContentLengthConflict => {
                "Content-Length twice, or together with Transfer-Encoding"
            }
            Refusal::ContentLengthInvalid => "Content-Length is not a decimal number",
            Refusal::Expectation => "an expectation other than 100-continue",
            Refusal::Field => "a malformed header field",
            Refusal::FieldTooLong => {
                "a header field is longer than settings/http/large_header_buffer_size allows"
            }
            Refusal::Fragment => "a fragment (#) in the target",
            Refusal::HeadTooLong => {
                "the request head is longer than settings/http/large_header_buffers allow"
            }
            Refusal::HeadTimeout => {
                "the request head did not arrive within settings/http/header_read_timeout"
            }
            Refusal::IdleTimeout => "no request came within settings/http/idle_timeout",
            Refusal::Host => "Host is missing, double or malformed",
            Refusal::Incomplete => "the client disconnected within the request head",
            Refusal::LengthRequired => "a chunked body is not allowed here",
            Refusal::LineEnd => "a line of the request head does not end in CR LF",
            Refusal::Method => "the method has other characters than A to Z, - and _",
            Refusal::PlainOnTls => "plain HTTP on a listener for TLS",
            Refusal::Protocol => "a tunnel for a protocol other than WebSocket",
            Refusal::Pseudo => {
                "a pseudo-header field is missing, repeated, unknown, misplaced or malformed"
            }
            Refusal::RequestLine => "a malformed request line",
            Refusal::RequestLineTooLong => {
                "the request line is longer than settings/http/large_header_buffer_size allows"
            }
            Refusal::Target(error) => error.reason(),
            Refusal::TooManyFields => {
                "more header fields than settings/http/max_header_fields allows"
            }
            Refusal::BodyTooLong => "the announced body is longer than allowed",
            Refusal::TransferEncoding => "Transfer-Encoding in HTTP/1.0, or more than one",
            Refusal::UnknownCoding => "a transfer coding other than chunked",
            Refusal::Version => "a protocol version other than HTTP/1.0 and HTTP/1.1",
        }
    }
}
