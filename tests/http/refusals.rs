//! Each request that the server refuses because of its client has a line in the log, with the reason and
//! the key that changes it.

use harness::{Server, Site};
use serde_json::json;

fn serve() -> Server {
    let site = Site::script("a.php", "echo strlen(file_get_contents('php://input'));");
    site.with(json!({
        "routes": null,
        "settings": {"http": {
            "max_body_size": 100, "large_header_buffer_size": 300, "large_header_buffers": 2,
            "max_header_fields": 8, "header_read_timeout": 1, "body_read_timeout": 1,
        }},
    }))
    .with(json!({"routes": [
        {"match": {"uri": "/small.php"}, "action": {"max_body_size": 10, "rewrite": "/a.php", "pass": "applications/site"}},
        {"action": {"pass": "applications/site"}},
    ]}))
    .serve()
}

#[test]
fn a_refusal_says_which_key_changes_it() {
    let server = serve();
    let long = "x".repeat(400);
    let many = "A: b\r\n".repeat(9);
    let fields = format!("A: {}\r\n", "x".repeat(200)).repeat(4);
    for (request, status, key) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414, "large_header_buffer_size"),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\nA: {long}\r\n\r\n"),
            431,
            "large_header_buffer_size",
        ),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"), 431, "large_header_buffers"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431, "max_header_fields"),
        (
            "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n".to_owned(),
            413,
            "max_body_size",
        ),
        (
            "POST /small.php HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n".to_owned(),
            413,
            "longer than 10 bytes (max_body_size of the action)",
        ),
        ("GET / HTTP/1.1\r\nHost".to_owned(), 408, "settings/http/header_read_timeout"),
        (
            "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx".to_owned(),
            408,
            "settings/http/body_read_timeout",
        ),
    ] {
        let response = server.send(&request);
        assert_eq!(response.status, status, "{key}");
        let is_told = |line: &str| line.contains(&format!("{status}: ")) && line.contains(key);
        harness::eventually(&format!("the log has {status} with {key}"), || {
            server.log().lines().any(is_told).then_some(())
        });
    }
}
