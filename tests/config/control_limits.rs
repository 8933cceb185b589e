//! Limits of the control API: documents that are too large, too deep or too many at once cost a
//! bounded amount of memory, and are answered.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use harness::control::{self, Answer};
use harness::time::{Stopwatch, patience};
use harness::{Server, Site, processes};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

/// The most memory that the router has had, in bytes.
fn peak(server: &Server) -> u64 {
    processes::peak_memory(server.router())
}

/// Puts a document of nearly 16 MiB with many values, which says `status`.
fn put_large_document(server: &Server, status: u16) {
    let step = |number: usize| {
        format!("{{\"match\":{{\"uri\":\"/{number}\"}},\"action\":{{\"return\":{status}}}}}")
    };
    let steps: Vec<_> = (0..3_000).map(step).collect();
    let values = format!("{{\"listeners\":{{}},\"routes\":[{}]}}\n", steps.join(",\n"));
    // Never the whole of it, as there are many of them at once.
    let remarks =
        "// and a remark that says nothing for as long as it takes to say it\n".repeat(1000);
    let count = 16_000_000 / remarks.len();
    let length = values.len() + count * remarks.len();
    let head = "PUT /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length";
    let start = format!("{head}: {length}\r\n\r\n{values}");
    send_pieces(server, &start, remarks.as_bytes(), count).succeeded();
}

/// Sends a head and as many pieces of a body as the server takes.
fn send_pieces(server: &Server, head: &str, piece: &[u8], pieces: usize) -> Answer {
    let stream = UnixStream::connect(server.site.control_socket()).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let mut writer = &stream;
    writer.write_all(head.as_bytes()).unwrap();
    let _ = (0..pieces).all(|_| writer.write_all(piece).is_ok());
    control::exchange(&stream, b"").unwrap()
}

#[test]
fn fifty_writers_of_large_documents_take_the_memory_of_one() {
    let server = Site::new().controlled().serve();
    put_large_document(&server, 200);
    let (one, begun) = (peak(&server), Instant::now());
    std::thread::scope(|scope| {
        let server = &server;
        for number in 0..50 {
            scope.spawn(move || put_large_document(server, 200 + number));
        }
        // A client with a short request does not wait for all of them to have sent theirs.
        for _ in 0..5 {
            server.control("GET", "/status", "").succeeded();
        }
    });
    let fifty = peak(&server);
    println!("one {} MiB, fifty {} MiB, {:?}", one / MIB, fifty / MIB, begun.elapsed());
    // The text, the tree, the configuration that runs, the next one; not fifty texts.
    assert!(fifty < 160 * MIB, "{} MiB, {} MiB", one / MIB, fifty / MIB);
    // The document in the end is one of them, whole.
    let status = |at: &str| {
        server.control("GET", &format!("/config/routes/{at}/action/return"), "").succeeded()
    };
    assert_eq!(status("0"), status("2999"));
    let stored = std::fs::read(server.site.state().join("conf.json")).unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(stored, server.control("GET", "/config", "").succeeded());
}

#[test]
fn a_hundred_megabytes_are_refused_before_they_are_read() {
    let server = Site::new().controlled().serve();
    let piece = vec![b' '; 1_000_000];
    let head = "PUT /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let before = peak(&server);
    let announced = format!("{head}Content-Length: 100000000\r\n\r\n");
    // Without the rest of the body, and with all of it.
    for pieces in [0, 100] {
        let answer = send_pieces(&server, &announced, &piece, pieces);
        assert_eq!((answer.status, answer.text("error")), (413, "Request body is too large."));
    }
    // In chunks, its length shows as it comes.
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    let chunk = [b"f4240\r\n", &piece[..], b"\r\n"].concat();
    for pieces in [17, 100] {
        assert_eq!(send_pieces(&server, &chunked, &chunk, pieces).status, 413);
    }
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB", grown / MIB);
}

#[test]
fn json_nested_100000_deep_is_refused_with_the_place() {
    let server = Site::new().controlled().serve();
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for target in ["/config", "/config/routes"] {
            let answer = server.control("PUT", target, &text);
            assert_eq!((answer.status, answer.text("error")), (400, "Invalid JSON."));
            assert!(answer.text("detail").contains("128 deep"), "{answer:?}");
            assert!(answer.body["location"]["column"].is_u64(), "{answer:?}");
        }
        let unclosed = server.control("PUT", "/config", open.repeat(100_000));
        assert_eq!(unclosed.status, 400);
    }
    // A path as deep does no harm either.
    let path = format!("/config{}", "/a".repeat(3000));
    assert_eq!(server.control("GET", &path, "").status, 404);
    assert_eq!(server.control("PUT", &path, "1").status, 404);
}

#[test]
fn changes_at_the_same_time_are_carried_out_one_after_the_other() {
    let server = Site::new().controlled().serve();
    server.put("/config", &json!({"listeners": {}, "routes": []}));
    let step = json!({"action": {"return": 204}}).to_string();
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| server.control("POST", "/config/routes", &step).succeeded());
        }
    });
    let routes = server.control("GET", "/config/routes", "").succeeded();
    assert_eq!(routes.as_array().map(Vec::len), Some(50), "none of them was lost");
}

#[test]
fn a_writer_who_takes_long_stops_nobody() {
    let server = Site::new().controlled().serve();
    let slow = UnixStream::connect(server.site.control_socket()).unwrap();
    let head = "PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n {";
    (&slow).write_all(head.as_bytes()).unwrap();
    // Silent connections, as many as are served at once and more.
    let idle: Vec<_> =
        (0..40).map(|_| UnixStream::connect(server.site.control_socket()).unwrap()).collect();
    let begun = Stopwatch::start();
    server.put("/config", &json!({"routes": []}));
    server.control("GET", "/status", "").succeeded();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop((idle, slow));
}
