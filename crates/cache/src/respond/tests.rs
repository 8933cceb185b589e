use howdah_http::fixture;

use super::*;
use crate::testing::{NOW, entry};

const HIT: Outcome = Outcome::Hit { ttl: 5, collapsed: false, detail: None };

fn stored() -> Entry {
    let fields = [
        ("Date", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ("ETag", "\"a\""),
        ("Last-Modified", "Tue, 14 Nov 2023 22:00:00 GMT"),
        ("Content-Type", "text/plain"),
        ("Vary", "Accept"),
    ];
    entry("/a", &fields, "0123456789")
}

fn answer(fields: &[(&str, &str)]) -> Response {
    respond(&stored(), &fixture::request("/a", fields), Some(HIT), NOW + 7)
}

fn field(response: &Response, name: &str) -> Option<String> {
    response.fields.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

fn content(response: &Response) -> &[u8] {
    match &response.body {
        Body::Bytes(bytes) => bytes,
        Body::Empty => b"",
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hit_has_its_age_and_the_date_of_the_stored_response() {
    let response = answer(&[]);
    assert_eq!((response.status, content(&response)), (200, &b"0123456789"[..]));
    assert_eq!(field(&response, "age").as_deref(), Some("7"));
    assert_eq!(field(&response, "cache-status").as_deref(), Some("Howdah; hit; ttl=5"));
    assert_eq!(field(&response, "date").as_deref(), Some("Tue, 14 Nov 2023 22:13:20 GMT"));
    assert!(!response.adds_date);
}

#[test]
fn a_response_shows_the_outcome_only_if_it_shall() {
    let response = respond(&stored(), &fixture::request("/a", &[]), None, NOW + 7);
    assert_eq!(field(&response, "cache-status"), None);
    assert_eq!(field(&response, "age").as_deref(), Some("7"));
}

#[test]
fn the_body_is_not_copied() {
    let entry = stored();
    let response = respond(&entry, &fixture::request("/a", &[]), Some(HIT), NOW);
    assert_eq!(content(&response).as_ptr(), entry.body.memory().unwrap().as_ptr());
}

#[test]
fn conditions_of_clients_are_met_with_304() {
    for fields in [
        &[("If-None-Match", "\"a\"")][..],
        &[("If-None-Match", "\"x\", W/\"a\"")],
        &[("If-None-Match", "*")],
        &[("If-Modified-Since", "Tue, 14 Nov 2023 22:00:00 GMT")],
        &[("If-Modified-Since", "Tuesday, 14-Nov-23 22:00:01 GMT")],
    ] {
        let response = answer(fields);
        assert_eq!((response.status, content(&response)), (304, &b""[..]), "{fields:?}");
        assert_eq!(field(&response, "etag").as_deref(), Some("\"a\""));
        assert_eq!(field(&response, "vary").as_deref(), Some("Accept"));
        assert_eq!(field(&response, "content-type"), None);
    }
    let both = [("If-None-Match", "\"x\""), ("If-Modified-Since", "Tue, 14 Nov 2023 22:00:00 GMT")];
    assert_eq!(answer(&both).status, 200);
    assert_eq!(answer(&[("If-None-Match", "a")]).status, 200);
}

#[test]
fn one_range_is_cut_out_and_others_are_ignored() {
    let range = |value: &str| answer(&[("Range", value)]);
    for (value, part, content_range) in [
        ("bytes=2-4", &b"234"[..], "bytes 2-4/10"),
        ("bytes=8-", b"89", "bytes 8-9/10"),
        ("bytes=-1", b"9", "bytes 9-9/10"),
        ("bytes=0-99999999999999999999", b"0123456789", "bytes 0-9/10"),
    ] {
        let response = range(value);
        assert_eq!((response.status, content(&response)), (206, part), "{value}");
        assert_eq!(field(&response, "content-range").as_deref(), Some(content_range));
    }
    for value in ["bytes=0-1,3-4", "bytes=x", "lines=1-2", &"bytes=0-1,".repeat(500)] {
        assert_eq!((range(value).status, content(&range(value)).len()), (200, 10), "{value}");
    }
    let response = range("bytes=10-");
    assert_eq!((response.status, content(&response)), (416, &b""[..]));
    assert_eq!(field(&response, "content-range").as_deref(), Some("bytes */10"));
    let mut head = fixture::request("/a", &[("Range", "bytes=0-1")]);
    head.method = Bytes::from_static(b"HEAD");
    assert_eq!(respond(&stored(), &head, Some(HIT), NOW).status, 200);
}

#[test]
fn if_range_must_be_the_stored_response() {
    let status = |wanted| answer(&[("Range", "bytes=0-1"), ("If-Range", wanted)]).status;
    assert_eq!(status("\"a\""), 206);
    assert_eq!(status("\"b\""), 200);
    assert_eq!(status("W/\"a\""), 200);
    assert_eq!(status("Tue, 14 Nov 2023 22:00:00 GMT"), 206);
    assert_eq!(status("Tue, 14 Nov 2023 22:00:01 GMT"), 200);
}

#[test]
fn a_response_that_is_not_stored_meets_conditions_too() {
    let request = fixture::request("/a", &[("If-None-Match", "\"a\"")]);
    let mut response = Response::new(200, Body::from("x")).with("ETag", "\"a\"");
    apply_conditions(&request.fields, &mut response);
    assert_eq!((response.status, response.body.len()), (304, Some(0)));
    let mut other = Response::new(200, Body::from("x")).with("ETag", "\"b\"");
    apply_conditions(&request.fields, &mut other);
    assert_eq!((other.status, other.body.len()), (200, Some(1)));
    let mut error = Response::new(404, Body::from("x")).with("ETag", "\"a\"");
    apply_conditions(&request.fields, &mut error);
    assert_eq!(error.status, 404);
}
