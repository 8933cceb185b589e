//! Sending a body at the pace of the client, with at most one piece of it in memory.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::task::yield_now;

use super::output::MAX_COPY;
use super::response_head::{Framing, put_chunk_size};
use super::sender::Sender;
use super::transport::Io;
use crate::body::{Body, BodyStream, Piece, SendError};
use crate::message::Trailer;
use crate::turn::TURN_BYTES;

impl<I: Io> Sender<'_, I> {
    /// Passes a body to the output, which may still hold the last bytes afterwards.
    pub async fn send_body(&mut self, body: Body, framing: Framing) -> Result<(), SendError> {
        match body {
            Body::Empty => Ok(()),
            Body::Bytes(bytes) => match framing {
                Framing::Chunked(_) if self.trailer.is_some() => {
                    self.chunk(bytes, b"\r\n").await?;
                    self.last_chunk();
                    Ok(())
                }
                Framing::Chunked(_) => self.chunk(bytes, b"\r\n0\r\n\r\n").await,
                _ => match self.copy_in_kernel(&bytes) {
                    Some((copy, offset)) => {
                        let len = bytes.len() as u64;
                        self.send_in_kernel(copy.file(), offset, len).await
                    }
                    None => self.bytes(bytes).await,
                },
            },
            Body::Pieces(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Bytes(bytes) => self.bytes(bytes).await?,
                        Piece::File { file, offset, len } => {
                            self.send_file(&file, offset, len).await?;
                        }
                    }
                }
                Ok(())
            }
            Body::Stream(stream) => self.stream(stream, framing).await,
        }
    }

    /// Passes the bytes of a stream to the output until its end or its announced length.
    async fn stream(
        &mut self,
        mut stream: Box<dyn BodyStream>,
        framing: Framing,
    ) -> Result<(), SendError> {
        let mut left = match framing {
            Framing::Length(len, _) => Some(len),
            _ => None,
        };
        let is_chunked = matches!(framing, Framing::Chunked(_));
        let mut turn = 0;
        while left != Some(0) {
            let next = poll_fn(|cx| self.poll_stream(stream.as_mut(), cx)).await?;
            let Some(mut bytes) = next else {
                if left.is_some() {
                    return Err(SendError::BodyFailed);
                }
                break;
            };
            if let Some(left) = &mut left {
                // The client would take bytes after the announced length for the next response.
                bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= bytes.len() as u64;
            }
            turn += bytes.len();
            self.counted = if stream.is_counted() { bytes.len() } else { 0 };
            match is_chunked {
                true if bytes.is_empty() => {}
                true => self.chunk(bytes, b"\r\n").await?,
                false => self.bytes(bytes).await?,
            }
            if turn >= TURN_BYTES {
                turn = 0;
                yield_now().await; // other connections have a turn
            }
        }
        if is_chunked {
            self.last_chunk();
        }
        if self.counted > 0 && self.transport.borrow().work.out.waiting() > 0 {
            self.flush().await?; // while the stream still counts it
        }
        Ok(())
    }

    /// Writes the last chunk and the trailer.
    fn last_chunk(&self) {
        let lines = self.trailer.as_ref().map(Trailer::lines).unwrap_or_default();
        let out = &mut self.transport.borrow_mut().work.out;
        for part in [b"0\r\n", &lines[..], b"\r\n"] {
            out.put(part);
        }
    }

    /// Passes one chunk, which must not be empty, and the bytes after it to the output.
    async fn chunk(&mut self, bytes: Bytes, end: &'static [u8]) -> Result<(), SendError> {
        self.sent += bytes.len() as u64;
        let must_flush = {
            let out = &mut self.transport.borrow_mut().work.out;
            put_chunk_size(out, bytes.len());
            if bytes.len() <= MAX_COPY {
                out.put(&bytes);
                out.put(end);
                out.waiting() > self.flush_size()
            } else {
                out.put_large(bytes, end);
                true
            }
        };
        if must_flush { self.flush().await } else { Ok(()) }
    }

    /// Returns the next bytes of a stream. While there are none, sends the output and watches the
    /// client, so that a script learns before its next output that the client has disconnected.
    fn poll_stream(
        &mut self,
        stream: &mut dyn BodyStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, SendError>> {
        match stream.poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => return Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(SendError::BodyFailed)),
            Poll::Ready(None) => return Poll::Ready(Ok(None)),
            Poll::Pending => {}
        }
        let has_output = !self.transport.borrow().work.out.is_empty();
        if has_output && let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        match self.transport.borrow_mut().poll_gone(cx) {
            Poll::Ready(_) => Poll::Ready(Err(SendError::ClientGone)),
            Poll::Pending => Poll::Pending,
        }
    }
}
