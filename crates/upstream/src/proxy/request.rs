//! The head that an upstream gets: written anew from what was understood, never copied, so that
//! the upstream cannot read another request than we have decided about.
//!
//! As in Unit the target is the one that was sent, unless a route has changed the path; only bytes
//! that no URI may have, and that some servers take for separators, are percent-encoded. `Host` is
//! the client's, and nothing is added about the client, unless the upstream says so. Fields that
//! belong to the connection (RFC 9110, 7.6.1) and those that frame the body stay here; we write our
//! own.

use bytes::Bytes;
use howdah_config::{self as config, Address};
use howdah_http::message::{Request, Version, is_internal_field};
use howdah_http::target::Target;
use howdah_http::variables::Source;

use super::forwarded;
use super::hop::{self, Nominated};

/// Fields of a request that are not passed on, beside those of the connection.
const NOT_PASSED: [&[u8]; 2] = [b"content-length", b"expect"];

/// What an upstream changes in a head.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The value of `Host`.
    pub host: Option<Vec<u8>>,
    /// Fields that take the place of the client's of the same name.
    pub set: Vec<(String, Vec<u8>)>,
    /// Fields of the client that are left out.
    pub removed: Vec<String>,
}

impl Changes {
    /// Those of an upstream for a request.
    pub fn new(config: &config::Upstream, request: &Request, source: &Source<'_>) -> Self {
        let mut changes = Changes::default();
        changes.host = config.host.as_ref().map(|host| plain(&source.expand(host)));
        changes.host = changes.host.filter(|host| !host.is_empty());
        forwarded::add(config.forwarded, request, &mut changes);
        for (name, value) in &config.headers {
            changes.set.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            match value.as_ref().map(|value| plain(&source.expand(value))) {
                Some(value) if !value.is_empty() => changes.set.push((name.clone(), value)),
                _ => changes.removed.push(name.clone()),
            }
        }
        changes
    }

    /// Whether a field of the client is left out.
    fn replace(&self, name: &[u8]) -> bool {
        let is = |other: &String| other.as_bytes().eq_ignore_ascii_case(name);
        self.removed.iter().any(is) || self.set.iter().any(|(other, _)| is(other))
    }
}

/// A value that cannot end its field, whatever a client has put into a variable.
pub(super) fn plain(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for &byte in value.trim_ascii() {
        match byte {
            b'\t' | b' '..=b'~' | 0x80.. => out.push(byte),
            _ => encode(byte, &mut out),
        }
    }
    out
}

/// What the upstream is to do with the connection after its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then<'p> {
    /// Close it.
    Close,
    /// Leave it open.
    Keep,
    /// Speak one of these protocols on it, if it will.
    Upgrade(&'p [u8]),
}

/// The protocols that a client would rather speak. Those that are HTTP, or carry it, stay out:
/// requests in a tunnel would pass by all that the configuration says of them.
pub fn upgrade(request: &Request) -> Option<Vec<u8>> {
    let is_http = |name: &[u8]| {
        let starts = |start: &[u8]| {
            name.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
        };
        starts(b"h2") || starts(b"h3") || starts(b"http") || starts(b"tls")
    };
    let asks = Nominated::of(request.fields.get_all("connection")).has(b"upgrade");
    if !asks || request.version < Version::Http11 {
        return None;
    }
    let names = request.fields.get_all("upgrade").flat_map(|value| value.split(|b| *b == b','));
    let names = names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty() && !is_http(name));
    let names = names.collect::<Vec<_>>().join(&b", "[..]);
    (!names.is_empty()).then_some(names)
}

/// Whether a protocol is among those that were asked for.
pub fn is_offered(protocol: &[u8], offered: &[u8]) -> bool {
    let mut offered = offered.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    offered.any(|name| name.eq_ignore_ascii_case(protocol))
}

/// Whether the client takes trailers (RFC 9110, 10.1.4).
pub fn takes_trailers(request: &Request) -> bool {
    let codings = request.fields.get_all("te").flat_map(|value| value.split(|b| *b == b','));
    let mut names = codings.filter_map(|coding| coding.split(|b| *b == b';').next());
    request.version > Version::Http10
        && names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// The lines of a request's trailer that an upstream gets.
pub fn trailer(lines: &[u8], changes: &Changes) -> Vec<u8> {
    hop::trailer(lines, |name| changes.replace(name))
}

/// Writes a head for a body of this length, or in chunks. `None` if a route has rewritten the path to nothing,
/// which no target can say.
pub fn head(
    request: &Request,
    address: &Address,
    changes: &Changes,
    body: Option<u64>,
    then: Then<'_>,
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(512 + request.target.len());
    out.extend_from_slice(&request.method);
    out.push(b' ');
    target(request, &mut out)?;
    out.extend_from_slice(b" HTTP/1.1\r\n");
    match &changes.host {
        Some(host) => field(&mut out, b"Host", host),
        // HTTP/1.1 demands one, whatever we let the client leave out.
        None if request.fields.get("host").is_none() => {
            field(&mut out, b"Host", host(address).as_bytes());
        }
        None => {}
    }
    match then {
        Then::Close => field(&mut out, b"Connection", b"close"),
        Then::Keep => field(&mut out, b"Connection", b"keep-alive"),
        Then::Upgrade(protocols) => {
            field(&mut out, b"Connection", b"upgrade");
            field(&mut out, b"Upgrade", protocols);
        }
    }
    let nominated = Nominated::of(request.fields.get_all("connection"));
    let mut framed = body != Some(0);
    for (name, value) in request.fields.iter() {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        framed |= is(b"content-length") || is(b"transfer-encoding");
        let ours = NOT_PASSED.iter().any(|other| is(other))
            || is_internal_field(name)
            || (changes.host.is_some() && is(b"host"))
            || changes.replace(name);
        if !ours && !nominated.is_hop_by_hop(name) {
            field(&mut out, name, value);
        }
    }
    for (name, value) in &changes.set {
        field(&mut out, name.as_bytes(), value);
    }
    if framed {
        match body {
            Some(length) => field(&mut out, b"Content-Length", length.to_string().as_bytes()),
            None => field(&mut out, b"Transfer-Encoding", b"chunked"),
        }
    }
    out.extend_from_slice(b"\r\n");
    Some(out)
}

/// What stands for a server in `Host`.
pub fn host(address: &Address) -> String {
    match address {
        Address::Inet(inet) => inet.to_string(),
        Address::Name(name, port) => format!("{}:{port}", name.strip_suffix('.').unwrap_or(name)),
        Address::Unix(_) | Address::Abstract(_) => "localhost".to_owned(),
    }
}

/// Whether a second try cannot do what the first one has done already (RFC 9110, 9.2.2).
pub fn is_idempotent(method: &Bytes) -> bool {
    matches!(method.as_ref(), b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE")
}

/// Name and value were checked by the protocol that read them, or are our own.
fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn encode(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    // Four bits are always an index of the sixteen digits.
    let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
    out.extend_from_slice(&[b'%', high, low]);
}

fn target(request: &Request, out: &mut Vec<u8>) -> Option<()> {
    let sent = Target::parse(&request.target).ok();
    let is_sent = |sent: Target| {
        sent.path(&request.target) == request.path
            && request.target.get(sent.query.clone()) == Some(&*request.query)
    };
    if sent.is_some_and(is_sent) {
        as_sent(&request.target, out);
        return Some(());
    }
    if request.path.is_empty() {
        return None;
    }
    for &byte in &request.path {
        // What a path may hold as it is (RFC 3986, 3.3).
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte) {
            out.push(byte);
        } else {
            encode(byte, out);
        }
    }
    if !request.query.is_empty() {
        out.push(b'?');
        as_sent(&request.query, out);
    }
    Some(())
}

/// Writes a target or a query as it was sent, with what another server could take for a separator
/// percent-encoded: a backslash (a slash for IIS and for the URL parsers of browsers and Node.js) and
/// bytes from 0x80 up (spaces among them for programs that read the line as Latin-1 or Unicode).
/// Routes were chosen with such a byte as one of a name, and that is what it is once encoded.
fn as_sent(text: &[u8], out: &mut Vec<u8>) {
    let is_odd = |byte: &u8| matches!(byte, b'\\' | 0x80..);
    if !text.iter().any(is_odd) {
        return out.extend_from_slice(text);
    }
    for &byte in text {
        if is_odd(&byte) { encode(byte, out) } else { out.push(byte) }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
