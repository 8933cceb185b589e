//! Poisoning and deception: no request of a client changes a response of another one, and no client
//! gets the response of another user.

use serde_json::json;

use super::origin::{ask, cached, get, is_hit, origin, page, response};

/// An application that repeats its request.
fn echo(head: &str, _: usize) -> String {
    page("Cache-Control: max-age=600\r\n", head)
}

#[test]
fn unkeyed_fields_that_override_the_url_reach_nobody_else() {
    let origin = origin(echo);
    let server = cached(&origin, json!({}));
    let fields = [
        "X-Forwarded-Host: evil",
        "X-Forwarded-Proto: evil",
        "X-Forwarded-Port: 1",
        "Forwarded: host=evil",
        "X-Host: evil",
        "X-Original-URL: /evil",
        "X-Rewrite-URL: /evil",
        "X-Forwarded-Prefix: /evil",
        "X-HTTP-Method-Override: DELETE",
        "X-Forwarded-Scheme: evil",
        "X-Forwarded-Server: evil",
        "X-Forwarded-Protocol: evil",
        "X-Forwarded-Path: /evil",
        "X-Forwarded-Uri: /evil",
        "X-Original-Host: evil",
        "X-Original-URI: /evil",
        "X-HTTP-Host-Override: evil",
        "X-HTTP-Method: evil",
        "X-Script-Name: /evil",
        "X-Proto: evil",
        "X-ARR-SSL: evil",
        "CF-Visitor: {\"scheme\":\"evil\"}",
        "CloudFront-Forwarded-Proto: evil",
        "X-HTTP-Path-Override: /evil",
        "X-Scheme: evil",
    ];
    for (number, field) in fields.iter().enumerate() {
        let target = format!("/{number}");
        get(&server, &target, &format!("{field}\r\n"));
        let clean = get(&server, &target, "");
        assert!(!is_hit(&clean) && !clean.text().contains("evil"), "{field}");
    }
}

/// The host of the target counts, not that of the field (RFC 9112, 3.2.2).
#[test]
fn a_target_with_a_host_does_not_answer_for_the_host_of_the_field() {
    let origin = origin(echo);
    let server = cached(&origin, json!({}));
    let asked = "GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    server.send(asked);
    let clean = get(&server, "/", "");
    assert!(!is_hit(&clean) && !clean.text().contains("evil"), "{clean:?}");
    let again = server.send(asked);
    assert!(!again.text().contains("GET / HTTP/1.1\r\nHost: a.example"), "{again:?}");
}

#[test]
fn hosts_do_not_share_responses_even_if_they_differ_by_port_or_case() {
    let origin = origin(echo);
    let server = cached(&origin, json!({}));
    for host in ["a.example", "b.example", "a.example:81", "A.example", "a.example."] {
        let asked = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let first = server.send(&asked);
        assert!(!is_hit(&first), "{host}");
        let second = server.send(&asked);
        assert!(is_hit(&second) && second.text().contains(&format!("Host: {host}\r\n")), "{host}");
    }
}

/// `/account/x.css` shows the account: the name of a path does not show the kind of its response.
#[test]
fn the_extension_of_a_path_makes_nothing_cacheable() {
    let origin = origin(|_, _| page("Content-Type: text/html\r\n", "secret"));
    let server = cached(&origin, json!({}));
    let private = self::origin(|_, _| page("Cache-Control: private\r\n", "secret"));
    let private = cached(&private, json!({"ttl": {"200": 600}}));
    for path in ["/account/x.css", "/account;x.js", "/account%2fx.png", "/account/%0ax.ico"] {
        for server in [&server, &private] {
            get(server, path, "");
            assert!(!is_hit(&get(server, path, "")), "{path}");
        }
    }
}

fn origin_paths(server: &harness::Server) -> Vec<bool> {
    let paths = ["/a", "/%61", "/b/../a", "/b/%2e%2e/a", "//a", "/a?", "/a;x", "/a%20", "/A"];
    paths.iter().map(|path| is_hit(&get(server, path, ""))).collect()
}

#[test]
fn paths_that_an_application_may_tell_apart_have_keys_of_their_own() {
    let origin = origin(echo);
    let server = cached(&origin, json!({}));
    assert!(origin_paths(&server).iter().all(|is_hit| !is_hit));
    assert!(origin_paths(&server).iter().all(|is_hit| *is_hit));
}

#[test]
fn a_request_with_a_body_is_neither_answered_nor_stored() {
    let origin = origin(echo);
    let server = cached(&origin, json!({}));
    let fat = |body: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\nConnection: \
             close\r\n\r\n{body}",
            body.len()
        );
        server.send(request)
    };
    let first = fat("evil=1");
    assert_eq!(first.field("Cache-Status"), Some("Howdah; fwd=bypass"));
    assert!(!is_hit(&get(&server, "/", "")));
    assert!(!is_hit(&fat("evil=1")));
}

#[test]
fn head_and_get_are_not_mixed_up() {
    let origin = origin(|head, _| {
        if head.starts_with("HEAD") {
            "HTTP/1.1 200 \
        OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\n"
                .into()
        } else {
            page("Cache-Control: max-age=600\r\n", "page")
        }
    });
    let server = cached(&origin, json!({}));
    assert!(!is_hit(&ask(&server, "HEAD", "/", "")));
    let page = get(&server, "/", "");
    assert_eq!((page.text().as_str(), is_hit(&page)), ("page", false));
    let head = ask(&server, "HEAD", "/", "");
    assert!(is_hit(&head) && head.body.is_empty(), "{head:?}");
    for method in ["OPTIONS", "PROPFIND", "PURGE", "get"] {
        assert!(!is_hit(&ask(&server, method, "/", "")), "{method}");
    }
}

#[test]
fn ranges_cost_no_more_than_the_response() {
    let origin = origin(|_, _| page("Cache-Control: max-age=600\r\n", "x".repeat(1000)));
    let server = cached(&origin, json!({}));
    get(&server, "/", "");
    let many = "0-,".repeat(2000);
    for range in [&many, "0-999,0-999", "18446744073709551615-", "-0", "5-2"] {
        let response = get(&server, "/", &format!("Range: bytes={range}\r\n"));
        assert!(response.body.len() <= 1000 && is_hit(&response), "{range}: {response:?}");
    }
}

#[test]
fn errors_are_not_stored_unless_they_say_so() {
    let origin = origin(|head, _| {
        let status = head.split_whitespace().nth(1).unwrap().trim_start_matches('/');
        response(&format!("{status} X"), "", "error")
    });
    let server = cached(&origin, json!({"ttl": {"200": 600}}));
    for status in ["400", "403", "404", "405", "414", "500", "502", "503"] {
        let target = format!("/{status}");
        // A header that some applications refuse must not lock others out.
        get(&server, &target, "X-Oversized: 1\r\n");
        assert!(!is_hit(&get(&server, &target, "")), "{status}");
    }
}

#[test]
fn cookies_of_one_client_reach_no_other() {
    let origin = origin(|head, _| {
        let user = head.contains("Cookie: user=1");
        page("Set-Cookie: session=1\r\n", if user { "secret" } else { "hello" })
    });
    let server = cached(&origin, json!({"ttl": {"200": 600}}));
    get(&server, "/", "Cookie: user=1\r\n");
    let other = get(&server, "/", "");
    assert!(!is_hit(&other) && other.text() == "hello");
    // Told to ignore it, the cache stores the page without the cookie.
    let telling = cached(&origin, json!({"ttl": {"200": 600}, "ignore": "set-cookie"}));
    get(&telling, "/", "Cookie: user=1\r\n");
    let first = get(&telling, "/", "");
    assert_eq!((first.text().as_str(), first.field("Set-Cookie")), ("hello", Some("session=1")));
    let second = get(&telling, "/", "");
    assert!(is_hit(&second) && second.field("Set-Cookie").is_none(), "{second:?}");
    // A user does not get the page of visitors either.
    assert_eq!(get(&telling, "/", "Cookie: user=1\r\n").text(), "secret");
}

#[test]
fn variants_without_end_push_nothing_out() {
    let origin = origin(|head, _| {
        if head.starts_with("GET /other") {
            page(
                "Cache-Control: \
        max-age=600\r\n",
                "other",
            )
        } else {
            page("Cache-Control: max-age=600\r\nVary: X-Any\r\n", "x".repeat(60_000))
        }
    });
    let server = cached(&origin, json!({"memory": 4_194_304, "max_object": 65536}));
    get(&server, "/other", "");
    for number in 0..150 {
        get(&server, "/", &format!("X-Any: {number}\r\n"));
    }
    assert!(is_hit(&get(&server, "/other", "")));
}

/// The split must not become a second response, in the first answer or a stored one.
#[test]
fn a_response_cannot_be_split() {
    let origin = origin(|_, _| {
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nX-A: a\rInjected: 1\r\n\
         Content-Length: 1\r\n\r\nx"
            .to_owned()
    });
    let server = cached(&origin, json!({}));
    for _ in 0..2 {
        assert_eq!(get(&server, "/", "").status, 502);
    }
    let echo = self::origin(echo);
    let server = cached(&echo, json!({}));
    let first = get(&server, "/a%0d%0aInjected:%201", "");
    let second = get(&server, "/a%0d%0aInjected:%201", "");
    assert!(first.field("Injected").is_none() && second.field("Injected").is_none());
    assert!(is_hit(&second));
}

/// Bytes beyond the announced length belong to no response.
#[test]
fn bytes_after_a_response_are_not_stored() {
    let origin = origin(|_, _| {
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1\r\n\r\nx\
         HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\nevil"
            .to_owned()
    });
    let server = cached(&origin, json!({}));
    for target in ["/", "/", "/other"] {
        assert_eq!(get(&server, target, "").text(), "x");
    }
}
