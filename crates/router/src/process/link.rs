//! The router's end of the socket to the supervisor.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};

use howdah_sys::packets::Packets;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};

/// A message and its descriptors.
pub(super) type Message = (FromSupervisor, Vec<OwnedFd>);

/// The socket to the supervisor.
#[derive(Debug)]
pub(super) struct Link {
    packets: Packets,
    /// Messages that were received while another one was awaited.
    postponed: RefCell<VecDeque<Message>>,
}

impl Link {
    /// Takes over the socket.
    pub(super) fn new(socket: OwnedFd) -> std::io::Result<Self> {
        Ok(Link { packets: Packets::new(socket)?, postponed: RefCell::default() })
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &ToSupervisor) -> std::io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends a message with descriptors. The supervisor reads without delay; if its socket is full
    /// for a moment, no task of this thread can continue without the message.
    pub(super) fn send_with(
        &self,
        message: &ToSupervisor,
        descriptors: &[BorrowedFd<'_>],
    ) -> std::io::Result<()> {
        self.packets.send(&message.encode(), descriptors)
    }

    /// Keeps a message that cannot be handled now for [`Link::receive`].
    pub(super) fn postpone(&self, message: FromSupervisor, descriptors: Vec<OwnedFd>) {
        self.postponed.borrow_mut().push_back((message, descriptors));
    }

    /// Waits for the next message; returns `None` when the supervisor has gone. Safe to cancel.
    pub(super) async fn receive(&self) -> std::io::Result<Option<Message>> {
        let postponed = self.postponed.borrow_mut().pop_front();
        match postponed {
            Some(message) => Ok(Some(message)),
            None => self.receive_new().await,
        }
    }

    /// Waits for the next message that has not been postponed. Safe to cancel.
    pub(super) async fn receive_new(&self) -> std::io::Result<Option<Message>> {
        let Some((packet, descriptors)) = self.packets.receive().await? else { return Ok(None) };
        let message = FromSupervisor::decode(&packet)
            .map_err(|_| std::io::Error::other("the supervisor sent a malformed message"))?;
        Ok(Some((message, descriptors)))
    }
}
