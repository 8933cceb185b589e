//! Options and states of sockets that have no safe wrapper elsewhere.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Returns the number of bytes that were written to a socket and that its peer has not taken yet
/// (`SIOCOUTQ`). For a unix socket, pieces that the peer has read in part count as a whole, with
/// the kernel's overhead for them.
pub fn unsent(socket: impl AsFd) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is open for the call, and the kernel writes one `c_int` at the
    // address.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if result == 0 {
        Ok(usize::try_from(count).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Delays accepting a connection until its first bytes have arrived, or for about a second
/// (`TCP_DEFER_ACCEPT`), or no longer does so. The first read then finds the request, and a client
/// that only connects has no cost meanwhile. NGINX Unit sets this option too; in nginx it is
/// `listen … deferred`.
pub fn defer_accept(socket: impl AsFd, is_deferred: bool) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, is_deferred.into())
}

/// Lets datagrams that are sent on a socket be fragmented on their way, as by default.
pub fn allow_fragments(socket: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT)?;
    if is_ipv6 {
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_WANT)?;
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0)?;
    }
    Ok(())
}

/// Sets an option that is a number.
fn set(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call, and the kernel reads one `c_int` at the address.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_the_peer_has_taken_is_not_unsent() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        assert_eq!(unsent(&near).unwrap(), 0);
        near.write_all(&[0; 1000]).unwrap();
        assert!(unsent(&near).unwrap() >= 1000);
        far.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(unsent(&near).unwrap(), 0);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 65536]).is_ok() {}
        let full = unsent(&near).unwrap();
        assert!(full > 0);
        // Acknowledgements arrive by themselves.
        while unsent(&near).unwrap() == full {
            assert!(far.read(&mut [0; 65536]).unwrap() > 0);
        }
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(unsent(&reader).is_err());
    }
}
