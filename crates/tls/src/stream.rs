//! A connection after its handshake.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use howdah_http::h1::Io;
use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

/// A TLS stream after its handshake. Flushes records that rustls writes on its own, such as the
/// refusal of a renegotiation, right after a read: otherwise they would wait for the next write,
/// which the client may be waiting for.
#[derive(Debug)]
pub struct TlsConnection<S>(TlsStream<S>);

impl<S> TlsConnection<S> {
    /// Wraps a stream whose handshake is complete.
    pub fn new(stream: TlsStream<S>) -> Self {
        TlsConnection(stream)
    }

    /// Returns the underlying transport.
    pub fn transport(&self) -> &S {
        self.0.get_ref().0
    }

    /// Returns the TLS session.
    pub fn session(&self) -> &ServerConnection {
        self.0.get_ref().1
    }
}

impl<S: Io> Io for TlsConnection<S> {
    fn unsent(&self) -> Option<usize> {
        self.transport().unsent()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.0).poll_read(cx, buffer);
        if self.session().wants_write() {
            let _ = Pin::new(&mut self.0).poll_flush(cx); // the next write reports an error
        }
        poll
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
