//! Response bodies: what the protocol layer can send without knowing where it came from.

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
    /// read: then the sender ends the connection instead of waiting or padding.
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
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File { len, .. } => *len,
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A body that is produced while it is sent; polled by the connection that sends it.
#[allow(clippy::len_without_is_empty)] // whether there is more, only polling tells
pub trait BodyStream {
    /// The next bytes, never empty; `None` at the end. An error after the head was sent cuts the
    /// connection, so that the client does not take a part for the whole.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;

    /// Number of bytes that remain, if known.
    fn len(&self) -> Option<u64>;

    /// Nobody wants the rest: waits until nothing works on it any more. Whoever does not care drops
    /// it instead.
    fn poll_over(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// The body that an answer to HEAD would have, and its length if that is known.
struct Unsent(Option<u64>);

impl BodyStream for Unsent {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        Poll::Ready(None)
    }

    fn len(&self) -> Option<u64> {
        self.0
    }
}

impl Body {
    /// What stands for the body in an answer to HEAD: it says how the body of an answer to GET
    /// would be framed, of which nothing is sent.
    pub fn unsent(len: Option<u64>) -> Body {
        Body::Stream(Box::new(Unsent(len)))
    }

    /// Number of bytes, if known before sending.
    pub fn len(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::Pieces(pieces) => Some(pieces.iter().map(Piece::len).sum()),
            Body::Stream(stream) => stream.len(),
        }
    }

    /// Whether the body is known to be empty.
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
