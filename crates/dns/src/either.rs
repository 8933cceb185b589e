//! A connection of one of two types.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection of type `A` or `B`; reads and writes go to the one that it has.
#[derive(Debug)]
pub enum Either<A, B> {
    /// The first type.
    A(A),
    /// The second type.
    B(B),
}

impl<A: AsyncRead + Unpin, B: AsyncRead + Unpin> AsyncRead for Either<A, B> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::A(stream) => Pin::new(stream).poll_read(cx, buffer),
            Either::B(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl<A: AsyncWrite + Unpin, B: AsyncWrite + Unpin> AsyncWrite for Either<A, B> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Either::A(stream) => Pin::new(stream).poll_write(cx, bytes),
            Either::B(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Either::A(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Either::B(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::A(stream) => Pin::new(stream).poll_flush(cx),
            Either::B(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::A(stream) => Pin::new(stream).poll_shutdown(cx),
            Either::B(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
