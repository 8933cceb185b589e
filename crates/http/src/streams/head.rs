//! Request heads, converted to the text of HTTP/1, so that one parser reads the heads of all
//! versions.
//!
//! The protocol has refused fields that belong to a connection, and bytes that could end a line.
//! Several cookie fields become one (RFC 9113, 8.2.3; RFC 9114, 4.2.1). A request for a WebSocket
//! becomes that of HTTP/1 (RFC 8441, 5).

use bytes::Bytes;

use crate::authority;
use crate::h1::Refusal;
use crate::h1::head::Head;
use crate::limits::Limits;
use crate::message::Version;

/// The head of a request as the protocol has decoded it.
pub(crate) struct RawHead<'a> {
    pub version: Version,
    pub method: &'a [u8],
    /// The scheme is `http`.
    pub is_http: bool,
    /// `:authority`, if there is one.
    pub authority: Option<&'a [u8]>,
    /// `:path`: no byte of it is a control character.
    pub path: &'a [u8],
    /// Names in lower case, and values, of which no byte ends a line.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// Value of `Sec-WebSocket-Key` of a request for a WebSocket.
    pub websocket_key: Option<&'a str>,
}

/// Reads a head. The second value is its text in HTTP/1; the log shows its first line if it is
/// refused.
pub(crate) fn read_head(head: &RawHead<'_>, limits: &Limits) -> (Result<Head, Refusal>, Bytes) {
    let (text, checked) = write(head, limits);
    let text = Bytes::from(text);
    let read = checked.and_then(|()| Head::parse(text.clone(), limits));
    (read.map(|read| Head { version: head.version, ..read }), text)
}

fn write(head: &RawHead<'_>, limits: &Limits) -> (Vec<u8>, Result<(), Refusal>) {
    let is_websocket = head.websocket_key.is_some();
    let method = if is_websocket { b"GET" } else { head.method };
    let mut text = Vec::with_capacity(512);
    for part in [method, b" ", head.path, b" HTTP/1.1\r\n"] {
        text.extend_from_slice(part);
    }
    let mut put = |name: &[u8], value: &[u8]| {
        for part in [name, b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    };
    if let Some(authority) = head.authority {
        put(b"host", authority);
    }
    // Each cookie field can cost one byte on the wire, and more here.
    let checked = if head.fields.len() > limits.max_fields.saturating_mul(2) {
        Err(Refusal::TooManyFields)
    } else {
        hosts_agree(head, limits)
    };
    if let Some(key) = head.websocket_key {
        put(b"connection", b"upgrade");
        put(b"upgrade", b"websocket");
        put(b"sec-websocket-key", key.as_bytes());
    }
    if checked.is_ok() {
        let mut cookies = Vec::new();
        for (name, value) in head.fields {
            match *name {
                b"cookie" => cookies.push(*value),
                b"host" if head.authority.is_some() => {}
                b"sec-websocket-key" | b"content-length" if is_websocket => {}
                _ => put(name, value),
            }
        }
        if !cookies.is_empty() {
            put(b"cookie", &cookies.join(&b"; "[..]));
        }
    }
    text.extend_from_slice(b"\r\n");
    (text, checked)
}

/// Checks that there is at most one `Host`, and that it has the host and port of `:authority` (RFC
/// 9113, 8.3.1; RFC 9114, 4.3.1).
fn hosts_agree(head: &RawHead<'_>, limits: &Limits) -> Result<(), Refusal> {
    let mut fields = head.fields.iter().filter(|(name, _)| *name == b"host");
    let (first, second) = (fields.next(), fields.next());
    if second.is_some() {
        return Err(Refusal::Host);
    }
    let Some(named) = head.authority else { return Ok(()) };
    let default_port: &[u8] = if head.is_http { b"80" } else { b"443" };
    let entity = |text: &[u8]| {
        let host = authority::host(text, limits.strict)?;
        let rest = text.get(host.end..)?;
        let port = rest.strip_prefix(b".").unwrap_or(rest).strip_prefix(b":").unwrap_or_default();
        let port = if port.is_empty() { default_port } else { port };
        Some((text.get(host)?.to_ascii_lowercase(), port.to_vec()))
    };
    let named = entity(named).ok_or(Refusal::Host)?;
    if first.is_none_or(|(_, field)| entity(field).as_ref() == Some(&named)) {
        Ok(())
    } else {
        Err(Refusal::Host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a head: scheme, authority and path as in a URL, and further fields.
    fn head(url: &str, fields: &[(&str, &str)]) -> Result<Head, Refusal> {
        head_with_key(url, fields, None)
    }

    fn head_with_key(
        url: &str,
        fields: &[(&str, &str)],
        websocket_key: Option<&str>,
    ) -> Result<Head, Refusal> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
        let (authority, path) = rest.split_at(rest.find('/').unwrap());
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let fields: Vec<_> = fields.collect();
        let head = RawHead {
            version: Version::Http2,
            method: b"GET",
            is_http: scheme == "http",
            authority: (!authority.is_empty()).then_some(authority.as_bytes()),
            path: path.as_bytes(),
            fields: &fields,
            websocket_key,
        };
        read_head(&head, &Limits::default()).0
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
        let head = head_with_key("https://a/chat?room=1", &fields, Some("ours")).unwrap();
        assert_eq!((&*head.method, &*head.target), (&b"GET"[..], &b"/chat?room=1"[..]));
        let field = |name| head.fields.get(name).map(String::from_utf8_lossy);
        assert_eq!(field("connection").as_deref(), Some("upgrade"));
        assert_eq!(field("upgrade").as_deref(), Some("websocket"));
        assert_eq!(field("content-length"), None);
        assert_eq!(field("sec-websocket-version").as_deref(), Some("13"));
        assert_eq!(head.fields.get_all("sec-websocket-key").count(), 1);
        assert_eq!(field("sec-websocket-key").as_deref(), Some("ours"));
    }
}
