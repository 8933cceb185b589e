//! Waiting on the worker's socket to the router.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use howdah_sys::packet::{self, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Receives a packet; [`Received::Empty`] if none arrives within `timeout`.
pub fn receive_within(
    socket: &OwnedFd,
    timeout: Duration,
    buffer: &mut [u8],
) -> rustix::io::Result<Received> {
    let timeout =
        Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
        Ok(0) => Ok(Received::Empty),
        _ => packet::receive(socket, buffer),
    }
}

/// Returns true if the peer has closed its end of a socket.
pub fn is_peer_closed(socket: impl AsFd) -> bool {
    let mut ready = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let closed = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    poll(&mut ready, Some(&now)).is_ok_and(|n| n > 0) && ready[0].revents().intersects(closed)
}
