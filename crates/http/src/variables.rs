//! Values of the variables in templates.

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, LazyLock};
use std::thread::LocalKey;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_sys::clock;
use howdah_template::php_name::is_known_as;
use howdah_template::{SslVariable, Template, Variable};
use howdah_text::{date, percent};

use crate::handling::{Fact, Handling};
use crate::handshake::{ClientCertificate, Handshake};
use crate::message::{
    ConnectionFields, ConnectionInfo, FieldBlock, Request, ShownAddress, ShownRequestId,
};
use crate::query;
use crate::trace::Trace;

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
        self.append(variable, out).is_some_and(|has_value| has_value)
    }

    /// Appends the value of a variable. `None` if the subject of the variable, such as a response,
    /// is missing; false if it has no value.
    fn append(&self, variable: &Variable, out: &mut Vec<u8>) -> Option<bool> {
        let connection = self.connection;
        Some(match variable {
            Variable::Application => text(out, self.request?.handling.runner()?.as_bytes()),
            Variable::Argument(name) => {
                let value = query::argument(&self.request?.query, name.as_bytes())?;
                out.extend(percent::decoded_form(value));
                true
            }
            Variable::Arguments => present(out, &self.request?.query),
            Variable::BodyBytesSent => {
                number(out, self.answer.map_or(0, |answer| answer.body_sent))
            }
            Variable::BytesSent => number(out, self.answer?.transferred?.1),
            Variable::CacheStatus => text(out, self.request?.handling.cache_status()?.as_bytes()),
            Variable::Capture(group) => text(out, self.request?.captures.get(group)?),
            Variable::Connection => number(out, connection.number),
            Variable::ConnectionRequests => number(out, self.request?.handling.ordinal),
            Variable::Cookie(name) => {
                let fields = self.request?.fields.get_all("cookie");
                let mut cookies = fields.flat_map(|field| query::cookies(field, true));
                text(out, cookies.find(|(other, _)| is_known_as(other, name.as_bytes()))?.1)
            }
            Variable::Defined(defined) => {
                if let (Some(database), Some(request)) = (defined.unread_database(), self.request) {
                    request.handling.set_unread_database(Some(Arc::clone(database)));
                }
                defined.write(out, &|variable, out| {
                    self.write(variable, out);
                })
            }
            // As in nginx, `$https` and `$is_args` are never absent, but empty.
            Variable::HasArguments => {
                text(out, if self.request?.query.is_empty() { b"" } else { b"?" })
            }
            Variable::Header(name) => text(out, self.request?.fields.get(name)?),
            Variable::Host => present(out, &self.request?.host),
            Variable::Hostname => text(out, hostname().as_bytes()),
            Variable::Https => text(out, if connection.tls { b"on" } else { b"" }),
            Variable::Method => text(out, &self.request?.method),
            Variable::Milliseconds => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                seconds(now, out)
            }
            Variable::PhpTime | Variable::QueueTime | Variable::ScriptFilename => {
                self.request?.handling.fact_of_runner(variable, |value| fact(value, out))?
            }
            Variable::RemoteAddress => {
                put(out, format_args!("{}", ShownAddress(connection.peer.map(|peer| peer.ip()))))
            }
            Variable::RemotePort => number(out, connection.peer?.port().into()),
            Variable::RemoteUser => text(out, self.request?.user.as_ref()?),
            Variable::RequestId => put(out, format_args!("{}", ShownRequestId(self.request?.id))),
            Variable::RequestLength => number(out, self.answer?.transferred?.0),
            Variable::RequestLine => {
                let request = self.request?;
                let version = request.version.as_str().as_bytes();
                let fragment = self.fragment(request);
                let parts = [&request.method, &b" "[..], &request.target, fragment, b" ", version];
                parts.into_iter().all(|part| text(out, part))
            }
            Variable::RequestTime => seconds(self.started_at.elapsed(), out),
            Variable::RequestUri => {
                let request = self.request?;
                text(out, &request.target) && text(out, self.fragment(request))
            }
            Variable::ResponseHeader(name) => self.response_field(name, out),
            Variable::Scheme => text(out, connection.scheme().as_bytes()),
            Variable::ServerAddress => {
                let local = connection.local.map(|local| local.ip());
                put(out, format_args!("{}", ShownAddress(local)))
            }
            Variable::ServerPort => number(out, connection.server_port()?.into()),
            Variable::ServerProtocol => text(out, self.request?.version.as_str().as_bytes()),
            Variable::Ssl(variable) => {
                handshake_variable(*variable, connection.handshake.as_ref()?, out)
            }
            Variable::Status => put(out, format_args!("{:03}", self.answer?.status)),
            Variable::TimeIso => local_time(out, clock::iso_date, &ISO_TIME),
            Variable::TimeLocal => local_time(out, clock::log_date, &LOG_TIME),
            Variable::TraceId => put(out, format_args!("{}", Trace::of(self.request?)?.id)),
            Variable::Upstream(_) => facts_of_steps(variable, &self.request?.handling, out),
            Variable::Uri => text(out, &self.request?.path),
        })
    }

    fn fragment(&self, request: &'a Request) -> &'a [u8] {
        if self.is_for_log { &request.fragment } else { b"" }
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

/// Appends the value that each step has. Returns false if there are no steps.
fn facts_of_steps(variable: &Variable, handling: &Handling, out: &mut Vec<u8>) -> bool {
    let mut is_first = true;
    handling.for_each_step(|step| {
        if !std::mem::replace(&mut is_first, false) {
            text(out, b", ");
        }
        fact(step.value(variable).unwrap_or(Fact::Text("-")), out);
    });
    !is_first
}

fn fact(value: Fact<'_>, out: &mut Vec<u8>) -> bool {
    match value {
        Fact::Text(value) => text(out, value.as_bytes()),
        Fact::Number(value) => number(out, value),
        Fact::Time(value) => seconds(value, out),
    }
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
    present(out, value.as_bytes())
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

/// Appends a text. Returns false if it is empty.
fn present(out: &mut Vec<u8>, value: &[u8]) -> bool {
    !value.is_empty() && text(out, value)
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
) -> bool {
    let now = clock::wall_seconds();
    formatted.with_borrow_mut(|(second, text)| {
        if *second != now {
            *second = now;
            text.clear();
            format(now, text);
        }
        out.extend_from_slice(text.as_bytes());
    });
    true
}

#[cfg(test)]
mod tests;
