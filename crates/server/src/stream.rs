//! A socket of either family, for what does not need to know which, and which protocol its client
//! begins with.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::http1::Io;
use crate::listener::AcceptedStream;

/// A connected socket.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// What has been read and is still to be read; nearly always nothing, so it is kept small.
    unread: Option<Box<Bytes>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Binds an accepted socket to this thread's runtime.
    pub fn new(accepted: AcceptedStream) -> io::Result<Self> {
        let socket = match accepted {
            AcceptedStream::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            AcceptedStream::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
        };
        Ok(Stream { socket, unread: None })
    }

    /// Acknowledges at once what came. After a handshake the server may have nothing to send that
    /// could tell the client so, and until it knows (40 ms as a rule) Nagle's algorithm may keep
    /// its request back.
    pub fn acknowledge(&self) {
        if let Socket::Tcp(stream) = &self.socket {
            let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
        }
    }

    /// Whether the client begins with these bytes. Waits until that is certain or `give_up` is
    /// ready. Nothing that came is lost.
    pub async fn begins_with(&mut self, bytes: &[u8], give_up: impl Future<Output = ()>) -> bool {
        let mut came = Vec::with_capacity(bytes.len());
        let mut give_up = pin!(give_up);
        while came.len() < bytes.len() && bytes.starts_with(&came) {
            // No more than these, so that all of them can be read again.
            let mut rest = (&mut *self).take((bytes.len() - came.len()) as u64);
            let read = pin!(rest.read_buf(&mut came));
            tokio::select! {
                read = read => if !read.is_ok_and(|count| count > 0) { break },
                () = &mut give_up => break,
            }
        }
        let begins = came == bytes;
        self.unread = (!came.is_empty()).then(|| Box::new(came.into()));
        begins
    }
}

impl Io for Stream {
    fn tcp(&self) -> Option<&TcpStream> {
        match &self.socket {
            Socket::Tcp(stream) => Some(stream),
            Socket::Unix(_) => None,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(unread) = &mut this.unread {
            let count = unread.len().min(buffer.remaining());
            buffer.put_slice(&unread.split_to(count));
            if unread.is_empty() {
                this.unread = None;
            }
            return Poll::Ready(Ok(()));
        }
        match &mut this.socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
