//! Tests of the pages for errors.

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
    let asked = request_for_page(&sent, 413);
    let names: Vec<_> = asked.fields.iter().map(|(name, _)| name).collect();
    assert_eq!((&*asked.method, names), (&b"GET"[..], vec![&b"cookie"[..], b"Accept"]));
    assert_eq!(asked.error, Some(ErrorOrigin { status: 413, path: "/a b".into() }));
    sent.method = Bytes::from_static(b"HEAD");
    assert_eq!(request_for_page(&sent, 404).method, "HEAD");
}

#[test]
fn a_page_keeps_the_status_and_what_only_the_error_says() {
    let page = || {
        Response::new(200, Body::from(Bytes::from_static(b"page")))
            .with("Content-Type", "text/plain")
            .with("Retry-After", "60")
            .with("ETag", "\"1\"")
    };
    for (wanted, status) in
        [(PageStatus::OfError, 503), (PageStatus::OfAction, 200), (PageStatus::Fixed(410), 410)]
    {
        let mut response = respond::refuse(RequestError::Overloaded).with("Allow", "GET");
        response.close = true;
        put_page(&mut response, page(), wanted);
        assert_eq!((response.status, response.close), (status, true));
        assert_eq!(
            ["content-type", "retry-after", "allow"].map(|name| response.fields.get(name)),
            [Some(&b"text/plain"[..]), Some(b"60"), Some(b"GET")]
        );
        assert_eq!(response.fields.get("etag").is_none(), wanted != PageStatus::OfAction);
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
    put_page(&mut response, page("/404.html").unwrap(), PageStatus::OfError);
    assert_eq!(response.status, 404);
    assert_eq!(
        ["allow", "content-type", "etag"].map(|name| response.fields.get(name)),
        [Some(&b"GET"[..]), Some(b"text/html"), None]
    );
    assert!(matches!(&response.body, Body::Bytes(bytes) if **bytes == *b"gone fishing"));
}
