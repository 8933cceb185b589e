//! Keys of requests: the text that a rule counts by, and its hash.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::LazyLock;
use std::time::Instant;

use howdah_config::{Template, Variable};
use howdah_http::message::Request;
use howdah_http::variables::VariableSource;

/// Hash of a key.
pub type KeyHash = NonZero<u64>;

/// Maximum number of bytes of a key that are kept for people to read.
const MAX_SHOWN_BYTES: usize = 100;

/// Hashes a key with the process's random seed (SipHash). Clients cannot find keys with the same
/// hash, or keys of the same bucket of a table.
pub fn hash(key: &[u8]) -> KeyHash {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    NonZero::new(SEED.hash_one(key)).unwrap_or(NonZero::<u64>::MIN)
}

/// Writes the key of a request into `out`, which is cleared; without a template that of its client.
/// An empty key is none: its request is not counted, as in nginx.
pub fn write(
    template: Option<&Template>,
    request: &Request,
    started_at: Instant,
    out: &mut Vec<u8>,
) {
    out.clear();
    let Some(template) = template else {
        return write_client(request.connection.peer.map(|peer| peer.ip()), out);
    };
    let source = VariableSource::of(request, started_at);
    template.expand(out, |variable, out| match variable {
        Variable::RemoteAddress => write_client(request.connection.peer.map(|peer| peer.ip()), out),
        variable => {
            source.write(variable, out);
        }
    });
}

/// Appends a client: its IPv4 address, or the /64 of its IPv6 address, which one client has as a
/// whole (RFC 6177). Clients of a Unix socket are one client.
pub fn write_client(address: Option<IpAddr>, out: &mut Vec<u8>) {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match address.map(|address| address.to_canonical()) {
        None => write!(text, "unix:"),
        Some(IpAddr::V4(address)) => write!(text, "{address}"),
        Some(IpAddr::V6(address)) => {
            let network = std::net::Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
            write!(text, "{network}/64")
        }
    };
    out.extend_from_slice(text.as_bytes());
}

/// Returns a key for people to read: without control characters, shortened.
pub fn shown(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key.get(..MAX_SHOWN_BYTES).unwrap_or(key));
    let mut shown: String =
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if key.len() > MAX_SHOWN_BYTES {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> String {
        let mut out = Vec::new();
        write_client(address.parse().ok(), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn an_ipv6_client_is_its_network() {
        assert_eq!(client("192.0.2.7"), "192.0.2.7");
        assert_eq!(client("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(client("2001:db8:1:2::"), client("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(client("2001:db8:1:2::"), client("2001:db8:1:3::"));
        assert_eq!(client("unix:"), "unix:");
    }

    #[test]
    fn a_template_of_the_address_is_the_client_too() {
        let template = Template::parse("$host $remote_addr").expect("valid");
        let mut request = howdah_http::fixture::request("/", &[]);
        let mut connection = (*request.connection).clone();
        connection.peer = "[2001:db8::1]:80".parse().ok();
        request.connection = connection.into();
        let mut out = b"left over".to_vec();
        write(Some(&template), &request, Instant::now(), &mut out);
        let host = String::from_utf8_lossy(&request.host);
        assert_eq!(String::from_utf8_lossy(&out), format!("{host} 2001:db8::/64"));
    }

    #[test]
    fn a_shown_key_is_short_and_on_one_line() {
        assert_eq!(shown(b"a\nb\x1b[0m\xff"), "a\u{fffd}b\u{fffd}[0m\u{fffd}");
        assert_eq!(shown(&[b'x'; 1000]).chars().count(), MAX_SHOWN_BYTES + 1);
    }
}
