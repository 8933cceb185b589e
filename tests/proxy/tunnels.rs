//! Connections that leave HTTP: WebSockets and the like, to servers behind the proxy.

use harness::client::Client;
use harness::echo::Echo;
use harness::http2::{END_HEADERS, END_STREAM, Http2, frame, kind, request};
use harness::{Server, Site, eventually, free_address, processes};
use rustix::process::Signal;
use serde_json::{Value, json};

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn document(echo: &Echo, listeners: &[&str]) -> Value {
    let listener = json!({"pass": "routes", "http2": true});
    let listeners: serde_json::Map<_, _> =
        listeners.iter().map(|address| ((*address).to_owned(), listener.clone())).collect();
    json!({
        "listeners": listeners,
        "routes": [
            {"match": {"uri": "/file.txt"}, "action": {"return": 200}},
            {"action": {"pass": "upstreams/echo"}},
        ],
        "upstreams": {"echo": {"servers": {echo.address.to_string(): {}}, "keepalive": 4}},
    })
}

/// A server in front of an echo, and the client's end of a tunnel through it.
fn tunnel(echo: &Echo) -> (Server, Client) {
    let address = free_address().to_string();
    let server = Site::new().controlled().serve_at(&address);
    server.put("/config", &document(echo, &[&address]));
    let client = opened(&server);
    (server, client)
}

fn opened(server: &Server) -> Client {
    let mut client = server.connect();
    let agreed = client.send(ASK).response();
    assert_eq!(agreed.status, 101, "{agreed:?}");
    assert_eq!(agreed.field("Sec-WebSocket-Accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(agreed.field("Upgrade"), Some("websocket"));
    assert_eq!(agreed.field("Connection"), Some("upgrade"));
    client
}

fn echoes(client: &mut Client, text: &str) {
    client.send(text);
    client.wait_for(text);
}

/// Requests that are being answered, as far as the status tells.
fn active(server: &Server) -> u64 {
    let status = server.control("GET", "/status", "").body;
    let servers = status["upstreams"]["echo"]["servers"].as_object().expect("there are servers");
    servers.values().filter_map(|server| server["requests"]["active"].as_u64()).sum()
}

#[test]
fn bytes_go_both_ways_and_either_side_may_finish_first() {
    let echo = Echo::start();
    let (server, mut client) = tunnel(&echo);
    echoes(&mut client, "hello");
    let large: String = "0123456789abcdef".repeat(100_000);
    let mut sender = client.stream().try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        std::io::Write::write_all(&mut sender, large.as_bytes()).unwrap();
        sender.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let all = client.everything();
    sending.join().unwrap();
    assert_eq!(all.len(), "hello".len() + 1_600_000 + "bye".len());
    assert!(all.ends_with(b"bye"));
    eventually("the tunnel is counted no longer", || (active(&server) == 0).then_some(()));
    let plain = server.send(ASK.replace("/chat", "/plain"));
    assert_eq!((plain.status, plain.text().as_str()), (200, "plain"));
}

#[test]
fn a_tunnel_is_counted_and_outlives_a_change_but_not_its_listener() {
    let echo = Echo::start();
    let (server, mut client) = tunnel(&echo);
    assert_eq!(active(&server), 1);
    let (one, other) = (server.address.to_string(), free_address().to_string());
    server.put("/config/listeners", &document(&echo, &[&one, &other])["listeners"]);
    server.put("/config/upstreams/echo/servers", &json!({free_address().to_string(): {}}));
    echoes(&mut client, "after the change");
    server.put("/config/listeners", &document(&echo, &[&other])["listeners"]);
    client.everything(); // until it ends
}

#[test]
fn a_server_that_ends_gracefully_ends_tunnels_too() {
    let echo = Echo::start();
    let (mut server, mut client) = tunnel(&echo);
    echoes(&mut client, "hello");
    server.signal(Signal::QUIT);
    client.everything(); // until it ends
    assert!(server.wait().success());
}

/// Frames until the head of an answer on a stream; its first byte in HPACK and whether more
/// follows.
fn answered(client: &mut Http2, stream: u32) -> (Vec<u8>, bool) {
    loop {
        let frame = client.frame().expect("the stream is answered");
        if frame.kind == kind::HEADERS && frame.stream == stream {
            return (frame.payload, frame.flags & END_STREAM == 0);
        }
    }
}

/// The content of a stream, up to so many bytes or its end.
fn content(client: &mut Http2, stream: u32, most: usize) -> (String, bool) {
    let mut content = Vec::new();
    while content.len() < most {
        let frame = client.frame().expect("the stream goes on");
        if frame.stream != stream {
            continue;
        }
        assert_ne!(frame.kind, kind::RST_STREAM, "{frame:?}");
        if frame.kind == kind::DATA {
            content.extend_from_slice(&frame.payload);
            if frame.flags & END_STREAM != 0 {
                return (String::from_utf8(content).unwrap(), true);
            }
        }
    }
    (String::from_utf8(content).unwrap(), false)
}

#[test]
fn a_stream_of_http_2_becomes_a_websocket() {
    let echo = Echo::start();
    let (server, _client) = tunnel(&echo);
    let mut client = Http2::connect(server.address, &[]);
    let connect = |path: &str, protocol: &str| {
        let fields = [(":protocol", protocol), ("sec-websocket-version", "13")];
        let mut block = request("CONNECT", path, &[]);
        // Pseudo-fields come first.
        let fields = request("", "", &fields).split_off(request("", "", &[]).len());
        block.extend(fields);
        block
    };
    client.send(frame(kind::HEADERS, END_HEADERS, 1, &connect("/chat", "websocket")));
    // The server says that it knows the protocol.
    let settings = client.frame().unwrap();
    let knows = [0, 8, 0, 0, 0, 1];
    assert!(settings.payload.chunks(6).any(|setting| setting == knows), "{settings:?}");
    let (head, goes_on) = answered(&mut client, 1);
    assert_eq!((head.first(), goes_on), (Some(&0x88), true), "200");
    // Other streams continue meanwhile.
    client.get(3, "/file.txt");
    assert!(client.answer(3).is_ok());
    client.send(frame(kind::DATA, 0, 1, b"hello"));
    assert_eq!(content(&mut client, 1, 5), ("hello".to_owned(), false));
    client.send(frame(kind::DATA, END_STREAM, 1, b"the end"));
    assert_eq!(content(&mut client, 1, usize::MAX), ("the endbye".to_owned(), true));

    // A server that does not speak it must not seem to.
    for (stream, path, protocol) in
        [(5, "/plain", "websocket"), (7, "/file.txt", "websocket"), (9, "/chat", "connect-udp")]
    {
        client.send(frame(kind::HEADERS, END_HEADERS, stream, &connect(path, protocol)));
        let (head, _) = answered(&mut client, stream);
        assert_ne!(head.first(), Some(&0x88), "{path} {protocol}");
    }
    // A client that gives a stream up ends its tunnel.
    client.send(frame(kind::HEADERS, END_HEADERS, 11, &connect("/chat", "websocket")));
    answered(&mut client, 11);
    eventually("two are open", || (active(&server) == 2).then_some(()));
    client.send(frame(kind::RST_STREAM, 0, 11, &8u32.to_be_bytes()));
    eventually("one is left", || (active(&server) == 1).then_some(()));
}

#[test]
fn connect_is_refused_as_other_servers_do() {
    let echo = Echo::start();
    let (server, _client) = tunnel(&echo);
    for target in ["example.org:80", "/chat"] {
        let refused = server.send(format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(refused.status, 405, "{target}");
    }
}

#[test]
fn tunnels_that_wait_cost_little() {
    let echo = Echo::start();
    let (server, _client) = tunnel(&echo);
    let open = |count| (0..count).map(|_| opened(&server)).collect::<Vec<_>>();
    let _warm = open(20);
    let before = processes::peak_memory(server.router());
    let many = open(300);
    let each = processes::peak_memory(server.router()).saturating_sub(before) / many.len() as u64;
    // Buffers for both directions would be several times as much.
    assert!(each < 16 * 1024, "{each} bytes");
}
