//! Sending a body: as fast as the client takes it, never more of it in memory than a piece.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::connection::{Core, Io};
use super::file;
use super::respond::{Framing, put_chunk_size};
use super::write::{COPY, ENOUGH};
use crate::body::{Body, BodyStream, Piece};
use crate::limits::Limits;
use crate::message::Trailer;

/// Why a body was not sent whole. Either way the connection ends, so that nobody takes a part
/// for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The client has left or took too long.
    Client,
    /// The body failed or had fewer bytes than announced.
    Body,
}

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Self {
        Cut::Client
    }
}

/// Sends one body.
pub(super) struct Sender<'c, I> {
    pub core: &'c RefCell<Core<I>>,
    pub limits: &'c Limits,
    /// Bytes of the body that were handed over.
    pub sent: u64,
    /// What follows the last chunk.
    pub trailer: Option<Trailer>,
}

impl<I: Io> Sender<'_, I> {
    /// Hands all of a body over; the last bytes may still wait in the output.
    pub async fn send(&mut self, body: Body, framing: Framing) -> Result<(), Cut> {
        match body {
            Body::Empty => Ok(()),
            Body::Bytes(bytes) => match framing {
                Framing::Chunked(_) if self.trailer.is_some() => {
                    self.chunk(bytes, b"\r\n").await?;
                    self.last_chunk();
                    Ok(())
                }
                Framing::Chunked(_) => self.chunk(bytes, b"\r\n0\r\n\r\n").await,
                _ => self.bytes(bytes).await,
            },
            Body::Pieces(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Bytes(bytes) => self.bytes(bytes).await?,
                        Piece::File { file, offset, len } => {
                            file::send(self, &file, offset, len).await?;
                        }
                    }
                }
                Ok(())
            }
            Body::Stream(stream) => self.stream(stream, framing).await,
        }
    }

    /// Sends everything that waits.
    pub async fn flush(&self) -> Result<(), Cut> {
        poll_fn(|cx| self.core.borrow_mut().poll_flush(cx, self.limits)).await.map_err(Cut::from)
    }

    /// Hands over bytes in memory: copied if small, else sent from where they are.
    pub async fn bytes(&mut self, bytes: Bytes) -> Result<(), Cut> {
        self.sent += bytes.len() as u64;
        let full = {
            let mut core = self.core.borrow_mut();
            if bytes.len() <= COPY {
                core.work.out.put(&bytes);
                core.work.out.waiting() > ENOUGH
            } else {
                core.work.out.put_large(bytes, b"");
                true
            }
        };
        if full { self.flush().await } else { Ok(()) }
    }

    async fn stream(
        &mut self,
        mut stream: Box<dyn BodyStream>,
        framing: Framing,
    ) -> Result<(), Cut> {
        let mut left = match framing {
            Framing::Length(len, _) => Some(len),
            _ => None,
        };
        let chunked = matches!(framing, Framing::Chunked(_));
        while left != Some(0) {
            let next = poll_fn(|cx| self.poll_stream(stream.as_mut(), cx)).await?;
            let Some(mut bytes) = next else {
                if left.is_some() {
                    return Err(Cut::Body);
                }
                break;
            };
            if let Some(left) = &mut left {
                // More than was announced would be taken for the next response.
                bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= bytes.len() as u64;
            }
            match chunked {
                true if bytes.is_empty() => {}
                true => self.chunk(bytes, b"\r\n").await?,
                false => self.bytes(bytes).await?,
            }
        }
        if chunked {
            self.last_chunk();
        }
        Ok(())
    }

    /// Ends the chunks.
    fn last_chunk(&self) {
        let lines = self.trailer.as_ref().map(Trailer::lines).unwrap_or_default();
        let out = &mut self.core.borrow_mut().work.out;
        for part in [b"0\r\n", &lines[..], b"\r\n"] {
            out.put(part);
        }
    }

    /// Hands over one chunk, which must not be empty, and what comes after it.
    async fn chunk(&mut self, bytes: Bytes, end: &'static [u8]) -> Result<(), Cut> {
        self.sent += bytes.len() as u64;
        let full = {
            let mut core = self.core.borrow_mut();
            put_chunk_size(&mut core.work.out, bytes.len());
            if bytes.len() <= COPY {
                core.work.out.put(&bytes);
                core.work.out.put(end);
                core.work.out.waiting() > ENOUGH
            } else {
                core.work.out.put_large(bytes, end);
                true
            }
        };
        if full { self.flush().await } else { Ok(()) }
    }

    /// The next bytes of a stream. While there are none, what waits is sent and the client is
    /// watched: a script that nobody listens to should learn so before its next output.
    fn poll_stream(
        &self,
        stream: &mut dyn BodyStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Cut>> {
        match stream.poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => return Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Cut::Body)),
            Poll::Ready(None) => return Poll::Ready(Ok(None)),
            Poll::Pending => {}
        }
        let mut core = self.core.borrow_mut();
        if !core.work.out.is_empty()
            && let Poll::Ready(Err(error)) = core.poll_flush(cx, self.limits)
        {
            return Poll::Ready(Err(error.into()));
        }
        match core.poll_gone(cx) {
            Poll::Ready(_) => Poll::Ready(Err(Cut::Client)),
            Poll::Pending => Poll::Pending,
        }
    }
}
