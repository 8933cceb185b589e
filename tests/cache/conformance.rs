//! The rules of RFC 9111, 9211, 9213 and 5861, one by one, on the wire: storing, lifetimes, ages,
//! and invalidation.

use std::thread::sleep;
use std::time::Duration;

use harness::client::Response;
use harness::raw::Raw;
use harness::{Server, eventually};
use serde_json::json;

use super::origin::{ask, cached, get, is_hit, origin, page, response};

const AUTHORIZED: &str = "Authorization: Basic YTpi\r\n";

/// Returns whether the second of two requests is answered from the cache.
pub fn is_reused(response: String, first: &str, second: &str) -> bool {
    let origin = origin(move |_, _| response.clone());
    let server = cached(&origin, json!({}));
    get(&server, "/", first);
    is_hit(&get(&server, "/", second))
}

pub fn is_stored(fields: &str) -> bool {
    is_reused(page(&lines(fields), "x"), "", "")
}

/// Returns field lines that are separated by `|`.
pub fn lines(fields: &str) -> String {
    fields.split('|').filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect()
}

pub fn date(offset: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    howdah_text::date::http(now.as_secs().saturating_add_signed(offset))
}

fn age(response: &Response) -> u64 {
    response.field("Age").unwrap().parse().unwrap()
}

/// Starts a server with a page that is stored as `fields` say, and an origin whose later answers
/// are `later`.
pub fn stored_then(
    fields: &str,
    later: impl Fn(&str, usize) -> String + Send + Sync + 'static,
) -> (Raw, Server) {
    let first = page(&lines(fields), "page 0");
    let origin = origin(move |head, number| match number {
        0 => first.clone(),
        _ => later(head, number),
    });
    let server = cached(&origin, json!({}));
    assert_eq!(get(&server, "/", "").text(), "page 0");
    (origin, server)
}

#[test]
fn malformed_and_repeated_directives_never_lengthen_a_lifetime() {
    for (control, expected) in [
        ("max-age=600", true),
        ("max-age=\"600\"", true),
        ("MAX-AGE=600", true),
        (",, max-age=600 ,,", true),
        ("max-age=600, unknown=\"a, no-store, b\"", true),
        ("unknown=\"max-age=600\"", false),
        ("max-age=99999999999999999999", true),
        ("max-age=-600", false),
        ("max-age=600.5", false),
        ("max-age = 600", false),
        ("max-age=600s", false),
        ("max-age=0x600", false),
        ("max-age", false),
        ("max-age='600'", false),
        ("max-age=600, max-age=0", false),
        ("max-age=600|Cache-Control: max-age=0", false),
        ("max-age=600|Cache-Control: no-store", false),
        ("s-maxage=600, max-age=0", true),
        ("s-maxage=0, max-age=600", false),
        ("s-maxage=x, max-age=600", false),
    ] {
        assert_eq!(is_stored(&format!("Cache-Control: {control}")), expected, "{control}");
    }
}

#[test]
fn an_expires_that_is_no_date_or_past_is_no_lifetime() {
    for (fields, expected) in [
        (format!("Expires: {}", date(600)), true),
        (format!("Expires: {}|Date: {}", date(600), date(0)), true),
        (format!("Expires: {}", date(-600)), false),
        (format!("Expires: {}|Date: {}", date(600), date(700)), false),
        ("Expires: 0".to_owned(), false),
        ("Expires: ".to_owned(), false),
        ("Expires: -1".to_owned(), false),
        ("Expires: Thu, 01 Jan 1970 00:00:00 GMT".to_owned(), false),
        (format!("Expires: {}|Cache-Control: max-age=600", date(-600)), true),
        (format!("Expires: {}|Cache-Control: max-age=0", date(600)), false),
        (format!("Expires: {}|Cache-Control: s-maxage=600", date(-600)), true),
        (format!("Expires: {}|Expires: 0", date(600)), false),
        (format!("Expires: {}|Cache-Control: private", date(600)), false),
    ] {
        assert_eq!(is_stored(&fields), expected, "{fields}");
    }
}

#[test]
fn heuristics_are_for_statuses_that_allow_them() {
    let modified = format!("Last-Modified: {}\r\n", date(-100_000));
    let reused = |status: &str, more: &str| {
        is_reused(response(status, &format!("{modified}{more}"), "x"), "", "")
    };
    for status in ["200 OK", "203 Other", "301 Moved", "404 Not Found", "410 Gone", "501 No"] {
        assert!(reused(status, ""), "{status}");
    }
    for status in ["201 Created", "302 Found", "307 Redirect", "403 No", "500 Oops", "299 New"] {
        assert!(!reused(status, ""), "{status}");
        assert!(reused(status, "Cache-Control: max-age=600\r\n"), "{status}");
    }
    assert!(!reused("200 OK", "Cache-Control: private\r\n"));
    assert!(!reused("200 OK", "Expires: 0\r\n"));
}

#[test]
fn a_status_that_is_not_understood_is_not_stored_where_it_must_be() {
    let reused = |status: &str, control: &str| {
        is_reused(response(status, &format!("Cache-Control: {control}\r\n"), "x"), "", "")
    };
    assert!(reused("200 OK", "max-age=600, must-understand, no-store"));
    assert!(reused("404 Not Found", "max-age=600, must-understand, no-store"));
    assert!(!reused("200 OK", "max-age=600, no-store"));
    assert!(!reused("299 New", "max-age=600, must-understand, no-store"));
    assert!(!reused("599 New", "max-age=600, must-understand"));
}

#[test]
fn responses_to_authorized_requests_need_a_directive_that_allows_it() {
    for (fields, expected) in [
        ("Cache-Control: max-age=600", false),
        ("Cache-Control: max-age=600, proxy-revalidate", false),
        ("Cache-Control: max-age=600, public", true),
        ("Cache-Control: max-age=600, must-revalidate", true),
        ("Cache-Control: s-maxage=600", true),
        ("Cache-Control: s-maxage=600, private", false),
        ("CDN-Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=600, public", true),
        ("Surrogate-Control: max-age=600", false),
    ] {
        let page = page(&lines(fields), "x");
        assert_eq!(is_reused(page.clone(), AUTHORIZED, AUTHORIZED), expected, "{fields}");
        // No other client gets a response for one user.
        assert_eq!(is_reused(page, AUTHORIZED, ""), expected, "{fields}");
    }
}

#[test]
fn qualified_directives_are_about_their_fields_only() {
    for (control, has_a, has_b) in [
        ("private=\"X-A\"", false, true),
        ("no-cache=\"x-a\"", false, true),
        ("no-cache=\"X-A, X-B\"", false, false),
        ("no-cache=\" X-A \", private=\"X-B\"", false, false),
        ("private=X-A", false, true),
    ] {
        let fields = format!("Cache-Control: max-age=600, {control}|X-A: 1|X-B: 2|X-C: 3");
        let (_, server) = stored_then(&fields, |_, _| page("", "new"));
        let second = get(&server, "/", "");
        assert!(is_hit(&second), "{control}");
        let has = |name| second.field(name).is_some();
        assert_eq!((has("X-A"), has("X-B"), has("X-C")), (has_a, has_b, true), "{control}");
    }
    for control in ["private", "private=\"\"", "private=", "no-cache", "no-cache=\", \""] {
        assert!(!is_stored(&format!("Cache-Control: max-age=600, {control}")), "{control}");
    }
}

#[test]
fn a_field_for_shared_caches_counts_in_place_of_cache_control() {
    for (fields, expected) in [
        ("CDN-Cache-Control: max-age=600|Cache-Control: no-store", true),
        ("CDN-Cache-Control: max-age=600, no-store|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=600;a=1|Cache-Control: no-store", true),
        ("CDN-Cache-Control: max-age=\"600\"|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: max-age=6e2|Cache-Control: max-age=600", true),
        ("CDN-Cache-Control: max-age=0, max-age=600|Cache-Control: no-store", true),
        ("CDN-Cache-Control: |Cache-Control: max-age=600", true),
        ("CDN-Cache-Control: private|Cache-Control: max-age=600", false),
        ("CDN-Cache-Control: no-cache=?0, max-age=600|Cache-Control: no-store", true),
    ] {
        assert_eq!(is_stored(fields), expected, "{fields}");
    }
}

#[test]
fn ages_add_up() {
    for (dated, more, least) in [
        (None, "Age: 100", 100),
        (Some(-50), "", 50),
        (Some(-50), "|Age: 20", 50),
        (Some(-50), "|Age: 100", 100),
        (Some(500), "", 0),
        (None, "Age: 0100", 100),
    ] {
        let dated = dated.map_or(String::new(), |offset| format!("Date: {}", date(offset)));
        let fields = format!("{dated}{more}");
        let (_, server) =
            stored_then(&format!("Cache-Control: max-age=600|{fields}"), |_, _| page("", "new"));
        let second = get(&server, "/", "");
        assert!(is_hit(&second), "{fields}");
        assert!((least..least + 15).contains(&age(&second)), "{fields}: {}", age(&second));
        let status = second.field("Cache-Status").unwrap().to_owned();
        assert!(status.contains(&format!("ttl={}", 600 - age(&second))), "{status}");
    }
    for fields in ["Age: 700", "Age: -1", "Age: 1.5", "Age: 99999999999999999999", "Age: 1|Age: 2"]
    {
        assert!(!is_stored(&format!("Cache-Control: max-age=600|{fields}")), "{fields}");
    }
    // The time of a slow origin counts.
    let origin = origin(|_, _| {
        sleep(Duration::from_millis(1100));
        page("Cache-Control: max-age=600\r\nAge: 10\r\n", "x")
    });
    let server = cached(&origin, json!({}));
    get(&server, "/", "");
    assert!(age(&get(&server, "/", "")) >= 11);
}

#[test]
fn cookies_of_one_visitor_reach_nobody_else() {
    for (fields, expected) in [
        ("Cache-Control: public, max-age=600|Set-Cookie: a=b", false),
        ("Cache-Control: s-maxage=600|Set-Cookie: a=b", false),
        ("Cache-Control: max-age=600, private=\"set-cookie\"|Set-Cookie: a=b", true),
        ("CDN-Cache-Control: max-age=600|Set-Cookie: a=b", false),
    ] {
        let (_, server) = stored_then(fields, |_, _| page("", "new"));
        let second = get(&server, "/", "");
        assert_eq!((is_hit(&second), second.field("Set-Cookie")), (expected, None), "{fields}");
    }
}

#[test]
fn unsafe_methods_invalidate_targets_of_the_same_origin_only() {
    let post = |status: &str, fields: &str| {
        let (status, fields) = (status.to_owned(), lines(fields));
        let origin = origin(move |head, _| {
            if head.starts_with("POST") {
                response(&status, &fields, "done")
            } else {
                page("Cache-Control: max-age=600\r\n", "x")
            }
        });
        let server = cached(&origin, json!({}));
        for target in ["/", "/b", "/c"] {
            get(&server, target, "");
        }
        ask(&server, "POST", "/", "Content-Length: 0\r\n");
        ["/", "/b", "/c"].map(|target| is_hit(&get(&server, target, "")))
    };
    assert_eq!(post("200 OK", ""), [false, true, true]);
    assert_eq!(post("404 Not Found", "Location: /b"), [true, true, true]);
    assert_eq!(post("500 Oops", "Content-Location: /b"), [true, true, true]);
    assert_eq!(post("201 Created", "Location: /b|Content-Location: /c"), [false, false, false]);
    assert_eq!(post("303 Other", "Location: http://a.example/b"), [false, false, true]);
    assert_eq!(post("303 Other", "Location: http://a.example:80/b"), [false, false, true]);
    assert_eq!(post("303 Other", "Location: http://b.example/b"), [false, true, true]);
    assert_eq!(post("303 Other", "Location: http://a.example:81/b"), [false, true, true]);
    assert_eq!(post("200 OK", "Content-Location: c#part"), [false, true, false]);
}

#[test]
fn a_vary_of_several_fields_is_compared_in_full() {
    let origin = origin(|_, number| {
        page(
            "Cache-Control: max-age=600\r\nVary: Accept-Language\r\nVary: X-A, x-b\r\n",
            number.to_string(),
        )
    });
    let server = cached(&origin, json!({}));
    let text = |fields: &str| get(&server, "/", fields).text();
    assert_eq!(text(""), "0");
    assert_eq!(text("X-A: 1\r\n"), "1");
    assert_eq!(text("X-A: 1\r\nX-B: 1\r\n"), "2");
    assert_eq!(text("X-B: 1\r\nX-A: 1\r\nX-C: 9\r\n"), "2");
    assert_eq!(text("X-A: 1\r\nX-B: 1\r\nAccept-Language: de\r\n"), "3");
    assert_eq!(text("X-A: 1\r\nX-A: 2\r\n"), "4");
    assert_eq!(text("X-A: 1, 2\r\n"), "4");
    assert_eq!(text("X-A: 2, 1\r\n"), "5");
    assert_eq!(text(""), "0");
    for vary in ["*", "X-A, *", "*, X-A"] {
        assert!(!is_stored(&format!("Cache-Control: max-age=600|Vary: {vary}")), "{vary}");
    }
}

#[test]
fn trailers_are_not_mixed_with_fields() {
    let chunked = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTrailer: X-T\r\n\
                   Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-T: 1\r\nCache-Control: \
                   no-store\r\nSet-Cookie: a=b\r\n\r\n";
    let origin = origin(move |_, _| chunked.to_owned());
    let server = cached(&origin, json!({}));
    assert_eq!(get(&server, "/", "").text(), "body");
    let second = get(&server, "/", "");
    assert!(is_hit(&second) && second.text() == "body", "{second:?}");
    assert_eq!((second.field("X-T"), second.field("Set-Cookie")), (None, None));
}

/// A refresh that a HEAD request begins must not store a page without its content.
#[test]
fn a_stale_page_that_head_refreshes_keeps_its_content() {
    let fields = "Cache-Control: max-age=1, stale-while-revalidate=600|Age: 5";
    let (origin, server) = stored_then(fields, |head, _| {
        if head.starts_with("HEAD") {
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 6\r\n\r\n".to_owned()
        } else {
            page("Cache-Control: max-age=600\r\n", "page 1")
        }
    });
    assert_eq!(ask(&server, "HEAD", "/", "").status, 200);
    eventually("the page is refreshed", || (origin.asked().len() == 2).then_some(()));
    eventually("the page is new", || (get(&server, "/", "").text() == "page 1").then_some(()));
    assert_eq!(origin.asked().len(), 2);
}
