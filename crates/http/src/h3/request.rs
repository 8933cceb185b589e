//! The head and the trailer of a request as HTTP/3 permits them (RFC 9114, 4.2 and 4.3).
//!
//! Here are the rules that HTTP/1 has no words for: pseudo-header fields, and fields that it
//! needs for its connections. All others are those of a head in HTTP/1
//! ([`streams`](crate::streams)).

use bytes::Bytes;
use howdah_text::token::{is_token, is_token_byte};

use super::qpack::Section;
use crate::h1::Refusal;
use crate::h1::head::Head;
use crate::limits::Limits;
use crate::message::Version;
use crate::streams::{RawHead, is_of_connection, read_head};

/// Pseudo-header fields of a request.
#[derive(Debug, Default)]
struct Pseudo<'a> {
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    protocol: Option<&'a [u8]>,
}

/// Reads the head of a request. The second value is its text in HTTP/1, as far as there is one.
pub fn read(section: &Section, limits: &Limits) -> (Result<Head, Refusal>, Bytes) {
    let pseudo = match check(section) {
        Ok(pseudo) => pseudo,
        Err(refusal) => return (Err(refusal), Bytes::new()),
    };
    let fields: Vec<_> = section.iter().filter(|(name, _)| !name.starts_with(b":")).collect();
    let head = RawHead {
        version: Version::Http3,
        method: pseudo.method.unwrap_or_default(),
        is_http: pseudo.scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http")),
        authority: pseudo.authority,
        // CONNECT has none, and is refused.
        path: pseudo.path.unwrap_or(b"/"),
        fields: &fields,
        websocket_key: None,
    };
    let (read, text) = read_head(&head, limits);
    (if pseudo.protocol.is_some() { Err(Refusal::Protocol) } else { read }, text)
}

/// Returns the lines of a trailer; `None` if it is malformed.
pub fn trailer(section: &Section) -> Option<Bytes> {
    let mut lines = Vec::with_capacity(section.bytes() + 4 * section.len());
    for (name, value) in section.iter() {
        if !is_field_name(name) || !is_value(value) || is_forbidden(name, value) {
            return None;
        }
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    Some(lines.into())
}

/// Returns the pseudo-header fields of a request in which all fields are permitted.
fn check(section: &Section) -> Result<Pseudo<'_>, Refusal> {
    let mut pseudo = Pseudo::default();
    let mut has_field = false;
    for (name, value) in section.iter() {
        if !is_value(value) {
            return Err(Refusal::Field);
        }
        let place = match name {
            b":method" => &mut pseudo.method,
            b":scheme" => &mut pseudo.scheme,
            b":authority" => &mut pseudo.authority,
            b":path" => &mut pseudo.path,
            b":protocol" => &mut pseudo.protocol,
            [b':', ..] => return Err(Refusal::Pseudo),
            _ if !is_field_name(name) || is_forbidden(name, value) => return Err(Refusal::Field),
            b"host" if value.is_empty() => return Err(Refusal::Host),
            _ => {
                has_field = true;
                continue;
            }
        };
        if has_field || place.replace(value).is_some() || value.is_empty() {
            return Err(Refusal::Pseudo);
        }
    }
    let is_connect = pseudo.method == Some(b"CONNECT");
    let has_target = pseudo.scheme.is_some() && pseudo.path.is_some();
    let is_complete = match pseudo.protocol {
        // RFC 9114, 4.4, and RFC 9220.
        None if is_connect => {
            pseudo.scheme.is_none() && pseudo.path.is_none() && pseudo.authority.is_some()
        }
        Some(_) => is_connect && has_target,
        None => has_target,
    };
    let is_valid = pseudo.method.is_some_and(is_token)
        && pseudo.scheme.is_none_or(is_scheme)
        && pseudo.path.is_none_or(is_path);
    if is_complete && is_valid { Ok(pseudo) } else { Err(Refusal::Pseudo) }
}

/// Returns true for a name of a field: a token without capital letters.
fn is_field_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte) && !byte.is_ascii_uppercase())
}

/// Returns true if no byte of a value ends a line or a text (RFC 9114, 10.3).
fn is_value(value: &[u8]) -> bool {
    !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// Returns true for fields of a connection (RFC 9114, 4.2).
fn is_forbidden(name: &[u8], value: &[u8]) -> bool {
    is_of_connection(name) || (name == b"te" && !value.eq_ignore_ascii_case(b"trailers"))
}

/// Returns true for a scheme (RFC 3986, 3.1).
fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// Returns true for a path and query, or `*`, as far as HTTP/1 could read them otherwise.
fn is_path(path: &[u8]) -> bool {
    (path.first() == Some(&b'/') || path == b"*")
        && !path.iter().any(|byte| *byte <= b' ' || *byte == 0x7f)
}

#[cfg(test)]
mod tests {
    use super::super::qpack::Decoder;
    use super::*;

    /// Returns fields as they were sent, in literals.
    fn section(fields: &[(&str, &str)]) -> Section {
        let mut bytes = vec![0, 0];
        for (name, value) in fields {
            match name.len() as u8 {
                short @ 0..7 => bytes.push(0x20 | short),
                long => bytes.extend_from_slice(&[0x27, long - 7]),
            }
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(value.len() as u8);
            bytes.extend_from_slice(value.as_bytes());
        }
        let mut decoder = Decoder::new(1 << 20);
        decoder.read(&bytes).unwrap();
        decoder.end().unwrap()
    }

    fn head(fields: &[(&str, &str)]) -> Result<Head, Refusal> {
        read(&section(fields), &Limits::default()).0
    }

    const METHOD: (&str, &str) = (":method", "GET");
    const SCHEME: (&str, &str) = (":scheme", "https");
    const PATH: (&str, &str) = (":path", "/a?b");
    const AUTHORITY: (&str, &str) = (":authority", "a");

    fn with(more: &[(&'static str, &'static str)]) -> Result<Head, Refusal> {
        head(&[&[METHOD, SCHEME, PATH, AUTHORITY], more].concat())
    }

    #[test]
    fn a_head_is_what_it_would_be_in_http_1() {
        let head = with(&[("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2")]).unwrap();
        assert_eq!(head.version, Version::Http3);
        assert_eq!(
            (&*head.method, &*head.target, &*head.host),
            (&b"GET"[..], &b"/a?b"[..], &b"a"[..])
        );
        assert_eq!(head.fields.get("cookie"), Some(&b"a=1; b=2"[..]));
    }

    #[test]
    fn pseudo_header_fields_are_complete_single_known_and_first() {
        for wrong in [
            &[SCHEME, PATH, AUTHORITY][..],
            &[METHOD, PATH, AUTHORITY],
            &[METHOD, SCHEME, AUTHORITY],
            &[METHOD, METHOD, SCHEME, PATH, AUTHORITY],
            &[METHOD, SCHEME, PATH, PATH, AUTHORITY],
            &[METHOD, SCHEME, PATH, AUTHORITY, AUTHORITY],
            &[METHOD, SCHEME, PATH, AUTHORITY, (":status", "200")],
            &[METHOD, SCHEME, PATH, AUTHORITY, (":other", "1")],
            &[METHOD, SCHEME, ("x", "1"), PATH, AUTHORITY],
            &[METHOD, SCHEME, PATH, ("host", "a"), AUTHORITY],
            &[METHOD, SCHEME, (":path", ""), AUTHORITY],
            &[METHOD, SCHEME, (":path", "a"), AUTHORITY],
            &[METHOD, SCHEME, (":path", "/a b"), AUTHORITY],
            &[METHOD, SCHEME, (":path", "/a\r\nx: y"), AUTHORITY],
            &[METHOD, SCHEME, (":path", "https://b/"), AUTHORITY],
            &[METHOD, (":scheme", ""), PATH, AUTHORITY],
            &[METHOD, (":scheme", "1"), PATH, AUTHORITY],
            &[METHOD, SCHEME, PATH, (":authority", "")],
            &[(":method", "G ET"), SCHEME, PATH, AUTHORITY],
            &[(":method", ""), SCHEME, PATH, AUTHORITY],
            &[METHOD, SCHEME, PATH, AUTHORITY, (":protocol", "websocket")],
            &[(":method", "CONNECT"), SCHEME, PATH, AUTHORITY],
            &[(":method", "CONNECT")],
            &[(":Method", "GET"), SCHEME, PATH, AUTHORITY],
        ] {
            let found = head(wrong).map(|head| head.target);
            assert!(matches!(found, Err(Refusal::Pseudo | Refusal::Field)), "{wrong:?}: {found:?}");
        }
        assert_eq!(head(&[METHOD, SCHEME, PATH]).unwrap_err(), Refusal::Host);
        assert_eq!(head(&[METHOD, SCHEME, PATH, ("host", "")]).unwrap_err(), Refusal::Host);
        assert!(head(&[METHOD, SCHEME, PATH, ("host", "a")]).is_ok());
        let user = [METHOD, SCHEME, PATH, (":authority", "user@a")];
        assert_eq!(head(&user).unwrap_err(), Refusal::Host);
        assert!(head(&[(":method", "OPTIONS"), SCHEME, (":path", "*"), AUTHORITY]).is_ok());
    }

    #[test]
    fn tunnels_are_refused() {
        let connect = (":method", "CONNECT");
        assert_eq!(head(&[connect, AUTHORITY]).unwrap_err(), Refusal::Connect);
        let websocket = [connect, (":protocol", "websocket"), SCHEME, PATH, AUTHORITY];
        assert_eq!(head(&websocket).unwrap_err(), Refusal::Protocol);
    }

    #[test]
    fn fields_of_a_connection_and_such_that_end_a_line_are_refused() {
        for wrong in [
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "x"),
            ("te", "gzip"),
            ("te", "trailers, gzip"),
            ("X-A", "1"),
            ("x a", "1"),
            ("", "1"),
            ("x:a", "1"),
            ("x\r\ny", "1"),
            ("x-a", "b\r\nc: d"),
            ("x-a", "b\nc"),
            ("x-a", "b\0"),
        ] {
            assert_eq!(with(&[wrong]).map(|_| ()).unwrap_err(), Refusal::Field, "{wrong:?}");
        }
        assert_eq!(with(&[("host", "b")]).unwrap_err(), Refusal::Host);
        for wrong in
            [&[("content-length", "+3")][..], &[("content-length", "3"), ("content-length", "3")]]
        {
            assert!(with(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_trailer_has_fields_only() {
        let lines = |fields: &[(&str, &str)]| trailer(&section(fields));
        let fields = [("grpc-status", "0"), ("x-a", "b c")];
        assert_eq!(lines(&fields).as_deref(), Some(&b"grpc-status: 0\r\nx-a: b c\r\n"[..]));
        assert_eq!(lines(&[]).as_deref(), Some(&b""[..]));
        for wrong in [(":path", "/"), (":status", "200"), ("X", "1"), ("te", "x"), ("x", "a\r\n")] {
            assert_eq!(lines(&[("x-a", "1"), wrong]), None, "{wrong:?}");
        }
    }
}
