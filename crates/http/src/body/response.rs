//! Bodies of responses.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

/// A response body.
#[derive(Default)]
pub enum Body {
    /// No body.
    #[default]
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// Pieces sent one after the other; their lengths are known.
    Pieces(Vec<Piece>),
    /// Bytes that arrive while the response is being sent.
    Stream(Box<dyn BodyStream>),
}

/// A part of a body with a known length.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of an open regular file. The file may have been truncated since its length was
    /// read: then the sender closes the connection and does not pad the body.
    File {
        /// The open file; read by offset, its own position is never used.
        file: Arc<File>,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
}

impl Piece {
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File { len, .. } => *len,
        }
    }

    /// Returns true if the piece has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A body that is produced while it is sent. The connection that sends it polls it.
#[allow(clippy::len_without_is_empty)] // only polling tells whether more bytes follow
pub trait BodyStream {
    /// Returns the next bytes, never empty; `None` at the end. After an error the connection is
    /// closed, so that the client does not take the part that was sent for the whole.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;

    /// Returns the number of bytes that remain, if known.
    fn len(&self) -> Option<u64>;

    /// Returns true if the producer has reported a failure with the end of the body. A cut body is
    /// sent, but it must not be kept for other requests. Known once the end was returned.
    fn is_cut(&self) -> bool {
        false
    }

    /// Returns true if the bytes that were returned last count as memory until more is asked for:
    /// their sender does not count them.
    fn is_counted(&self) -> bool {
        false
    }

    /// Discards the rest of the body, and is ready when its producer has stopped. Callers that need
    /// not know when that is drop the stream instead.
    fn poll_finished(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Body of a response to HEAD: its length if known, and no bytes.
struct HeadOnly(Option<u64>);

impl BodyStream for HeadOnly {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        Poll::Ready(None)
    }

    fn len(&self) -> Option<u64> {
        self.0
    }
}

/// A body in memory whose producer has reported a failure.
struct Cut(Bytes, u64);

impl BodyStream for Cut {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let rest = std::mem::take(&mut self.0);
        self.1 = self.1.saturating_sub(rest.len() as u64);
        Poll::Ready((!rest.is_empty()).then_some(Ok(rest)))
    }

    fn len(&self) -> Option<u64> {
        Some(self.1)
    }

    fn is_cut(&self) -> bool {
        true
    }
}

impl Body {
    /// Returns a body whose producer has reported a failure ([`BodyStream::is_cut`]). It has the
    /// announced `length`, or that of the bytes.
    pub fn cut(bytes: Bytes, length: Option<u64>) -> Body {
        let length = length.unwrap_or(bytes.len() as u64);
        Body::Stream(Box::new(Cut(bytes, length)))
    }

    /// Returns the body of a response to HEAD. It frames the response like one to GET with a body
    /// of this length (`None`: unknown), and has no bytes.
    pub fn unsent(len: Option<u64>) -> Body {
        Body::Stream(Box::new(HeadOnly(len)))
    }

    /// Returns the number of bytes, if known before sending.
    pub fn len(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::Pieces(pieces) => Some(pieces.iter().map(Piece::len).sum()),
            Body::Stream(stream) => stream.len(),
        }
    }

    /// Returns true if the producer has already reported a failure ([`BodyStream::is_cut`]).
    pub fn is_cut(&self) -> bool {
        matches!(self, Body::Stream(stream) if stream.is_cut())
    }

    /// Returns the number of its bytes that are in memory, without those that a stream may hold.
    pub fn in_memory(&self) -> usize {
        let bytes = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::File { .. } => 0,
        };
        match self {
            Body::Bytes(bytes) => bytes.len(),
            Body::Pieces(pieces) => pieces.iter().map(bytes).sum(),
            Body::Empty | Body::Stream(_) => 0,
        }
    }

    /// Returns true if the body is known to be empty.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) }
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.len() {
            Some(len) => write!(f, "Body({len} bytes)"),
            None => f.write_str("Body(stream)"),
        }
    }
}

/// Reason why a response was not sent completely. The connection or the stream ends with it, so
/// that the client does not take the part that was sent for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The client closed the connection, or was too slow.
    ClientGone,
    /// The body failed, or was shorter than announced.
    BodyFailed,
}

impl From<io::Error> for SendError {
    fn from(_: io::Error) -> Self {
        SendError::ClientGone
    }
}
