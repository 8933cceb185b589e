//! Variables of the server, as `%{NAME}` in expressions and in rules.

use std::borrow::Cow;

use howdah_text::date::Date;

use super::scope::Scope;
use crate::record::{FileKind, Record};

/// Major and minor number of Apache's module interface (2.4.71).
const API_VERSION: (&str, &str) = ("20120211", "20120211:142");

/// A variable of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each has the name that Apache documents")]
pub enum Variable {
    ApiMajor,
    ApiVersion,
    AuthType,
    ConnLogId,
    ConnRemoteAddr,
    ContentType,
    ContextDocumentRoot,
    ContextPrefix,
    DocumentRoot,
    DocumentUri,
    Handler,
    /// A field of the request, by the name that `Vary` shall have.
    Header(&'static str),
    Http2,
    Https,
    Ipv6,
    IsSubrequest,
    LastModified,
    PathInfo,
    QueryString,
    RemoteAddr,
    RemoteHost,
    RemoteIdent,
    RemotePort,
    RemoteUser,
    RequestFilename,
    RequestLogId,
    RequestMethod,
    RequestScheme,
    RequestStatus,
    RequestUri,
    /// `SCRIPT_GROUP`, with the text for files without one.
    ScriptGroup(&'static str),
    ScriptUser(&'static str),
    ServerAddr,
    ServerAdmin,
    ServerName,
    ServerPort,
    ServerProtocol,
    ServerSoftware,
    Ssl(Vec<u8>),
    TheRequest,
    Time,
    /// A part of the local time: offset and length in `YYYYMMDDHHMMSS`.
    TimePart(u8, u8),
    Weekday,
}

impl Variable {
    /// Finds a variable of expressions; case is ignored.
    pub(super) fn of_expression(name: &[u8]) -> Option<Variable> {
        let upper = name.to_ascii_uppercase();
        Some(match upper.as_slice() {
            b"API_VERSION" => Variable::ApiMajor,
            b"CONN_LOG_ID" => Variable::ConnLogId,
            b"CONTENT_TYPE" => Variable::ContentType,
            b"DOCUMENT_URI" => Variable::DocumentUri,
            b"HANDLER" => Variable::Handler,
            b"HTTP2" => Variable::Http2,
            b"LAST_MODIFIED" => Variable::LastModified,
            b"REQUEST_LOG_ID" => Variable::RequestLogId,
            b"REQUEST_STATUS" => Variable::RequestStatus,
            b"SCRIPT_GROUP" => Variable::ScriptGroup(""),
            b"SCRIPT_USER" => Variable::ScriptUser(""),
            b"SERVER_ADDR" => return None,
            name if name.starts_with(b"SSL_") => Variable::Ssl(name.to_vec()),
            _ => return Variable::of_rule(name),
        })
    }

    /// Finds a variable of rewrite rules; case is ignored.
    pub fn of_rule(name: &[u8]) -> Option<Variable> {
        let upper = name.to_ascii_uppercase();
        Some(match upper.as_slice() {
            b"API_VERSION" => Variable::ApiVersion,
            b"AUTH_TYPE" => Variable::AuthType,
            b"CONN_REMOTE_ADDR" => Variable::ConnRemoteAddr,
            b"CONTEXT_DOCUMENT_ROOT" => Variable::ContextDocumentRoot,
            b"CONTEXT_PREFIX" => Variable::ContextPrefix,
            b"DOCUMENT_ROOT" => Variable::DocumentRoot,
            b"HTTPS" => Variable::Https,
            b"HTTP_ACCEPT" => Variable::Header("Accept"),
            b"HTTP_COOKIE" => Variable::Header("Cookie"),
            b"HTTP_FORWARDED" => Variable::Header("Forwarded"),
            b"HTTP_HOST" => Variable::Header("Host"),
            b"HTTP_PROXY_CONNECTION" => Variable::Header("Proxy-Connection"),
            b"HTTP_REFERER" => Variable::Header("Referer"),
            b"HTTP_USER_AGENT" => Variable::Header("User-Agent"),
            b"IPV6" => Variable::Ipv6,
            b"IS_SUBREQ" => Variable::IsSubrequest,
            b"PATH_INFO" => Variable::PathInfo,
            b"QUERY_STRING" => Variable::QueryString,
            b"REMOTE_ADDR" => Variable::RemoteAddr,
            b"REMOTE_HOST" => Variable::RemoteHost,
            b"REMOTE_IDENT" => Variable::RemoteIdent,
            b"REMOTE_PORT" => Variable::RemotePort,
            b"REMOTE_USER" => Variable::RemoteUser,
            b"REQUEST_FILENAME" | b"SCRIPT_FILENAME" => Variable::RequestFilename,
            b"REQUEST_METHOD" => Variable::RequestMethod,
            b"REQUEST_SCHEME" => Variable::RequestScheme,
            b"REQUEST_URI" => Variable::RequestUri,
            b"SCRIPT_GROUP" => Variable::ScriptGroup("<unknown>"),
            b"SCRIPT_USER" => Variable::ScriptUser("<unknown>"),
            b"SERVER_ADDR" => Variable::ServerAddr,
            b"SERVER_ADMIN" => Variable::ServerAdmin,
            b"SERVER_NAME" => Variable::ServerName,
            b"SERVER_PORT" => Variable::ServerPort,
            b"SERVER_PROTOCOL" => Variable::ServerProtocol,
            b"SERVER_SOFTWARE" => Variable::ServerSoftware,
            b"THE_REQUEST" => Variable::TheRequest,
            b"TIME" => Variable::Time,
            b"TIME_YEAR" => Variable::TimePart(0, 4),
            b"TIME_MON" => Variable::TimePart(4, 2),
            b"TIME_DAY" => Variable::TimePart(6, 2),
            b"TIME_HOUR" => Variable::TimePart(8, 2),
            b"TIME_MIN" => Variable::TimePart(10, 2),
            b"TIME_SEC" => Variable::TimePart(12, 2),
            b"TIME_WDAY" => Variable::Weekday,
            _ => return None,
        })
    }

    /// Returns the value for a request; empty if there is none.
    pub fn value<'a>(&self, record: &'a Record, scope: &dyn Scope) -> Cow<'a, [u8]> {
        let connection = &record.connection;
        let text: &[u8] = match self {
            Variable::ApiMajor => API_VERSION.0.as_bytes(),
            Variable::ApiVersion => API_VERSION.1.as_bytes(),
            Variable::AuthType => record.auth_type.as_deref().unwrap_or_default(),
            Variable::ConnRemoteAddr | Variable::RemoteAddr => &connection.remote_addr,
            Variable::ContentType => record.content_type.as_deref().unwrap_or_default(),
            Variable::ContextDocumentRoot | Variable::DocumentRoot => &connection.document_root,
            // The server logs no names of connections, and has no aliases.
            Variable::ContextPrefix => &connection.prefix,
            Variable::ConnLogId | Variable::RequestLogId => b"",
            Variable::DocumentUri => record.env.get(b"DOCUMENT_URI").unwrap_or(&record.uri),
            Variable::Handler => record.handler.as_deref().unwrap_or_default(),
            Variable::Header(name) => record.headers_in.get(name.as_bytes()).unwrap_or_default(),
            Variable::Http2 => on_off(connection.is_http2),
            Variable::Https => on_off(connection.is_https),
            Variable::Ipv6 => {
                let is_mapped = connection.remote_addr.starts_with(b"::ffff:");
                on_off(connection.remote_addr.contains(&b':') && !is_mapped)
            }
            Variable::IsSubrequest if record.is_sub_request => b"true",
            Variable::IsSubrequest => b"false",
            Variable::PathInfo => &record.path_info,
            Variable::QueryString => record.args.as_deref().unwrap_or_default(),
            Variable::RemoteIdent => b"",
            Variable::RemoteUser => record.user.as_deref().unwrap_or_default(),
            Variable::RequestFilename => &record.filename,
            Variable::RequestMethod => &record.method,
            Variable::RequestScheme if connection.is_https => b"https",
            Variable::RequestScheme => b"http",
            Variable::RequestUri => &record.uri,
            Variable::ServerAddr => &connection.server_addr,
            Variable::ServerAdmin => &connection.server_admin,
            Variable::ServerName => &connection.server_name,
            Variable::ServerProtocol => &record.protocol,
            Variable::ServerSoftware => &connection.server_software,
            Variable::TheRequest => &record.request_line,
            _ => return Cow::Owned(self.computed(record, scope)),
        };
        Cow::Borrowed(text)
    }

    #[cold]
    fn computed(&self, record: &Record, scope: &dyn Scope) -> Vec<u8> {
        let now = record.connection.time.0;
        match self {
            Variable::LastModified => local_time(record.modified, scope).0.into_bytes(),
            Variable::Time => local_time(now, scope).0.into_bytes(),
            Variable::TimePart(start, length) => {
                let (start, length) = (usize::from(*start), usize::from(*length));
                let time = local_time(now, scope).0.into_bytes();
                time.get(start..start + length).unwrap_or_default().to_vec()
            }
            Variable::Weekday => local_time(now, scope).1.to_string().into_bytes(),
            Variable::RemoteHost => scope.remote_host(record),
            Variable::RemotePort => record.connection.remote_port.to_string().into_bytes(),
            Variable::ServerPort => record.connection.server_port.to_string().into_bytes(),
            Variable::RequestStatus if record.status == 0 => Vec::new(),
            Variable::RequestStatus => record.status.to_string().into_bytes(),
            Variable::ScriptGroup(missing) if record.file.kind == FileKind::None => {
                missing.as_bytes().to_vec()
            }
            Variable::ScriptGroup(_) => scope.group_name(record.file.group),
            Variable::ScriptUser(missing) if record.file.kind == FileKind::None => {
                missing.as_bytes().to_vec()
            }
            Variable::ScriptUser(_) => scope.user_name(record.file.user),
            Variable::Ssl(name) => scope.ssl(record, name).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

fn on_off(is_on: bool) -> &'static [u8] {
    if is_on { b"on" } else { b"off" }
}

/// Returns `YYYYMMDDHHMMSS` and the day of the week (0 is Sunday) of a time in seconds since 1970.
fn local_time(seconds: i64, scope: &dyn Scope) -> (String, u8) {
    let date = Date::of(seconds.saturating_add(scope.local_offset(seconds)));
    let Date { year, month, day, hour, minute, second, weekday } = date;
    let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}");
    (text, weekday)
}
