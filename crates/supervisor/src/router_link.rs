//! The socket between a router and the one that it replaces
//! ([`ToFormerRouter`](howdah_wire::messages::ToFormerRouter)).

use std::io;
use std::os::fd::OwnedFd;

use howdah_sys::packet;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force};

/// Size of the buffer for the datagrams that a router passes to the former one.
const BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Creates the socket. Returns the ends of the new router and of the former one.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (new, former) = packet::pair()?;
    // An optimisation, so failures are ignored. The larger size needs a privilege.
    let _ = set_socket_send_buffer_size(&new, BUFFER_BYTES);
    let _ = set_socket_send_buffer_size_force(&new, BUFFER_BYTES);
    Ok((new, former))
}
