//! Servers behind the proxy that are named, and a DNS server that changes its mind.

mod harness;

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};

use harness::backends::{Backend, read_head};
use harness::dns::Dns;
use harness::tls::Authority;
use harness::{Server, Site, eventually, free_address};
use serde_json::{Value, json};

/// Answers every request with its address.
fn backend(address: SocketAddr) -> Option<SocketAddr> {
    let listener = TcpListener::bind(address).ok()?;
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            read_head(&mut stream);
            let text = address.ip().to_string();
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        }
    });
    Some(address)
}

/// So many servers that differ in their address only.
fn backends(count: usize) -> (Vec<IpAddr>, u16) {
    eventually("a port is free at all addresses", || {
        let first = backend(free_address())?;
        let mut all = vec![first.ip()];
        while all.len() < count {
            let next = SocketAddr::new(free_address().ip(), first.port());
            all.push(backend(next)?.ip());
        }
        Some((all, first.port()))
    })
}

fn serve(dns: &Dns, action: Value) -> Server {
    let settings = json!({"resolver": dns.address.to_string()});
    Site::new().with(json!({"routes": [{"action": action}], "settings": settings})).serve()
}

#[test]
fn a_name_is_looked_up_again_when_its_time_is_over() {
    let (addresses, port) = backends(2);
    let dns = Dns::start(None);
    dns.set("app.test", &addresses[..1]);
    let server = serve(&dns, json!({"proxy": format!("http://App.test:{port}")}));
    assert_eq!(server.get("/").text(), addresses[0].to_string());
    dns.set("app.test", &addresses[1..]);
    eventually("the other one answers", || {
        (server.get("/").text() == addresses[1].to_string()).then_some(())
    });
    // A DNS server that is gone changes nothing.
    drop(dns);
    server.wait_for_log("\"app.test\" cannot be looked up: DNS server ");
    assert_eq!(server.get("/").text(), addresses[1].to_string());
}

#[test]
fn several_addresses_are_several_servers() {
    let (addresses, port) = backends(3);
    let dns = Dns::start(None);
    dns.set("app.test", &addresses);
    let server = Site::new()
        .with(json!({
            "routes": [{"action": {"pass": "upstreams/named"}}],
            "upstreams": {"named": {"servers": {format!("app.test:{port}"): {}}}},
            "settings": {"resolver": dns.address.to_string(), "listen_threads": 1},
        }))
        .serve();
    let answers: HashSet<_> = (0..3).map(|_| server.get("/").text()).collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
}

#[test]
fn a_name_without_addresses_fails_its_own_requests_until_it_has_one() {
    let (addresses, port) = backends(1);
    let dns = Dns::start(None);
    let named = format!("http://app.test:{port}");
    let other = format!("http://{}:{port}", addresses[0]);
    let server = Site::new()
        .with(json!({
            "routes": [
                {"match": {"uri": "/named"}, "action": {"proxy": named}},
                {"action": {"proxy": other}},
            ],
            "settings": {"resolver": dns.address.to_string()},
        }))
        .serve();
    server.wait_for_log("\"app.test\" cannot be looked up: no address is known for it");
    assert_eq!((server.get("/named").status, server.get("/").status), (502, 200));
    server.wait_for_log("its name has no address");
    dns.set("app.test", &addresses);
    eventually("it is tried again", || (server.get("/named").status == 200).then_some(()));
}

#[test]
fn hardening_38_forged_answers_are_passed_over() {
    let (addresses, port) = backends(2);
    let IpAddr::V4(forger) = addresses[1] else { unreachable!() };
    let dns = Dns::start(Some(forger));
    dns.set("app.test", &addresses[..1]);
    let server = serve(&dns, json!({"proxy": format!("http://app.test:{port}")}));
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), addresses[0].to_string());
    }
}

#[test]
fn names_of_the_hosts_file_are_known() {
    let address = backend(([127, 0, 0, 1], 0).into()).unwrap();
    let dns = Dns::start(None);
    let server = serve(&dns, json!({"proxy": format!("http://localhost:{}", address.port())}));
    assert_eq!(server.get("/").text(), "127.0.0.1");
}

#[test]
fn a_certificate_must_be_for_the_name() {
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["app.test"]);
    let nginx = Backend::nginx_with(
        &[("chain.pem", &chain), ("key.pem", &key)],
        "ssl",
        "ssl_certificate chain.pem;
         ssl_certificate_key key.pem;
         location / { return 200 $ssl_server_name; }",
    );
    let dns = Dns::start(None);
    dns.set("app.test", &[nginx.address.ip()]);
    dns.set("other.test", &[nginx.address.ip()]);
    let site = Site::new();
    let file = site.data().join("ca.pem");
    fs::write(&file, authority.pem()).unwrap();
    let port = nginx.address.port();
    let upstream = |name: &str| json!({"servers": {format!("{name}:{port}"): {}}, "tls": {"authorities": file}});
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/other"}, "action": {"pass": "upstreams/other"}},
                {"action": {"pass": "upstreams/app"}},
            ],
            "upstreams": {"app": upstream("app.test"), "other": upstream("other.test")},
            "settings": {"resolver": dns.address.to_string()},
        }))
        .serve();
    let response = server.get("/");
    assert_eq!((response.status, response.text().as_str()), (200, "app.test"));
    assert_eq!(server.get("/other").status, 502);
    server.wait_for_log("its certificate is not for \"other.test\"");
}
