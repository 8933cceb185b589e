//! Sends a request to a server: the head, and the body in the framing of the protocol.
//!
//! The part of the body that has already arrived is sent in one write with the head.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use howdah_dns::stream::Stream;
use howdah_http::exchange::Exchange;
use howdah_http::feed::FeedReader;
use tokio::io::AsyncWrite;

use crate::failure::Failure;
use crate::transfer::content::Content;

/// Maximum number of bytes of one read from a file.
const MAX_FILE_PIECE: usize = 64 * 1024;

/// Framing of a request's body in a protocol.
pub trait BodyFraming {
    /// Maximum number of bytes of a piece.
    const MAX_PIECE: usize;

    /// Writes the framing before and after a piece of `len` bytes. If the piece is the last one,
    /// `trailer` has the field lines after the body.
    fn frame(&self, len: usize, trailer: Option<&[u8]>, before: &mut Vec<u8>, after: &mut Vec<u8>);
}

/// A request that is being sent.
#[derive(Debug)]
pub struct Upload<F> {
    source: Source,
    framing: F,
    /// Head of the request, or framing before the piece.
    before: Vec<u8>,
    piece: Bytes,
    /// Framing after the piece.
    after: Vec<u8>,
    /// Number of bytes of `before`, `piece` and `after` that are sent.
    sent: usize,
    /// The body ends with this piece.
    is_last: bool,
    state: State,
}

/// A body that is read for a server.
#[derive(Debug)]
pub enum Source {
    /// Bytes in memory.
    Memory(Bytes),
    /// The bytes of a file from `at` to `len`.
    File {
        /// The file.
        file: Rc<File>,
        /// Position of the next byte.
        at: u64,
        /// End of the body.
        len: u64,
    },
    /// Bytes that are still arriving.
    Feed(FeedReader),
}

/// Progress of an upload.
#[derive(Debug)]
pub enum State {
    /// Waits for the server to take more.
    Sending,
    /// Waits for the client to send more.
    Starved,
    /// The request is sent.
    Done,
    /// The server has stopped reading, or the client has stopped sending.
    Failed(Failure),
}

impl<F: BodyFraming> Upload<F> {
    /// Creates the upload of a client's request. Bytes are sent from the first poll on.
    pub fn new(head: Vec<u8>, content: &Content, framing: F, exchange: &Exchange<'_>) -> Self {
        Upload::from_source(head, Source::of(content, exchange), framing)
    }

    /// Creates the upload of a request without a body.
    pub fn without_body(head: Vec<u8>, framing: F) -> Self {
        Upload::from_source(head, Source::Memory(Bytes::new()), framing)
    }

    fn from_source(before: Vec<u8>, source: Source, framing: F) -> Self {
        let (piece, after) = (Bytes::new(), Vec::new());
        let (sent, is_last, state) = (0, false, State::Sending);
        let mut upload = Upload { source, framing, before, piece, after, sent, is_last, state };
        if let Poll::Ready(Err(failure)) =
            upload.poll_refill(&mut Context::from_waker(Waker::noop()))
        {
            upload.state = State::Failed(failure);
        }
        upload
    }

    /// Returns the progress.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes the failure, if there is one.
    pub fn take_failure(&mut self) -> Option<Failure> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Failed(failure) => Some(failure),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// Sends as much as the server takes. Returns true if there was progress.
    pub fn poll_send(&mut self, to: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        while matches!(self.state, State::Sending | State::Starved) {
            let state = match self.poll_step(to, cx) {
                Poll::Ready(Ok(state)) => state,
                Poll::Ready(Err(failure)) => State::Failed(failure),
                Poll::Pending => break,
            };
            self.state = state;
            has_moved = true;
        }
        has_moved
    }

    /// Writes once, or gets the next piece.
    fn poll_step(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<State, Failure>> {
        if self.sent < self.before.len() + self.piece.len() + self.after.len() {
            self.state = State::Sending;
            let written = ready!(self.poll_write(to, cx)).map_err(Failure::Send)?;
            self.sent += written;
            return Poll::Ready(match written {
                0 => Err(Failure::Send(io::ErrorKind::WriteZero.into())),
                _ => Ok(State::Sending),
            });
        }
        // TLS may have buffered bytes that it could not send.
        ready!(Pin::new(to).poll_flush(cx)).map_err(Failure::Send)?;
        if self.is_last {
            return Poll::Ready(Ok(State::Done));
        }
        (self.before, self.piece, self.after) = (Vec::new(), Bytes::new(), Vec::new());
        (self.sent, self.state) = (0, State::Starved);
        ready!(self.poll_refill(cx))?;
        Poll::Ready(Ok(State::Sending))
    }

    /// Sends the bytes that a new connection takes immediately, before the runtime knows that it is
    /// writable.
    pub fn send_at_once(&mut self, to: &Stream) {
        let slices = [&self.before[..], &self.piece, &self.after].map(IoSlice::new);
        self.sent = to.send_at_once(&slices);
    }

    fn poll_write(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [&self.before[..], &self.piece, &self.after].map(IoSlice::new);
        let mut slices = &mut slices[..];
        IoSlice::advance_slices(&mut slices, self.sent);
        match slices {
            // write() costs less in the kernel than writev().
            [slice, rest @ ..] if rest.iter().all(|slice| slice.is_empty()) => {
                Pin::new(to).poll_write(cx, slice)
            }
            slices => Pin::new(to).poll_write_vectored(cx, slices),
        }
    }

    /// Gets the next piece of the body and frames it.
    fn poll_refill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.piece = ready!(self.source.poll_next(F::MAX_PIECE, cx))?;
        let trailer = self.source.trailer();
        self.is_last = trailer.is_some();
        let (before, after) = (&mut self.before, &mut self.after);
        self.framing.frame(self.piece.len(), trailer.as_deref(), before, after);
        Poll::Ready(Ok(()))
    }
}

impl Source {
    /// Begins to read the body of a client's request.
    pub fn of(content: &Content, exchange: &Exchange<'_>) -> Self {
        match content {
            Content::Memory(bytes) => Source::Memory(bytes.clone()),
            Content::File(file, len) => Source::File { file: Rc::clone(file), at: 0, len: *len },
            Content::Feed(feed) => {
                let _ = exchange.poll_fill(feed, &mut Context::from_waker(Waker::noop()));
                Source::Feed(FeedReader(Rc::clone(feed)))
            }
        }
    }

    /// Returns the next bytes, at most `max`; none at the end.
    pub fn poll_next(&mut self, max: usize, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        match self {
            Source::Memory(bytes) => Poll::Ready(Ok(bytes.split_to(bytes.len().min(max)))),
            Source::File { file, at, len } => {
                let rest = usize::try_from(*len - *at).unwrap_or(usize::MAX);
                let mut piece = vec![0; rest.min(MAX_FILE_PIECE).min(max)];
                file.read_exact_at(&mut piece, *at).map_err(Failure::Send)?;
                *at += piece.len() as u64;
                Poll::Ready(Ok(piece.into()))
            }
            Source::Feed(taker) => taker.poll_next(max, cx).map_err(Failure::Client),
        }
    }

    /// Returns the lines of the trailer at the end of the body; `None` before.
    pub fn trailer(&self) -> Option<Bytes> {
        match self {
            Source::Memory(bytes) => bytes.is_empty().then(Bytes::new),
            Source::File { at, len, .. } => (at == len).then(Bytes::new),
            Source::Feed(taker) => taker.end(),
        }
    }
}
