//! Heads of requests and responses in HTTP/2, where they are fields without lines.

use bytes::Bytes;
use howdah_config::Address;
use howdah_http::body_length::content_length;
use howdah_http::message::{FieldBlock, Request};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Uri};

use crate::failure::Malformed;
use crate::proxy::changes::HeadChanges;
use crate::proxy::{hop, request};

/// Maximum number of fields of a head.
const MAX_FIELDS: usize = 500;

/// Content type of the messages of gRPC, in front of their encoding.
const GRPC: &[u8] = b"application/grpc";

/// Facts about a request, beside its fields.
#[derive(Debug, Clone, Copy)]
pub struct Outline<'a> {
    /// Address of the server in the configuration.
    pub address: &'a Address,
    /// The connection has TLS.
    pub is_secure: bool,
    /// The client accepts trailers.
    pub takes_trailers: bool,
    /// Length of the body, if it is announced.
    pub length: Option<u64>,
}

/// A response head.
#[derive(Debug)]
pub struct Head {
    /// 100 to 599.
    pub status: u16,
    /// Fields for the client.
    pub fields: FieldBlock,
    /// The fields include `Date`.
    pub has_date: bool,
    /// Announced length of the body.
    pub length: Option<u64>,
}

/// Returns true if a request is one of gRPC: its body and the response are streams of messages.
pub fn is_grpc(request: &Request) -> bool {
    let media_type = request.fields.get("content-type").unwrap_or_default();
    let (start, rest) = media_type.split_at_checked(GRPC.len()).unwrap_or_default();
    start.eq_ignore_ascii_case(GRPC) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// Builds the head of a request.
pub fn encode(
    request: &Request,
    changes: &HeadChanges,
    outline: Outline<'_>,
) -> Result<http::Request<()>, Malformed> {
    let mut head = http::Request::new(());
    *head.method_mut() = Method::from_bytes(&request.method)
        .map_err(|_| Malformed("the method cannot be written in HTTP/2"))?;
    let mut target = Vec::with_capacity(request.target.len());
    request::target(request, &mut target).ok_or(Malformed("the path is empty"))?;
    let host = match (&changes.host, request.fields.get("host")) {
        (Some(host), _) => host.clone(),
        (None, Some(host)) if !host.is_empty() => host.to_vec(),
        (None, _) => request::host(outline.address).into_bytes(),
    };
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if outline.is_secure { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(
        Authority::from_maybe_shared(Bytes::from(host))
            .map_err(|_| Malformed("the host cannot be written in HTTP/2"))?,
    );
    parts.path_and_query = Some(
        PathAndQuery::from_maybe_shared(Bytes::from(target))
            .map_err(|_| Malformed("the target cannot be written in HTTP/2"))?,
    );
    *head.uri_mut() =
        Uri::from_parts(parts).map_err(|_| Malformed("the target cannot be written in HTTP/2"))?;
    let fields = head.headers_mut();
    for (name, value) in request::passed_fields(request, changes) {
        if !name.eq_ignore_ascii_case(b"host") {
            put(fields, name, value);
        }
    }
    for (name, value) in &changes.set {
        put(fields, name.as_bytes(), value);
    }
    if let Some(length) = outline.length {
        put(fields, b"content-length", length.to_string().as_bytes());
    }
    if outline.takes_trailers {
        put(fields, b"te", b"trailers");
    }
    Ok(head)
}

/// Returns the head of a response. `h2` has refused fields that are not valid in HTTP/2.
pub fn decode(status: http::StatusCode, fields: &HeaderMap) -> Result<Head, Malformed> {
    let status = status.as_u16();
    if !(100..=599).contains(&status) {
        return Err(Malformed("the status is not between 100 and 599"));
    }
    if fields.len() > MAX_FIELDS {
        return Err(Malformed("the response has too many fields"));
    }
    let mut lengths = fields.get_all("content-length").iter();
    let length = lengths
        .next()
        .map(|value| {
            content_length(value.as_bytes()).ok_or(Malformed("Content-Length is not a number"))
        })
        .transpose()?;
    if lengths.next().is_some() {
        return Err(Malformed("two fields Content-Length"));
    }
    let nominated = hop::Nominated::default();
    let is_passed = |name: &str| {
        !matches!(name, "content-length" | "server") && !nominated.is_hop_by_hop(name.as_bytes())
    };
    Ok(Head {
        status,
        has_date: fields.contains_key("date"),
        fields: FieldBlock::from_lines(lines(fields, is_passed).into()),
        length,
    })
}

/// Returns the lines of a trailer that are passed on to a client.
pub fn decode_trailer(fields: &HeaderMap) -> Bytes {
    let kept = lines(fields, |_| fields.len() <= MAX_FIELDS);
    hop::trailer(&kept, |_| false).into()
}

/// Returns a trailer of field lines.
pub fn trailer(lines: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in FieldBlock::from_lines(Bytes::copy_from_slice(lines)).iter() {
        put(&mut fields, name, value);
    }
    fields
}

fn lines(fields: &HeaderMap, is_passed: impl Fn(&str) -> bool) -> Vec<u8> {
    let mut lines = Vec::with_capacity(256);
    for (name, value) in fields.iter().filter(|(name, _)| is_passed(name.as_str())) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}

/// Appends a field, unless HTTP/2 cannot represent it.
fn put(fields: &mut HeaderMap, name: &[u8], value: &[u8]) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
        let _ = fields.try_append(name, value); // fails beyond 24,000 fields
    }
}

#[cfg(test)]
mod tests;
