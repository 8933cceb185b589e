//! A socket of TCP or the Unix domain, and detection of the protocol that its client speaks.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_http::h1::Io;
use howdah_pipeline::listener::AcceptedStream;
use howdah_wire::proxy_protocol::{self, Header};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_quickack};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::coop;

/// A connected socket.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// Bytes that were read ahead. Nearly always `None`, and boxed to keep the stream small.
    unread: Option<Box<Bytes>>,
}

#[derive(Debug)]
enum Socket {
    /// Not registered with the runtime yet. Registering takes two system calls and a turn of the
    /// reactor: often the request has arrived with the connection, and its response is the end.
    Fresh(AcceptedStream),
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Registration has failed.
    Lost,
}

/// Maximum length in bytes of the first read of a socket.
const FIRST_READ: usize = 4096;

impl Stream {
    /// Creates a stream of an accepted socket. The runtime of this thread registers it when it
    /// first has to wait.
    pub fn new(accepted: AcceptedStream) -> Self {
        Stream { socket: Socket::Fresh(accepted), unread: None }
    }

    /// Acknowledges received data at once. After a handshake the server may have no data to send
    /// that would carry the acknowledgement, and until it arrives (usually after 40 ms) Nagle's
    /// algorithm may keep the client's request back.
    pub fn acknowledge(&self) {
        let _ = match &self.socket {
            Socket::Fresh(AcceptedStream::Tcp(stream)) => set_tcp_quickack(stream, true),
            Socket::Tcp(stream) => set_tcp_quickack(stream, true),
            _ => Ok(()),
        };
    }

    /// Reads the header of the PROXY protocol. `None` if there is no valid one.
    pub async fn proxy_header(&mut self) -> Option<Header> {
        let mut came = Vec::new();
        let (header, length) = loop {
            match Header::read(&came) {
                Ok(Some(found)) => break found,
                Ok(None) if came.len() < proxy_protocol::MAX_HEADER_BYTES => {}
                _ => return None,
            }
            let room = (proxy_protocol::MAX_HEADER_BYTES - came.len()) as u64;
            let read = pin!((&mut *self).take(room).read_buf(&mut came)).await;
            read.ok().filter(|count| *count > 0)?;
        };
        let rest = came.split_off(length);
        self.unread = (!rest.is_empty()).then(|| Box::new(rest.into()));
        Some(header)
    }

    /// Returns the client's address and this end's, of the connection itself; `None` for a unix
    /// socket.
    pub fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        match &self.socket {
            Socket::Fresh(AcceptedStream::Tcp(stream)) => {
                stream.peer_addr().ok().zip(stream.local_addr().ok())
            }
            Socket::Tcp(stream) => stream.peer_addr().ok().zip(stream.local_addr().ok()),
            _ => None,
        }
    }

    /// Lets the kernel find out whether a silent client is still there.
    pub fn keep_alive(&self) {
        let _ = match &self.socket {
            Socket::Fresh(AcceptedStream::Tcp(stream)) => set_socket_keepalive(stream, true),
            Socket::Tcp(stream) => set_socket_keepalive(stream, true),
            _ => Ok(()),
        };
    }

    /// Returns true if the client begins with these bytes. Waits until that is known or `give_up`
    /// is ready. All bytes that were read stay readable.
    pub async fn begins_with(&mut self, bytes: &[u8], give_up: impl Future<Output = ()>) -> bool {
        let mut came = Vec::with_capacity(bytes.len());
        let mut give_up = pin!(give_up);
        while came.len() < bytes.len() && bytes.starts_with(&came) {
            // Read at most `bytes.len()` bytes.
            let mut rest = (&mut *self).take((bytes.len() - came.len()) as u64);
            let read = pin!(rest.read_buf(&mut came));
            tokio::select! {
                read = read => if !read.is_ok_and(|count| count > 0) { break },
                () = &mut give_up => break,
            }
        }
        let begins = came == bytes;
        // Insert the bytes in front of those that were read ahead.
        came.extend(self.unread.take().into_iter().flat_map(|rest| *rest));
        self.unread = (!came.is_empty()).then(|| Box::new(came.into()));
        begins
    }
}

impl Socket {
    /// Runs `act` on a socket that is not registered yet. If it would block, registers the socket.
    /// `None`: use the registered socket.
    fn at_once<T>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&AcceptedStream) -> io::Result<T>,
    ) -> Option<Poll<io::Result<T>>> {
        let Socket::Fresh(stream) = self else { return None };
        // Same budget as for registered sockets: a client that sends without a pause must not
        // starve other connections.
        let Poll::Ready(turn) = coop::poll_proceed(cx) else { return Some(Poll::Pending) };
        turn.made_progress();
        match act(stream) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.watch().err().map(|error| Poll::Ready(Err(error)))
            }
            result => Some(Poll::Ready(result)),
        }
    }

    /// Registers the socket with the runtime.
    fn watch(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Socket::Lost) {
            Socket::Fresh(AcceptedStream::Tcp(stream)) => Socket::Tcp(TcpStream::from_std(stream)?),
            Socket::Fresh(AcceptedStream::Unix(stream)) => {
                Socket::Unix(UnixStream::from_std(stream)?)
            }
            watched => watched,
        };
        Ok(())
    }
}

fn lost<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

impl Io for Stream {
    fn is_tcp(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_) | Socket::Fresh(AcceptedStream::Tcp(_)))
    }

    fn tcp(&mut self) -> Option<&TcpStream> {
        self.socket.watch().ok()?;
        match &self.socket {
            Socket::Tcp(stream) => Some(stream),
            _ => None,
        }
    }

    fn unsent(&self) -> Option<usize> {
        match &self.socket {
            Socket::Tcp(stream) => stream.unsent(),
            Socket::Unix(stream) => stream.unsent(),
            Socket::Fresh(_) | Socket::Lost => None,
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
        if let Some(done) = this.socket.at_once(cx, |stream| {
            let mut first = [0; FIRST_READ];
            let room = buffer.remaining().min(FIRST_READ);
            let count = stream.read(&mut first[..room])?;
            buffer.put_slice(&first[..count]);
            Ok(())
        }) {
            return done;
        }
        match &mut this.socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Fresh(_) | Socket::Lost => lost(),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = &mut self.get_mut().socket;
        if let Some(done) = socket.at_once(cx, |stream| stream.write(&[IoSlice::new(bytes)])) {
            return done;
        }
        match socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Fresh(_) | Socket::Lost => lost(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // TLS usually has one slice; `write` is cheaper than `writev` then.
        if let [slice] = slices {
            return self.poll_write(cx, slice);
        }
        let socket = &mut self.get_mut().socket;
        if let Some(done) = socket.at_once(cx, |stream| stream.write(slices)) {
            return done;
        }
        match socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Socket::Fresh(_) | Socket::Lost => lost(),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // nothing is buffered
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Fresh(stream) => Poll::Ready(stream.shutdown()),
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Lost => lost(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;

    use super::*;

    /// Data is always available on the connection, so its socket is never registered, and without a
    /// budget its thread would serve no other connection.
    #[tokio::test]
    async fn a_client_that_never_pauses_lets_others_have_their_turn() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(&[b'x'; 10_000]).unwrap();
        let mut stream = Stream::new(AcceptedStream::Unix(ours));
        let taken = poll_fn(|cx| {
            let mut taken = 0;
            loop {
                let mut room = [0; 16];
                let mut buffer = ReadBuf::new(&mut room);
                if Pin::new(&mut stream).poll_read(cx, &mut buffer).is_pending() {
                    return Poll::Ready(taken);
                }
                taken += buffer.filled().len();
            }
        })
        .await;
        assert!(taken > 0 && taken < 10_000, "{taken} bytes in one turn");
    }
}
