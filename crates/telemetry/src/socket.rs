//! The socket to the supervisor, and those of spans and metrics.

use std::io;
use std::os::fd::OwnedFd;

use howdah_sys::packet::{self, Received};
use howdah_sys::reactor;
use howdah_wire::messages::{MAX_MESSAGE, ToTelemetry};
use tokio::io::unix::AsyncFd;

/// A packet socket of which packets are received.
#[derive(Debug)]
pub(crate) struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    /// Takes a socket that the supervisor has passed.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Socket> {
        let flags = rustix::fs::fcntl_getfl(&socket)?;
        rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Socket(reactor::readable(socket)?))
    }

    /// Waits for a packet; returns `None` when the other end is closed. Safe to cancel.
    pub(crate) async fn receive(&self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.0.readable().await?;
            let (received, packet) = packet::receive_next(self.0.get_ref(), MAX_MESSAGE)?;
            match received {
                Received::Empty => ready.clear_ready(),
                Received::Closed => return Ok(None),
                Received::Packet(_, descriptors) => return Ok(Some((packet, descriptors))),
            }
        }
    }

    /// Receives a packet that is there already.
    pub(crate) fn receive_now(&self) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
        match packet::receive_next(self.0.get_ref(), MAX_MESSAGE) {
            Ok((Received::Packet(_, descriptors), packet)) => Some((packet, descriptors)),
            _ => None,
        }
    }

    /// Waits for a message of the supervisor; returns `None` when it has ended. Safe to cancel.
    pub(crate) async fn message(&self) -> io::Result<Option<(ToTelemetry, Vec<OwnedFd>)>> {
        let Some((packet, descriptors)) = self.receive().await? else { return Ok(None) };
        let message = ToTelemetry::decode(&packet)
            .map_err(|_| io::Error::other("the supervisor's message is malformed"))?;
        Ok(Some((message, descriptors)))
    }
}
