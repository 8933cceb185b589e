//! Connections to upstreams: TCP or a unix socket.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use howdah_config::Address;
use rustix::net::SendFlags;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// How long to wait before the next try while the backlog of a unix socket is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// Unix domain.
    Unix(UnixStream),
}

impl Stream {
    /// Connects, as soon as there is room in the backlog of a unix socket. The caller limits the
    /// time.
    pub async fn connect(address: &Address) -> io::Result<Stream> {
        loop {
            match Stream::try_connect(address).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(BACKLOG_PAUSE).await;
                }
                connected => return connected,
            }
        }
    }

    /// Connects. The kernel does not let a unix socket wait for room in the backlog: then this
    /// fails with [`io::ErrorKind::WouldBlock`].
    pub async fn try_connect(address: &Address) -> io::Result<Stream> {
        let name = match address {
            Address::Inet(inet) => {
                let stream = TcpStream::connect(inet).await?;
                stream.set_nodelay(true)?;
                return Ok(Stream::Tcp(stream));
            }
            Address::Name(..) => return Err(io::Error::other("its name has no address")),
            Address::Unix(path) => SockAddr::unix(path)?,
            Address::Abstract(name) => SockAddr::unix(format!("\0{name}"))?,
        };
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.connect(&name)?;
        Ok(Stream::Unix(UnixStream::from_std(socket.into())?))
    }

    /// Sends what the kernel takes at once, and tells how much that is. The runtime learns only later
    /// that a new connection can be written to. A failure shows when more is sent.
    pub fn send_at_once(&self, bytes: &[u8]) -> usize {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = match self {
            Stream::Tcp(stream) => rustix::net::send(stream, bytes, flags),
            Stream::Unix(stream) => rustix::net::send(stream, bytes, flags),
        };
        sent.unwrap_or(0)
    }

    /// Whether an idle connection can be used: still open, and nothing came that nobody asked for.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Stream::Tcp(stream) => stream.try_read(&mut byte),
            Stream::Unix(stream) => stream.try_read(&mut byte),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A connection that no thread's runtime watches, so that any thread may take it.
#[derive(Debug)]
pub enum Parked {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix domain.
    Unix(std::os::unix::net::UnixStream),
}

impl Parked {
    /// Takes a connection from its thread.
    pub fn new(stream: Stream) -> io::Result<Parked> {
        Ok(match stream {
            Stream::Tcp(stream) => Parked::Tcp(stream.into_std()?),
            Stream::Unix(stream) => Parked::Unix(stream.into_std()?),
        })
    }

    /// Gives it to the calling thread.
    pub fn resume(self) -> io::Result<Stream> {
        Ok(match self {
            Parked::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream)?),
            Parked::Unix(stream) => Stream::Unix(UnixStream::from_std(stream)?),
        })
    }

    /// As [`Stream::is_quiet`].
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Parked::Tcp(stream) => (&*stream).read(&mut byte),
            Parked::Unix(stream) => (&*stream).read(&mut byte),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
