//! HTTP/2: requests that could be read otherwise over HTTP/1.1 are refused.

use std::io::Read;

use harness::http2::{
    Answer, END_HEADERS, END_STREAM, Http2, block, frame, kind, put_length, request,
};
use harness::time::patience;
use harness::{Server, Site, free_address, free_listener};
use serde_json::json;

use super::http2::site;

/// The response to a head on a connection of its own.
fn asked(server: &Server, fields: &[(&str, &str)]) -> Answer {
    let mut client = Http2::connect(server.address, &[]);
    client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &block(fields)));
    client.answer(1)
}

/// Returns true if the status is 400, which is one byte in HPACK.
fn is_refused(answer: &Answer) -> bool {
    answer.complete && answer.heads.last().is_some_and(|head| head.contains(&0x8c))
}

#[test]
fn requests_that_http_1_could_read_otherwise_are_stream_errors() {
    let server = site(json!({}));
    for fields in [
        &[("transfer-encoding", "chunked")][..],
        &[("connection", "close")],
        &[("x-a", "b\r\nx-b: c")],
        &[("x\r\ny", "b")],
        &[("content-length", "3"), ("content-length", "3")],
        &[("content-length", "3")],
        &[("host", "other")],
    ] {
        let mut client = Http2::connect(server.address, &[]);
        let head = request("POST", "/facts.php", fields);
        client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &head));
        assert!(!client.answer(1).is_ok(), "{fields:?}");
    }
    let mut client = Http2::connect(server.address, &[]);
    client.send(frame(kind::HEADERS, 5, 1, &request("GET", "/a.txt HTTP/1.1\r\nx: y", &[])));
    assert!(!client.answer(1).is_ok());
}

#[test]
fn a_fragment_is_refused_over_http_2_too() {
    let (strict, lenient) = (site(json!({})), site(json!({"strict_requests": false})));
    for path in ["/a.txt#", "/a.txt#/../facts.php", "/a.txt?b#c", "#x"] {
        let mut client = Http2::connect(strict.address, &[]);
        // As it is, and as an entry of the table.
        let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "a")];
        let mut kept = block(&fields);
        kept.push(0x44); // the name is that of entry 4
        put_length(&mut kept, path.len());
        kept.extend_from_slice(path.as_bytes());
        let entry = [&block(&fields)[..], &[0x80 | 62]].concat();
        let plain = request("GET", path, &[]);
        for (stream, head) in [(1, &plain), (3, &kept), (5, &entry)] {
            client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, head));
            let answer = client.answer(stream);
            assert!(is_refused(&answer), "{path}, stream {stream}: {answer:?}");
        }
        client.get(7, "/a.txt");
        assert!(client.answer(7).is_ok(), "the connection goes on");
        // A reading that is not strict cuts it off, for all that see the target.
        let mut client = Http2::connect(lenient.address, &[]);
        client.get(1, path);
        let answer = client.answer(1);
        assert!(path == "#x" || answer.is_ok() && answer.body == b"a file", "{path}: {answer:?}");
    }
}

#[test]
fn the_authority_is_a_host_and_a_host_beside_it_is_the_same() {
    let server = site(json!({}));
    let head = |more: &[(&'static str, &'static str)]| {
        let all = [(":method", "GET"), (":scheme", "http"), (":path", "/a.txt")];
        asked(&server, &[&all, more].concat())
    };
    for good in [
        &[(":authority", "a")][..],
        &[(":authority", "a:81"), ("host", "A.:81")],
        &[(":authority", "a:80"), ("host", "a")],
        &[("host", "a")],
    ] {
        assert!(head(good).is_ok(), "{good:?}");
    }
    for bad in [
        &[][..],
        &[(":authority", "secret.test:x@evil")],
        &[(":authority", "u@a")],
        &[(":authority", "a:99999")],
        &[("host", "a?b")],
        &[("host", "a"), ("host", "a")],
        &[(":authority", "a"), ("host", "a"), ("host", "a")],
        &[(":authority", "a"), ("host", "b")],
        &[(":authority", "a"), ("host", "a:81")],
        &[(":authority", "a"), ("host", "a\\b")],
        &[(":authority", "a"), ("host", "")],
    ] {
        assert!(is_refused(&head(bad)), "{bad:?}");
    }
    // `h2` takes these for no URI, and resets the stream.
    for malformed in ["a\\b", "a?b", "[::1", "a b", "a/b", ""] {
        let answer = head(&[(":authority", malformed)]);
        assert_eq!((answer.reset, answer.heads.len()), (Some(1), 0), "{malformed:?}: {answer:?}");
    }
    // Nor is a whole URI a path, which would name another host.
    for path in ["http://b/a.txt", "a.txt", "?a", "*"] {
        let all = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", path)];
        assert!(!asked(&server, &all).is_ok(), "{path}");
    }
}

#[test]
fn a_malformed_trailer_is_a_stream_error_and_no_script_runs() {
    let server = site(json!({}));
    let mut client = Http2::connect(server.address, &[]);
    let head = request("POST", "/work.php", &[]);
    let send = |client: &mut Http2, stream: u32, trailer: &[u8]| {
        client.send(frame(kind::HEADERS, END_HEADERS, stream, &head));
        client.send(frame(kind::DATA, 0, stream, b"body"));
        client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, trailer));
        client.answer(stream)
    };
    let mut streams = (0..).map(|n| 2 * n + 1);
    for trailer in [
        &[(":path", "/admin")][..],
        &[(":method", "GET"), ("x-a", "b")],
        &[(":authority", "b")],
        &[(":status", "200")],
        &[("x-a", "b"), (":path", "/admin")],
        &[("connection", "close")],
        &[("transfer-encoding", "chunked")],
        &[("te", "gzip")],
    ] {
        let answer = send(&mut client, streams.next().unwrap(), &block(trailer));
        assert_eq!((answer.reset, answer.heads.len()), (Some(1), 0), "{trailer:?}: {answer:?}");
    }
    // Indexed: `:method: GET`.
    let answer = send(&mut client, streams.next().unwrap(), &[0x82]);
    assert_eq!((answer.reset, answer.heads.len()), (Some(1), 0), "{answer:?}");
    assert_eq!(server.data("work"), "", "no script has run");
    let answer = send(&mut client, streams.next().unwrap(), &block(&[("x-a", ":path")]));
    assert!(answer.is_ok(), "the connection goes on: {answer:?}");
    // `h2` ends the connection for an invalid name.
    for name in ["X-Upper", ":unknown", ""] {
        let mut client = Http2::connect(server.address, &[]);
        let answer = send(&mut client, 1, &block(&[(name, "b")]));
        assert!(answer.reset.is_some() && answer.heads.is_empty(), "{name:?}: {answer:?}");
    }
    assert_eq!(server.data("work"), "x", "no other script has run");
}

#[test]
fn a_body_with_a_malformed_trailer_is_not_ended_for_another_server() {
    let listener = free_listener();
    let backend = listener.local_addr().unwrap();
    let address = free_address().to_string();
    let server = Site::new()
        .with(json!({
            "listeners": {&address: {"http2": true}},
            "routes": [{"action": {"pass": "upstreams/u"}}],
            "upstreams": {"u": {
                "servers": {backend.to_string(): {}}, "request_buffering": false,
            }},
        }))
        .serve_at(&address);
    let mut client = Http2::connect(server.address, &[]);
    client.send(frame(kind::HEADERS, END_HEADERS, 1, &request("POST", "/", &[])));
    client.send(frame(kind::DATA, 0, 1, b"some body"));
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let mut came = Vec::new();
    while !String::from_utf8_lossy(&came).contains("some body") {
        let mut piece = [0; 1000];
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&came));
        came.extend_from_slice(&piece[..length]);
    }
    let trailer = block(&[(":path", "/admin")]);
    client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &trailer));
    assert_eq!(client.answer(1).reset, Some(1));
    let _ = stream.read_to_end(&mut came); // it may end with a reset
    let came = String::from_utf8_lossy(&came);
    assert!(!came.ends_with("0\r\n\r\n"), "{came}");
}
