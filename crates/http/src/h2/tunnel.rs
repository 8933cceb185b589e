//! A stream that has left HTTP, as the client's side of a tunnel (RFC 8441, 5).

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::SEND_BUFFER;
use super::budget::Budget;
use crate::tunnel::End;

/// Both directions of a stream.
pub(super) struct Channel {
    from: RecvStream,
    to: SendStream<Bytes>,
    /// What has come and is not read yet.
    rest: Bytes,
    budget: Rc<Budget>,
}

impl Channel {
    pub fn new(from: RecvStream, to: SendStream<Bytes>, budget: Rc<Budget>) -> Self {
        Channel { from, to, rest: Bytes::new(), budget }
    }

    /// Tells the client how the tunnel ended, if it does not know.
    pub fn end(mut self, end: End) {
        match end {
            End::Finished => {}
            End::Over => self.to.send_reset(Reason::NO_ERROR),
            End::Client => self.to.send_reset(Reason::CANCEL),
            End::Server => self.to.send_reset(Reason::CONNECT_ERROR),
        }
    }
}

fn broken<T>(_: T) -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl AsyncRead for Channel {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.rest.is_empty() {
            match ready!(this.from.poll_data(cx)) {
                Some(bytes) => {
                    this.rest = bytes.map_err(broken)?;
                    if !this.rest.is_empty() {
                        this.budget.earn_piece(this.rest.len());
                    }
                }
                None => return Poll::Ready(Ok(())),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(buffer.remaining()));
        // What was taken makes room for more; a connection that is gone needs none.
        let _ = this.from.flow_control().release_capacity(piece.len());
        buffer.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Channel {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Channel { to, budget, .. } = self.get_mut();
        to.reserve_capacity(bytes.len().min(SEND_BUFFER));
        while to.capacity() == 0 {
            match ready!(to.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => return Poll::Ready(Err(broken(()))),
            }
        }
        let piece = Bytes::copy_from_slice(&bytes[..bytes.len().min(to.capacity())]);
        let count = piece.len();
        to.send_data(piece, false).map_err(broken)?;
        match count == bytes.len() {
            true => budget.earn_piece(count),
            false => budget.earn_bytes(count),
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the connection sends what it has by itself
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().to.send_data(Bytes::new(), true).map_err(broken))
    }
}
