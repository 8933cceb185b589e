//! Internal redirects: a response names, in `X-Accel-Redirect`, a path that the routes handle in
//! its place or a route for the request as it is, or in `X-Sendfile`, a file.
//!
//! 1. Fields of internal redirects are taken out of every response ([`take_internal_fields`]): no
//!    client sees one.
//! 2. The fields have an effect only in responses of applications and upstreams whose configuration
//!    allows them.
//! 3. A path is parsed like that of a client, and `..` is refused. The routes see a GET or HEAD
//!    request without the client's body ([`request`]). A named route sees the method and path of
//!    the request, also without the body ([`named_request`]).
//! 4. A file must be below a configured directory; symbolic links must not lead out of it.
//! 5. Some fields of the first response stay ([`merge`]), as in nginx.

use bytes::Bytes;
use howdah_http::message::{FieldBlock, Request, Response, is_internal_field};
use howdah_http::target;
use howdah_routing::snapshot::delegations::{InternalFields, climbs};
use howdah_text::percent;

/// Maximum number of internal redirects of one request.
pub const MAX_REDIRECTS: usize = 10;

/// Removes the internal fields from a response and returns their values.
pub fn take_internal_fields(response: &mut Response) -> InternalFields {
    let mut internal = InternalFields::default();
    if !response.fields.iter().any(|(name, _)| is_internal_field(name)) {
        return internal;
    }
    let mut lines = Vec::with_capacity(response.fields.as_bytes().len());
    for (name, value) in response.fields.iter() {
        if !is_internal_field(name) {
            put(&mut lines, name, value);
        } else if name.eq_ignore_ascii_case(b"x-accel-redirect") {
            internal.redirect = Some(Bytes::copy_from_slice(value));
        } else if name.eq_ignore_ascii_case(b"x-sendfile") {
            internal.file = Some(Bytes::copy_from_slice(value));
        }
    }
    response.fields = FieldBlock::from_lines(lines.into());
    internal
}

/// Creates the request of a redirect: the client's request with another path, as GET or HEAD and
/// without a body. Returns `None` if the path is invalid.
pub fn request(asked: &Request, uri: &[u8]) -> Option<Request> {
    // nginx accepts these bytes unencoded.
    let mut encoded = Vec::with_capacity(uri.len() + 16);
    for &byte in uri {
        match byte {
            b' ' => encoded.extend_from_slice(b"%20"),
            b'#' => encoded.extend_from_slice(b"%23"),
            byte => encoded.push(byte),
        }
    }
    let parsed = target::Target::parse(&encoded).ok()?;
    let path = encoded.split(|byte| *byte == b'?').next().unwrap_or_default();
    if climbs(&percent::decoded(path).collect::<Vec<_>>()) {
        return None;
    }
    let mut request = asked.clone();
    request.path = Bytes::copy_from_slice(parsed.path(&encoded));
    request.query = Bytes::copy_from_slice(encoded.get(parsed.query).unwrap_or_default());
    if &*request.method != b"HEAD" {
        request.method = Bytes::from_static(b"GET");
    }
    remove_fields_of_body(&mut request);
    Some(request)
}

/// Creates the request of a redirect to a named route: the request as it is, without a body.
pub fn named_request(asked: &Request) -> Request {
    let mut request = asked.clone();
    remove_fields_of_body(&mut request);
    request
}

fn remove_fields_of_body(request: &mut Request) {
    const OF_BODIES: [&[u8]; 6] = [
        b"content-encoding",
        b"content-language",
        b"content-length",
        b"content-type",
        b"expect",
        b"transfer-encoding",
    ];
    let is_of_body = |name: &[u8]| OF_BODIES.iter().any(|other| name.eq_ignore_ascii_case(other));
    request.fields.retain(|name| !is_of_body(name));
}

/// Replaces a response with the one of an internal redirect. Cookies of the first response stay,
/// and, unless the second one is an error, its fields about content and caching.
pub fn merge(response: &mut Response, found: Response) {
    let first = std::mem::replace(response, found);
    let is = |name: &[u8], other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let many_parts = { response.fields.get("content-type") }
        .is_some_and(|value| value.starts_with(b"multipart/byteranges"));
    let about_content: &[&str] = match response.status {
        _ if response.is_default_error_page => &[],
        304 => &["cache-control", "expires"],
        _ if many_parts => &["cache-control", "expires", "content-disposition"],
        _ => &["cache-control", "expires", "content-disposition", "content-type"],
    };
    let stays = |name: &[u8]| about_content.iter().any(|other| is(name, other));
    let replaced = |name: &[u8]| {
        stays(name) && first.fields.iter().any(|(other, _)| name.eq_ignore_ascii_case(other))
    };
    let mut lines = Vec::new();
    for (name, value) in first.fields.iter() {
        if is(name, "set-cookie") || stays(name) {
            put(&mut lines, name, value);
        }
    }
    for (name, value) in response.fields.iter().filter(|(name, _)| !replaced(name)) {
        put(&mut lines, name, value);
    }
    response.fields = FieldBlock::from_lines(lines.into());
    response.close |= first.close;
}

fn put(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests;
