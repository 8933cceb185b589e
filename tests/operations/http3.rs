//! HTTP/3 while the server and its configuration change.

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use harness::http3::{Answer, Http3, code, request};
use harness::tls::{self, Authority};
use harness::{Ends, Server, Site, eventually, free_address, processes};
use rustix::process::Signal;
use rustls::ClientConfig;
use serde_json::json;

/// Length of a file that takes some time to download.
const LARGE: usize = 8 << 20;

struct Served {
    server: Server,
    trust: Arc<ClientConfig>,
    authority: Authority,
}

/// Serves a site over HTTP/3.
fn serve() -> Served {
    let authority = Authority::new();
    let site = Site::new().file("a.txt", "a file").file("large.bin", vec![b'x'; LARGE]);
    let (chain, key) = authority.issue(&["localhost"]);
    fs::write(site.data().join("chain.pem"), chain).unwrap();
    fs::write(site.data().join("key.pem"), key).unwrap();
    let address = free_address().to_string();
    let certificate = json!({
        "chain": site.data().join("chain.pem"), "key": site.data().join("key.pem"),
    });
    let listener = json!({"pass": "routes", "tls": {"certificate": certificate}, "http3": true});
    let share = format!("{}$uri", site.root().display());
    let server = site.controlled().serve_at(&address);
    let document = json!({
        "listeners": {&address: listener}, "routes": [{"action": {"share": share}}],
        "settings": {"http": {}},
    });
    server.put("/config", &document);
    Served { server, trust: authority.client(None, &[]), authority }
}

impl Served {
    fn connect(&self) -> Http3 {
        Http3::connect(self.server.address, &self.trust, "localhost")
    }

    /// Returns the field that names HTTP/3 in a response over TCP.
    fn advertised(&self) -> Option<String> {
        let response = tls::get(self.server.address, &self.trust, "localhost", "/a.txt").unwrap();
        response.field("alt-svc").map(str::to_owned)
    }

    /// Returns the path of the listener in the control API.
    fn listener(&self) -> String {
        format!("/config/listeners/{}", self.server.address)
    }
}

#[test]
fn a_download_goes_on_over_changes_of_the_configuration_and_the_certificate() {
    let served = serve();
    let client = served.connect();
    let mut download = client.request(&request("GET", "/large.bin", &[]));
    for number in 0..4 {
        served.server.put("/config/settings/http/idle_timeout", &json!(60 + number));
    }
    let (chain, key) = served.authority.issue(&["localhost"]);
    let before = tls::certificate(served.server.address, &served.trust, "localhost");
    fs::write(served.server.site.data().join("chain.pem"), chain).unwrap();
    fs::write(served.server.site.data().join("key.pem"), key).unwrap();
    served.server.put("/config/settings/http/idle_timeout", &json!(70));
    eventually("the new certificate is served", || {
        let now = tls::certificate(served.server.address, &served.trust, "localhost");
        (now != before).then_some(())
    });
    let answer = client.answer(&mut download);
    assert!(answer.is_ok() && answer.body.len() == LARGE);
    assert!(client.get("/a.txt").is_ok(), "the connection goes on");
    assert!(served.connect().get("/a.txt").is_ok());
}

/// `tests/tools/http3_upgrades.py` does the same for longer, with many clients.
#[test]
fn downloads_go_on_over_upgrades_and_reloads() {
    let served = serve();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        let downloading = |_| {
            scope.spawn(|| {
                let (mut whole, mut client) = (0, served.connect());
                while !done.load(Ordering::Relaxed) {
                    let stream = client.try_request(&request("GET", "/large.bin", &[]));
                    let answer = stream.map(|mut stream| client.answer(&mut stream));
                    match answer {
                        Some(answer) if answer.is_ok() && answer.body.len() == LARGE => whole += 1,
                        // The connection has ended, or is about to, and nothing was processed.
                        None => client = served.connect(),
                        Some(Answer {
                            reset: Some(code::REQUEST_REJECTED | code::NO_ERROR),
                            heads,
                            ..
                        }) if heads.is_empty() => {
                            client = served.connect();
                        }
                        Some(Answer { heads, body, reset, .. }) => {
                            let (heads, length) = (heads.len(), body.len());
                            panic!("cut: {heads} heads, {length} bytes, {reset:?}");
                        }
                    }
                }
                whole
            })
        };
        let clients: Vec<_> = (0..4).map(downloading).collect();
        for round in 0..3 {
            let old = served.server.upgrade();
            served.server.put("/config/settings/http/idle_timeout", &json!(60 + round));
            served.server.wait_for_end_of(old);
            assert!(served.connect().get("/a.txt").is_ok());
        }
        done.store(true, Ordering::Relaxed);
        let whole: Vec<u32> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert!(whole.iter().all(|count| *count > 0), "{whole:?}");
    });
}

#[test]
fn browsers_learn_of_http_3_and_of_its_end() {
    let served = serve();
    let port = served.server.address.port();
    assert_eq!(served.advertised(), Some(format!("h3=\":{port}\"; ma=86400")));
    let client = served.connect();
    assert!(client.get("/a.txt").is_ok());
    let http3 = format!("{}/http3", served.listener());
    served.server.put(&http3, &json!({"advertise": 8443}));
    assert_eq!(served.advertised().unwrap(), "h3=\":8443\"; ma=86400");
    served.server.put(&http3, &json!(false));
    assert_eq!(served.advertised().unwrap(), "clear");
    assert_eq!(client.closed(), Some(code::NO_ERROR));
    // Once its last connection has ended, nothing has the port.
    eventually("the port is free", || UdpSocket::bind(served.server.address).ok());
    served.server.put(&http3, &json!(true));
    assert!(served.connect().get("/a.txt").is_ok());
}

#[test]
fn clients_of_a_router_that_has_died_learn_of_it_at_once() {
    let served = serve();
    let client = served.connect();
    let answer = client.get("/a.txt");
    assert!(answer.is_ok(), "{answer:?}");
    let router = served.server.router();
    processes::signal(router, Signal::KILL);
    let lost = eventually("the connection has ended", || {
        let _ = client.try_request(&request("GET", "/a.txt", &[]));
        client.connection().close_reason().map(|reason| reason.to_string())
    });
    assert_eq!(lost, "reset by peer");
    assert!(served.connect().get("/a.txt").is_ok());
}

#[test]
fn clients_of_a_server_that_was_killed_learn_of_it_when_it_starts_again() {
    let Served { server, trust, .. } = serve();
    let address = server.address;
    let client = Http3::connect(address, &trust, "localhost");
    assert!(client.get("/a.txt").is_ok());
    let (_, site) = server.end(Signal::KILL);
    let server = site.serve_at(&address.to_string());
    let lost = eventually("the connection has ended", || {
        let _ = client.try_request(&request("GET", "/a.txt", &[]));
        client.connection().close_reason().map(|reason| reason.to_string())
    });
    assert_eq!(lost, "reset by peer");
    assert!(Http3::connect(address, &trust, "localhost").get("/a.txt").is_ok());
    drop(server);
}

#[test]
fn a_graceful_end_answers_the_running_request() {
    let served = serve();
    let client = served.connect();
    let mut download = client.request(&request("GET", "/large.bin", &[]));
    // It takes what the client has room for.
    eventually("the request has begun", || {
        let status = served.server.control("GET", "/status", "").succeeded();
        (status.pointer("/connections/active")? == 1).then_some(())
    });
    served.server.signal(Signal::QUIT);
    let answer = client.answer(&mut download);
    let length = answer.body.len();
    assert!(answer.is_ok() && length == LARGE, "{:?} {:?} {length}", answer.heads, answer.reset);
    assert_eq!(client.closed(), Some(code::NO_ERROR));
    let mut server = served.server;
    assert!(server.wait().success());
}

#[test]
fn a_listener_serves_tcp_although_another_program_has_its_udp_port() {
    let served = serve();
    let http3 = format!("{}/http3", served.listener());
    served.server.put(&http3, &json!(false));
    let free = || UdpSocket::bind(served.server.address).ok();
    let taken = eventually("the port is free", free);
    let answer = served.server.control("PUT", &http3, "true");
    assert_eq!(answer.status, 500, "{}", answer.body);
    assert!(answer.body.to_string().contains("another program listens there"), "{}", answer.body);
    assert_eq!(served.advertised().unwrap(), "clear", "it is as it was");
    drop(taken);
    served.server.put(&http3, &json!(true));
    assert!(served.connect().get("/a.txt").is_ok());
}
