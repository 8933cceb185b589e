//! A UDP socket: batches of datagrams with their addresses and marks of congestion.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_sys::reactor;
use quinn_proto::Transmit;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use tokio::io::unix::AsyncFd;

/// Number of messages that are read with one system call. Each may have many datagrams (GRO).
const BATCH: usize = 8;

/// Maximum length of a message.
const MESSAGE: usize = 1 << 16;

/// Maximum bytes of a message that is sent (GSO), a little below what IP and UDP permit.
pub(crate) const MAX_SENT: usize = 65_000;

/// Pause before the next attempt to send while the kernel has no room. To be woken when it has room would
/// wake the thread for each datagram that it has sent.
pub(crate) const SEND_PAUSE: Duration = Duration::from_millis(1);

thread_local! {
    /// Room for one batch, shared by the sockets of a thread.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket of this thread.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// In the reactor of this thread, while this is what reads the socket.
    reader: RefCell<Option<AsyncFd<OwnedFd>>>,
    state: UdpSocketState,
    local: SocketAddr,
    /// A message that the kernel had no room for.
    unsent: RefCell<Option<(Transmit, Vec<u8>)>>,
    /// Number of messages that the kernel has refused.
    pub(crate) refused: Cell<u64>,
}

impl Socket {
    /// Takes a bound UDP socket.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Socket> {
        let socket = std::net::UdpSocket::from(fd);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        let fd = OwnedFd::from(socket);
        let (reader, unsent) = (RefCell::new(None), RefCell::new(None));
        Ok(Socket { fd, reader, state, local, unsent, refused: Cell::new(0) })
    }

    /// Reads the socket from now on.
    pub(crate) fn start_reading(&self) -> io::Result<()> {
        let reader = reactor::readable(self.fd.try_clone()?)?;
        self.reader.replace(Some(reader));
        Ok(())
    }

    /// Reads no more.
    pub(crate) fn stop_reading(&self) {
        self.reader.take();
    }

    /// Returns the address that the socket is bound to.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns true if the kernel sends datagrams in fragments, so that the path's MTU cannot be found.
    pub(crate) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Returns the number of datagrams of one message.
    pub(crate) fn segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn as_ref(&self) -> UdpSockRef<'_> {
        UdpSockRef::from(&self.fd)
    }

    /// Receives one batch. Pending without any, and while this does not read the socket.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&RecvMeta, &[u8]),
    ) -> Poll<io::Result<()>> {
        let reader = self.reader.borrow();
        let Some(fd) = &*reader else { return Poll::Pending };
        ROOM.with_borrow_mut(|room| {
            room.resize(BATCH * MESSAGE, 0);
            loop {
                let mut ready = ready!(fd.poll_read_ready(cx))?;
                let mut meta = [RecvMeta::default(); BATCH];
                let mut parts = room.chunks_mut(MESSAGE);
                let mut slices: [_; BATCH] =
                    std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
                match ready.try_io(|_| self.state.recv(self.as_ref(), &mut slices, &mut meta)) {
                    Ok(Ok(count)) => {
                        let messages = room.chunks(MESSAGE).zip(&meta[..count.min(BATCH)]);
                        messages.for_each(|(bytes, meta)| take(meta, &bytes[..meta.len]));
                        return Poll::Ready(Ok(()));
                    }
                    Ok(Err(error)) => return Poll::Ready(Err(error)),
                    Err(_would_block) => {}
                }
            }
        })
    }

    /// Returns true if the kernel had no room for the last message. Then it is sent again when
    /// [`SEND_PAUSE`] is over.
    pub(crate) fn is_blocked(&self) -> bool {
        self.unsent.borrow().is_some()
    }

    /// Tries to send the message that the kernel had no room for. Returns true if there is none left.
    pub(crate) fn retry(&self) -> bool {
        if let Some((transmit, bytes)) = self.unsent.take() {
            self.send(transmit, bytes);
        }
        !self.is_blocked()
    }

    /// Sends a message, or keeps it until the kernel has room for it. Returns its memory otherwise. One
    /// that the kernel refuses is lost, as it could be in the network.
    pub(crate) fn send(&self, transmit: Transmit, bytes: Vec<u8>) -> Vec<u8> {
        let message = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            contents: bytes.get(..transmit.size).unwrap_or_default(),
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        match self.state.try_send(self.as_ref(), &message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.unsent.replace(Some((transmit, bytes)));
                return Vec::new();
            }
            Err(_) => self.refused.set(self.refused.get() + 1),
            Ok(()) => {}
        }
        bytes
    }
}
