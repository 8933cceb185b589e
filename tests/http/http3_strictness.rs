//! HTTP/3: what a client must not send, with the code that the standard demands.

use std::sync::Arc;
use std::time::Duration;

use harness::Server;
use harness::http3::{Http3, code, frame, kind, request, section};
use rustls::ClientConfig;
use serde_json::json;

use super::http3::site;

/// Time for the server to close a connection that it should leave open.
const PATIENCE: Duration = Duration::from_millis(100);

fn connect(server: &Server, trust: &Arc<ClientConfig>) -> Http3 {
    Http3::connect(server.address, trust, "localhost")
}

#[test]
fn malformed_requests_are_refused_and_the_connection_goes_on() {
    let (server, trust) = site(json!({}));
    let client = connect(&server, &trust);
    let head = |path: &str, fields: &[(&str, &str)]| request("POST", path, fields);
    let data = |bytes: &[u8]| frame(kind::DATA, bytes);
    let length = |value: &'static str| [("content-length", value)];
    let twice = [("content-length", "3"), ("content-length", "3")];
    let pseudo = frame(kind::HEADERS, &section(&[(":path", "/")]));
    for path in ["/facts.php", "/a.txt"] {
        for frames in [
            vec![head(path, &length("4")), data(b"abc")],
            vec![head(path, &length("2")), data(b"abc")],
            vec![head(path, &length("3"))],
            vec![head(path, &twice), data(b"abc")],
            vec![head(path, &length("+3")), data(b"abc")],
            vec![head(path, &[("connection", "close")])],
            vec![head(path, &[("transfer-encoding", "chunked")])],
            vec![head(path, &[("upgrade", "websocket")])],
            vec![head(path, &[("te", "gzip")])],
            vec![head(path, &[("x", "y"), (":path", "/")])],
            vec![head(path, &[(":path", "/")])],
            vec![head(path, &[(":status", "200")])],
            vec![head(path, &[("X-A", "b")])],
            vec![head(path, &[("x-a", "b\r\nc: d")])],
            vec![head(path, &[("host", "other")])],
            vec![head(path, &length("3")), data(b"abc"), pseudo.clone()],
        ] {
            let answer = client.answer(&mut client.request(&frames.concat()));
            let is_refused = answer.has_status(67) || answer.reset == Some(code::MESSAGE_ERROR);
            assert!(is_refused, "{frames:x?}: {answer:?}");
        }
    }
    for fields in [
        &[(":method", "GET"), (":authority", "localhost"), (":path", "/a.txt")][..],
        &[(":method", "GET"), (":scheme", "https"), (":path", "/a.txt")],
        &[(":method", "GET"), (":scheme", "https"), (":authority", "u@localhost"), (":path", "/")],
        &[(":method", "GET"), (":scheme", "https"), ("x", "y"), (":authority", "localhost")],
    ] {
        let head = frame(kind::HEADERS, &section(fields));
        let answer = client.answer(&mut client.request(&head));
        assert!(answer.has_status(67), "{fields:?}: {answer:?}");
    }
    let incomplete = client.answer(&mut client.request(&frame(0x21, b"reserved")));
    assert_eq!(incomplete.reset, Some(code::REQUEST_INCOMPLETE));
    assert!(client.get("/a.txt").is_ok());
}

#[test]
fn frames_in_the_wrong_place_on_a_request_end_the_connection() {
    let (server, trust) = site(json!({}));
    let head = request("POST", "/a.txt", &[]);
    let data = frame(kind::DATA, b"x");
    let trailer = frame(kind::HEADERS, &section(&[("x", "y")]));
    let unexpected = code::FRAME_UNEXPECTED;
    let decompression = code::QPACK_DECOMPRESSION_FAILED;
    let section = |bytes: &[u8]| vec![frame(kind::HEADERS, bytes)];
    let mut cases = vec![
        (vec![data.clone()], unexpected),
        (vec![head.clone(), trailer.clone(), data.clone()], unexpected),
        (vec![head.clone(), data.clone(), trailer.clone(), trailer.clone()], unexpected),
        (vec![head[..head.len() - 1].to_vec()], code::FRAME_ERROR),
        (vec![head.clone(), data[..1].to_vec()], code::FRAME_ERROR),
        (section(&[]), decompression),
        (section(&[1, 0]), decompression),
        (section(&[0, 0x80]), decompression),
        (section(&[0, 0, 0x80]), decompression),
        (section(&[0, 0, 0x10]), decompression),
        (section(&[0, 0, 0xff, 36]), decompression),
        (section(&[0, 0, 0x51]), decompression),
        (section(&[0, 0, 0x51, 0x81, 0]), decompression),
        (section(&[&[0, 0, 0xff][..], &[0xff; 12]].concat()), decompression),
    ];
    for kind in [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd, 0xf0700] {
        cases.push((vec![head.clone(), frame(kind, &[0])], unexpected));
    }
    for (frames, expected) in cases {
        let client = connect(&server, &trust);
        client.request(&frames.concat());
        assert_eq!(client.closed(), Some(expected), "{frames:x?}");
    }
}

#[test]
fn streams_that_a_client_opens_are_judged_and_stay_open() {
    let (server, trust) = site(json!({}));
    let control = |frames: &[(u64, &[u8])]| {
        let frames: Vec<_> = frames.iter().map(|(kind, bytes)| frame(*kind, bytes)).collect();
        [&[0][..], &frames.concat()].concat()
    };
    let settings = (kind::SETTINGS, &[][..]);
    let push = kind::MAX_PUSH_ID;
    for (streams, expected) in [
        (vec![control(&[settings]), control(&[settings])], Some(code::STREAM_CREATION_ERROR)),
        (vec![vec![2], vec![2]], Some(code::STREAM_CREATION_ERROR)),
        (vec![vec![3], vec![3]], Some(code::STREAM_CREATION_ERROR)),
        (vec![vec![1, 0]], Some(code::STREAM_CREATION_ERROR)),
        (vec![control(&[(kind::GOAWAY, &[0])])], Some(code::MISSING_SETTINGS)),
        (vec![control(&[settings, settings])], Some(code::FRAME_UNEXPECTED)),
        (vec![control(&[settings, (kind::DATA, b"x")])], Some(code::FRAME_UNEXPECTED)),
        (vec![control(&[settings, (kind::HEADERS, &[0, 0])])], Some(code::FRAME_UNEXPECTED)),
        (vec![control(&[settings, (0x6, &[0; 8])])], Some(code::FRAME_UNEXPECTED)),
        (vec![control(&[(kind::SETTINGS, &[4, 0])])], Some(code::SETTINGS_ERROR)),
        (vec![control(&[(kind::SETTINGS, &[6, 0, 6, 0])])], Some(code::SETTINGS_ERROR)),
        (vec![control(&[(kind::SETTINGS, &[6])])], Some(code::FRAME_ERROR)),
        (vec![control(&[settings, (push, &[5]), (push, &[4])])], Some(code::ID_ERROR)),
        (vec![control(&[settings, (kind::CANCEL_PUSH, &[1])])], Some(code::ID_ERROR)),
        (
            vec![control(&[settings, (kind::GOAWAY, &[0]), (kind::GOAWAY, &[4])])],
            Some(code::ID_ERROR),
        ),
        (vec![control(&[settings, (kind::GOAWAY, &[0, 0])])], Some(code::FRAME_ERROR)),
        (vec![control(&[settings, (push, &[])])], Some(code::FRAME_ERROR)),
        (vec![control(&[settings, (kind::PRIORITY_UPDATE, &[2])])], Some(code::ID_ERROR)),
        (vec![vec![2, 0x3f, 0xe1, 0x1f]], Some(code::QPACK_ENCODER_STREAM_ERROR)),
        (vec![vec![2, 0xc0, 0]], Some(code::QPACK_ENCODER_STREAM_ERROR)),
        (vec![vec![2, 0x00]], Some(code::QPACK_ENCODER_STREAM_ERROR)),
        (vec![vec![3, 0x80]], Some(code::QPACK_DECODER_STREAM_ERROR)),
        (vec![vec![3, 0x01]], Some(code::QPACK_DECODER_STREAM_ERROR)),
        // What is permitted.
        (
            vec![
                control(&[settings, (push, &[5]), (0x21, &[0; 300])]),
                vec![2, 0x20],
                vec![3, 0x40],
            ],
            None,
        ),
        (vec![control(&[(kind::SETTINGS, &[1, 0x40, 0x40, 0x21, 7])]), vec![0x21, 1, 2]], None),
    ] {
        let client = Http3::connect_silently(server.address, &trust, "localhost");
        let open: Vec<_> = streams.iter().map(|bytes| client.uni(bytes)).collect();
        match expected {
            Some(_) => assert_eq!(client.closed(), expected, "{streams:x?}"),
            None => {
                assert!(client.get("/a.txt").is_ok(), "{streams:x?}");
                assert_eq!(client.closed_within(PATIENCE), None, "{streams:x?}");
            }
        }
        drop(open);
    }
    for (bytes, is_reset) in
        [(control(&[settings]), true), (control(&[settings]), false), (vec![2], false)]
    {
        let client = Http3::connect_silently(server.address, &trust, "localhost");
        let mut stream = client.uni(&bytes);
        assert!(client.get("/a.txt").is_ok());
        if is_reset {
            stream.reset(0u32.into()).unwrap();
        } else {
            stream.finish().unwrap();
        }
        assert_eq!(client.closed(), Some(code::CLOSED_CRITICAL_STREAM));
    }
}
