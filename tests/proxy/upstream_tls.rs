//! Servers behind the proxy that speak TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use harness::backends::{Backend, read_head};
use harness::client::Response;
use harness::time::{Stopwatch, patience};
use harness::tls::Authority;
use harness::{Server, Site, eventually, free_address, free_listener};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// nginx with a certificate for these names, which reports facts about the connection.
fn nginx(authority: &Authority, names: &[&str]) -> Backend {
    let (chain, key) = authority.issue(names);
    Backend::nginx_with(
        &[("chain.pem", &chain), ("key.pem", &key), ("ca.pem", &authority.pem())],
        "ssl",
        "ssl_certificate chain.pem;
         ssl_certificate_key key.pem;
         ssl_client_certificate ca.pem;
         ssl_verify_client optional;
         ssl_session_tickets on;
         ssl_session_cache shared:all:1m;
         location / {
             return 200 '$ssl_server_name $ssl_client_verify $ssl_session_reused $connection';
         }",
    )
}

/// Passes everything to a server whose certificate must be from this authority.
fn serve(address: SocketAddr, authority: &Authority, tls: Value, more: Value) -> Server {
    let site = Site::new().file("file.txt", "a file");
    fs::write(site.data().join("ca.pem"), authority.pem()).unwrap();
    let mut settings = json!({"authorities": site.data().join("ca.pem")});
    harness::merge(&mut settings, tls);
    settings.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let mut upstream = json!({"servers": {address.to_string(): {}}, "tls": settings});
    harness::merge(&mut upstream, more);
    let changes = json!({
        "routes": [{"action": {"pass": "upstreams/secure"}}],
        "upstreams": {"secure": upstream},
        "settings": {"listen_threads": 1},
    });
    site.with(changes).serve()
}

/// The report of nginx: name, whether a certificate was verified, whether a session was taken up
/// again, and the number of the connection.
fn facts(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{response:?}");
    response.text().split(' ').map(str::to_owned).collect()
}

#[test]
fn requests_go_over_tls_and_connections_are_kept() {
    let authority = Authority::new();
    let nginx = nginx(&authority, &["backend.example"]);
    let name = json!({"server_name": "backend.example"});
    let server = serve(nginx.address, &authority, name.clone(), json!({"keepalive": 4}));
    let mut client = server.connect();
    let [one, two] = [facts(&client.get("/")), facts(&client.get("/"))];
    assert_eq!((one[0].as_str(), one[1].as_str()), ("backend.example", "NONE"));
    assert_eq!(one[3], two[3], "the same connection");
    // Without kept connections a session is taken up again.
    let server = serve(nginx.address, &authority, name, json!({"keepalive": 0}));
    let [one, two] = [facts(&server.get("/")), facts(&server.get("/"))];
    assert_ne!(one[3], two[3]);
    assert_eq!((one[2].as_str(), two[2].as_str()), (".", "r"));
}

#[test]
fn an_address_counts_if_there_is_no_name() {
    let authority = Authority::new();
    // nginx gets one of this process's addresses, which differ in the last byte.
    let [a, b, c, _] = match free_address().ip() {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => unreachable!("tests have addresses of IPv4"),
    };
    let all: Vec<_> = (0..=255).map(|last| format!("{a}.{b}.{c}.{last}")).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    let nginx = nginx(&authority, &all);
    let server = serve(nginx.address, &authority, json!({}), json!({}));
    assert_eq!(server.get("/").status, 200);
    let other = self::nginx(&authority, &["192.0.2.1"]);
    let server = serve(other.address, &authority, json!({}), json!({}));
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log(&format!("its certificate is not for \"{}\"", other.address.ip()));
}

#[test]
fn a_server_is_shown_our_certificate() {
    let authority = Authority::new();
    let nginx = nginx(&authority, &["backend.example"]);
    let (chain, key) = authority.issue(&["us.example"]);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("us.pem"), chain + &key).unwrap();
    let file = directory.path().join("us.pem");
    let tls = json!({
        "server_name": "backend.example", "certificate": {"chain": file, "key": file},
    });
    let server = serve(nginx.address, &authority, tls, json!({}));
    assert_eq!(facts(&server.get("/"))[1], "SUCCESS");
}

#[test]
fn a_server_that_is_not_who_it_should_be_is_502_and_the_log_says_why() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let nginx = nginx(&stranger, &["backend.example"]);
    let named = |name: &str| json!({"server_name": name});
    let server = serve(nginx.address, &authority, named("backend.example"), json!({}));
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log("its certificate is not issued by an authority in ");
    let server = serve(nginx.address, &stranger, named("other.example"), json!({}));
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log("its certificate is not for \"other.example\"");
    let careless = json!({"verify": false, "authorities": null});
    let server = serve(nginx.address, &authority, careless, json!({}));
    assert_eq!(facts(&server.get("/")).len(), 4);
}

#[test]
fn a_connection_that_was_not_verified_is_not_used_where_it_must_be() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let nginx = nginx(&stranger, &["backend.example"]);
    let servers = json!({nginx.address.to_string(): {}});
    let more = json!({"server_name": "backend.example"});
    let site = Site::new();
    fs::write(site.data().join("ca.pem"), authority.pem()).unwrap();
    let mut careful = more.clone();
    careful["authorities"] = json!(site.data().join("ca.pem"));
    let mut careless = more;
    careless["verify"] = json!(false);
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/careful"}, "action": {"pass": "upstreams/careful"}},
                {"action": {"pass": "upstreams/careless"}},
            ],
            "upstreams": {
                "careful": {"servers": servers, "keepalive": 8, "tls": careful},
                "careless": {"servers": servers, "keepalive": 8, "tls": careless},
            },
            "settings": {"listen_threads": 1},
        }))
        .serve();
    for _ in 0..3 {
        assert_eq!(server.get("/careless").status, 200);
        assert_eq!(server.get("/careful").status, 502);
    }
}

#[test]
fn what_comes_before_the_handshake_is_no_answer() {
    let listener = free_listener();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
            std::thread::spawn(move || drop(stream.read_to_end(&mut Vec::new())));
        }
    });
    let authority = Authority::new();
    for tls in [json!({"server_name": "a"}), json!({"verify": false, "authorities": null})] {
        let server = serve(address, &authority, tls, json!({"keepalive": 4}));
        for _ in 0..3 {
            let response = server.get("/");
            assert_eq!(response.status, 502);
            assert!(!response.text().contains("poison"));
        }
        server.wait_for_log("TLS handshake: ");
    }
}

/// A server that reads slowly, and nothing but the head while it is held up. It answers with the
/// number of bytes of a body, and their checksum.
#[derive(Clone)]
struct Slow {
    address: SocketAddr,
    is_held_up: Arc<AtomicBool>,
    /// Heads that it has read.
    asked: Arc<AtomicUsize>,
    /// Bytes behind heads that it has read, framing of bodies included.
    came: Arc<AtomicUsize>,
}

impl Slow {
    fn new(authority: &Authority) -> Self {
        let listener = free_listener();
        set_socket_recv_buffer_size(&listener, 64 * 1024).unwrap();
        let address = listener.local_addr().unwrap();
        let config = authority.server(&["backend.example"]);
        let slow = Slow {
            address,
            is_held_up: Arc::default(),
            asked: Arc::default(),
            came: Arc::default(),
        };
        let beside = slow.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Failures show in the test.
                let _ = beside.serve(stream, &config);
            }
        });
        slow
    }

    fn serve(&self, stream: TcpStream, config: &Arc<ServerConfig>) -> std::io::Result<()> {
        stream.set_read_timeout(Some(patience()))?;
        let mut stream =
            StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream);
        let Some(head) = read_head(&mut stream) else { return Ok(()) };
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        self.asked.fetch_add(1, Relaxed);
        let is_whole = |body: &[u8]| {
            if head.contains("transfer-encoding: chunked") {
                body.ends_with(b"0\r\n\r\n")
            } else {
                head.contains(&format!("content-length: {}\r\n", body.len()))
            }
        };
        while self.is_held_up.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (mut body, mut piece) = (Vec::new(), [0; 16 * 1024]);
        while !is_whole(&body) {
            let count = stream.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            body.extend_from_slice(&piece[..count]);
            self.came.fetch_add(count, Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        // The framing of chunks does not contain these letters.
        let letters = body.iter().copied().filter(|byte| (b'p'..=b'z').contains(byte));
        let answer = sum(letters);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len())?;
        stream.flush()
    }

    /// Bytes between Howdah and it that the kernel has.
    fn on_the_way(&self) -> usize {
        let SocketAddr::V4(address) = self.address else { unreachable!("tests have IPv4") };
        let ip = u32::from_ne_bytes(address.ip().octets());
        let name = format!("{ip:08X}:{:04X}", address.port());
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let queues = table.lines().filter(|line| line.contains(&name)).map(|line| {
            let queues = line.split_ascii_whitespace().nth(4).unwrap().split(':');
            queues.map(|bytes| usize::from_str_radix(bytes, 16).unwrap()).sum::<usize>()
        });
        queues.sum()
    }
}

/// Returns the number of bytes, and a checksum of them.
fn sum(bytes: impl Iterator<Item = u8>) -> String {
    let (count, sum) = bytes.fold((0, 0u64), |(count, sum), byte| {
        (count + 1, sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
    });
    format!("{count} {sum}")
}

fn letters(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'p' + (at % 11) as u8).collect()
}

#[test]
fn a_server_that_reads_slowly_gets_large_bodies_to_their_end() {
    let body = letters(7 << 20); // more than the sockets hold
    let authority = Authority::new();
    for buffered in [true, false] {
        let slow = Slow::new(&authority);
        let name = json!({"server_name": "backend.example"});
        let more = json!({"request_buffering": buffered});
        let server = serve(slow.address, &authority, name, more);
        let answer = server.post("/", "text/plain", &body);
        assert_eq!(answer.status, 200, "buffered: {buffered}: {answer:?}");
        assert_eq!(answer.text(), sum(body.iter().copied()));
    }
}

/// What TLS has taken and the socket has not has nobody else to send it on: not the next piece, if
/// that does not come, and not the answer, for which the server waits until it has all.
#[test]
fn nothing_of_a_body_stays_with_us_when_the_client_pauses_or_has_sent_all() {
    let authority = Authority::new();
    for pauses in [true, false] {
        let slow = Slow::new(&authority);
        let name = json!({"server_name": "backend.example"});
        let more = json!({"request_buffering": false});
        let server = serve(slow.address, &authority, name, more);
        let mut client = server.connect();
        slow.is_held_up.store(true, Relaxed);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        eventually("it has read the head", || (slow.asked.load(Relaxed) == 1).then_some(()));
        // Until the sockets are full, and TLS has the rest.
        let piece = letters(32_000);
        let mut sent = 0;
        let is_stuck = |sent| {
            let mut before = (slow.on_the_way(), Stopwatch::start());
            loop {
                let now = slow.on_the_way();
                if now >= sent {
                    return false;
                }
                if now > before.0 {
                    before = (now, Stopwatch::start());
                }
                if before.1.elapsed() > Duration::from_millis(500) {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        while !is_stuck(sent) {
            client.send(format!("{:x}\r\n", piece.len())).send(&piece).send("\r\n");
            sent += piece.len();
        }
        if pauses {
            slow.is_held_up.store(false, Relaxed);
            eventually("all of it comes", || (slow.came.load(Relaxed) >= sent).then_some(()));
        }
        client.send("0\r\n\r\n");
        harness::time::sleep(Duration::from_millis(100)); // until that is with TLS too
        slow.is_held_up.store(false, Relaxed);
        let answer = client.response();
        assert_eq!(answer.status, 200, "pauses: {pauses}: {answer:?}");
        let count = sent / piece.len();
        assert_eq!(answer.text(), sum(piece.iter().copied().cycle().take(count * piece.len())));
    }
}

#[test]
fn authorities_that_cannot_be_read_refuse_the_configuration() {
    let address = free_address();
    let site = Site::new().controlled();
    let data = site.data();
    let server = site.serve_at(&address.to_string());
    fs::write(data.join("empty.pem"), "").unwrap();
    fs::write(data.join("broken.pem"), "-----BEGIN CERTIFICATE-----\n!\n").unwrap();
    for (file, message) in [
        ("missing.pem", "cannot be read"),
        ("empty.pem", "neither a certificate"),
        ("broken.pem", "PEM"),
    ] {
        let tls = json!({"authorities": data.join(file)});
        let upstreams = json!({"a": {"servers": {"127.0.0.1:443": {}}, "tls": tls}});
        let answer = server.control("PUT", "/config", json!({"upstreams": upstreams}).to_string());
        assert_eq!(answer.status, 500, "{file}: {:?}", answer.body);
        let text = answer.body.to_string();
        assert!(text.contains("/upstreams/a/tls: ") && text.contains(message), "{file}: {text}");
    }
    let unknown = json!({"a": {"servers": {}, "tls": {"verify": false, "certificate": "none"}}});
    let answer = server.control("PUT", "/config", json!({"upstreams": unknown}).to_string());
    assert!(answer.body.to_string().contains("there is no certificate"), "{:?}", answer.body);
}

#[test]
fn an_action_may_name_a_server_by_https() {
    let authority = Authority::new();
    let nginx = nginx(&authority, &["backend.example"]);
    let proxy = format!("https://{}", nginx.address);
    let server = Site::new().with(json!({"routes": [{"action": {"proxy": proxy}}]})).serve();
    // The system does not know the authority.
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log(
        "its certificate is not issued by an authority in /etc/ssl/certs/ca-certificates.crt",
    );
}

#[test]
fn new_authorities_in_a_file_count_without_a_word() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let nginx = nginx(&authority, &["backend.example"]);
    let name = json!({"server_name": "backend.example"});
    let server = serve(nginx.address, &stranger, name, json!({}));
    assert_eq!(server.get("/").status, 502);
    fs::write(server.site.data().join("ca.pem"), authority.pem()).unwrap();
    eventually("they count", || (server.get("/").status == 200).then_some(()));
}
