//! Datagram sockets of log servers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_socket, socket_with,
};

/// Connects a socket that does not block to a server, `udp:ADDRESS` or `unix:PATH`. A server of UDP
/// need not be there; that of a unix socket must.
pub fn connect(server: &str) -> io::Result<OwnedFd> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "is no server of a log");
    let open = |family| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(family, SocketType::DGRAM, flags, None)
    };
    if let Some(path) = server.strip_prefix("unix:") {
        let socket = open(AddressFamily::UNIX)?;
        connect_socket(&socket, &SocketAddrUnix::new(path)?)?;
        return Ok(socket);
    }
    let address: SocketAddr =
        server.strip_prefix("udp:").and_then(|text| text.parse().ok()).ok_or_else(invalid)?;
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = open(family)?;
    connect_socket(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_socket_reaches_its_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let name = format!("unix:{}", path.display());
        assert!(connect(&name).is_err(), "nobody is there");
        let server = UnixDatagram::bind(&path).unwrap();
        rustix::io::write(connect(&name).unwrap(), b"line").unwrap();
        let mut line = [0; 8];
        assert_eq!(server.recv(&mut line).unwrap(), 4);
        let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let name = format!("udp:{}", server.local_addr().unwrap());
        rustix::io::write(connect(&name).unwrap(), b"line").unwrap();
        assert_eq!(server.recv(&mut line).unwrap(), 4);
        assert!(connect("/var/log/access.log").is_err());
    }
}
