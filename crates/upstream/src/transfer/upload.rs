//! What a server is sent: the head of a request, and its body as the server wants it framed. In
//! one write with the head leaves what has come of the body by then.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use howdah_http::exchange::Exchange;
use howdah_http::feed::{Feed, Taker};
use howdah_http::request_body::{CollectError, RequestBody, collect};
use howdah_wire::fastcgi::{Kind, MOST_CONTENT, header, put_end_of_stream};
use tokio::io::AsyncWrite;

use crate::connections::stream::Stream;
use crate::proxy::request;
use crate::proxy::request::Changes;
use crate::proxy::{Buffer, Failure};

/// Bytes read from a file at once.
const PIECE: usize = 64 * 1024;

/// The body of a request.
#[derive(Debug, Clone)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// In a file, from its start.
    File(Rc<File>, u64),
    /// On its way. It can be sent once.
    Feed(Rc<Feed>),
}

impl Content {
    /// Takes a body: in full, or `as_it_comes`.
    pub async fn take(
        exchange: &mut Exchange<'_>,
        buffer: &Buffer<'_>,
        as_it_comes: bool,
    ) -> Result<Content, CollectError> {
        if as_it_comes && exchange.body_len() != Some(0) {
            return Ok(Content::Feed(Feed::new(exchange.body_len())));
        }
        Ok(match collect(exchange, buffer.memory, buffer.directory).await? {
            RequestBody::Memory(bytes) => Content::Memory(bytes),
            RequestBody::File(file, len) => Content::File(Rc::new(file), len),
        })
    }

    /// Number of bytes, if it is known.
    pub fn len(&self) -> Option<u64> {
        match self {
            Content::Memory(bytes) => Some(bytes.len() as u64),
            Content::File(_, len) => Some(*len),
            Content::Feed(feed) => feed.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Waits for an answer, while the client still sends and is still there.
    pub async fn pass_on<T>(
        &self,
        exchange: &Exchange<'_>,
        mut answer: impl FnMut(&mut Context<'_>) -> Poll<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        poll_fn(|cx| {
            let filled = match self {
                Content::Feed(feed) => exchange.poll_fill(feed, cx),
                Content::Memory(_) | Content::File(..) => Poll::Pending,
            };
            if let Poll::Ready(answer) = answer(cx) {
                return Poll::Ready(answer);
            }
            if let Poll::Ready(Err(error)) = filled {
                return Poll::Ready(Err(Failure::Client(error)));
            }
            match self {
                // That the client has left shows where its body breaks off; who looked for it now
                // would read on.
                Content::Feed(feed) if feed.is_waiting() => Poll::Pending,
                _ => exchange.poll_gone(cx).map(|_| Err(Failure::ClientGone)),
            }
        })
        .await
    }

    /// What the client still sends of it.
    pub fn rest(&self) -> Option<Rc<Feed>> {
        match self {
            Content::Feed(feed) if !feed.is_full() => Some(Rc::clone(feed)),
            _ => None,
        }
    }
}

/// How a body is framed.
#[derive(Debug)]
pub enum Framing {
    /// By its length, which the head has told.
    Length,
    /// In chunks, with a trailer behind them.
    Chunks(Trailer),
    /// In records for the standard input of this FastCGI request.
    Records(u16),
}

/// The lines behind a body in chunks.
#[derive(Debug)]
pub enum Trailer {
    /// These.
    Lines(Vec<u8>),
    /// What comes behind the body, with these changes.
    ToCome(Changes),
}

/// See the module.
#[derive(Debug)]
pub struct Upload {
    source: Source,
    framing: Framing,
    /// What is sent now: the head or what frames the piece, the piece, and what frames its end.
    front: Vec<u8>,
    piece: Bytes,
    back: Vec<u8>,
    /// Bytes of all three that are sent.
    sent: usize,
    /// With them the body ends.
    is_last: bool,
    state: State,
}

#[derive(Debug)]
enum Source {
    Memory(Bytes),
    File { file: Rc<File>, at: u64, len: u64 },
    Feed(Taker),
}

/// How far it is.
#[derive(Debug)]
pub enum State {
    /// The server is to take more.
    Going,
    /// The client is to send more.
    Starved,
    /// All is sent.
    Sent,
    /// The server takes no more, or the client sends no more.
    Failed(Failure),
}

impl Upload {
    /// Of a request of a client. Nothing is sent before the first poll.
    pub fn new(
        head: Vec<u8>,
        content: &Content,
        framing: Framing,
        exchange: &Exchange<'_>,
    ) -> Self {
        let source = match content {
            Content::Memory(bytes) => Source::Memory(bytes.clone()),
            Content::File(file, len) => Source::File { file: Rc::clone(file), at: 0, len: *len },
            Content::Feed(feed) => {
                let _ = exchange.poll_fill(feed, &mut Context::from_waker(Waker::noop()));
                Source::Feed(Taker(Rc::clone(feed)))
            }
        };
        Upload::of(head, source, framing)
    }

    /// Of a head that no body follows.
    pub fn head(head: Vec<u8>) -> Self {
        Upload::of(head, Source::Memory(Bytes::new()), Framing::Length)
    }

    fn of(front: Vec<u8>, source: Source, framing: Framing) -> Self {
        let (piece, back) = (Bytes::new(), Vec::new());
        let (sent, is_last, state) = (0, false, State::Going);
        let mut upload = Upload { source, framing, front, piece, back, sent, is_last, state };
        if let Poll::Ready(Err(failure)) =
            upload.poll_refill(&mut Context::from_waker(Waker::noop()))
        {
            upload.state = State::Failed(failure);
        }
        upload
    }

    /// How far it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Why it cannot go on, if it cannot.
    pub fn take_failure(&mut self) -> Option<Failure> {
        match std::mem::replace(&mut self.state, State::Sent) {
            State::Failed(failure) => Some(failure),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// Sends as much as the server takes. Whether it has taken any.
    pub fn poll_send(&mut self, to: &mut (impl AsyncWrite + Unpin), cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        while matches!(self.state, State::Going | State::Starved) {
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

    /// Writes once, or gets more to write.
    fn poll_step(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<State, Failure>> {
        if self.sent < self.front.len() + self.piece.len() + self.back.len() {
            self.state = State::Going;
            let written = ready!(self.poll_write(to, cx)).map_err(Failure::Send)?;
            self.sent += written;
            return Poll::Ready(match written {
                0 => Err(Failure::Send(io::ErrorKind::WriteZero.into())),
                _ => Ok(State::Going),
            });
        }
        // TLS may have taken more than it could send.
        ready!(Pin::new(to).poll_flush(cx)).map_err(Failure::Send)?;
        if self.is_last {
            return Poll::Ready(Ok(State::Sent));
        }
        (self.front, self.piece, self.back, self.sent) = (Vec::new(), Bytes::new(), Vec::new(), 0);
        self.state = State::Starved;
        ready!(self.poll_refill(cx))?;
        Poll::Ready(Ok(State::Going))
    }

    /// Sends what a new connection takes at once, before its runtime knows that it can be written to.
    pub fn send_at_once(&mut self, to: &Stream) {
        let slices = [&self.front[..], &self.piece, &self.back].map(IoSlice::new);
        self.sent = to.send_at_once(&slices);
    }

    fn poll_write(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [&self.front[..], &self.piece, &self.back].map(IoSlice::new);
        let mut slices = &mut slices[..];
        IoSlice::advance_slices(&mut slices, self.sent);
        match slices {
            // For the kernel it is less to do.
            [slice, rest @ ..] if rest.iter().all(|slice| slice.is_empty()) => {
                Pin::new(to).poll_write(cx, slice)
            }
            slices => Pin::new(to).poll_write_vectored(cx, slices),
        }
    }

    /// Gets the next piece of the body, framed.
    fn poll_refill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let most = match self.framing {
            Framing::Length | Framing::Chunks(_) => usize::MAX,
            Framing::Records(_) => MOST_CONTENT,
        };
        self.piece = ready!(self.source.poll_next(most, cx))?;
        let (len, end) = (self.piece.len(), self.source.end());
        match &self.framing {
            Framing::Length => {}
            Framing::Chunks(trailer) => {
                if len > 0 {
                    self.front.extend_from_slice(format!("{len:x}\r\n").as_bytes());
                    self.back.extend_from_slice(b"\r\n");
                }
                if let Some(lines) = &end {
                    self.back.extend_from_slice(b"0\r\n");
                    match trailer {
                        Trailer::Lines(lines) => self.back.extend_from_slice(lines),
                        Trailer::ToCome(changes) => {
                            self.back.extend(request::trailer(lines, changes))
                        }
                    }
                    self.back.extend_from_slice(b"\r\n");
                }
            }
            Framing::Records(id) => {
                if let (1.., Ok(len)) = (len, u16::try_from(len)) {
                    self.front.extend_from_slice(&header(Kind::Stdin, *id, len));
                }
                if end.is_some() {
                    put_end_of_stream(Kind::Stdin, *id, &mut self.back);
                }
            }
        }
        self.is_last = end.is_some();
        Poll::Ready(Ok(()))
    }
}

impl Source {
    /// The next bytes, at most so many; none at the end.
    fn poll_next(&mut self, most: usize, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        match self {
            Source::Memory(bytes) => Poll::Ready(Ok(bytes.split_to(bytes.len().min(most)))),
            Source::File { file, at, len } => {
                let rest = usize::try_from(*len - *at).unwrap_or(usize::MAX);
                let mut piece = vec![0; rest.min(PIECE).min(most)];
                file.read_exact_at(&mut piece, *at).map_err(Failure::Send)?;
                *at += piece.len() as u64;
                Poll::Ready(Ok(piece.into()))
            }
            Source::Feed(taker) => taker.poll_next(most, cx).map_err(Failure::Client),
        }
    }

    /// The lines of the trailer, at the end.
    fn end(&self) -> Option<Bytes> {
        match self {
            Source::Memory(bytes) => bytes.is_empty().then(Bytes::new),
            Source::File { at, len, .. } => (at == len).then(Bytes::new),
            Source::Feed(taker) => taker.end(),
        }
    }
}
