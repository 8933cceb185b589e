//! A connection whose server has switched to another protocol.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use howdah_http::input::Input;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connections::connection::Connection;
use crate::servers::selection::ActiveRequest;

/// Reads from and writes to the connection after a 101 response.
pub struct Upgraded {
    stream: Connection,
    /// Bytes that arrived with the head; nearly always none.
    early: Input,
    /// The request counts as active until the end.
    _active: ActiveRequest,
}

impl Upgraded {
    /// Takes the connection and the input after the head.
    pub fn new((stream, early): (Connection, Input), active: ActiveRequest) -> Self {
        Upgraded { stream, early, _active: active }
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.early.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        }
        buffer.put_slice(&this.early.take(buffer.remaining()));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
