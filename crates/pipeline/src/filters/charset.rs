//! `charset` of an action: the encoding of texts whose `Content-Type` has none.

use bytes::Bytes;
use howdah_http::message::{FieldBlock, Response};

/// Types besides `text/*` that have an encoding.
const TYPES: [&str; 5] = [
    "application/javascript",
    "application/xml",
    "application/xhtml+xml",
    "application/rss+xml",
    "application/atom+xml",
];

/// Adds the encoding to the type of the response. An empty one has no effect.
pub fn apply(charset: Option<&str>, response: &mut Response) {
    let Some(charset) = charset.filter(|charset| !charset.is_empty()) else { return };
    let is_type = |name: &[u8]| name.eq_ignore_ascii_case(b"content-type");
    let fields = response.fields.clone();
    let mut types = fields.iter().filter(|(name, _)| is_type(name));
    let (Some((_, content_type)), None) = (types.next(), types.next()) else { return };
    if !wants(content_type) {
        return;
    }
    let mut lines = Vec::with_capacity(fields.as_bytes().len() + 32);
    for (name, value) in fields.iter() {
        for part in [name, b": ", value] {
            lines.extend_from_slice(part);
        }
        if is_type(name) {
            lines.extend_from_slice(b"; charset=");
            lines.extend_from_slice(charset.as_bytes());
        }
        lines.extend_from_slice(b"\r\n");
    }
    response.fields = FieldBlock::from_lines(Bytes::from(lines));
}

/// Returns true for the type of a text without an encoding.
fn wants(content_type: &[u8]) -> bool {
    let mut parts = content_type.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let essence = parts.next().unwrap_or_default();
    let is_text = essence.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"text/"));
    let is_listed = TYPES.iter().any(|name| essence.eq_ignore_ascii_case(name.as_bytes()));
    let has_charset = parts.any(|parameter| {
        parameter.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"charset="))
    });
    (is_text || is_listed) && !has_charset
}

#[cfg(test)]
mod tests {
    use howdah_http::body::Body;

    use super::*;

    #[test]
    fn texts_without_an_encoding_get_one() {
        for (content_type, expected) in [
            ("text/html", "text/html; charset=utf-8"),
            ("TEXT/CSS; a=b", "TEXT/CSS; a=b; charset=utf-8"),
            ("application/rss+xml", "application/rss+xml; charset=utf-8"),
            ("text/html; Charset=latin1", "text/html; Charset=latin1"),
            ("image/png", "image/png"),
            ("application/json", "application/json"),
            ("", ""),
        ] {
            let mut response = Response::new(200, Body::Empty)
                .with("ETag", "\"1\"")
                .with("Content-Type", content_type);
            apply(None, &mut response);
            apply(Some(""), &mut response);
            assert_eq!(response.fields.get("content-type"), Some(content_type.as_bytes()));
            apply(Some("utf-8"), &mut response);
            assert_eq!(response.fields.get("content-type"), Some(expected.as_bytes()));
            assert_eq!(response.fields.get("etag"), Some(&b"\"1\""[..]));
        }
        let mut response = Response::new(204, Body::Empty);
        apply(Some("utf-8"), &mut response);
        assert_eq!(response.fields.as_bytes(), b"");
    }
}
