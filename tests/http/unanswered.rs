//! `"return": 444` closes the connection without a response, as in nginx; with `--unit` it is a
//! status like others.

use std::fs;

use harness::http2::Http2;
use harness::{Server, Site, eventually};
use serde_json::json;

/// A site with `/drop` for `"return": 444`, also behind other parts of a document.
fn site() -> Site {
    let site = Site::script("asks.php", "header('X-Accel-Redirect: /drop');").file("a.txt", "text");
    let (root, log) = (site.root(), site.data().join("access.log"));
    let drop = json!({"return": 444});
    site.with(json!({
        "access_log": {"path": log, "format": "$request_line@$status@$body_bytes_sent"},
        "routes": [
            {"match": {"uri": "/drop"}, "action": drop},
            {"match": {"uri": "/text"}, "action": {"return": 444, "body": "no\n"}},
            {"match": {"uri": "/page"}, "action": {
                "return": 444,
                "error_pages": {"444": {"action": {"return": 200, "body": "a page"}}},
                "intercept_errors": true,
                "response_headers": {"X-A": "1"},
            }},
            {"match": {"uri": "/as-page"}, "action": {
                "return": 404, "error_pages": {"404": {"action": drop}},
            }},
            {"match": {"uri": "/fallback/*"}, "action": {
                "share": format!("{}/none$uri", root.display()), "fallback": drop,
            }},
            {"action": {
                "share": format!("{}$uri", root.display()), "scripts": "applications/site",
            }},
        ],
        "applications": {"site": {"internal_redirect": "routes"}},
    }))
}

fn request(line: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn wait_for_line(server: &Server, wanted: &str) {
    eventually(&format!("there is a line {wanted:?}"), || {
        let log = fs::read_to_string(server.site.data().join("access.log")).unwrap_or_default();
        log.lines().any(|line| line == wanted).then_some(())
    });
}

#[test]
fn the_connection_is_closed_without_a_byte() {
    let server = site().serve();
    for target in ["/drop", "/page", "/as-page", "/fallback/x", "/asks.php"] {
        let mut client = server.connect();
        client.send(request(&format!("GET {target}")));
        assert!(client.is_closed(), "{target}");
        wait_for_line(&server, &format!("GET {target} HTTP/1.1@444@0"));
    }
    for start in ["HEAD /drop HTTP/1.1\r\nHost: a\r\n", "POST /drop HTTP/1.1\r\nHost: a\r\n"] {
        let mut client = server.connect();
        // The body that is announced is not waited for.
        client.send(format!("{start}Content-Length: 10\r\n\r\n"));
        assert!(client.is_closed(), "{start}");
    }
}

/// Requests of one connection, sent at once: responses to earlier requests are sent whole, later
/// requests are not served.
#[test]
fn earlier_responses_of_the_connection_are_sent_and_later_requests_are_not_served() {
    let server = site().serve();
    let mut client = server.connect();
    client.send([request("GET /a.txt"), request("GET /drop"), request("GET /a.txt?late")].concat());
    let received = String::from_utf8(client.everything()).unwrap();
    assert!(received.starts_with("HTTP/1.1 200 OK\r\n") && received.ends_with("\r\n\r\ntext"));
    assert_eq!(received.matches("HTTP/1.1 ").count(), 1, "{received}");
    wait_for_line(&server, "GET /drop HTTP/1.1@444@0");
    let log = fs::read_to_string(server.site.data().join("access.log")).unwrap();
    assert!(!log.contains("late"), "{log}");
}

/// nginx resets the stream and keeps the connection, too.
#[test]
fn a_stream_of_http2_is_reset_and_the_connection_stays() {
    let address = harness::free_address().to_string();
    let site = site().with(json!({"listeners": {&address: {"http2": true}}}));
    let server = site.serve_at(&address);
    let mut client = Http2::connect(server.address, &[]);
    client.get(1, "/drop");
    let answer = client.answer(1);
    assert!(answer.heads.is_empty() && answer.body.is_empty() && !answer.complete, "{answer:?}");
    assert!(answer.reset.is_some_and(|code| code != 0), "{answer:?}");
    client.get(3, "/a.txt");
    let answer = client.answer(3);
    assert!(answer.is_ok() && answer.body == b"text", "{answer:?}");
    wait_for_line(&server, "GET /drop HTTP/2.0@444@0");
}

#[test]
fn a_text_is_sent_with_the_status() {
    let server = site().serve();
    let response = server.get("/text");
    assert_eq!((response.status, response.text().as_str()), (444, "no\n"));
}

#[test]
fn with_units_defaults_it_is_a_status_like_others() {
    let server = site().argument("--unit").serve();
    for target in ["/drop", "/fallback/x"] {
        let response = server.get(target);
        assert_eq!((response.status, response.field("Content-Type")), (444, Some("text/html")));
    }
    assert_eq!(server.get("/page").text(), "a page");
}
