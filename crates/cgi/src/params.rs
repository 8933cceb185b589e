//! CGI parameters of a request, which become `$_SERVER`. They are those of PHP-FPM behind nginx
//! (table in `docs/php.md`).
//!
//! A client cannot set a parameter of the server: fields become `HTTP_…`, and their names have
//! letters, digits and hyphens only.

use std::fmt::{Display, Write};
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use howdah_config::is_directory_setting;
use howdah_http::authority;
use howdah_http::handshake::Handshake;
use howdah_http::message::ShownRequestId;
use howdah_http::message::{Request, ShownAddress, is_internal_field};
use howdah_http::trace::TraceFields;
use howdah_wire::php_values::PhpValues;
use howdah_wire::request::{Params, Reserved};

use crate::target::{Directives, Script};

/// Default value of `SERVER_SOFTWARE`.
pub const SOFTWARE: &str = concat!("Howdah/", env!("CARGO_PKG_VERSION"));

/// Default value of `SERVER_SOFTWARE` for an application with `.htaccess` files. Applications that
/// write these files (WordPress, for example) do so only if it contains `Apache`.
pub const APACHE_SOFTWARE: &str =
    concat!("Howdah/", env!("CARGO_PKG_VERSION"), " (Apache compatible)");

/// Length in bytes of the longest formatted value: an IPv6 address.
const LONGEST_TEXT: usize = 45;

/// Writes the parameters of a request. `software` is the application's value of `SERVER_SOFTWARE`,
/// `body_len` the length in bytes of the received body; `trace` replaces the client's fields of
/// that kind.
pub fn write(
    params: &mut Params,
    request: &Request,
    script: &Script,
    software: Option<&str>,
    body_len: u64,
    trace: Option<&TraceFields>,
) {
    if let Some(given) = request.additions.as_ref().and_then(|all| all.parameters.as_ref()) {
        return write_given(params, given, trace);
    }
    write_standard(params, request, script, software, body_len, trace);
    if let Some(additions) = &request.additions
        && !additions.variables.is_empty()
    {
        replace(params, &additions.variables);
    }
}

/// Writes the parameters that a web server has sent over FastCGI, as they are.
fn write_given(params: &mut Params, given: &[(Bytes, Bytes)], trace: Option<&TraceFields>) {
    params.clear();
    let is_replaced = |name: &[u8]| {
        let field = name.strip_prefix(b"HTTP_");
        trace.is_some() && field.is_some_and(TraceFields::replace)
    };
    for (name, value) in given.iter().filter(|(name, _)| !is_replaced(name)) {
        params.push(name, value);
    }
    write_trace(params, trace);
}

/// Replaces parameters by variables of actions. A variable with an empty value only removes one.
fn replace(params: &mut Params, variables: &[(String, Vec<u8>)]) {
    let usual = std::mem::take(params);
    let is_replaced = |name: &[u8]| variables.iter().any(|(other, _)| other.as_bytes() == name);
    for (name, value) in usual.iter().filter(|(name, _)| !is_replaced(name)) {
        params.push(name, value);
    }
    for (name, value) in variables.iter().filter(|(_, value)| !value.is_empty()) {
        params.push(name.as_bytes(), value);
    }
}

/// Writes the parameters without additions of actions.
fn write_standard(
    params: &mut Params,
    request: &Request,
    script: &Script,
    software: Option<&str>,
    body_len: u64,
    trace: Option<&TraceFields>,
) {
    let mut text = String::with_capacity(LONGEST_TEXT);
    let mut shown = |params: &mut Params, name: &str, value: &dyn Display| {
        text.clear();
        let _ = write!(text, "{value}");
        params.push(name.as_bytes(), text.as_bytes());
    };
    let root = script.root.as_os_str().as_bytes();
    params.clear();
    if let Some(directives) = &script.directives {
        return write_as_apache(params, request, script, directives, software, trace);
    }
    params.push(b"SCRIPT_FILENAME", script.file.as_os_str().as_bytes());
    if !script.path_info.is_empty() {
        params.push(b"PATH_INFO", &script.path_info);
        params.push_with(b"PATH_TRANSLATED", root.len() + script.path_info.len(), |out| {
            out.extend_from_slice(root);
            out.extend_from_slice(&script.path_info);
        });
    }
    params.push(b"QUERY_STRING", &request.query);
    params.push(b"REQUEST_METHOD", &request.method);
    params.push(b"CONTENT_TYPE", request.fields.get("content-type").unwrap_or_default());
    if has_body(request, body_len) {
        shown(params, "CONTENT_LENGTH", &body_len);
    } else {
        params.push(b"CONTENT_LENGTH", b"");
    }
    params.push(b"SCRIPT_NAME", &script.name);
    params.push(b"REQUEST_URI", &request.target);
    params.push_with(b"DOCUMENT_URI", script.name.len() + script.path_info.len(), |out| {
        out.extend_from_slice(&script.name);
        out.extend_from_slice(&script.path_info);
    });
    params.push(b"DOCUMENT_ROOT", root);
    shown(params, "REQUEST_ID", &ShownRequestId(request.id));
    params.push(b"SERVER_PROTOCOL", request.version.as_str().as_bytes());
    let connection = &request.connection;
    params.push(b"REQUEST_SCHEME", connection.scheme().as_bytes());
    if connection.tls {
        params.push(b"HTTPS", b"on");
    }
    if let Some(shown) = &connection.handshake {
        handshake(params, shown);
    }
    params.push(b"GATEWAY_INTERFACE", b"CGI/1.1");
    params.push(b"SERVER_SOFTWARE", software.unwrap_or(SOFTWARE).as_bytes());
    shown(params, "REMOTE_ADDR", &ShownAddress(connection.peer.map(|peer| peer.ip())));
    shown(params, "REMOTE_PORT", &connection.peer.map_or(0, |peer| peer.port()));
    let local = connection.local.map(|local| local.ip());
    shown(params, "SERVER_ADDR", &ShownAddress(local));
    // A unix socket has no port.
    let default = if connection.tls { 443 } else { 80 };
    shown(params, "SERVER_PORT", &connection.server_port().unwrap_or(default));
    match local {
        Some(_) if request.host.is_empty() => shown(params, "SERVER_NAME", &ShownAddress(local)),
        _ => params.push(b"SERVER_NAME", &authority::encoded(&request.host)),
    }
    if let Some(user) = &request.user {
        params.push(b"REMOTE_USER", user);
        params.push(b"AUTH_TYPE", b"Basic");
    }
    // Some PHP configurations (`cgi.force_redirect`) refuse to run without it: it proves that a
    // server, not a client, called the interpreter.
    let status = request.error.as_ref().map_or(200, |error| error.status);
    shown(params, "REDIRECT_STATUS", &status);
    if let Some(error) = &request.error {
        params.push(b"REDIRECT_URL", &error.path);
    }
    params.push(b"FCGI_ROLE", b"RESPONDER");
    write_fields(params, request, trace);
}

/// Writes the parameters of a request to a site with `.htaccess` files: those of Apache's mod_php.
/// Variables of directives are left out if CGI has a variable of that name.
fn write_as_apache(
    params: &mut Params,
    request: &Request,
    script: &Script,
    directives: &Directives,
    software: Option<&str>,
    trace: Option<&TraceFields>,
) {
    let mut text = String::with_capacity(LONGEST_TEXT);
    let mut shown = |params: &mut Params, name: &str, value: &dyn Display| {
        text.clear();
        let _ = write!(text, "{value}");
        params.push(name.as_bytes(), text.as_bytes());
    };
    let (connection, root) = (&request.connection, script.root.as_os_str().as_bytes());
    for (name, field) in [("CONTENT_TYPE", "content-type"), ("CONTENT_LENGTH", "content-length")] {
        if let Some(value) = request.fields.get(field) {
            params.push(name.as_bytes(), value);
        }
    }
    let is_passed = |name: &[u8]| {
        let is_authorization = name.eq_ignore_ascii_case(b"authorization");
        !name.eq_ignore_ascii_case(b"content-type")
            && !name.eq_ignore_ascii_case(b"content-length")
            && (directives.passes_authorization || !is_authorization)
    };
    // Of several fields of one name, the last one counts.
    let fields: Vec<(&[u8], &[u8])> = request.fields.iter().collect();
    for (index, (name, value)) in fields.iter().enumerate() {
        let is_refused = is_refused(name, trace);
        let is_last =
            !fields[index + 1..].iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        if !is_refused && is_last && is_passed(name) {
            params.push_field(name, value);
        }
    }
    write_trace(params, trace);
    params.push(b"SERVER_SIGNATURE", b"");
    params.push(b"SERVER_SOFTWARE", software.unwrap_or(APACHE_SOFTWARE).as_bytes());
    let local = connection.local.map(|local| local.ip());
    match local {
        Some(_) if request.host.is_empty() => shown(params, "SERVER_NAME", &ShownAddress(local)),
        _ => params.push(b"SERVER_NAME", &authority::encoded(&request.host)),
    }
    shown(params, "SERVER_ADDR", &ShownAddress(local));
    shown(params, "SERVER_PORT", &directives.server_port);
    shown(params, "REMOTE_ADDR", &ShownAddress(connection.peer.map(|peer| peer.ip())));
    params.push(b"DOCUMENT_ROOT", root);
    params.push(b"REQUEST_SCHEME", connection.scheme().as_bytes());
    params.push(b"CONTEXT_PREFIX", b"");
    params.push(b"CONTEXT_DOCUMENT_ROOT", root);
    params.push(b"SERVER_ADMIN", b"");
    params.push(b"SCRIPT_FILENAME", script.file.as_os_str().as_bytes());
    shown(params, "REMOTE_PORT", &connection.peer.map_or(0, |peer| peer.port()));
    params.push(b"GATEWAY_INTERFACE", b"CGI/1.1");
    params.push(b"SERVER_PROTOCOL", request.version.as_str().as_bytes());
    params.push(b"REQUEST_METHOD", &request.method);
    params.push(b"QUERY_STRING", &request.query);
    params.push(b"REQUEST_URI", &request.target);
    params.push(b"SCRIPT_NAME", &script.name);
    if !script.path_info.is_empty() {
        params.push(b"PATH_INFO", &script.path_info);
        params.push(b"PATH_TRANSLATED", &[root, &script.path_info].concat());
    }
    if connection.tls {
        params.push(b"HTTPS", b"on");
    }
    if let Some(shown) = &connection.handshake {
        handshake(params, shown);
    }
    write_variables(params, request, directives);
    shown(params, "REQUEST_ID", &ShownRequestId(request.id));
}

/// Writes the settings of actions and `.htaccess` files for the script, for a worker of this
/// server.
pub fn write_settings(params: &mut Params, request: &Request, script: &Script) {
    if request.additions.as_ref().is_some_and(|additions| additions.parameters.is_some()) {
        // The settings are among the parameters.
        let root = script.root.as_os_str().as_bytes();
        return params.push_reserved(Reserved::FastCgi, root);
    }
    let (mut locked, mut values) = (PhpValues::default(), PhpValues::default());
    for additions in request.additions.iter() {
        for (name, value) in &additions.locked_settings {
            locked.push(name.as_bytes(), value.as_bytes());
        }
        for (name, value) in &additions.settings {
            values.push(name.as_bytes(), value.as_bytes());
        }
    }
    if !locked.is_empty() {
        params.push_reserved(Reserved::PhpAdminValues, locked.as_bytes());
    }
    for (name, value) in script.directives.iter().flat_map(|directives| &directives.settings) {
        values.push(name, value);
    }
    if !values.is_empty() {
        params.push_reserved(Reserved::PhpValues, values.as_bytes());
    }
    let Some(directives) = &script.directives else { return };
    let authorization = request.fields.get("authorization").unwrap_or_default();
    params.push_reserved(Reserved::Authorization, authorization);
    params.push_reserved(Reserved::AnyName, b"1");
    if (300..600).contains(&directives.status) {
        params.push_reserved(Reserved::Status, directives.status.to_string().as_bytes());
    }
}

/// Writes the settings of PHP that actions and `.htaccess` files make, for PHP-FPM.
pub fn write_fpm_settings(params: &mut Params, request: &Request, script: &Script) {
    // The administrator's: PHP-FPM may apply all of them.
    let lines = |settings: &[(String, String)]| {
        settings.iter().map(|(name, value)| format!("{name}={value}\n")).collect::<String>()
    };
    let additions = request.additions.as_ref();
    let locked = additions.map(|additions| lines(&additions.locked_settings)).unwrap_or_default();
    if !locked.is_empty() {
        params.push(b"PHP_ADMIN_VALUE", locked.as_bytes());
    }
    let mut text =
        additions.map(|additions| lines(&additions.settings)).unwrap_or_default().into_bytes();
    let is_plain = |part: &[u8]| !part.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0));
    for (name, value) in script.directives.iter().flat_map(|directives| &directives.settings) {
        if is_plain(value) && is_directory_setting(name) {
            text.extend_from_slice(&[name, &b"="[..], value, b"\n"].concat());
        }
    }
    if !text.is_empty() {
        params.push(b"PHP_VALUE", &text);
    }
}

/// Variables that directives cannot set. PHP-FPM takes the first two for settings, with the rights
/// of the administrator, and the others for the length of the body and its role.
const REFUSED_VARIABLES: [&[u8]; 4] =
    [b"PHP_VALUE", b"PHP_ADMIN_VALUE", b"CONTENT_LENGTH", b"FCGI_ROLE"];

/// Writes the variables of directives, unless CGI has one of the name.
fn write_variables(params: &mut Params, request: &Request, directives: &Directives) {
    let own: Vec<Vec<u8>> = params.iter().map(|(name, _)| name.to_vec()).collect();
    for (index, (name, value)) in directives.variables.iter().enumerate() {
        // The last one counts.
        if directives.variables[index + 1..].iter().any(|(other, _)| other == name) {
            continue;
        }
        let is_usable = !name.is_empty()
            && !name.iter().chain(value).any(|byte| *byte == 0)
            && !name.starts_with(b"PHP_AUTH_")
            && !REFUSED_VARIABLES.contains(&name.as_slice())
            && !own.contains(name);
        // A field of the client is no variable of the server, even if directives copy it.
        let is_field = name.starts_with(b"HTTP_PROXY") && request.fields.get("proxy").is_some();
        if is_usable && !is_field {
            params.push(name, value);
        }
    }
}

/// Writes the facts of the TLS handshake: the names of Apache's mod_ssl, or nginx's where mod_ssl
/// has none.
fn handshake(params: &mut Params, shown: &Handshake) {
    params.push(b"SSL_PROTOCOL", shown.protocol.as_bytes());
    params.push(b"SSL_CIPHER", shown.cipher.as_bytes());
    if !shown.server_name.is_empty() {
        params.push(b"SSL_TLS_SNI", shown.server_name.as_bytes());
    }
    if shown.requests_client_certificate {
        params.push(b"SSL_CLIENT_VERIFY", shown.verified().as_bytes());
    }
    if let Some(client) = &shown.client {
        params.push(b"SSL_CLIENT_S_DN", client.subject.as_bytes());
        params.push(b"SSL_CLIENT_I_DN", client.issuer.as_bytes());
        params.push(b"SSL_CLIENT_M_SERIAL", client.serial.as_bytes());
        params.push(b"SSL_CLIENT_SERIAL", client.serial.as_bytes());
        params.push(b"SSL_CLIENT_FINGERPRINT", client.fingerprint.as_bytes());
        params.push(b"SSL_CLIENT_CERT", client.pem.as_bytes());
    }
}

fn has_body(request: &Request, body_len: u64) -> bool {
    body_len > 0
        || request.fields.get("content-length").is_some()
        || request.fields.get("transfer-encoding").is_some()
}

/// Writes header fields as `HTTP_…`; several fields of one name are joined (RFC 9110, 5.2).
fn write_fields(params: &mut Params, request: &Request, trace: Option<&TraceFields>) {
    let fields: Vec<(&[u8], &[u8])> = request.fields.iter().collect();
    for (index, (name, value)) in fields.iter().enumerate() {
        let same = |other: &(&[u8], &[u8])| other.0.eq_ignore_ascii_case(name);
        if is_refused(name, trace) || fields[..index].iter().any(same) {
            continue;
        }
        let mut rest = fields[index + 1..].iter().filter(|other| same(other)).peekable();
        if rest.peek().is_none() {
            params.push_field(name, value);
            continue;
        }
        let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
        let mut joined = value.to_vec();
        for (_, value) in rest {
            joined.extend_from_slice(separator);
            joined.extend_from_slice(value);
        }
        params.push_field(name, &joined);
    }
    write_trace(params, trace);
}

/// Returns true for a field of the client that scripts do not get.
fn is_refused(name: &[u8], trace: Option<&TraceFields>) -> bool {
    // CVE-2016-5385: HTTP_PROXY would configure HTTP clients of the script.
    name.eq_ignore_ascii_case(b"proxy")
        || is_internal_field(name)
        || (trace.is_some() && TraceFields::replace(name))
}

/// Writes the fields of the trace.
fn write_trace(params: &mut Params, trace: Option<&TraceFields>) {
    for (name, value) in trace.iter().flat_map(|trace| trace.pairs()) {
        params.push_field(name.as_bytes(), value);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use howdah_http::message::{ConnectionInfo, Fields, Version};

    fn params(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        let request = Request {
            method: Bytes::from_static(b"GET"),
            target: Bytes::from_static(b"/a.php/i?q"),
            fragment: Bytes::new(),
            path: Bytes::from_static(b"/a.php/i"),
            query: Bytes::from_static(b"q"),
            version: Version::Http11,
            host: Bytes::from_static(b"example.org"),
            fields: Fields::from_pairs(fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()))),
            connection: Arc::new(ConnectionInfo {
                peer: Some(([127, 0, 0, 1], 5).into()),
                local: Some(([127, 0, 0, 2], 80).into()),
                ..ConnectionInfo::default()
            }),
            user: None,
            id: 1,
            error: None,
            captures: Default::default(),
            additions: None,
            handling: Default::default(),
        };
        let script = Script {
            name: Bytes::from_static(b"/a.php"),
            path_info: Bytes::from_static(b"/i"),
            file: Path::new("/site/a.php").into(),
            root: Path::new("/site").into(),
            directives: None,
        };
        let mut params = Params::default();
        write(&mut params, &request, &script, None, 0, None);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        params.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn get(params: &[(String, String)], name: &str) -> Option<String> {
        let mut found = params.iter().filter(|(n, _)| n == name);
        let value = found.next().map(|(_, value)| value.clone());
        assert_eq!(found.next(), None, "{name} is there twice");
        value
    }

    #[test]
    fn parameters_are_those_of_a_cgi_request() {
        let params = params(&[]);
        for (name, value) in [
            ("SCRIPT_FILENAME", "/site/a.php"),
            ("SCRIPT_NAME", "/a.php"),
            ("PATH_INFO", "/i"),
            ("PATH_TRANSLATED", "/site/i"),
            ("REQUEST_URI", "/a.php/i?q"),
            ("DOCUMENT_URI", "/a.php/i"),
            ("QUERY_STRING", "q"),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("SERVER_ADDR", "127.0.0.2"),
            ("SERVER_NAME", "example.org"),
            ("SERVER_PORT", "80"),
        ] {
            assert_eq!(get(&params, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn fields_of_one_name_are_joined() {
        let params = params(&[("A-b", "1"), ("Cookie", "x=1"), ("a-B", "2"), ("cookie", "y=2")]);
        assert_eq!(get(&params, "HTTP_A_B").as_deref(), Some("1, 2"));
        assert_eq!(get(&params, "HTTP_COOKIE").as_deref(), Some("x=1; y=2"));
    }

    #[test]
    fn no_field_takes_the_name_of_a_server_parameter() {
        let names = ["Script-Filename", "Redirect-Status", "Document-Root", "Remote-User", "Https"];
        let fields: Vec<_> = names.iter().map(|name| (*name, "evil")).collect();
        let with = params(&fields);
        for (name, value) in &with {
            assert!(value != "evil" || name.starts_with("HTTP_"), "{name}");
        }
        assert_eq!(get(&with, "SCRIPT_FILENAME").as_deref(), Some("/site/a.php"));
    }

    #[test]
    fn the_proxy_field_never_reaches_a_script() {
        assert_eq!(get(&params(&[("Proxy", "evil"), ("pROXY", "evil")]), "HTTP_PROXY"), None);
    }
}
