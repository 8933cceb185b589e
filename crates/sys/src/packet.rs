//! Messages with descriptors between processes: `SOCK_SEQPACKET` sockets.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{self, Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

/// Most descriptors in one message.
pub const MAX_DESCRIPTORS: usize = 80;

/// A connected pair of packet sockets, closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one packet with descriptors. Blocks unless the socket is non-blocking.
pub fn send(socket: impl AsFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    let sent = retry_on_intr(|| {
        sendmsg(&socket, &[IoSlice::new(packet)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    if sent == packet.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
}

/// What [`receive`] found.
#[derive(Debug)]
pub enum Received {
    /// A packet of this length, with descriptors (closed on exec).
    Packet(usize, Vec<OwnedFd>),
    /// The other side has closed.
    Closed,
    /// Nothing there; only from a non-blocking socket.
    Empty,
}

/// Receives one packet into `buffer`. A packet or descriptors that do not fit are an error
/// (`MSGSIZE`), never cut.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let result = retry_on_intr(|| {
        recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    });
    let message = match result {
        Err(Errno::AGAIN) => return Ok(Received::Empty),
        Err(Errno::CONNRESET) => return Ok(Received::Closed),
        other => other?,
    };
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    if message.bytes == 0 && descriptors.is_empty() {
        return Ok(Received::Closed);
    }
    Ok(Received::Packet(message.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_arrives_whole_with_its_descriptors() {
        let (a, b) = pair().unwrap();
        let memory = crate::shm::create("test", 4096).unwrap();
        send(&a, b"hello", &[memory.as_fd(), memory.as_fd()]).unwrap();
        let mut buffer = [0; 16];
        let Received::Packet(5, descriptors) = receive(&b, &mut buffer).unwrap() else { panic!() };
        assert_eq!((&buffer[..5], descriptors.len()), (&b"hello"[..], 2));
    }

    #[test]
    fn a_packet_longer_than_the_buffer_is_an_error() {
        let (a, b) = pair().unwrap();
        send(&a, b"hello", &[]).unwrap();
        assert_eq!(receive(&b, &mut [0; 4]).unwrap_err(), Errno::MSGSIZE);
    }

    #[test]
    fn the_end_of_the_other_side_is_told() {
        let (a, b) = pair().unwrap();
        drop(a);
        assert!(matches!(receive(&b, &mut [0; 4]).unwrap(), Received::Closed));
    }
}
