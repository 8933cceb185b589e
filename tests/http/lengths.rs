//! Lengths of responses: parts of files, files that change meanwhile, and lengths that a script
//! announces.

use std::fs;
use std::time::Duration;

use harness::{Site, processes};

use super::smuggling::site;

#[test]
fn overflowing_and_overlapping_ranges_cost_nothing() {
    let server = site().file("big.bin", vec![7; 1 << 20]).serve();
    let before = processes::private_memory(server.router());
    let overlapping = vec!["0-"; 1300].join(",");
    let inner: Vec<_> = (0..1000).map(|n| format!("{n}-1000000")).collect();
    let ranges = [
        "bytes=0-18446744073709551615",
        "bytes=-18446744073709551615",
        "bytes=9223372036854775800-9223372036854775807",
        "bytes=-9223372036854775608,-9223372036854775000",
        "bytes=18446744073709551616-18446744073709551617",
        "bytes=1-0",
        "bytes=-0",
        &format!("bytes={overlapping}"),
        &format!("bytes={}", inner[..600].join(",")),
    ]
    .map(str::to_owned);
    for range in ranges {
        for _ in 0..20 {
            let response = server.send(format!(
                "GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: {range}\r\n\r\n"
            ));
            assert!(matches!(response.status, 200 | 206 | 416), "{range}: {response:?}");
            assert!(response.body.len() <= (1 << 20) + 4096, "{range}: {}", response.body.len());
        }
    }
    let after = processes::private_memory(server.router());
    assert!(after < before + (16 << 20), "the router has grown from {before} to {after}");
}

#[test]
fn a_script_cannot_write_into_the_next_response() {
    let server = Site::new()
        .file(
            "more.php",
            "<?php header('Content-Length: 3'); echo 'abc';
             if (isset($_GET['flush'])) flush();
             echo \"HTTP/1.1 200 OK\\r\\nX-Evil: 1\\r\\nContent-Length: 4\\r\\n\\r\\nevil\";
             if (isset($_GET['big'])) echo str_repeat('x', 1 << 20);",
        )
        .file("next.php", "<?php echo 'next';")
        .serve();
    for query in ["", "?flush", "?big", "?flush&big"] {
        let mut client = server.connect();
        client.send(format!(
            "GET /more.php{query} HTTP/1.1\r\nHost: a\r\n\r\n\
             GET /next.php HTTP/1.1\r\nHost: a\r\n\r\n"
        ));
        let first = client.response();
        assert_eq!((first.status, first.text().as_str()), (200, "abc"), "{query}");
        match client.next_response() {
            None => {}
            Some(next) => assert_eq!(next.text(), "next", "{query}: {next:?}"),
        }
    }
    assert_eq!(server.get("/next.php").text(), "next");
}

#[test]
fn a_client_is_not_left_waiting_for_what_a_script_announced() {
    let code = "header('Content-Length: 10'); echo 'abc'; if (isset($_GET['flush'])) flush();";
    let server = Site::script("less.php", code).serve();
    for query in ["", "?flush"] {
        let mut client = server.connect();
        let response = client.get(&format!("/less.php{query}"));
        assert!(response.cut && response.body == b"abc", "{response:?}");
        assert!(client.is_closed());
    }
    let head = server.connect().send("HEAD /less.php HTTP/1.1\r\nHost: a\r\n\r\n").head_response();
    assert_eq!(head.field("Content-Length"), Some("10"), "the answer to HEAD says so too");
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection() {
    let server = site().file("big.bin", vec![7; 32 << 20]).serve();
    let mut client = server.connect();
    client.send("GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for("\r\n\r\n");
    let file = fs::File::options().write(true).open(server.site.root().join("big.bin")).unwrap();
    file.set_len(1000).unwrap();
    let response = client.response();
    assert!(response.cut, "{response:?}");
    let router = server.router();
    let before = processes::processor_time(router);
    std::thread::sleep(Duration::from_millis(500));
    let spent = processes::processor_time(router) - before;
    assert!(spent < 0.25, "nothing spins: {spent} s of processor time in half a second");
    assert_eq!(server.get("/a.txt").text(), "some file");
}
