//! `mirror`: other actions get copies of requests.

use std::time::Duration;

use harness::raw::{Connection, Raw};
use harness::time::Stopwatch;
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

/// Answers with the length of the body, and counts requests.
const TELL: &str = "file_put_contents(getenv('DATA') . '/count', 'x', FILE_APPEND);
    echo strlen(file_get_contents('php://input'));";

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// Starts a server that copies requests.
fn copying(mirror: Value) -> Server {
    let action = json!({"pass": "applications/site", "rewrite": "/tell.php", "mirror": mirror});
    let refused =
        json!({"pass": "applications/site", "deny": ["127.0.0.0/8"], "mirror": action["mirror"]});
    let routes = json!([{"match": {"uri": "/refused"}, "action": refused}, {"action": action}]);
    Site::script("tell.php", TELL)
        .with(json!({"routes": null}))
        .with(json!({"routes": routes}))
        .serve()
}

fn post(target: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: \
         close\r\n\r\n{body}"
    )
}

/// Returns the requests that a server has got, once there are so many.
fn asked(server: &Raw, requests: usize) -> Vec<String> {
    eventually("the copies arrive", || Some(server.asked()).filter(|asked| asked.len() >= requests))
}

#[test]
fn requests_are_copied_with_their_bodies_and_the_answers_dropped() {
    let shadow = Raw::answering(OK);
    let server = copying(json!({"action": {"proxy": shadow.url()}, "max_body_size": 10}));
    assert_eq!(server.get("/a?b=c").text(), "0");
    let copies = asked(&shadow, 1);
    assert!(copies[0].starts_with("GET /tell.php?b=c HTTP/1.1\r\n"), "{copies:?}");
    let mark = copies[0].lines().find(|line| line.starts_with("X-Howdah-Mirror: "));
    let mark = mark.expect("copies are marked").to_owned();

    assert_eq!(server.send(post("/b", "0123456789")).text(), "10");
    let copies = asked(&shadow, 2);
    assert!(copies[1].starts_with("POST /tell.php HTTP/1.1\r\n"), "{copies:?}");
    assert!(copies[1].to_ascii_lowercase().contains("content-length: 10\r\n"), "{copies:?}");
    let chunked = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: \
                   close\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(server.send(chunked).text(), "3");
    assert!(asked(&shadow, 3)[2].starts_with("POST /tell.php HTTP/1.1\r\n"));

    // Too long; refused; a copy itself. The client's value of the field has no effect.
    assert_eq!(server.send(post("/d", "0123456789a")).text(), "11");
    assert_eq!(server.get("/refused").status, 403);
    let marked =
        |mark: &str| format!("GET /e HTTP/1.1\r\nHost: a\r\n{mark}\r\nConnection: close\r\n\r\n");
    assert_eq!(server.send(marked(&mark)).status, 200);
    assert_eq!(server.send(marked(&format!("{mark}, 0123456789abcdef"))).status, 200);
    assert_eq!(server.get("/?last").text(), "0");
    let copies = asked(&shadow, 4);
    assert!(copies.len() == 4 && copies[3].starts_with("GET /tell.php?last "), "{copies:?}");
    assert_eq!(server.send(marked("X-Howdah-Mirror: 1")).status, 200);
    let own = mark.trim_start_matches("X-Howdah-Mirror: ");
    let copy = &asked(&shadow, 5)[4];
    assert!(copy.contains(&format!("X-Howdah-Mirror: 1, {own}\r\n")), "{copy}");
}

#[test]
fn a_copy_that_fails_or_takes_long_changes_nothing() {
    let silent = Raw::new(|connection: &mut Connection| {
        connection.request();
        connection.wait_for_end();
    });
    let closed = format!("http://{}", harness::free_address());
    let mirror = |url: String| json!({"action": {"proxy": url}, "concurrency": 2});
    let server = copying(json!([mirror(closed), mirror(silent.url())]));
    let begun = Stopwatch::start();
    for _ in 0..5 {
        assert_eq!(server.get("/a").text(), "0");
        assert_eq!(server.send(post("/a", "abc")).text(), "3");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "after {:?}", begun.elapsed());
    assert_eq!(asked(&silent, 2).len(), 2);
    server.wait_for_log("it is not mirrored: 2 copies are in progress (mirror/concurrency)");
}

#[test]
fn a_copy_to_the_server_itself_is_not_copied_again() {
    let address = harness::free_address().to_string();
    let mirror = json!({"action": {"proxy": format!("http://{address}")}});
    let action = json!({"pass": "applications/site", "rewrite": "/tell.php", "mirror": mirror});
    let server = Site::script("tell.php", TELL)
        .with(json!({"routes": [{"action": action}]}))
        .serve_at(&address);
    assert_eq!(server.get("/").text(), "0");
    eventually("the copy has come", || (server.data("count").len() >= 2).then_some(()));
    harness::time::sleep(Duration::from_millis(300));
    assert_eq!(server.data("count"), "xx");
}

#[test]
fn a_copy_is_neither_answered_nor_stored_by_a_cache() {
    let shadow = Raw::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\nx",
    );
    for htaccess in [false, true] {
        let fallback = json!({"proxy": shadow.url(), "cache": {}});
        let action = json!({"share": "/none$uri", "htaccess": htaccess, "fallback": fallback});
        let server = copying(json!({"action": action}));
        let before = shadow.asked().len();
        for copies in 1..=2 {
            assert_eq!(server.get("/a").text(), "0");
            asked(&shadow, before + copies);
        }
    }
}

#[test]
fn the_mirrors_of_a_fallback_get_copies() {
    let shadow = Raw::answering(OK);
    for htaccess in [false, true] {
        let fallback = json!({
            "rewrite": "/tell.php",
            "pass": "applications/site",
            "mirror": {"action": {"proxy": shadow.url()}},
        });
        let action = json!({"share": "/none$uri", "htaccess": htaccess, "fallback": fallback});
        let server = Site::script("tell.php", TELL)
            .with(json!({"routes": null}))
            .with(json!({"routes": [{"action": action}]}))
            .serve();
        let before = shadow.asked().len();
        assert_eq!(server.send(post("/a", "abc")).text(), "3");
        let copy = &asked(&shadow, before + 1)[before];
        assert!(copy.starts_with("POST /tell.php HTTP/1.1\r\n"), "{htaccess}: {copy}");
    }
}
