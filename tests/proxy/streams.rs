//! Responses of other servers that come piece by piece: events, and trailers.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use harness::backends::read_head;
use harness::http2::{END_HEADERS, END_STREAM, Http2, frame, kind, request};
use harness::{Server, Site, free_address, free_listener};
use serde_json::{Value, json};

/// A server that answers each connection with the bytes of the test, at the test's time.
fn backend() -> (SocketAddr, Receiver<TcpStream>) {
    let listener = free_listener();
    let address = listener.local_addr().unwrap();
    let (sender, receiver): (Sender<TcpStream>, _) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            read_head(&mut stream);
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

fn serve(address: SocketAddr, http: Value) -> Server {
    let own = free_address().to_string();
    let changes = json!({
        "listeners": {&own: {"http2": true}},
        "routes": [{"action": {"proxy": format!("http://{address}")}}],
        "settings": {"http": http},
    });
    Site::new().with(changes).serve_at(&own)
}

#[test]
fn events_come_as_they_are_sent() {
    let (address, connections) = backend();
    let server = serve(address, json!({}));
    for framing in ["", "Transfer-Encoding: chunked\r\n"] {
        let mut client = server.connect();
        client.send("GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
        let mut stream = connections.recv().unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n")
            .unwrap();
        client.wait_for("text/event-stream");
        for number in 0..3 {
            let event = format!("data: event {number}\n\n");
            match framing {
                "" => stream.write_all(event.as_bytes()).unwrap(),
                _ => write!(stream, "{:x}\r\n{event}\r\n", event.len()).unwrap(),
            }
            // The next one is sent only when this one has come.
            client.wait_for(&format!("event {number}"));
        }
    }
}

#[test]
fn trailers_come_behind_the_body_over_http_2_too() {
    let (address, connections) = backend();
    let server = serve(address, json!({}));
    let answer =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n";
    let mut client = Http2::connect(server.address, &[]);
    for (stream, te, heads) in [(1, true, 2), (3, false, 1)] {
        let fields: &[(&str, &str)] = if te { &[("te", "trailers")] } else { &[] };
        let head = request("GET", "/", fields);
        client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head));
        connections.recv().unwrap().write_all(answer.as_bytes()).unwrap();
        let answer = client.answer(stream);
        assert!(answer.complete, "{answer:?}");
        assert_eq!((answer.heads.len(), answer.body.as_slice()), (heads, &b"abc"[..]));
    }
}
