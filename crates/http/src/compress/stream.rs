//! A body that is compressed while it is sent.

use std::io;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::encoder::Encoder;
use super::memory::Permit;
use crate::body::{Body, BodyStream, Piece};
use crate::turn;

/// Maximum number of bytes compressed in one step.
const STEP_SIZE: usize = 16 << 10;

/// Number of bytes after which other connections of the thread have a turn.
const TURN_SIZE: usize = 64 << 10;

/// A compressed body. Holds an encoder and at most one piece of the body at a time.
pub struct Compressed {
    source: Source,
    /// Number of bytes that the source still has; `None` if it is unknown.
    left: Option<u64>,
    /// `None` after the end.
    encoder: Option<Encoder>,
    /// The permit of the encoder.
    permit: Option<Permit>,
    /// Bytes of the source that are not compressed yet.
    input: Bytes,
    /// The encoder has bytes that the client cannot decode yet.
    unflushed: bool,
    /// Number of bytes compressed in this turn.
    turn: usize,
}

enum Source {
    Pieces(std::vec::IntoIter<Piece>, Option<Piece>),
    Stream(Box<dyn BodyStream>),
}

impl Compressed {
    /// Compresses a body.
    pub fn new(body: Body, encoder: Encoder, permit: Option<Permit>) -> Compressed {
        let left = body.len();
        let source = match body {
            Body::Empty => Source::Pieces(Vec::new().into_iter(), None),
            Body::Bytes(bytes) => Source::Pieces(vec![Piece::Bytes(bytes)].into_iter(), None),
            Body::Pieces(pieces) => Source::Pieces(pieces.into_iter(), None),
            Body::Stream(stream) => Source::Stream(stream),
        };
        let (encoder, input) = (Some(encoder), Bytes::new());
        Compressed { source, left, encoder, permit, input, unflushed: false, turn: 0 }
    }

    /// Returns the next bytes of the source, up to its announced length.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.left == Some(0) {
            return Poll::Ready(Ok(None));
        }
        let mut bytes = match ready!(self.source.poll(cx))? {
            Some(bytes) => bytes,
            // The failure tells the client that the part that was sent is not the whole.
            None if self.left.is_some() => {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            None => return Poll::Ready(Ok(None)),
        };
        if let Some(left) = &mut self.left {
            bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= bytes.len() as u64;
        }
        Poll::Ready(Ok(Some(bytes)))
    }

    fn poll_encoder(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            let Some(encoder) = &mut self.encoder else { return Poll::Ready(Ok(None)) };
            if self.turn >= TURN_SIZE {
                self.turn = 0;
                turn::end(cx);
                return Poll::Pending;
            }
            if !self.input.is_empty() {
                let step = self.input.split_to(self.input.len().min(STEP_SIZE));
                self.turn += step.len();
                self.unflushed = true;
                let out = encoder.write(&step)?;
                if !out.is_empty() {
                    return Poll::Ready(Ok(Some(out.into())));
                }
                continue;
            }
            match self.poll_source(cx)? {
                Poll::Ready(Some(bytes)) => self.input = bytes,
                Poll::Ready(None) => {
                    let out = self.encoder.take().map(Encoder::finish).transpose()?;
                    let out = out.filter(|out| !out.is_empty());
                    return Poll::Ready(Ok(out.map(Bytes::from)));
                }
                // A script that waits after output wants the client to have the output.
                Poll::Pending if self.unflushed => {
                    self.unflushed = false;
                    let Some(encoder) = &mut self.encoder else { return Poll::Pending };
                    let out = encoder.flush()?;
                    if !out.is_empty() {
                        return Poll::Ready(Ok(Some(out.into())));
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl BodyStream for Compressed {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let next = ready!(self.poll_encoder(cx));
        if next.is_err() {
            (self.encoder, self.permit) = (None, None);
        }
        Poll::Ready(next.transpose())
    }

    fn len(&self) -> Option<u64> {
        None
    }

    /// The permit is for the output of the encoder, too.
    fn is_counted(&self) -> bool {
        self.permit.is_some()
    }

    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            Source::Stream(stream) => stream.poll_finished(cx),
            Source::Pieces(..) => Poll::Ready(()),
        }
    }
}

impl Source {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match self {
            Source::Pieces(pieces, piece) => {
                loop {
                    match piece.take().or_else(|| pieces.next()) {
                        None => return Poll::Ready(Ok(None)),
                        Some(Piece::Bytes(bytes)) if bytes.is_empty() => {}
                        Some(Piece::File { len: 0, .. }) => {}
                        Some(Piece::Bytes(bytes)) => return Poll::Ready(Ok(Some(bytes))),
                        Some(Piece::File { file, offset, len }) => {
                            let most = usize::try_from(len).unwrap_or(STEP_SIZE).min(STEP_SIZE);
                            let mut buffer = vec![0; most];
                            let read = file.read_at(&mut buffer, offset)?;
                            if read == 0 {
                                // The file was truncated.
                                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                            }
                            buffer.truncate(read);
                            let read = buffer.len() as u64;
                            let (offset, len) = (offset.saturating_add(read), len - read);
                            *piece = Some(Piece::File { file, offset, len });
                            return Poll::Ready(Ok(Some(buffer.into())));
                        }
                    }
                }
            }
            Source::Stream(stream) => stream.poll_next(cx).map(Option::transpose),
        }
    }
}
