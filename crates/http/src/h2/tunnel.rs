//! Streams that leave HTTP: the client's end of a tunnel (RFC 8441, 5).

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::forward::End;
use crate::streams::{SEND_BUFFER_SIZE, Shared};

/// Both directions of a stream.
pub(super) struct Channel {
    from: RecvStream,
    to: SendStream<Bytes>,
    /// Bytes received and not read yet.
    rest: Bytes,
    shared: Rc<Shared>,
}

impl Channel {
    pub fn new(from: RecvStream, to: SendStream<Bytes>, shared: Rc<Shared>) -> Self {
        Channel { from, to, rest: Bytes::new(), shared }
    }

    /// Resets the stream, unless both ends have shut down.
    pub fn close(mut self, end: End) {
        match end {
            End::Finished => {}
            End::TimedOut => self.to.send_reset(Reason::NO_ERROR),
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
                        this.shared.budget.earn_piece(this.rest.len());
                    }
                }
                None => return Poll::Ready(Ok(())),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(buffer.remaining()));
        // Makes room in the flow-control window; fails only if the connection has ended.
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
        let Channel { to, shared, .. } = self.get_mut();
        to.reserve_capacity(bytes.len().min(SEND_BUFFER_SIZE));
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
        if count == bytes.len() {
            shared.budget.earn_piece(count)
        } else {
            shared.budget.earn_bytes(count)
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the task of the connection sends the output
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().to.send_data(Bytes::new(), true).map_err(broken))
    }
}
