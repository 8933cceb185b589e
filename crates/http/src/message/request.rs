//! Requests, and facts about the connection that they came on.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use howdah_template::Captures;

use super::fields::Fields;
use crate::handling::Handling;
use crate::handshake::Handshake;
use crate::memory::Owner;

/// A request head after the protocol layer has checked its framing and syntax.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method as sent, a token (RFC 9110, 9.1); compared case-sensitively.
    pub method: Bytes,
    /// Request target as sent, in origin form (RFC 9112, 3.2.1) and without a fragment; PHP's
    /// `REQUEST_URI`.
    pub target: Bytes,
    /// Fragment that was cut off the target, with its `#`; empty if there was none, and always if
    /// [`Limits::strict`](crate::limits::Limits::strict) is set. Only for logs.
    pub fragment: Bytes,
    /// Decoded and normalised path: starts with `/`, has no `.` or `..` segment, no empty segment
    /// and no NUL. Empty only if a route has rewritten it so.
    pub path: Bytes,
    /// Query: the target after its first `?`; empty if there is none.
    pub query: Bytes,
    /// Protocol version of the message.
    pub version: Version,
    /// `Host` or `:authority`, lower case, without port and trailing dot; empty if absent.
    pub host: Bytes,
    /// Header fields in the order received, names as sent.
    pub fields: Fields,
    /// The connection; with a proxy that the listener trusts, the client's address and scheme that
    /// the proxy reports.
    pub connection: Arc<ConnectionInfo>,
    /// Authenticated user.
    pub user: Option<Bytes>,
    /// Number, unique within the instance; shown in the log and in PHP error records.
    pub id: u64,
    /// The error for whose page this is the internal request.
    pub error: Option<ErrorOrigin>,
    /// Groups captured by regular expressions, of the last route step whose action uses them.
    pub captures: Captures,
    /// Values that actions add for the party that runs the request.
    pub additions: Option<Box<Additions>>,
    /// Facts that its handlers record, for variables.
    pub handling: Handling,
}

/// Values that actions add for the party that runs a request. The last of a name counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    /// Variables, in place of usual ones with the same name; without one if the value is empty.
    pub variables: Vec<(String, Vec<u8>)>,
    /// Names of variables whose values do not depend on the request: they may be secrets.
    pub constants: Vec<String>,
    /// Parameters of a web server that speaks FastCGI, in place of all usual ones: names and values.
    pub parameters: Option<Vec<(Bytes, Bytes)>>,
    /// Settings.
    pub settings: Vec<(String, String)>,
    /// Settings that scripts cannot change.
    pub locked_settings: Vec<(String, String)>,
}

impl Request {
    /// Returns the owner of the memory of the request and its response.
    pub fn owner(&self) -> Owner {
        let handling = &self.handling;
        Owner::new(self.known_client(), handling.runner().or_else(|| handling.site()))
    }

    /// Returns the same for a request of this site.
    pub fn owner_in(&self, site: &Arc<str>) -> Owner {
        Owner::new(self.known_client(), Some(Arc::clone(site)))
    }

    fn known_client(&self) -> Option<IpAddr> {
        let peer = self.connection.peer.filter(|_| !self.handling.is_client_unknown());
        peer.map(|peer| peer.ip())
    }

    /// Returns true for a preflight: a browser asks for permission before it sends the request
    /// itself (the Fetch standard, 3.2).
    pub fn is_preflight(&self) -> bool {
        *self.method == *b"OPTIONS"
            && self.fields.get("origin").is_some()
            && self.fields.get("access-control-request-method").is_some()
    }
}

impl Additions {
    /// Sets a variable.
    pub fn set_variable(&mut self, name: &str, value: Vec<u8>) {
        self.constants.retain(|other| other != name);
        self.variables.retain(|(other, _)| other != name);
        self.variables.push((name.to_owned(), value));
    }

    /// Sets a variable whose value does not depend on the request.
    pub fn set_constant(&mut self, name: &str, value: Vec<u8>) {
        self.set_variable(name, value);
        self.constants.push(name.to_owned());
    }

    /// Sets a setting, which scripts cannot change if it `is_locked`.
    pub fn set_setting(&mut self, name: &str, value: &str, is_locked: bool) {
        let settings = if is_locked { &mut self.locked_settings } else { &mut self.settings };
        settings.retain(|(other, _)| other != name);
        settings.push((name.to_owned(), value.to_owned()));
    }
}

/// The error that an internal request for an error page is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorOrigin {
    /// Status of the error.
    pub status: u16,
    /// Path of the request that had the error.
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
    /// HTTP/3
    Http3,
    /// The name of another protocol, of which a whole session is described as a request.
    Session(&'static str),
}

impl Version {
    /// Returns the value of `SERVER_PROTOCOL`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
            Version::Session(name) => name,
        }
    }
}

/// Facts about a connection, equal for all its requests.
#[derive(Debug, Clone, Default)]
pub struct ConnectionInfo {
    /// Address of the client; `None` on a unix socket.
    pub peer: Option<SocketAddr>,
    /// Address that the client connected to; `None` on a unix socket.
    pub local: Option<SocketAddr>,
    /// Port that the client connected to, if a trusted proxy reports it.
    pub port: Option<u16>,
    /// The client uses TLS, with the server or, as a trusted proxy reports, with the proxy.
    pub tls: bool,
    /// Address of the trusted proxy that reported the client.
    pub trusted_proxy: Option<ShownAddress>,
    /// Facts about the TLS handshake with the server.
    pub handshake: Option<Arc<Handshake>>,
    /// Number of the connection, unique within the instance; 0 if it has none.
    pub number: u64,
    /// Number of its requests so far.
    pub requests: RequestCount,
}

/// A counter of requests. A copy counts on its own.
#[derive(Debug, Default)]
pub struct RequestCount(AtomicU64);

impl Clone for RequestCount {
    fn clone(&self) -> Self {
        RequestCount(AtomicU64::new(self.0.load(Relaxed)))
    }
}

impl ConnectionInfo {
    /// Returns the port that the client connected to; `None` on a unix socket, unless a trusted proxy
    /// reports it.
    pub fn server_port(&self) -> Option<u16> {
        self.port.or_else(|| self.local.map(|local| local.port()))
    }

    /// Returns a number for a new connection.
    pub fn next_number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Relaxed)
    }

    /// Counts a request. Returns its number, from 1.
    pub fn next_request(&self) -> u64 {
        self.requests.0.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// Returns the owner of the memory of a connection without a request.
    pub fn owner(&self) -> Owner {
        Owner::new(self.peer.map(|peer| peer.ip()), None)
    }

    /// Returns `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

/// Formats an address for scripts and logs; `unix:` for a unix socket. IPv4 addresses that a socket
/// of both families reports as IPv6 are shown as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownAddress(pub Option<IpAddr>);

impl fmt::Display for ShownAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(|ip| ip.to_canonical()) {
            None => f.write_str("unix:"),
            Some(IpAddr::V6(v6)) => match v6.segments() {
                // RFC 4291, 2.2, form 3, for an embedded IPv4 address, as `inet_ntop` formats it.
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
