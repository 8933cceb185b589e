//! Memory that the router uses for responses in a cache, copies of requests, and lines of logs.

use std::os::unix::net::UnixDatagram;

use harness::Site;
use harness::raw::{Connection, Raw};
use serde_json::json;

use super::memory::{Growth, MIB};

#[test]
fn responses_in_a_cache_stay_within_its_memory() {
    let code = "header('Cache-Control: max-age=60'); echo random_bytes(100000);";
    let server = Site::script("index.php", code)
        .with(json!({
            "settings": { "listen_threads": 1 },
            "routes": [{ "action": { "pass": "applications/site",
                "cache": { "memory": 8 * MIB } } }],
            "applications": { "site": { "script": "index.php" } },
        }))
        .serve();
    let growth = Growth::of(&server);
    let mut client = server.connect();
    // 57 MiB.
    for number in 0..600 {
        assert_eq!(client.get(&format!("/p{number}")).body.len(), 100_000);
    }
    growth.assert_within(8 * MIB);
}

#[test]
fn copies_of_requests_stay_within_the_concurrency_of_their_mirror() {
    let silent = Raw::new(|connection: &mut Connection| {
        connection.head();
        connection.wait_for_end();
    });
    let mirror =
        json!({ "action": { "proxy": silent.url() }, "concurrency": 4, "max_body_size": 6 * MIB });
    let action = json!({ "pass": "applications/site", "rewrite": "/tell.php", "mirror": mirror });
    let server = Site::script("tell.php", "echo strlen(file_get_contents('php://input'));")
        .with(json!({ "routes": null }))
        .with(json!({ "settings": { "listen_threads": 1 }, "routes": [{ "action": action }] }))
        .serve();
    let growth = Growth::of(&server);
    let body = vec![b'x'; 6 << 20];
    // 240 MiB.
    for _ in 0..40 {
        assert_eq!(server.post("/", "text/plain", &body).text(), "6291456");
    }
    assert!(server.log().contains("copies are in progress (mirror/concurrency)"));
    growth.assert_within(4 * 6 * MIB);
}

#[test]
fn lines_that_a_syslog_server_does_not_take_stay_within_the_memory_of_their_log() {
    let site = Site::new().file("a", "a");
    let socket = site.data().join("syslog");
    let _syslog = UnixDatagram::bind(&socket).unwrap();
    let long = "x".repeat(7000);
    let log = json!({
        "syslog": format!("unix:{}", socket.display()),
        "format": format!("$uri {long}"),
    });
    let settings = json!({ "listen_threads": 1 });
    let server = site.with(json!({ "access_log": log, "settings": settings })).serve();
    let growth = Growth::of(&server);
    let mut client = server.connect();
    // 40 MiB.
    for _ in 0..60 {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100));
        for _ in 0..100 {
            assert_eq!(client.response().status, 200);
        }
    }
    server.wait_for_log(" lost, as it does not take them in time");
    growth.assert_within(4 * MIB);
}
