//! Each request that the server refuses or fails to answer has a line in the log, with the reason
//! and the key that changes it.

use std::io::Read;

use harness::client::Client;
use harness::raw::{Connection, Raw};
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

fn serve() -> Server {
    let site = Site::script("a.php", "echo strlen(file_get_contents('php://input'));");
    site.with(json!({
        "routes": null,
        "settings": {"http": {
            "max_body_size": 100, "large_header_buffer_size": 300, "large_header_buffers": 2,
            "max_header_fields": 8, "header_read_timeout": 3, "body_read_timeout": 3,
            "idle_timeout": 3,
        }},
    }))
    .with(json!({"routes": [
        {"match": {"uri": "/down"}, "action": {"return": 503}},
        {"match": {"uri": "/small.php"},
            "action": {"max_body_size": 10, "rewrite": "/a.php", "pass": "applications/site"}},
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
            "longer than 100 bytes (settings/http/max_body_size)",
        ),
        (
            "POST /small.php HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n".to_owned(),
            413,
            "longer than 10 bytes (routes/1/action/max_body_size)",
        ),
        (
            "POST /small.php HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n".to_owned(),
            413,
            "longer than 10 bytes (routes/1/action/max_body_size)",
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

#[test]
fn the_end_of_an_idle_connection_and_a_returned_503_have_no_wrong_reason() {
    let server = serve();
    let mut client = server.connect();
    client.send("GET /down HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 503);
    assert_eq!(client.response().status, 408);
    harness::eventually("the log names idle_timeout", || {
        server
            .log()
            .contains("408: no request came within settings/http/idle_timeout")
            .then_some(())
    });
    let log = server.log();
    assert!(!log.contains("header_read_timeout") && !log.contains("ping"), "{log}");
}

const SCRIPT: &str = "
    if (isset($_GET['sleep'])) sleep((int) $_GET['sleep']);
    if (isset($_GET['kill'])) posix_kill(getmypid(), SIGKILL);";

/// Starts a server with a route for each way to fail, in front of a silent server and one that
/// answers garbage.
fn failing(silent: &Raw, garbage: &Raw) -> Server {
    let site = Site::script("a.php", SCRIPT);
    let php = |limits: Value| {
        json!({"type": "php", "root": site.root(), "processes": 1,
        "limits": limits})
    };
    let applications = json!({
        "site": {"limits": {"timeout": 3}},
        "full": php(json!({"queue": 1})),
        "slow": php(json!({"queue_timeout": 1})),
        "fastcgi": {"type": "fastcgi", "root": site.root().join("none"),
                    "server": silent.address.to_string(), "timeouts": {"first_byte": 1}},
    });
    let upstream = |server: Value, mut changes: Value| {
        changes["servers"] = json!({silent.address.to_string(): server});
        changes
    };
    let one_at_once = json!({"max_connections": 1});
    let upstreams = json!({
        "first": upstream(json!({}), json!({"timeouts": {"first_byte": 1}})),
        "other": upstream(json!({}), json!({})),
        "full": upstream(one_at_once.clone(), json!({"queue": 0})),
        "slow": upstream(one_at_once.clone(), json!({"queue_timeout": 1})),
    });
    let at = |uri: &str, action: Value| json!({"match": {"uri": uri}, "action": action});
    let limited = |limit: Value| json!({"return": 200, "limit": limit});
    let closed = format!("http://{}", harness::free_address());
    let routes = json!([
        at("/rate", limited(json!({"rate": "1/h"}))),
        at("/zone", limited(json!([{"zone": "a", "rate": "1/h"}]))),
        at("/once", json!({"proxy": silent.url(), "limit": {"concurrency": 1}})),
        at("/full", json!({"rewrite": "/a.php?sleep=60", "pass": "applications/full"})),
        at("/slow", json!({"rewrite": "/a.php?sleep=60", "pass": "applications/slow"})),
        at("/closed", json!({"proxy": closed})),
        at("/garbage", json!({"proxy": garbage.url()})),
        at("/first", json!({"pass": "upstreams/first"})),
        at("/action", json!({"pass": "upstreams/other", "timeouts": {"first_byte": 1}})),
        at("/direct", json!({"proxy": silent.url(), "timeouts": {"first_byte": 1}})),
        at("/fastcgi/*", json!({"pass": "applications/fastcgi"})),
        at("/upstream-full", json!({"pass": "upstreams/full"})),
        at("/upstream-slow", json!({"pass": "upstreams/slow"})),
        at("/cached", json!({"proxy": silent.url(), "cache": {}})),
        at("/start-full", json!({"rewrite": "/a.php", "pass": "applications/full"})),
        at("/start-slow", json!({"rewrite": "/a.php", "pass": "applications/slow"})),
        {"action": {"pass": "applications/site"}},
    ]);
    site.with(json!({"routes": null}))
        .with(json!({"routes": routes, "applications": applications, "upstreams": upstreams}))
        .serve()
}

/// Each way in which the server itself answers with 429, 499, 502, 503 or 504.
#[test]
fn a_failure_says_why_and_which_key_changes_it() {
    let (silent, garbage) = (Raw::new(Connection::wait_for_end), Raw::answering("garbage\r\n\r\n"));
    let server = failing(&silent, &garbage);
    // As long as an application loads PHP, its queue has another limit.
    for application in ["full", "slow"] {
        assert_eq!(server.get(&format!("/start-{application}")).status, 200);
    }
    // The requests are sent at once. One of them is refused, whichever comes last to the limit.
    for (target, requests, status, line) in [
        (
            "/rate",
            2,
            429,
            "limit /routes/0/action/limit refuses 127.0.0.1 (429): \
             more requests than /routes/0/action/limit/rate allows",
        ),
        (
            "/zone",
            2,
            429,
            "limit a refuses 127.0.0.1 (429): more requests than /routes/1/action/limit/0/rate \
             allows",
        ),
        ("/once", 2, 429, "more requests at once than /routes/2/action/limit/concurrency allows"),
        ("/closed", 1, 502, "cannot connect: "),
        ("/garbage", 1, 502, "GET /garbage ("),
        ("/a.php?kill", 1, 502, "exited on signal 9"),
        ("/full", 3, 503, "the queue of the application is full (applications/full/limits/queue)"),
        ("/slow", 2, 503, "within the queue's time limit (applications/slow/limits/queue_timeout)"),
        ("/upstream-full", 2, 503, "the queue is full (upstreams/full/queue)"),
        ("/upstream-slow", 2, 503, "time limit (upstreams/slow/queue_timeout)"),
        ("/a.php?sleep=60", 1, 504, "longer than applications/site/limits/timeout allows"),
        ("/first", 1, 504, "no response came in time (upstreams/first/timeouts/first_byte)"),
        ("/action", 1, 504, "in time (routes/8/action/timeouts/first_byte)"),
        ("/direct", 1, 504, "in time (routes/9/action/timeouts/first_byte)"),
        ("/fastcgi/a.php", 1, 504, "in time (applications/fastcgi/timeouts/first_byte)"),
    ] {
        let mut clients: Vec<_> = (0..requests).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        }
        eventually(&format!("{target} is answered with {status}"), || {
            let answered = clients.iter().position(Client::has_data)?;
            (clients.remove(answered).response().status == status).then_some(())
        });
        server.wait_for_log(line);
    }
    let fields = "Host: a\r\nCache-Control: only-if-cached\r\nConnection: close";
    let response = server.send(format!("GET /cached HTTP/1.1\r\n{fields}\r\n\r\n"));
    assert_eq!(response.status, 504);
    server.wait_for_log("504: the request says only-if-cached");
    server.connect().send("GET /once HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_log("499: the client closed the connection before the response");
}

/// The head of a response is sent already: only the log can say why the rest is missing.
#[test]
fn the_timeout_of_a_body_that_has_begun_has_the_whole_path_of_its_key() {
    let begun = Raw::new(|connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
        connection.wait_for_end();
    });
    let script = Raw::new(|connection| {
        connection.stream.read_exact(&mut [0; 16]).unwrap();
        let output = "Content-Type: text/plain\r\n\r\nabc";
        connection.send([&[1, 6, 0, 1, 0, output.len() as u8, 0, 0], output.as_bytes()].concat());
        connection.wait_for_end();
    });
    let address = begun.address.to_string();
    let timeouts = json!({"read": 1});
    let routes = json!([
        {"match": {"uri": "/upstream"}, "action": {"pass": "upstreams/begun"}},
        {"match": {"uri": "/action"}, "action": {"pass": "upstreams/usual", "timeouts": timeouts}},
        {"match": {"uri": "/direct"}, "action": {"proxy": begun.url(), "timeouts": timeouts}},
        {"action": {"pass": "applications/script"}},
    ]);
    let site = Site::new().with(json!({"applications": null}));
    let server = site
        .with(json!({
            "routes": routes,
            "upstreams": {
                "begun": {"servers": {&address: {}}, "timeouts": timeouts},
                "usual": {"servers": {&address: {}}},
            },
            "applications": {"script": {
                "type": "fastcgi", "server": script.address.to_string(), "root": "/nowhere",
                "script": "index.php", "timeouts": timeouts,
            }},
        }))
        .serve();
    for (target, key) in [
        ("/upstream", "upstreams/begun/timeouts/read"),
        ("/action", "routes/1/action/timeouts/read"),
        ("/direct", "routes/2/action/timeouts/read"),
        ("/script", "applications/script/timeouts/read"),
    ] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        server.wait_for_log(&format!("the rest of the response did not come in time ({key})"));
    }
}
