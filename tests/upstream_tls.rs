//! Servers behind the proxy that speak TLS.

mod harness;

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};

use harness::backends::Backend;
use harness::client::Response;
use harness::tls::Authority;
use harness::{Server, Site, free_address};
use serde_json::{Value, json};

/// nginx with a certificate for these names, which tells what it knows of the connection.
fn nginx(authority: &Authority, names: &[&str]) -> Backend {
    let (chain, key) = authority.issue(names);
    Backend::nginx_with(
        &[("chain.pem", &chain), ("key.pem", &key), ("ca.pem", &authority.pem())],
        "ssl",
        "ssl_certificate chain.pem;
         ssl_certificate_key key.pem;
         ssl_client_certificate ca.pem;
         ssl_verify_client optional;
         ssl_session_tickets on;
         ssl_session_cache shared:all:1m;
         location / {
             return 200 '$ssl_server_name $ssl_client_verify $ssl_session_reused $connection';
         }",
    )
}

/// Passes everything to a server whose certificate must be from this authority.
fn serve(address: SocketAddr, authority: &Authority, tls: Value, more: Value) -> Server {
    let site = Site::new().file("file.txt", "a file");
    fs::write(site.data().join("ca.pem"), authority.pem()).unwrap();
    let mut settings = json!({"authorities": site.data().join("ca.pem")});
    harness::merge(&mut settings, tls);
    settings.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let mut upstream = json!({"servers": {address.to_string(): {}}, "tls": settings});
    harness::merge(&mut upstream, more);
    let changes = json!({
        "routes": [{"action": {"pass": "upstreams/secure"}}],
        "upstreams": {"secure": upstream},
        "settings": {"listen_threads": 1},
    });
    site.with(changes).serve()
}

/// What nginx says: name, whether a certificate was verified, whether a session was taken up
/// again, and the number of the connection.
fn facts(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{response:?}");
    response.text().split(' ').map(str::to_owned).collect()
}

#[test]
fn requests_go_over_tls_and_connections_are_kept() {
    let authority = Authority::new();
    let nginx = nginx(&authority, &["backend.example"]);
    let name = json!({"server_name": "backend.example"});
    let server = serve(nginx.address, &authority, name.clone(), json!({"keepalive": 4}));
    let mut client = server.connect();
    let [one, two] = [facts(&client.get("/")), facts(&client.get("/"))];
    assert_eq!((one[0].as_str(), one[1].as_str()), ("backend.example", "NONE"));
    assert_eq!(one[3], two[3], "the same connection");
    // Without kept connections a session is taken up again.
    let server = serve(nginx.address, &authority, name, json!({}));
    let [one, two] = [facts(&server.get("/")), facts(&server.get("/"))];
    assert_ne!(one[3], two[3]);
    assert_eq!((one[2].as_str(), two[2].as_str()), (".", "r"));
}

#[test]
fn an_address_counts_if_there_is_no_name() {
    let authority = Authority::new();
    // nginx gets one of the next addresses of this test.
    let [a, b, c, _] = match free_address().ip() {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => unreachable!("tests have addresses of IPv4"),
    };
    let all: Vec<_> = (1..=100).map(|last| format!("{a}.{b}.{c}.{last}")).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    let nginx = nginx(&authority, &all);
    let server = serve(nginx.address, &authority, json!({}), json!({}));
    assert_eq!(server.get("/").status, 200);
    let other = self::nginx(&authority, &["192.0.2.1"]);
    let server = serve(other.address, &authority, json!({}), json!({}));
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log(&format!("its certificate is not for \"{}\"", other.address.ip()));
}

#[test]
fn a_server_is_shown_our_certificate() {
    let authority = Authority::new();
    let nginx = nginx(&authority, &["backend.example"]);
    let (chain, key) = authority.issue(&["us.example"]);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("us.pem"), chain + &key).unwrap();
    let file = directory.path().join("us.pem");
    let tls = json!({
        "server_name": "backend.example", "certificate": {"chain": file, "key": file},
    });
    let server = serve(nginx.address, &authority, tls, json!({}));
    assert_eq!(facts(&server.get("/"))[1], "SUCCESS");
}

#[test]
fn a_server_that_is_not_who_it_should_be_is_502_and_the_log_says_why() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let nginx = nginx(&stranger, &["backend.example"]);
    let named = |name: &str| json!({"server_name": name});
    let server = serve(nginx.address, &authority, named("backend.example"), json!({}));
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log("its certificate is from nobody in ");
    let server = serve(nginx.address, &stranger, named("other.example"), json!({}));
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log("its certificate is not for \"other.example\"");
    let careless = json!({"verify": false, "authorities": null});
    let server = serve(nginx.address, &authority, careless, json!({}));
    assert_eq!(facts(&server.get("/")).len(), 4);
}

#[test]
fn a_connection_that_was_not_verified_is_not_used_where_it_must_be() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let nginx = nginx(&stranger, &["backend.example"]);
    let servers = json!({nginx.address.to_string(): {}});
    let more = json!({"server_name": "backend.example"});
    let site = Site::new();
    fs::write(site.data().join("ca.pem"), authority.pem()).unwrap();
    let mut careful = more.clone();
    careful["authorities"] = json!(site.data().join("ca.pem"));
    let mut careless = more;
    careless["verify"] = json!(false);
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/careful"}, "action": {"pass": "upstreams/careful"}},
                {"action": {"pass": "upstreams/careless"}},
            ],
            "upstreams": {
                "careful": {"servers": servers, "keepalive": 8, "tls": careful},
                "careless": {"servers": servers, "keepalive": 8, "tls": careless},
            },
            "settings": {"listen_threads": 1},
        }))
        .serve();
    for _ in 0..3 {
        assert_eq!(server.get("/careless").status, 200);
        assert_eq!(server.get("/careful").status, 502);
    }
}

#[test]
fn hardening_30_what_comes_before_the_handshake_is_no_answer() {
    let listener = TcpListener::bind(free_address()).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
            std::thread::spawn(move || drop(stream.read_to_end(&mut Vec::new())));
        }
    });
    let authority = Authority::new();
    for tls in [json!({"server_name": "a"}), json!({"verify": false, "authorities": null})] {
        let server = serve(address, &authority, tls, json!({"keepalive": 4}));
        for _ in 0..3 {
            let response = server.get("/");
            assert_eq!(response.status, 502);
            assert!(!response.text().contains("poison"));
        }
        server.wait_for_log("TLS handshake: ");
    }
}

#[test]
fn hardening_45_authorities_that_cannot_be_read_refuse_the_configuration() {
    let address = free_address();
    let site = Site::new().controlled();
    let data = site.data();
    let server = site.serve_at(&address.to_string());
    fs::write(data.join("empty.pem"), "").unwrap();
    fs::write(data.join("broken.pem"), "-----BEGIN CERTIFICATE-----\n!\n").unwrap();
    for (file, message) in [
        ("missing.pem", "cannot be read"),
        ("empty.pem", "neither a certificate"),
        ("broken.pem", "PEM"),
    ] {
        let tls = json!({"authorities": data.join(file)});
        let upstreams = json!({"a": {"servers": {"127.0.0.1:443": {}}, "tls": tls}});
        let answer = server.control("PUT", "/config", json!({"upstreams": upstreams}).to_string());
        assert_eq!(answer.status, 500, "{file}: {:?}", answer.body);
        let text = answer.body.to_string();
        assert!(text.contains("/upstreams/a/tls: ") && text.contains(message), "{file}: {text}");
    }
    let unknown = json!({"a": {"servers": {}, "tls": {"verify": false, "certificate": "none"}}});
    let answer = server.control("PUT", "/config", json!({"upstreams": unknown}).to_string());
    assert!(answer.body.to_string().contains("there is no certificate"), "{:?}", answer.body);
}

#[test]
fn an_action_may_name_a_server_by_https() {
    let authority = Authority::new();
    let nginx = nginx(&authority, &["backend.example"]);
    let proxy = format!("https://{}", nginx.address);
    let server = Site::new().with(json!({"routes": [{"action": {"proxy": proxy}}]})).serve();
    // The system does not know the authority.
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log("its certificate is from nobody in /etc/ssl/certs/ca-certificates.crt");
}

#[test]
fn new_authorities_in_a_file_count_without_a_word() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let nginx = nginx(&authority, &["backend.example"]);
    let name = json!({"server_name": "backend.example"});
    let server = serve(nginx.address, &stranger, name, json!({}));
    assert_eq!(server.get("/").status, 502);
    fs::write(server.site.data().join("ca.pem"), authority.pem()).unwrap();
    harness::eventually("they count", || (server.get("/").status == 200).then_some(()));
}
