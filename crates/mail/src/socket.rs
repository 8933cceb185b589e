//! The socket to the supervisor.

use std::io;
use std::os::fd::OwnedFd;

use howdah_sys::packet::{self, Received};
use howdah_sys::reactor;
use howdah_wire::messages::{FromMail, MAX_MESSAGE, ToMail};
use tokio::io::unix::AsyncFd;

/// The socket to the supervisor.
#[derive(Debug)]
pub(crate) struct Socket(pub(crate) AsyncFd<OwnedFd>);

impl Socket {
    /// Takes the socket that the supervisor has passed.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Socket> {
        let flags = rustix::fs::fcntl_getfl(&socket)?;
        rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Socket(reactor::readable(socket)?))
    }

    /// Waits for a message; returns `None` when the other end is closed. Safe to cancel.
    pub(crate) async fn receive(&self) -> io::Result<Option<(ToMail, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.0.readable().await?;
            let (received, message) = packet::receive_next(self.0.get_ref(), MAX_MESSAGE)?;
            match received {
                Received::Empty => ready.clear_ready(),
                Received::Closed => return Ok(None),
                Received::Packet(_, descriptors) => {
                    let message = ToMail::decode(&message)
                        .map_err(|_| io::Error::other("the supervisor's message is malformed"))?;
                    return Ok(Some((message, descriptors)));
                }
            }
        }
    }

    /// Sends a message. The supervisor reads all of them; a full socket means that it has ended.
    pub(crate) fn send(&self, message: &FromMail) -> io::Result<()> {
        match packet::send(self.0.get_ref(), &message.encode(), &[]) {
            Err(rustix::io::Errno::PIPE) => Ok(()),
            result => Ok(result?),
        }
    }
}
