//! Strings with variables, such as `/www/$host$uri`.
//!
//! `$name` and `${name}` stand for a variable; names are letters and underscores, or one digit for
//! the text that a group of a regular expression has captured. A dollar sign itself is written
//! `$dollar` or `${dollar}`.

mod defined;

use std::fmt;

pub use defined::{Defined, DefinedVariables, MAX_WEIGHT, Table};

use crate::groups::{Group, Groups};
use crate::shown::Shown;

/// A string with variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Vec<Part>,
}

/// A piece of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Literal(String),
    /// A variable, whose text depends on the request.
    Variable(Variable),
}

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
    /// `$upstream_cache_status`: what the cache did, one word for all servers.
    CacheStatus,
    /// `$upstream_connect_time`: seconds until there was a connection.
    ConnectTime,
    /// `$upstream_header_time`: seconds until the head of the response.
    HeaderTime,
    /// `$upstream_response_time`: seconds until the end of the response.
    ResponseTime,
    /// `$upstream_status`: the status.
    Status,
}

/// Reason why a string is not a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// A `$` is not followed by a name, or its `${` is not closed.
    NoName {
        /// Bytes before the `$`.
        offset: usize,
    },
    /// There is no variable of this name.
    Unknown {
        /// The name as written.
        name: String,
    },
    /// There is no group of this number.
    NoGroup {
        /// The number as written.
        number: String,
        /// Number of groups.
        count: usize,
    },
    /// A variable and a group have this name.
    Ambiguous {
        /// The name as written.
        name: String,
    },
    /// The string is a JavaScript template, in backticks.
    JavaScript,
}

impl Template {
    /// Reads a string with variables.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        Template::parse_with(text, &Groups::default())
    }

    /// Reads a string with variables and captures of these groups.
    pub fn parse_with(text: &str, groups: &Groups) -> Result<Template, TemplateError> {
        Template::parse_in(text, groups, &DefinedVariables::default())
    }

    /// Reads a string with variables, also those that the document defines, and captures.
    pub fn parse_in(
        text: &str,
        groups: &Groups,
        variables: &DefinedVariables,
    ) -> Result<Template, TemplateError> {
        if text.len() >= 2 && text.starts_with('`') && text.ends_with('`') {
            return Err(TemplateError::JavaScript);
        }
        let mut template = Template::default();
        let mut rest = text;
        while let Some((literal, reference)) = rest.split_once('$') {
            template.push_literal(literal);
            let offset = text.len() - reference.len() - 1;
            let (name, after) = split_name(reference).ok_or(TemplateError::NoName { offset })?;
            match name {
                "dollar" => template.push_literal("$"),
                _ => template.parts.push(Part::Variable(Variable::read(name, groups, variables)?)),
            }
            rest = after;
        }
        template.push_literal(rest);
        Ok(template)
    }

    /// Escapes a path so that [`Template::parse`] reads it as literal text.
    pub fn escape(path: &str) -> String {
        path.replace('$', "${dollar}")
    }

    fn push_literal(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Literal(last)) => last.push_str(text),
            _ => self.parts.push(Part::Literal(text.to_owned())),
        }
    }

    /// Returns true if the text ends with a part of the document behind a variable, as `$uri/index.html` does; a slash
    /// alone does not count.
    pub fn extends_variable(&self) -> bool {
        match self.parts() {
            [.., Part::Variable(_), Part::Literal(text)] => text != "/",
            _ => false,
        }
    }

    /// Returns the parts in order. No literal is empty or follows another.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the text, if the template has no variable.
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the text to `out`; `value` appends the value of a variable.
    pub fn expand(&self, out: &mut Vec<u8>, mut value: impl FnMut(&Variable, &mut Vec<u8>)) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Variable(variable) => value(variable, out),
            }
        }
    }
}

/// Returns the names of variables, without those that have an argument.
pub fn names<'a>() -> impl Iterator<Item = &'a str> {
    CONSTANT.iter().map(|(name, _)| *name).chain(["dollar"])
}

/// Returns the name that follows a `$`, and the text behind it.
pub fn split_name(reference: &str) -> Option<(&str, &str)> {
    let (text, bracket) = match reference.strip_prefix('{') {
        Some(text) => (text, true),
        None => (reference, false),
    };
    let is_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let length = match text.bytes().next() {
        Some(b'0'..=b'9') => 1,
        _ if text.starts_with(TIME_ISO) => TIME_ISO.len(),
        _ => text.bytes().take_while(|byte| is_name(*byte)).count(),
    };
    // The counted bytes are ASCII, so this is a character boundary.
    let (name, after) = text.split_at_checked(length)?;
    if name.is_empty() {
        return None;
    }
    match bracket {
        true => Some((name, after.strip_prefix('}')?)),
        false => Some((name, after)),
    }
}

impl Variable {
    /// Returns the variable or group of this name (without `$`).
    fn read(
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
        let constant = CONSTANT.iter().find(|(other, _)| *other == name);
        match constant {
            Some((_, variable)) => Some(variable.clone()),
            None => Variable::with_argument(name),
        }
    }

    /// Returns true if each value of the variable is a number of JSON.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Variable::BodyBytesSent
                | Variable::BytesSent
                | Variable::Connection
                | Variable::ConnectionRequests
                | Variable::Milliseconds
                | Variable::PhpTime
                | Variable::QueueTime
                | Variable::RemotePort
                | Variable::RequestLength
                | Variable::RequestTime
                | Variable::ServerPort
                | Variable::Status
        )
    }

    /// Returns the name of a variable without an argument.
    pub fn constant_name(&self) -> Option<&'static str> {
        CONSTANT.iter().find(|(_, other)| other == self).map(|(name, _)| *name)
    }

    /// Returns true if the variable has a value only when there is a response.
    pub fn is_of_response(&self) -> bool {
        if let Variable::Defined(defined) = self {
            return defined.is_of_response();
        }
        matches!(
            self,
            Variable::BodyBytesSent
                | Variable::BytesSent
                | Variable::PhpTime
                | Variable::QueueTime
                | Variable::RequestLength
                | Variable::RequestTime
                | Variable::ResponseHeader(_)
                | Variable::Status
                | Variable::Upstream(_)
        )
    }

    fn with_argument(name: &str) -> Option<Variable> {
        let field = |name: &str| name.to_ascii_lowercase().replace('_', "-");
        let (variable, argument) = if let Some(argument) = name.strip_prefix("response_header_") {
            (Variable::ResponseHeader(field(argument)), argument)
        } else if let Some(argument) = name.strip_prefix("header_") {
            (Variable::Header(field(argument)), argument)
        } else if let Some(argument) = name.strip_prefix("arg_") {
            (Variable::Argument(argument.to_owned()), argument)
        } else {
            let argument = name.strip_prefix("cookie_")?;
            (Variable::Cookie(argument.to_owned()), argument)
        };
        (!argument.is_empty()).then_some(variable)
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::NoName { offset } => {
                write!(f, "has a \"$\" without a variable's name at byte {offset}")
            }
            TemplateError::Unknown { name } => {
                // Unit's message, which scripts of administrators may search for.
                write!(f, "Unknown variable \"${}\"", Shown(name))
            }
            TemplateError::NoGroup { number, count: 0 } => {
                write!(f, "has \"${number}\", and no regular expression here has a group")
            }
            TemplateError::NoGroup { number, count } => {
                write!(f, "has \"${number}\", and the groups are numbered from 1 to {count}")
            }
            TemplateError::Ambiguous { name } => {
                let name = Shown(name);
                write!(f, "has \"${name}\", which is a variable and also a group's name")
            }
            TemplateError::JavaScript => {
                f.write_str("is a JavaScript template, which Howdah has not; use variables")
            }
        }
    }
}

impl std::error::Error for TemplateError {}

/// Variables without an argument, by name.
const CONSTANT: &[(&str, Variable)] = &[
    ("application", Variable::Application),
    ("args", Variable::Arguments),
    ("body_bytes_sent", Variable::BodyBytesSent),
    ("bytes_sent", Variable::BytesSent),
    ("connection", Variable::Connection),
    ("connection_requests", Variable::ConnectionRequests),
    ("host", Variable::Host),
    ("hostname", Variable::Hostname),
    ("https", Variable::Https),
    ("is_args", Variable::HasArguments),
    ("method", Variable::Method),
    ("msec", Variable::Milliseconds),
    ("php_time", Variable::PhpTime),
    ("query_string", Variable::Arguments),
    ("queue_time", Variable::QueueTime),
    ("remote_addr", Variable::RemoteAddress),
    ("remote_port", Variable::RemotePort),
    ("remote_user", Variable::RemoteUser),
    ("request_id", Variable::RequestId),
    ("request_length", Variable::RequestLength),
    ("request_line", Variable::RequestLine),
    ("request_time", Variable::RequestTime),
    ("request_uri", Variable::RequestUri),
    ("scheme", Variable::Scheme),
    ("server_addr", Variable::ServerAddress),
    ("server_port", Variable::ServerPort),
    ("server_protocol", Variable::ServerProtocol),
    ("ssl_cipher", Variable::Ssl(SslVariable::Cipher)),
    ("ssl_client_escaped_cert", Variable::Ssl(SslVariable::ClientEscapedCert)),
    ("ssl_client_fingerprint", Variable::Ssl(SslVariable::ClientFingerprint)),
    ("ssl_client_i_dn", Variable::Ssl(SslVariable::ClientIssuer)),
    ("ssl_client_s_dn", Variable::Ssl(SslVariable::ClientSubject)),
    ("ssl_client_serial", Variable::Ssl(SslVariable::ClientSerial)),
    ("ssl_client_verify", Variable::Ssl(SslVariable::ClientVerify)),
    ("ssl_protocol", Variable::Ssl(SslVariable::Protocol)),
    ("ssl_server_name", Variable::Ssl(SslVariable::ServerName)),
    ("ssl_session_reused", Variable::Ssl(SslVariable::SessionReused)),
    ("status", Variable::Status),
    (TIME_ISO, Variable::TimeIso),
    ("time_local", Variable::TimeLocal),
    ("upstream_addr", Variable::Upstream(UpstreamVariable::Address)),
    ("upstream_cache_status", Variable::Upstream(UpstreamVariable::CacheStatus)),
    ("upstream_connect_time", Variable::Upstream(UpstreamVariable::ConnectTime)),
    ("upstream_header_time", Variable::Upstream(UpstreamVariable::HeaderTime)),
    ("upstream_response_time", Variable::Upstream(UpstreamVariable::ResponseTime)),
    ("upstream_status", Variable::Upstream(UpstreamVariable::Status)),
    ("uri", Variable::Uri),
];

/// The only name that has digits.
const TIME_ISO: &str = "time_iso8601";

#[cfg(test)]
mod tests;
