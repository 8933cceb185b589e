//! A request as a record of the directives, and a record as the head of a response.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use howdah_config::Prefix;
use howdah_htaccess::record::{Connection, Record};
use howdah_htaccess::table::Table;
use howdah_http::authority;
use howdah_http::message::{FieldBlock, Fields, Request, ShownAddress, Version};
use howdah_http::target::Target;
use howdah_text::percent;
use howdah_text::token::is_token;

use crate::filters::own_tags::without_marks;

/// Returns the record of a request to a site with this root, at this prefix of the path.
pub(super) fn record(
    request: &Request,
    root: &[u8],
    prefix: Option<&Prefix>,
    software: &str,
    wall: SystemTime,
) -> Record {
    let connection = &request.connection;
    let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    let shown = |address: Option<std::net::SocketAddr>| {
        ShownAddress(address.map(|address| address.ip())).to_string().into_bytes()
    };
    let server_name = if request.host.is_empty() {
        shown(connection.local)
    } else {
        authority::encoded(&request.host).to_vec()
    };
    // As with `UseCanonicalPhysicalPort Off`: the port of the listener is not known to clients if
    // it is behind a proxy.
    let port = connection.port.or_else(|| named_port(request)).unwrap_or(if connection.tls {
        443
    } else {
        80
    });
    let mut headers_in = Table::default();
    for (name, value) in request.fields.iter() {
        // Apache joins fields of one name when it reads them.
        match headers_in.get(name).map(|known| [known, b", ", value].concat()) {
            Some(joined) => headers_in.set(name, joined),
            None => headers_in.add(name, value),
        }
    }
    let protocol = request.version.as_str();
    Record {
        connection: Arc::new(Connection {
            remote_addr: shown(connection.peer),
            remote_port: connection.peer.map_or(0, |peer| peer.port()),
            server_addr: shown(connection.local),
            server_port: port,
            server_name,
            is_https: connection.tls,
            is_http2: request.version == Version::Http2,
            server_software: software.as_bytes().to_vec(),
            document_root: root.to_vec(),
            prefix: prefix.map(|prefix| prefix.as_bytes().to_vec()).unwrap_or_default(),
            time: (since.as_secs().try_into().unwrap_or(i64::MAX), since.subsec_micros()),
            ..Connection::default()
        }),
        request_line: [&request.method, &b" "[..], &request.target, b" ", protocol.as_bytes()]
            .concat(),
        method: request.method.to_vec(),
        protocol: protocol.as_bytes().to_vec(),
        unparsed_uri: uri(request),
        headers_in,
        ..Record::default()
    }
}

/// Returns the path and query that the directives are about: those that the client has sent, unless
/// the routes have changed them.
fn uri(request: &Request) -> Vec<u8> {
    let is_sent = Target::parse(&request.target).is_ok_and(|sent| {
        sent.path(&request.target) == request.path
            && request.target.get(sent.query.clone()) == Some(&*request.query)
    });
    if is_sent {
        return request.target.to_vec();
    }
    let mut uri = Vec::with_capacity(request.path.len() + request.query.len() + 16);
    percent::encode(&request.path, percent::is_of_path, &mut uri);
    if !request.query.is_empty() {
        uri.push(b'?');
        uri.extend_from_slice(&request.query);
    }
    uri
}

/// Returns the port in the field `Host`.
fn named_port(request: &Request) -> Option<u16> {
    let host = request.fields.get("host")?;
    let colon = memchr::memrchr(b':', host)?;
    std::str::from_utf8(&host[colon + 1..]).ok()?.parse().ok()
}

/// Returns a request as a script sees it after the directives: with their header fields, and with
/// this method, query and target.
pub(super) fn request(
    request: &Request,
    record: &Record,
    method: &[u8],
    query: &[u8],
    target: &[u8],
) -> Request {
    let is_condition = |name: &[u8]| name.eq_ignore_ascii_case(b"if-none-match");
    let plain = record
        .headers_in
        .iter()
        .filter(|(name, _)| is_plain(name))
        .map(|(name, value)| {
            if is_condition(name) {
                (name, Cow::Owned(without_marks(value)))
            } else {
                (name, Cow::Borrowed(value))
            }
        })
        .collect::<Vec<_>>();
    Request {
        method: Bytes::copy_from_slice(method),
        query: Bytes::copy_from_slice(query),
        target: Bytes::copy_from_slice(target),
        fields: Fields::from_pairs(plain.iter().map(|(name, value)| (*name, &**value))),
        user: record.user.as_deref().map(Bytes::copy_from_slice),
        ..request.clone()
    }
}

/// Returns true if a script sees a field of the request by its name: not one that could be taken
/// for another.
fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// Returns the fields of a record as those of a response. Leaves out invalid names and the fields
/// that the connection writes itself.
pub(super) fn fields(table: &Table) -> FieldBlock {
    let mut lines = Vec::with_capacity(256);
    for (name, value) in table.iter() {
        if !is_token(name) || OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            continue;
        }
        lines.extend_from_slice(name);
        lines.extend_from_slice(b": ");
        lines.extend(value.iter().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
        lines.extend_from_slice(b"\r\n");
    }
    FieldBlock::from_lines(lines.into())
}

/// Fields that the connection writes, or that would change the framing.
const OWN: [&[u8]; 6] =
    [b"Connection", b"Content-Length", b"Date", b"Keep-Alive", b"Server", b"Transfer-Encoding"];
