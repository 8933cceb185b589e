//! Memory that waits for others: purges and blocks for the other servers of a cluster, messages for
//! a mail server, bodies for a server that does not read.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use harness::client::Client;
use harness::http2::{END_HEADERS, Http2, frame, kind, request};
use harness::raw::{Connection, Raw};
use harness::{Site, eventually, free_address, processes};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::memory::{Growth, MIB};
use super::memory_tables::pipeline;

#[test]
fn purges_that_wait_for_a_cluster_and_past_ones_stay_within_their_memory() {
    let code = "for ($i = 0; $i < 500; $i++) {
            $tags = [];
            for ($n = 0; $n < 20; $n++) $tags[] = str_pad(\"$_GET[r]-$i-$n\", 1000, 'x');
            howdah_cache_purge($tags);
        }
        echo 'purged';";
    let server = Site::script("index.php", code)
        .with(json!({
            "settings": { "listen_threads": 1, "cluster": "unix:/nonexistent/valkey" },
            "routes": [{ "action": { "pass": "applications/site", "cache": {} } }],
            "applications": { "site": { "script": "index.php" } },
        }))
        .serve();
    let growth = Growth::of(&server);
    // 40 MB of tags.
    for number in 0..4 {
        assert_eq!(server.get(&format!("/?r={number}")).text(), "purged", "{}", server.log());
    }
    growth.assert_within(2 * MIB);
}

#[test]
fn blocks_that_wait_for_a_cluster_stay_within_their_memory() {
    let limit = json!({
        "rate": "1/h",
        "key": "$arg_k",
        "keys": 100,
        "penalty": { "after": 1, "time": 60 },
    });
    let routes = json!([{ "action": { "return": 200, "limit": limit } }]);
    let server = Site::new()
        .with(json!({
            "settings": { "listen_threads": 1, "cluster": "unix:/nonexistent/valkey" },
            "routes": routes,
        }))
        .serve();
    let growth = Growth::of(&server);
    let long = "k".repeat(3000);
    let heads = (0..9000).map(|n| format!("GET /?k={}{long} HTTP/1.1\r\nHost: a\r\n\r\n", n / 3));
    let statuses = pipeline(&server, heads);
    let refused = statuses.iter().filter(|status| **status == 429).count();
    // Each block has its key.
    assert!(refused > 2 * 1000, "{refused}");
    growth.assert_within(MIB);
}

/// Takes short messages, and of each longer one 2 MiB.
fn take_slowly(stream: &TcpStream, waiting: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let say = |text: &str| (&mut &*stream).write_all(format!("{text}\r\n").as_bytes()).ok();
    say("220 test")?;
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 0 {
        match line.get(..4)?.to_ascii_uppercase().as_str() {
            "EHLO" => say("250-test\r\n250 8BITMIME")?,
            "DATA" => {
                say("354 go")?;
                let mut length = 0;
                loop {
                    line.clear();
                    length += reader.read_line(&mut line).ok()?;
                    if line == ".\r\n" {
                        say("250 taken")?;
                        break;
                    }
                    if length > 2 << 20 {
                        waiting.fetch_add(1, Relaxed);
                        thread::park();
                    }
                }
            }
            "QUIT" => return say("221 bye"),
            _ => say("250 ok")?,
        }
        line.clear();
    }
    None
}

#[test]
fn messages_that_a_mail_server_takes_slowly_are_in_memory_in_parts() {
    let (listener, waiting) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::default());
    let port = listener.local_addr().unwrap().port();
    let shared: Arc<AtomicUsize> = Arc::clone(&waiting);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            thread::spawn(move || take_slowly(&stream, &shared));
        }
    });
    let code = "$line = str_repeat('x', 70) . \"\\n\";
        var_dump(mail('a@example.org', 'Hello', str_repeat($line, (int) $_GET['lines'])));";
    let server = Site::script("a.php", code)
        .workers(10)
        .with(json!({ "settings": { "smtp": { "host": "127.0.0.1", "port": port } } }))
        .serve();
    assert_eq!(server.get("/a.php?lines=1").text().trim(), "bool(true)", "{}", server.log());
    let processes = server.processes();
    let mail = processes.iter().find(|process| process.title.contains("howdah: mail")).unwrap();
    let before = processes::resident_memory(mail.pid);
    let mut clients: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        // 9 MB each.
        client.send("GET /a.php?lines=130000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    eventually("eight are sent at the same time", || (waiting.load(Relaxed) == 8).then_some(()));
    let grown = processes::peak_memory(mail.pid).saturating_sub(before);
    assert!(grown < 8 * MIB / 2 * 3 / 2 + 16 * MIB, "{} MiB", grown / MIB);
    assert_eq!(waiting.load(Relaxed), 8);
}

#[test]
fn bodies_of_http2_that_a_server_does_not_read_take_the_window_of_their_connection() {
    let silent = Raw::new(|connection: &mut Connection| {
        connection.head();
        connection.wait_for_end();
    });
    let address = free_address().to_string();
    let action = json!({ "proxy": silent.url(), "request_buffering": false });
    let server = Site::new()
        .with(json!({ "routes": null }))
        .with(json!({
            "listeners": { &address: { "http2": true } },
            "settings": { "listen_threads": 1 },
            "routes": [
                { "match": { "uri": "/other" }, "action": { "return": 200 } },
                { "action": action },
            ],
        }))
        .serve_at(&address);
    let growth = Growth::of(&server);
    let head = request("POST", "/", &[("content-length", "100000000")]);
    // A body has 256 KiB of memory, and all of a connection 1 MiB.
    let part = [b'b'; 16 << 10];
    let mut clients = Vec::new();
    for _ in 0..32 {
        let mut client = Http2::connect(server.address, &[]);
        for stream in [1, 3, 5, 7] {
            client.send(frame(kind::HEADERS, END_HEADERS, stream, &head));
            for _ in 0..15 {
                client.send(frame(kind::DATA, 0, stream, &part));
            }
        }
        client.send(frame(kind::PING, 0, 0, &[0; 8]));
        clients.push(client);
    }
    for client in &mut clients {
        let mut is_answered = false;
        while !is_answered {
            let frame = client.frame().expect("the connection is kept");
            is_answered = frame.kind == kind::PING;
        }
    }
    assert_eq!(server.get("/other").status, 200);
    growth.assert_within(32 * MIB);
}

#[test]
fn records_of_slow_requests_that_wait_for_their_file_have_a_limit() {
    const REQUESTS: u32 = 100;
    // Each call has a long name, so a record has about 60 KB.
    let function = "f".repeat(400);
    let code = format!(
        "function {function}($depth) {{ $depth ? {function}($depth - 1) : sleep(4); }}
        {function}(120);
        echo 'slept';"
    );
    let site = Site::script("index.php", &code).file("a.txt", "served");
    // The FIFO has no reader, so opening it hangs.
    let log = site.data().join("slow");
    mknodat(CWD, &log, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let server = site
        .workers(REQUESTS)
        .with(json!({
            "settings": { "listen_threads": 1 },
            "applications": { "site": { "limits": { "slow": 1, "slow_log": log } } },
        }))
        .serve();
    let growth = Growth::of(&server);
    let mut clients: Vec<Client> = (0..REQUESTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /index.php HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.response().text(), "slept");
    }
    eventually("all records are in the log of the server", || {
        (server.log().matches(" is slow: ").count() >= REQUESTS as usize).then_some(())
    });
    assert_eq!(server.get("/a.txt").text(), "served");
    growth.assert_peak_within(64 * (64 << 10));
}
