//! Applications that are servers of their own, behind the proxy: Node's and Python's, the real
//! ones.

use std::io::Write;

use harness::backends::Backend;
use harness::client::{Client, Response};
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

fn node() -> Backend {
    Backend::program(&["node"], include_str!("node.js"), &[])
}

fn python(version: &str) -> Backend {
    Backend::program(&["python3", "-I"], include_str!("python.py"), &[version])
}

/// Passes everything on, in both ways that there are: each request on a connection of its own, or
/// on connections that are kept.
fn fronts(backend: &Backend) -> [Server; 2] {
    [json!({"proxy": backend.url()}), json!({"pass": "upstreams/kept"})]
        .map(|action| front(backend, action))
}

fn kept(backend: &Backend) -> Server {
    front(backend, json!({"pass": "upstreams/kept"}))
}

fn front(backend: &Backend, action: Value) -> Server {
    let upstream = json!({
        "servers": {backend.address.to_string(): {}}, "keepalive": 2, "request_trailers": true,
    });
    let changes = json!({
        "routes": [{"action": action}],
        "upstreams": {"kept": upstream},
        "settings": {"listen_threads": 1},
    });
    Site::new().with(changes).serve()
}

fn lines(count: usize) -> String {
    (0..count).map(|n| format!("line {n:010}\n")).collect()
}

/// Sends on a thread of its own, so that answers can be taken meanwhile.
fn send_aside(client: &Client, bytes: Vec<u8>) -> std::thread::JoinHandle<()> {
    let mut stream = client.stream().try_clone().unwrap();
    std::thread::spawn(move || stream.write_all(&bytes).unwrap())
}

fn chunked(body: &[u8], trailers: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in body.chunks(60_000) {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
    out
}

fn said(response: &Response) -> (u16, String) {
    (response.status, response.text())
}

// -- Node --

#[test]
fn answers_of_node_with_a_length_leave_its_connection_for_the_next() {
    let node = node();
    let server = kept(&node);
    let mut client = server.connect();
    let mut connections = Vec::new();
    for (method, target, fields, status, body) in [
        ("GET", "/whole", "", 200, "some answer"),
        ("HEAD", "/whole", "", 200, ""),
        ("GET", "/whole", "If-None-Match: \"whole\"\r\n", 304, ""),
        ("GET", "/nothing", "", 204, ""),
        ("GET", "/missing", "", 404, "no such page"),
        ("GET", "/chunked", "", 200, "one two three"),
        ("GET", "/whole", "", 200, "some answer"),
        ("POST", "/whole", "Content-Length: 0\r\n", 200, "some answer"),
    ] {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let head = method == "HEAD";
        let response = if head { client.head_response() } else { client.response() };
        assert_eq!(said(&response), (status, body.to_owned()), "{method} {target}");
        if target == "/whole" && status == 200 {
            assert_eq!(response.field("Content-Length"), Some("11"), "{method}");
        }
        assert_eq!(response.field("Keep-Alive"), None, "it is between Node and us");
        connections.push(response.field("X-Connection").expect("a number").to_owned());
    }
    let post = connections.pop().unwrap();
    assert!(connections.iter().all(|number| *number == connections[0]), "{connections:?}");
    assert_ne!(post, connections[0], "what must not be sent twice goes on a new one");
}

#[test]
fn connections_that_node_has_closed_cost_no_request() {
    let node = node();
    let server = kept(&node);
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(said(&client.get("/leaves")), (200, "left".to_owned()));
        assert_eq!(said(&client.get("/whole")), (200, "some answer".to_owned()));
    }
}

#[test]
fn a_trailer_of_node_reaches_who_asks_for_it() {
    let node = node();
    for server in fronts(&node) {
        for (asks, trailer) in
            [("TE: trailers\r\nConnection: TE, close", true), ("Connection: close", false)]
        {
            let mut client = server.connect();
            client.send(format!("GET /chunked HTTP/1.1\r\nHost: a\r\n{asks}\r\n\r\n"));
            let all = String::from_utf8(client.everything()).unwrap();
            let (head, body) = all.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 200 "), "{all}");
            assert!(!head.contains("X-Sum: "), "{all}");
            if trailer {
                assert!(body.ends_with("\r\n0\r\nX-Sum: 13\r\n\r\n"), "{all}");
            } else {
                assert!(!body.contains("X-Sum"), "{all}");
                assert_eq!(said(&server.get("/chunked")), (200, "one two three".to_owned()));
            }
        }
    }
}

#[test]
fn large_answers_of_node_come_whole() {
    let node = node();
    let expected = lines(1_000_000);
    for server in fronts(&node) {
        let mut client = server.connect();
        let large = client.get("/large");
        assert!(!large.cut && large.text() == expected, "{} bytes", large.body.len());
        assert_eq!(client.get("/whole").status, 200, "the connection goes on");
    }
}

#[test]
fn uploads_come_back_from_node_as_they_were_sent() {
    let node = node();
    for server in fronts(&node) {
        for len in [1, 100_000, 5_000_000] {
            let body = &lines(len / 16 + 1).into_bytes()[..len];
            for (framing, bytes) in [
                (format!("Content-Length: {len}"), body.to_vec()),
                ("Transfer-Encoding: chunked".to_owned(), chunked(body, "")),
            ] {
                let mut client = server.connect();
                client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
                let sending = send_aside(&client, bytes);
                let response = client.response();
                assert_eq!(response.status, 200, "{framing}: {response:?}");
                assert!(!response.cut && response.body == body, "{len}, {framing}: {response:?}");
                sending.join().unwrap();
                assert_eq!(client.get("/whole").status, 200, "the connection goes on");
            }
        }
    }
}

#[test]
fn node_gets_the_trailers_of_a_request_if_it_is_said_to_read_them() {
    let node = node();
    let ask = |server: &Server| {
        let mut client = server.connect();
        client.send("POST /trailers HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(chunked(b"body", "X-Sum: 4\r\n")).response().text()
    };
    let [plain, kept] = fronts(&node);
    assert_eq!(ask(&plain), "{}");
    assert_eq!(ask(&kept), r#"{"x-sum":"4"}"#);
}

#[test]
fn events_of_node_come_one_by_one_and_it_learns_who_leaves() {
    let node = node();
    for server in fronts(&node) {
        let mut clients = [server.connect(), server.connect()];
        for client in &mut clients {
            client.send("GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
            client.wait_for("text/event-stream");
        }
        for number in 0..5 {
            // The next one is sent only when this one has come.
            assert_eq!(server.get(&format!("/say?event-{number}")).text(), "2");
            for client in &mut clients {
                client.wait_for(&format!("data: event-{number}\n\n"));
            }
        }
        let [left, mut stays] = clients;
        drop(left);
        eventually("Node sees one leave", || (server.get("/say?x").text() == "1").then_some(()));
        server.get("/say?last");
        stays.wait_for("data: last\n\n");
        drop(stays);
        eventually("nobody is left", || (server.get("/say?x").text() == "0").then_some(()));
    }
}

#[test]
fn a_websocket_of_node_carries_what_both_sides_send() {
    let node = node();
    for server in fronts(&node) {
        let mut client = server.connect();
        client.send(
            "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let agreed = client.response();
        assert_eq!(agreed.status, 101, "{agreed:?}");
        assert_eq!(agreed.field("Sec-WebSocket-Accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        client.send("hello").wait_for("hello");
        let text = lines(100_000);
        let sending = send_aside(&client, text.clone().into_bytes());
        client.wait_for("line 0000099999\n");
        sending.join().unwrap();
        client.finish_sending();
        assert!(client.everything() == ["hello", &text].concat().into_bytes());
        assert_eq!(server.get("/whole").status, 200);
    }
}

#[test]
fn what_node_says_before_an_answer_and_what_it_refuses_keep_their_places() {
    let node = node();
    for server in fronts(&node) {
        let mut client = server.connect();
        client.send("GET /early HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut responses = std::iter::repeat_with(|| client.response());
        let last = responses.find(|response| response.status >= 200).unwrap();
        assert_eq!(said(&last), (200, "late".to_owned()));
        // More than Node takes, and less than we do: it answers, and closes the connection.
        let field = "x".repeat(6000);
        client.send(format!(
            "GET /whole HTTP/1.1\r\nHost: a\r\nX-A: {field}\r\nX-B: {field}\r\nX-C: {field}\r\n\r\n"
        ));
        assert_eq!(client.response().status, 431);
        assert_eq!(said(&client.get("/whole")), (200, "some answer".to_owned()));
    }
}

// -- Python --

#[test]
fn answers_of_python_that_end_with_their_connection_come_whole_and_ours_goes_on() {
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        let python = python(version);
        for server in fronts(&python) {
            let mut client = server.connect();
            for _ in 0..3 {
                let text = client.get("/text");
                assert!(!text.cut && text.text() == lines(200_000), "{version}: {text:?}");
                assert_eq!(text.field("Transfer-Encoding"), Some("chunked"));
                assert_eq!(said(&client.get("/empty")), (200, String::new()), "{version}");
                assert_eq!(said(&client.get("/length")), (200, "length".to_owned()), "{version}");
                assert_eq!(client.get("/nothing").status, 204, "{version}");
                assert!(client.get("/missing").text().contains("404"), "{version}");
                client.send("HEAD /text HTTP/1.1\r\nHost: a\r\n\r\n");
                assert_eq!(client.head_response().status, 200, "{version}");
                client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
                assert_eq!(said(&client.response()), (200, "body".to_owned()), "{version}");
            }
            // A client that knows no chunks gets none.
            let mut old = server.connect();
            old.send("GET /text HTTP/1.0\r\nHost: a\r\n\r\n");
            let all = String::from_utf8(old.everything()).unwrap();
            let (head, body) = all.split_once("\r\n\r\n").expect("a head");
            assert!(!head.contains("Transfer-Encoding"), "{head}");
            assert!(body == lines(200_000), "{version}");
        }
    }
}
