//! Listening sockets, and the connections that are accepted from them.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use howdah_http::message::ConnectionInfo;
use howdah_sys::sockets;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{SocketFlags, acceptfrom_with, getsockname};

/// A socket of a listener.
#[derive(Debug)]
pub enum ListeningSocket {
    /// Connections are accepted from it.
    Connections(OwnedFd, Family),
    /// Datagrams come to it.
    Datagrams(OwnedFd),
}

/// Address family of a listening socket.
#[derive(Debug, Clone, Copy)]
pub enum Family {
    /// Unix domain.
    Unix,
    /// TCP, with the local address of its connections if that is the same for all.
    Tcp(Option<SocketAddr>),
}

impl ListeningSocket {
    /// Takes over the descriptor that the supervisor has bound to an address. In some protocols the
    /// client waits for the server's first bytes (`is_server_first`).
    pub fn new(address: &str, fd: OwnedFd, is_server_first: bool) -> Self {
        if address.starts_with("unix:") {
            return ListeningSocket::Connections(fd, Family::Unix);
        }
        if address.starts_with("udp:") {
            return ListeningSocket::Datagrams(fd);
        }
        // Both options are optimisations, so failures are ignored. Connections inherit the first;
        // the second delays `accept` until a request has arrived.
        let _ = set_tcp_nodelay(&fd, true);
        let _ = sockets::defer_accept(&fd, !is_server_first);
        // The service manager may have opened the socket at another address than the listener's.
        let local = getsockname(&fd).ok().and_then(|local| SocketAddr::try_from(local).ok());
        let local = local.filter(|local| !local.ip().is_unspecified());
        ListeningSocket::Connections(fd, Family::Tcp(local))
    }

    /// Duplicates the descriptor, for another thread.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            ListeningSocket::Connections(fd, family) => {
                ListeningSocket::Connections(fd.try_clone()?, *family)
            }
            ListeningSocket::Datagrams(fd) => ListeningSocket::Datagrams(fd.try_clone()?),
        })
    }
}

impl Family {
    /// Accepts a connection from a socket of this family. The new socket does not block.
    pub fn accept(self, socket: &OwnedFd) -> io::Result<(AcceptedStream, ConnectionInfo)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (fd, peer) = acceptfrom_with(socket, flags)?;
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        Ok(match self {
            Family::Unix => {
                let number = ConnectionInfo::next_number();
                let info = ConnectionInfo { number, ..ConnectionInfo::default() };
                (AcceptedStream::Unix(fd.into()), info)
            }
            Family::Tcp(local) => tcp(fd, peer, local),
        })
    }
}

fn tcp(
    fd: OwnedFd,
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
) -> (AcceptedStream, ConnectionInfo) {
    let stream = std::net::TcpStream::from(fd);
    // A connection of unknown address must not pass for one of a unix socket, which conditions may
    // trust.
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let local = local.or_else(|| stream.local_addr().ok()).unwrap_or(unknown);
    let peer = peer.unwrap_or(unknown);
    let (peer, local) = (Some(canonical(peer)), Some(canonical(local)));
    let number = ConnectionInfo::next_number();
    let info = ConnectionInfo { peer, local, number, ..ConnectionInfo::default() };
    (AcceptedStream::Tcp(stream), info)
}

/// Returns the IPv4 address for an IPv6 address that stands for one, as the peers of a socket for
/// both families have.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// An accepted connection that no thread serves yet.
#[derive(Debug)]
pub struct Accepted {
    /// The socket.
    pub stream: AcceptedStream,
    /// Addresses.
    pub info: Arc<ConnectionInfo>,
    /// Name of the listener.
    pub listener: Arc<str>,
}

/// The socket of a connection, not yet registered with a thread's runtime. It does not block.
#[derive(Debug)]
pub enum AcceptedStream {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix domain.
    Unix(std::os::unix::net::UnixStream),
}

impl AcceptedStream {
    /// Reads available bytes.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            AcceptedStream::Tcp(stream) => Read::read(&mut &*stream, buffer),
            AcceptedStream::Unix(stream) => Read::read(&mut &*stream, buffer),
        }
    }

    /// Writes as many bytes as the socket has room for.
    pub fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            AcceptedStream::Tcp(stream) => (&mut &*stream).write_vectored(slices),
            AcceptedStream::Unix(stream) => (&mut &*stream).write_vectored(slices),
        }
    }

    /// Shuts down writing.
    pub fn shutdown(&self) -> io::Result<()> {
        match self {
            AcceptedStream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            AcceptedStream::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl AsFd for AcceptedStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            AcceptedStream::Tcp(stream) => stream.as_fd(),
            AcceptedStream::Unix(stream) => stream.as_fd(),
        }
    }
}
