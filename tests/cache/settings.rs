//! Keys of `cache`.

use harness::Site;
use harness::client::Response;
use serde_json::json;

use super::origin::{ask, cached, get, is_hit, origin, page, response};

#[test]
fn a_lifetime_by_status_is_for_responses_that_state_none() {
    let origin = origin(|head, _| match head {
        head if head.starts_with("GET /missing") => response("404 No", "", "missing"),
        head if head.starts_with("GET /own") => page("Cache-Control: max-age=0\r\n", "own"),
        _ => page("", "page"),
    });
    let server = cached(&origin, json!({"ttl": {"200": 600, "404": 600}}));
    let twice = |target| -> bool {
        get(&server, target, "");
        is_hit(&get(&server, target, ""))
    };
    assert!(twice("/") && twice("/missing") && !twice("/own"));
    let ignoring = cached(&origin, json!({"ttl": {"200": 600}, "ignore": "cache-control"}));
    get(&ignoring, "/own", "");
    assert!(is_hit(&get(&ignoring, "/own", "")));
}

#[test]
fn conditions_exclude_requests() {
    let origin = origin(|_, number| page("Cache-Control: max-age=600\r\n", number.to_string()));
    let server = cached(
        &origin,
        json!({"bypass": [
            {"cookies": {"user_*": "*"}}, {"headers": {"X-Preview": "*"}},
            {"arguments": {"preview": "*"}},
            {"uri": "/admin/*"}
        ]}),
    );
    get(&server, "/", "");
    assert!(is_hit(&get(&server, "/", "Cookie: theme=dark\r\n")));
    for (target, fields) in [
        ("/", "Cookie: theme=dark; user_1=x\r\n"),
        ("/", "Cookie: user.1=x\r\n"),
        ("/", "X-Preview: 1\r\n"),
        ("/?preview=1", ""),
        ("/?%70review", ""),
        ("/admin/", ""),
    ] {
        let response = get(&server, target, fields);
        assert_eq!(response.field("Cache-Status"), Some("Howdah; fwd=bypass"), "{target} {fields}");
        assert!(!is_hit(&get(&server, target, fields)));
    }
    let storing = cached(&origin, json!({"store": {"uri": "/kept/*"}}));
    let twice = |target| -> Response {
        get(&storing, target, "");
        get(&storing, target, "")
    };
    assert!(is_hit(&twice("/kept/a")));
    let status = "Howdah; fwd=uri-miss; detail=\"no condition of store holds\"";
    assert_eq!(twice("/a").field("Cache-Status"), Some(status));
}

#[test]
fn a_key_of_its_own_and_rules_for_vary_unite_responses() {
    let origin = origin(|head, _| {
        let vary = "Cache-Control: max-age=600\r\nVary: Accept-Encoding, User-Agent, Cookie\r\n";
        let encoding = head.lines().find(|line| line.to_lowercase().starts_with("accept-encoding"));
        page(vary, encoding.unwrap_or("none"))
    });
    let server = cached(
        &origin,
        json!({
            "key": "$host$uri",
            "vary": {
                "Accept-Encoding": ["br", "gzip"], "Cookie": null,
                "User-Agent": {"phone": "*Mobile*"}
            }
        }),
    );
    let first = get(&server, "/?a=1", "Accept-Encoding: zstd, gzip;q=0.5\r\nUser-Agent: A\r\n");
    assert_eq!(first.text(), "accept-encoding: gzip");
    let same = "Accept-Encoding: gzip\r\nUser-Agent: B\r\nCookie: a=b\r\n";
    assert!(is_hit(&get(&server, "/?b=1", same)));
    assert!(!is_hit(&get(&server, "/", "Accept-Encoding: gzip\r\nUser-Agent: Mobile\r\n")));
    assert!(!is_hit(&get(&server, "/", "Accept-Encoding: br, gzip\r\nUser-Agent: B\r\n")));
}

#[test]
fn a_response_is_stored_after_some_uses_and_up_to_a_size() {
    let origin = origin(|head, _| {
        let length = if head.starts_with("GET /large") { 5000 } else { 10 };
        page("Cache-Control: max-age=600\r\n", "x".repeat(length))
    });
    let server = cached(&origin, json!({"min_uses": 3, "max_object": 1000}));
    let hits: Vec<_> = (0..4).map(|_| is_hit(&get(&server, "/", ""))).collect();
    assert_eq!(hits, [false, false, false, true]);
    for _ in 0..5 {
        let large = get(&server, "/large", "");
        assert!(!is_hit(&large) && large.body.len() == 5000);
    }
}

#[test]
fn entries_outlive_a_change_of_the_configuration() {
    let origin = origin(|_, number| page("Cache-Control: max-age=600\r\n", number.to_string()));
    let server = super::origin::controlled(&origin, json!({"memory": 2_097_152}));
    assert_eq!(get(&server, "/", "").text(), "0");
    server.put("/config/routes/0/action/response_headers", &json!({"X-New": "1"}));
    let kept = get(&server, "/", "");
    assert_eq!((kept.text().as_str(), kept.field("X-New")), ("0", Some("1")));
    server.put("/config/routes/0/action/cache/memory", &json!(4_194_304));
    assert_eq!(get(&server, "/", "").text(), "1");
    server.put("/config/routes/0/action/cache", &json!(false));
    assert_eq!(get(&server, "/", "").field("Cache-Status"), None);
}

#[test]
fn a_cache_that_does_not_announce_works_and_shows_no_status() {
    let origin = origin(|_, number| page("Cache-Control: max-age=600\r\n", number.to_string()));
    let server = cached(&origin, json!({"announce": false, "bypass": {"uri": "/bypass"}}));
    for fields in ["", "", "If-None-Match: *\r\n"] {
        let response = get(&server, "/", fields);
        assert_eq!(response.field("Cache-Status"), None, "{response:?}");
    }
    assert_eq!(origin.asked().len(), 1);
    for (method, target) in [("GET", "/bypass"), ("POST", "/"), ("HEAD", "/other")] {
        let response = ask(&server, method, target, "");
        assert_eq!(
            (response.status, response.field("Cache-Status")),
            (200, None),
            "{method} {target}"
        );
    }
    let response = get(&server, "/none", "Cache-Control: only-if-cached\r\n");
    assert_eq!((response.status, response.field("Cache-Status")), (504, None));
}

/// Scripts of a share and of an application; also a page that PHP sends in pieces.
#[test]
fn pages_of_php_are_cached() {
    let code = "header('Cache-Control: max-age=600'); header('Surrogate-Key: all');
        for ($i = 0; $i < 200; $i++) { echo str_repeat('x', 500), hrtime(true); flush(); }";
    let site = Site::script("index.php", code);
    let root = site.root();
    let cached_action = json!({
        "share": format!("{}$uri", root.display()),
        "index": ["index.php"],
        "scripts": "applications/site",
        "cache": {"purge": "127.0.0.1"}
    });
    let server = site
        .with(json!({"routes": [
            {"match": {"uri": "/app/*"}, "action": {
                "rewrite": "/index.php", "pass": "applications/site", "cache": {}
            }},
            {"action": cached_action},
        ]}))
        .serve();
    for target in ["/", "/index.php?a", "/app/a", "/app/b"] {
        let first = get(&server, target, "");
        assert!(!is_hit(&first) && first.body.len() > 100_000, "{target}: {first:?}");
        let second = get(&server, target, "");
        assert!(is_hit(&second) && second.body == first.body, "{target}: {second:?}");
    }
    super::origin::ask(&server, "PURGE", "/", "Surrogate-Key: all\r\n");
    assert!(!is_hit(&get(&server, "/app/a", "")), "the store is that of both actions");
    // A file is not: it is in the cache of files.
    assert_eq!(get(&server, "/none.css", "").field("Cache-Status"), None);
}
