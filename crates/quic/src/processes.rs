//! Datagrams between a process and the one that it replaces, over a socket of their own
//! ([`ToFormerRouter`]): from the new process to the former one only, so that none goes round in circles.
//!
//! What the former process does not take in time is lost, as in the network: neither fills the memory of
//! the other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::BytesMut;
use howdah_sys::packet::{self, Received};
use howdah_sys::reactor;
use howdah_wire::messages::ToFormerRouter;
use tokio::io::unix::AsyncFd;

use crate::datagram::{Datagram, MAX_DATAGRAM};

/// Maximum length of a message: a datagram, the name of its socket, its addresses.
const MAX_MESSAGE: usize = 4096;

/// The process that this one has replaced, or is about to.
#[derive(Debug)]
pub struct FormerProcess {
    socket: OwnedFd,
    has_ended: AtomicBool,
}

impl FormerProcess {
    /// Takes the socket to the process.
    pub fn new(socket: OwnedFd) -> FormerProcess {
        FormerProcess { socket, has_ended: AtomicBool::new(false) }
    }

    /// Waits until the process does not read its UDP sockets any more.
    pub async fn reads_no_more(&self) -> io::Result<()> {
        let socket = reactor::readable(self.socket.try_clone()?)?;
        loop {
            let mut ready = socket.readable().await?;
            match packet::receive(&self.socket, &mut [0; 1])? {
                Received::Closed => return Ok(()),
                Received::Empty => ready.clear_ready(),
                Received::Packet(..) => {}
            }
        }
    }

    /// Passes a datagram that has come to the UDP socket with this name. Returns it if the process has
    /// ended.
    pub fn pass(&self, socket: &str, datagram: Datagram) -> Option<Datagram> {
        if self.has_ended.load(Relaxed) {
            return Some(datagram);
        }
        let message = ToFormerRouter::Datagram {
            socket: socket.to_owned(),
            remote: datagram.remote,
            local: datagram.local,
            ecn: datagram.ecn,
            data: datagram.data.to_vec(),
        };
        match packet::send(&self.socket, &message.encode(), &[]) {
            Err(error) if packet::is_end(error) => {
                self.has_ended.store(true, Relaxed);
                Some(datagram)
            }
            Ok(()) | Err(_) => None,
        }
    }

    /// Returns true if the process has ended.
    pub fn has_ended(&self) -> bool {
        packet::is_closed(&self.socket)
    }
}

/// The process that has replaced this one.
pub struct NewProcess(AsyncFd<OwnedFd>);

impl NewProcess {
    /// Takes the socket to the process.
    pub fn new(socket: OwnedFd) -> io::Result<NewProcess> {
        Ok(NewProcess(reactor::readable(socket)?))
    }

    /// Tells the process that this one does not read its UDP sockets any more.
    pub fn let_read(&self) {
        packet::end_sending(self.0.get_ref().as_fd());
    }

    /// Waits for a datagram. Returns it with the name of the UDP socket that it has come to; `None` if
    /// the process has ended.
    pub async fn next(&self) -> Option<(String, Datagram)> {
        let mut buffer = [0; MAX_MESSAGE];
        loop {
            let mut ready = self.0.readable().await.ok()?;
            let length = match packet::receive(self.0.get_ref(), &mut buffer) {
                Ok(Received::Packet(length, _)) => length,
                Ok(Received::Empty) => {
                    ready.clear_ready();
                    continue;
                }
                Ok(Received::Closed) => return None,
                Err(_) => continue, // longer than any
            };
            let Ok(ToFormerRouter::Datagram { socket, remote, local, ecn, data }) =
                ToFormerRouter::decode(&buffer[..length])
            else {
                continue;
            };
            if data.len() <= MAX_DATAGRAM.into() {
                let data = BytesMut::from(&*data);
                return Some((socket, Datagram { remote, local, ecn, data }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn datagram(length: usize) -> Datagram {
        Datagram {
            remote: "192.0.2.1:4433".parse().unwrap(),
            local: Some([127, 0, 0, 1].into()),
            ecn: Some(1),
            data: BytesMut::from(&vec![7; length][..]),
        }
    }

    fn pair() -> (FormerProcess, NewProcess) {
        let (new, former) = packet::pair().unwrap();
        (FormerProcess::new(new), NewProcess::new(former).unwrap())
    }

    #[tokio::test]
    async fn a_datagram_arrives_with_its_addresses() {
        let (former, new) = pair();
        assert!(former.pass("udp:*:443", datagram(1200)).is_none());
        let (socket, arrived) = new.next().await.unwrap();
        assert_eq!((&*socket, arrived.remote.port()), ("udp:*:443", 4433));
        assert_eq!((arrived.ecn, &*arrived.data), (Some(1), &[7; 1200][..]));
    }

    #[tokio::test]
    async fn the_new_process_reads_when_the_former_one_does_not() {
        let (former, new) = pair();
        assert!(timeout(Duration::from_millis(20), former.reads_no_more()).await.is_err());
        new.let_read();
        former.reads_no_more().await.unwrap();
        assert!(!former.has_ended());
        assert!(former.pass("udp:*:443", datagram(20)).is_none(), "the other direction goes on");
        assert!(new.next().await.is_some());
    }

    #[tokio::test]
    async fn datagrams_of_a_process_that_has_ended_come_back() {
        let (former, new) = pair();
        drop(new);
        former.reads_no_more().await.unwrap();
        assert!(former.has_ended());
        assert!(former.pass("udp:*:443", datagram(20)).is_some());
    }

    #[tokio::test]
    async fn a_process_that_takes_nothing_does_not_keep_the_other_from_its_work() {
        let (former, new) = pair();
        for _ in 0..10_000 {
            assert!(former.pass("udp:*:443", datagram(1472)).is_none());
        }
        assert!(new.next().await.is_some());
    }

    #[tokio::test]
    async fn malformed_and_long_messages_are_passed_over() {
        let (former, new) = pair();
        packet::send(&former.socket, b"\xff", &[]).unwrap();
        packet::send(&former.socket, &[1; MAX_MESSAGE + 1], &[]).unwrap();
        assert!(former.pass("udp:*:443", datagram(1473)).is_none());
        assert!(former.pass("udp:*:443", datagram(20)).is_none());
        assert_eq!(new.next().await.unwrap().1.data.len(), 20);
        drop(former);
        assert!(new.next().await.is_none());
    }
}
