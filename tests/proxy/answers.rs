//! Responses of back ends, and the pace at which they are sent.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use harness::raw::Raw;
use harness::{Server, Site, eventually, processes};
use serde_json::{Value, json};

/// Passes everything on to an upstream of one server, with changes to the document.
fn before(backend: &Raw, upstream: Value, changes: Value) -> Server {
    let mut document = json!({
        "routes": [{"action": {"pass": "upstreams/other"}}],
        "upstreams": {"other": {"servers": {backend.address.to_string(): {}}}},
    });
    harness::merge(&mut document, json!({"upstreams": {"other": upstream}}));
    harness::merge(&mut document, changes);
    Site::new().with(document).serve()
}

// -- at whose pace --

const LARGE: usize = 20_000_000;

#[test]
fn a_slow_client_holds_no_back_end() {
    let backend = Raw::new(|connection| {
        while let Some(request) = connection.request() {
            let length = if request.starts_with("GET /large") { LARGE } else { 1 };
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
            if !connection.send(vec![b'x'; length]) {
                return;
            }
        }
    });
    // The server takes one request at a time, so each waits until the one before is done.
    let servers = json!({backend.address.to_string(): {"max_connections": 1}});
    let server = before(&backend, json!({"servers": servers, "keepalive": 1}), json!({}));
    let memory = processes::peak_memory(server.router());
    let mut slow: Vec<_> = (0..6).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(server.get("/").text(), "x", "the back end is free, though nobody has read");
    let grown = processes::peak_memory(server.router()).saturating_sub(memory);
    assert!(grown < 40 << 20, "{grown} bytes for six times {LARGE}");
    for client in &mut slow {
        let response = client.response();
        assert_eq!((response.cut, response.body.len()), (false, LARGE));
    }
}

#[test]
fn without_buffering_a_back_end_waits_for_its_client() {
    for (upstream, action, says) in [
        (json!({"buffering": false}), json!({}), ""),
        (json!({}), json!({"buffering": false}), ""),
        (json!({}), json!({}), "X-Accel-Buffering: no\r\n"),
    ] {
        let done = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&done);
        let backend = Raw::new(move |connection| {
            connection.request();
            connection.send(format!("HTTP/1.1 200 OK\r\n{says}Content-Length: {LARGE}\r\n\r\n"));
            connection.send(vec![b'x'; LARGE]);
            set.store(true, Relaxed);
            connection.wait_for_end();
        });
        let mut action = action;
        action["pass"] = json!("upstreams/other");
        let server = before(&backend, upstream, json!({"routes": [{"action": action}]}));
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("it is asked", || backend.asked().first().cloned());
        harness::time::sleep(Duration::from_millis(300));
        assert!(!done.load(Relaxed), "nobody has taken {LARGE} bytes");
        assert_eq!(client.response().body.len(), LARGE);
        eventually("all is sent", || done.load(Relaxed).then_some(()));
    }
}

#[test]
fn events_arrive_as_they_are_sent_however_they_are_taken() {
    for buffering in [true, false] {
        for chunked in [true, false] {
            let (go_on, wait) = mpsc::channel::<()>();
            let wait = Mutex::new(wait);
            let backend = Raw::new(move |connection| {
                connection.request();
                let framing = if chunked { "Transfer-Encoding: chunked" } else { "X-A: b" };
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream";
                connection.send(format!("{head}\r\n{framing}\r\n\r\n"));
                for n in 0..5 {
                    let event = format!("data: {n}\n\n");
                    let framed = format!("{:x}\r\n{event}\r\n", event.len());
                    connection.send(if chunked { framed } else { event });
                    // The next one comes only when the client has this one.
                    if wait.lock().unwrap().recv().is_err() {
                        return;
                    }
                }
                if chunked {
                    connection.send("0\r\n\r\n");
                }
            });
            let server = before(&backend, json!({"buffering": buffering}), json!({}));
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            for n in 0..5 {
                client.wait_for(&format!("data: {n}\n\n"));
                go_on.send(()).unwrap();
            }
            let response = client.response();
            assert!(!response.cut && response.text().ends_with("data: 4\n\n"), "{response:?}");
        }
    }
}

// -- changes of heads --

#[test]
fn clients_see_locations_and_cookies_that_they_can_use() {
    let backend = Raw::new(|connection| {
        let address = connection.stream.local_addr().unwrap();
        while connection.request().is_some() {
            connection.send(format!(
                "HTTP/1.1 302 Found\r\nLocation: http://{address}/app/there?a\r\n\
                 Set-Cookie: a=b; Path=/app/; Domain=inside.example\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    let from = format!("{}/app/", backend.url());
    let server = before(
        &backend,
        json!({
            "rewrite_location": {from: "https://$host/"},
            "cookie_path": {"/app/": "/"},
            "cookie_domain": {"inside.example": null},
        }),
        json!({"routes": [
            {"match": {"uri": "/usual"}, "action": {"proxy": backend.url()}},
            {"action": {"pass": "upstreams/other"}},
        ]}),
    );
    let usual = server.get("/usual");
    assert_eq!(usual.field("Location"), Some("/app/there?a"));
    assert_eq!(usual.field("Set-Cookie"), Some("a=b; Path=/app/; Domain=inside.example"));
    let changed = server.get("/");
    assert_eq!(changed.field("Location"), Some("https://a/there?a"));
    assert_eq!(changed.field("Set-Cookie"), Some("a=b; Path=/"));
}

// -- bodies of requests --

#[test]
fn an_action_says_how_long_a_body_may_be() {
    let backend = Raw::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let pass = |limit: u64| json!({"pass": "upstreams/other", "max_body_size": limit});
    let server = before(
        &backend,
        json!({}),
        json!({
            "routes": [
                {"match": {"uri": "/small"}, "action": pass(10)},
                {"match": {"uri": "/large"}, "action": pass(200_000)},
                {"action": {"pass": "upstreams/other"}},
            ],
            "settings": {"http": {"max_body_size": 1000}},
        }),
    );
    let chunked = |len: usize| format!("{len:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(len));
    for (target, most) in [("/small", 10), ("/large", 200_000), ("/other", 1000)] {
        for (len, status) in [(most, 200), (most + 1, 413)] {
            let response = server.post(target, "text/plain", "x".repeat(len));
            assert_eq!(response.status, status, "{target} {len}");
            let mut client = server.connect();
            let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked");
            let _ = client.try_send(format!("{head}\r\n\r\n{}", chunked(len)));
            assert_eq!(client.response().status, status, "{target} {len} in chunks");
        }
    }
    // No request that is too long has reached the server.
    assert_eq!(backend.asked().len(), 6, "{:?}", backend.asked());
}
