//! Purges by clients.

use harness::{Server, Site};
use serde_json::json;

use super::origin::{TARGETS, ask, cached, get, is_hit, left, origin, page};

/// A server with four stored pages.
fn stored(purge: serde_json::Value) -> (harness::raw::Raw, Server) {
    let origin = origin(|head, _| {
        let path = head.split_whitespace().nth(1).unwrap();
        let tags = format!("Cache-Tag: page,{}\r\n", path.replace('/', "-"));
        page(&format!("{tags}Cache-Control: max-age=600, stale-while-revalidate=0\r\n"), path)
    });
    let server = cached(&origin, json!({"purge": purge}));
    for target in TARGETS {
        get(&server, target, "");
        assert!(is_hit(&get(&server, target, "")));
    }
    (origin, server)
}

#[test]
fn clients_purge_urls_prefixes_tags_and_hosts() {
    let all = json!(["127.0.0.1"]);
    for (method, target, fields, expected) in [
        ("PURGE", "/blog/a", "", &["/", "/blog/a?b=1", "/shop/a"][..]),
        ("PURGE", "/blog/%61?b=1", "", &["/", "/blog/a", "/shop/a"]),
        ("PURGE", "/blog/*", "", &["/", "/shop/a"]),
        ("BAN", "/blog/.*", "", &["/", "/shop/a"]),
        ("PURGE", "/.*", "X-Purge-Method: regex\r\n", &[]),
        ("PURGE", "/", "Surrogate-Key: -shop-a x\r\n", &["/", "/blog/a", "/blog/a?b=1"]),
        ("BAN", "/", "Cache-Tags: page\r\n", &[]),
        ("PURGE", "/", "xkey: nothing\r\n", &TARGETS),
    ] {
        let (_origin, server) = stored(all.clone());
        let answer = ask(&server, method, target, fields);
        assert_eq!((answer.status, answer.text().as_str()), (200, "Purged.\n"), "{target}");
        assert_eq!(left(&server), expected, "{method} {target} {fields}");
    }
}

/// Each connection belongs to one of the threads.
#[test]
fn a_purge_has_taken_effect_on_all_threads_when_it_is_answered() {
    let origin = origin(|_, number| page("Cache-Control: max-age=600\r\n", number.to_string()));
    let action = json!({"proxy": origin.url(), "cache": {"purge": ["127.0.0.1"]}});
    let document = json!({"settings": {"listen_threads": 4}, "routes": [{"action": action}]});
    let server = Site::new().with(document).serve();
    let mut clients: Vec<_> = (0..24).map(|_| server.connect()).collect();
    for _ in 0..20 {
        let text = get(&server, "/", "").text();
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
            assert_eq!(client.response().text(), text);
        }
        assert_eq!(ask(&server, "PURGE", "/", "").status, 200);
        let begun = std::time::Instant::now();
        let only = "GET / HTTP/1.1\r\nHost: a.example\r\nCache-Control: only-if-cached\r\n\r\n";
        for client in &mut clients {
            client.send(only);
        }
        for client in &mut clients {
            assert_eq!(client.response().status, 504, "after {:?}", begun.elapsed());
        }
    }
}

#[test]
fn only_allowed_clients_purge_and_only_what_they_name() {
    let (origin, server) = stored(json!(["127.0.0.2"]));
    assert_eq!(ask(&server, "PURGE", "/", "").status, 403);
    assert_eq!(left(&server), TARGETS);
    // No part of a request changes the address of its client.
    assert_eq!(ask(&server, "PURGE", "/", "X-Forwarded-For: 127.0.0.2\r\n").status, 403);
    assert_eq!(origin.asked().len(), TARGETS.len());
    let (_origin, server) = stored(json!(["127.0.0.1"]));
    let other =
        "PURGE / HTTP/1.1\r\nHost: b.example\r\nCache-Tag: page\r\nConnection: close\r\n\r\n";
    assert_eq!(server.send(other).status, 200);
    assert_eq!(left(&server), TARGETS);
    assert_eq!(ask(&server, "PURGE", "/", "xkey: \r\n").status, 400);
}

#[test]
fn without_the_key_the_application_gets_the_method() {
    let origin = origin(|head, _| page("Cache-Control: max-age=600\r\n", head));
    let server = cached(&origin, json!({}));
    let answer = ask(&server, "PURGE", "/a", "");
    assert!(answer.text().starts_with("PURGE /a"), "{answer:?}");
}

#[test]
fn a_soft_purge_leaves_a_response_for_errors_and_refreshes() {
    let origin = origin(|_, number| match number {
        0 => page("xkey: a\r\nCache-Control: max-age=600, stale-while-revalidate=600\r\n", "old"),
        _ => page("Cache-Control: max-age=600\r\n", "new"),
    });
    let server = cached(&origin, json!({"purge": "127.0.0.1"}));
    get(&server, "/", "");
    assert_eq!(ask(&server, "PURGE", "/", "xkey-softpurge: a\r\n").status, 200);
    assert_eq!(get(&server, "/", "").text(), "old");
    harness::eventually("it is refreshed", || {
        (get(&server, "/", "").text() == "new").then_some(())
    });
}

#[test]
fn a_script_purges_responses_of_its_host() {
    let server = Site::script(
        "page.php",
        "header('Cache-Tag: list,post-' . ($_GET['n'] ?? 0)); header('Cache-Control: \
         max-age=600'); echo $_GET['n'] ?? 0;",
    )
    .file(
        "save.php",
        "<?php echo 'saved'; fastcgi_finish_request(); howdah_cache_purge(['post-' \
                       . $_GET['n']]);",
    )
    .file("clear.php", "<?php howdah_cache_purge(all: true);")
    .with(json!({"routes": [{"action": {"pass": "applications/site", "cache": {}}}]}))
    .serve();
    let is_stored = |target: &str, host: &str| {
        let only = "Cache-Control: only-if-cached\r\n";
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{only}Connection: close\r\n\r\n");
        server.send(request).status == 200
    };
    let store = || {
        for host in ["a.example", "b.example"] {
            for n in 1..=2 {
                let target = format!("/page.php?n={n}");
                server.send(format!(
                    "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                ));
                assert!(is_stored(&target, host));
            }
        }
    };
    store();
    assert_eq!(ask(&server, "POST", "/save.php?n=1", "Content-Length: 0\r\n").text(), "saved");
    harness::eventually("the page is purged", || {
        (!is_stored("/page.php?n=1", "a.example")).then_some(())
    });
    assert!(is_stored("/page.php?n=2", "a.example") && is_stored("/page.php?n=1", "b.example"));
    store();
    ask(&server, "POST", "/clear.php", "Content-Length: 0\r\n");
    harness::eventually("all pages are purged", || {
        (!is_stored("/page.php?n=2", "a.example")).then_some(())
    });
    assert!(!is_stored("/page.php?n=1", "a.example") && is_stored("/page.php?n=1", "b.example"));
}
