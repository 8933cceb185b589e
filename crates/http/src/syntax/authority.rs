//! The host of a request, in `Host` or in the authority of a target.

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::ops::Range;

use howdah_text::percent;

/// Returns the range of the host within `authority`, without port and without the dot that may end
/// a name. `None` if the authority is not `uri-host [ ":" port ]` (RFC 9110, 7.2).
///
/// The host of an empty authority is empty. User information, percent signs, bytes outside ASCII
/// and empty labels within a name are refused, since programs read them in different ways. Unless
/// `strict` is set, a host that Unit accepts is accepted as well, except bytes that could change
/// the meaning of a file name or end a line. [`to_valid_authority`] makes an accepted authority
/// valid.
pub fn host(authority: &[u8], strict: bool) -> Option<Range<usize>> {
    if authority.is_empty() {
        return Some(0..0);
    }
    exact(authority).or_else(|| if strict { None } else { lenient(authority) })
}

/// Returns the valid authority that scripts and upstream servers get in place of one that only a
/// lenient reading accepts, so that none of them reads another host: the host, percent-encoded
/// where a name cannot have the byte, and the port if it is valid. `None` for all other
/// authorities, which are passed on unchanged.
pub fn to_valid_authority(authority: &[u8]) -> Option<Vec<u8>> {
    if authority.is_empty() || exact(authority).is_some() {
        return None;
    }
    let host = lenient(authority)?;
    let rest = authority.get(host.end..).unwrap_or_default();
    let mut out = encoded(authority.get(host)?).into_owned();
    let port = rest.strip_prefix(b".").unwrap_or(rest);
    if !out.is_empty() && is_port(port) {
        out.extend_from_slice(port);
    }
    Some(out)
}

/// Percent-encodes the bytes of a host that a name cannot have.
pub fn encoded(host: &[u8]) -> Cow<'_, [u8]> {
    if host.is_empty() || exact(host).is_some() {
        return Cow::Borrowed(host);
    }
    let mut out = Vec::with_capacity(3 * host.len());
    percent::encode(host, |byte| is_of_name(&byte), &mut out);
    Cow::Owned(out)
}

/// Returns the range of the host if the authority is valid.
fn exact(authority: &[u8]) -> Option<Range<usize>> {
    let (end, port) = if authority.first() == Some(&b'[') {
        let close = memchr::memchr(b']', authority)?;
        std::str::from_utf8(authority.get(1..close)?).ok()?.parse::<Ipv6Addr>().ok()?;
        (close + 1, authority.get(close + 1..)?)
    } else {
        let end = memchr::memchr(b':', authority).unwrap_or(authority.len());
        (name_len(authority.get(..end)?)?, authority.get(end..)?)
    };
    (port.is_empty() || is_port(port)).then_some(0..end)
}

/// Returns true for a colon that is followed by a port number or by the end.
fn is_port(text: &[u8]) -> bool {
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0u32, |number, byte| {
            let digit = (*byte as char).to_digit(10)?;
            Some(number * 10 + digit).filter(|number| *number <= 65535)
        })
    };
    text.strip_prefix(b":").and_then(number).is_some()
}

/// Returns the range of the host that Unit reads. Equal to [`exact`] for valid authorities.
fn lenient(authority: &[u8]) -> Option<Range<usize>> {
    let illegal = |byte: &u8| matches!(byte, 0..=b' ' | b'/' | 0x7f);
    if authority.iter().any(illegal) || authority.windows(2).any(|pair| pair == b"..") {
        return None;
    }
    let literal = memchr::memchr(b']', authority).filter(|_| authority.first() == Some(&b'['));
    let port = memchr::memchr(b':', authority);
    let host = &authority[..literal.map(|end| end + 1).or(port).unwrap_or(authority.len())];
    Some(0..host.strip_suffix(b".").unwrap_or(host).len())
}

/// Returns the length of a name without the dot that may end it; `None` if it is not a name.
fn name_len(name: &[u8]) -> Option<usize> {
    if !name.iter().all(is_of_name) || name.windows(2).any(|pair| pair == b"..") {
        return None;
    }
    let len = name.strip_suffix(b".").unwrap_or(name).len();
    (len > 0).then_some(len)
}

/// Returns true if a name may have this byte unencoded (RFC 3986, 3.2.2).
fn is_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'')
        || matches!(byte, b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(authority: &str) -> Option<&str> {
        host(authority.as_bytes(), true).map(|range| &authority[range])
    }

    #[test]
    fn a_host_is_read_without_port_and_final_dot() {
        for (authority, expected) in [
            ("example.com", "example.com"),
            ("example.com.", "example.com"),
            ("example.com:", "example.com"),
            ("EXAMPLE.com.:8080", "EXAMPLE.com"),
            ("127.0.0.1:65535", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[::ffff:1.2.3.4]:80", "[::ffff:1.2.3.4]"),
            ("", ""),
        ] {
            assert_eq!(read(authority), Some(expected), "{authority:?}");
        }
    }

    #[test]
    fn a_lenient_reading_takes_any_characters_but_not_where_they_lead_elsewhere() {
        let read = |authority: &'static str| {
            host(authority.as_bytes(), false).map(|range| &authority[range])
        };
        for (authority, expected) in [
            ("example.com.:80", "example.com"),
            ("#foo?bar", "#foo?bar"),
            ("a@b:x", "a@b"),
            ("a%2e%2e:99999:1", "a%2e%2e"),
            ("\u{e9}.", "\u{e9}"),
            ("[::1]:x", "[::1]"),
            ("[g", "[g"),
            (".", ""),
        ] {
            assert_eq!(read(authority), Some(expected), "{authority:?}");
        }
        for authority in ["a/b", "..", "a..b", "a:..", " ", "a b", "a\t", "a\0", "a\u{7f}"] {
            assert_eq!(read(authority), None, "{authority:?}");
        }
    }

    #[test]
    fn what_only_a_lenient_reading_takes_is_passed_on_as_the_host_that_was_read() {
        for (authority, expected) in [
            ("secret.test:x@evil", "secret.test"),
            ("Secret.test.:80:81", "Secret.test"),
            ("a@b", "a%40b"),
            ("a@b:80", "a%40b:80"),
            ("u:p@b", "u"),
            ("a\\b", "a%5Cb"),
            ("a?b#c", "a%3Fb%23c"),
            ("a%2eb", "a%252eb"),
            ("\u{e9}.:8080", "%C3%A9:8080"),
            ("[::1]:x", "[::1]"),
            ("[::1", "%5B"),
            ("[g:h]:1", "%5Bg%3Ah%5D:1"),
            (":80", ""),
            (".", ""),
        ] {
            let valid = to_valid_authority(authority.as_bytes())
                .map(|valid| String::from_utf8(valid).unwrap());
            assert_eq!(valid.as_deref(), Some(expected), "{authority:?}");
        }
        for legal in ["", "a", "A.:80", "a:", "[::1]", "127.0.0.1:65535", "a,b"] {
            assert_eq!(to_valid_authority(legal.as_bytes()), None, "{legal:?}");
        }
    }

    #[test]
    fn junk_is_no_host() {
        let junk = ":80 . a..b a@b a:b@c a/b a:80x a:-1 a:65536 a:1:2 a%2eb a\u{e9} a?b a#b a\\b \
                    <a> [::1 [::1]x [] [g] [::1%25eth0] [::1]:x [1.2] [::1::2] [1:2:3:4:5:6:7:8:9]";
        for authority in junk.split_whitespace().chain([" ", "a b", "a: 80", "a\t"]) {
            assert_eq!(read(authority), None, "{authority:?}");
        }
    }
}
