//! Behaviour of origins beside well-formed responses: failures, interim responses, dates and fields
//! in odd forms, validations that say something new.

use harness::raw::Raw;
use serde_json::json;

use super::conformance::{date, is_reused, is_stored, lines, stored_then};
use super::origin::{ask, cached, get, is_hit, origin, page, response};

const MODIFIED: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

/// An origin that sends a page first, and then bytes before it closes the connection.
fn failing(fields: &str, later: &'static str) -> Raw {
    let first = page(&lines(fields), "page 0");
    let is_first = std::sync::atomic::AtomicBool::new(true);
    Raw::new(move |connection| {
        if connection.request().is_some() {
            let is_first = is_first.swap(false, std::sync::atomic::Ordering::Relaxed);
            connection.send(if is_first { &first } else { later });
        }
    })
}

#[test]
fn a_stale_page_bridges_every_failure_of_its_origin() {
    let fields = "Cache-Control: max-age=1, stale-if-error=600|Age: 100|ETag: \"a\"";
    for later in [
        "",
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\n",
    ] {
        let origin = failing(fields, later);
        let server = cached(&origin, json!({}));
        assert_eq!(get(&server, "/", "").text(), "page 0");
        let answer = get(&server, "/", "");
        assert_eq!((answer.status, answer.text().as_str()), (200, "page 0"), "{later:?}");
        let status = answer.field("Cache-Status").unwrap();
        assert!(status.contains("stale-if-error"), "{later:?} {status}");
    }
    // Without permission, no stale response is sent.
    let strict = failing("Cache-Control: max-age=1, must-revalidate|Age: 100|ETag: \"a\"", "");
    let server = cached(&strict, json!({"stale_if_error": 600}));
    get(&server, "/", "");
    assert_eq!(get(&server, "/", "").status, 502);
}

#[test]
fn a_body_that_is_cut_replaces_nothing() {
    let cut = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 10\r\n\r\nnew";
    let fields = "Cache-Control: max-age=1, stale-if-error=600|Age: 100|ETag: \"a\"";
    let origin = failing(fields, cut);
    let server = cached(&origin, json!({}));
    get(&server, "/", "");
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    let received = String::from_utf8_lossy(&client.everything()).into_owned();
    assert!(!received.contains("page 0"), "{received}");
    let only = get(&server, "/", "Cache-Control: only-if-cached, max-stale\r\n");
    assert_eq!((only.status, only.text().as_str()), (200, "page 0"));
}

#[test]
fn interim_responses_say_nothing_about_storing() {
    let interim = "HTTP/1.1 103 Early Hints\r\nCache-Control: no-store\r\nSet-Cookie: \
                   a=b\r\nX-Early: 1\r\n\r\n";
    let origin = origin(move |_, number| match number {
        0 => [interim, &page("Cache-Control: max-age=600\r\n", "page 0")].concat(),
        _ => page("", "new"),
    });
    let server = cached(&origin, json!({}));
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    assert!(String::from_utf8_lossy(&client.everything()).ends_with("page 0"));
    let second = get(&server, "/", "");
    assert!(is_hit(&second) && second.text() == "page 0", "{second:?}");
    assert_eq!((second.field("X-Early"), second.field("Set-Cookie")), (None, None));
}

#[test]
fn fields_of_one_connection_are_not_stored() {
    let fields =
        "Cache-Control: max-age=600|Connection: X-Hop|X-Hop: 1|Proxy-Connection: x|X-Kept: 1";
    let (_, server) = stored_then(fields, |_, _| page("", "new"));
    let second = get(&server, "/", "");
    assert!(is_hit(&second));
    let field = |name| second.field(name);
    assert_eq!((field("X-Hop"), field("Proxy-Connection")), (None, None));
    assert_eq!(field("X-Kept"), Some("1"));
}

#[test]
fn dates_count_in_each_of_their_three_forms_and_in_no_other() {
    for (expires, expected) in [
        ("Wed, 09 Nov 2039 08:49:37 GMT", true),
        ("Wednesday, 09-Nov-39 08:49:37 GMT", true),
        ("Wed Nov  9 08:49:37 2039", true),
        // More than 50 years ahead is in the past (RFC 9110, 5.6.7).
        ("Tuesday, 09-Nov-99 08:49:37 GMT", false),
        ("Wed, 09 Nov 2039 08:49:37", false),
        ("Wed, 09 Nov 2039 08:49:37 CET", false),
        ("Wed, 09 Nov 2039 08:49:37 +0000", false),
        ("Wed, 31 Feb 2039 08:49:37 GMT", false),
        ("Wed, 09 Nov 2039 25:00:00 GMT", false),
        ("Wed, 09 Nov 2039 08:61:00 GMT", false),
        ("2039-11-09T08:49:37Z", false),
        ("2204361377", false),
        ("\"Wed, 09 Nov 2039 08:49:37 GMT\"", false),
    ] {
        assert_eq!(is_stored(&format!("Expires: {expires}")), expected, "{expires}");
    }
    // An unreadable Date is no reason not to store, and an unreadable Last-Modified none to store.
    assert!(is_stored("Cache-Control: max-age=600|Date: yesterday"));
    assert!(!is_stored("Last-Modified: yesterday"));
    assert!(!is_stored(&format!("Last-Modified: {}", date(5000))));
    assert!(is_stored(&format!("Last-Modified: {}", date(-5000))));
}

#[test]
fn directives_are_read_in_every_form_that_the_grammar_has() {
    for (control, expected) in [
        ("max-age=600\t,\tpublic", true),
        ("  max-age=600  ", true),
        ("public|Cache-Control: max-age=600", true),
        ("max-age=00600", true),
        ("Max-Age=600, Public", true),
        ("a=\"\\\"\", max-age=600", true),
        ("a=\"\\\", no-store\", max-age=600", true),
        ("a=b, max-age=600, c", true),
        ("s-maxage=\"600\"", true),
        ("max-age=600, NO-STORE", false),
        ("max-age=600, no-store=1", false),
        ("max-age=600, no-store=\"x\"", false),
        ("max-age=600,no-store", false),
        ("max-age=600,,,no-store", false),
        ("a=\"x\\\\\", no-store, max-age=600", false),
        ("a=\"b, max-age=600", false),
        ("max-age= 600", false),
        ("max-age =600", false),
        ("max-age=+600", false),
        ("max-age=6e2", false),
        ("max-age=600;public", false),
        ("max-age=600 public", false),
        ("max-age=", false),
        ("max-age=\"\"", false),
        ("max-age=600, max-age=600", true),
        ("max-age=600, max-age=x", false),
    ] {
        assert_eq!(is_stored(&format!("Cache-Control: {control}")), expected, "{control}");
    }
    // Pragma says something in requests only (RFC 9111, 5.4).
    assert!(is_stored("Cache-Control: max-age=600|Pragma: no-cache"));
    assert!(is_stored(&format!("Expires: {}|Pragma: no-cache", date(600))));
}

#[test]
fn a_field_for_shared_caches_is_a_dictionary() {
    for (fields, expected) in [
        ("CDN-Cache-Control: max-age=600|CDN-Cache-Control: no-store", false),
        ("CDN-Cache-Control: no-store|CDN-Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=600, max-age=0|Cache-Control: no-store", false),
        ("CDN-Cache-Control: MAX-AGE=600|Cache-Control: no-store", false),
        ("CDN-Cache-Control: max-age=600,|Cache-Control: no-store", false),
        ("CDN-Cache-Control: max-age=-600|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=600.0|Cache-Control: no-store", false),
        ("CDN-Cache-Control: max-age=:Zm9v:|Cache-Control: no-store", false),
        ("CDN-Cache-Control: max-age=600;|Cache-Control: max-age=600", true),
        ("CDN-Cache-Control: unknown, max-age=600|Cache-Control: private", true),
        ("CDN-Cache-Control: must-revalidate|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=0|Expires: Wed, 09 Nov 2039 08:49:37 GMT", false),
    ] {
        assert_eq!(is_stored(fields), expected, "{fields}");
    }
    let fields = "CDN-Cache-Control: max-age=600|Cache-Control: no-store, max-age=5";
    let (_, server) = stored_then(fields, |_, _| page("", "new"));
    let second = get(&server, "/", "");
    assert!(is_hit(&second));
    assert_eq!(second.field("Cache-Control"), Some("no-store, max-age=5"));
}

#[test]
fn every_final_status_is_stored_with_a_lifetime_of_its_own() {
    for status in [200, 203, 204, 300, 301, 302, 307, 308, 400, 403, 404, 410, 429, 451, 500, 503] {
        let answer = |fields: &str| match status {
            204 => format!("HTTP/1.1 204 X\r\n{fields}\r\n"),
            _ => response(&format!("{status} X"), fields, "x"),
        };
        assert!(is_reused(answer("Cache-Control: max-age=600\r\n"), "", ""), "{status}");
        assert!(!is_reused(answer(""), "", ""), "{status}");
    }
}

#[test]
fn origins_get_the_validators_of_the_cache_and_clients_the_answer_to_theirs() {
    let stored = "Cache-Control: max-age=1|Age: 5|ETag: \"a\"";
    for (own, expected) in [("\"a\"", 304), ("\"b\"", 200), ("\"b\", \"a\"", 304)] {
        let (origin, server) = stored_then(stored, |_, _| {
            "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n\r\n".to_owned()
        });
        let answer = get(&server, "/", &format!("If-None-Match: {own}\r\n"));
        assert_eq!(answer.status, expected, "{own}");
        assert!(origin.asked()[1].contains("If-None-Match: \"a\"\r\n"), "{own}");
        assert!(!origin.asked()[1].contains("\"b\""), "{own}");
    }
    // The page is another one now, which the client knows.
    let (_, server) =
        stored_then(stored, |_, _| page("Cache-Control: max-age=600\r\nETag: \"b\"\r\n", "new"));
    assert_eq!(get(&server, "/", "If-None-Match: \"b\"\r\n").status, 304);
    assert_eq!(get(&server, "/", "").text(), "new");
    let (origin, server) = stored_then(
        &format!("Cache-Control: max-age=1|Age: 5|Last-Modified: {MODIFIED}"),
        |_, _| "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n\r\n".to_owned(),
    );
    assert_eq!(get(&server, "/", "Range: bytes=0-1\r\n").text(), "pa");
    let asked = origin.asked()[1].clone();
    assert!(asked.contains(&format!("If-Modified-Since: {MODIFIED}")), "{asked}");
    assert!(!asked.contains("Range"), "{asked}");
}

#[test]
fn a_304_can_end_what_is_stored() {
    let fields = "Cache-Control: max-age=1|Age: 5|ETag: \"a\"";
    for (new, expected) in [
        ("Cache-Control: max-age=600", true),
        ("Cache-Control: no-store", false),
        ("Cache-Control: private", false),
        ("Cache-Control: max-age=600|Set-Cookie: a=b", false),
        ("Cache-Control: max-age=600|Vary: *", false),
        ("Expires: Wed, 09 Nov 2039 08:49:37 GMT|Cache-Control: max-age=0", false),
    ] {
        let head = format!("HTTP/1.1 304 Not Modified\r\n{}\r\n", lines(new));
        let (_, server) = stored_then(fields, move |_, number| match number {
            1 => head.clone(),
            _ => page("", "new"),
        });
        assert_eq!(get(&server, "/", "").text(), "page 0", "{new}");
        let third = get(&server, "/", "");
        assert_eq!(is_hit(&third), expected, "{new}");
        assert_eq!(third.field("Set-Cookie"), None, "{new}");
    }
}

#[test]
fn a_field_that_is_absent_and_one_that_is_empty_select_different_responses() {
    let origin = origin(|_, number| {
        page("Cache-Control: max-age=600\r\nVary:  x-A\t,\r\n", number.to_string())
    });
    let server = cached(&origin, json!({}));
    let text = |fields: &str| get(&server, "/", fields).text();
    assert_eq!(text(""), "0");
    assert_eq!(text("X-A: \r\n"), "1");
    assert_eq!(text("X-a:  b \r\n"), "2");
    assert_eq!(text("X-A: b\r\n"), "2");
    assert_eq!(text("X-A: B\r\n"), "3");
    assert_eq!(text(""), "0");
}

#[test]
fn methods_that_may_change_something_invalidate_and_safe_ones_do_not() {
    for (method, target, expected) in [
        ("PUT", "/", false),
        ("PATCH", "/", false),
        ("DELETE", "/", false),
        ("UNKNOWN", "/", false),
        ("POST", "/?a", true),
        ("OPTIONS", "/", true),
        ("PROPFIND", "/", true),
        ("REPORT", "/", true),
        ("SEARCH", "/", true),
        ("QUERY", "/", true),
    ] {
        let origin = origin(|_, _| page("Cache-Control: max-age=600\r\n", "x"));
        let server = cached(&origin, json!({}));
        get(&server, "/", "");
        ask(&server, method, target, "Content-Length: 0\r\n");
        assert_eq!(is_hit(&get(&server, "/", "")), expected, "{method} {target}");
    }
}

#[test]
fn only_if_cached_holds_for_head_and_parts() {
    let origin = origin(|_, _| page("Cache-Control: max-age=600\r\n", "0123456789"));
    let server = cached(&origin, json!({}));
    let only = "Cache-Control: only-if-cached\r\n";
    let part = format!("{only}Range: bytes=0-1\r\n");
    assert_eq!(ask(&server, "HEAD", "/", only).status, 504);
    assert_eq!(get(&server, "/", &part).status, 504);
    assert_eq!(origin.asked().len(), 0);
    get(&server, "/", "");
    assert_eq!(ask(&server, "HEAD", "/", only).status, 200);
    assert_eq!(get(&server, "/", &part).text(), "01");
    assert_eq!(origin.asked().len(), 1);
}
