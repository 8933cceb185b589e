//! Certificates that the server gets by itself, as far as it needs no authority to see it.
//!
//! With one they are tested by `tests/tools/acme.py`.

use std::fs;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use harness::client::Response;
use harness::tls::{Authority, get};
use harness::{Server, Site, eventually, free_address, free_listener, processes};
use serde_json::{Value, json};

/// An address on which no test listens.
fn nobody() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(free_address)
}

/// A server that asks an authority which is not there for a certificate.
fn without_authority(name: &str) -> (Server, SocketAddr) {
    with_authority_at(nobody(), name)
}

fn with_authority_at(authority: SocketAddr, name: &str) -> (Server, SocketAddr) {
    let server = Site::script("index.php", "echo 'PHP: ', $_SERVER['REQUEST_URI'];").controlled();
    let mut server = server.serve();
    let (plain, secure) = (free_address(), free_address());
    let mut document = server.site.document(plain);
    document["routes"] = json!([{"action": {"pass": "applications/site"}}]);
    document["applications"]["site"]["script"] = json!("index.php");
    let acme = json!({"domains": name, "servers": format!("https://{authority}/directory")});
    document["listeners"][secure.to_string()] = json!({"pass": "routes", "tls": {"acme": acme}});
    server.control("PUT", "/config", document.to_string()).succeeded();
    server.address = plain;
    (server, secure)
}

/// Requests a target of the host that gets a certificate.
fn of_host(server: &Server, target: &str) -> Response {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    server.connect().send(head).response()
}

fn certificate(server: &Server, name: &str) -> Value {
    let status = server.control("GET", "/status", "").succeeded();
    status["certificates"][format!("acme:{name}")].clone()
}

#[test]
fn an_authority_that_cannot_be_reached_stops_nothing() {
    let (server, secure) = without_authority("a.example");
    assert_eq!(server.get("/").text(), "PHP: /");
    let shown = eventually("the failure is shown", || {
        let shown = certificate(&server, "a.example");
        shown["renewal"]["error"].is_string().then_some(shown)
    });
    assert!(shown["renewal"]["failures"].as_u64() >= Some(1), "{shown}");
    assert!(shown["expires"].is_null() && shown["renewal"]["next"].is_string(), "{shown}");
    assert!(shown["renewal"]["error"].as_str().unwrap().contains(&nobody().to_string()));
    server.wait_for_log(&format!("certificate acme:a.example: {}: ", nobody()));
    // No certificate is shown without an authority that vouches for it.
    let client = Authority::new().client(None, &[]);
    assert!(get(secure, &client, "a.example", "/").is_err());
    eventually("the failed handshake is counted", || {
        let status = server.control("GET", "/status", "").succeeded();
        (status["listeners"][secure.to_string()]["tls"]["failed"] == 1).then_some(())
    });
    assert_eq!(server.get("/").text(), "PHP: /");
}

#[test]
fn two_listeners_with_the_same_certificate_ask_for_it_once() {
    let (server, secure) = without_authority("a.example");
    server.control("DELETE", &format!("/config/listeners/{secure}/tls"), "").succeeded();
    let acme = json!({"domains": "b.example", "servers": format!("https://{}/d", nobody())});
    let mut document = server.control("GET", "/config", "").succeeded();
    for address in [secure, free_address()] {
        document["listeners"][address.to_string()] =
            json!({"pass": "routes", "tls": {"acme": acme}});
    }
    server.control("PUT", "/config", document.to_string()).succeeded();
    server.wait_for_log("certificate acme:b.example: ");
    // Time in which a second request would fail, too.
    harness::time::sleep(Duration::from_millis(300));
    let failures = server.log().matches("certificate acme:b.example: ").count();
    assert_eq!(failures, 1, "{}", server.log());
}

#[test]
fn an_upgrade_waits_for_an_order_in_progress() {
    let authority = free_listener();
    let (server, _) = with_authority_at(authority.local_addr().unwrap(), "a.example");
    // The order has begun: it waits for the authority's answer.
    let (order, _) = authority.accept().unwrap();
    let old = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| server.upgrade());
        server.wait_for_log("upgrade: the new server is started");
        // Time in which the new server would have been started.
        harness::time::sleep(Duration::from_millis(300));
        let is_new = |process: &processes::Process| process.title.contains(" serve ");
        assert!(!server.processes().iter().any(is_new), "{:?}", server.processes());
        assert_eq!(server.get("/").text(), "PHP: /");
        drop(order);
        upgrade.join().unwrap()
    });
    // The new server begins another order.
    let (_order, _) = authority.accept().unwrap();
    assert_eq!(server.get("/").text(), "PHP: /");
    server.wait_for_end_of(old);
}

#[test]
fn what_is_asked_for_as_a_proof_never_reaches_php() {
    let (server, _) = without_authority("a.example");
    for path in ["x", "index.php", "../../index.php/x", "x%2findex.php", "", "%00"] {
        let target = format!("/.well-known/acme-challenge/{path}");
        let response = of_host(&server, &target);
        let is_proof = !path.contains("..");
        assert!(!is_proof || matches!(response.status, 400 | 404), "{target}: {response:?}");
        assert!(!is_proof || !response.text().contains("PHP"), "{target}");
    }
    assert_eq!(server.get("/.well-known/other").text(), "PHP: /.well-known/other");
}

#[test]
fn another_client_of_an_authority_proves_hosts_without_a_certificate_of_the_server() {
    let (server, _) = without_authority("a.example");
    let target = "/.well-known/acme-challenge/x";
    assert_eq!(server.get(target).text(), format!("PHP: {target}"));
    assert_eq!(of_host(&server, target).status, 404);
}

#[test]
fn what_the_server_keeps_by_itself_is_neither_put_nor_deleted() {
    let (server, _) = without_authority("a.example");
    let (chain, key) = Authority::new().issue(&["a.example"]);
    for name in ["acme:a.example", "acme:b.example", "acme-account:1"] {
        let answer = server.control("PUT", &format!("/certificates/{name}"), chain.clone() + &key);
        assert_eq!(answer.status, 400, "{name}: {answer:?}");
    }
    assert!(!server.site.state().join("certs").exists());
}

#[test]
fn a_certificate_that_is_there_is_served_while_the_authority_is_not() {
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["a.example"]);
    let site = Site::new().file("a.txt", "a file").controlled();
    fs::create_dir_all(site.state().join("certs")).unwrap();
    fs::write(site.state().join("certs/acme:a.example"), chain + &key).unwrap();
    let server = site.serve();
    let address = free_address();
    let mut document = server.site.document(address);
    let directory = format!("https://{}/directory", nobody());
    let acme = json!({"domains": "a.example", "servers": directory});
    document["listeners"][address.to_string()]["tls"] = json!({"acme": acme});
    server.control("PUT", "/config", document.to_string()).succeeded();
    let client = authority.client(None, &[]);
    assert_eq!(get(address, &client, "a.example", "/a.txt").unwrap().text(), "a file");
    let shown = certificate(&server, "a.example");
    assert!(shown["expires"].is_string(), "{shown}");
    let stored = server.control("GET", "/certificates/acme:a.example/key", "").succeeded();
    assert_eq!(stored, "ECDH");
    assert_eq!(server.control("DELETE", "/certificates/acme:a.example", "").status, 400);
}
