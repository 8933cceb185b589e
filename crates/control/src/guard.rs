//! Access control of the API.
//!
//! Any web page can make a browser send requests to the machine that it runs on and, with DNS
//! rebinding, read the responses. Clients of this API are no browsers, so over TCP header fields
//! that only browsers send are refused, and host names other than this machine's. Browsers cannot
//! reach a unix socket.
//!
//! Over TCP, every process of the machine can connect, scripts of the sites included, so requests
//! must carry a token. Abstract unix sockets have no permissions either. If there is a token, it is
//! required on all sockets.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::refusal::Refusal;
use crate::token::Token;

/// The transport of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Over TCP, from a loopback address.
    Tcp,
    /// Over a unix socket, whose permissions control access.
    Unix,
}

/// Returns true if a control API at this address needs a token: over TCP, and on abstract unix
/// sockets.
pub fn needs_token(address: &str) -> bool {
    !address.starts_with("unix:") || address.starts_with("unix:@")
}

/// Refuses a request that a browser may have sent, and one without the token. Over TCP, all
/// requests are refused if there is no token. `fields` are names and values of the header; the
/// authority of a target in absolute form must come among them, as the value of `host`.
pub fn guard<'a>(
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    transport: Transport,
    token: Option<&Token>,
) -> Result<(), Refusal> {
    let mut authorizations = (0, 0);
    for (name, value) in fields {
        if name.eq_ignore_ascii_case(b"authorization") {
            authorizations.0 += 1;
            authorizations.1 += usize::from(token.is_some_and(|token| token.authorizes(value)));
        }
        if transport == Transport::Unix {
            continue;
        }
        if name.eq_ignore_ascii_case(b"origin") {
            return Err(Refusal::FromBrowser { field: "Origin" });
        }
        if name.get(..SEC_FETCH.len()).is_some_and(|start| start.eq_ignore_ascii_case(SEC_FETCH)) {
            return Err(Refusal::FromBrowser { field: "Sec-Fetch" });
        }
        if name.eq_ignore_ascii_case(b"host") && !is_this_machine(value) {
            return Err(Refusal::ForeignHost);
        }
    }
    let is_open = transport == Transport::Unix && token.is_none();
    // Exactly one field: of two, a program in between may have read the other.
    if is_open || authorizations == (1, 1) { Ok(()) } else { Err(Refusal::Unauthorized) }
}

/// Returns true if a host, with or without a port, is a name of the loopback interface that cannot
/// belong to another machine. The port is not compared: it does not identify the client and differs
/// behind a tunnel.
pub fn is_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let is_loopback = address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback());
            return is_loopback && is_port(port);
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_loopback = || name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback());
    (name.eq_ignore_ascii_case("localhost") || is_loopback()) && is_port(port)
}

/// Returns true if the text behind a host is empty or a port.
fn is_port(text: &str) -> bool {
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    text.is_empty() || text.strip_prefix(':').is_some_and(digits)
}

const SEC_FETCH: &[u8] = b"sec-fetch-";

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::parse(b"0123456789abcdef").unwrap()
    }

    fn check(name: &str, value: &str, transport: Transport) -> Result<(), Refusal> {
        let host: (&[u8], &[u8]) = (b"host", b"localhost:8000");
        let authorization: (&[u8], &[u8]) = (b"Authorization", b"Bearer 0123456789abcdef");
        let fields = [host, (name.as_bytes(), value.as_bytes())];
        match transport {
            Transport::Tcp => {
                guard([fields[0], fields[1], authorization], transport, Some(&token()))
            }
            Transport::Unix => guard(fields, transport, None),
        }
    }

    #[test]
    fn a_request_without_the_token_is_refused() {
        let good: (&[u8], &[u8]) = (b"authorization", b"Bearer 0123456789abcdef");
        let wrong: (&[u8], &[u8]) = (b"authorization", b"Bearer 0123456789abcdeg");
        let token = token();
        for transport in [Transport::Tcp, Transport::Unix] {
            assert_eq!(guard([good], transport, Some(&token)), Ok(()));
            for fields in [&[][..], &[wrong], &[good, wrong], &[wrong, good], &[good, good]] {
                let refused = guard(fields.iter().copied(), transport, Some(&token));
                assert_eq!(refused, Err(Refusal::Unauthorized), "{fields:?}");
            }
        }
        assert_eq!(guard([], Transport::Unix, None), Ok(()));
        assert_eq!(guard([good], Transport::Tcp, None), Err(Refusal::Unauthorized), "never open");
    }

    #[test]
    fn sockets_without_permissions_need_a_token() {
        for open in ["127.0.0.1:8000", "[::1]:8000", "unix:@howdah", "localhost:80"] {
            assert!(needs_token(open), "{open}");
        }
        assert!(!needs_token("unix:/run/howdah/control.sock"));
    }

    #[test]
    fn requests_of_browsers_are_refused_on_tcp() {
        for (name, value) in [
            ("Origin", "http://localhost:8000"),
            ("origin", "null"),
            ("Sec-Fetch-Mode", "no-cors"),
            ("sec-fetch-site", "same-origin"),
            ("SEC-FETCH-DEST", "image"),
        ] {
            assert!(check(name, value, Transport::Tcp).is_err(), "{name}: {value}");
            assert_eq!(check(name, value, Transport::Unix), Ok(()));
        }
        assert_eq!(check("Accept", "*/*", Transport::Tcp), Ok(()));
        assert_eq!(check("Sec-Fetch", "", Transport::Tcp), Ok(()));
    }

    #[test]
    fn a_host_that_is_not_this_machine_is_refused_on_tcp() {
        for host in ["localhost", "LocalHost:8000", "127.0.0.1:9", "127.1.2.3", "[::1]", "[::1]:80"]
        {
            assert_eq!(check("Host", host, Transport::Tcp), Ok(()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "localhost:80:80",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "evil.example@localhost",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "[::2]:80",
            "[::1]x",
            "[::1",
            "::1",
            "127.1",
            "2130706433",
            "localhost:port",
            "localhost ",
            "[::1]:80:80",
            "[127.0.0.1]",
        ] {
            assert_eq!(check("hOST", host, Transport::Tcp), Err(Refusal::ForeignHost), "{host}");
            assert_eq!(check("host", host, Transport::Unix), Ok(()));
        }
    }
}
