//! Messages with descriptors between processes: `SOCK_SEQPACKET` sockets.
//!
//! No call blocks. Every process that shares a socket can change its blocking mode, so each call
//! sets `MSG_DONTWAIT`.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{self, Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recv,
    recvmsg, sendmsg, shutdown, socketpair, sockopt::set_socket_send_buffer_size,
};

/// Maximum length of a message between processes of the server, in bytes.
pub const MAX_PACKET: usize = 128 * 1024;

/// Maximum number of descriptors in one message.
pub const MAX_DESCRIPTORS: usize = 80;

/// Creates a connected pair of packet sockets, closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Creates a connected pair for one direction: the sending end and the receiving end. The receiver
/// cannot send anything back, and so no descriptors, whose closing could block for as long as the
/// receiver likes.
pub fn one_way() -> io::Result<(OwnedFd, OwnedFd)> {
    let (sender, receiver) = pair()?;
    shutdown(&sender, Shutdown::Read)?;
    Ok((sender, receiver))
}

/// Lets a socket hold the fewest packets that the kernel permits: about six short ones on Linux.
/// What their descriptors refer to is not limited otherwise.
pub fn hold_few(sender: impl AsFd) -> io::Result<()> {
    set_socket_send_buffer_size(sender, 0)
}

/// Sends one packet with descriptors. Error `AGAIN` if the socket is full.
pub fn send(socket: impl AsFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    let sent = retry_on_intr(|| {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&socket, &[IoSlice::new(packet)], &mut ancillary, flags)
    })?;
    if sent == packet.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
}

/// Returns true if a packet could not be sent because the peer has closed its end.
pub fn is_end(error: Errno) -> bool {
    matches!(error, Errno::PIPE | Errno::CONNRESET)
}

/// Returns true if the peer has closed its end.
pub fn is_closed(socket: impl AsFd) -> bool {
    let mut socket = [PollFd::new(&socket, PollFlags::empty())];
    let polled = retry_on_intr(|| poll(&mut socket, Some(&Timespec::default())));
    polled.is_ok() && socket[0].revents().contains(PollFlags::HUP)
}

/// Sends no more packets: the peer receives [`Received::Closed`].
pub fn end_sending(socket: impl AsFd) {
    // Fails only if the peer has closed its end.
    let _ = shutdown(socket, Shutdown::Write);
}

/// Result of [`receive`].
#[derive(Debug)]
pub enum Received {
    /// A packet of this length, with descriptors (closed on exec).
    Packet(usize, Vec<OwnedFd>),
    /// The peer has closed its end.
    Closed,
    /// There is no packet.
    Empty,
}

/// Receives one packet into `buffer`. Error `MSGSIZE` if the packet or its descriptors do not fit.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let result = retry_on_intr(|| {
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)
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

/// Receives one packet into a buffer of its length, which touches no more memory than necessary.
/// Error `MSGSIZE` if the packet is longer than `limit`, or if its descriptors do not fit.
pub fn receive_next(socket: impl AsFd, limit: usize) -> io::Result<(Received, Vec<u8>)> {
    let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let length = match retry_on_intr(|| recv(&socket, &mut [0; 0][..], flags)) {
        // A packet that arrives only now must not be received into an empty buffer.
        Err(Errno::AGAIN) => return Ok((Received::Empty, Vec::new())),
        Err(Errno::CONNRESET) => return Ok((Received::Closed, Vec::new())),
        found => found?.1,
    };
    let mut buffer = vec![0; length.min(limit)];
    let received = receive(socket, &mut buffer)?;
    Ok((received, buffer))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Waits until there is no other end. A process that another test has just forked has it for a
    /// moment.
    fn is_closed(receive: impl Fn() -> Received) -> bool {
        (0..1000).any(|_| {
            let is_closed = matches!(receive(), Received::Closed);
            is_closed || {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
        })
    }

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
    fn a_packet_is_received_into_a_buffer_of_its_length() {
        let (a, b) = pair().unwrap();
        assert!(matches!(receive_next(&b, 10), Ok((Received::Empty, _))));
        send(&a, b"hello", &[a.as_fd()]).unwrap();
        let (received, packet) = receive_next(&b, 10).unwrap();
        assert!(matches!(received, Received::Packet(5, descriptors) if descriptors.len() == 1));
        assert_eq!(packet, b"hello");
        send(&a, b"hello", &[]).unwrap();
        assert_eq!(receive_next(&b, 3).unwrap_err(), Errno::MSGSIZE);
        drop(a);
        assert!(is_closed(|| receive_next(&b, 10).unwrap().0));
    }

    #[test]
    fn a_packet_that_comes_at_any_moment_is_received_whole() {
        const PACKETS: usize = 20_000;
        let (a, b) = pair().unwrap();
        let sender = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < PACKETS {
                match send(&a, b"hello", &[]) {
                    Ok(()) => sent += 1,
                    Err(error) => assert_eq!(error, Errno::AGAIN),
                }
                std::thread::yield_now();
            }
        });
        let mut received = 0;
        while received < PACKETS {
            match receive_next(&b, 10).unwrap() {
                (Received::Packet(5, _), packet) if packet == b"hello" => received += 1,
                (Received::Empty, _) => {}
                other => panic!("{other:?}"),
            }
        }
        sender.join().unwrap();
    }

    #[test]
    fn neither_direction_waits_though_the_sockets_block() {
        let (a, b) = pair().unwrap();
        assert!(matches!(receive(&b, &mut [0; 4]).unwrap(), Received::Empty));
        let sent = (0..1_000_000).find_map(|_| send(&a, b"hello", &[]).err());
        assert_eq!(sent, Some(Errno::AGAIN));
    }

    #[test]
    fn a_socket_that_holds_few_packets_is_full_soon() {
        let (sender, receiver) = one_way().unwrap();
        hold_few(&sender).unwrap();
        let sent = (0..1000).position(|_| send(&sender, b"hello", &[sender.as_fd()]).is_err());
        assert!(sent.is_some_and(|sent| (1..=16).contains(&sent)), "{sent:?}");
        assert!(matches!(receive(&receiver, &mut [0; 9]).unwrap(), Received::Packet(5, _)));
        send(&sender, b"again", &[]).unwrap();
    }

    #[test]
    fn nothing_can_be_sent_to_the_end_that_sends() {
        let (sender, receiver) = one_way().unwrap();
        assert_eq!(send(&receiver, b"x", &[receiver.as_fd()]), Err(Errno::PIPE));
        send(&sender, b"hello", &[]).unwrap();
        assert!(matches!(receive(&receiver, &mut [0; 9]).unwrap(), Received::Packet(5, _)));
        assert!(matches!(receive(&receiver, &mut [0; 9]).unwrap(), Received::Empty));
        drop(sender);
        assert!(is_closed(|| receive(&receiver, &mut [0; 9]).unwrap()));
    }

    #[test]
    fn the_end_of_the_other_side_is_told() {
        let (a, b) = pair().unwrap();
        drop(a);
        assert!(is_closed(|| receive(&b, &mut [0; 4]).unwrap()));
    }
}
