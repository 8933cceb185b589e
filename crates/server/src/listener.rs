//! Accepting connections, and spreading them over the router threads.
//!
//! Every thread accepts from every listening socket. A thread that has accepted a connection
//! though another one has fewer hands it over, so that few connections are spread as evenly as
//! many.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use howdah_http::message::ConnectionInfo;
use howdah_sys::log::Level;
use howdah_sys::{reactor, sockets};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{SocketFlags, acceptfrom_with};
use tokio::io::Interest;
use tokio::sync::Notify;

use crate::room;
use crate::thread::{Order, Shard};

/// A listening socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Unix,
    /// With the address that its connections have here, if that is the same for all.
    Tcp(Option<SocketAddr>),
}

impl Socket {
    /// From the descriptor that the supervisor sent for an address.
    pub fn new(address: &str, fd: OwnedFd) -> Self {
        if address.starts_with("unix:") {
            return Socket { fd, kind: Kind::Unix };
        }
        // Connections inherit the first; the second spares them the reactor. Both can be done without.
        let _ = set_tcp_nodelay(&fd, true);
        let _ = sockets::defer_accept(&fd);
        let local = address.parse().ok().filter(|local: &SocketAddr| !local.ip().is_unspecified());
        Socket { fd, kind: Kind::Tcp(local) }
    }

    /// Another handle of the same socket, for another thread.
    pub fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Socket { fd: self.fd.try_clone()?, kind: self.kind })
    }
}

/// Connections that a thread accepts at most when it has been told to accept no more.
const LAST: usize = 4096;

/// Pause before the next try after connections were closed because the machine is short of files.
const SHORT_PAUSE: Duration = Duration::from_millis(20);

/// A connection that has been accepted and is not served yet.
#[derive(Debug)]
pub struct Accepted {
    /// The socket.
    pub stream: AcceptedStream,
    /// Addresses.
    pub info: Arc<ConnectionInfo>,
    /// Name of the listener.
    pub listener: Arc<str>,
}

/// The socket of a connection, not yet bound to a thread's runtime.
#[derive(Debug)]
pub enum AcceptedStream {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix domain.
    Unix(std::os::unix::net::UnixStream),
}

impl AcceptedStream {
    /// Reads what is there; the socket does not block.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            AcceptedStream::Tcp(stream) => Read::read(&mut &*stream, buffer),
            AcceptedStream::Unix(stream) => Read::read(&mut &*stream, buffer),
        }
    }

    /// Writes what there is room for; the socket does not block.
    pub fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            AcceptedStream::Tcp(stream) => (&mut &*stream).write_vectored(slices),
            AcceptedStream::Unix(stream) => (&mut &*stream).write_vectored(slices),
        }
    }

    /// Nothing more will be written.
    pub fn shutdown(&self) -> io::Result<()> {
        match self {
            AcceptedStream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            AcceptedStream::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

/// Accepts connections until `stop` is notified. What clients have sent before is served.
pub async fn accept(shard: Rc<Shard>, name: Arc<str>, socket: Socket, stop: Rc<Notify>) {
    let result = accept_from(&shard, &name, socket, &stop).await;
    if let Err(error) = result {
        shard.shared.log.write(Level::Alert, format_args!("listener {name}: {error}"));
    }
}

/// Accepts without registering the new connection with this thread's reactor, since another
/// thread may get it.
async fn accept_from(
    shard: &Rc<Shard>,
    name: &Arc<str>,
    socket: Socket,
    stop: &Notify,
) -> std::io::Result<()> {
    let kind = socket.kind;
    let socket = reactor::readable(socket.fd)?;
    let accept = |socket: &OwnedFd| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (fd, peer) = acceptfrom_with(socket, flags)?;
        room::note(shard, &fd);
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        Ok(match kind {
            Kind::Unix => (AcceptedStream::Unix(fd.into()), ConnectionInfo::default()),
            Kind::Tcp(local) => tcp(fd, peer, local),
        })
    };
    let accept_if_room = |socket: &OwnedFd| match room::is_full(shard, socket) {
        true if room::is_wanted(socket) => Ok(None),
        _ => accept(socket).map(Some),
    };
    let next = async || loop {
        match socket.async_io(Interest::READABLE, accept_if_room).await {
            Ok(Some(accepted)) => return accepted,
            Ok(None) => room::make(shard, name, socket.get_ref()).await,
            Err(error) => pause(shard, name, &error).await,
        }
    };
    let stopped = stop.notified();
    tokio::pin!(stopped);
    loop {
        let (stream, info) = tokio::select! {
            accepted = next() => accepted,
            () = &mut stopped => break,
        };
        place(shard, name, stream, info);
    }
    // With the socket the kernel would reset what waits in its backlog. Here, as other threads may
    // have ended.
    for _ in 0..LAST {
        let Ok((stream, info)) = accept(socket.get_ref()) else { break };
        serve(shard, Accepted { stream, info: Arc::new(info), listener: Arc::clone(name) });
    }
    Ok(())
}

fn tcp(
    fd: OwnedFd,
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
) -> (AcceptedStream, ConnectionInfo) {
    let stream = std::net::TcpStream::from(fd);
    // Without an address it must not pass for a unix socket, which conditions may trust.
    let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
    let local = local.or_else(|| stream.local_addr().ok()).unwrap_or(nobody);
    let peer = peer.unwrap_or(nobody);
    let info = ConnectionInfo { peer: Some(peer), local: Some(local), ..ConnectionInfo::default() };
    (AcceptedStream::Tcp(stream), info)
}

/// Without descriptors or memory the connection stays in the backlog; try again when there may be
/// some, instead of at once and for ever.
async fn pause(shard: &Rc<Shard>, name: &Arc<str>, error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
        || room::note_failure(shard, error)
    {
        return;
    }
    // It may be the whole machine that is short of files.
    let is_short = error.raw_os_error() == Some(Errno::NFILE.raw_os_error());
    if is_short && room::evict(shard, name, 1).await {
        tokio::time::sleep(SHORT_PAUSE).await;
        return;
    }
    shard.shared.log.write(
        Level::Error,
        format_args!("listener {name}: cannot accept: {error}; the next try is in 0.5 s"),
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// Serves a connection on this thread, unless another one has clearly fewer: to hand it over costs
/// a system call and wakes the other thread.
fn place(shard: &Rc<Shard>, name: &Arc<str>, stream: AcceptedStream, info: ConnectionInfo) {
    let accepted = Accepted { stream, info: Arc::new(info), listener: Arc::clone(name) };
    let serving = shard.handles.iter().take(shard.shared.threads.load(Relaxed));
    let least = serving.min_by_key(|handle| handle.counters().open());
    // Counted here, so that no more are accepted than there may be before it is served.
    match least {
        Some(least)
            if least.counters().open() + shard.counters.open() / 8 < shard.counters.open() =>
        {
            least.counters().accepted.fetch_add(1, Relaxed);
            least.order(Order::Connection(accepted));
        }
        _ => serve(shard, accepted),
    }
}

fn serve(shard: &Rc<Shard>, accepted: Accepted) {
    shard.counters.accepted.fetch_add(1, Relaxed);
    shard.serve(accepted);
}
