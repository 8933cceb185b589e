//! HTTP/2: limits of the cost of a connection, for anything that its client sends or leaves unread.

use std::time::Duration;

use harness::http2::{END_HEADERS, END_STREAM, Http2, frame, kind, put_length, request};
use harness::processes::peak_memory;
use harness::time::{Stopwatch, patience};
use harness::{Server, Site, eventually, free_address};
use serde_json::json;

use super::http2::{FACTS, site};

/// ENHANCE_YOUR_CALM (RFC 9113, 7).
const CALM: u32 = 11;

/// Another client is served at once while an attack runs.
fn others_are_served(server: &Server) {
    let begun = Stopwatch::start();
    assert_eq!(server.get("/a.txt").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// Bytes by which the router's memory has grown at most.
fn growth(server: &Server, f: impl FnOnce()) -> u64 {
    let mut client = Http2::connect(server.address, &[]);
    client.get(1, "/large.bin");
    assert!(client.answer(1).is_ok());
    let before = peak_memory(server.router());
    f();
    peak_memory(server.router()).saturating_sub(before)
}

/// Maximum cost of one connection.
const MOST: u64 = 10 << 20;

#[test]
fn rapid_reset_costs_no_more_work_than_streams_at_once() {
    let server = site(json!({}));
    let mut client = Http2::connect(server.address, &[]);
    let head = request("GET", "/work.php", &[]);
    let cancel = 8u32.to_be_bytes();
    for number in 0..5000 {
        let stream = 2 * number + 1;
        let pair = [
            frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head),
            frame(kind::RST_STREAM, 0, stream, &cancel),
        ];
        if !client.try_send(pair.concat()) {
            break;
        }
    }
    others_are_served(&server);
    // The end may come as a reset, which takes the frames before it along.
    assert!(client.end().is_none_or(|code| code == CALM));
    harness::time::sleep(Duration::from_millis(500));
    let work = server.data("work").len();
    println!("{work} requests have reached a script");
    assert!(work <= 100, "{work} requests have reached a script");
}

#[test]
fn a_request_that_was_given_up_counts_until_its_script_has_ended() {
    let hold = "<?php ignore_user_abort(true); $data = getenv('DATA');
        file_put_contents(\"$data/begun\", 'x', FILE_APPEND);
        while (!file_exists(\"$data/go\")) { usleep(1000); clearstatcache(); }";
    let site = Site::new().file("a.txt", "a file").file("hold.php", hold);
    let address = free_address().to_string();
    let changes = json!({"listeners": {&address: {"http2": true}}});
    let server = site.workers(2).with(changes).serve_at(&address);
    server.workers();
    let mut client = Http2::connect(server.address, &[]);
    for stream in [1, 3] {
        client.get(stream, "/hold.php");
    }
    eventually("both run", || (server.data("begun").len() == 2).then_some(()));
    for stream in [1, 3] {
        client.send(frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes()));
    }
    // These wait for a worker: with the two that were given up there are a hundred.
    let waiting: Vec<u32> = (2..100).map(|n| 2 * n + 1).collect();
    waiting.iter().for_each(|stream| client.get(*stream, "/hold.php"));
    client.get(201, "/a.txt");
    let answered = |client: &mut Http2, limit| {
        client.stream().set_read_timeout(Some(limit)).unwrap();
        std::iter::from_fn(|| client.frame()).any(|frame| frame.stream == 201)
    };
    assert!(!answered(&mut client, Duration::from_millis(500)), "it is one too many");
    std::fs::write(server.site.data().join("go"), "").unwrap();
    assert!(answered(&mut client, patience()), "there is room again");
}

#[test]
fn resets_that_the_server_is_made_to_send_are_counted_too() {
    let server = site(json!({}));
    let head = request("GET", "/work.php", &[]);
    let post = request("POST", "/work.php", &[("content-length", "1")]);
    let zero = 0u32.to_be_bytes();
    let most = 0x7fff_ffffu32.to_be_bytes();
    // Frames that make a server reset a stream (CVE-2025-8671); some end the connection at once.
    let provocations: [&dyn Fn(u32) -> Vec<Vec<u8>>; 6] = [
        &|s| vec![frame(1, 5, s, &head), frame(kind::WINDOW_UPDATE, 0, s, &zero)],
        &|s| {
            vec![
                frame(1, 5, s, &head),
                frame(kind::WINDOW_UPDATE, 0, s, &most),
                frame(kind::WINDOW_UPDATE, 0, s, &most),
            ]
        },
        &|s| vec![frame(1, 5, s, &head), frame(kind::DATA, END_STREAM, s, b"x")],
        &|s| vec![frame(1, 5, s, &head), frame(1, 5, s, &head)],
        &|s| vec![frame(1, 5, s, &head), frame(kind::PRIORITY, 0, s, &[0; 4])],
        &|s| vec![frame(1, 4, s, &post), frame(kind::DATA, END_STREAM, s, b"too long")],
    ];
    for (number, provocation) in provocations.iter().enumerate() {
        let mut client = Http2::connect(server.address, &[]);
        let ended = (0..3000).any(|n| !client.try_send(provocation(2 * n + 1).concat()));
        others_are_served(&server);
        assert!(ended || client.end().is_some_and(|code| code != 0), "primitive {number}");
    }
    harness::time::sleep(Duration::from_millis(500));
    let work = server.data("work").len();
    assert!(work <= 6 * 100, "{work} requests have reached a script");
}

#[test]
fn a_head_that_never_ends_is_cut() {
    let server = site(json!({}));
    let grown = growth(&server, || {
        let mut client = Http2::connect(server.address, &[]);
        client.send(frame(kind::HEADERS, 0, 1, &request("GET", "/", &[])));
        let mut field = vec![0, 1, b'x'];
        put_length(&mut field, 16_000);
        field.extend([b'v'; 16_000]);
        let more = frame(kind::CONTINUATION, 0, 1, &field);
        assert!((0..2000).any(|_| !client.try_send(&more)), "32 MB of fields were taken");
    });
    assert!(grown < MOST, "{grown} bytes");
    others_are_served(&server);
}

#[test]
fn floods_of_small_frames_cost_no_memory_and_keep_nobody_waiting() {
    let server = site(json!({}));
    let post = request("POST", "/facts.php", &[]);
    let floods = [
        ("PING", frame(kind::PING, 0, 0, &[7; 8])),
        ("SETTINGS", frame(kind::SETTINGS, 0, 0, &[])),
        ("PRIORITY", frame(kind::PRIORITY, 0, 3, &[0, 0, 0, 1, 5])),
        ("PRIORITY_UPDATE", frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 3, b'u', b'=', b'0'])),
        ("empty DATA", frame(kind::DATA, 0, 1, &[])),
        ("small DATA", frame(kind::DATA, 0, 1, b"x")),
        ("WINDOW_UPDATE", frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
    ];
    for (name, flood) in floods {
        let grown = growth(&server, || {
            let mut client = Http2::connect(server.address, &[]);
            client.stream().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            client.send(frame(kind::HEADERS, END_HEADERS, 1, &post));
            let many = flood.repeat(1000);
            for _ in 0..100 {
                if !client.try_send(&many) {
                    break; // it has had enough, or takes no more as nobody reads its answers
                }
            }
            others_are_served(&server);
        });
        assert!(grown < MOST, "{name}: {grown} bytes");
    }
}

#[test]
fn a_flood_of_frames_that_serve_nothing_is_cut_off() {
    let server = site(json!({}));
    let field = [&[0, 1, b'x', 127, 0x81, 0x3e][..], &[b'v'; 8064]].concat();
    // More than a head may have, but not absurdly more: these are answered one by one.
    let large = [request("GET", "/a.txt", &[]), field.repeat(5)].concat();
    let (head, rest) = large.split_at(16_000);
    // The attack, its name in the log, and the frames.
    type Flood<'f> = (&'f str, &'f str, &'f dyn Fn(u32) -> Vec<u8>);
    let floods: [Flood<'_>; 9] = [
        ("PING", "PING", &|_| frame(kind::PING, 0, 0, &[7; 8])),
        ("answers to PING", "PING", &|_| frame(kind::PING, 1, 0, &[7; 8])),
        ("SETTINGS", "SETTINGS", &|_| frame(kind::SETTINGS, 0, 0, &[])),
        ("PRIORITY", "PRIORITY", &|_| frame(kind::PRIORITY, 0, 3, &[0, 0, 0, 1, 5])),
        ("PRIORITY_UPDATE", "extension", &|_| {
            frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 3, b'u'])
        }),
        ("unknown", "extension", &|_| frame(99, 0, 0, &[])),
        ("empty DATA", "DATA", &|_| frame(kind::DATA, 0, 1, &[])),
        ("padding", "DATA", &|_| frame(kind::DATA, 8, 1, &[9; 10])),
        ("heads that are too large", "CONTINUATION", &|n| {
            let stream = 2 * n + 3;
            let rest: Vec<_> = rest.chunks(16_000).collect();
            let last = rest.len() - 1;
            let mut all = frame(kind::HEADERS, END_STREAM, stream, head);
            for (number, part) in rest.iter().enumerate() {
                let flags = if number == last { END_HEADERS } else { 0 };
                all.extend(frame(kind::CONTINUATION, flags, stream, part));
            }
            all
        }),
    ];
    for (number, (name, kind, flood)) in floods.iter().enumerate() {
        let mut client = Http2::connect(server.address, &[]);
        client.send(frame(kind::HEADERS, END_HEADERS, 1, &request("POST", "/facts.php", &[])));
        let sent = (0..100_000).take_while(|number| client.try_send(flood(*number))).count();
        assert!(sent < 100_000, "{name}: all of it was taken");
        // The end may come as a reset, which takes the frames before it along.
        let end = client.end();
        assert!(end.is_none_or(|code| code == CALM), "{name}: {end:?}");
        let why = eventually("the log says so", || cut_off(&server).get(number).cloned());
        assert!(why.ends_with(&format!(", mostly {kind} frames")), "{name}: {why}");
    }
    assert_eq!(
        cut_off(&server).len(),
        floods.len(),
        "a line for each connection, whatever it sent"
    );
}

/// The log lines about connections that were ended because of their clients.
fn cut_off(server: &Server) -> Vec<String> {
    let start = format!(" listener {}: 127.0.0.1: HTTP/2 connection closed: ", server.address);
    let log = server.log();
    log.lines().filter_map(|line| line.split_once(&start)).map(|(_, why)| why.to_owned()).collect()
}

#[test]
fn a_connection_that_ends_for_what_its_client_does_is_one_line_in_the_log() {
    let server = site(json!({}));
    // A client that sends a request and leaves, or says goodbye, is no attacker.
    for goodbye in [vec![], frame(kind::GOAWAY, 0, 0, &[0; 8])] {
        let mut client = Http2::connect(server.address, &[]);
        client.get(1, "/a.txt");
        assert!(client.answer(1).is_ok());
        client.send(goodbye);
    }
    let give_up = |client: &mut Http2| {
        for stream in (1..).step_by(2) {
            let head = request("GET", "/work.php", &[]);
            let head = frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head);
            let reset = frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes());
            if !client.try_send(head) || !client.try_send(reset) {
                return;
            }
        }
    };
    let break_rules = |client: &mut Http2| client.send(frame(kind::DATA, 0, 0, b"x"));
    type Act<'a> = &'a dyn Fn(&mut Http2);
    let acts: [(&[&str], Act<'_>); 2] = [
        // Which of the two limits it meets depends on how its frames come in.
        (&["the client cancels more requests than it lets complete", "excessive load"], &give_up),
        (&["protocol error"], &break_rules),
    ];
    for (number, (words, act)) in acts.iter().enumerate() {
        let mut client = Http2::connect(server.address, &[]);
        act(&mut client);
        let why = eventually("the log says so", || cut_off(&server).get(number).cloned());
        assert!(words.iter().any(|words| why.contains(words)), "{why}");
    }
    drop(server.get("/a.txt"));
    assert_eq!(cut_off(&server).len(), acts.len(), "{}", server.log());
}

#[test]
fn a_window_that_is_opened_byte_by_byte_is_not_served_for_long() {
    let server = site(json!({}));
    // SETTINGS_INITIAL_WINDOW_SIZE: a byte
    let mut client = Http2::connect(server.address, &[(4, 1)]);
    client.get(1, "/large.bin");
    let mut taken = 0;
    let end = loop {
        let Some(frame) = client.frame() else { break None };
        match frame.kind {
            kind::DATA => {
                taken += frame.payload.len();
                assert!(taken < 100_000, "it goes on and on");
                let more = self::frame(kind::WINDOW_UPDATE, 0, 1, &1u32.to_be_bytes());
                client.try_send(more);
            }
            kind::GOAWAY => break frame.payload.get(4..8).map(<[u8]>::to_vec),
            _ => {}
        }
    };
    // Each was taken before the next was sent, so the reason cannot be lost.
    assert_eq!(end, Some(CALM.to_be_bytes().to_vec()), "after {taken} bytes");
}

#[test]
fn what_honest_clients_send_beside_requests_never_ends_their_connection() {
    let steps = "<?php for ($i = 0; $i < 1000; $i++) { echo 'x'; flush(); }";
    let site = Site::new().file("a.txt", "a file").file("steps.php", steps);
    let site = site.file("facts.php", FACTS).file("large.bin", vec![b'x'; 3 << 20]);
    let address = free_address().to_string();
    let server = site.with(json!({"listeners": {&address: {"http2": true}}})).serve_at(&address);
    let mut client = Http2::connect(server.address, &[]);
    let mut streams = (0..).map(|n| 2 * n + 1);
    let mut next = || streams.next().expect("there are enough");
    // Each DATA is acknowledged twice, however small it is.
    let stream = next();
    client.get(stream, "/steps.php");
    assert_eq!(client.answer(stream).body.len(), 1000);
    // Requests with all that can go with them, one after the other and a hundred at a time.
    let ask = |stream: u32| {
        let head = request("GET", "/a.txt", &[("cookie", &"c".repeat(4000))]);
        [
            frame(kind::PRIORITY, 0, stream, &[0, 0, 0, 0, 5]),
            frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head),
            frame(kind::WINDOW_UPDATE, 0, stream, &1000u32.to_be_bytes()),
            frame(kind::PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], b"u=1"].concat()),
            frame(kind::PING, 0, 0, &[7; 8]),
        ]
        .concat()
    };
    for _ in 0..100 {
        let stream = next();
        client.send(ask(stream));
        assert!(client.answer(stream).is_ok());
    }
    for _ in 0..5 {
        let many: Vec<u32> = (0..100).map(|_| next()).collect();
        client.send(many.iter().flat_map(|stream| ask(*stream)).collect::<Vec<_>>());
        let mut ended = 0;
        while ended < many.len() {
            let frame = client.frame().expect("the connection goes on");
            ended += usize::from(matches!(frame.kind, 0 | 1) && frame.flags & END_STREAM != 0);
        }
    }
    let stream = next();
    client.get(stream, "/large.bin");
    assert_eq!(client.answer(stream).body.len(), 3 << 20);
    // A body in small frames, each with padding.
    let stream = next();
    let head = request("POST", "/facts.php", &[]);
    client.send(frame(kind::HEADERS, END_HEADERS, stream, &head));
    for _ in 0..500 {
        client.send(frame(kind::DATA, 8, stream, &[1, b'x', b'y', 0]));
    }
    client.send(frame(kind::DATA, END_STREAM, stream, b""));
    let facts = client.answer(stream);
    assert_eq!(String::from_utf8_lossy(&facts.body), "HTTP/2.0 POST  1000");
}

#[test]
fn small_references_to_large_fields_are_counted_at_their_size() {
    let server = site(json!({}));
    let grown = growth(&server, || {
        let mut client = Http2::connect(server.address, &[]);
        // A field of 3,900 bytes goes into the table; one byte stands for it from then on.
        let mut head = request("GET", "/a.txt", &[]);
        head.extend([0x40, 1, b'x']);
        put_length(&mut head, 3900);
        head.extend([b'v'; 3900]);
        client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &head));
        assert!(client.answer(1).is_ok());
        let mut bomb = request("GET", "/a.txt", &[]);
        bomb.extend([0x80 | 62; 8000]);
        for stream in 1..90 {
            let stream = 2 * stream + 1;
            if !client.try_send(frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &bomb)) {
                break;
            }
        }
        others_are_served(&server);
    });
    assert!(grown < MOST, "{grown} bytes");
}

#[test]
fn a_cookie_in_a_thousand_crumbs_is_refused() {
    let server = site(json!({}));
    let grown = growth(&server, || {
        let mut client = Http2::connect(server.address, &[]);
        let mut head = request("GET", "/facts.php", &[]);
        head.extend([0x40 | 32, 1, b'c']); // indexed from now on
        head.extend([0x80 | 62; 8000]);
        for stream in 0..90 {
            let stream = 2 * stream + 1;
            if !client.try_send(frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head)) {
                break;
            }
        }
        assert!(!client.answer(1).is_ok());
    });
    assert!(grown < MOST, "{grown} bytes");
}

#[test]
fn streams_whose_windows_stay_shut_cost_little_and_end() {
    let server = site(json!({"send_timeout": 1}));
    let grown = growth(&server, || {
        // SETTINGS_INITIAL_WINDOW_SIZE: 0
        let mut client = Http2::connect(server.address, &[(4, 0)]);
        for stream in 0..100 {
            client.get(2 * stream + 1, "/large.bin");
        }
        let begun = Stopwatch::start();
        let mut resets = 0;
        while resets < 100 {
            let Some(frame) = client.frame() else { break };
            resets += usize::from(matches!(frame.kind, kind::RST_STREAM));
            if frame.kind == kind::GOAWAY {
                break;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    });
    assert!(grown < MOST, "{grown} bytes");
}

#[test]
fn a_client_that_reads_nothing_is_left() {
    let server = site(json!({"send_timeout": 1}));
    let grown = growth(&server, || {
        // Windows of 1 GiB for streams and connection.
        let mut client = Http2::connect(server.address, &[(4, 1 << 30)]);
        client.send(frame(kind::WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
        for stream in 0..100 {
            client.get(2 * stream + 1, "/large.bin");
        }
        std::thread::sleep(Duration::from_secs(4));
        let mut taken = 0;
        while let Some(frame) = client.frame() {
            taken += frame.payload.len();
        }
        assert!(taken < 100 << 20, "the server has waited for a client that took nothing");
    });
    assert!(grown < MOST, "{grown} bytes");
}
