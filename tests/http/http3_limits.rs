//! HTTP/3: hostile clients cost little, and their connections end.

use harness::http3::{Http3, code, frame, kind, request};
use serde_json::json;

use super::http3::site;

#[test]
fn a_head_that_never_ends_times_out_and_one_that_is_too_long_is_refused() {
    let (server, trust) = site(json!({"header_read_timeout": 1}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let head = request("GET", "/a.txt", &[]);
    let mut slow = client.open(&head[..10]);
    // HEADERS of 16 MB, with fields of one byte each.
    let bomb = [&[1, 0x80, 0xff, 0xff, 0xff, 0, 0][..], &[0xd1; 20_000]].concat();
    let long = client.answer(&mut client.open(&bomb));
    assert!(long.complete && !long.is_ok(), "{long:?}");
    let timed_out = client.answer(&mut slow);
    assert!(timed_out.complete && !timed_out.is_ok(), "{timed_out:?}");
    assert_eq!(client.stopped(&mut slow), Some(code::NO_ERROR));
    assert!(client.get("/a.txt").is_ok());
}

#[test]
fn a_client_that_cancels_far_more_than_it_lets_complete_is_cut_off() {
    let (server, trust) = site(json!({}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let head = request("GET", "/endless.php", &[]);
    for _ in 0..2000 {
        if client.connection().close_reason().is_some() {
            break;
        }
        match client.try_request(&head) {
            Some(stream) => stream.cancel(),
            None => break,
        }
    }
    assert_eq!(client.closed(), Some(code::EXCESSIVE_LOAD));
    let other = Http3::connect(server.address, &trust, "localhost");
    assert!(other.get("/a.txt").is_ok(), "others are served");
}

#[test]
fn frames_without_a_use_end_the_connection() {
    let (server, trust) = site(json!({}));
    let client = Http3::connect(server.address, &trust, "localhost");
    let mut upload = client.open(&request("POST", "/sum.php", &[]));
    client.send(&mut upload, &frame(kind::DATA, b"").repeat(20_000));
    assert_eq!(client.closed(), Some(code::EXCESSIVE_LOAD));
    // Long ones of unknown types are skipped.
    let client = Http3::connect(server.address, &trust, "localhost");
    let unknown = frame(0x21, &[0; 200_000]);
    let bytes = [&unknown[..], &request("GET", "/a.txt", &[]), &unknown].concat();
    assert!(client.answer(&mut client.request(&bytes)).is_ok());
}
