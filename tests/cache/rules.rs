//! RFC 9111 on the wire.

use harness::client::Response;
use serde_json::json;

use super::origin::{ask, cached, get, is_hit, origin, page, response};

/// Returns whether the second of two equal requests is answered from the cache.
fn is_stored(fields: &str, request: &str) -> bool {
    let text = page(fields, "x");
    let origin = origin(move |_, _| text.clone());
    let server = cached(&origin, json!({}));
    get(&server, "/", request);
    let second = get(&server, "/", request);
    assert_eq!(second.text(), "x");
    assert_eq!(origin.asked().len(), if is_hit(&second) { 1 } else { 2 });
    is_hit(&second)
}

#[test]
fn a_fresh_response_is_sent_again_with_its_age_and_date() {
    let origin = origin(|_, number| {
        page(
            "Cache-Control: max-age=600\r\nAge: 7\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
             CDN-Cache-Control: max-age=999999999\r\nX-Own: 1\r\nETag: \"a\"\r\n",
            format!("page {number}"),
        )
    });
    let server = cached(&origin, json!({}));
    let first = get(&server, "/a", "");
    assert_eq!(first.field("Cache-Status"), Some("Howdah; fwd=uri-miss; stored"));
    let second = get(&server, "/a", "");
    assert!(is_hit(&second), "{second:?}");
    assert_eq!(second.text(), "page 0");
    assert_eq!(second.field("Date"), Some("Tue, 14 Nov 2023 22:13:20 GMT"));
    assert_eq!(second.field("X-Own"), Some("1"));
    assert!(second.field("Age").unwrap().parse::<u64>().unwrap() > 1_000_000);
    let head = ask(&server, "HEAD", "/a", "");
    assert!(is_hit(&head) && head.field("Content-Length") == Some("6"), "{head:?}");
    assert_eq!(get(&server, "/a?b", "").text(), "page 1");
}

#[test]
fn responses_for_one_user_are_not_shared() {
    let fresh = "Cache-Control: max-age=600\r\n";
    assert!(is_stored(fresh, ""));
    for control in ["private, max-age=600", "no-store, max-age=600", "max-age=0", "max-age=x"] {
        assert!(!is_stored(&format!("Cache-Control: {control}\r\n"), ""), "{control}");
    }
    assert!(!is_stored(&format!("{fresh}Set-Cookie: a=b\r\n"), ""));
    assert!(!is_stored(fresh, "Authorization: Basic YTpi\r\n"));
    assert!(is_stored("Cache-Control: public, max-age=600\r\n", "Authorization: Basic YTpi\r\n"));
    assert!(!is_stored("", ""));
    assert!(!is_stored(&format!("{fresh}Vary: *\r\n"), ""));
    assert!(!is_stored(fresh, "Cache-Control: no-store\r\n"));
}

#[test]
fn fields_for_shared_caches_win() {
    assert!(is_stored("Cache-Control: no-store\r\nCDN-Cache-Control: max-age=60\r\n", ""));
    assert!(is_stored("Cache-Control: no-store\r\nSurrogate-Control: max-age=60\r\n", ""));
    assert!(!is_stored("Cache-Control: max-age=60\r\nCDN-Cache-Control: no-store\r\n", ""));
    assert!(is_stored("Cache-Control: max-age=60\r\nCDN-Cache-Control: No-Store\r\n", ""));
}

#[test]
fn withheld_fields_are_for_the_first_client_only() {
    let origin = origin(|_, _| {
        page("Cache-Control: max-age=60, no-cache=\"Set-Cookie\"\r\nSet-Cookie: a=b\r\n", "x")
    });
    let server = cached(&origin, json!({}));
    assert_eq!(get(&server, "/", "").field("Set-Cookie"), Some("a=b"));
    let second = get(&server, "/", "");
    assert!(is_hit(&second) && second.field("Set-Cookie").is_none(), "{second:?}");
}

#[test]
fn a_stale_response_is_validated_and_updated() {
    let origin = origin(|head, number| {
        if head.contains("If-None-Match: \"v1\"") {
            "HTTP/1.1 304 \
                 Not Modified\r\nETag: \"v1\"\r\nX-Number: 9\r\nCache-Control: max-age=600\r\n\r\n"
                .to_owned()
        } else {
            page(
                &format!("ETag: \"v1\"\r\nCache-Control: max-age=0\r\nX-Number: {number}\r\n"),
                "page",
            )
        }
    });
    let server = cached(&origin, json!({}));
    assert_eq!(get(&server, "/", "").field("X-Number"), Some("0"));
    let second = get(&server, "/", "Range: bytes=0-1\r\nIf-Match-Nothing: 1\r\n");
    assert_eq!(second.field("Cache-Status"), Some("Howdah; fwd=stale; fwd-status=304; stored"));
    assert_eq!((second.status, second.text().as_str()), (206, "pa"));
    assert_eq!(second.field("X-Number"), Some("9"));
    let third = get(&server, "/", "");
    assert!(is_hit(&third) && third.text() == "page" && third.field("X-Number") == Some("9"));
    assert!(!origin.asked()[1].contains("Range"), "{}", origin.asked()[1]);
}

#[test]
fn clients_get_304_from_the_cache_and_from_new_responses() {
    let origin = origin(|_, _| page("ETag: \"v1\"\r\nCache-Control: max-age=600\r\n", "page"));
    let server = cached(&origin, json!({}));
    let known = "If-None-Match: \"v0\", \"v1\"\r\n";
    for _ in 0..2 {
        let response = get(&server, "/", known);
        assert_eq!((response.status, response.body.len()), (304, 0), "{response:?}");
        assert_eq!(response.field("ETag"), Some("\"v1\""));
    }
    assert_eq!(get(&server, "/", "If-None-Match: \"v0\"\r\n").text(), "page");
    assert_eq!(origin.asked().len(), 1);
    assert!(!origin.asked()[0].contains("If-None-Match"));
}

#[test]
fn ranges_are_cut_from_complete_responses() {
    let origin = origin(|head, _| {
        if head.contains("Range") {
            response("206 Partial Content", "Content-Range: bytes 2-3/10\r\n", "23")
        } else {
            page("Cache-Control: max-age=600\r\n", "0123456789")
        }
    });
    let server = cached(&origin, json!({}));
    let range = |range: &str| get(&server, "/", &format!("Range: bytes={range}\r\n"));
    let first = range("2-3");
    assert_eq!((first.status, first.text().as_str()), (206, "23"));
    assert_eq!(first.field("Cache-Status"), Some("Howdah; fwd=partial"));
    get(&server, "/", "");
    let cut = range("-2");
    assert_eq!((cut.status, cut.text().as_str(), is_hit(&cut)), (206, "89", true));
    assert_eq!(cut.field("Content-Range"), Some("bytes 8-9/10"));
    assert_eq!(range("99-").status, 416);
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn vary_tells_responses_apart() {
    let origin = origin(|head, _| {
        let german = head.contains("Accept-Language: de");
        page(
            "Cache-Control: max-age=600\r\nVary: Accept-Language\r\n",
            if german { "hallo" } else { "hello" },
        )
    });
    let server = cached(&origin, json!({}));
    for _ in 0..2 {
        assert_eq!(get(&server, "/", "Accept-Language: de\r\n").text(), "hallo");
        assert_eq!(get(&server, "/", "Accept-Language: en\r\n").text(), "hello");
    }
    let asked = origin.asked().len();
    assert_eq!(asked, 2);
    let other = get(&server, "/", "Accept-Language: fr\r\n");
    assert_eq!(other.field("Cache-Status"), Some("Howdah; fwd=vary-miss; stored"));
}

#[test]
fn requests_may_demand_or_forbid_the_origin() {
    let origin = origin(|_, number| page("Cache-Control: max-age=600\r\n", number.to_string()));
    let server = cached(&origin, json!({}));
    let only = "Cache-Control: only-if-cached\r\n";
    assert_eq!(get(&server, "/", only).status, 504);
    assert_eq!(get(&server, "/", "").text(), "0");
    assert_eq!(get(&server, "/", only).text(), "0");
    let reloaded = get(&server, "/", "Cache-Control: no-cache\r\n");
    assert_eq!((reloaded.text().as_str(), is_hit(&reloaded)), ("1", false));
    assert_eq!(reloaded.field("Cache-Status"), Some("Howdah; fwd=request; stored"));
    assert_eq!(get(&server, "/", "").text(), "1");
    assert_eq!(get(&server, "/", "Pragma: no-cache\r\n").text(), "2");
    let ignoring = cached(&origin, json!({"ignore": "request-cache-control"}));
    get(&ignoring, "/", "");
    assert!(is_hit(&get(&ignoring, "/", "Cache-Control: no-cache\r\n")));
}

#[test]
fn unsafe_methods_make_stored_responses_invalid() {
    let origin = origin(|head, number| match head.starts_with("POST /fail") {
        true => response("500 No", "", ""),
        false if head.starts_with("POST") => {
            response("303 See Other", "Location: http://a.example/list#new\r\n", "")
        }
        false => page("Cache-Control: max-age=600\r\n", number.to_string()),
    });
    let server = cached(&origin, json!({}));
    let body = |target: &str| get(&server, target, "").text();
    let (page, list, fail) = (body("/page"), body("/list"), body("/fail"));
    ask(&server, "POST", "/fail", "");
    assert_eq!(body("/fail"), fail);
    let answer = ask(&server, "POST", "/page", "");
    assert_eq!(answer.field("Cache-Status"), Some("Howdah; fwd=method"));
    assert_ne!(body("/page"), page);
    assert_ne!(body("/list"), list);
}

#[test]
fn an_error_is_answered_with_a_stale_response_if_that_is_allowed() {
    let answers = |head: &str, number: usize| match (head.starts_with("GET /forbidden"), number) {
        (true, 0) => page("Cache-Control: max-age=1, must-revalidate\r\nAge: 5\r\n", "page"),
        (false, 0) => page("Cache-Control: max-age=1, stale-if-error=600\r\nAge: 5\r\n", "page"),
        _ => response("503 Service Unavailable", "", "sorry"),
    };
    let ask_twice = |target: &str, cache| -> Response {
        let origin = origin(answers);
        let server = cached(&origin, cache);
        get(&server, target, "");
        let second = get(&server, target, "");
        assert_eq!(origin.asked().len(), 2);
        second
    };
    let stale = ask_twice("/", json!({}));
    assert_eq!((stale.status, stale.text().as_str()), (200, "page"));
    assert!(stale.field("Cache-Status").unwrap().contains("detail=stale-if-error"));
    assert_eq!(ask_twice("/forbidden", json!({"stale_if_error": 600})).status, 503);
}

#[test]
fn a_response_that_is_cut_is_not_stored() {
    let origin = harness::raw::Raw::new(|connection| {
        if connection.request().is_some() {
            connection.send(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n\
                Content-Length: 100000\r\n\r\nonly this",
            );
        }
    });
    let server = cached(&origin, json!({}));
    for _ in 0..2 {
        let response = get(&server, "/", "");
        assert!(response.cut || response.status == 502, "{response:?}");
    }
    assert!(origin.asked().len() >= 2);
}
