//! Probes of containers, on a port of their own.

use std::net::{SocketAddr, TcpStream};

use harness::client::{Client, Response};
use harness::{Server, Site, eventually, free_address};
use rustix::process::Signal;
use serde_json::{Value, json};

fn probe(address: SocketAddr, method: &str, path: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    client.response()
}

/// Serves a script, with the environment of its application, and probes. Their address is returned, too.
fn serve(environment: Value) -> (Server, SocketAddr) {
    let probes = free_address();
    let site = Site::script("a.php", "echo 'served';").with(json!({
        "applications": {"site": {"environment": environment}},
        "settings": {"probes": {"listen": probes.to_string()}, "shutdown_delay": 600},
    }));
    (site.serve(), probes)
}

#[test]
fn a_server_lives_while_an_application_that_cannot_run_keeps_it_from_being_ready() {
    let missing = json!({"TOKEN": {"env": "HOWDAH_TESTS_SET_NO_SUCH_VARIABLE"}});
    let (server, probes) = serve(missing);
    let response = probe(probes, "GET", "/-/ready");
    let text = response.text();
    assert_eq!(response.status, 503, "{text}");
    assert!(text.starts_with("not ready: site cannot run: "), "{text}");
    assert!(text.contains("HOWDAH_TESTS_SET_NO_SUCH_VARIABLE"), "{text}");
    let response = probe(probes, "GET", "/-/live");
    assert_eq!((response.status, response.text().as_str()), (200, "live\n"));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    for path in ["/", "/-/", "/-/live/", "/metrics", "/-/ready/x", "/a.php"] {
        assert_eq!(probe(probes, "GET", path).status, 404, "{path}");
    }
    assert_eq!(probe(probes, "POST", "/-/live").status, 405);
    assert_eq!(server.get("/-/live").status, 404, "a path of the site");
}

#[test]
fn a_server_is_ready_until_it_is_about_to_end() {
    let (mut server, probes) = serve(json!({}));
    assert_eq!(server.get("/a.php").text(), "served");
    let response = probe(probes, "GET", "/-/ready");
    assert_eq!((response.status, response.text().as_str()), (200, "ready\n"));
    server.signal(Signal::QUIT);
    eventually("it says that it ends", || {
        let text = probe(probes, "GET", "/-/ready").text();
        (text == "not ready: the server is about to end\n").then_some(())
    });
    assert_eq!(probe(probes, "GET", "/-/live").status, 200);
    server.signal(Signal::QUIT);
    eventually("probes are refused", || TcpStream::connect(probes).err());
    assert_eq!(server.wait().code(), Some(0));
}
