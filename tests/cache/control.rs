//! The control API of caches, and `howdah cache`.

use std::process::{Command, Output};

use harness::Server;
use harness::raw::Raw;
use serde_json::{Value, json};

use super::origin::{TARGETS, ask, controlled, get, is_hit, left, origin, page};

/// A server with a control API and some stored pages.
fn stored() -> (Raw, Server) {
    let origin = origin(|head, _| {
        let path = head.split_whitespace().nth(1).unwrap();
        match path {
            "/cookie" => page("Set-Cookie: sid=secret\r\nCache-Control: max-age=600\r\n", path),
            _ => {
                let tags = format!("Cache-Tag: page,{}\r\n", path.replace('/', "-"));
                page(&format!("{tags}Cache-Control: max-age=600\r\n"), path)
            }
        }
    });
    let bypass = json!([{"cookies": {"user": "*"}}]);
    let server = controlled(&origin, json!({"name": "pages", "bypass": bypass}));
    for target in TARGETS {
        get(&server, target, "");
        assert!(is_hit(&get(&server, target, "")));
    }
    (origin, server)
}

/// Runs `howdah cache`.
fn command(server: &Server, arguments: &[&str]) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    Command::new(harness::programs::howdah())
        .arg("cache")
        .args(arguments)
        .args(["--control", &control])
        .output()
        .expect("howdah runs")
}

/// Runs `howdah cache` and returns its output.
fn done(server: &Server, arguments: &[&str]) -> String {
    let output = command(server, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_control_api_purges_urls_prefixes_hosts_tags_and_all() {
    for (body, expected) in [
        (json!({"url": "https://A.example:8443/blog/%61"}), &["/", "/blog/a?b=1", "/shop/a"][..]),
        (json!({"url": "a.example/blog/a?b=1"}), &["/", "/blog/a", "/shop/a"]),
        (json!({"prefix": "http://a.example/blog/"}), &["/", "/shop/a"]),
        (json!({"host": "a.example"}), &[]),
        (json!({"host": "b.example"}), &TARGETS),
        (json!({"tags": ["-shop-a", "x"]}), &["/", "/blog/a", "/blog/a?b=1"]),
        (json!({"tags": "page", "host": "b.example"}), &TARGETS),
        (json!({"tags": "page", "host": "a.example"}), &[]),
        (json!({"all": true}), &[]),
    ] {
        let (_origin, server) = stored();
        let done = server.control("POST", "/control/caches/*/purge", body.to_string()).succeeded();
        assert_eq!(done, json!({"success": "Cache purged."}));
        assert_eq!(left(&server), expected, "{body}");
    }
}

#[test]
fn a_purge_that_says_nothing_or_names_no_cache_is_refused() {
    let (_origin, server) = stored();
    let status = |target: &str, body: &str| server.control("POST", target, body).status;
    assert_eq!(status("/control/caches/other/purge", r#"{"all": true}"#), 404);
    for body in ["{}", "[]", "all", r#"{"url": "/x"}"#, r#"{"url": "a.example/%0"}"#] {
        assert_eq!(status("/control/caches/pages/purge", body), 400, "{body}");
    }
    assert_eq!(left(&server), TARGETS);
    server.put("/config/routes", &json!([{"action": {"return": 200}}]));
    assert_eq!(status("/control/caches/*/purge", r#"{"all": true}"#), 404);
}

#[test]
fn the_status_counts_what_each_cache_did() {
    let (_origin, server) = stored();
    get(&server, "/cookie", "");
    get(&server, "/", "Cookie: user=1\r\n");
    done(&server, &["purge", "a.example/shop/a"]);
    let status = server.control("GET", "/status/caches/pages", "").succeeded();
    let number = |name: &str| status[name].as_u64();
    let all = ["entries", "hits", "misses", "bypassed", "stored", "refused", "purges"].map(number);
    // The purged entry is there until it is asked for.
    assert_eq!(all, [4, 4, 5, 1, 4, 1, 1].map(Some), "{status}");
    assert!(number("bytes") > Some(1000) && number("memory") == Some(64 << 20));
    let table = done(&server, &["stat"]);
    assert!(table.contains("pages") && table.contains("44 %"), "{table}");
    let json: Value = serde_json::from_str(&done(&server, &["stat", "--json"])).unwrap();
    assert_eq!(json["pages"]["hits"], 4);
}

#[test]
fn the_command_purges_and_lists_the_most_requested_pages() {
    let (_origin, server) = stored();
    (0..3).for_each(|_| drop(get(&server, "/shop/a", "")));
    let top = done(&server, &["top", "-n", "2"]);
    assert!(top.contains("a.example/shop/a") && top.lines().count() == 3, "{top}");
    assert_eq!(done(&server, &["purge", "--soft", "--tag", "page"]), "Cache purged.\n");
    let inspected = done(&server, &["inspect", "http://a.example/shop/a"]);
    assert!(inspected.contains("purged softly, asked for 4 times"), "{inspected}");
    done(&server, &["purge", "--prefix", "a.example/blog/", "a.example/"]);
    assert_eq!(left(&server), [""; 0], "stale pages are not fresh");
    let refused = command(&server, &["purge", "--all", "--name", "other"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no cache \"other\""));
    assert_eq!(command(&server, &["purge"]).status.code(), Some(2));
}

#[test]
fn inspect_names_what_decided() {
    let (_origin, server) = stored();
    let inspect = |url: &str| done(&server, &["inspect", url]);
    let found = inspect("https://a.example/blog/a?b=1");
    assert!(found.contains("fresh") && found.contains("by max-age of Cache-Control"), "{found}");
    assert!(found.contains("Howdah; fwd=uri-miss; stored"), "{found}");
    get(&server, "/cookie", "");
    let found = inspect("a.example/cookie");
    assert!(found.contains("decided by Set-Cookie: sid") && !found.contains("secret"), "{found}");
    get(&server, "/shop/a", "Cookie: user=secret; b=1\r\n");
    let found = inspect("a.example/shop/a");
    assert!(found.contains("condition 1 of \"bypass\" holds; the request has the cookies user, b"));
    assert!(found.contains("fresh") && !found.contains("secret"), "{found}");
    ask(&server, "HEAD", "/nothing", "");
    assert!(inspect("a.example/nothing").contains("Nothing is stored"));
}

/// Each encoding is computed once; the copies count.
#[test]
fn compressed_copies_are_kept_and_counted() {
    let text = "a page that compresses well. ".repeat(200);
    let long = "another one, which is compressed while it is sent. ".repeat(10_000);
    let (one, other) = (text.clone(), long.clone());
    let origin = origin(move |head, _| {
        let body = if head.starts_with("GET /long") { &other } else { &one };
        let tag = "ETag: \"1\"\r\nContent-Type: text/html\r\n";
        page(&format!("{tag}Cache-Control: max-age=600\r\n"), body)
    });
    let server = controlled(&origin, json!({}));
    let compressors = json!([{"encoding": "gzip"}, {"encoding": "zstd"}]);
    let settings = json!({"http": {"compression": {"compressors": compressors}}});
    server.put("/config/settings", &settings);
    let bytes = || {
        let status = server.control("GET", "/status/caches/default", "").succeeded();
        status["bytes"].as_u64().unwrap()
    };
    for (target, text) in [("/", text), ("/long", long)] {
        get(&server, target, "");
        let plain = bytes();
        let first = get(&server, target, "Accept-Encoding: gzip\r\n");
        let again = get(&server, target, "Accept-Encoding: gzip\r\n");
        assert_eq!(first.body, again.body);
        assert!(first.body.len() < text.len() / 4);
        for response in [&first, &again] {
            assert!(is_hit(response));
            assert_eq!(response.field("Content-Encoding"), Some("gzip"));
            assert_eq!(response.field("ETag"), Some("W/\"1\""));
        }
        let with_gzip = bytes();
        assert_eq!(with_gzip - plain, first.body.len() as u64);
        get(&server, target, "Accept-Encoding: zstd\r\n");
        assert!(bytes() > with_gzip);
        assert_eq!(get(&server, target, "").text(), text);
        let mut decoded = String::new();
        let mut reader = flate2::read::GzDecoder::new(&again.body[..]);
        std::io::Read::read_to_string(&mut reader, &mut decoded).expect("gzip");
        assert_eq!(decoded, text);
        let range = get(&server, target, "Accept-Encoding: gzip\r\nRange: bytes=0-4\r\n");
        assert_eq!((range.status, range.text().as_str()), (206, text.get(..5).unwrap()));
    }
    server.control("POST", "/control/caches/*/purge", r#"{"all": true}"#).succeeded();
    assert_eq!(bytes(), 0);
}

/// An application floods the cache and the list of purges; the page of another stays.
#[test]
fn applications_that_share_a_store_do_not_displace_each_other() {
    let origin = origin(|head, _| {
        let size = if head.starts_with("GET /flood") { 60_000 } else { 100 };
        page("Cache-Tag: a\r\nCache-Control: max-age=600\r\n", "x".repeat(size))
    });
    let server = controlled(&origin, json!({}));
    let action = |upstream: &str| {
        let cache = json!({"memory": 1 << 20, "purge": "127.0.0.1"});
        json!({"pass": format!("upstreams/{upstream}"), "cache": cache})
    };
    let servers = json!({"servers": {origin.url().trim_start_matches("http://"): {}}});
    server.put(
        "/config",
        &json!({
            "listeners": {server.address.to_string(): {"pass": "routes"}},
            "upstreams": {"one": servers, "two": servers},
            "routes": [
                {"match": {"uri": "/flood*"}, "action": action("one")},
                {"action": action("two")},
            ],
        }),
    );
    get(&server, "/page", "");
    for number in 0..100 {
        get(&server, &format!("/flood{number}"), "");
    }
    assert!(is_hit(&get(&server, "/page", "")), "it has less than its share");
    assert!(is_hit(&get(&server, "/flood99", "")));
    // Both pages have the same tag, and the purge is sent to one application.
    assert_eq!(ask(&server, "PURGE", "/flood", "Cache-Tag: a\r\n").status, 200);
    assert!(!is_hit(&get(&server, "/flood99", "")));
    assert!(is_hit(&get(&server, "/page", "")));
    let status = server.control("GET", "/status/caches/default", "").succeeded();
    assert!(status["bytes"].as_u64() <= Some(1 << 20), "{status}");
}

/// A page is assembled for each visitor: a page that is compressed for one must not be kept for the
/// others.
#[test]
fn an_assembled_page_is_not_kept_compressed() {
    let origin = origin(|head, number| {
        if head.starts_with("GET /part") {
            page(
                "Cache-Control: \
        no-store\r\n",
                format!("part {number} {}", "y".repeat(500)),
            )
        } else {
            let fields = "Cache-Control: max-age=600\r\nContent-Type: text/html\r\n\
                          Surrogate-Control: max-age=600, content=\"ESI/1.0\"\r\n";
            page(fields, format!("<esi:include src=\"/part\"/>{}", "x".repeat(500)))
        }
    });
    let server = controlled(&origin, json!({"esi": true}));
    let compression = json!({"compressors": [{"encoding": "gzip"}]});
    server.put("/config/settings", &json!({"http": {"compression": compression}}));
    let fetched = || {
        let response = get(&server, "/", "Accept-Encoding: gzip\r\n");
        assert_eq!(response.field("Content-Encoding"), Some("gzip"));
        let mut text = String::new();
        let mut reader = flate2::read::GzDecoder::new(&response.body[..]);
        std::io::Read::read_to_string(&mut reader, &mut text).expect("gzip");
        text
    };
    let pages = [fetched(), fetched(), fetched()];
    assert!(pages.iter().all(|page| page.contains("part ")), "{pages:?}");
    assert!(pages[0] != pages[1] && pages[1] != pages[2], "{pages:?}");
}
