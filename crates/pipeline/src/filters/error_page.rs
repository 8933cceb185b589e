//! `error_pages` of an action: content that replaces the server's own pages.
//!
//! A page is a file, or the response of an action. That action sees a GET request without body,
//! conditions and ranges; scripts find the error in `REDIRECT_STATUS` and `REDIRECT_URL`, as under
//! Apache. If making a page fails, the server's own page stays: pages never lead to pages.

use bytes::Bytes;
use howdah_files::{Files, RequestTime, ServeOutcome};
use howdah_http::message::{ErrorOrigin, FieldBlock, Fields, Request, Response};
use howdah_routing::snapshot::action::ErrorPage;
use howdah_routing::snapshot::effects::Effects;

/// Returns the configured page for a response with one of the server's own pages, or, with
/// `intercept_errors`, for one of an application or another server. Status 499 has none: its client
/// has gone. A response that is not sent has none either.
pub fn page_for<'p>(effects: &Effects<'p>, response: &Response) -> Option<&'p ErrorPage> {
    let is_replaced = response.is_default_error_page || effects.intercept_errors;
    let wanted = is_replaced && response.status != 499 && !response.is_unsent();
    effects.error_pages.iter().find(|page| wanted && page.status == response.status)
}

/// Returns the response with the content of a file.
pub fn file(
    share: &howdah_files::Share,
    path: &Bytes,
    files: &Files,
    request: &Request,
    now: RequestTime,
) -> Option<Response> {
    let asked = Request {
        method: Bytes::from_static(b"GET"),
        fields: Fields::default(),
        path: path.clone(),
        ..request.clone()
    };
    match files.look_up(share, share.place(path), &asked, now) {
        ServeOutcome::File(file) => Some(files.file_response(&file, &asked, now.wall)),
        _ => None,
    }
}

/// Creates the request that the action of a page handles.
pub fn request(request: &Request, status: u16) -> Request {
    let mut asked = plain_request(request);
    asked.error = Some(ErrorOrigin { status, path: request.path.clone() });
    asked
}

/// Returns the request as a GET (or HEAD) without body, conditions and ranges.
pub fn plain_request(request: &Request) -> Request {
    /// Fields about the body, conditions and ranges, which the request for a page does not have.
    const ELSEWHERE: [&[u8]; 11] = [
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"range",
        b"transfer-encoding",
    ];
    let mut asked = request.clone();
    if &*asked.method != b"HEAD" {
        asked.method = Bytes::from_static(b"GET");
    }
    asked.fields.retain(|name| !ELSEWHERE.iter().any(|other| name.eq_ignore_ascii_case(other)));
    asked
}

/// Replaces a response by a page, or by nothing if the action of the page sends none. Fields of the
/// error that the page does not have stay, such as `Allow` and `WWW-Authenticate`. If the status is
/// kept, validators of the page's file are removed.
pub fn replace(response: &mut Response, page: Response, keep_status: bool) {
    const OF_FILES: [&[u8]; 3] = [b"accept-ranges", b"etag", b"last-modified"];
    let error = std::mem::replace(response, page);
    if response.is_unsent() {
        return;
    }
    let is_in =
        |names: &[&[u8]], name: &[u8]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
    let own = response.fields.iter().filter(|(name, _)| !keep_status || !is_in(&OF_FILES, name));
    // As in nginx, an intercepted response keeps only the fields that clients need to log in.
    let keeps_all = error.is_default_error_page;
    let kept = error.fields.iter().filter(|(name, _)| {
        let is_same = |other: &[u8]| name.eq_ignore_ascii_case(other);
        (keeps_all || is_same(b"www-authenticate"))
            && !is_same(b"content-type")
            && !response.fields.iter().any(|(other, _)| is_same(other))
    });
    let mut fields = Vec::new();
    for (name, value) in own.chain(kept) {
        for part in [name, b": ", value, b"\r\n"] {
            fields.extend_from_slice(part);
        }
    }
    response.fields = FieldBlock::from_lines(fields.into());
    response.close |= error.close;
    if keep_status {
        response.status = error.status;
        response.reason = error.reason;
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;
    use howdah_http::body::Body;
    use howdah_http::error_status::RequestError;
    use howdah_http::fixture;
    use howdah_http::respond;

    #[test]
    fn a_page_is_asked_for_without_what_is_about_something_else() {
        let fields = [
            ("Content-Length", "3"),
            ("cookie", "a=b"),
            ("IF-None-Match", "*"),
            ("Range", "bytes=0-1"),
            ("Accept", "text/html"),
        ];
        let mut sent = fixture::request("/a%20b?c", &fields);
        sent.method = Bytes::from_static(b"POST");
        let asked = request(&sent, 413);
        let names: Vec<_> = asked.fields.iter().map(|(name, _)| name).collect();
        assert_eq!((&*asked.method, names), (&b"GET"[..], vec![&b"cookie"[..], b"Accept"]));
        assert_eq!(asked.error, Some(ErrorOrigin { status: 413, path: "/a b".into() }));
        sent.method = Bytes::from_static(b"HEAD");
        assert_eq!(request(&sent, 404).method, "HEAD");
    }

    #[test]
    fn a_page_keeps_the_status_and_what_only_the_error_says() {
        let page = || {
            Response::new(200, Body::from(Bytes::from_static(b"page")))
                .with("Content-Type", "text/plain")
                .with("Retry-After", "60")
                .with("ETag", "\"1\"")
        };
        for (keep_status, status) in [(true, 503), (false, 200)] {
            let mut response = respond::refuse(RequestError::Overloaded).with("Allow", "GET");
            response.close = true;
            replace(&mut response, page(), keep_status);
            assert_eq!((response.status, response.close), (status, true));
            assert_eq!(
                ["content-type", "retry-after", "allow"].map(|name| response.fields.get(name)),
                [Some(&b"text/plain"[..]), Some(b"60"), Some(b"GET")]
            );
            assert_eq!(response.fields.get("etag").is_none(), keep_status);
        }
    }

    #[test]
    fn a_file_is_sent_whole_to_every_method_and_without_validators() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("404.html"), "gone fishing").unwrap();
        let options = howdah_files::Options::default();
        let share = howdah_files::Share::new(directory.path(), options);
        let files = Files::new(howdah_files::Limits::default());
        let now = RequestTime { monotonic: Instant::now(), wall: SystemTime::now() };
        let mut sent = fixture::request("/a", &[("Range", "bytes=0-0"), ("If-None-Match", "*")]);
        sent.method = Bytes::from_static(b"POST");
        let page = |name: &'static str| file(&share, &Bytes::from(name), &files, &sent, now);
        assert!(page("/missing").is_none());
        let mut response = respond::refuse(RequestError::NotFound).with("Allow", "GET");
        replace(&mut response, page("/404.html").unwrap(), true);
        assert_eq!(response.status, 404);
        assert_eq!(
            ["allow", "content-type", "etag"].map(|name| response.fields.get(name)),
            [Some(&b"GET"[..]), Some(b"text/html"), None]
        );
        assert!(matches!(&response.body, Body::Bytes(bytes) if **bytes == *b"gone fishing"));
    }
}
