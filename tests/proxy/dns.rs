//! Servers behind the proxy that are named, and a DNS server that changes its mind.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use harness::backends::{Backend, read_head};
use harness::dns::Dns;
use harness::tls::Authority;
use harness::{Server, Site, eventually, free_address};
use serde_json::{Value, json};

/// The behaviour of a server for a connection, given its address and the number of earlier ones.
type Serve = fn(TcpStream, IpAddr, usize);

/// Serves each connection on a thread of its own.
fn listen(address: SocketAddr, serve: Serve) -> Option<SocketAddr> {
    let listener = TcpListener::bind(address).ok()?;
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || serve(stream, address.ip(), number));
        }
    });
    Some(address)
}

/// Answers a request with the address.
fn http(mut stream: TcpStream, address: IpAddr, _: usize) {
    read_head(&mut stream);
    let text = address.to_string();
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
}

/// Answers each request with the address and the number of its connection.
fn fastcgi(mut stream: TcpStream, address: IpAddr, number: usize) {
    const NO_BODY: [u8; 8] = [1, 5, 0, 1, 0, 0, 0, 0];
    const END: [u8; 16] = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let text = format!("Status: 200\r\n\r\n{address} {number}");
    let answer = [&[1, 6, 0, 1, 0, text.len() as u8, 0, 0], text.as_bytes(), &END].concat();
    let (mut come, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        come.extend_from_slice(&piece[..length]);
        if come.ends_with(&NO_BODY) {
            come.clear();
            let _ = stream.write_all(&answer);
        }
    }
}

/// Starts so many servers that differ only in their address.
fn backends(count: usize, serve: Serve) -> (Vec<IpAddr>, u16) {
    eventually("a port is free at all addresses", || {
        let first = listen(free_address(), serve)?;
        let mut all = vec![first.ip()];
        while all.len() < count {
            let next = SocketAddr::new(free_address().ip(), first.port());
            all.push(listen(next, serve)?.ip());
        }
        Some((all, first.port()))
    })
}

fn serve(dns: &Dns, action: Value) -> Server {
    let settings = json!({"resolver": dns.address.to_string()});
    Site::new().with(json!({"routes": [{"action": action}], "settings": settings})).serve()
}

/// Waits until the name is known: a server starts without addresses that take long to come.
fn wait_for_name(server: &Server) {
    eventually("the name is known", || (server.get("/").status == 200).then_some(()));
}

#[test]
fn a_name_is_looked_up_again_when_its_time_is_over() {
    let (addresses, port) = backends(2, http);
    let dns = Dns::start(None);
    dns.set("app.test", &addresses[..1]);
    let server = serve(&dns, json!({"proxy": format!("http://App.test:{port}")}));
    wait_for_name(&server);
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
    let (addresses, port) = backends(3, http);
    let dns = Dns::start(None);
    dns.set("app.test", &addresses);
    let server = Site::new()
        .with(json!({
            "routes": [{"action": {"pass": "upstreams/named"}}],
            "upstreams": {"named": {"servers": {format!("app.test:{port}"): {}}}},
            "settings": {"resolver": dns.address.to_string(), "listen_threads": 1},
        }))
        .serve();
    wait_for_name(&server);
    let answers: HashSet<_> = (0..3).map(|_| server.get("/").text()).collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
}

#[test]
fn a_name_without_addresses_fails_its_own_requests_until_it_has_one() {
    let (addresses, port) = backends(1, http);
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

/// Each change made a new set of connections, while the processes of the server still waited on the
/// old ones.
#[test]
fn connections_to_addresses_that_stay_are_kept() {
    let (addresses, port) = backends(2, fastcgi);
    let dns = Dns::start(None);
    dns.set("app.test", &addresses[..1]);
    let application = json!({
        "type": "fastcgi", "server": format!("app.test:{port}"), "root": "/nowhere",
        "script": "index.php", "keepalive": 1,
    });
    let server = Site::new()
        .with(json!({"applications": null}))
        .with(json!({
            "routes": [{"action": {"pass": "applications/named"}}],
            "applications": {"named": application},
            "settings": {"resolver": dns.address.to_string()},
        }))
        .serve();
    wait_for_name(&server);
    let [first, second] = [0, 1].map(|at| format!("{} 0", addresses[at]));
    let ask = || server.get("/").text();
    assert_eq!([ask(), ask()], [&*first, &*first]);
    dns.set("app.test", &addresses);
    eventually("the other one answers as well", || {
        let answer = ask();
        assert!([&first, &second].contains(&&answer), "{answer}");
        (answer == second).then_some(())
    });
    dns.set("app.test", &addresses[..1]);
    let mut in_a_row = 0;
    eventually("only the first one is left", || {
        let answer = ask();
        assert!([&first, &second].contains(&&answer), "{answer}");
        in_a_row = if answer == first { in_a_row + 1 } else { 0 };
        (in_a_row == 4).then_some(())
    });
}

#[test]
fn forged_answers_are_passed_over() {
    let (addresses, port) = backends(2, http);
    let IpAddr::V4(forger) = addresses[1] else { unreachable!() };
    let dns = Dns::start(Some(forger));
    dns.set("app.test", &addresses[..1]);
    let server = serve(&dns, json!({"proxy": format!("http://app.test:{port}")}));
    wait_for_name(&server);
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), addresses[0].to_string());
    }
}

#[test]
fn names_of_the_hosts_file_are_known() {
    let address = listen(([127, 0, 0, 1], 0).into(), http).unwrap();
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
    let upstream = |name: &str| {
        json!({"servers": {format!("{name}:{port}"): {}},
        "tls": {"authorities": file}})
    };
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
    wait_for_name(&server);
    let response = server.get("/");
    assert_eq!((response.status, response.text().as_str()), (200, "app.test"));
    assert_eq!(server.get("/other").status, 502);
    server.wait_for_log("its certificate is not for \"other.test\"");
}

#[test]
fn a_service_names_servers_with_their_ports() {
    let dns = Dns::start(None);
    let (one, two, last) = (backends(1, http), backends(1, http), backends(1, http));
    let all = [("one.test", &one), ("two.test", &two), ("last.test", &last)];
    for (name, (addresses, _)) in all {
        dns.set(name, addresses);
    }
    let service = "_http._tcp.app.test";
    let first =
        [(1, 30, one.1, "one.test"), (1, 10, two.1, "two.test"), (5, 0, last.1, "last.test")];
    dns.set_service(service, &first);
    let server = Site::new().controlled().serve();
    server.put(
        "/config",
        &json!({
            "listeners": {server.address.to_string(): {"pass": "upstreams/u"}},
            "settings": {"resolver": dns.address.to_string(), "listen_threads": 1},
            "upstreams": {"u": {"servers": {service: {}}, "tries": 3, "failures": {}}},
        }),
    );
    let texts: Vec<_> = (0..20).map(|_| server.get("/").text()).collect();
    let count =
        |address: &IpAddr| texts.iter().filter(|text| **text == address.to_string()).count();
    assert_eq!((count(&one.0[0]), count(&two.0[0]), count(&last.0[0])), (15, 5, 0), "{texts:?}");
    let report = server.control("GET", "/status/upstreams/u/servers", "").succeeded();
    assert_eq!(report.as_object().unwrap().len(), 3, "{report}");

    dns.set_service(service, &[(1, 0, last.1, "last.test")]);
    eventually("the other server is asked", || {
        (server.get("/").text() == last.0[0].to_string()).then_some(())
    });
    // A service without servers keeps those that it had.
    dns.set_service(service, &[(0, 0, 0, "none.test")]);
    server.wait_for_log("\"_http._tcp.app.test\" cannot be looked up: ");
    assert_eq!(server.get("/").text(), last.0[0].to_string());
}

/// Waiting for machines one after the other took ten seconds for each that did not answer, and a
/// machine without an answer was left out until the time to live of the service was over.
#[test]
fn a_machine_of_a_service_that_is_not_known_yet_keeps_nobody_waiting() {
    let dns = Dns::start(None);
    let (one, two) = (backends(1, http), backends(1, http));
    dns.set("one.test", &one.0);
    for name in ["silent.test", "quiet.test", "still.test"] {
        dns.silence(name);
    }
    let service = "_http._tcp.app.test";
    let machines =
        [(one.1, "one.test"), (two.1, "two.test"), (1, "silent.test"), (1, "quiet.test")];
    let servers = machines.map(|(port, name)| (1, 1, port, name));
    dns.set_service(service, &[&servers[..], &[(1, 1, 1, "still.test")]].concat());
    dns.set_service_ttl(3600);
    let server = Site::new().controlled().serve();
    server.put(
        "/config",
        &json!({
            "listeners": {server.address.to_string(): {"pass": "upstreams/u"}},
            "settings": {"resolver": dns.address.to_string(), "listen_threads": 1},
            "upstreams": {"u": {"servers": {service: {}}}},
        }),
    );
    assert_eq!(server.get("/").text(), one.0[0].to_string(), "the first machine serves at once");
    server.wait_for_log("\"_http._tcp.app.test\": \"");
    dns.set("two.test", &two.0);
    eventually("the second machine is found although the service is valid for an hour", || {
        (server.get("/").text() == two.0[0].to_string()).then_some(())
    });
    assert_eq!(server.get("/").text(), one.0[0].to_string(), "the first one is kept");
}

/// A name server that does not answer keeps no site from being served after a reboot.
#[test]
fn a_start_does_not_wait_for_a_name_server_that_is_silent() {
    let dns = Dns::start(None);
    let (addresses, port) = backends(1, http);
    dns.set("late.test", &addresses);
    dns.silence("late.test");
    let server = Site::new()
        .with(json!({
            "settings": {"resolver": dns.address.to_string()},
            "routes": [
                {"match": {"uri": "/own"}, "action": {"return": 204}},
                {"action": {"proxy": format!("http://late.test:{port}")}},
            ],
        }))
        .serve();
    assert_eq!(server.get("/own").status, 204);
    assert_eq!(server.get("/").status, 502);
    assert!(!server.log().contains("cannot be looked up"), "the question is not given up yet");
    dns.answer("late.test");
    eventually("the server is known", || (server.get("/").status == 200).then_some(()));
}
