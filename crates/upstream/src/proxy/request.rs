//! Builds the head of a request to an upstream.
//!
//! The head is written from the parsed request and never copied, so that the upstream reads the
//! same request as the routes.
//!
//! As in Unit the target is the client's, unless a route has changed the path; only bytes that are
//! not allowed in a URI, and that some servers take for separators, are percent-encoded. `Host` is
//! the client's, and no fields about the client are added, unless the upstream's settings say so.
//! Fields of the connection (RFC 9110, 7.6.1) and of the framing are not passed on; the router
//! writes its own.

use howdah_config::Address;
use howdah_http::message::{Request, Version, is_internal_field};
use howdah_http::target::Target;
use howdah_text::percent;

use super::changes::HeadChanges;
use super::hop::{self, Nominated};

/// Fields that are not passed on, in addition to those of the connection.
const NOT_PASSED: [&[u8]; 2] = [b"content-length", b"expect"];

/// Option in the field `Connection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionOption<'p> {
    /// `close`: the server closes the connection after its response.
    Close,
    /// `keep-alive`: the server leaves the connection open.
    KeepAlive,
    /// `upgrade`: the server may switch to one of these protocols.
    Upgrade(&'p [u8]),
}

/// Returns the protocols that a client offers to switch to. HTTP and protocols that carry it are
/// removed: requests in a tunnel would bypass the configuration.
pub fn upgrade(request: &Request) -> Option<Vec<u8>> {
    let is_http = |name: &[u8]| {
        let starts = |start: &[u8]| {
            name.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
        };
        starts(b"h2") || starts(b"h3") || starts(b"http") || starts(b"tls")
    };
    let is_wanted = Nominated::of(request.fields.get_all("connection")).has(b"upgrade");
    if !is_wanted || request.version < Version::Http11 {
        return None;
    }
    let names = request.fields.get_all("upgrade").flat_map(|value| value.split(|b| *b == b','));
    let names = names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty() && !is_http(name));
    let names = names.collect::<Vec<_>>().join(&b", "[..]);
    (!names.is_empty()).then_some(names)
}

/// Returns true if a protocol is among the `offered` ones.
pub fn is_offered(protocol: &[u8], offered: &[u8]) -> bool {
    let mut offered = offered.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    offered.any(|name| name.eq_ignore_ascii_case(protocol))
}

/// Returns true if the client accepts trailers (RFC 9110, 10.1.4).
pub fn takes_trailers(request: &Request) -> bool {
    let codings = request.fields.get_all("te").flat_map(|value| value.split(|b| *b == b','));
    let mut names = codings.filter_map(|coding| coding.split(|b| *b == b';').next());
    request.version > Version::Http10
        && names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Returns the lines of a request's trailer that are passed to an upstream.
pub fn trailer(lines: &[u8], changes: &HeadChanges) -> Vec<u8> {
    hop::trailer(lines, |name| changes.leaves_out(name))
}

/// Writes the head of a request with a body of `length` bytes; `None` for a chunked body. Returns
/// `None` if a route has made the path empty, which no target can express.
pub fn head(
    request: &Request,
    address: &Address,
    changes: &HeadChanges,
    length: Option<u64>,
    option: ConnectionOption<'_>,
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(512 + request.target.len());
    out.extend_from_slice(&request.method);
    out.push(b' ');
    target(request, &mut out)?;
    out.extend_from_slice(b" HTTP/1.1\r\n");
    match &changes.host {
        Some(host) => field(&mut out, b"Host", host),
        // HTTP/1.1 requires one, even where the client may omit it.
        None if request.fields.get("host").is_none() => {
            field(&mut out, b"Host", host(address).as_bytes());
        }
        None => {}
    }
    match option {
        ConnectionOption::Close => field(&mut out, b"Connection", b"close"),
        ConnectionOption::KeepAlive => field(&mut out, b"Connection", b"keep-alive"),
        ConnectionOption::Upgrade(protocols) => {
            field(&mut out, b"Connection", b"upgrade");
            field(&mut out, b"Upgrade", protocols);
        }
    }
    let is_framed = client_fields(request, changes, &mut out) && !changes.removes_all;
    let is_framed = is_framed || length != Some(0);
    for (name, value) in &changes.set {
        field(&mut out, name.as_bytes(), value);
    }
    if is_framed {
        match length {
            Some(length) => field(&mut out, b"Content-Length", length.to_string().as_bytes()),
            None => field(&mut out, b"Transfer-Encoding", b"chunked"),
        }
    }
    out.extend_from_slice(b"\r\n");
    Some(out)
}

/// Appends the client's fields that are passed on. Returns true if the client frames a body, even
/// an empty one.
fn client_fields(request: &Request, changes: &HeadChanges, out: &mut Vec<u8>) -> bool {
    passed_fields(request, changes).for_each(|(name, value)| field(out, name, value));
    let is_framing = |name: &[u8]| {
        [&b"content-length"[..], b"transfer-encoding"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other))
    };
    request.fields.iter().any(|(name, _)| is_framing(name))
}

/// Returns the client's fields that are passed on, without those that describe the body.
pub fn passed_fields<'r>(
    request: &'r Request,
    changes: &'r HeadChanges,
) -> impl Iterator<Item = (&'r [u8], &'r [u8])> {
    let nominated = Nominated::of(request.fields.get_all("connection"));
    request.fields.iter().filter(move |(name, _)| {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let is_left_out = NOT_PASSED.iter().any(|other| is(other))
            || is_internal_field(name)
            || (changes.host.is_some() && is(b"host"))
            || changes.leaves_out(name);
        !is_left_out && !nominated.is_hop_by_hop(name)
    })
}

/// Returns the value of `Host` for a server.
pub fn host(address: &Address) -> String {
    match address {
        Address::Inet(inet) => inet.to_string(),
        Address::Name(name, port) => format!("{}:{port}", name.strip_suffix('.').unwrap_or(name)),
        Address::Service(_) => address.host_name().unwrap_or_default().to_owned(),
        Address::Unix(_) | Address::Abstract(_) => "localhost".to_owned(),
    }
}

/// Appends a field. Name and value were checked when they were parsed, or are the router's own.
fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Appends the target. Returns `None` if the path is empty.
pub fn target(request: &Request, out: &mut Vec<u8>) -> Option<()> {
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
    percent::encode(&request.path, percent::is_of_path, out);
    if !request.query.is_empty() {
        out.push(b'?');
        as_sent(&request.query, out);
    }
    Some(())
}

/// Appends a target or a query as the client sent it, with possible separators percent-encoded: a
/// backslash (a slash for IIS and for the URL parsers of browsers and Node.js) and bytes from 0x80
/// up (some are spaces for programs that read the line as Latin-1 or Unicode). Routes treat these
/// bytes as part of a name; once encoded, the server does too.
fn as_sent(text: &[u8], out: &mut Vec<u8>) {
    percent::encode(text, |byte| !matches!(byte, b'\\' | 0x80..), out);
}

#[cfg(test)]
mod tests;
