//! Connections over TCP or a unix socket.

use std::io::{self, IoSlice, Read};
use std::net;
use std::os::unix::net as net_unix;
use std::path::Path;
use std::time::Duration;

use howdah_config::Address;
use howdah_sys::socket_handle::SocketHandle;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpStream, UnixStream};

use crate::either::Either;

/// Interval between two tries while the backlog of a unix socket is full.
const BACKLOG_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// A TCP connection (`A`), or one over a unix socket (`B`).
pub type Stream = Either<TcpStream, UnixStream>;

impl Stream {
    /// Connects; waits for room in the backlog of a unix socket. The caller limits the time.
    pub async fn connect(address: &Address) -> io::Result<Stream> {
        loop {
            match Stream::try_connect(address).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(BACKLOG_RETRY_INTERVAL).await;
                }
                connected => return connected,
            }
        }
    }

    /// Connects. Fails with [`io::ErrorKind::WouldBlock`] if the backlog of a unix socket has no
    /// room, because the kernel cannot wait for that. Links on the path of a unix socket are
    /// checked like those of shares.
    pub async fn try_connect(address: &Address) -> io::Result<Stream> {
        let found;
        let name = match address {
            Address::Inet(inet) => {
                let stream = TcpStream::connect(inet).await?;
                stream.set_nodelay(true)?;
                return Ok(Either::A(stream));
            }
            Address::Name(..) | Address::Service(_) => {
                return Err(io::Error::other("its name has no address"));
            }
            Address::Unix(path) => {
                found = SocketHandle::find(Path::new(path))?;
                SockAddr::unix(found.path())?
            }
            Address::Abstract(name) => SockAddr::unix(format!("\0{name}"))?,
        };
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.connect(&name)?;
        Ok(Either::B(UnixStream::from_std(socket.into())?))
    }

    /// Sends the bytes that the kernel takes immediately and returns their number, before the
    /// runtime knows that a new connection is writable. An error is reported by the next write.
    pub fn send_at_once(&self, slices: &[IoSlice<'_>]) -> usize {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut nothing = SendAncillaryBuffer::default();
        let sent = match self {
            Either::A(stream) => sendmsg(stream, slices, &mut nothing, flags),
            Either::B(stream) => sendmsg(stream, slices, &mut nothing, flags),
        };
        sent.unwrap_or(0)
    }

    /// Returns true if an idle connection can be used: it is open, and no unrequested byte has
    /// arrived.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Either::A(stream) => stream.try_read(&mut byte),
            Either::B(stream) => stream.try_read(&mut byte),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A connection outside of any runtime, so that any thread can take it.
#[derive(Debug)]
pub struct Parked(Either<net::TcpStream, net_unix::UnixStream>);

impl Parked {
    /// Removes a connection from the runtime of this thread.
    pub fn new(stream: Stream) -> io::Result<Parked> {
        Ok(Parked(match stream {
            Either::A(stream) => Either::A(stream.into_std()?),
            Either::B(stream) => Either::B(stream.into_std()?),
        }))
    }

    /// Adds the connection to the runtime of this thread.
    pub fn resume(self) -> io::Result<Stream> {
        Ok(match self.0 {
            Either::A(stream) => Either::A(TcpStream::from_std(stream)?),
            Either::B(stream) => Either::B(UnixStream::from_std(stream)?),
        })
    }

    /// Returns true under the conditions of [`Stream::is_quiet`].
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match &self.0 {
            Either::A(stream) => (&*stream).read(&mut byte),
            Either::B(stream) => (&*stream).read(&mut byte),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}
