//! Responses to clients from stored responses: conditions (RFC 9110, 13), one range (14.2), `Age`.

use std::fmt::Write;

use bytes::Bytes;
use howdah_http::body::Body;
use howdah_http::etag::parse_entity_tags;
use howdah_http::message::{FieldBlock, Fields, Request, Response};
use howdah_http::range::{Ranges, parse_range};
use howdah_text::date::parse_http;

use crate::entry::Entry;
use crate::esi;
use crate::status::Outcome;

/// Returns the response to a GET or HEAD request from an entry, with `Cache-Status` if `shown` is
/// the outcome. The protocol leaves out the body of a response to HEAD.
pub fn respond(entry: &Entry, request: &Request, shown: Option<Outcome>, now: u64) -> Response {
    entry.count_use();
    let age = entry.age(now).min(i32::MAX as u64);
    let mut end = String::with_capacity(96);
    // Writing to a string does not fail.
    let _ = write!(end, "Age: {age}\r\n");
    if let Some(outcome) = shown {
        let _ = write!(end, "Cache-Status: {outcome}\r\n");
    }
    // If the stored page is assembled from parts, the client has another one: its conditions do not
    // count.
    let is_unconditional =
        entry.status != 200 || !has_conditions(&request.fields) || esi::is_marked(&entry.fields);
    if is_unconditional {
        return response(entry, entry.status, joined(&entry.fields, &end), entry.body.whole());
    }
    // In place of an absent `Last-Modified`, the date of the response counts (RFC 9111, 4.3.2).
    let modified = entry.last_modified.as_deref().or_else(|| entry.fields.get("date"));
    if is_not_modified(&request.fields, entry.etag.as_deref(), modified) {
        return response(entry, 304, not_modified(&entry.fields, &end), Body::from(Bytes::new()));
    }
    let length = entry.body.len();
    let range = match &*request.method {
        b"GET" => range(&request.fields, entry),
        _ => None,
    };
    match range.map_or(Ranges::Ignored, |range| parse_range(range, length)) {
        // Several ranges would need a body of their own; a server may ignore them.
        Ranges::Parts(parts) if parts.len() == 1 => {
            let Some(part) = parts.into_iter().next() else { return whole(entry, &end) };
            let body = entry.body.body(part.start, part.end);
            let _ = write!(
                end,
                "Content-Range: bytes {}-{}/{length}\r\n",
                part.start,
                part.end.saturating_sub(1)
            );
            response(entry, 206, joined(&entry.fields, &end), body)
        }
        Ranges::Unsatisfiable => {
            let _ = write!(end, "Content-Range: bytes */{length}\r\n");
            let mut refused = Response::new(416, Body::Empty);
            refused.fields = joined(&FieldBlock::default(), &end);
            refused
        }
        Ranges::Parts(_) | Ranges::Ignored => whole(entry, &end),
    }
}

fn whole(entry: &Entry, end: &str) -> Response {
    response(entry, entry.status, joined(&entry.fields, end), entry.body.whole())
}

fn response(entry: &Entry, status: u16, fields: FieldBlock, body: Body) -> Response {
    Response {
        fields,
        reason: entry.reason.clone().filter(|_| status == entry.status),
        adds_date: false, // the fields have that of the stored response
        ..Response::new(status, body)
    }
}

/// Turns a response that is not from the cache into a 304 if the request's conditions allow that,
/// which were removed from the request to the application.
pub fn apply_conditions(request: &Fields, response: &mut Response) {
    if response.status != 200 || !has_conditions(request) || esi::is_marked(&response.fields) {
        return;
    }
    let (etag, modified) = (response.fields.get("etag"), response.fields.get("last-modified"));
    if is_not_modified(request, etag, modified) {
        response.fields = not_modified(&response.fields, "");
        response.status = 304;
        response.reason = None;
        response.body = Body::Empty;
        response.drop_trailer();
    }
}

/// Returns true if the request has a field that this module evaluates.
fn has_conditions(fields: &Fields) -> bool {
    fields.iter().any(|(name, _)| match name {
        [b'i' | b'I', b'f' | b'F', b'-', ..] => true,
        _ => name.eq_ignore_ascii_case(b"range"),
    })
}

/// Evaluates `If-None-Match`, or in its absence `If-Modified-Since` (RFC 9111, 4.3.2).
fn is_not_modified(request: &Fields, etag: Option<&[u8]>, modified: Option<&[u8]>) -> bool {
    let mut lists = request.get_all("if-none-match").peekable();
    if lists.peek().is_some() {
        let opaque = etag.map(|etag| etag.strip_prefix(b"W/").unwrap_or(etag));
        return lists.any(|list| {
            // Any response is one, with or without a tag (RFC 9110, 13.1.2).
            list.trim_ascii() == b"*"
                || parse_entity_tags(list).any(|tag| Some(tag.opaque) == opaque)
        });
    }
    let Some(since) = request.get("if-modified-since").and_then(parse_http) else { return false };
    modified.and_then(parse_http).is_some_and(|modified| modified <= since)
}

/// Returns the range of a request, unless `If-Range` voids it (RFC 9110, 13.1.5).
fn range<'r>(request: &'r Fields, entry: &Entry) -> Option<&'r [u8]> {
    let mut ranges = request.get_all("range");
    let range = ranges.next()?;
    if ranges.next().is_some() {
        return None;
    }
    let Some(wanted) = request.get("if-range") else { return Some(range) };
    let is_tag = wanted.starts_with(b"\"") && Some(wanted) == entry.etag.as_deref();
    let modified = entry.last_modified.as_deref().and_then(parse_http);
    // A date tells versions apart only if it is older than the response (RFC 9110, 8.8.2.2).
    let is_strong = modified < entry.fields.get("date").and_then(parse_http);
    let is_date = modified.is_some() && parse_http(wanted) == modified && is_strong;
    (is_tag || is_date).then_some(range)
}

fn joined(fields: &FieldBlock, end: &str) -> FieldBlock {
    let mut lines = Vec::with_capacity(fields.as_bytes().len() + end.len());
    lines.extend_from_slice(fields.as_bytes());
    lines.extend_from_slice(end.as_bytes());
    FieldBlock::from_lines(lines.into())
}

/// Returns the fields of a 304: those that a cache needs, and those that describe no content
/// (RFC 9110, 15.4.5).
fn not_modified(fields: &FieldBlock, end: &str) -> FieldBlock {
    let is_of_content = |name: &[u8]| {
        name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"))
            && !name.eq_ignore_ascii_case(b"content-location")
            && !name.eq_ignore_ascii_case(b"content-security-policy")
    };
    let mut lines = Vec::with_capacity(fields.as_bytes().len() + end.len());
    for (name, value) in fields.iter().filter(|(name, _)| !is_of_content(name)) {
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines.extend_from_slice(end.as_bytes());
    FieldBlock::from_lines(lines.into())
}

#[cfg(test)]
mod tests;
