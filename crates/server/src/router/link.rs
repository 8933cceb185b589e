//! The router's end of the socket to the supervisor.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use howdah_sys::packet::{self, Received};
use howdah_sys::reactor;
use howdah_wire::messages::{FromSupervisor, MAX_MESSAGE, ToSupervisor};
use tokio::io::unix::AsyncFd;

/// A message and the descriptors that came with it.
pub(super) type Message = (FromSupervisor, Vec<OwnedFd>);

/// The socket to the supervisor.
#[derive(Debug)]
pub(super) struct Link {
    socket: AsyncFd<OwnedFd>,
    postponed: RefCell<VecDeque<Message>>,
}

impl Link {
    /// Takes the socket over.
    pub(super) fn new(socket: OwnedFd) -> std::io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&socket)?;
        rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Link { socket: reactor::readable(socket)?, postponed: RefCell::default() })
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &ToSupervisor) -> std::io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends a message with descriptors.
    pub(super) fn send_with(
        &self,
        message: &ToSupervisor,
        descriptors: &[BorrowedFd<'_>],
    ) -> std::io::Result<()> {
        let packet = message.encode();
        // The supervisor reads without delay; if its socket is full for a moment, waiting for it
        // is right: nothing on this thread can go on without it.
        loop {
            match packet::send(self.socket.get_ref(), &packet, descriptors) {
                Err(rustix::io::Errno::AGAIN) => {
                    let socket = self.socket.get_ref().as_fd();
                    let mut wait = [rustix::event::PollFd::from_borrowed_fd(
                        socket,
                        rustix::event::PollFlags::OUT,
                    )];
                    let _ = rustix::event::poll(&mut wait, None);
                }
                result => return Ok(result?),
            }
        }
    }

    /// Keeps a message that cannot be dealt with now for [`Link::receive`].
    pub(super) fn postpone(&self, message: FromSupervisor, descriptors: Vec<OwnedFd>) {
        self.postponed.borrow_mut().push_back((message, descriptors));
    }

    /// The next message; `None` when the supervisor has gone. Safe to cancel.
    pub(super) async fn receive(&self) -> std::io::Result<Option<Message>> {
        let postponed = self.postponed.borrow_mut().pop_front();
        match postponed {
            Some(message) => Ok(Some(message)),
            None => self.receive_new().await,
        }
    }

    /// The next message that has not been postponed.
    pub(super) async fn receive_new(&self) -> std::io::Result<Option<Message>> {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            let mut ready = self.socket.readable().await?;
            match packet::receive(self.socket.get_ref(), &mut buffer)? {
                Received::Empty => ready.clear_ready(),
                Received::Closed => return Ok(None),
                Received::Packet(length, descriptors) => {
                    let message = FromSupervisor::decode(&buffer[..length]).map_err(|_| {
                        std::io::Error::other("the supervisor sent a malformed message")
                    })?;
                    return Ok(Some((message, descriptors)));
                }
            }
        }
    }
}
