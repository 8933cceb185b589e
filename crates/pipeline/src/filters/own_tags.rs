//! Entity tags of programs behind compression.
//!
//! Compressed content has another tag than the program has given it: `W/"a"` for `"a"`, and under
//! `.htaccess` `"a-gzip"`. A browser returns that one, and most programs compare tags byte by byte.
//!
//! 1. The program gets the tags of `If-None-Match` as it has given them ([`restored`],
//!    [`without_marks`]). `If-Match` and `If-Range` are compared strongly, so the tag of compressed
//!    content must not match there.
//! 2. Where a program answers with the page all the same, because its own tag is weak, the server
//!    answers with 304 ([`answer`]).

use std::future::poll_fn;

use howdah_http::body::{Body, BodyStream};
use howdah_http::etag::parse_entity_tags;
use howdah_http::message::{FieldBlock, Fields, Request, Response};
use tokio::task::spawn_local;

/// Maximum number of bytes of a page that are read after a 304, so that its script or connection
/// ends as usual.
const MAX_DRAINED: u64 = 1 << 20;

/// Ends of the tags of content that Apache has compressed.
const MARKS: [&[u8]; 2] = [b"-gzip\"", b"-br\""];

/// Returns the fields of a request with strong tags in `If-None-Match`; `None` if there are no weak
/// ones.
pub fn restored(fields: &Fields) -> Option<Fields> {
    let weak = |value: &[u8]| memchr::memmem::find(value, b"W/\"").is_some();
    if !fields.get_all("if-none-match").any(weak) {
        return None;
    }
    let changed: Vec<(&[u8], Vec<u8>)> = fields
        .iter()
        .map(|(name, value)| {
            if name.eq_ignore_ascii_case(b"if-none-match") {
                (name, strong(value))
            } else {
                (name, value.to_vec())
            }
        })
        .collect();
    Some(Fields::from_pairs(changed.iter().map(|(name, value)| (*name, &**value))))
}

/// Removes `W/` in front of each tag of a list.
fn strong(tags: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(tags.len());
    let (mut rest, mut is_quoted) = (tags, false);
    while let [first, after @ ..] = rest {
        if !is_quoted
            && let Some(tag) = rest.strip_prefix(b"W/").filter(|tag| tag.starts_with(b"\""))
        {
            rest = tag;
            continue;
        }
        is_quoted ^= *first == b'"';
        out.push(*first);
        rest = after;
    }
    out
}

/// Returns true if a list has a tag of compressed content under `.htaccess`.
pub fn has_mark(tags: &[u8]) -> bool {
    MARKS.iter().any(|mark| memchr::memmem::find(tags, mark).is_some())
}

/// Returns a list of tags without the marks of compressed content.
pub fn without_marks(tags: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(tags.len());
    let mut rest = tags;
    while let [first, after @ ..] = rest {
        match MARKS.iter().find_map(|mark| rest.strip_prefix(*mark)) {
            Some(behind) => {
                plain.push(b'"');
                rest = behind;
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

/// Replaces a page by 304 if the client has said that it has this one.
pub fn answer(request: &Request, response: &mut Response) {
    if !is_known(request, response) {
        return;
    }
    let is_of_content = |name: &[u8]| {
        [&b"content-type"[..], b"content-encoding", b"content-language", b"content-disposition"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other))
    };
    let mut lines = Vec::with_capacity(response.fields.as_bytes().len());
    for (name, value) in response.fields.iter().filter(|(name, _)| !is_of_content(name)) {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
    }
    response.fields = FieldBlock::from_lines(lines.into());
    (response.status, response.reason, response.chunked) = (304, None, false);
    response.drop_trailer();
    if let Body::Stream(stream) = std::mem::take(&mut response.body) {
        spawn_local(drain(stream));
    }
}

/// Returns true if a response is a page whose tag is among those of the request.
fn is_known(request: &Request, response: &Response) -> bool {
    let mut lists = request.fields.get_all("if-none-match").peekable();
    if response.status != 200
        || lists.peek().is_none()
        || !matches!(&*request.method, b"GET" | b"HEAD")
        || response.body.is_cut()
    {
        return false;
    }
    let Some(tag) = response.fields.get("etag") else { return false };
    let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
    lists.any(|list| parse_entity_tags(list).any(|known| known.opaque == opaque))
}

/// Reads a body that is not sent: a script that still writes it must not be taken for one whose
/// client has left.
async fn drain(mut stream: Box<dyn BodyStream>) {
    let mut drained = 0;
    while let Some(Ok(bytes)) = poll_fn(|cx| stream.poll_next(cx)).await {
        drained += bytes.len() as u64;
        if drained > MAX_DRAINED {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use howdah_http::fixture;

    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn tags_are_what_the_program_has_given() {
        for (sent, expected) in [
            (r#"W/"abc""#, r#""abc""#),
            (r#"W/"a", "b" ,W/"W/""#, r#""a", "b" ,"W/""#),
            (r#""xW/", W/"b""#, r#""xW/", "b""#),
            ("*", "*"),
            ("W/abc", "W/abc"),
            ("", ""),
        ] {
            assert_eq!(text(&strong(sent.as_bytes())), expected, "{sent}");
        }
        for (sent, expected) in [
            (r#""abc-gzip""#, r#""abc""#),
            (r#""a-br", "b-gzip", "c-gzipped""#, r#""a", "b", "c-gzipped""#),
            ("*", "*"),
        ] {
            assert_eq!(text(&without_marks(sent.as_bytes())), expected, "{sent}");
        }
    }

    #[test]
    fn only_if_none_match_is_changed() {
        let tag = r#"W/"a""#;
        let pairs = [("If-Match", tag), ("If-Range", tag), ("if-none-match", tag), ("X", tag)];
        let changed = restored(&fixture::request("/", &pairs).fields).unwrap();
        let found: Vec<_> = changed.iter().map(|(_, value)| text(value)).collect();
        assert_eq!(found, [tag, tag, "\"a\"", tag]);
        assert!(restored(&fixture::request("/", &pairs[..2]).fields).is_none());
    }

    #[test]
    fn a_page_that_the_client_has_is_304() {
        let status = |asked: &str, tag: &str, status: u16| {
            let request = fixture::request("/", &[("If-None-Match", asked)]);
            let mut response = Response::new(status, Body::from("page")).with("ETag", tag);
            response.fields.push("Content-Type", "text/html");
            answer(&request, &mut response);
            response.status
        };
        assert_eq!(status(r#""a", W/"b""#, r#"W/"b""#, 200), 304);
        assert_eq!(status(r#"W/"b""#, r#""b""#, 200), 304);
        assert_eq!(status(r#"W/"b""#, r#""c""#, 200), 200);
        assert_eq!(status(r#"W/"b""#, r#""b""#, 404), 404);
        // The program knows whether there is a representation.
        assert_eq!(status("*", r#""b""#, 200), 200);
    }
}
