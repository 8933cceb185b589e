//! Values of the variables in templates.

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, LazyLock};
use std::thread::LocalKey;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use howdah_sys::clock;
use howdah_template::php_name::is_known_as;
use howdah_template::{SslVariable, Template, UpstreamVariable, Variable};
use howdah_text::{date, percent};

use crate::handling::{Handling, Script};
use crate::handshake::{ClientCertificate, Handshake};
use crate::message::{
    ConnectionFields, ConnectionInfo, FieldBlock, Request, ShownAddress, ShownRequestId,
};
use crate::query;

/// The request and response that variables take their values from.
#[derive(Debug, Clone, Copy)]
pub struct VariableSource<'a> {
    /// The request; `None` if its head was refused.
    pub request: Option<&'a Request>,
    /// Connection of the request, or the facts that a trusted proxy reports.
    pub connection: &'a ConnectionInfo,
    /// The response, once there is one.
    pub answer: Option<ResponseFacts<'a>>,
    /// Time at which the first byte of the request arrived.
    pub started_at: Instant,
    /// The values are for a log, which shows the target with the fragment that was cut off.
    pub is_for_log: bool,
}

/// A response for variables.
#[derive(Debug, Clone, Copy)]
pub struct ResponseFacts<'a> {
    /// Status code.
    pub status: u16,
    /// Header fields, without those that the connection adds.
    pub fields: &'a FieldBlock,
    /// Fields that the connection adds.
    pub connection_fields: ConnectionFields<'a>,
    /// Bytes of the body sent.
    pub body_sent: u64,
    /// Bytes of the request received, and of the response sent, once it is complete.
    pub transferred: Option<(u64, u64)>,
}

impl<'a> VariableSource<'a> {
    /// Creates the source for a request without a response.
    pub fn of(request: &'a Request, started_at: Instant) -> Self {
        let connection = &request.connection;
        VariableSource {
            request: Some(request),
            connection,
            answer: None,
            started_at,
            is_for_log: false,
        }
    }

    /// Evaluates a template.
    pub fn expand(&self, template: &Template) -> Vec<u8> {
        let mut out = Vec::new();
        template.expand(&mut out, |variable, out| {
            self.write(variable, out);
        });
        out
    }

    /// Appends the value of a variable. Returns false if the variable has no value, which the
    /// access log does not show like an empty one.
    pub fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        match variable {
            Variable::BodyBytesSent => {
                number(out, self.answer.map_or(0, |answer| answer.body_sent))
            }
            Variable::BytesSent => self.transferred().is_some_and(|(_, sent)| number(out, sent)),
            Variable::Connection => number(out, self.connection.number),
            Variable::Defined(defined) => {
                if let (Some(database), Some(request)) = (defined.unread_database(), self.request) {
                    request.handling.set_unread_database(Some(Arc::clone(database)));
                }
                defined.write(out, &|variable, out| {
                    self.write(variable, out);
                })
            }
            Variable::Hostname => text(out, hostname().as_bytes()),
            // As in nginx, `$https` and `$is_args` are never absent, but empty.
            Variable::Https => text(out, if self.connection.tls { b"on" } else { b"" }),
            Variable::Milliseconds => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                seconds(now, out)
            }
            Variable::RemotePort => {
                self.connection.peer.is_some_and(|peer| number(out, peer.port().into()))
            }
            Variable::RequestLength => {
                self.transferred().is_some_and(|(received, _)| number(out, received))
            }
            Variable::ServerAddress => {
                let local = self.connection.local.map(|local| local.ip());
                put(out, format_args!("{}", ShownAddress(local)))
            }
            Variable::ServerPort => {
                self.connection.local.is_some_and(|local| number(out, local.port().into()))
            }
            Variable::RemoteAddress => put(out, format_args!("{}", self.remote())),
            Variable::RequestTime => seconds(self.started_at.elapsed(), out),
            Variable::ResponseHeader(name) => self.response_field(name, out),
            Variable::Scheme => text(out, self.connection.scheme().as_bytes()),
            Variable::Ssl(variable) => {
                let handshake = self.connection.handshake.as_ref();
                handshake.is_some_and(|shown| handshake_variable(*variable, shown, out))
            }
            Variable::Status => match self.answer {
                Some(answer) => put(out, format_args!("{:03}", answer.status)),
                None => false,
            },
            Variable::TimeIso => {
                local_time(out, clock::iso_date, &ISO_TIME);
                true
            }
            Variable::TimeLocal => {
                local_time(out, clock::log_date, &LOG_TIME);
                true
            }
            _ => self.request.is_some_and(|request| {
                let fragment: &[u8] = if self.is_for_log { &request.fragment } else { b"" };
                request_variable(variable, request, fragment, out)
            }),
        }
    }

    fn transferred(&self) -> Option<(u64, u64)> {
        self.answer.as_ref()?.transferred
    }

    fn remote(&self) -> ShownAddress {
        ShownAddress(self.connection.peer.map(|peer| peer.ip()))
    }

    fn response_field(&self, name: &str, out: &mut Vec<u8>) -> bool {
        let Some(answer) = &self.answer else { return false };
        if let Some((_, value)) = answer.fields.iter().find(|(other, _)| is_named(other, name)) {
            return text(out, value);
        }
        let added = &answer.connection_fields;
        match name {
            "server" if !added.server.is_empty() => text(out, added.server),
            "date" if added.date => {
                let now = std::time::SystemTime::now();
                text(out, date::http_of(now).as_bytes())
            }
            "content-length" => added.length.is_some_and(|length| number(out, length)),
            "transfer-encoding" if added.chunked => text(out, b"chunked"),
            "connection" if !added.connection.is_empty() => text(out, added.connection.as_bytes()),
            _ => false,
        }
    }
}

fn request_variable(
    variable: &Variable,
    request: &Request,
    fragment: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let present = |out: &mut Vec<u8>, value: &Bytes| !value.is_empty() && text(out, value);
    match variable {
        Variable::Application => {
            let name = |script: &dyn Script| text(out, script.application().as_bytes());
            request.handling.script(name).unwrap_or(false)
        }
        Variable::Argument(name) => {
            let value = query::argument(&request.query, name.as_bytes());
            value.is_some_and(|value| {
                out.extend(percent::decoded_form(value));
                true
            })
        }
        Variable::Arguments => present(out, &request.query),
        Variable::Capture(group) => {
            request.captures.get(group).is_some_and(|found| text(out, found))
        }
        Variable::ConnectionRequests => number(out, request.handling.ordinal),
        Variable::Cookie(name) => {
            let fields = request.fields.get_all("cookie");
            let mut cookies = fields.flat_map(|field| query::cookies(field, true));
            let found = cookies.find(|(other, _)| is_known_as(other, name.as_bytes()));
            found.is_some_and(|(_, value)| text(out, value))
        }
        Variable::HasArguments => text(out, if request.query.is_empty() { b"" } else { b"?" }),
        Variable::Header(name) => request.fields.get(name).is_some_and(|value| text(out, value)),
        Variable::Host => present(out, &request.host),
        Variable::Method => text(out, &request.method),
        Variable::PhpTime | Variable::QueueTime => {
            let times = request.handling.script(|script| script.times()).flatten();
            times.is_some_and(|(queued, ran)| match variable {
                Variable::QueueTime => seconds(queued, out),
                _ => seconds(ran, out),
            })
        }
        Variable::RemoteUser => request.user.as_ref().is_some_and(|user| text(out, user)),
        Variable::ServerProtocol => text(out, request.version.as_str().as_bytes()),
        Variable::Upstream(UpstreamVariable::CacheStatus) => {
            request.handling.cache_status().is_some_and(|status| text(out, status.as_bytes()))
        }
        Variable::Upstream(variable) => upstream_variable(*variable, &request.handling, out),
        Variable::RequestId => put(out, format_args!("{}", ShownRequestId(request.id))),
        Variable::RequestLine => {
            let version = request.version.as_str().as_bytes();
            let parts = [&request.method, &b" "[..], &request.target, fragment, b" ", version];
            parts.into_iter().all(|part| text(out, part))
        }
        Variable::RequestUri => text(out, &request.target) && text(out, fragment),
        Variable::Uri => text(out, &request.path),
        // `VariableSource::write` handles these.
        Variable::BodyBytesSent
        | Variable::BytesSent
        | Variable::Connection
        | Variable::Defined(_)
        | Variable::Hostname
        | Variable::Https
        | Variable::Milliseconds
        | Variable::RemotePort
        | Variable::RequestLength
        | Variable::ServerAddress
        | Variable::ServerPort
        | Variable::TimeIso
        | Variable::RemoteAddress
        | Variable::RequestTime
        | Variable::ResponseHeader(_)
        | Variable::Scheme
        | Variable::Ssl(_)
        | Variable::Status
        | Variable::TimeLocal => false,
    }
}

/// Appends a fact about each server that got the request. Returns false if there is none.
fn upstream_variable(variable: UpstreamVariable, handling: &Handling, out: &mut Vec<u8>) -> bool {
    let mut is_first = true;
    handling.for_each_attempt(|attempt| {
        if !std::mem::replace(&mut is_first, false) {
            text(out, b", ");
        }
        let time =
            |time: Option<Duration>, out: &mut Vec<u8>| time.is_some_and(|time| seconds(time, out));
        let is_known = match variable {
            UpstreamVariable::Address => text(out, attempt.address.as_bytes()),
            // One for the request, not for each server.
            UpstreamVariable::CacheStatus => false,
            UpstreamVariable::ConnectTime => time(attempt.connect_time(), out),
            UpstreamVariable::HeaderTime => time(attempt.head_time(), out),
            UpstreamVariable::ResponseTime => time(attempt.response_time(), out),
            UpstreamVariable::Status => {
                attempt.status().is_some_and(|status| number(out, status.into()))
            }
        };
        if !is_known {
            text(out, b"-");
        }
    });
    !is_first
}

fn handshake_variable(variable: SslVariable, shown: &Handshake, out: &mut Vec<u8>) -> bool {
    let client = |of: fn(&ClientCertificate) -> &str| shown.client.as_ref().map_or("", of);
    let value = match variable {
        SslVariable::Cipher => shown.cipher,
        SslVariable::ClientEscapedCert => return escape(client(|client| &client.pem), out),
        SslVariable::ClientFingerprint => client(|client| &client.fingerprint),
        SslVariable::ClientIssuer => client(|client| &client.issuer),
        SslVariable::ClientSerial => client(|client| &client.serial),
        SslVariable::ClientSubject => client(|client| &client.subject),
        SslVariable::ClientVerify => shown.verified(),
        SslVariable::Protocol => shown.protocol,
        SslVariable::ServerName => &shown.server_name,
        SslVariable::SessionReused => {
            if shown.is_resumed {
                "r"
            } else {
                "."
            }
        }
    };
    !value.is_empty() && text(out, value.as_bytes())
}

/// Percent-encodes all bytes except the unreserved ones (RFC 3986, 2.3). Returns false if `value`
/// is empty.
fn escape(value: &str, out: &mut Vec<u8>) -> bool {
    percent::encode(value.as_bytes(), percent::is_unreserved, out);
    !value.is_empty()
}

/// Returns true if a field has this name, in which `-` matches `_` too.
fn is_named(field: &[u8], name: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    field.len() == name.len() && field.iter().map(|byte| plain(*byte)).eq(name.bytes())
}

fn text(out: &mut Vec<u8>, value: &[u8]) -> bool {
    out.extend_from_slice(value);
    true
}

fn seconds(time: Duration, out: &mut Vec<u8>) -> bool {
    put(out, format_args!("{}.{:03}", time.as_secs(), time.subsec_millis()))
}

/// Returns the name of the machine at the start of the process.
fn hostname() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(howdah_sys::machine::name);
    &NAME
}

fn number(out: &mut Vec<u8>, value: u64) -> bool {
    put(out, format_args!("{value}"))
}

fn put(out: &mut Vec<u8>, value: std::fmt::Arguments<'_>) -> bool {
    // Writing to memory does not fail.
    out.write_fmt(value).is_ok()
}

/// A second, and its time as text.
type FormattedTime = RefCell<(u64, String)>;

thread_local! {
    static ISO_TIME: FormattedTime = const { RefCell::new((u64::MAX, String::new())) };
    static LOG_TIME: FormattedTime = const { RefCell::new((u64::MAX, String::new())) };
}

/// Appends the local time, formatted once a second per thread.
fn local_time(
    out: &mut Vec<u8>,
    format: fn(u64, &mut String),
    formatted: &'static LocalKey<FormattedTime>,
) {
    let now = clock::wall_seconds();
    formatted.with_borrow_mut(|(second, text)| {
        if *second != now {
            *second = now;
            text.clear();
            format(now, text);
        }
        out.extend_from_slice(text.as_bytes());
    });
}

#[cfg(test)]
#[path = "variables_tests.rs"]
mod tests;
