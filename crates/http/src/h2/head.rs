//! Request heads, converted to the text of HTTP/1, so that one parser reads the heads of all
//! versions.
//!
//! `h2` has refused fields that belong to a connection, and bytes that could end a line. Several
//! cookie fields become one (RFC 9113, 8.2.3). A request for a WebSocket becomes that of HTTP/1
//! (RFC 8441, 5).

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, SEC_WEBSOCKET_KEY};
use http::request::Parts;

use super::websocket::Handshake;
use crate::authority;
use crate::h1::Refusal;
use crate::h1::head::Head;
use crate::limits::Limits;
use crate::message::Version;

/// Reads a head. The second value is its text in HTTP/1; the log shows its first line if it is
/// refused.
pub(super) fn read(
    parts: &Parts,
    websocket: Option<&Handshake>,
    limits: &Limits,
) -> (Result<Head, Refusal>, Bytes) {
    let (text, checked) = write(parts, websocket, limits);
    let text = Bytes::from(text);
    let read = checked.and_then(|()| Head::parse(text.clone(), limits));
    (read.map(|head| Head { version: Version::Http2, ..head }), text)
}

fn write(
    parts: &Parts,
    websocket: Option<&Handshake>,
    limits: &Limits,
) -> (Vec<u8>, Result<(), Refusal>) {
    let method = if websocket.is_some() { "GET" } else { parts.method.as_str() };
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut text = Vec::with_capacity(512);
    for part in [method.as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1\r\n"] {
        text.extend_from_slice(part);
    }
    let mut put = |name: &[u8], value: &[u8]| {
        for part in [name, b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    };
    let named = parts.uri.authority().map(http::uri::Authority::as_str);
    if let Some(authority) = named {
        put(b"host", authority.as_bytes());
    }
    // Each cookie field can cost one byte on the wire, and more here.
    let checked = if parts.headers.len() > limits.max_fields.saturating_mul(2) {
        Err(Refusal::TooManyFields)
    } else {
        hosts_agree(parts, named, limits)
    };
    if let Some(handshake) = websocket {
        put(b"connection", b"upgrade");
        put(b"upgrade", b"websocket");
        put(b"sec-websocket-key", handshake.key().as_bytes());
    }
    if checked.is_ok() {
        for (name, value) in &parts.headers {
            let is_replaced = (name == HOST && named.is_some())
                || (websocket.is_some() && (name == SEC_WEBSOCKET_KEY || name == CONTENT_LENGTH));
            if name != COOKIE && !is_replaced {
                put(name.as_str().as_bytes(), value.as_bytes());
            }
        }
        let cookies: Vec<_> = parts.headers.get_all(COOKIE).iter().map(|v| v.as_bytes()).collect();
        if !cookies.is_empty() {
            put(b"cookie", &cookies.join(&b"; "[..]));
        }
    }
    text.extend_from_slice(b"\r\n");
    (text, checked)
}

/// Checks that there is at most one `Host`, and that it has the host and port of `:authority` (RFC
/// 9113,
/// 8.3.1).
fn hosts_agree(parts: &Parts, named: Option<&str>, limits: &Limits) -> Result<(), Refusal> {
    let mut fields = parts.headers.get_all(HOST).iter();
    let (first, second) = (fields.next(), fields.next());
    if second.is_some() {
        return Err(Refusal::Host);
    }
    let Some(named) = named else { return Ok(()) };
    let default_port: &[u8] = if parts.uri.scheme_str() == Some("http") { b"80" } else { b"443" };
    let entity = |text: &[u8]| {
        let host = authority::host(text, limits.strict)?;
        let rest = text.get(host.end..)?;
        let port = rest.strip_prefix(b".").unwrap_or(rest).strip_prefix(b":").unwrap_or_default();
        let port = if port.is_empty() { default_port } else { port };
        Some((text.get(host)?.to_ascii_lowercase(), port.to_vec()))
    };
    let named = entity(named.as_bytes()).ok_or(Refusal::Host)?;
    if first.is_none_or(|field| entity(field.as_bytes()).as_ref() == Some(&named)) {
        Ok(())
    } else {
        Err(Refusal::Host)
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(uri: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method("GET").uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn head(uri: &str, fields: &[(&str, &str)]) -> Result<Head, Refusal> {
        read(&parts(uri, fields), None, &Limits::default()).0
    }

    #[test]
    fn a_head_is_what_it_would_be_in_http_1() {
        let fields = [("x-a", "1"), ("cookie", "a=1"), ("cookie", "b=2"), ("x-a", "2")];
        let head = head("https://Example.ORG:8443/a%20b/../c?q=1", &fields).unwrap();
        assert_eq!(
            (&*head.path, &*head.query, &*head.host),
            (&b"/c"[..], &b"q=1"[..], &b"example.org"[..])
        );
        assert_eq!(head.version, Version::Http2);
        assert_eq!(head.fields.get("cookie"), Some(&b"a=1; b=2"[..]));
        assert_eq!(head.fields.get("host"), Some(&b"Example.ORG:8443"[..]));
        assert_eq!(head.fields.get_all("x-a").count(), 2);
    }

    #[test]
    fn host_and_authority_must_agree() {
        assert!(head("https://a/", &[("host", "A:443")]).is_ok());
        assert_eq!(head("https://a/", &[("host", "b")]).unwrap_err(), Refusal::Host);
        assert_eq!(head("https://a/", &[("host", "")]).unwrap_err(), Refusal::Host);
        assert!(head("https://a:8443/", &[("host", "a.:8443")]).is_ok());
        assert!(head("http://a:80/", &[("host", "a")]).is_ok());
        for host in ["a:80", "a:444", "a@a", "a:x", "a/", "a\\b"] {
            assert_eq!(head("https://a/", &[("host", host)]).unwrap_err(), Refusal::Host, "{host}");
        }
        let twice = [("host", "a"), ("host", "a")];
        assert_eq!(head("https://a/", &twice).unwrap_err(), Refusal::Host);
        assert_eq!(head("/", &twice).unwrap_err(), Refusal::Host);
        assert_eq!(head("https://user@a/", &[]).unwrap_err(), Refusal::Host);
        assert_eq!(head("/", &[]).unwrap_err(), Refusal::Host);
        assert_eq!(&*head("/", &[("host", "a")]).unwrap().host, b"a");
    }

    #[test]
    fn crumbs_of_cookies_count_as_fields() {
        let crumbs = vec![("cookie", "a=1"); 201];
        assert_eq!(head("https://a/", &crumbs).unwrap_err(), Refusal::TooManyFields);
        assert!(head("https://a/", &crumbs[..200]).is_ok());
        assert_eq!(head("https://a/", &vec![("x", "1"); 101]).unwrap_err(), Refusal::TooManyFields);
    }

    #[test]
    fn what_frames_an_http_1_message_is_read_as_strictly() {
        for (fields, refusal) in [
            (
                &[("content-length", "1"), ("content-length", "1")][..],
                Refusal::ContentLengthConflict,
            ),
            (&[("content-length", "+1")], Refusal::ContentLengthInvalid),
            (&[("content-length", "99999999999")], Refusal::BodyTooLong),
            (&[("expect", "200-ok")], Refusal::Expectation),
        ] {
            assert_eq!(head("https://a/", fields).unwrap_err(), refusal);
        }
    }

    #[test]
    fn a_websocket_is_asked_for_as_in_http_1() {
        let fields = [
            ("sec-websocket-key", "theirs"),
            ("sec-websocket-version", "13"),
            ("content-length", "5"),
        ];
        let mut parts = parts("https://a/chat?room=1", &fields);
        parts.method = http::Method::CONNECT;
        let handshake = Handshake::new();
        let head = read(&parts, Some(&handshake), &Limits::default()).0.unwrap();
        assert_eq!((&*head.method, &*head.target), (&b"GET"[..], &b"/chat?room=1"[..]));
        let field = |name| head.fields.get(name).map(String::from_utf8_lossy);
        assert_eq!(field("connection").as_deref(), Some("upgrade"));
        assert_eq!(field("upgrade").as_deref(), Some("websocket"));
        assert_eq!(field("content-length"), None);
        assert_eq!(field("sec-websocket-version").as_deref(), Some("13"));
        assert_eq!(head.fields.get_all("sec-websocket-key").count(), 1);
        assert_eq!(field("sec-websocket-key").as_deref(), Some(handshake.key()));
        assert_eq!(read(&parts, None, &Limits::default()).0.unwrap_err(), Refusal::Connect);
    }
}
