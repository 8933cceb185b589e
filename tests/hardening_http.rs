//! Attacks on the protocol, against the whole server: requests to files and to PHP on the same
//! connections.
//! A number in a name is the class of attack; unit tests use the same numbers.

mod harness;

use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use harness::client::Client;
use harness::{Server, Site, eventually, processes};
use serde_json::json;

/// Says what it got: which request it was, and its body.
const ECHO: &str = "echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' [',
    file_get_contents('php://input'), ']';";

fn site() -> Site {
    Site::script("a.php", ECHO)
        .file("a.txt", "some file")
        .with(json!({"settings": {"http": {"chunked_transform": true}}}))
}

// -- 28: ranges --

#[test]
fn hardening_28_overflowing_and_overlapping_ranges_cost_nothing() {
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

// -- 29: smuggling --

/// What an attacker wants to be taken for a request of its own.
const SMUGGLED: &str = "GET /a.php?smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Ends a connection that the request before has not ended.
const LAST: &str = "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Sends a request and a last one, and takes all responses until the server closes the
/// connection.
fn answers(server: &Server, request: &str) -> (Vec<u16>, String) {
    let mut client = server.connect();
    let _ = client.try_send(format!("{request}{LAST}"));
    let (mut statuses, mut text) = (Vec::new(), String::new());
    while let Some(response) = client.next_response() {
        statuses.push(response.status);
        text += &response.text();
    }
    (statuses, text)
}

#[test]
fn hardening_29_a_body_that_can_be_framed_in_two_ways_is_refused() {
    let server = site().serve();
    let framings = [
        "Content-Length: 6\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 6",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding:\x0bchunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding : chunked",
        "X: y\r\n Transfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chu\rnked",
        "Content-Length: 0\r\nContent-Length: 40",
        "Content-Length: 0, 40",
        "Content-Length: +0",
        "Content-Length: -1",
        "Content-Length: 0x0",
        "Content-Length: 0 0",
        "Content-Length: ",
        "Content-Length: 18446744073709551656",
        "Content-Length : 0",
        "Content-Length:\x000",
        "Content\0Length: 0",
    ];
    for target in ["/a.php", "/a.txt"] {
        for framing in framings {
            let request = format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n0\r\n\r\n{SMUGGLED}"
            );
            let (statuses, text) = answers(&server, &request);
            assert!(!text.contains("smuggled"), "{target} {framing:?}: {text}");
            assert!(
                matches!(statuses.as_slice(), [400 | 411 | 501]),
                "{target} {framing:?}: {statuses:?} {text}"
            );
        }
    }
}

#[test]
fn hardening_29_old_versions_cannot_bring_chunks() {
    let server = site().serve();
    let head = "POST /a.php HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
    for more in ["", "Connection: keep-alive\r\n"] {
        let (statuses, text) = answers(&server, &format!("{head}{more}\r\n0\r\n\r\n{SMUGGLED}"));
        assert!(!text.contains("smuggled"), "{text}");
        assert!(matches!(statuses.as_slice(), [400 | 411 | 501]), "{statuses:?}");
    }
}

#[test]
fn hardening_29_a_body_that_nobody_reads_is_never_taken_for_a_request() {
    let server = site().serve();
    // Neither a file nor an error wants a body, and a script need not read it.
    for (target, status) in [("/a.txt", 405), ("/none", 404), ("/a.php/x", 200), ("/.env", 404)] {
        let length = SMUGGLED.len();
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{SMUGGLED}"
        );
        let (statuses, text) = answers(&server, &request);
        assert!(!text.contains("GET /a.php?smuggled []"), "{target}: {text}");
        assert_eq!(statuses.first(), Some(&status), "{target}: {text}");
        let size = format!("{length:x}");
        let chunked = format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             {size}\r\n{SMUGGLED}\r\n0\r\n\r\n"
        );
        let (_, text) = answers(&server, &chunked);
        assert!(!text.contains("GET /a.php?smuggled []"), "{target}: {text}");
    }
}

#[test]
fn hardening_29_a_body_that_was_only_expected_is_never_taken_for_a_request() {
    let server = site().serve();
    for target in ["/a.txt", "/none"] {
        let mut client = server.connect();
        client.send(format!(
            "PUT {target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
             Content-Length: {}\r\n\r\n",
            SMUGGLED.len()
        ));
        assert!(matches!(client.response().status, 404 | 405), "{target}");
        // The client may send the body all the same.
        let _ = client.try_send(SMUGGLED);
        if let Some(next) = client.next_response() {
            panic!("{target}: {next:?}");
        }
    }
}

#[test]
fn hardening_29_nothing_but_http_follows_a_request() {
    let server = site().serve();
    // No tunnel is opened by asking for one.
    for head in [
        "GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
    ] {
        let (statuses, text) = answers(&server, &format!("{head}\x01\x02 no HTTP\r\n\r\n"));
        assert!(!statuses.contains(&101), "{head}: {statuses:?} {text}");
        assert!(statuses.last().is_some_and(|last| *last >= 400), "{head}: {statuses:?} {text}");
    }
}

// -- 33, 34: heads --

#[test]
fn hardening_33_a_host_that_can_be_read_in_two_ways_is_refused() {
    let server = site().serve();
    let requests = [
        "GET /a.php HTTP/1.1\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a, b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: u:p@a\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a:x\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a:99999\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\x00\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: <script>\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: [::1\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET http://u@a/a.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http:///a.php HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for request in requests {
        let (statuses, text) = answers(&server, request);
        assert_eq!(statuses, [400], "{request:?}: {text}");
    }
}

#[test]
fn hardening_33_lenient_reading_leaves_nothing_to_read_in_two_ways() {
    let code = "echo json_encode([$_SERVER['REQUEST_URI'], $_GET, $_SERVER['HTTP_HOST'] ?? null]);";
    let server = Site::script("a.php", code)
        .file("a.txt", "some file")
        .with(json!({"settings": {"http": {"strict_requests": false}}}))
        .serve();
    for (request, seen) in [
        ("GET /a.php HTTP/1.1\r\n\r\n", r#"["\/a.php",[],null]"#),
        ("GET  /a.php  HTTP/1.1\r\n\r\n", r#"["\/a.php",[],null]"#),
        (
            "GET /a.php?b= c  d HTTP/1.1\r\nHost: a\r\n\r\n",
            r#"["\/a.php?b=%20c%20%20d",{"b":" c  d"},"a"]"#,
        ),
        (
            "GET /a.php?b HTTP/1.1 HTTP/1.1\r\nHost: <a>\r\n\r\n",
            r#"["\/a.php?b%20HTTP\/1.1",{"b_HTTP\/1_1":""},"%3Ca%3E"]"#,
        ),
    ] {
        let (statuses, text) = answers(&server, request);
        assert_eq!((statuses.as_slice(), &*text), (&[200, 200][..], &*format!("{seen}some file")));
    }
    for request in [
        "GET /a.php HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: ..\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\0\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET /a \0.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a \t.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a \r.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / /../../a.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a.php  HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET http://a b/a.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET   HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let (statuses, text) = answers(&server, request);
        assert_eq!(statuses, [400], "{request:?}: {text}");
    }
}

#[test]
fn hardening_33_a_script_is_told_one_host_only() {
    let code = "echo $_SERVER['HTTP_HOST'], ' ', $_SERVER['SERVER_NAME'];";
    let server = Site::script("host.php", code).serve();
    let response = server.send("GET http://b/host.php HTTP/1.1\r\nHost: a\r\n\r\n");
    // RFC 9112, 3.2.2: the target's host counts. Refusing the request is right as well.
    assert!(response.status == 400 || response.text() == "b b", "{response:?}");
}

#[test]
fn hardening_34_heads_without_bounds_are_refused_in_bounded_memory() {
    let server = site().serve();
    let router = server.router();
    server.get("/a.php");
    let before = processes::private_memory(router);
    let long = "x".repeat(1 << 20);
    let many: String = (0..10_000).map(|n| format!("X-{n}: y\r\n")).collect();
    let requests = [
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431),
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{long}: x\r\n\r\n"), 431),
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431),
        (format!("GET /a.php?{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\nCookie: {long}\r\n\r\n"), 431),
    ];
    let mut open = Vec::new();
    for _ in 0..20 {
        for (request, status) in &requests {
            let mut client = server.connect();
            let _ = client.try_send(request);
            assert_eq!(client.response().status, *status, "{}", &request[..40]);
            open.push(client);
        }
    }
    let after = processes::private_memory(router);
    assert!(after < before + (24 << 20), "the router has grown from {before} to {after}");
    // A long line that never ends is refused as well.
    let mut client = server.connect();
    for _ in 0..64 {
        if client.try_send(vec![b'x'; 16 << 10]).is_err() {
            break;
        }
    }
    assert!(matches!(client.response().status, 400 | 414 | 431));
}

// -- 35: slow clients --

#[test]
fn hardening_35_slow_clients_hold_up_nobody_and_are_cut() {
    let server = site()
        .file("big.bin", vec![7; 8 << 20])
        .with(json!({"settings": {"http": {
            "header_read_timeout": 6, "body_read_timeout": 6, "send_timeout": 6,
        }}}))
        .serve();
    let mut slow = Vec::new();
    for n in 0..300 {
        let mut client = server.connect();
        client.send(match n % 3 {
            0 => "GET /a.php HTTP/1.1\r\nHost: a\r\nX: y",
            1 => "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nsome",
            _ => "GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        });
        slow.push(client);
    }
    let mut client = server.connect();
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(1) {
        let request = Instant::now();
        assert_eq!(client.get("/a.php").status, 200);
        assert_eq!(client.get("/a.txt").status, 200);
        longest = longest.max(request.elapsed());
    }
    assert!(longest < Duration::from_secs(20), "a request waited {longest:?} for slow clients");
    let (files, heads_and_bodies): (Vec<_>, Vec<_>) =
        slow.into_iter().enumerate().partition(|(n, _)| n % 3 == 2);
    for (n, mut client) in heads_and_bodies {
        assert_eq!(client.response().status, 408, "client {n}");
        assert!(client.is_closed(), "client {n}");
    }
    // These must not read before their time is over.
    std::thread::sleep(Duration::from_secs(3));
    for (n, mut client) in files {
        assert!(client.everything().len() < 8 << 20, "client {n} was cut");
    }
}

// -- 52: announced lengths --

#[test]
fn hardening_52_a_script_cannot_write_into_the_next_response() {
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
fn hardening_52_a_client_is_not_left_waiting_for_what_a_script_announced() {
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

// -- 53: files that change --

#[test]
fn hardening_53_a_file_that_shrinks_while_it_is_sent_ends_the_connection() {
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

// -- 54: chunks --

#[test]
fn hardening_54_chunks_are_read_as_the_rfc_says_or_not_at_all() {
    let server = site().serve();
    let post = |body: &str| {
        answers(
            &server,
            &format!("POST /a.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
        )
    };
    for whole in [
        "5\r\nhello\r\n0\r\n\r\n",
        "5;ext\r\nhello\r\n0\r\n\r\n",
        "5;ext=\"a;b\\\"c\"\r\nhello\r\n0;last\r\n\r\n",
        "0005\r\nhello\r\n000\r\nTrailer: x\r\n\r\n",
        "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    ] {
        let (statuses, text) = post(whole);
        let expected = "POST /a.php [hello]some file";
        assert_eq!((statuses, text.as_str()), (vec![200, 200], expected), "{whole:?}");
    }
    for broken in [
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\0\r\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;a\0b\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\n\r\n",
    ] {
        let (statuses, text) = post(&format!("{broken}{SMUGGLED}"));
        assert!(!text.contains("smuggled []"), "{broken:?}: {text}");
        assert!(matches!(statuses.as_slice(), [400 | 413]), "{broken:?}: {statuses:?} {text}");
    }
}

// -- 56, 57: clients that do not read, clients that leave --

#[test]
fn hardening_56_clients_that_do_not_read_hold_no_worker_and_little_memory() {
    const CLIENTS: usize = 60;
    const SIZE: usize = 4 << 20;
    let code = format!(
        "$piece = str_repeat('x', 65536);
        for ($i = 0; $i < {}; $i++) echo $piece;",
        SIZE / 65536
    );
    let server =
        Site::script("big.php", &code).file("small.php", "<?php echo 'small';").workers(4).serve();
    let router = server.router();
    server.get("/small.php");
    let before = processes::private_memory(router);
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /big.php HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    // Behind all of them in the queue: it is answered because none of them holds a worker.
    assert_eq!(server.get("/small.php").text(), "small");
    for _ in 0..20 {
        assert_eq!(server.get("/small.php").text(), "small");
    }
    let grown = processes::private_memory(router).saturating_sub(before);
    // 128 KiB each by design, and what the allocator and the sockets need beside.
    assert!(grown < CLIENTS as u64 * (256 << 10), "the router has grown by {grown} bytes");
    for client in clients.iter_mut().take(3) {
        let response = client.response();
        assert!(response.body.len() == SIZE && !response.cut, "those that read get all of it");
    }
}

#[test]
fn hardening_57_a_script_whose_client_has_gone_ends_and_its_worker_is_free() {
    let server = Site::new()
        .file(
            "endless.php",
            "<?php register_shutdown_function(function () {
                 file_put_contents(getenv('DATA') . '/ended', connection_aborted());
             });
             touch(getenv('DATA') . '/begun');
             while (true) { echo str_repeat('x', 100); flush(); usleep(10000); }",
        )
        .file("free.php", "<?php echo 'free';")
        .workers(1)
        .with(json!({}))
        .serve();
    let worker = server.workers();
    for reset in [false, true] {
        let mut client = server.connect();
        client.send("GET /endless.php HTTP/1.1\r\nHost: a\r\n\r\n");
        client.wait_for("xxxx");
        if reset {
            leave_with_reset(client);
        } else {
            drop(client);
        }
        let begun = Instant::now();
        assert_eq!(server.get("/free.php").text(), "free");
        assert!(begun.elapsed() < Duration::from_secs(20), "free after {:?}", begun.elapsed());
        assert_eq!(server.data("ended"), "1");
    }
    assert_eq!(server.workers(), worker, "it is the same worker");
}

#[test]
fn hardening_57_a_client_that_leaves_the_queue_costs_no_worker_anything() {
    let slow = "<?php touch(getenv('DATA') . '/begun');
        while (!file_exists(getenv('DATA') . '/go')) { usleep(1000); clearstatcache(); }
        echo 'slow';";
    let site = Site::new().file("slow.php", slow);
    let socket = site.control_socket();
    let server = site
        .argument("--control")
        .argument(&format!("unix:{}", socket.display()))
        .file("count.php", "<?php file_put_contents(getenv('DATA').'/ran', 'x', FILE_APPEND);")
        .workers(1)
        .with(json!({}))
        .serve();
    let mut first = server.connect();
    first.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it runs", || server.site.data().join("begun").exists().then_some(()));
    let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /count.php HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.wait_for_requests(51);
    drop(clients);
    server.wait_for_requests(1);
    fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(server.get("/slow.php").text(), "slow");
    assert_eq!(first.response().text(), "slow");
    assert_eq!(server.data("ran"), "", "nobody waited for these any more");
}

#[test]
fn hardening_57_a_script_may_go_on_without_its_client() {
    let server = Site::script(
        "a.php",
        "ignore_user_abort(true);
         for ($i = 0; $i < 20; $i++) { echo str_repeat('x', 1000); flush(); usleep(10000); }
         file_put_contents(getenv('DATA') . '/ended', 'aborted: ' . connection_aborted());",
    )
    .workers(1)
    .with(json!({}))
    .serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for("xxxx");
    drop(client);
    eventually("the script ends by itself", || {
        (server.data("ended") == "aborted: 1").then_some(())
    });
}

/// Closes a connection as a crashing client does.
fn leave_with_reset(client: Client) {
    let mut stream = client.stream();
    // Bytes that were not read make the kernel send a reset.
    let _ = stream.write_all(b"");
    let _ = stream.read(&mut [0; 1]);
    std::thread::sleep(Duration::from_millis(30));
    drop(client);
}
