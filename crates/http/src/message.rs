//! Requests and responses as the data plane sees them, whatever protocol version carried them.
//!
//! A request's head stays in the buffer it was received in: names and values are slices of it.
//! A response's header fields are one block of `Name: value\r\n` lines, so that a cached file's
//! head is a reference count and not a rebuild. Fields that belong to the connection
//! (`Date`, `Server`, `Content-Length`, `Transfer-Encoding`, `Connection`) are never in the
//! block: the connection writes them.

use std::cell::OnceCell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::Captures;

use crate::body::Body;
use crate::feed::Feed;
use crate::handshake::Handshake;
use crate::tunnel::Tunnel;

/// A request head after the protocol layer has checked its framing and syntax.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method as sent, a token (RFC 9110, 9.1); compared case-sensitively.
    pub method: Bytes,
    /// Request target as sent, in origin form (RFC 9112, 3.2.1) and without a fragment; PHP's
    /// `REQUEST_URI`.
    pub target: Bytes,
    /// The fragment that was cut off the target, with its `#`; empty if there was none, as always
    /// in a strict reading. It is for logs alone.
    pub fragment: Bytes,
    /// Decoded and normalised path: starts with `/`, holds no `.` or `..` segment, no empty
    /// segment and no NUL. Empty only if a route has rewritten it to nothing.
    pub path: Bytes,
    /// What follows the first `?` of the target, without it; empty if there is none.
    pub query: Bytes,
    /// Protocol version of the message.
    pub version: Version,
    /// `Host` or `:authority`, lower case, without port and trailing dot; empty if absent.
    pub host: Bytes,
    /// Header fields in the order received, names as sent.
    pub fields: Fields,
    /// How the connection reached us, or the client's address and scheme as told by a proxy that
    /// the listener trusts.
    pub connection: Arc<ConnectionInfo>,
    /// Who the request is from, if a password proved it.
    pub user: Option<Bytes>,
    /// Unique within the instance; appears in the log and in PHP error records.
    pub id: u64,
    /// The error that this request is to find a page for.
    pub error: Option<OnError>,
    /// What regular expressions have captured, of the last step whose action names it.
    pub captures: Captures,
}

/// Why a request looks for an error page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnError {
    /// The status of the error.
    pub status: u16,
    /// The path that had it.
    pub path: Bytes,
}

/// Protocol version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}

impl Version {
    /// As in `SERVER_PROTOCOL`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }
}

/// What is the same for all requests of one connection.
#[derive(Debug, Clone, Default)]
pub struct ConnectionInfo {
    /// The client's address; `None` on a unix socket.
    pub peer: Option<SocketAddr>,
    /// The address it connected to; `None` on a unix socket.
    pub local: Option<SocketAddr>,
    /// Whether the client speaks TLS, to us or, as a trusted proxy tells, to that.
    pub tls: bool,
    /// The trusted proxy that told about the client, if one did.
    pub via: Option<ShownAddress>,
    /// What the TLS handshake with us has shown.
    pub handshake: Option<Arc<Handshake>>,
}

impl ConnectionInfo {
    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

/// An address as scripts and logs see it; a unix socket is `unix:`.
///
/// Sockets that serve both families show IPv4 peers as IPv6, which nobody wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownAddress(pub Option<IpAddr>);

impl fmt::Display for ShownAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(|ip| ip.to_canonical()) {
            None => f.write_str("unix:"),
            Some(IpAddr::V6(v6)) => match v6.segments() {
                // RFC 4291, 2.2, form 3, for what embeds an IPv4 address, as `inet_ntop` has it.
                [0, 0, 0, 0, 0, 0, high, _] if high > 0 => {
                    let [.., a, b, c, d] = v6.octets();
                    write!(f, "::{a}.{b}.{c}.{d}")
                }
                _ => v6.fmt(f),
            },
            Some(ip) => ip.fmt(f),
        }
    }
}

/// Header fields of a request: slices of the buffer that the head was received in.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    buffer: Bytes,
    spans: Vec<FieldSpan>,
}

#[derive(Debug, Clone, Copy)]
struct FieldSpan {
    name: (u32, u32),
    value: (u32, u32),
}

impl Fields {
    /// No fields yet; names and values that are pushed are ranges of `buffer`.
    pub fn new(buffer: Bytes, capacity: usize) -> Self {
        Fields { buffer, spans: Vec::with_capacity(capacity) }
    }

    /// Builds fields from pairs; for tests and for protocols that do not keep a buffer.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut buffer = Vec::new();
        let mut spans = Vec::new();
        for (name, value) in pairs {
            let start = buffer.len();
            buffer.extend_from_slice(name);
            let middle = buffer.len();
            buffer.extend_from_slice(value);
            spans.push(FieldSpan {
                name: (start as u32, middle as u32),
                value: (middle as u32, buffer.len() as u32),
            });
        }
        Fields { buffer: buffer.into(), spans }
    }

    /// Adds a field by its ranges in the buffer.
    ///
    /// # Panics
    /// If a range does not lie within the buffer.
    pub fn push(&mut self, name: std::ops::Range<usize>, value: std::ops::Range<usize>) {
        assert!(name.end <= self.buffer.len() && value.end <= self.buffer.len());
        self.spans.push(FieldSpan {
            name: (name.start as u32, name.end as u32),
            value: (value.start as u32, value.end as u32),
        });
    }

    /// All fields in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.spans.iter().map(|span| (self.slice(span.name), self.slice(span.value)))
    }

    /// Value of the first field of this name, compared without regard to ASCII case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }

    /// Values of all fields of this name.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }

    /// Keeps the fields whose names are accepted.
    pub fn retain(&mut self, accepts: impl Fn(&[u8]) -> bool) {
        let mut spans = std::mem::take(&mut self.spans);
        spans.retain(|span| accepts(self.slice(span.name)));
        self.spans = spans;
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        &self.buffer[start as usize..end as usize]
    }
}

/// A response before the protocol layer frames it.
#[derive(Debug)]
pub struct Response {
    /// Status code, 200 to 999, or what a `return` of the configuration says, 0 to 999.
    pub status: u16,
    /// Reason phrase if it is not the registered one (PHP's `header("HTTP/1.1 404 Gone fishing")`).
    pub reason: Option<Bytes>,
    /// Header fields as `Name: value\r\n` lines.
    pub fields: FieldBlock,
    /// The body; its length decides the framing.
    pub body: Body,
    /// A body of bytes is sent in chunks where the protocol can, although its length is known:
    /// whoever made it has not told it.
    pub chunked: bool,
    /// The connection must not be used for another request.
    pub close: bool,
    /// An error's page of the server's own, which `error_pages` may replace.
    pub own_page: bool,
    /// The connection adds `Server`, if it has a value for it.
    pub adds_server: bool,
    /// The connection adds `Date`.
    pub adds_date: bool,
    /// What goes on beside it or follows it, if anything does.
    pub after: Option<Box<After>>,
}

impl Response {
    /// A response without header fields.
    pub fn new(status: u16, body: Body) -> Self {
        Response {
            status,
            reason: None,
            fields: FieldBlock::default(),
            body,
            chunked: false,
            close: false,
            own_page: false,
            adds_server: true,
            adds_date: true,
            after: None,
        }
    }

    /// The lines that follow the body, if the client takes any.
    pub fn trailer(&self) -> Option<&Trailer> {
        self.after.as_ref()?.trailer.as_ref()
    }

    /// Leaves them out.
    pub fn drop_trailer(&mut self) {
        if let Some(after) = &mut self.after {
            after.trailer = None;
        }
    }

    /// Takes what the connection is from then on, if the response says that it is.
    pub fn take_tunnel(&mut self) -> Option<Tunnel> {
        self.after.as_mut()?.tunnel.take()
    }

    /// Takes what its server still gets of the request's body, if that is not over.
    pub fn take_feed(&mut self) -> Option<Rc<Feed>> {
        self.after.as_mut()?.feed.take().filter(|feed| !feed.is_full())
    }

    /// Adds a field; see [`FieldBlock::push`].
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.fields.push(name, value);
        self
    }
}

/// What goes on beside a response, or follows it.
#[derive(Debug, Default)]
pub struct After {
    /// Lines behind the body.
    pub trailer: Option<Trailer>,
    /// With status 101: what the connection is from then on.
    pub tunnel: Option<Tunnel>,
    /// What its server still gets of the request's body.
    pub feed: Option<Rc<Feed>>,
}

/// The lines of a trailer, which are known when a body has ended.
#[derive(Debug, Clone, Default)]
pub struct Trailer(Rc<OnceCell<Bytes>>);

impl Trailer {
    /// Sets the lines, which are well formed, once.
    pub fn set(&self, lines: Bytes) {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\r\n"));
        let _ = self.0.set(lines);
    }

    /// The lines; none if there are none, or not yet.
    pub fn lines(&self) -> Bytes {
        self.0.get().cloned().unwrap_or_default()
    }
}

/// Header fields that the connection writes by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Added<'a> {
    /// Value of `Server`; none if empty.
    pub server: &'a [u8],
    /// Whether there is a `Date`.
    pub date: bool,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// Whether there is `Transfer-Encoding: chunked`.
    pub chunked: bool,
    /// Value of `Connection`; none if empty.
    pub connection: &'static str,
}

/// Header fields of a response, as the lines that HTTP/1 writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldBlock(Bytes);

impl FieldBlock {
    /// Wraps lines that are already well formed.
    pub fn from_lines(lines: Bytes) -> Self {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\r\n"));
        FieldBlock(lines)
    }

    /// Appends a field. Bytes that would end the line or the head (CR, LF, NUL) are dropped from
    /// the value, so that no value can add a field of its own.
    pub fn push(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        let mut lines = Vec::with_capacity(self.0.len() + name.len() + value.len() + 4);
        lines.extend_from_slice(&self.0);
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend(value.iter().filter(|b| !matches!(b, b'\r' | b'\n' | 0)));
        lines.extend_from_slice(b"\r\n");
        self.0 = lines.into();
    }

    /// The lines.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.split(|b| *b == b'\n').filter_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Value of the first field of this name, compared without regard to ASCII case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }
}

/// Returns true for fields by which back ends speak with the server (`X-Accel-*`, `X-Sendfile*`):
/// clients neither get nor send them.
pub fn is_internal_field(name: &[u8]) -> bool {
    let starts =
        |with: &[u8]| name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    starts(b"x-accel-") || starts(b"x-sendfile")
}
