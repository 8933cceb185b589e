//! The PROXY protocol: balancers in front say whose connection it is, and servers behind are told.

use std::io::{Read, Write};
use std::net::SocketAddr;

use harness::tls::Authority;
use harness::{Server, Site, free_address, free_listener};
use serde_json::{Value, json};

const FACTS: &str = "echo $_SERVER['REMOTE_ADDR'], ' ', $_SERVER['REMOTE_PORT'], ' ', \
    $_SERVER['SERVER_ADDR'], ' ', $_SERVER['SERVER_PORT'], ' ', $_SERVER['HTTPS'] ?? '';";

/// Connections from these addresses begin with a header.
fn serve(source: &str, more: Value) -> Server {
    let address = free_address().to_string();
    let mut listener = json!({"proxy_protocol": {"source": source}});
    harness::merge(&mut listener, more);
    let changes = json!({
        "listeners": {&address: listener},
        "routes": [
            {"match": {"uri": "/inside", "source": "192.0.2.0/24"}, "action": {"return": 204}},
            {"match": {"uri": "/inside"}, "action": {"return": 403}},
            {"action": {"share": "$uri"}},
        ],
    });
    let site = Site::script("facts.php", FACTS);
    let share = json!({
        "share": format!("{}$uri", site.root().display()), "scripts": "applications/site",
    });
    let mut changes = changes;
    changes["routes"][2]["action"] = share;
    site.with(changes).serve_at(&address)
}

const REQUEST: &str = "GET /facts.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const LINE: &str = "PROXY TCP4 192.0.2.1 198.51.100.7 1234 8443\r\n";

/// The same in binary, of a client that speaks TLS with the balancer.
fn binary() -> Vec<u8> {
    let addresses = [192, 0, 2, 1, 198, 51, 100, 7, 4, 210, 32, 251];
    let tls = [0x20, 0, 5, 1, 0, 0, 0, 0];
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x14"[..], &addresses, &tls].concat()
}

#[test]
fn a_connection_is_that_of_the_client_whom_the_balancer_names() {
    let server = serve("127.0.0.0/8", json!({}));
    let asked = server.send(format!("{LINE}{REQUEST}"));
    assert_eq!(asked.text(), "192.0.2.1 1234 198.51.100.7 8443 ");
    let asked = server.send([&binary()[..], REQUEST.as_bytes()].concat());
    assert_eq!(asked.text(), "192.0.2.1 1234 198.51.100.7 8443 on");
    // However it is cut.
    let mut client = server.connect();
    for byte in format!("{LINE}{REQUEST}").bytes() {
        client.send([byte]);
    }
    assert_eq!(client.response().text(), "192.0.2.1 1234 198.51.100.7 8443 ");
    // The balancer's own questions.
    let own = server.send([&b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"[..], REQUEST.as_bytes()].concat());
    assert!(own.text().starts_with("127."), "{own:?}");
    let inside = |first: &str| {
        server.send(format!(
            "PROXY TCP4 {first} 198.51.100.7 1 2\r\n\
             GET /inside HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        ))
    };
    assert_eq!(inside("192.0.2.9").status, 204);
    assert_eq!(inside("203.0.113.9").status, 403);
}

#[test]
fn a_header_counts_only_from_those_who_are_listed() {
    let server = serve("198.51.100.1", json!({}));
    let forged = server.send(format!("{LINE}{REQUEST}"));
    assert_eq!(forged.status, 400);
    assert!(server.send(REQUEST).text().starts_with("127."), "and they need none");
    let forged = server.send([&binary()[..], REQUEST.as_bytes()].concat());
    assert_eq!(forged.status, 400);
}

#[test]
fn without_a_header_a_balancer_is_not_served() {
    let server = serve("127.0.0.0/8", json!({}));
    for start in [
        REQUEST.as_bytes(),
        b"PROXY TCP4 192.0.2.1 198.51.100.7 1234\r\nGET / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
    ] {
        let mut client = server.connect();
        client.send(start);
        assert!(client.is_closed(), "{:?}", String::from_utf8_lossy(start));
    }
    server.wait_for_log("the connection does not begin with a PROXY protocol header");
    // A PROXY line within the client's bytes is no header.
    let twice = server.send(format!("{LINE}PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n{REQUEST}"));
    assert_eq!(twice.status, 400);
}

#[test]
fn the_header_stands_before_the_handshake_of_tls_and_before_http_2() {
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["a.example"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("both.pem");
    std::fs::write(&file, chain + &key).unwrap();
    let tls = json!({"tls": {"certificate": {"chain": file, "key": file}}});
    let server = serve("127.0.0.0/8", tls);
    let mut stream = std::net::TcpStream::connect(server.address).unwrap();
    stream.write_all(LINE.as_bytes()).unwrap();
    let name = rustls::pki_types::ServerName::try_from("a.example").unwrap();
    let client = rustls::ClientConnection::new(authority.client(None, &[]), name).unwrap();
    let mut stream = rustls::StreamOwned::new(client, stream);
    stream.write_all(REQUEST.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("192.0.2.1 1234 198.51.100.7 8443 on"), "{answer}");

    let server = serve("127.0.0.0/8", json!({"http2": true}));
    let asked = server.send(format!("{LINE}{REQUEST}"));
    assert_eq!(asked.text(), "192.0.2.1 1234 198.51.100.7 8443 ");
}

/// A server that answers with all that it got of a connection up to the end of a head.
fn mirror() -> SocketAddr {
    let listener = free_listener();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") || head.len() < 20 {
                match stream.read(&mut byte) {
                    Ok(1) => head.push(byte[0]),
                    _ => break,
                }
            }
            let length = head.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(&head);
        }
    });
    address
}

#[test]
fn servers_are_told_whose_connection_it_is() {
    let mirror = mirror().to_string();
    for version in [1, 2] {
        let server = Site::new()
            .with(json!({
                "routes": [{"action": {"pass": "upstreams/told"}}],
                "upstreams": {"told": {"servers": {&mirror: {}}, "proxy_protocol": version}},
            }))
            .serve();
        let mut client = server.connect();
        let own = client.stream().local_addr().unwrap();
        let seen = client.get("/x").body;
        let start = match version {
            1 => format!(
                "PROXY TCP4 {} {} {} {}\r\n",
                own.ip(),
                server.address.ip(),
                own.port(),
                server.address.port()
            )
            .into_bytes(),
            _ => b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec(),
        };
        let shown = String::from_utf8_lossy(&seen).into_owned();
        assert!(seen.starts_with(&start), "{shown:?}");
        let request = seen.windows(4).position(|four| four == b"GET ").unwrap();
        assert_eq!(request, if version == 1 { start.len() } else { 28 }, "{shown:?}");
    }
}
