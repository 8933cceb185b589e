//! Corners of RFC 9110, 9111, 9211, 9213 and 5861 that an origin or a client seldom comes to.

use serde_json::json;

use super::conformance::{date, is_stored, lines, stored_then};
use super::origin::{ask, cached, get, is_hit, origin, page, response};

/// Returns which of "/", "/b" and "/d/c" are stored after a request, whose response has this status
/// and these fields.
fn left_after(method: &str, target: &str, asked: &str, status: &str, fields: &str) -> [bool; 3] {
    let (own, status, fields) = (method.to_owned(), status.to_owned(), lines(fields));
    let origin = origin(move |head, _| {
        if head.starts_with(&own) && !head.starts_with("GET") {
            response(&status, &fields, "")
        } else {
            page("Cache-Control: max-age=600\r\n", "x")
        }
    });
    let server = cached(&origin, json!({}));
    let targets = ["/", "/b", "/d/c"];
    targets.iter().for_each(|target| drop(get(&server, target, "")));
    ask(&server, method, target, asked);
    targets.map(|target| is_hit(&get(&server, target, "")))
}

#[test]
fn references_in_responses_to_unsafe_methods_are_resolved() {
    let after = |fields| left_after("POST", "/d/x", "Content-Length: 0\r\n", "201 Created", fields);
    assert_eq!(after("Location: ../b"), [true, false, true]);
    assert_eq!(after("Location: ./c"), [true, true, false]);
    assert_eq!(after("Location: /x/../d/./c"), [true, true, false]);
    assert_eq!(after("Location: ../../.."), [false, true, true]);
    assert_eq!(after("Location: //a.example/b"), [true, false, true]);
    assert_eq!(after("Location: HTTP://A.EXAMPLE/b#x"), [true, false, true]);
    assert_eq!(after("Location: //b.example/b"), [true, true, true]);
    assert_eq!(after("Location: http://a.example@b.example/b"), [true, true, true]);
    assert_eq!(after("Location: http://a.example.b.example/b"), [true, true, true]);
    assert_eq!(after("Content-Location: /b|Location: c"), [true, false, false]);
}

/// The page of the URL, also if the request names its host, or another method in a field.
#[test]
fn a_request_invalidates_its_url_in_whatever_form_it_comes() {
    let asked = "Content-Length: 0\r\n";
    let named = left_after("POST", "http://a.example/b", asked, "200 OK", "");
    assert_eq!(named, [true, false, true]);
    for field in ["X-HTTP-Method-Override: DELETE", "X-HTTP-Method: PUT"] {
        let asked = format!("{asked}{field}\r\n");
        let left = left_after("POST", "/b", &asked, "200 OK", "Location: /");
        assert_eq!(left, [false, false, true], "{field}");
    }
}

#[test]
fn a_heuristic_lifetime_has_a_limit_and_needs_a_past_date() {
    let modified = |offset| format!("Last-Modified: {}", date(offset));
    for (fields, expected) in [
        (modified(-100_000_000), Some(3600)),
        (modified(-1000), Some(100)),
        (modified(-5), None),
        (modified(600), None),
        (format!("{}|Date: {}", modified(-1000), date(-2000)), None),
        ("Last-Modified: yesterday".to_owned(), None),
        (format!("{}|Cache-Control: must-revalidate", modified(-1000)), Some(100)),
        (format!("{}|Cache-Control: no-cache", modified(-1000)), None),
        (format!("{}|Pragma: no-cache", modified(-1000)), Some(100)),
        (format!("{}|Cache-Control: x=\"max-age=1\"", modified(-1000)), Some(100)),
    ] {
        let (_, server) = stored_then(&fields, |_, _| page("", "new"));
        let status = get(&server, "/", "").field("Cache-Status").unwrap().to_owned();
        let ttl = status.strip_prefix("Howdah; hit; ttl=").map(|ttl| ttl.parse::<i64>().unwrap());
        let is_near = match (ttl, expected) {
            // The time that has passed since the dates were written makes it longer, too.
            (Some(ttl), Some(expected)) => {
                (expected - 30..=(expected + 30).min(3600)).contains(&ttl)
            }
            (found, expected) => found == expected,
        };
        assert!(is_near, "{fields}: {status}");
    }
}

#[test]
fn fields_for_shared_caches_have_an_order_and_types() {
    for (fields, expected) in [
        ("CDN-Cache-Control: no-store|Surrogate-Control: max-age=600", false),
        ("Surrogate-Control: no-store|Cache-Control: max-age=600", false),
        ("Surrogate-Control: max-age=600|Cache-Control: private", true),
        ("Surrogate-Control: max-age=600+30|Cache-Control: no-store", true),
        ("Surrogate-Control: max-age=600+x|Cache-Control: no-store", true),
        ("Surrogate-Control: max-age=+30|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=600|CDN-Cache-Control: max-age=0", false),
        ("CDN-Cache-Control: max-age=600|CDN-Cache-Control: no-store", false),
        ("CDN-Cache-Control: MAX-AGE=600|Cache-Control: no-store", false),
        ("CDN-Cache-Control: max-age=600,|Cache-Control: no-store", false),
        ("CDN-Cache-Control: max-age=600, x=(1 2);y|Cache-Control: no-store", true),
        ("CDN-Cache-Control: max-age=?1|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=-1|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=600|Expires: 0|Pragma: no-cache", true),
        ("CDN-Cache-Control: no-cache|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: s-maxage=600|Cache-Control: max-age=0", true),
        ("Cloudflare-CDN-Cache-Control: max-age=600|Cache-Control: no-store", false),
    ] {
        assert_eq!(is_stored(fields), expected, "{fields}");
    }
}

/// The client's own conditions are not those of the cache.
#[test]
fn a_range_beside_other_conditions() {
    let fields = "Cache-Control: max-age=600|ETag: \"a\"";
    let (origin, server) = stored_then(fields, |_, _| page("", "new"));
    for (asked, status, text) in [
        ("Range: bytes=0-0\r\nRange: bytes=1-1\r\n", 200, "page 0"),
        ("Range: bytes=0-0,2-2\r\n", 200, "page 0"),
        ("Range: BYTES=0-0\r\n", 206, "p"),
        ("Range: bytes=0-0x\r\n", 200, "page 0"),
        ("Range: bytes=\r\n", 200, "page 0"),
        ("Range: bytes=0-0\r\nIf-Range: \"a\", \"b\"\r\n", 200, "page 0"),
        ("Range: bytes=0-0\r\nIf-Range: *\r\n", 200, "page 0"),
        ("Range: bytes=0-0\r\nIf-Range: a\r\n", 200, "page 0"),
        ("Range: bytes=99-\r\nIf-Range: \"b\"\r\n", 200, "page 0"),
        ("Range: bytes=99-\r\nIf-None-Match: \"a\"\r\n", 304, ""),
        ("If-Range: \"a\"\r\n", 200, "page 0"),
    ] {
        let answer = get(&server, "/", asked);
        assert_eq!((answer.status, answer.text().as_str()), (status, text), "{asked}");
    }
    let head = ask(&server, "HEAD", "/", "Range: bytes=0-0\r\n");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("6")));
    assert_eq!(origin.asked().len(), 1);
}
