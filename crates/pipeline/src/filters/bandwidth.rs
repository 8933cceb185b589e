//! `bandwidth` of a limit: sends a response no faster than its key may take it.

use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use howdah_http::body::{Body, BodyStream, Piece, SendError, file};
use howdah_http::memory::{Charge, Owner, RESPONSES};
use howdah_http::message::Response;
use howdah_http::spool::unread_file;
use howdah_limits::bandwidth::Bandwidth;
use howdah_sys::clock;
use tokio::time::{Sleep, sleep};

/// Limits the bandwidth of a response, unless it has no body. Content in memory counts for `owner`;
/// content for which there is no memory goes to a file in `tmp`.
pub fn apply(bandwidth: Bandwidth, owner: &Owner, tmp: &Path, response: &mut Response) {
    let (mut charge, mut space) = (None, None);
    let source = match std::mem::take(&mut response.body) {
        Body::Empty => return,
        Body::Bytes(bytes) => {
            let is_counted = response.extras.as_ref().is_some_and(|extras| extras.is_counted);
            let charge = charge.insert(Charge::new(&RESPONSES, owner.clone()));
            let piece = if is_counted || charge.hold_with(0, Some(&bytes), bytes.len()) {
                None
            } else {
                unread_file(tmp, owner.clone(), &bytes).ok().map(|(file, of_file)| {
                    space = Some(of_file);
                    Piece::File { file: Arc::new(file), offset: 0, len: bytes.len() as u64 }
                })
            };
            Source::Pieces(VecDeque::from([piece.unwrap_or(Piece::Bytes(bytes))]))
        }
        Body::Pieces(pieces) => Source::Pieces(pieces.into()),
        Body::Stream(stream) => Source::Stream(stream),
    };
    let next = Bytes::new();
    let paced = Paced { source, bandwidth, next, pause: None, _charges: [charge, space] };
    response.body = Body::Stream(Box::new(paced));
}

/// A body that is sent piece by piece.
struct Paced {
    source: Source,
    bandwidth: Bandwidth,
    /// Bytes of the source that are sent next.
    next: Bytes,
    /// The wait before the next piece; it has been counted.
    pause: Option<Pin<Box<Sleep>>>,
    /// The memory of the source, and the space of its file.
    _charges: [Option<Charge>; 2],
}

impl Drop for Paced {
    fn drop(&mut self) {
        // Otherwise clients that leave would slow down others with their key, for bytes that are
        // never sent.
        if self.pause.is_some() {
            self.bandwidth.give_back(self.next_length(), clock::monotonic_us() * 1000);
        }
    }
}

impl Paced {
    /// Returns the number of bytes that are sent next.
    fn next_length(&self) -> usize {
        self.bandwidth.piece().min(self.next.len())
    }
}

enum Source {
    Pieces(VecDeque<Piece>),
    Stream(Box<dyn BodyStream>),
    /// A part of the file that is the first of the pieces is being read.
    Read(Pin<Box<dyn Future<Output = Result<Bytes, SendError>>>>, VecDeque<Piece>),
}

impl BodyStream for Paced {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        while self.next.is_empty() {
            match ready!(self.source.poll(self.bandwidth.piece(), cx)) {
                Some(Ok(bytes)) => self.next = bytes,
                end => return Poll::Ready(end),
            }
        }
        let length = self.next_length();
        let pause = self.pause.get_or_insert_with(|| {
            let wait = self.bandwidth.take(length, clock::monotonic_us() * 1000);
            Box::pin(sleep(Duration::from_nanos(wait)))
        });
        ready!(pause.as_mut().poll(cx));
        self.pause = None;
        Poll::Ready(Some(Ok(self.next.split_to(length))))
    }

    fn len(&self) -> Option<u64> {
        Some(self.next.len() as u64 + self.source.len()?)
    }

    fn is_counted(&self) -> bool {
        matches!(&self.source, Source::Stream(stream) if stream.is_counted())
    }

    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            Source::Stream(stream) => stream.poll_finished(cx),
            _ => Poll::Ready(()),
        }
    }
}

impl Source {
    fn poll(&mut self, piece: usize, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let pieces = match self {
                Source::Stream(stream) => return stream.poll_next(cx),
                Source::Read(read, pieces) => {
                    let bytes = ready!(read.as_mut().poll(cx));
                    let mut pieces = std::mem::take(pieces);
                    if let (Ok(bytes), Some(Piece::File { offset, len, .. })) =
                        (&bytes, pieces.front_mut())
                    {
                        let count = (bytes.len() as u64).min(*len);
                        (*offset, *len) = (*offset + count, *len - count);
                    }
                    *self = Source::Pieces(pieces);
                    let bytes = bytes.map_err(|_| io::ErrorKind::UnexpectedEof.into());
                    return Poll::Ready(Some(bytes));
                }
                Source::Pieces(pieces) => pieces,
            };
            match pieces.pop_front() {
                None => return Poll::Ready(None),
                Some(Piece::Bytes(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Some(Piece::File { len: 0, .. }) => {}
                Some(Piece::File { file, offset, len }) => {
                    let count = len.min(piece as u64) as usize;
                    pieces.push_front(Piece::File { file: Arc::clone(&file), offset, len });
                    *self =
                        Source::Read(Box::pin(read(file, offset, count)), std::mem::take(pieces));
                }
            }
        }
    }

    fn len(&self) -> Option<u64> {
        match self {
            Source::Pieces(pieces) => Some(pieces.iter().map(Piece::len).sum()),
            Source::Stream(stream) => stream.len(),
            // Asked only before the first piece.
            Source::Read(..) => None,
        }
    }
}

async fn read(file: Arc<File>, offset: u64, count: usize) -> Result<Bytes, SendError> {
    file::read(&file, offset, count).await
}
