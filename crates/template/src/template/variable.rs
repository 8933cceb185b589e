//! Variables of templates: a row of [`ROWS`] each.

use super::TemplateError;
use super::defined::{Defined, DefinedVariables};
use crate::groups::{Group, Groups};

/// A variable without an argument.
struct Row {
    name: &'static str,
    variable: Variable,
    /// The variable has a value only when there is a response.
    is_of_response: bool,
    /// Each value is a number of JSON.
    is_number: bool,
}

/// Makes the variable of an argument.
type WithArgument = fn(&str) -> Variable;

/// The variables without an argument.
const ROWS: &[Row] = &[
    text("application", Variable::Application),
    text("args", Variable::Arguments),
    number("body_bytes_sent", Variable::BodyBytesSent).of_response(),
    number("bytes_sent", Variable::BytesSent).of_response(),
    number("connection", Variable::Connection),
    number("connection_requests", Variable::ConnectionRequests),
    text("host", Variable::Host),
    text("hostname", Variable::Hostname),
    text("https", Variable::Https),
    text("is_args", Variable::HasArguments),
    text("method", Variable::Method),
    number("msec", Variable::Milliseconds),
    number("php_time", Variable::PhpTime).of_response(),
    text("query_string", Variable::Arguments),
    number("queue_time", Variable::QueueTime).of_response(),
    text("remote_addr", Variable::RemoteAddress),
    number("remote_port", Variable::RemotePort),
    text("remote_user", Variable::RemoteUser),
    text("request_id", Variable::RequestId),
    number("request_length", Variable::RequestLength).of_response(),
    text("request_line", Variable::RequestLine),
    number("request_time", Variable::RequestTime).of_response(),
    text("request_uri", Variable::RequestUri),
    text("scheme", Variable::Scheme),
    text("script_filename", Variable::ScriptFilename).of_response(),
    text("server_addr", Variable::ServerAddress),
    number("server_port", Variable::ServerPort),
    text("server_protocol", Variable::ServerProtocol),
    text("ssl_cipher", Variable::Ssl(SslVariable::Cipher)),
    text("ssl_client_escaped_cert", Variable::Ssl(SslVariable::ClientEscapedCert)),
    text("ssl_client_fingerprint", Variable::Ssl(SslVariable::ClientFingerprint)),
    text("ssl_client_i_dn", Variable::Ssl(SslVariable::ClientIssuer)),
    text("ssl_client_s_dn", Variable::Ssl(SslVariable::ClientSubject)),
    text("ssl_client_serial", Variable::Ssl(SslVariable::ClientSerial)),
    text("ssl_client_verify", Variable::Ssl(SslVariable::ClientVerify)),
    text("ssl_protocol", Variable::Ssl(SslVariable::Protocol)),
    text("ssl_server_name", Variable::Ssl(SslVariable::ServerName)),
    text("ssl_session_reused", Variable::Ssl(SslVariable::SessionReused)),
    number("status", Variable::Status).of_response(),
    text(TIME_ISO, Variable::TimeIso),
    text("time_local", Variable::TimeLocal),
    text("trace_id", Variable::TraceId),
    text("upstream_addr", Variable::Upstream(UpstreamVariable::Address)).of_response(),
    text("upstream_cache_status", Variable::CacheStatus).of_response(),
    text("upstream_connect_time", Variable::Upstream(UpstreamVariable::ConnectTime)).of_response(),
    text("upstream_header_time", Variable::Upstream(UpstreamVariable::HeaderTime)).of_response(),
    text("upstream_response_time", Variable::Upstream(UpstreamVariable::ResponseTime))
        .of_response(),
    text("upstream_status", Variable::Upstream(UpstreamVariable::Status)).of_response(),
    text("uri", Variable::Uri),
];

/// The variables with an argument, which follows these texts.
const WITH_ARGUMENT: &[(&str, WithArgument)] = &[
    ("response_header_", |name| Variable::ResponseHeader(field_name(name))),
    ("header_", |name| Variable::Header(field_name(name))),
    ("arg_", |name| Variable::Argument(name.to_owned())),
    ("cookie_", |name| Variable::Cookie(name.to_owned())),
];

/// The only name that has digits.
pub(super) const TIME_ISO: &str = "time_iso8601";

/// A variable. Without a value it expands to an empty string, or `-` in the access log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Variable {
    /// `$arg_NAME`: the last query argument of that name, decoded. Upper and lower case differ.
    Argument(String),
    /// `$application`: name of the application that got the request.
    Application,
    /// `$args` and `$query_string`: the query as received, or as a rewrite has set it.
    Arguments,
    /// `$body_bytes_sent`: bytes of the response body sent so far.
    BodyBytesSent,
    /// `$bytes_sent`: bytes of the response sent so far, with its head.
    BytesSent,
    /// `$upstream_cache_status`: the result of the cache.
    CacheStatus,
    /// `$1` to `$9`, or `$NAME`: the text of a group of the step's regular expressions.
    Capture(Group),
    /// `$connection`: number of the connection, unique within the instance.
    Connection,
    /// `$connection_requests`: number of the request on its connection, from 1.
    ConnectionRequests,
    /// `$cookie_NAME`: a cookie. Upper and lower case differ.
    Cookie(String),
    /// `$is_args`: `?` if there is a query, otherwise empty.
    HasArguments,
    /// A variable of `variables`.
    Defined(Defined),
    /// `$header_NAME`: the first request field of that name, lower case with `-` for `_`.
    Header(String),
    /// `$host`: the requested host, lower case, without port and final dot.
    Host,
    /// `$hostname`: name of the machine.
    Hostname,
    /// `$https`: `on` with TLS, otherwise empty.
    Https,
    /// `$method`: the request's method.
    Method,
    /// `$msec`: seconds since 1970, with milliseconds.
    Milliseconds,
    /// `$php_time`: seconds for which a worker ran the request, with milliseconds.
    PhpTime,
    /// `$queue_time`: seconds for which the request waited for a worker, with milliseconds.
    QueueTime,
    /// `$remote_addr`: the client's address, without port.
    RemoteAddress,
    /// `$remote_port`: the client's port.
    RemotePort,
    /// `$remote_user`: the user whose password the server has checked.
    RemoteUser,
    /// `$request_id`: 32 hexadecimal digits that are unique to the request.
    RequestId,
    /// `$request_length`: bytes of the request, with its head.
    RequestLength,
    /// `$request_line`: the request line as received.
    RequestLine,
    /// `$request_time`: seconds since the request's first byte, with milliseconds.
    RequestTime,
    /// `$request_uri`: the request target as received, with its query.
    RequestUri,
    /// `$response_header_NAME`: a response field, lower case with `-` for `_`.
    ResponseHeader(String),
    /// `$scheme`: `http` or `https`.
    Scheme,
    /// `$script_filename`: path of the PHP script that got the request.
    ScriptFilename,
    /// `$server_addr`: the address that the client connected to, without port.
    ServerAddress,
    /// `$server_port`: the port that the client connected to.
    ServerPort,
    /// `$server_protocol`: the protocol, such as `HTTP/1.1`.
    ServerProtocol,
    /// `$ssl_NAME`: a fact about the TLS connection.
    Ssl(SslVariable),
    /// `$status`: the response's status code.
    Status,
    /// `$time_iso8601`: local time as in `2026-12-31T23:59:59+00:00`.
    TimeIso,
    /// `$time_local`: local time as in `31/Dec/2026:23:59:59 +0000`.
    TimeLocal,
    /// `$trace_id`: 32 hexadecimal digits that are the id of the request's trace.
    TraceId,
    /// `$upstream_NAME`: a fact about the servers that got the request.
    Upstream(UpstreamVariable),
    /// `$uri`: the decoded and normalised path, after rewriting.
    Uri,
}

/// Facts about a TLS connection, with nginx's names. Without TLS, they have no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SslVariable {
    /// `$ssl_cipher`: the cipher suite.
    Cipher,
    /// `$ssl_client_escaped_cert`: the client's certificate, PEM, percent-encoded.
    ClientEscapedCert,
    /// `$ssl_client_fingerprint`: SHA-1 of the client's certificate.
    ClientFingerprint,
    /// `$ssl_client_i_dn`: the issuer of the client's certificate.
    ClientIssuer,
    /// `$ssl_client_serial`: the serial number of the client's certificate.
    ClientSerial,
    /// `$ssl_client_s_dn`: the subject of the client's certificate.
    ClientSubject,
    /// `$ssl_client_verify`: `SUCCESS` or `NONE`.
    ClientVerify,
    /// `$ssl_protocol`: `TLSv1.2` or `TLSv1.3`.
    Protocol,
    /// `$ssl_server_name`: the server name that the client requested (SNI).
    ServerName,
    /// `$ssl_session_reused`: `r` if a session was resumed, otherwise `.`.
    SessionReused,
}

/// Facts about the servers that a request was passed to, with nginx's names. Values of several
/// servers are separated by `, `.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamVariable {
    /// `$upstream_addr`: the address.
    Address,
    /// `$upstream_connect_time`: seconds until there was a connection.
    ConnectTime,
    /// `$upstream_header_time`: seconds until the head of the response.
    HeaderTime,
    /// `$upstream_response_time`: seconds until the end of the response.
    ResponseTime,
    /// `$upstream_status`: the status.
    Status,
}

/// Returns the names of variables, without those that have an argument.
pub fn names<'a>() -> impl Iterator<Item = &'a str> {
    ROWS.iter().map(|row| row.name).chain(["dollar"])
}

impl Variable {
    /// Returns the variable or group of this name (without `$`).
    pub(super) fn read(
        name: &str,
        groups: &Groups,
        variables: &DefinedVariables,
    ) -> Result<Variable, TemplateError> {
        let owned = || name.to_owned();
        let group = match name.parse::<u8>() {
            Ok(number) if (1..=groups.count()).contains(&usize::from(number)) => {
                Group::Number(number)
            }
            Ok(_) => return Err(TemplateError::NoGroup { number: owned(), count: groups.count() }),
            Err(_) => match (Variable::in_scope(name, variables), groups.has_name(name)) {
                (Some(variable), false) => return Ok(variable),
                (None, true) => Group::Name(owned()),
                (None, false) => return Err(TemplateError::Unknown { name: owned() }),
                (Some(_), true) => return Err(TemplateError::Ambiguous { name: owned() }),
            },
        };
        groups.note_use();
        Ok(Variable::Capture(group))
    }

    fn in_scope(name: &str, variables: &DefinedVariables) -> Option<Variable> {
        Variable::named(name).or_else(|| variables.get(name).map(Variable::Defined))
    }

    /// Returns the variable of this name (without `$`); `None` for `dollar`, which is a literal.
    pub fn named(name: &str) -> Option<Variable> {
        let row = ROWS.iter().find(|row| row.name == name);
        row.map(|row| row.variable.clone()).or_else(|| Variable::with_argument(name))
    }

    /// Returns true if each value of the variable is a number of JSON.
    pub fn is_number(&self) -> bool {
        self.row().is_some_and(|row| row.is_number)
    }

    /// Returns the name of a variable without an argument.
    pub fn constant_name(&self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }

    /// Returns true if the variable has a value only when there is a response.
    pub fn is_of_response(&self) -> bool {
        self.leads_to(&|variable| match variable {
            Variable::ResponseHeader(_) => true,
            _ => variable.row().is_some_and(|row| row.is_of_response),
        })
    }

    /// Returns true if the variable, or one that its value is made from, is of this kind.
    pub fn leads_to(&self, is_wanted: &dyn Fn(&Variable) -> bool) -> bool {
        match self {
            Variable::Defined(defined) => defined.leads_to(is_wanted),
            variable => is_wanted(variable),
        }
    }

    fn row(&self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.variable == *self)
    }

    fn with_argument(name: &str) -> Option<Variable> {
        let (prefix, variable) =
            WITH_ARGUMENT.iter().find(|(prefix, _)| name.starts_with(prefix))?;
        let argument = name.get(prefix.len()..).filter(|argument| !argument.is_empty())?;
        Some(variable(argument))
    }
}

impl Row {
    const fn of_response(mut self) -> Row {
        self.is_of_response = true;
        self
    }
}

const fn text(name: &'static str, variable: Variable) -> Row {
    Row { name, variable, is_of_response: false, is_number: false }
}

const fn number(name: &'static str, variable: Variable) -> Row {
    Row { name, variable, is_of_response: false, is_number: true }
}

fn field_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}
