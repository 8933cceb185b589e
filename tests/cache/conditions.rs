//! Requests with conditions, ranges and demands on freshness (RFC 9110, 13 and 14; RFC 9111, 4.3
//! and 5.2.1; RFC 5861).

use harness::Server;
use harness::client::Response;
use harness::raw::Raw;
use serde_json::json;

use super::origin::{ask, cached, get, is_hit, origin, page, response};

const MODIFIED: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

/// Starts a server with a stored page, and an origin that answers later requests with `later`.
fn stored_then(
    fields: &str,
    later: impl Fn(&str, usize) -> String + Send + Sync + 'static,
) -> (Raw, Server) {
    let first = page(fields, "0123456789");
    let origin = origin(move |head, number| match number {
        0 => first.clone(),
        _ => later(head, number),
    });
    let server = cached(&origin, json!({}));
    assert_eq!(get(&server, "/", "").text(), "0123456789");
    (origin, server)
}

fn fresh(fields: &str) -> (Raw, Server) {
    stored_then(&format!("Cache-Control: max-age=600\r\n{fields}"), |_, _| page("", "new"))
}

fn status_and_text(response: &Response) -> (u16, String) {
    (response.status, response.text())
}

#[test]
fn lists_of_tags_are_compared_weakly() {
    for (stored, asked, expected) in [
        ("\"a\"", "\"a\"", 304),
        ("\"a\"", "W/\"a\"", 304),
        ("W/\"a\"", "\"a\"", 304),
        ("\"a\"", "\"x\", \"y\",\"a\"", 304),
        ("\"a\"", "\"x\", W/\"a\" , \"y\"", 304),
        ("\"a,b\"", "\"a\", \"b\"", 200),
        ("\"a,b\"", "\"x\", \"a,b\"", 304),
        ("\"a\"", "\"A\"", 200),
        ("\"a\"", "w/\"a\"", 200),
        ("\"a\"", "a", 200),
        ("\"a\"", "\"x\"\r\nIf-None-Match: \"a\"", 304),
        ("\"a\"", "*", 304),
        ("\"a\"", "", 200),
    ] {
        let (origin, server) = fresh(&format!("ETag: {stored}\r\n"));
        let answer = get(&server, "/", &format!("If-None-Match: {asked}\r\n"));
        assert_eq!(answer.status, expected, "{stored} {asked}");
        assert_eq!(origin.asked().len(), 1, "{stored} {asked}");
    }
}

#[test]
fn any_response_fits_a_star_and_a_tag_counts_before_a_date() {
    let (_, server) = fresh(&format!("Last-Modified: {MODIFIED}\r\n"));
    let status = |fields: &str| get(&server, "/", fields).status;
    assert_eq!(status("If-None-Match: *\r\n"), 304);
    assert_eq!(status("If-None-Match: \"a\"\r\n"), 200);
    assert_eq!(status(&format!("If-Modified-Since: {MODIFIED}\r\n")), 304);
    assert_eq!(status("If-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT\r\n"), 200);
    assert_eq!(status("If-Modified-Since: yesterday\r\n"), 200);
    let both = format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {MODIFIED}\r\n");
    assert_eq!(status(&both), 200);
    let head = ask(&server, "HEAD", "/", "If-None-Match: *\r\n");
    assert!(is_hit(&head) && head.status == 304);
}

#[test]
fn a_304_has_the_fields_of_a_cache_and_none_of_the_content() {
    let (_, server) = fresh(
        "ETag: \"a\"\r\nVary: X-A\r\nContent-Type: text/plain\r\nContent-Location: /x\r\nX-Own: \
         1\r\n",
    );
    let answer = get(&server, "/", "If-None-Match: \"a\"\r\n");
    assert_eq!(answer.status, 304);
    for name in ["Cache-Control", "Content-Location", "Date", "ETag", "Vary", "Age"] {
        assert!(answer.field(name).is_some(), "{name}");
    }
    assert_eq!((answer.field("Content-Type"), answer.field("Content-Length")), (None, None));
}

#[test]
fn conditions_for_origins_are_left_to_them() {
    for name in ["If-Match", "If-Unmodified-Since"] {
        let (origin, server) =
            stored_then("Cache-Control: max-age=600\r\nETag: \"a\"\r\n", |_, _| {
                response("412 Precondition Failed", "Cache-Control: max-age=600\r\n", "")
            });
        assert_eq!(get(&server, "/", &format!("{name}: \"x\"\r\n")).status, 412, "{name}");
        assert!(origin.asked()[1].contains(name));
        assert!(is_hit(&get(&server, "/", "")), "{name}");
    }
}

#[test]
fn ranges_of_a_stored_page() {
    let (origin, server) = fresh(&format!("ETag: \"a\"\r\nLast-Modified: {MODIFIED}\r\n"));
    let date = format!("Range: bytes=0-1\r\nIf-Range: {MODIFIED}\r\n");
    for (fields, status, text) in [
        ("Range: bytes=2-3\r\n", 206, "23"),
        ("Range: bytes=8-\r\n", 206, "89"),
        ("Range: bytes=-2\r\n", 206, "89"),
        ("Range: bytes=0-99\r\n", 206, "0123456789"),
        ("Range: bytes=10-\r\n", 416, ""),
        ("Range: bytes=-0\r\n", 416, ""),
        ("Range: bytes=3-2\r\n", 200, "0123456789"),
        ("Range: lines=0-1\r\n", 200, "0123456789"),
        ("Range: bytes=0-1\r\nIf-Range: \"a\"\r\n", 206, "01"),
        ("Range: bytes=0-1\r\nIf-Range: W/\"a\"\r\n", 200, "0123456789"),
        ("Range: bytes=0-1\r\nIf-Range: \"b\"\r\n", 200, "0123456789"),
        ("Range: bytes=0-1\r\nIf-Range: Tue, 14 Nov 2023 22:13:21 GMT\r\n", 200, "0123456789"),
        (&date, 206, "01"),
        ("Range: bytes=0-1\r\nIf-None-Match: \"a\"\r\n", 304, ""),
    ] {
        let answer = get(&server, "/", fields);
        assert_eq!((answer.status, answer.text().as_str()), (status, text), "{fields}");
        if status == 206 {
            assert!(answer.field("Content-Range").unwrap().ends_with("/10"), "{fields}");
            assert_eq!(answer.field("ETag"), Some("\"a\""), "{fields}");
        }
        if status == 416 {
            assert_eq!(answer.field("Content-Range"), Some("bytes */10"), "{fields}");
        }
    }
    assert_eq!(origin.asked().len(), 1);
}

/// A date is no strong validator of a page that may have changed in the same second.
#[test]
fn a_date_as_new_as_its_response_does_not_join_ranges() {
    let (_, server) =
        fresh(&format!("Last-Modified: {MODIFIED}\r\nDate: {MODIFIED}\r\nExpires: x\r\n"));
    let answer = get(
        &server,
        "/",
        &format!("Range: bytes=0-1\r\nIf-Range: {MODIFIED}\r\nCache-Control: max-stale\r\n"),
    );
    assert_ne!(answer.status, 206);
}

#[test]
fn a_part_is_never_taken_for_the_whole() {
    let origin = origin(|head, _| {
        if head.contains("Range:") {
            response(
                "206 Partial Content",
                "Cache-Control: max-age=600\r\nETag: \"a\"\r\nContent-Range: bytes 0-1/10\r\n",
                "01",
            )
        } else {
            page("Cache-Control: max-age=600\r\nETag: \"a\"\r\n", "0123456789")
        }
    });
    let server = cached(&origin, json!({}));
    assert_eq!(status_and_text(&get(&server, "/", "Range: bytes=0-1\r\n")), (206, "01".to_owned()));
    assert_eq!(status_and_text(&get(&server, "/", "")), (200, "0123456789".to_owned()));
    let second = get(&server, "/", "Range: bytes=4-5\r\n");
    assert!(is_hit(&second) && second.text() == "45");
    // A part that was not requested.
    let odd = self::origin(|_, _| {
        response(
            "206 Partial Content",
            "Cache-Control: max-age=600\r\nContent-Range: bytes 0-1/10\r\n",
            "01",
        )
    });
    let server = cached(&odd, json!({}));
    get(&server, "/", "");
    assert!(!is_hit(&get(&server, "/", "")));
}

#[test]
fn requests_say_how_fresh_and_how_stale() {
    let fields = "Cache-Control: max-age=600\r\nAge: 100\r\nETag: \"a\"\r\n";
    for (control, expected) in [
        ("max-age=200", true),
        ("max-age=50", false),
        ("max-age=0", false),
        ("max-age=x", false),
        ("max-age=200, max-age=50", false),
        ("min-fresh=300", true),
        ("min-fresh=550", false),
        ("min-fresh=300, min-fresh=550", false),
        ("no-cache", false),
        ("no-cache=\"x\"", false),
        ("unknown, max-age=\"200\"", true),
        ("only-if-cached", true),
        ("max-stale", true),
    ] {
        let (_, server) = stored_then(fields, |_, _| page("", "new"));
        let answer = get(&server, "/", &format!("Cache-Control: {control}\r\n"));
        assert_eq!(is_hit(&answer), expected, "{control}");
    }
    let (_, server) = stored_then(fields, |_, _| page("", "new"));
    assert!(is_hit(&get(&server, "/", "Pragma: no-cache\r\nCache-Control: max-stale\r\n")));
    assert!(!is_hit(&get(&server, "/", "Pragma: x, no-cache\r\n")));
}

#[test]
fn a_stale_page_is_for_those_who_accept_it_and_not_where_it_must_not_be() {
    for (stored, control, expected) in [
        ("max-age=600", "max-stale", true),
        ("max-age=600", "max-stale=1000", true),
        ("max-age=600", "max-stale=100", false),
        ("max-age=600", "max-stale=1000, max-stale=100", false),
        ("max-age=600", "max-stale=x", false),
        ("max-age=600", "min-fresh=1, max-age=2000", false),
        ("max-age=600, must-revalidate", "max-stale", false),
        ("max-age=600, proxy-revalidate", "max-stale", false),
        ("s-maxage=600", "max-stale", false),
        ("max-age=600, stale-while-revalidate=1000", "x", true),
        ("max-age=600, stale-while-revalidate=1000", "min-fresh=1", false),
        ("max-age=600, stale-while-revalidate=1000", "max-age=2000", false),
        ("max-age=600, stale-while-revalidate=1000", "max-age=2000, max-stale", true),
        ("max-age=600, stale-while-revalidate=100", "x", false),
    ] {
        let fields = format!("Cache-Control: {stored}\r\nAge: 1100\r\nETag: \"a\"\r\n");
        let (_, server) = stored_then(&fields, |_, _| page("", "new"));
        let answer = get(&server, "/", &format!("Cache-Control: {control}\r\n"));
        assert_eq!(is_hit(&answer), expected, "{stored} / {control}");
        if expected {
            assert!(answer.field("Cache-Status").unwrap().contains("ttl=-5"), "{answer:?}");
        }
    }
}

#[test]
fn only_if_cached_never_asks_the_origin() {
    let only = "Cache-Control: only-if-cached\r\n";
    let (origin, server) =
        stored_then("Cache-Control: max-age=1\r\nAge: 5\r\nETag: \"a\"\r\n", |_, _| {
            page("", "new")
        });
    for target in ["/", "/other"] {
        let answer = get(&server, target, only);
        assert_eq!(answer.status, 504, "{target}");
        assert!(
            answer.field("Cache-Status").is_some_and(|status| !status.contains("hit")),
            "{answer:?}"
        );
    }
    assert_eq!(get(&server, "/", "Cache-Control: only-if-cached, max-stale=100\r\n").status, 200);
    assert_eq!(get(&server, "/", "Cache-Control: only-if-cached, no-cache\r\n").status, 504);
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn errors_are_bridged_within_their_window() {
    let error = |status: &'static str| move |_: &str, _: usize| response(status, "", "error");
    for (stored, status, request, expected) in [
        ("max-age=1, stale-if-error=600", "500 Oops", "", true),
        ("max-age=1, stale-if-error=600", "502 Oops", "", true),
        ("max-age=1, stale-if-error=600", "503 Oops", "", true),
        ("max-age=1, stale-if-error=600", "504 Oops", "", true),
        ("max-age=1, stale-if-error=600", "501 Oops", "", false),
        ("max-age=1, stale-if-error=600", "404 Oops", "", false),
        ("max-age=1, stale-if-error=10", "500 Oops", "", false),
        ("max-age=1, stale-if-error=x", "500 Oops", "", false),
        ("max-age=1, stale-if-error=600, must-revalidate", "500 Oops", "", false),
        ("max-age=1, stale-if-error=600, no-cache", "500 Oops", "", false),
        ("max-age=1", "500 Oops", "", false),
        ("max-age=1", "500 Oops", "Cache-Control: stale-if-error=600\r\n", true),
        ("max-age=1", "500 Oops", "Cache-Control: stale-if-error=10\r\n", false),
        ("max-age=1, must-revalidate", "500 Oops", "Cache-Control: stale-if-error=600\r\n", false),
    ] {
        let fields = format!("Cache-Control: {stored}\r\nAge: 100\r\nETag: \"a\"\r\n");
        let (origin, server) = stored_then(&fields, error(status));
        let answer = get(&server, "/", request);
        let is_old = answer.text() == "0123456789";
        assert_eq!(is_old, expected, "{stored} / {status} / {request}");
        assert_eq!(origin.asked().len(), 2, "{stored} / {status}");
        if expected {
            assert!(answer.field("Cache-Status").unwrap().contains("stale-if-error"), "{answer:?}");
            assert!(answer.field("Age").unwrap().parse::<u64>().unwrap() >= 100);
        }
    }
}

#[test]
fn a_304_updates_what_is_stored_but_the_fields_of_the_content() {
    let (origin, server) = stored_then(
        "Cache-Control: max-age=1\r\nAge: 5\r\nETag: \"a\"\r\nContent-Type: text/plain\r\nX-Old: \
         1\r\nX-Both: old\r\n",
        |_, _| {
            "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\nETag: \"a\"\r\nX-Both: \
             new\r\nX-New: 1\r\nContent-Length: 99\r\nContent-Encoding: x\r\n\r\n"
                .to_owned()
        },
    );
    for round in 0..2 {
        let answer = get(&server, "/", "");
        assert_eq!(status_and_text(&answer), (200, "0123456789".to_owned()));
        let field = |name| answer.field(name);
        assert_eq!(
            (field("X-Old"), field("X-Both"), field("X-New")),
            (Some("1"), Some("new"), Some("1"))
        );
        assert_eq!((field("Content-Type"), field("Content-Encoding")), (Some("text/plain"), None));
        assert_eq!(is_hit(&answer), round == 1);
    }
    assert_eq!(origin.asked().len(), 2);
    assert!(origin.asked()[1].contains("If-None-Match: \"a\""));
}

#[test]
fn head_updates_a_stored_page_or_shows_that_it_is_another() {
    let head = |fields: &'static str| {
        move |head: &str, _: usize| {
            if head.starts_with("HEAD") {
                format!(
                    "HTTP/1.1 200 \
            OK\r\n{fields}\r\n"
                )
            } else {
                page("Cache-Control: max-age=600\r\nETag: \"b\"\r\n", "new")
            }
        }
    };
    let stored = "Cache-Control: max-age=1\r\nAge: 5\r\nETag: \"a\"\r\nX-Own: old\r\n";
    let same =
        head("Cache-Control: max-age=600\r\nETag: \"a\"\r\nX-Own: new\r\nContent-Length: 10\r\n");
    let (origin, server) = stored_then(stored, same);
    let answer = ask(&server, "HEAD", "/", "");
    assert!(!is_hit(&answer) && answer.status == 200);
    let answer = get(&server, "/", "");
    assert!(is_hit(&answer), "{answer:?}");
    assert_eq!((answer.text().as_str(), answer.field("X-Own")), ("0123456789", Some("new")));
    assert_eq!(origin.asked().len(), 2);
    for other in [
        "Cache-Control: max-age=600\r\nETag: \"b\"\r\n",
        "Cache-Control: max-age=600\r\nETag: \"a\"\r\nContent-Length: 11\r\n",
    ] {
        let (_, server) = stored_then("Cache-Control: max-age=600\r\nETag: \"a\"\r\n", head(other));
        ask(&server, "HEAD", "/", "Cache-Control: no-cache\r\n");
        let answer = get(&server, "/", "");
        assert!(!is_hit(&answer) && answer.text() == "new", "{other}");
    }
}

#[test]
fn the_chain_of_caches_is_kept() {
    let fields = "Cache-Control: max-age=600\r\nCache-Status: Origin; hit; ttl=5\r\n";
    let (_, server) = stored_then(fields, |_, _| page("", "new"));
    let answer = get(&server, "/", "");
    let head = format!("{answer:?}");
    let (origin, own) = (head.find("Origin; hit").unwrap(), head.find("Howdah; hit").unwrap());
    assert!(origin < own, "{head}");
}
