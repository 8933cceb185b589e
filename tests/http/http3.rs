//! HTTP/3: behaviour that it shares with HTTP/2.

use std::fs;
use std::sync::Arc;

use harness::http3::{Http3, code, frame, kind, request, section};
use harness::tls::Authority;
use harness::{Server, Site, eventually, free_address};
use serde_json::{Value, json};

use super::http2::FACTS;

const HINTS: &str = "<?php header('Link: </a.css>; rel=preload'); \
    if (function_exists('headers_send')) { headers_send(103); } echo 'after';";
const SUM: &str = "<?php echo md5(file_get_contents('php://input'));";
const ENDLESS: &str = "<?php ignore_user_abort(false); touch(getenv('DATA') . '/began'); \
    register_shutdown_function(fn () => touch(getenv('DATA') . '/ended')); \
    while (true) { echo 'x'; ob_flush(); flush(); usleep(20000); }";

/// A site that speaks HTTP/3, and the settings of a client that trusts it.
pub fn site(http: Value) -> (Server, Arc<rustls::ClientConfig>) {
    let authority = Authority::new();
    let site = Site::new()
        .file("a.txt", "a file")
        .file("large.bin", vec![b'x'; 3 << 20])
        .file("facts.php", FACTS)
        .file("hints.php", HINTS)
        .file("sum.php", SUM)
        .file("endless.php", ENDLESS);
    let (chain, key) = authority.issue(&["localhost"]);
    let pair = site.data().join("pair.pem");
    fs::write(&pair, chain + &key).unwrap();
    let address = free_address().to_string();
    let listener = json!({"tls": {"certificate": {"chain": pair, "key": pair}}, "http3": true});
    let changes = json!({"listeners": {&address: listener}, "settings": {"http": http}});
    (site.with(changes).serve_at(&address), authority.client(None, &[]))
}

#[test]
fn files_and_scripts_are_served_as_over_http_2() {
    let (server, trust) = site(json!({}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let file = client.get("/a.txt");
    assert!(file.is_ok() && file.body == b"a file", "{file:?}");
    assert_eq!(client.get("/large.bin").body.len(), 3 << 20);
    let fields = [("cookie", "a=1"), ("cookie", "b=2"), ("content-length", "6")];
    let upload = [
        request("POST", "/facts.php", &fields),
        frame(kind::DATA, b"foo"),
        frame(0x21, b"reserved"),
        frame(kind::DATA, b""),
        frame(kind::DATA, b"bar"),
    ];
    let facts = client.answer(&mut client.request(&upload.concat()));
    assert!(facts.is_ok(), "{facts:?}");
    assert_eq!(facts.text(), "HTTP/3.0 POST a=1; b=2 6");
    let range = client.request(&request("GET", "/a.txt", &[("range", "bytes=2-3")]));
    let range = client.answer(&mut { range });
    assert!(range.has_status(65) && range.body == b"fi", "{range:?}");
    let missing = client.get("/missing");
    assert!(missing.has_status(27), "{missing:?}");
    // A response to HEAD has no body.
    let head = client.answer(&mut client.request(&request("HEAD", "/a.txt", &[])));
    assert!(head.is_ok() && head.body.is_empty());
}

#[test]
fn many_requests_are_answered_at_once_and_a_client_may_move() {
    let (server, trust) = site(json!({}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let get = |path: &str| client.request(&request("GET", path, &[]));
    let mut streams: Vec<_> = (0..80).map(|_| get("/a.txt")).collect();
    for stream in &mut streams {
        assert_eq!(client.answer(stream).body, b"a file");
    }
    let mut large = get("/large.bin");
    client.change_port();
    assert_eq!(client.answer(&mut large).body.len(), 3 << 20);
    // Far more than may be open at a time.
    for _ in 0..200 {
        assert!(client.get("/a.txt").is_ok());
    }
}

#[test]
fn uploads_have_any_size_and_early_hints_come_first() {
    let (server, trust) = site(json!({"max_body_size": 20 << 20}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let body = vec![b'u'; 5 << 20];
    let length = body.len().to_string();
    let mut upload = client.open(&request("POST", "/sum.php", &[("content-length", &length)]));
    for piece in body.chunks(100_000) {
        assert!(client.send(&mut upload, &frame(kind::DATA, piece)));
    }
    upload.finish();
    assert_eq!(client.answer(&mut upload).text(), "88620508b0c92ba199c8c77bfecc865e");
    let hints = client.get("/hints.php");
    assert!(hints.is_ok() && hints.body == b"after", "{hints:?}");
    assert!(hints.heads.len() <= 2);
}

#[test]
fn an_upload_that_is_too_long_is_answered_and_stopped_without_an_error() {
    let (server, trust) = site(json!({"max_body_size": 1000}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let mut upload = client.open(&request("POST", "/sum.php", &[("content-length", "900000")]));
    assert!(client.send(&mut upload, &frame(kind::DATA, &[b'x'; 500])));
    let answer = client.answer(&mut upload);
    assert!(answer.complete && !answer.is_ok(), "{answer:?}");
    assert_eq!(client.stopped(&mut upload), Some(code::NO_ERROR));
    assert!(client.get("/a.txt").is_ok(), "the connection goes on");
}

#[test]
fn a_client_that_cancels_ends_its_script() {
    let (server, trust) = site(json!({}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let stream = client.request(&request("GET", "/endless.php", &[]));
    let data = server.site.data();
    eventually("the script runs", || data.join("began").exists().then_some(()));
    stream.cancel();
    eventually("the script has ended", || data.join("ended").exists().then_some(()));
    assert!(client.get("/a.txt").is_ok(), "the connection goes on");
}

#[test]
fn trailers_of_requests_are_taken_and_are_no_fields() {
    let (server, trust) = site(json!({}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let trailer = frame(kind::HEADERS, &section(&[("cookie", "a=1")]));
    let upload = [request("POST", "/facts.php", &[]), frame(kind::DATA, b"four"), trailer].concat();
    let facts = client.answer(&mut client.request(&upload));
    assert_eq!(facts.text(), "HTTP/3.0 POST  4");
}
