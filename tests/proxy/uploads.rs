//! Bodies of requests that other servers get as they come, over HTTP and FastCGI: nginx's
//! `proxy_request_buffering off`.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};

use harness::fastcgi::{Socket, fpm};
use harness::http2::{END_HEADERS, END_STREAM, Http2, frame, kind, request};
use harness::raw::{Connection, Raw};
use harness::{Server, Site, eventually, free_address, processes};
use serde_json::{Value, json};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Passes everything on as it comes, to an HTTP server or to one of FastCGI.
fn before(backend: &Raw, fastcgi: bool, changes: Value) -> Server {
    let address = backend.address.to_string();
    let pass = if fastcgi { "applications/other" } else { "upstreams/other" };
    let own = free_address().to_string();
    let document = json!({
        "listeners": {&own: {"http2": true}},
        "routes": [{"action": {"pass": pass, "request_buffering": false}}],
        "upstreams": {"other": {"servers": {&address: {}}}},
        "applications": {"other": {
            "type": "fastcgi", "server": address, "root": "/nowhere", "script": "index.php",
        }},
    });
    let site = Site::new().with(json!({"applications": null}));
    site.with(document).with(changes).serve_at(&own)
}

/// Takes bytes of a connection to a back end until they end like this, or the connection ends.
fn until(connection: &mut Connection, end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut byte = [0];
        if connection.stream.read_exact(&mut byte).is_err() {
            break;
        }
        bytes.push(byte[0]);
    }
    bytes
}

/// Takes all that comes, up to this.
fn all(connection: &mut Connection, end: &[u8]) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 * 1024]);
    while !bytes.ends_with(end)
        && let Ok(count @ 1..) = connection.stream.read(&mut piece)
    {
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// Takes a record of FastCGI: its kind and its content. `None` at the end of the connection.
fn record(connection: &mut Connection) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 8];
    connection.stream.read_exact(&mut header).ok()?;
    let [_, kind, _, _, high, low, padding, _] = header;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let mut content = vec![0; length + usize::from(padding)];
    connection.stream.read_exact(&mut content).ok()?;
    content.truncate(length);
    Some((kind, content))
}

const STDIN: u8 = 5;

/// Takes the parameters of a request, as text.
fn params(connection: &mut Connection) -> Option<String> {
    let mut text = Vec::new();
    loop {
        match record(connection)? {
            (4, content) if content.is_empty() => {
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
            (_, content) => text.extend(content),
        }
    }
}

/// The answer of a FastCGI server to request 1, in full.
fn answer(text: &str) -> Vec<u8> {
    let head = [1, 6, 0, 1, 0, text.len() as u8, 0, 0];
    [&head[..], text.as_bytes(), &[1, 3, 0, 1, 0, 8, 0, 0], &[0; 8]].concat()
}

/// Waits until a back end's connection has ended, and says so.
fn tell_end(connection: &mut Connection, ended: &AtomicBool) {
    connection.wait_for_end();
    ended.store(true, Relaxed);
}

#[test]
fn a_fastcgi_server_gets_a_body_as_it_comes_if_its_length_is_known() {
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let backend = Raw::new(move |connection| {
        let tell = |what: String| told.lock().unwrap().send(what).unwrap();
        let Some(params) = params(connection) else { return };
        tell(params);
        loop {
            let Some((STDIN, content)) = record(connection) else { return };
            tell(String::from_utf8(content.clone()).unwrap());
            if content.is_empty() {
                connection.send(answer("Status: 200\r\n\r\nok"));
                return;
            }
        }
    });
    let hear = || heard.recv_timeout(harness::time::patience()).unwrap();
    let server = before(&backend, true, json!({}));
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n");
    assert!(hear().contains("CONTENT_LENGTH6"));
    for piece in ["abc", "def"] {
        client.send(piece);
        assert_eq!(hear(), piece);
    }
    assert_eq!(hear(), "");
    assert_eq!(client.response().text(), "ok");
    // Otherwise the server hears of it when the length is known.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    harness::time::sleep(std::time::Duration::from_millis(100));
    assert!(heard.try_recv().is_err());
    client.send("0\r\n\r\n");
    assert!(hear().contains("CONTENT_LENGTH3"));
    assert_eq!((hear(), hear()), ("abc".to_owned(), String::new()));
    assert_eq!(client.response().text(), "ok");
}

#[test]
fn php_fpm_gets_large_bodies_whole_however_they_come() {
    let fpm = fpm(&Socket::Unix(128), 1, "");
    let site = Site::script(
        "a.php",
        "$in = fopen('php://input', 'r'); $sum = hash_init('md5'); \
         while (($x = fread($in, 8192)) !== '' && $x !== false) { hash_update($sum, $x); } \
         echo $_SERVER['CONTENT_LENGTH'], ' ', hash_final($sum);",
    );
    let root = site.root();
    let application = json!({
        "type": "fastcgi", "server": fpm.address, "root": root, "request_buffering": false,
        "keepalive": 1,
    });
    let server = site
        .with(json!({"applications": null}))
        .with(json!({"applications": {"site": application}}))
        .serve();
    let body: Vec<u8> = (0..3_000_001u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    let mut client = server.connect();
    let mut sums = Vec::new();
    for piece in [3_000_001, 70_000, 999] {
        let head = format!("POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: {}", body.len());
        client.send(head + "\r\nContent-Type: application/octet-stream\r\n\r\n");
        for piece in body.chunks(piece) {
            client.send(piece);
        }
        sums.push(client.response().text());
    }
    assert!(sums[0].starts_with("3000001 ") && sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
}

#[test]
fn a_server_that_takes_no_more_holds_its_client_and_little_memory() {
    const LARGE: usize = 40_000_000;
    for fastcgi in [false, true] {
        let (go_on, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let backend = Raw::new(move |connection| {
            let head = if fastcgi { params(connection) } else { connection.head() };
            if head.is_none() || wait.lock().unwrap().recv().is_err() {
                return;
            }
            let mut come = 0;
            while fastcgi && let Some((STDIN, content)) = record(connection) {
                come += content.len();
                if content.is_empty() {
                    break;
                }
            }
            if fastcgi {
                connection.send(answer(&format!("Status: 200\r\n\r\n{come}")));
            } else {
                connection.body(&head.unwrap());
                connection.send(OK);
            }
        });
        let changes = json!({"settings": {"http": {"max_body_size": LARGE}}});
        let server = before(&backend, fastcgi, changes);
        let memory = processes::peak_memory(server.router());
        let sent = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&sent);
        let mut client = server.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n"));
        let mut stream = client.stream().try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            let sent = stream.write_all(&vec![b'x'; LARGE]);
            done.store(true, Relaxed);
            sent
        });
        harness::time::sleep(std::time::Duration::from_millis(500));
        assert!(!sent.load(Relaxed), "nobody has taken {LARGE} bytes");
        go_on.send(()).unwrap();
        sending.join().unwrap().unwrap();
        let expected = if fastcgi { LARGE.to_string() } else { "ok".to_owned() };
        assert_eq!(client.response().text(), expected);
        let grown = processes::peak_memory(server.router()).saturating_sub(memory);
        assert!(grown < 10 << 20, "{grown} bytes for {LARGE}");
    }
}

#[test]
fn a_client_with_too_long_a_body_or_too_much_of_a_pause_is_told_and_the_server_left() {
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";
    for (fastcgi, framing, more, status) in [
        (false, CHUNKED, "400\r\n", 413),
        (false, CHUNKED, "1\r\nx\r\n", 408),
        (false, "Content-Length: 1000\r\n\r\n", "x", 408),
        (true, "Content-Length: 1000\r\n\r\n", "x", 408),
    ] {
        let ended = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&ended);
        let backend = Raw::new(move |connection| {
            if fastcgi {
                params(connection)
            } else {
                connection.head()
            };
            tell_end(connection, &tell);
        });
        let http = json!({"max_body_size": 1000, "body_read_timeout": 3});
        let server = before(&backend, fastcgi, json!({"settings": {"http": http}}));
        let mut client = server.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}{more}"));
        if status == 413 {
            let _ = client.try_send("x".repeat(0x400));
        }
        assert_eq!(client.response().status, status, "{fastcgi} {framing}");
        eventually("the server is left", || ended.load(Relaxed).then_some(()));
        let log = server.log();
        let is_usual = |line: &str| line.contains("[info]") || line.contains(" started: ");
        assert!(log.lines().all(is_usual), "nothing is wrong: {log}");
    }
}

#[test]
fn actions_limit_bodies_for_every_kind_of_server() {
    for buffered in [true, false] {
        for fastcgi in [false, true] {
            let backend = Raw::new(move |connection| {
                if !fastcgi {
                    let head = String::from_utf8(until(connection, b"\r\n\r\n")).unwrap();
                    let length = head.split("Content-Length: ").nth(1);
                    match length.map(|rest| rest.lines().next().unwrap().parse().unwrap()) {
                        Some(length) => {
                            let _ = connection.stream.read_exact(&mut vec![0; length]);
                        }
                        None => all(connection, b"0\r\n\r\n"),
                    }
                    connection.send(OK);
                    return;
                }
                params(connection);
                while record(connection).is_some_and(|(_, content)| !content.is_empty()) {}
                connection.send(answer("Status: 200\r\n\r\nok"));
            });
            let pass = if fastcgi { "applications/other" } else { "upstreams/other" };
            let action = |limit: u64| json!({"pass": pass, "max_body_size": limit});
            let changes = json!({
                "routes": [
                    {"match": {"uri": "/small"}, "action": action(10)},
                    {"action": action(200_000)},
                ],
                "settings": {"http": {"max_body_size": 1000}},
                "upstreams": {"other": {"request_buffering": buffered}},
                "applications": {"other": {"request_buffering": buffered}},
            });
            let server = before(&backend, fastcgi, changes);
            for (target, most) in [("/small", 10), ("/large", 200_000)] {
                for (len, status) in [(most, 200), (most + 1, 413)] {
                    let response = server.post(target, "text/plain", "x".repeat(len));
                    assert_eq!(response.status, status, "{target} {len} {buffered} {fastcgi}");
                    let mut client = server.connect();
                    let head = format!("POST {target} HTTP/1.1\r\nHost: a");
                    let chunk = format!("{len:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(len));
                    let framing = "Transfer-Encoding: chunked\r\n\r\n";
                    let _ = client.try_send(format!("{head}\r\n{framing}{chunk}"));
                    let response = client.response();
                    assert_eq!(
                        response.status, status,
                        "{target} {len} chunks {buffered} {fastcgi}"
                    );
                }
            }
        }
    }
}

#[test]
fn over_http_2_a_body_goes_on_as_it_comes_beside_its_answer() {
    let backend = Raw::new(|connection| {
        let head = String::from_utf8(until(connection, b"\r\n\r\n")).unwrap();
        assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        loop {
            let size = until(connection, b"\r\n");
            if size == b"0\r\n" {
                connection.send("0\r\n\r\n");
                return;
            }
            let text = until(connection, b"\r\n");
            connection.send([&size[..], &text].concat());
        }
    });
    let server = before(&backend, false, json!({}));
    let mut client = Http2::connect(server.address, &[]);
    client.send(frame(kind::HEADERS, END_HEADERS, 1, &request("POST", "/", &[])));
    for number in 0..5 {
        let piece = format!("piece {number}");
        client.send(frame(kind::DATA, 0, 1, piece.as_bytes()));
        loop {
            let frame = client.frame().expect("the piece comes back");
            if frame.kind == kind::DATA {
                assert_eq!(frame.payload, piece.as_bytes());
                break;
            }
        }
    }
    client.send(frame(kind::DATA, END_STREAM, 1, b""));
    assert!(client.answer(1).complete);
}

#[test]
fn a_stream_that_is_given_up_ends_the_servers_connection() {
    let ended = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&ended);
    let backend = Raw::new(move |connection| {
        connection.head();
        tell_end(connection, &tell);
    });
    let server = before(&backend, false, json!({}));
    let mut client = Http2::connect(server.address, &[]);
    client.send(frame(kind::HEADERS, END_HEADERS, 1, &request("POST", "/", &[])));
    client.send(frame(kind::DATA, 0, 1, b"abc"));
    eventually("it is asked", || backend.asked().first().cloned());
    client.send(frame(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes()));
    eventually("the server is left", || ended.load(Relaxed).then_some(()));
}
