//! Decisions that neither a client nor a server behind the proxy may make: where a message ends,
//! who the client is, which fields are passed on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use harness::backends::read_head;
use harness::time::{Stopwatch, patience};
use harness::{Server, Site, free_address, free_listener, processes};
use serde_json::json;

/// Another HTTP server. It answers the requests of each connection with the given responses, one
/// after the other, and the last of them again and again, before it reads their bodies; and keeps
/// the requests.
struct Backend {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Backend {
    fn new(answers: &[&[u8]]) -> Backend {
        let listener = free_listener();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers: Vec<_> = answers.iter().map(|answer| answer.to_vec()).collect();
        let kept = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, kept) = (answers.clone(), Arc::clone(&kept));
                std::thread::spawn(move || Self::serve(stream, &answers, &kept));
            }
        });
        Backend { address, asked }
    }

    fn serve(mut stream: TcpStream, answers: &[Vec<u8>], asked: &Mutex<Vec<String>>) {
        let mut number = 0;
        while let Some(request) = head(&mut stream) {
            let length = request.split("Content-Length: ").nth(1);
            let length = length.and_then(|rest| rest.lines().next()?.parse().ok()).unwrap_or(0);
            asked.lock().unwrap().push(request);
            let answer = &answers[number.min(answers.len() - 1)];
            number += 1;
            if stream.write_all(answer).is_err() {
                return;
            }
            let _ = std::io::copy(&mut (&stream).take(length), &mut std::io::sink());
        }
    }

    fn last(&self) -> String {
        self.asked.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

fn head(stream: &mut TcpStream) -> Option<String> {
    read_head(stream).map(|head| String::from_utf8_lossy(&head).into_owned())
}

/// A server that passes everything on, over connections that are kept.
fn before(backend: &Backend) -> Server {
    let servers = json!({backend.address.to_string(): {}});
    let changes = json!({
        "routes": [{"action": {"pass": "upstreams/other"}}],
        "upstreams": {"other": {"servers": servers, "keepalive": 8}},
    });
    Site::new().with(changes).serve()
}

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";

#[test]
fn responses_that_can_be_read_in_two_ways_are_502() {
    for bad in [
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "HTTP/1.1 200 OK\r\nContent-Length: +4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: b=c\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A : a\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
    ] {
        let backend = Backend::new(&[bad.as_bytes()]);
        let server = before(&backend);
        let mut client = server.connect();
        let response = client.get("/");
        assert_eq!(response.status, 502, "{bad:?}: {response:?}");
        assert_eq!(response.field("Set-Cookie"), None);
        assert!(!response.text().contains("OpenSSH"), "{response:?}");
        // The client's connection is as good as before.
        assert_eq!(client.get("/").status, 502);
    }
}

#[test]
fn what_comes_before_it_is_asked_for_is_nobodys_answer() {
    // With the first answer comes a second one, to a request that is not yet there.
    let poison = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let backend = Backend::new(&[&[GOOD, poison].concat(), GOOD]);
    let server = before(&backend);
    for _ in 0..20 {
        assert_eq!(server.get("/").text(), "good");
    }
    // The response comes when the connection is idle. (If it comes later, after the next request
    // was sent, the two cannot be told apart.)
    let listener = free_listener();
    let late = Backend { address: listener.local_addr().unwrap(), asked: Arc::default() };
    let (told, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let told = told.clone();
            std::thread::spawn(move || {
                while head(&mut stream).is_some() && stream.write_all(GOOD).is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                    let _ = stream.write_all(poison);
                    let _ = told.send(());
                }
            });
        }
    });
    let server = before(&late);
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), "good");
        heard.recv_timeout(patience()).unwrap();
    }
}

#[test]
fn an_answer_before_the_end_of_a_body_does_not_disturb_what_follows() {
    let backend = Backend::new(&[GOOD]);
    let server = before(&backend);
    let mut client = server.connect();
    let body = vec![b'x'; 3_000_000];
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.try_send(&body).unwrap();
    let response = client.response();
    assert!(matches!(response.status, 200 | 502), "{response:?}");
    for _ in 0..10 {
        assert_eq!(server.get("/next").text(), "good");
        assert!(backend.last().starts_with("GET /next "), "{}", backend.last());
    }
}

#[test]
fn a_flood_of_interim_responses_ends() {
    let flood = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100_000);
    let backend = Backend::new(&[&flood]);
    let server = before(&backend);
    let before = processes::peak_memory(server.router());
    let begun = Stopwatch::start();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut interim = 0;
    let last = loop {
        let response = client.response();
        if response.status != 103 {
            break response;
        }
        interim += 1;
    };
    assert_eq!(last.status, 502);
    assert!(interim < 1000, "{interim} interim responses");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let grown = processes::peak_memory(server.router()).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
}

#[test]
fn a_client_cannot_take_away_fields_by_naming_them_in_connection() {
    let backend = Backend::new(&[GOOD]);
    let server = before(&backend);
    let named = "X-Forwarded-For, X-Forwarded-Proto, Forwarded, X-Real-IP, Authorization, Cookie, \
                 Host, Content-Length, Via, close";
    let response = server.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: {named}\r\nX-Forwarded-For: 192.0.2.1\r\n\
         X-Forwarded-Proto: https\r\nForwarded: for=192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n\
         Authorization: Basic YQ==\r\nCookie: a=b\r\nVia: 1.1 edge\r\nContent-Length: 2\r\n\r\nab"
    ));
    assert_eq!(response.text(), "good");
    let asked = backend.last();
    for field in [
        "Host: a",
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-Proto: https",
        "Forwarded: for=192.0.2.1",
        "X-Real-IP: 192.0.2.1",
        "Authorization: Basic YQ==",
        "Cookie: a=b",
        "Via: 1.1 edge",
        "Content-Length: 2",
    ] {
        assert!(asked.contains(&format!("\r\n{field}\r\n")), "{field} in {asked}");
    }
}

#[test]
fn fields_of_a_connection_end_with_it() {
    let backend = Backend::new(&[
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: X-Secret, keep-alive\r\nX-Secret: \
          s\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close\r\nUpgrade: h2c\r\nTrailer: \
          X-T\r\n\r\ngood",
    ]);
    let server = before(&backend);
    let response = server.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Hop, Upgrade\r\nX-Hop: 1\r\nTE: trailers\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nKeep-Alive: 300\r\n\
         Proxy-Connection: keep-alive\r\nTrailer: X-T\r\n\r\n",
    );
    assert_eq!(response.text(), "good");
    for name in ["X-Secret", "Keep-Alive", "Proxy-Connection", "Upgrade", "Trailer"] {
        assert_eq!(response.field(name), None, "{response:?}");
    }
    let asked = backend.last().to_ascii_lowercase();
    for name in ["x-hop", "te", "upgrade", "http2-settings", "proxy-connection", "trailer"] {
        assert!(!asked.contains(&format!("\r\n{name}:")), "{name} in {asked}");
    }
    assert_eq!(asked.matches("\r\nconnection: keep-alive\r\n").count(), 1, "{asked}");
}

#[test]
fn a_forged_address_opens_nothing_that_is_passed_on() {
    let backend = Backend::new(&[GOOD]);
    let servers = json!({"url": format!("http://{}", backend.address)});
    let serve = |source: &str| {
        let address = free_address();
        let site = Site::new().with(json!({
            "listeners": {address.to_string(): {
                "pass": "routes",
                "forwarded": {"client_ip": "X-Forwarded-For", "source": [source],
                    "recursive": true},
            }},
            "routes": [
                {"match": {"source": "192.0.2.1"}, "action": {"proxy": servers["url"]}},
                {"action": {"return": 403}},
            ],
        }));
        site.serve_at(&address.to_string())
    };
    let ask = |server: &Server, list: &str| {
        server
            .send(format!(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: {list}\r\n\r\n"
            ))
            .status
    };
    let stranger = serve("198.51.100.1");
    for list in ["192.0.2.1", "192.0.2.1, 198.51.100.1", "198.51.100.1, 192.0.2.1"] {
        assert_eq!(ask(&stranger, list), 403, "{list}: nobody listed has said so");
    }
    let listed = serve("127.0.0.0/8");
    assert_eq!(ask(&listed, "192.0.2.1"), 200);
    assert_eq!(ask(&listed, "192.0.2.1, 127.0.0.9"), 200, "the last that is no proxy");
    for forged in ["192.0.2.1, 203.0.113.5", "192.0.2.1, 203.0.113.5, 127.0.0.9", "192.0.2.1, x"] {
        assert_eq!(ask(&listed, forged), 403, "{forged}: the client has written the first itself");
    }
}

#[test]
fn responses_with_secrets_can_be_kept_from_compression() {
    let text = "secret ".repeat(1000);
    let page = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    );
    let backend = Backend::new(&[page.as_bytes()]);
    let url = format!("http://{}", backend.address);
    let site = Site::new()
        .file("page.html", &text)
        .file("page.php", "<?php echo str_repeat('secret ', 1000);")
        .file(
            "marked.php",
            "<?php header('Cache-Control: private, no-transform'); echo str_repeat('secret ', \
             1000);",
        )
        .file(
            "identity.php",
            "<?php header('Content-Encoding: identity'); echo str_repeat('secret ', 1000);",
        );
    let share = format!("{}$uri", site.root().display());
    let shared = |compress: bool| {
        json!({"share": share, "scripts": "applications/site",
        "compress": compress})
    };
    let server = site
        .with(json!({
            "routes": [
                {"match": {"query": "private"}, "action": shared(false)},
                {"match": {"uri": "/private"}, "action": {"proxy": url, "compress": false}},
                {"match": {"uri": "/proxy"}, "action": {"proxy": url}},
                {"action": shared(true)},
            ],
            "settings": {"http": {"compression": {"compressors": [{"encoding": "gzip"}]}}},
        }))
        .serve();
    let is_compressed = |target: &str| {
        let response = server.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n"
        ));
        assert_eq!(response.status, 200, "{target}: {response:?}");
        let compressed = response.field("Content-Encoding") == Some("gzip");
        assert_eq!(response.text() == text, !compressed, "{target}");
        compressed
    };
    for target in ["/page.html", "/page.php", "/proxy"] {
        assert!(is_compressed(target), "{target}");
    }
    for target in
        ["/page.html?private", "/page.php?private", "/private", "/marked.php", "/identity.php"]
    {
        assert!(!is_compressed(target), "{target}");
    }
}
