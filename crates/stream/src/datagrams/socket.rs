//! The socket of a listener, to which datagrams of all its clients come.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use howdah_sys::sockets;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::table::Client;

/// Maximum length of a datagram, and of several that the kernel has joined, in bytes.
pub const MAX_DATAGRAM_BYTES: usize = 64 * 1024;

/// Maximum number of reads with one system call.
const BATCH: usize = 8;

/// A socket for datagrams of many clients.
#[derive(Debug)]
pub struct ClientSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

/// Memory for datagrams that are read together.
pub struct Batch {
    memory: Vec<u8>,
    metas: [RecvMeta; BATCH],
    count: usize,
}

impl Default for Batch {
    fn default() -> Self {
        let memory = vec![0; BATCH * MAX_DATAGRAM_BYTES];
        Batch { memory, metas: [RecvMeta::default(); BATCH], count: 0 }
    }
}

impl Batch {
    /// Returns the datagrams with their clients.
    pub fn datagrams(&self) -> impl Iterator<Item = (Client, &[u8])> {
        let reads = self.memory.chunks_exact(MAX_DATAGRAM_BYTES).zip(&self.metas);
        reads.take(self.count).flat_map(|(memory, meta)| {
            let client = Client { peer: meta.addr, local: meta.dst_ip };
            let bytes = memory.get(..meta.len).unwrap_or_default();
            // A datagram may be empty.
            let empty = bytes.is_empty().then_some((client, bytes));
            let whole = bytes.chunks(meta.stride.max(1)).map(move |one| (client, one));
            empty.into_iter().chain(whole)
        })
    }
}

impl ClientSocket {
    /// Registers a socket with the current runtime.
    pub fn new(socket: OwnedFd) -> io::Result<ClientSocket> {
        let socket = std::net::UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // That has forbidden fragments, which QUIC does without. Answers of DNS may need them.
        sockets::allow_fragments(&socket, local.is_ipv6())?;
        Ok(ClientSocket { socket: UdpSocket::from_std(socket)?, state, local })
    }

    /// Returns the address that a client has sent its datagrams to.
    pub fn address_for(&self, client: &Client) -> SocketAddr {
        SocketAddr::new(client.local.unwrap_or(self.local.ip()), self.local.port())
    }

    /// Waits for datagrams.
    pub async fn receive(&self, batch: &mut Batch) -> io::Result<()> {
        let Batch { memory, metas, count } = batch;
        let read = || {
            let mut rooms = memory.chunks_exact_mut(MAX_DATAGRAM_BYTES).map(IoSliceMut::new);
            let mut rooms: [IoSliceMut<'_>; BATCH] =
                std::array::from_fn(|_| rooms.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
            self.state.recv(UdpSockRef::from(&self.socket), &mut rooms, metas)
        };
        *count = 0;
        *count = self.socket.async_io(Interest::READABLE, read).await?;
        Ok(())
    }

    /// Sends a datagram to a client. One for which the kernel has no room is lost, as on the way.
    pub fn send(&self, client: &Client, contents: &[u8]) -> io::Result<()> {
        let transmit = Transmit {
            destination: client.peer,
            ecn: None,
            contents,
            segment_size: None,
            src_ip: client.local,
        };
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }
}
