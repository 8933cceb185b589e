//! Builds the response for a resource: evaluates conditions, then ranges.

use std::hash::BuildHasher;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use howdah_config::Prefix;
use howdah_http::body::{Body, Piece};
use howdah_http::message::{FieldBlock, Request, Response};
use howdah_http::range::{Ranges, parse_range};
use howdah_text::percent;

use super::Files;
use super::conditional::{Conditions, Verdict};
use super::load::{Content, Variant};
use super::outcome::FoundFile;
use super::resolve::wall_seconds;

impl Files {
    /// Makes the response with a file. A HEAD gets the response to GET without ranges; the protocol
    /// layer omits its body and sends its length.
    pub fn file_response(&self, file: &FoundFile, request: &Request, wall: SystemTime) -> Response {
        let variant = &*file.0;
        let conditions = Conditions::of(&request.fields);
        let response = match conditions.evaluate(variant.validators()) {
            Verdict::Failed => Response::new(412, Body::Empty),
            Verdict::NotModified => not_modified(variant),
            Verdict::Proceed => match ranges(variant, request, &conditions, wall) {
                Ranges::Ignored => whole(variant),
                Ranges::Unsatisfiable => Response::new(416, Body::Empty)
                    .with("Content-Range", format!("bytes */{}", variant.size()))
                    .with("Accept-Ranges", "bytes"),
                Ranges::Parts(parts) => match &parts[..] {
                    [part] => single_part(variant, part.clone()),
                    parts => multiple_parts(variant, parts, &self.boundary()),
                },
            },
        };
        Response { file: Some(Rc::clone(&variant.facts)), ..response }
    }

    /// Returns an unpredictable multipart boundary, so that the author of a file cannot put it into
    /// the content.
    fn boundary(&self) -> String {
        let count = self.boundaries.get().wrapping_add(1);
        self.boundaries.set(count);
        let [first, second] = [0u8, 1].map(|half| self.hasher.hash_one((count, half)));
        format!("{first:016x}{second:016x}")
    }
}

/// Returns the parts of the content that the request asks for.
fn ranges(
    variant: &Variant,
    request: &Request,
    conditions: &Conditions<'_>,
    wall: SystemTime,
) -> Ranges {
    let now = u64::try_from(wall_seconds(wall)).unwrap_or(0);
    let range = match &*request.method {
        b"GET" => conditions.range(variant.validators(), now),
        _ => None,
    };
    range.map_or(Ranges::Ignored, |range| parse_range(range, variant.size()))
}

/// Builds the redirect that appends a slash to the path of a directory, with `prefix` in front of
/// it. The location starts with exactly one slash, like the request's path, so it never names
/// another host (for `/` it is `//`, which names none). `None` if the path does not start with
/// exactly one slash.
pub fn redirect_to_directory(request: &Request, prefix: Option<&Prefix>) -> Option<Response> {
    let path = Prefix::join(prefix, &request.path);
    if !path.starts_with(b"/") || path.starts_with(b"//") {
        return None;
    }
    let mut location = String::with_capacity(request.target.len() + 1);
    escape(&path, b"!$&'()*+,-./:;=@_~", &mut location);
    location.push('/');
    if !request.query.is_empty() {
        location.push('?');
        // The query is copied; only bytes that a URI cannot contain are escaped.
        escape(&request.query, b"!$%&'()*+,-./:;=?@_~[]", &mut location);
    }
    Some(Response::new(301, Body::Empty).with("Location", location))
}

fn whole(variant: &Variant) -> Response {
    let body = match &variant.content {
        Content::Memory(bytes) => Body::from(bytes.clone()),
        Content::File(_) | Content::Unread => pieces(piece(variant, 0..variant.size())),
    };
    Response { fields: variant.fields.clone(), ..Response::new(200, body) }
}

/// Builds a 304 with the fields that a cache needs to find and refresh its copy (RFC 9110, 15.4.5).
fn not_modified(variant: &Variant) -> Response {
    let kept =
        |name: &[u8]| name.eq_ignore_ascii_case(b"etag") || name.eq_ignore_ascii_case(b"vary");
    Response { fields: filtered(&variant.fields, kept), ..Response::new(304, Body::Empty) }
}

fn single_part(variant: &Variant, part: Range<u64>) -> Response {
    let content_range = content_range(&part, variant.size());
    let body = match (&variant.content, piece(variant, part)) {
        (Content::Memory(_), Some(Piece::Bytes(bytes))) => Body::from(bytes),
        (_, piece) => pieces(piece),
    };
    Response { fields: variant.fields.clone(), ..Response::new(206, body) }
        .with("Content-Range", content_range)
}

/// Builds a `multipart/byteranges` response (RFC 9110, 14.6); the media type moves into the heads
/// of the parts. The bytes are those of Apache, with an empty preamble.
fn multiple_parts(variant: &Variant, parts: &[Range<u64>], boundary: &str) -> Response {
    let media_type = variant.fields.get("Content-Type").unwrap_or_default();
    let mut body = Vec::with_capacity(2 * parts.len() + 1);
    for part in parts {
        let mut head = Vec::with_capacity(160);
        head.extend_from_slice(b"\r\n--");
        head.extend_from_slice(boundary.as_bytes());
        if !media_type.is_empty() {
            head.extend_from_slice(b"\r\nContent-type: ");
            head.extend_from_slice(media_type);
        }
        head.extend_from_slice(b"\r\nContent-range: ");
        head.extend_from_slice(content_range(part, variant.size()).as_bytes());
        head.extend_from_slice(b"\r\n\r\n");
        body.push(Piece::Bytes(head.into()));
        body.extend(piece(variant, part.clone()));
    }
    body.push(Piece::Bytes(format!("\r\n--{boundary}--\r\n").into()));
    let fields = filtered(&variant.fields, |name| !name.eq_ignore_ascii_case(b"content-type"));
    Response { fields, ..Response::new(206, Body::Pieces(body)) }
        .with("Content-Type", format!("multipart/byteranges; boundary={boundary}"))
}

/// Returns a part of the variant; `None` if the content is too short.
fn piece(variant: &Variant, part: Range<u64>) -> Option<Piece> {
    match &variant.content {
        Content::Memory(bytes) => {
            let (start, end) = (usize::try_from(part.start).ok()?, usize::try_from(part.end).ok()?);
            (start <= end && end <= bytes.len()).then(|| Piece::Bytes(bytes.slice(start..end)))
        }
        Content::File(file) => Some(Piece::File {
            file: Arc::clone(file),
            offset: part.start,
            len: part.end.checked_sub(part.start)?,
        }),
        Content::Unread => None,
    }
}

fn pieces(piece: Option<Piece>) -> Body {
    match piece {
        Some(piece) if !piece.is_empty() => Body::Pieces(vec![piece]),
        _ => Body::Empty,
    }
}

fn content_range(part: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1))
}

fn filtered(fields: &FieldBlock, keep: impl Fn(&[u8]) -> bool) -> FieldBlock {
    let mut lines = Vec::with_capacity(fields.as_bytes().len());
    for (name, value) in fields.iter().filter(|(name, _)| keep(name)) {
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    FieldBlock::from_lines(Bytes::from(lines))
}

/// Appends bytes to a URI: letters, digits and `safe` unchanged, all others percent-encoded.
fn escape(bytes: &[u8], safe: &[u8], uri: &mut String) {
    percent::encode_text(bytes, |byte| byte.is_ascii_alphanumeric() || safe.contains(&byte), uri);
}
