//! Servers that speak HTTP/2: gRPC by its own library, and servers that send frames byte for byte.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use harness::http2::{END_HEADERS, END_STREAM, Frame, Http2, block, frame, kind, request};
use harness::time::Stopwatch;
use harness::{Server, Site, free_listener, requirements};
use serde_json::{Value, json};

/// A connection of the proxy, as its server sees it.
struct Peer {
    stream: TcpStream,
    /// Number of earlier connections.
    number: usize,
}

impl Peer {
    /// Returns the next frame; `None` at the end of the connection.
    fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, s1, s2, s3, s4] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s1, s2, s3, s4]), payload })
    }

    /// Returns the stream of the next request.
    fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.frame()?;
            match frame.kind {
                kind::HEADERS => return Some(frame.stream),
                kind::PING if frame.flags == 0 => {
                    self.send(self::frame(kind::PING, 1, 0, &frame.payload));
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    fn answer(&mut self, stream: u32, status: &str, text: &str) -> bool {
        let head = block(&[(":status", status)]);
        self.send(frame(kind::HEADERS, END_HEADERS, stream, &head))
            && self.send(frame(kind::DATA, END_STREAM, stream, text.as_bytes()))
    }
}

/// A server; `serve` handles each connection after the preface.
fn backend(serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = free_listener();
    let address = listener.local_addr().unwrap().to_string();
    let (count, serve) = (Arc::<AtomicUsize>::default(), Arc::new(serve));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (number, serve) = (counted.fetch_add(1, Relaxed), Arc::clone(&serve));
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(harness::time::patience())).unwrap();
                let mut preface = [0; 24];
                if stream.read_exact(&mut preface).is_ok() {
                    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
                    let mut peer = Peer { stream, number };
                    peer.send(frame(kind::SETTINGS, 0, 0, &[]));
                    serve(&mut peer);
                }
            });
        }
    });
    (address, count)
}

fn before(servers: &[&str], changes: Value) -> Server {
    let site = Site::new().controlled().serve();
    let servers: serde_json::Map<_, _> =
        servers.iter().map(|address| ((*address).to_owned(), json!({}))).collect();
    let timeouts = json!({"connect": 5, "send": 5, "first_byte": 2, "read": 2});
    let mut upstream = json!({"servers": servers, "http2": true, "timeouts": timeouts});
    harness::merge(&mut upstream, changes);
    site.put(
        "/config",
        &json!({
            "listeners": {site.address.to_string(): {"pass": "upstreams/u", "http2": true}},
            "upstreams": {"u": upstream},
        }),
    );
    site
}

#[test]
fn requests_share_a_connection_and_get_their_own_answers() {
    let (address, connections) = backend(|peer| {
        let Some(first) = peer.request() else { return };
        peer.answer(first, "200", "first");
        // The second of each pair is answered first.
        while let (Some(one), Some(two)) = (peer.request(), peer.request()) {
            peer.answer(two, "200", &format!("stream {two}"));
            peer.answer(one, "200", &format!("stream {one}"));
        }
    });
    let server = before(&[&address], json!({}));
    // One thread of the router serves a connection.
    let mut client = Http2::connect(server.address, &[]);
    client.get(1, "/");
    assert!(client.answer(1).complete);
    let mut seen = BTreeMap::new();
    for round in 0..5 {
        let streams = [4 * round + 3, 4 * round + 5];
        streams.iter().for_each(|stream| client.get(*stream, "/"));
        let mut left: Vec<u32> = streams.to_vec();
        while !left.is_empty() {
            let frame = client.frame().expect("an answer");
            if frame.kind == kind::DATA && !frame.payload.is_empty() {
                seen.insert(frame.stream, String::from_utf8(frame.payload).unwrap());
            }
            if matches!(frame.kind, kind::DATA | kind::HEADERS) && frame.flags & END_STREAM != 0 {
                left.retain(|stream| *stream != frame.stream);
            }
        }
    }
    let texts: std::collections::BTreeSet<_> = seen.values().collect();
    assert_eq!((seen.len(), texts.len()), (10, 10), "{seen:?}");
    assert_eq!(connections.load(Relaxed), 1);
}

#[test]
fn a_request_that_the_server_refuses_is_sent_again_and_no_other() {
    let (address, _) = backend(|peer| {
        let mut is_first = true;
        while let Some(stream) = peer.request() {
            let code: u32 = if peer.number == 0 { 7 } else { 0 };
            if is_first && code == 7 {
                peer.send(frame(kind::RST_STREAM, 0, stream, &code.to_be_bytes()))
            } else {
                peer.answer(stream, "200", "taken")
            };
            is_first = false;
        }
    });
    let (well, _) = backend(|peer| {
        while let Some(stream) = peer.request() {
            peer.answer(stream, "200", "taken");
        }
    });
    let server = before(&[&address, &well], json!({"tries": 2}));
    for _ in 0..4 {
        assert_eq!(server.post("/", "text/plain", "body").text(), "taken");
    }
    // Another reset may come after the request has had an effect.
    let internal = 2u32.to_be_bytes();
    let (broken, _) = backend(move |peer| {
        while let Some(stream) = peer.request() {
            peer.send(frame(kind::RST_STREAM, 0, stream, &internal));
        }
    });
    let server = before(&[&broken, &well], json!({"tries": 2}));
    let posts: Vec<_> = (0..4).map(|_| server.post("/", "text/plain", "b").status).collect();
    assert!(posts.contains(&502) && posts.contains(&200), "{posts:?}");
    let gets: Vec<_> = (0..4).map(|_| server.get("/").status).collect();
    assert_eq!(gets, [200; 4]);
}

#[test]
fn frames_that_are_none_are_502_and_reach_nobody_else() {
    let text = |text: &str| text.as_bytes().to_vec();
    let head = |fields: &[(&str, &str)]| frame(kind::HEADERS, END_HEADERS, 1, &block(fields));
    let deeds: Vec<(&str, Vec<u8>)> = vec![
        ("HTTP/1.1", text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")),
        ("garbage", vec![0xff; 4000]),
        ("a frame without end", frame(kind::DATA, 0, 0, &[0; 100])),
        ("DATA in front of HEADERS", frame(kind::DATA, END_STREAM, 1, b"secret")),
        (
            "HEADERS of no request",
            frame(kind::HEADERS, END_HEADERS | END_STREAM, 8, &block(&[(":status", "200")])),
        ),
        ("no status", head(&[("a", "b")])),
        ("two statuses", head(&[(":status", "200"), (":status", "404")])),
        ("a status of letters", head(&[(":status", "abc")])),
        ("a status that is too high", head(&[(":status", "777")])),
        ("a field of a connection", head(&[(":status", "200"), ("transfer-encoding", "chunked")])),
        ("a line in a field", head(&[(":status", "200"), ("a", "b\r\nset-cookie: c")])),
        ("upper case", head(&[(":status", "200"), ("Set-Cookie", "c")])),
        (
            "two lengths",
            head(&[(":status", "200"), ("content-length", "1"), ("content-length", "2")]),
        ),
        ("a broken block", frame(kind::HEADERS, END_HEADERS, 1, &[0xff; 50])),
        (
            "a block without end",
            [
                frame(kind::HEADERS, 0, 1, &block(&[(":status", "200")])),
                frame(kind::DATA, END_STREAM, 1, b"x"),
            ]
            .concat(),
        ),
        ("switching protocols", head(&[(":status", "101")])),
        (
            "a push",
            frame(5, END_HEADERS, 1, &[&[0, 0, 0, 2][..], &block(&[(":path", "/")])].concat()),
        ),
        ("a window too large", frame(kind::WINDOW_UPDATE, 0, 0, &0x7fff_ffffu32.to_be_bytes())),
        ("silence", Vec::new()),
    ];
    for (name, bytes) in deeds {
        let (address, _) = backend(move |peer| {
            if peer.request().is_some() && peer.number == 0 {
                peer.send(&bytes);
                while let Some(stream) = peer.request() {
                    peer.answer(stream, "200", "well");
                }
            } else {
                peer.answer(1, "200", "well");
                while let Some(stream) = peer.request() {
                    peer.answer(stream, "200", "well");
                }
            }
        });
        let server = before(&[&address], json!({}));
        let shown = server.get("/");
        assert!(matches!(shown.status, 502 | 504), "{name}: {shown:?}");
        assert!(!shown.text().contains("secret"), "{name}: {shown:?}");
        assert!(shown.field("set-cookie").is_none(), "{name}: {shown:?}");
        assert_eq!(server.get("/").text(), "well", "{name}");
        assert!(server.log().contains("upstreams/u\" request "), "{name}: {}", server.log());
    }
}

#[test]
fn bodies_of_another_length_are_cut_visibly() {
    for (announced, sent) in [("5", "abc"), ("2", "abc")] {
        let (address, _) = backend(move |peer| {
            while let Some(stream) = peer.request() {
                let head = block(&[(":status", "200"), ("content-length", announced)]);
                peer.send(frame(kind::HEADERS, END_HEADERS, stream, &head));
                peer.send(frame(kind::DATA, END_STREAM, stream, sent.as_bytes()));
            }
        });
        let server = before(&[&address], json!({}));
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let all = String::from_utf8_lossy(&client.everything()).into_owned();
        let body = all.split_once("\r\n\r\n").unwrap().1;
        let is_cut = all.contains(&format!("Content-Length: {announced}\r\n"))
            && body.len() < announced.parse().unwrap();
        assert!(is_cut || all.starts_with("HTTP/1.1 502"), "{all}");
    }
}

#[test]
fn floods_of_a_server_cost_little_memory_and_end() {
    let memory = |server: &Server| {
        let path = format!("/proc/{}/status", server.router());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    let interim =
        frame(kind::HEADERS, END_HEADERS, 1, &block(&[(":status", "103"), ("link", "x")]));
    let continuation = [
        frame(kind::HEADERS, 0, 1, &block(&[(":status", "200")])),
        frame(kind::CONTINUATION, 0, 1, &block(&[("a", &"b".repeat(8000))])).repeat(50),
    ]
    .concat();
    let floods: Vec<(&str, Vec<u8>)> = vec![
        ("interim responses", interim.repeat(100)),
        ("fields without end", continuation),
        ("pings", frame(kind::PING, 0, 0, &[0; 8]).repeat(1000)),
        ("settings", frame(kind::SETTINGS, 0, 0, &[]).repeat(1000)),
        (
            "empty data",
            [
                frame(kind::HEADERS, END_HEADERS, 1, &block(&[(":status", "200")])),
                frame(kind::DATA, 0, 1, &[]).repeat(1000),
            ]
            .concat(),
        ),
    ];
    for (name, bytes) in floods {
        let (address, _) = backend(move |peer| {
            peer.request();
            let end = Instant::now() + Duration::from_secs(4);
            peer.stream.set_write_timeout(Some(Duration::from_secs(4))).unwrap();
            while Instant::now() < end && peer.send(&bytes) {}
        });
        let server = before(&[&address], json!({}));
        let usual = memory(&server);
        let start = Stopwatch::start();
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.everything();
        assert!(start.elapsed() < Duration::from_secs(25), "{name}: {:?}", start.elapsed());
        let grown = memory(&server).saturating_sub(usual);
        assert!(grown < 40_000, "{name}: {grown} kB");
    }
}

#[test]
fn a_client_that_leaves_takes_its_request_back() {
    let (told, learns) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let (address, _) = backend(move |peer| {
        while let Some(frame) = peer.frame() {
            if matches!(frame.kind, kind::HEADERS | kind::RST_STREAM) {
                told.lock().unwrap().send(frame.kind).unwrap();
            }
        }
    });
    let timeouts = json!({"timeouts": {"first_byte": 60}});
    let server = before(&[&address], timeouts);
    let mut client = Http2::connect(server.address, &[]);
    client.get(1, "/");
    let wait = harness::time::patience();
    assert_eq!(learns.recv_timeout(wait), Ok(kind::HEADERS));
    drop(client);
    assert_eq!(learns.recv_timeout(wait), Ok(kind::RST_STREAM));
}

#[test]
fn trailers_reach_clients_of_both_versions_that_ask_for_them() {
    let (address, _) = backend(|peer| {
        while let Some(stream) = peer.request() {
            let head = block(&[(":status", "200"), ("content-type", "application/grpc")]);
            let trailer = block(&[("grpc-status", "5"), ("content-length", "1")]);
            peer.send(frame(kind::HEADERS, END_HEADERS, stream, &head));
            peer.send(frame(kind::DATA, 0, stream, b"message"));
            peer.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, stream, &trailer));
        }
    });
    let server = before(&[&address], json!({}));
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
    let all = String::from_utf8_lossy(&client.everything()).to_ascii_lowercase();
    assert!(all.ends_with("\r\n7\r\nmessage\r\n0\r\ngrpc-status: 5\r\n\r\n"), "{all}");
    let mut client = Http2::connect(server.address, &[]);
    let fields = [("te", "trailers"), ("content-type", "application/grpc")];
    let head = request("POST", "/", &fields);
    client.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, 1, &head));
    let answer = client.answer(1);
    assert!(answer.complete && answer.heads.len() == 2, "{answer:?}");
    assert_eq!(answer.body, b"message");
}

/// The interpreter of a virtual environment with the library of gRPC.
fn python() -> Option<PathBuf> {
    const LIBRARY: &str = "grpcio==1.76.0";
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpc");
    let python = directory.join("bin/python");
    let has_library = || {
        let imported = Command::new(&python).args(["-c", "import grpc"]).output();
        imported.is_ok_and(|output| output.status.success())
    };
    if !has_library() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&directory).output();
        let _ = made.ok()?;
        let install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", LIBRARY];
        let _ = Command::new(&python).args(install).output();
    }
    has_library().then_some(python)
}

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn grpc_has_all_kinds_of_calls_with_and_without_tls() {
    let Some(python) = python() else {
        return requirements::skipped("grpcio cannot be installed from PyPI");
    };
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("peer.py");
    std::fs::write(&program, include_str!("grpc_peer.py")).unwrap();
    let authority = harness::tls::Authority::new();
    let (chain, key) = authority.issue(&["backend.example"]);
    for (name, text) in [("chain", &chain), ("key", &key), ("ca", &authority.pem())] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    harness::open_to_all(directory.path(), 0o755);
    harness::open_to_all(&directory.path().join("ca"), 0o644);
    for is_secure in [false, true] {
        let mut command = Command::new(&python);
        command.arg(&program).arg("serve").current_dir(directory.path());
        if is_secure {
            command.args(["chain", "key"]);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut peer = Program(child);
        let mut port = String::new();
        BufReader::new(peer.0.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        let tls = json!({
            "server_name": "backend.example",
            "authorities": directory.path().join("ca").display().to_string(),
        });
        let changes = if is_secure { json!({"tls": tls}) } else { json!({}) };
        let server = before(&[&format!("127.0.0.1:{}", port.trim())], changes);
        let asked = Command::new(&python)
            .arg(&program)
            .args(["ask", &server.address.to_string()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&asked.stderr);
        assert!(asked.status.success(), "TLS: {is_secure}: {said}\n{}", server.log());
    }
}

#[test]
fn a_server_that_speaks_http_1_alone_over_tls_is_named() {
    let authority = harness::tls::Authority::new();
    let config = authority.server(&["localhost"]);
    let listener = free_listener();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let _ = session.complete_io(&mut stream);
        }
    });
    let server = before(&[&address], json!({"tls": {"verify": false}}));
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log("it does not speak HTTP/2 over TLS; leave out \"http2\"");
}

/// Answers health checks with the message, and other requests with their status.
fn health_backend(message: &'static [u8], grpc_status: &'static str) -> String {
    let (address, _) = backend(move |peer| {
        while let Some(stream) = peer.request() {
            let head = block(&[(":status", "200"), ("content-type", "application/grpc")]);
            let trailer = block(&[("grpc-status", grpc_status)]);
            peer.send(frame(kind::HEADERS, END_HEADERS, stream, &head));
            peer.send(frame(kind::DATA, 0, stream, message));
            peer.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, stream, &trailer));
        }
    });
    address
}

fn state(server: &Server, address: &str) -> String {
    let status = server.control("GET", "/status/upstreams", "").succeeded();
    status["u"]["servers"][address]["state"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the server has this state.
fn wait_for_state(server: &Server, address: &str, wanted: &str) {
    harness::eventually(&format!("{address} is {wanted}"), || {
        (state(server, address) == wanted).then_some(())
    });
}

#[test]
fn servers_are_checked_by_the_health_service_of_grpc() {
    let serving = health_backend(&[0, 0, 0, 0, 2, 8, 1], "0");
    let stopped = health_backend(&[0, 0, 0, 0, 2, 8, 2], "0");
    let unknown = health_backend(&[], "12");
    let health = json!({"health": {"grpc": "shop.Greeter", "interval": 1}});
    let server = before(&[&serving, &stopped, &unknown], health);
    wait_for_state(&server, &stopped, "unhealthy");
    wait_for_state(&server, &unknown, "unhealthy");
    server.wait_for_log("the service is not serving (status 2)");
    server.wait_for_log("it has no health service of gRPC (grpc-status 12)");
    assert_eq!(state(&server, &serving), "up");
}

#[test]
fn servers_are_checked_by_a_request_over_http_2() {
    let answers = |status: &'static str, text: &'static str| {
        let (address, _) = backend(move |peer| {
            while let Some(stream) = peer.request() {
                peer.answer(stream, status, text);
            }
        });
        address
    };
    let (well, ill, other) = (answers("200", "is ok"), answers("503", "ok"), answers("200", "no"));
    let health = json!({"health": {"uri": "/healthz", "body": "ok", "interval": 1}});
    let server = before(&[&well, &ill, &other], health);
    wait_for_state(&server, &ill, "unhealthy");
    wait_for_state(&server, &other, "unhealthy");
    server.wait_for_log("the status is 503");
    server.wait_for_log("the body does not contain \"ok\"");
    assert_eq!(state(&server, &well), "up");
}

#[test]
fn a_web_socket_is_refused_with_the_reason() {
    let (address, connections) = backend(|_| ());
    let server = before(&[&address], json!({}));
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \
                   AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    assert_eq!(server.send(request).status, 501);
    server.wait_for_log("WebSockets do not pass to servers with \"http2\"");
    assert_eq!(connections.load(Relaxed), 0);
}
