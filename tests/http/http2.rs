//! HTTP/2: behaviour that it shares with HTTP/1.1, priorities, and trailers.

use harness::http2::{END_HEADERS, END_STREAM, Http2, frame, kind, put_length, request};
use harness::{Server, Site, free_address};
use serde_json::{Value, json};

pub const FACTS: &str = "<?php echo $_SERVER['SERVER_PROTOCOL'], ' ', $_SERVER['REQUEST_METHOD'], \
    ' ', $_SERVER['HTTP_COOKIE'] ?? '', ' ', strlen(file_get_contents('php://input'));";
const HINTS: &str = "<?php header('Link: </a.css>; rel=preload'); \
    if (function_exists('headers_send')) { headers_send(103); } echo 'after';";
const WORK: &str =
    "<?php file_put_contents(getenv('DATA') . '/work', 'x', FILE_APPEND); usleep(20000);";

/// A site that speaks HTTP/2 without TLS.
pub fn site(http: Value) -> Server {
    let site = Site::new()
        .file("a.txt", "a file")
        .file("large.bin", vec![b'x'; 3 << 20])
        .file("facts.php", FACTS)
        .file("hints.php", HINTS)
        .file("work.php", WORK);
    let address = free_address().to_string();
    let changes = json!({"listeners": {&address: {"http2": true}}, "settings": {"http": http}});
    site.with(changes).serve_at(&address)
}

#[test]
fn files_and_scripts_are_served_as_over_http_1() {
    let server = site(json!({}));
    let mut client = Http2::connect(server.address, &[]);
    client.get(1, "/a.txt");
    let file = client.answer(1);
    assert!(file.is_ok() && file.body == b"a file", "{file:?}");
    client.get(3, "/large.bin");
    assert_eq!(client.answer(3).body.len(), 3 << 20);
    let fields = [("cookie", "a=1"), ("cookie", "b=2"), ("content-length", "6")];
    let head = request("POST", "/facts.php", &fields);
    client.send(frame(kind::HEADERS, END_HEADERS, 5, &head));
    client.send(frame(kind::DATA, 0, 5, b"foo"));
    client.send(frame(kind::DATA, END_STREAM, 5, b"bar"));
    let facts = client.answer(5);
    assert!(facts.is_ok());
    assert_eq!(String::from_utf8_lossy(&facts.body), "HTTP/2.0 POST a=1; b=2 6");
    // HTTP/1.1 is spoken on the same socket.
    assert_eq!(server.get("/a.txt").text(), "a file");
}

#[test]
fn many_streams_are_answered_at_once() {
    let server = site(json!({}));
    let mut client = Http2::connect(server.address, &[]);
    let streams: Vec<u32> = (0..50).map(|n| 2 * n + 1).collect();
    for stream in &streams {
        client.get(*stream, "/a.txt");
    }
    let mut ended = 0;
    while ended < streams.len() {
        let frame = client.frame().unwrap();
        ended += usize::from(matches!(frame.kind, 0 | 1) && frame.flags & END_STREAM != 0);
    }
}

#[test]
fn early_hints_come_before_the_response() {
    let server = site(json!({}));
    let mut client = Http2::connect(server.address, &[]);
    client.get(1, "/hints.php");
    let answer = client.answer(1);
    assert!(answer.is_ok() && answer.body == b"after");
    assert_eq!(answer.heads.len(), 2, "{answer:?}");
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let server = site(json!({"max_body_size": 1000}));
    let mut client = Http2::connect(server.address, &[]);
    client.send(frame(kind::HEADERS, END_HEADERS, 1, &request("POST", "/facts.php", &[])));
    client.send(frame(kind::DATA, END_STREAM, 1, &[b'x'; 2000]));
    let answer = client.answer(1);
    assert!(!answer.is_ok() && String::from_utf8_lossy(&answer.body).contains("413"), "{answer:?}");
    client.get(3, "/a.txt");
    assert!(client.answer(3).is_ok(), "the connection goes on");
}

#[test]
fn trailers_of_requests_are_taken_and_are_no_fields() {
    let server = site(json!({}));
    let mut client = Http2::connect(server.address, &[]);
    let head = request("POST", "/facts.php", &[("trailer", "x-checksum, cookie")]);
    client.send(frame(kind::HEADERS, END_HEADERS, 1, &head));
    client.send(frame(kind::DATA, 0, 1, b"body"));
    let mut trailers = Vec::new();
    for (name, value) in [("x-checksum", "1"), ("cookie", "forged")] {
        trailers.push(0);
        for text in [name, value] {
            put_length(&mut trailers, text.len());
            trailers.extend_from_slice(text.as_bytes());
        }
    }
    client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &trailers));
    let facts = client.answer(1);
    assert!(facts.is_ok(), "{facts:?}");
    assert_eq!(String::from_utf8_lossy(&facts.body), "HTTP/2.0 POST  4");
}

#[test]
fn a_listener_may_speak_http_2_alone() {
    let address = free_address().to_string();
    let changes = json!({"listeners": {&address: {"http2": "only"}}});
    let server = Site::new().file("a.txt", "a file").with(changes).serve_at(&address);
    let mut client = Http2::connect(server.address, &[]);
    client.get(1, "/a.txt");
    assert_eq!(client.answer(1).body, b"a file");
    let mut other = server.connect();
    other.send("GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answer = other.everything();
    assert!(!String::from_utf8_lossy(&answer).contains("a file"), "{answer:?}");
}

#[test]
fn what_is_more_urgent_is_sent_first() {
    let server = site(json!({}));
    // Windows of which neither end is in sight.
    let mut client = Http2::connect(server.address, &[(4, 1 << 30)]);
    client.send(frame(kind::WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
    for pair in 0..5 {
        let (late, early) = (4 * pair + 1, 4 * pair + 3);
        let ask = |stream, priority| {
            let head = request("GET", "/large.bin", &[("priority", priority)]);
            frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head)
        };
        client.send([ask(late, "u=6"), ask(early, "u=1, i")].concat());
        let (mut of_late, mut is_early_whole) = (0, false);
        while of_late < 3 << 20 {
            let frame = client.frame().expect("both are answered");
            if frame.kind != kind::DATA {
                continue;
            }
            if frame.stream == late {
                of_late += frame.payload.len();
            }
            if frame.stream == early && frame.flags & END_STREAM != 0 {
                is_early_whole = true;
                // The bytes that were on their way when the second request came.
                assert!(of_late < 1 << 20, "{of_late} bytes of the other one have come before");
            }
        }
        assert!(is_early_whole, "the less urgent one was sent first");
    }
}

/// RFC 9218, 7.1: it may be ignored, as every frame of a type that is not known (RFC 9113, 5.5).
#[test]
fn a_priority_that_is_changed_later_does_no_harm() {
    let server = site(json!({}));
    let mut client = Http2::connect(server.address, &[]);
    let update = |stream: u32, value: &[u8]| {
        let payload = [&stream.to_be_bytes()[..], value].concat();
        frame(kind::PRIORITY_UPDATE, 0, 0, &payload)
    };
    // Of a stream that is not there yet, of none, of one that has ended, and of no sense.
    client.send(update(1, b"u=0"));
    client.get(1, "/a.txt");
    assert!(client.answer(1).is_ok());
    let odd = [update(0, b"u=0"), update(1, b"u=7, i"), update(3, &[0xff; 3])];
    client.send([odd.concat(), frame(kind::PRIORITY_UPDATE, 0xff, 5, b"")].concat());
    client.get(3, "/a.txt");
    let answer = client.answer(3);
    assert!(answer.is_ok() && answer.body == b"a file", "{answer:?}");
}

#[test]
fn an_urgent_stream_whose_window_is_shut_holds_up_nobody() {
    let server = site(json!({}));
    // SETTINGS_INITIAL_WINDOW_SIZE: a little
    let mut client = Http2::connect(server.address, &[(4, 1000)]);
    let head = request("GET", "/large.bin", &[("priority", "u=0")]);
    client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &head));
    for stream in [3, 5] {
        let head = request("GET", "/a.txt", &[("priority", "u=7")]);
        client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head));
        let answer = client.answer(stream);
        assert!(answer.is_ok() && answer.body == b"a file", "{answer:?}");
    }
}

#[test]
fn a_script_sends_any_status_of_three_digits() {
    let code = "header('HTTP/1.1 ' . $_GET['status'] . ' Own Words'); echo 'a body';";
    let address = free_address().to_string();
    let changes = json!({"listeners": {&address: {"http2": true}}});
    let server = Site::script("a.php", code).with(changes).serve_at(&address);
    for status in [599, 600, 700, 999] {
        let target = format!("/a.php?status={status}");
        let response = server.get(&target);
        assert_eq!((response.status, response.text().as_str()), (status, "a body"));
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let bytes = client.everything();
        assert!(bytes.starts_with(format!("HTTP/1.1 {status} Own Words\r\n").as_bytes()));
    }
    let mut client = Http2::connect(server.address, &[]);
    client.get(1, "/a.php?status=700");
    let answer = client.answer(1);
    assert!(answer.complete && answer.body == b"a body", "{answer:?}");
    // The text in HPACK, as it is and in Huffman's code.
    let head = answer.heads.last().unwrap();
    let is_700 = [&b"\x03700"[..], b"\x82\x74\x00"]
        .iter()
        .any(|text| head.windows(text.len()).any(|window| window == *text));
    assert!(is_700, "{answer:?}");
    for status in [100, 199, 1000] {
        let response = server.get(&format!("/a.php?status={status}"));
        assert_eq!(response.status, 500, "{status}: {response:?}");
    }
}
