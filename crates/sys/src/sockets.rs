//! Options of listening sockets that have no safe wrapper elsewhere.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Delays accepting a connection until its first bytes have arrived, or for about a second
/// (`TCP_DEFER_ACCEPT`). The first read then finds the request, and a client that only connects
/// costs nothing meanwhile. NGINX Unit sets this option too; in nginx it is `listen … deferred`.
pub fn defer_accept(socket: impl AsFd) -> io::Result<()> {
    let seconds: libc::c_int = 1;
    // SAFETY: the descriptor is open for the call, and the kernel reads one `c_int` at the address.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
