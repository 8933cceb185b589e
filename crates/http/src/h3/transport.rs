//! The connection of QUIC that HTTP/3 runs over (RFC 9000), as an interface: this crate knows no
//! implementation of it.
//!
//! One task polls a connection; one task polls both directions of a stream. The last waker of each
//! method counts.

use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

/// The connection has ended, whoever has closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// Reason why a stream cannot be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// The client has reset the stream (RESET_STREAM).
    Reset,
    /// The connection has ended.
    Closed,
}

/// Reason why a stream cannot be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteError {
    /// The client does not want the stream (STOP_SENDING).
    Stopped,
    /// The connection has ended.
    Closed,
}

/// Both directions of a stream of a connection.
pub type Halves<T> = (<T as Transport>::Sender, <T as Transport>::Receiver);

/// A connection after its handshake. Clones are the same connection.
pub trait Transport: Clone + 'static {
    /// Sending direction of a stream.
    type Sender: SendStream;
    /// Receiving direction of a stream.
    type Receiver: ReceiveStream;

    /// Returns the validated address of the client.
    fn remote(&self) -> SocketAddr;

    /// Returns the smoothed round-trip time.
    fn rtt(&self) -> Duration;

    /// Accepts the next bidirectional stream of the client, in the order of their ids.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Halves<Self>, Closed>>;

    /// Accepts the next unidirectional stream of the client.
    fn poll_accept_uni(&self, cx: &mut Context<'_>) -> Poll<Result<Self::Receiver, Closed>>;

    /// Opens a unidirectional stream.
    fn poll_open_uni(&self, cx: &mut Context<'_>) -> Poll<Result<Self::Sender, Closed>>;

    /// Ready when the client has acknowledged all bytes of finished streams, or the connection has
    /// ended: [`Transport::close`] then loses nothing.
    fn poll_acknowledged(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Closes the connection with an error code of HTTP/3. Later calls have no effect.
    fn close(&self, code: u64, reason: &str);
}

/// Receiving direction of a stream. Dropped before its end, it is stopped with H3_NO_ERROR.
pub trait ReceiveStream: 'static {
    /// Returns the id of the stream.
    fn id(&self) -> u64;

    /// Returns the next bytes, at most `max` and never none; `None` at the end, however often.
    fn poll_read(
        &mut self,
        max: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>>;

    /// Tells the client that no more is read (STOP_SENDING). No effect after the end.
    fn stop(&mut self, code: u64);
}

/// Sending direction of a stream. Dropped before [`SendStream::finish`], it is reset.
pub trait SendStream: 'static {
    /// Returns the id of the stream.
    fn id(&self) -> u64;

    /// Takes bytes off the start of `bytes`, at least one, and sends them. Pending while the windows
    /// are closed.
    fn poll_write(
        &mut self,
        bytes: &mut Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), WriteError>>;

    /// Ends the stream behind all that was written.
    fn finish(&mut self);

    /// Resets the stream (RESET_STREAM).
    fn reset(&mut self, code: u64);

    /// Sets the priority: streams of a higher one are sent first.
    fn set_priority(&mut self, priority: i32);

    /// Ready when the client does not want the stream (STOP_SENDING), or the connection has ended.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}
