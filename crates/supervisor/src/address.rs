//! Addresses of listeners.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// Begins the addresses of sockets for datagrams.
const UDP: &str = "udp:";

/// Returns true for the address of a socket for datagrams.
pub(crate) fn is_udp(address: &str) -> bool {
    address.starts_with(UDP)
}

/// Parses an address of TCP or UDP; `None` for other addresses.
pub(crate) fn parse(address: &str) -> Option<SocketAddr> {
    let address = address.strip_prefix(UDP).unwrap_or(address);
    if let Some(port) = address.strip_prefix("*:") {
        return Some(SocketAddr::from(([0, 0, 0, 0], port.parse().ok()?)));
    }
    address.parse().ok().or_else(|| {
        let (host, port) = address.rsplit_once(':')?;
        let host: Ipv6Addr = host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
        Some(SocketAddr::new(IpAddr::V6(host), port.parse().ok()?))
    })
}

/// Returns the path of a unix socket that has one.
pub(super) fn file_of(address: &str) -> Option<&Path> {
    let path = address.strip_prefix("unix:").filter(|path| !path.starts_with('@'));
    path.map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_kind_are_read() {
        assert_eq!(parse("*:80").unwrap().to_string(), "0.0.0.0:80");
        assert_eq!(parse("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert_eq!(parse("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(parse("localhost"), None);
        assert_eq!(parse("udp:*:53").unwrap().to_string(), "0.0.0.0:53");
        assert!(is_udp("udp:*:53") && !is_udp("*:53"));
    }
}
