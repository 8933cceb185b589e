//! The PROXY protocol, versions 1 and 2: a header with the client's address that a load balancer
//! sends before the client's first byte (haproxy.org, proxy-protocol.txt).
//!
//! A header is read completely or not at all, and no byte after it is consumed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// First bytes of a version 2 header.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Transport protocols of version 2.
const TCP: u8 = 1;
const UDP: u8 = 2;

/// Maximum length of a header of version 1, in bytes.
const MAX_TEXT_BYTES: usize = 107;

/// Maximum length of the variable part of version 2, in bytes. Load balancers send some hundred.
const MAX_BINARY_BYTES: usize = 4096;

/// Maximum length of a header, in bytes.
pub const MAX_HEADER_BYTES: usize = 16 + MAX_BINARY_BYTES;

/// Contents of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Address of the client, and the address that it connected to; `None` for a connection of the
    /// load balancer itself, or if the client is unknown.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The client's connection to the load balancer uses TLS.
    pub tls: bool,
}

/// Version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
    /// Version 2, in front of a datagram.
    V2Datagram,
}

/// Error: the connection does not begin with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl Header {
    /// Decodes the header at the start of `input`. Returns it and its length; `None` if more bytes
    /// are needed.
    pub fn read(input: &[u8]) -> Result<Option<(Header, usize)>, Malformed> {
        let common = input.len().min(SIGNATURE.len());
        if input.get(..common) == SIGNATURE.get(..common) && input.first() != Some(&b'P') {
            return binary(input);
        }
        text(input)
    }

    /// Appends a header.
    pub fn write(&self, version: Version, out: &mut Vec<u8>) {
        match version {
            Version::V1 => self.write_text(out),
            Version::V2 => self.write_binary(TCP, out),
            Version::V2Datagram => self.write_binary(UDP, out),
        }
    }

    fn write_text(&self, out: &mut Vec<u8>) {
        let line = match self.pair() {
            None => "PROXY UNKNOWN\r\n".to_owned(),
            Some((from, to)) => {
                let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
                let (source, target) = (from.ip(), to.ip());
                format!("PROXY {family} {source} {target} {} {}\r\n", from.port(), to.port())
            }
        };
        out.extend_from_slice(line.as_bytes());
    }

    fn write_binary(&self, transport: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(SIGNATURE);
        let Some((from, to)) = self.pair() else {
            return out.extend_from_slice(&[0x20, 0, 0, 0]); // of the balancer itself
        };
        let (family, mut bytes) = (if from.is_ipv4() { 0x10 } else { 0x20 }, Vec::new());
        for ip in [from.ip(), to.ip()] {
            match ip {
                IpAddr::V4(v4) => bytes.extend_from_slice(&v4.octets()),
                IpAddr::V6(v6) => bytes.extend_from_slice(&v6.octets()),
            }
        }
        for port in [from.port(), to.port()] {
            bytes.extend_from_slice(&port.to_be_bytes());
        }
        out.extend_from_slice(&[0x21, family | transport, 0, bytes.len() as u8]); // 12 or 36
        out.extend_from_slice(&bytes);
    }

    /// Returns both addresses in the same family.
    fn pair(&self) -> Option<(SocketAddr, SocketAddr)> {
        let (from, to) = self.addresses?;
        let (short, long) = (from.ip().to_canonical(), to.ip().to_canonical());
        if short.is_ipv4() && long.is_ipv4() {
            return Some((SocketAddr::new(short, from.port()), SocketAddr::new(long, to.port())));
        }
        let wide = |address: SocketAddr| match address.ip() {
            IpAddr::V4(v4) => SocketAddr::new(v4.to_ipv6_mapped().into(), address.port()),
            IpAddr::V6(_) => address,
        };
        Some((wide(from), wide(to)))
    }
}

fn text(input: &[u8]) -> Result<Option<(Header, usize)>, Malformed> {
    const START: &[u8] = b"PROXY ";
    let common = input.len().min(START.len());
    if input.get(..common) != START.get(..common) {
        return Err(Malformed);
    }
    let line = input.get(..input.len().min(MAX_TEXT_BYTES)).unwrap_or_default();
    let Some(end) = line.windows(2).position(|two| two == b"\r\n") else {
        return if line.len() == MAX_TEXT_BYTES { Err(Malformed) } else { Ok(None) };
    };
    let line = line.get(START.len()..end).ok_or(Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| Malformed)?;
    let mut words = line.split(' ');
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        return Ok(Some((Header::default(), end + 2)));
    }
    let mut ip = || -> Result<IpAddr, Malformed> {
        let word = words.next().ok_or(Malformed)?;
        match family {
            "TCP4" => word.parse().map(Ipv4Addr::into).map_err(|_| Malformed),
            "TCP6" => word.parse().map(Ipv6Addr::into).map_err(|_| Malformed),
            _ => Err(Malformed),
        }
    };
    let (from, to) = (ip()?, ip()?);
    let mut port = || -> Result<u16, Malformed> {
        let word = words.next().ok_or(Malformed)?;
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_padded = word.len() > 1 && word.starts_with('0');
        if is_number && !is_padded { word.parse().map_err(|_| Malformed) } else { Err(Malformed) }
    };
    let addresses = (SocketAddr::new(from, port()?), SocketAddr::new(to, port()?));
    match words.next() {
        None => Ok(Some((Header { addresses: Some(addresses), tls: false }, end + 2))),
        Some(_) => Err(Malformed),
    }
}

fn binary(input: &[u8]) -> Result<Option<(Header, usize)>, Malformed> {
    let Some([command, family, high, low]) = input.get(12..16) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length > MAX_BINARY_BYTES {
        return Err(Malformed);
    }
    let Some(rest) = input.get(16..16 + length) else { return Ok(None) };
    let header = match command {
        0x20 => Header::default(),
        0x21 => addresses_of(*family, rest)?,
        _ => return Err(Malformed),
    };
    Ok(Some((header, 16 + length)))
}

fn addresses_of(family: u8, rest: &[u8]) -> Result<Header, Malformed> {
    let port = |at: usize| {
        rest.get(at..at + 2).and_then(|two| two.try_into().ok()).map(u16::from_be_bytes)
    };
    let v4 = |at: usize| {
        let octets: Option<[u8; 4]> = rest.get(at..at + 4).and_then(|four| four.try_into().ok());
        octets.map(|octets| IpAddr::from(Ipv4Addr::from(octets)))
    };
    let v6 = |at: usize| {
        let octets: Option<[u8; 16]> = rest.get(at..at + 16).and_then(|all| all.try_into().ok());
        octets.map(|octets| IpAddr::from(Ipv6Addr::from(octets)))
    };
    let (found, used) = match family {
        0x11 => ((v4(0), v4(4), port(8), port(10)), 12),
        0x21 => ((v6(0), v6(16), port(32), port(34)), 36),
        // The client's address is unknown for another family or protocol.
        _ => return Ok(Header::default()),
    };
    let (Some(from), Some(to), Some(from_port), Some(to_port)) = found else {
        return Err(Malformed);
    };
    let addresses = (SocketAddr::new(from, from_port), SocketAddr::new(to, to_port));
    let tls = read_extensions(rest.get(used..).unwrap_or_default())?;
    Ok(Header { addresses: Some(addresses), tls })
}

/// Decodes the extensions after the addresses. Returns true if the client uses TLS.
fn read_extensions(mut rest: &[u8]) -> Result<bool, Malformed> {
    const SSL: u8 = 0x20;
    let mut tls = false;
    while let [kind, high, low, more @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (value, after) = more.split_at_checked(length).ok_or(Malformed)?;
        tls |= *kind == SSL && value.first().is_some_and(|client| client & 1 != 0);
        rest = after;
    }
    if rest.is_empty() { Ok(tls) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(from: &str, to: &str) -> Header {
        let addresses = Some((from.parse().unwrap(), to.parse().unwrap()));
        Header { addresses, tls: false }
    }

    #[test]
    fn headers_of_both_versions_are_read() {
        let v4 = header("192.0.2.1:1000", "198.51.100.1:443");
        let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 1000 443\r\nGET /";
        assert_eq!(Header::read(line), Ok(Some((v4, line.len() - 5))));
        let v6 = header("[2001:db8::1]:1", "[2001:db8::2]:65535");
        let line = b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n";
        assert_eq!(Header::read(line), Ok(Some((v6, line.len()))));
        for line in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n"] {
            assert_eq!(Header::read(line.as_bytes()), Ok(Some((Header::default(), line.len()))));
        }
        let mut binary = Vec::new();
        v4.write(Version::V2, &mut binary);
        // A client with TLS, and an unknown extension.
        binary.extend_from_slice(&[0x20, 0, 5, 1, 0, 0, 0, 0, 0xee, 0, 1, 9]);
        binary[15] += 12;
        let told = Header { tls: true, ..v4 };
        assert_eq!(Header::read(&binary), Ok(Some((told, binary.len()))));
        let mut datagram = Vec::new();
        v6.write(Version::V2Datagram, &mut datagram);
        assert_eq!(datagram[12..16], [0x21, 0x22, 0, 36]);
        let unix = [&SIGNATURE[..], &[0x21, 0x31, 0, 216], &[0; 216]].concat();
        assert_eq!(Header::read(&unix), Ok(Some((Header::default(), 232))));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "PROXY\r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
            "PROXY TCP4 ::1 ::2 1 2\r\n",
            "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
            "PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n\r\n",
            "proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
        ] {
            assert_eq!(Header::read(line.as_bytes()), Err(Malformed), "{line}");
        }
        let endless = [&b"PROXY TCP6 "[..], &[b'1'; 200]].concat();
        assert_eq!(Header::read(&endless), Err(Malformed));
        for rest in [&[0x31, 0x11, 0, 12][..], &[0x22, 0x11, 0, 12], &[0x21, 0x11, 0xff, 0xff]] {
            let input = [&SIGNATURE[..], rest, &[0; 12]].concat();
            assert_eq!(Header::read(&input), Err(Malformed));
        }
        let short = [&SIGNATURE[..], &[0x21, 0x11, 0, 4], &[0; 4]].concat();
        assert_eq!(Header::read(&short), Err(Malformed));
        let cut = [&SIGNATURE[..], &[0x21, 0x11, 0, 14], &[0; 14]].concat();
        assert_eq!(Header::read(&cut), Err(Malformed));
    }

    #[test]
    fn a_header_has_a_length_up_to_its_limit() {
        assert_eq!(MAX_HEADER_BYTES, 4112);
        let whole = |length: usize| {
            let [high, low] = (length as u16).to_be_bytes();
            Header::read(&[&SIGNATURE[..], &[0x20, 0, high, low], &vec![0; length]].concat())
        };
        assert_eq!(whole(4096), Ok(Some((Header::default(), MAX_HEADER_BYTES))));
        assert_eq!(whole(4097), Err(Malformed));
        for (length, is_good) in [(MAX_TEXT_BYTES, true), (MAX_TEXT_BYTES + 1, false)] {
            let filler = "x".repeat(length - "PROXY UNKNOWN \r\n".len());
            let read = Header::read(format!("PROXY UNKNOWN {filler}\r\n").as_bytes());
            assert_eq!(read.is_ok(), is_good, "{length}");
        }
        let port_zero = b"PROXY TCP4 1.2.3.4 1.2.3.4 0 2\r\n";
        assert!(matches!(Header::read(port_zero), Ok(Some(_))));
    }

    #[test]
    fn only_the_client_bit_of_the_tls_extension_says_that_the_client_has_tls() {
        let tls = |extension: &[u8]| {
            let addresses = [1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2];
            let length = (addresses.len() + extension.len()) as u8;
            let start = [0x21, 0x11, 0, length];
            let input = [&SIGNATURE[..], &start, &addresses, extension].concat();
            Header::read(&input).map(|found| found.unwrap().0.tls)
        };
        assert_eq!((tls(&[]), tls(&[0x20, 0, 1, 1])), (Ok(false), Ok(true)));
        assert_eq!((tls(&[0x20, 0, 1, 3]), tls(&[0x20, 0, 1, 2])), (Ok(true), Ok(false)));
        assert_eq!((tls(&[0x21, 0, 1, 1]), tls(&[0x20, 0, 0])), (Ok(false), Ok(false)));
        assert_eq!(tls(&[0x20, 0, 1, 1, 0x04, 0, 1, 0]), Ok(true));
        assert_eq!((tls(&[0x20]), tls(&[0x20, 0, 2, 1])), (Err(Malformed), Err(Malformed)));
    }

    fn address() -> impl Strategy<Value = SocketAddr> {
        let v4 = any::<([u8; 4], u16)>().prop_map(SocketAddr::from);
        let v6 = any::<([u16; 8], u16)>().prop_map(SocketAddr::from);
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(from in address(), to in address(), binary: bool) {
            let told = Header { addresses: Some((from, to)), tls: false };
            let mut bytes = Vec::new();
            told.write(if binary { Version::V2 } else { Version::V1 }, &mut bytes);
            let length = bytes.len();
            for cut in 0..length {
                prop_assert_eq!(Header::read(&bytes[..cut]), Ok(None));
            }
            bytes.extend_from_slice(b"GET / HTTP/1.1");
            let expected = Header { addresses: told.pair(), tls: false };
            prop_assert_eq!(Header::read(&bytes), Ok(Some((expected, length))));
        }

        #[test]
        fn no_bytes_are_too_many(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..5000),
            binary: bool,
        ) {
            let start: &[u8] = if binary { SIGNATURE } else { b"PROXY " };
            let common = bytes.len().min(start.len());
            bytes[..common].copy_from_slice(&start[..common]);
            if let Ok(Some((_, length))) = Header::read(&bytes) {
                prop_assert!(length <= bytes.len() && length <= MAX_HEADER_BYTES);
                prop_assert_eq!(Header::read(&bytes[..length]), Header::read(&bytes));
            }
        }
    }
}
