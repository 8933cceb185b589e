//! Variables of CGI in the environment of a request whose script has run: Apache sets them for the
//! script, and `Header` sees them in the response (`%{HTTP_ORIGIN}e`).

use crate::outcome::Script;
use crate::record::Record;

/// Adds the variables. They replace those of directives, as in Apache.
pub(super) fn add(record: &mut Record, script: &Script) {
    let connection = record.connection.clone();
    let fields: Vec<(Vec<u8>, Vec<u8>)> = record
        .headers_in
        .iter()
        .filter_map(|(name, value)| Some((name_of(name)?, value.to_vec())))
        .collect();
    for (name, value) in fields {
        record.env.set(name, value);
    }
    let scheme: &[u8] = if connection.is_https { b"https" } else { b"http" };
    let (port, client_port) =
        (connection.server_port.to_string(), connection.remote_port.to_string());
    let own: [(&str, &[u8]); 16] = [
        ("DOCUMENT_ROOT", &connection.document_root),
        ("GATEWAY_INTERFACE", b"CGI/1.1"),
        ("PATH_INFO", &script.path_info),
        ("QUERY_STRING", &script.query),
        ("REMOTE_ADDR", &connection.remote_addr),
        ("REMOTE_PORT", client_port.as_bytes()),
        ("REQUEST_METHOD", &script.method),
        ("REQUEST_SCHEME", scheme),
        ("REQUEST_URI", &script.request_uri),
        ("SCRIPT_FILENAME", &script.filename),
        ("SCRIPT_NAME", &script.name),
        ("SERVER_ADDR", &connection.server_addr),
        ("SERVER_NAME", &connection.server_name),
        ("SERVER_PORT", port.as_bytes()),
        ("SERVER_PROTOCOL", &record.protocol.clone()),
        ("SERVER_SOFTWARE", &connection.server_software),
    ];
    for (name, value) in own {
        if name != "PATH_INFO" || !value.is_empty() {
            record.env.set(name, value);
        }
    }
}

/// Returns the variable of a header field; `None` for those that scripts do not see.
fn name_of(field: &[u8]) -> Option<Vec<u8>> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let is_hidden = ["authorization", "proxy", "proxy-authorization"]
        .iter()
        .any(|name| field.eq_ignore_ascii_case(name.as_bytes()));
    if is_hidden || !field.iter().all(is_plain) {
        return None;
    }
    let upper: Vec<u8> = field
        .iter()
        .map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() })
        .collect();
    Some(match upper.as_slice() {
        b"CONTENT_TYPE" | b"CONTENT_LENGTH" => upper,
        _ => [b"HTTP_", upper.as_slice()].concat(),
    })
}
