//! `page_script` of an action: a script behind HTML pages, for development.
//!
//! Only pages that a browser shows get it: what scripts of a page ask for (`fetch`), images, frames
//! and downloads stay as they are, byte for byte.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use howdah_http::body::{Body, BodyStream, Piece};
use howdah_http::message::{FieldBlock, Request, Response};

/// Fields of responses that stay as they are: their content is encoded, a part of the page, saved as
/// a file, or has a digest.
const LEFT_ALONE: [&[u8]; 7] = [
    b"content-encoding",
    b"content-range",
    b"content-disposition",
    b"content-md5",
    b"digest",
    b"content-digest",
    b"repr-digest",
];

/// Fields that do not hold for a page with the script.
const DROPPED: [&[u8]; 4] = [b"content-length", b"etag", b"last-modified", b"accept-ranges"];

/// Adds the script to a page.
pub fn apply(script: Option<&str>, request: &Request, response: &mut Response) {
    let Some(script) = script.filter(|_| is_page(request, response)) else { return };
    let nonce = nonce(&response.fields).map_or(String::new(), |text| format!(" nonce=\"{text}\""));
    let element = Bytes::from(format!("\n<script src=\"{script}\"{nonce} async></script>\n"));
    let mut lines = Vec::with_capacity(response.fields.as_bytes().len());
    for (name, value) in response.fields.iter() {
        if !DROPPED.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
        }
    }
    response.fields = FieldBlock::from_lines(lines.into());
    response.body = match std::mem::take(&mut response.body) {
        Body::Empty => Body::Empty,
        Body::Bytes(bytes) => Body::Pieces(vec![Piece::Bytes(bytes), Piece::Bytes(element)]),
        Body::Pieces(mut pieces) => {
            pieces.push(Piece::Bytes(element));
            Body::Pieces(pieces)
        }
        Body::Stream(page) => Body::Stream(Box::new(WithElement { page, element: Some(element) })),
    };
    // Copies of the file are copies without the script.
    response.file = None;
    response.drop_trailer();
}

fn is_page(request: &Request, response: &Response) -> bool {
    let content_type = response.fields.get("content-type").unwrap_or_default();
    let content_type = content_type.to_ascii_lowercase();
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    // The element is ASCII.
    let is_wide = ["utf-16", "utf-32"]
        .iter()
        .any(|wide| memchr::memmem::find(&content_type, wide.as_bytes()).is_some());
    let is_left_alone = |name: &[u8]| LEFT_ALONE.iter().any(|o| name.eq_ignore_ascii_case(o));
    essence == b"text/html"
        && !is_wide
        && request.fields.get("sec-fetch-dest") == Some(b"document")
        && &*request.method != b"HEAD"
        && !matches!(response.status, ..200 | 204..=206 | 304)
        && !response.fields.iter().any(|(name, _)| is_left_alone(name))
}

/// Returns the nonce that scripts of the page need (Content Security Policy Level 3, 6.7.2).
fn nonce(fields: &FieldBlock) -> Option<String> {
    let is_policy = |name: &[u8]| name.eq_ignore_ascii_case(b"content-security-policy");
    let policies = fields.iter().filter(|(name, _)| is_policy(name));
    let mut directives = Vec::new();
    for (_, policy) in policies {
        for directive in policy.split(|byte| matches!(byte, b';' | b',')) {
            let words = directive.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            directives.push(words.collect::<Vec<_>>());
        }
    }
    let of = |name: &[u8]| {
        directives
            .iter()
            .find(|words| words.first().is_some_and(|first| first.eq_ignore_ascii_case(name)))
    };
    let words =
        of(b"script-src-elem").or_else(|| of(b"script-src")).or_else(|| of(b"default-src"))?;
    let nonce = |word: &&[u8]| {
        let text = std::str::from_utf8(word.strip_prefix(b"'nonce-")?.strip_suffix(b"'")?).ok()?;
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
        text.bytes().all(is_base64).then(|| text.to_owned())
    };
    words.iter().find_map(nonce)
}

/// A page that is produced while it is sent, and the element behind it.
struct WithElement {
    page: Box<dyn BodyStream>,
    /// `None` once it was returned.
    element: Option<Bytes>,
}

impl BodyStream for WithElement {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.element.is_none() {
            return Poll::Ready(None);
        }
        let next = ready!(self.page.poll_next(cx));
        Poll::Ready(next.or_else(|| self.element.take().map(Ok)))
    }

    fn len(&self) -> Option<u64> {
        let element = self.element.as_ref().map_or(0, Bytes::len) as u64;
        self.page.len().map(|page| page + element)
    }

    fn is_cut(&self) -> bool {
        self.page.is_cut()
    }

    fn is_counted(&self) -> bool {
        self.page.is_counted() && self.element.is_some()
    }

    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.page.poll_finished(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use howdah_http::fixture;

    use super::*;

    const ELEMENT: &str = "\n<script src=\"/r.js\" async></script>\n";

    fn text(body: Body) -> String {
        let pieces = match body {
            Body::Pieces(pieces) => pieces,
            Body::Bytes(bytes) => vec![Piece::Bytes(bytes)],
            _ => Vec::new(),
        };
        let bytes = pieces.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => &**bytes,
            Piece::File { .. } => b"FILE",
        });
        String::from_utf8(bytes.collect::<Vec<_>>().concat()).unwrap()
    }

    fn applied(fetch: &str, status: u16, fields: &[(&str, &str)]) -> Response {
        let request = fixture::request("/", &[("Sec-Fetch-Dest", fetch)]);
        let mut response = Response::new(status, Body::from("page"));
        fields.iter().for_each(|(name, value)| response.fields.push(name, value));
        apply(Some("/r.js"), &request, &mut response);
        response
    }

    #[test]
    fn only_pages_that_a_browser_opens_get_the_script() {
        let html = ("Content-Type", "Text/HTML; charset=utf-8");
        let with = format!("page{ELEMENT}");
        for (fetch, status, fields, has) in [
            ("document", 200, vec![html], true),
            ("document", 500, vec![html], true),
            ("empty", 200, vec![html], false),
            ("iframe", 200, vec![html], false),
            ("document", 206, vec![html, ("Content-Range", "bytes 0-3/9")], false),
            ("document", 304, vec![html], false),
            ("document", 200, vec![("Content-Type", "application/json")], false),
            ("document", 200, vec![("Content-Type", "text/html-x")], false),
            ("document", 200, vec![("Content-Type", "text/html; charset=UTF-16LE")], false),
            ("document", 200, vec![html, ("Content-Encoding", "gzip")], false),
            ("document", 200, vec![html, ("Content-Disposition", "attachment")], false),
        ] {
            let found = text(applied(fetch, status, &fields).body);
            assert_eq!(found, if has { &with } else { "page" }, "{fetch} {status} {fields:?}");
        }
        let validated = [html, ("ETag", "\"1\""), ("X-A", "b"), ("Content-Length", "4")];
        let response = applied("document", 200, &validated);
        let names: Vec<_> = response.fields.iter().map(|(name, _)| name.to_vec()).collect();
        assert_eq!(names, [b"Content-Type".to_vec(), b"X-A".to_vec()]);
        assert_eq!(response.body.len(), Some(with.len() as u64));
    }

    #[test]
    fn the_script_has_the_nonce_of_scripts_and_nothing_else_of_the_policy() {
        for (policy, expected) in [
            ("script-src 'self' 'nonce-aB1+/='; style-src 'nonce-x'", " nonce=\"aB1+/=\""),
            ("style-src 'nonce-x'; default-src 'nonce-y'", " nonce=\"y\""),
            ("default-src 'nonce-y'; script-src 'self'", ""),
            ("script-src 'nonce-\"><b>'", ""),
            ("", ""),
        ] {
            let fields = [("Content-Type", "text/html"), ("Content-Security-Policy", policy)];
            let expected = format!("page\n<script src=\"/r.js\"{expected} async></script>\n");
            assert_eq!(text(applied("document", 200, &fields).body), expected, "{policy}");
        }
    }

    struct Stream(Vec<Bytes>);

    impl BodyStream for Stream {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
            Poll::Ready(self.0.pop().map(Ok))
        }

        fn len(&self) -> Option<u64> {
            Some(self.0.iter().map(Bytes::len).sum::<usize>() as u64)
        }
    }

    #[tokio::test]
    async fn a_page_that_is_made_while_it_is_sent_gets_the_script_at_its_end() {
        let request = fixture::request("/", &[("Sec-Fetch-Dest", "document")]);
        let stream = Stream(vec![Bytes::from_static(b"ge"), Bytes::from_static(b"pa")]);
        let body = Body::Stream(Box::new(stream));
        let mut response = Response::new(200, body).with("Content-Type", "text/html");
        apply(Some("/r.js"), &request, &mut response);
        let Body::Stream(mut stream) = response.body else { panic!("it is a stream") };
        assert_eq!(stream.len(), Some(4 + ELEMENT.len() as u64));
        let mut all = Vec::new();
        while let Some(next) = poll_fn(|cx| stream.poll_next(cx)).await {
            all.extend_from_slice(&next.unwrap());
        }
        assert_eq!(String::from_utf8(all).unwrap(), format!("page{ELEMENT}"));
        assert_eq!(stream.len(), Some(0));
    }
}
