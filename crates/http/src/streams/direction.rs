//! The two directions of a stream, which each protocol implements.

use std::task::{Context, Poll};

use bytes::Bytes;

use crate::body::BodyError;
use crate::message::{ConnectionFields, FieldBlock, Request, Response};

/// The client has reset the stream, or the connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// Room for bytes of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// At least one byte.
    Bytes(usize),
    /// None for this stream. The connection may have room for others.
    Stuck,
    /// None on the connection.
    Blocked,
    /// The stream is gone.
    Gone,
}

/// Reason why the server resets a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reset {
    /// The request is malformed.
    Malformed,
    /// The request was not processed, and the client may send it again.
    Refused,
    /// The client asks for too much.
    Excessive,
    /// The response failed after its head.
    Failed,
}

/// The client's direction of a stream, after the head of the request.
pub(crate) trait Incoming {
    /// Returns the next bytes of the body, which may be empty; `None` at the end.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;

    /// Returns the lines of the trailer once the body was read to its end.
    fn trailer(&self) -> Bytes;

    /// Returns true if the request has turned out to be malformed: that is a stream error,
    /// regardless of the response (RFC 9113, 8.1.1; RFC 9114, 4.1.2).
    fn is_malformed(&self) -> bool;
}

/// The server's direction of a stream.
pub(crate) trait Outgoing {
    /// Returns the number of the stream.
    fn id(&self) -> u64;

    /// Appends an interim response to the output.
    fn interim(&mut self, status: u16, fields: &FieldBlock);

    /// Ready when the client takes interim responses.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// Ready when there is room for the head of the response to a request.
    fn poll_head_room(
        &mut self,
        request: Option<&Request>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>>;

    /// Appends the head of the response; the stream ends with it if `ends` is true.
    fn head(
        &mut self,
        response: &Response,
        added: &ConnectionFields<'_>,
        ends: bool,
    ) -> Result<(), Gone>;

    /// Returns the room for at most `want` bytes of the body. The task is woken when it changes.
    fn poll_room(&mut self, want: usize, request: Option<&Request>, cx: &mut Context<'_>) -> Room;

    /// Appends a part of the body, for which there is room; the stream ends with it if `ends` is
    /// true.
    fn data(&mut self, bytes: Bytes, ends: bool) -> Result<(), Gone>;

    /// Ends the stream after the body, with the lines of a trailer.
    fn end(&mut self, trailer: &[u8]) -> Result<(), Gone>;

    /// Ready when all output is with the transport, which sends it without this stream.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// Ready when the client has reset the stream.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Resets the stream.
    fn reset(&mut self, reason: Reset);
}
