//! Back ends that are hostile or broken, behind HTTP and behind FastCGI: the response to their own
//! client, the log lines, and that no other client notices.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use harness::raw::{Connection, Raw};
use harness::{Server, Site, processes};
use serde_json::{Value, json};

/// Long enough for a busy machine, except for servers that are silent or stop within a body.
fn timeouts(first_byte: u32) -> Value {
    json!({"connect": 30, "send": 30, "first_byte": first_byte, "read": 3})
}

const PATIENT: u32 = 30;
const SHORT: u32 = 3;

/// Passes everything on over kept connections, one at a time, so that each is used again if it may.
fn http(backend: &Raw, first_byte: u32) -> Server {
    http_taking(backend, first_byte, true)
}

fn http_taking(backend: &Raw, first_byte: u32, buffering: bool) -> Server {
    let servers = json!({backend.address.to_string(): {"max_connections": 1}});
    let timeouts = timeouts(first_byte);
    let upstream = json!({
        "servers": servers, "keepalive": 4, "timeouts": timeouts, "failures": {"max": 0},
        "buffering": buffering,
    });
    Site::new()
        .with(json!({
            "routes": [{"action": {"pass": "upstreams/other"}}],
            "upstreams": {"other": upstream},
            "settings": {"listen_threads": 1},
        }))
        .serve()
}

/// Likewise for a FastCGI server.
fn fastcgi(backend: &Raw, first_byte: u32) -> Server {
    fastcgi_taking(backend, first_byte, true)
}

fn fastcgi_taking(backend: &Raw, first_byte: u32, buffering: bool) -> Server {
    let site = Site::new();
    let timeouts = timeouts(first_byte);
    let application = json!({
        "type": "fastcgi", "server": backend.address.to_string(), "root": "/nowhere",
        "script": "index.php", "keepalive": 1, "timeouts": timeouts,
        "buffering": buffering,
    });
    site.with(json!({"applications": null}))
        .with(json!({
            "routes": [{"action": {"pass": "applications/other"}}],
            "applications": {"other": application},
        }))
        .serve()
}

/// The behaviour of a back end for a request.
#[derive(Clone)]
enum Deed {
    /// Says this and closes the connection.
    Says(Vec<u8>),
    /// Says this and waits for the other side to close it.
    Stays(Vec<u8>),
    /// Says this and waits for the next request.
    GoesOn(Vec<u8>),
}

use Deed::{GoesOn, Says, Stays};

impl Deed {
    fn bytes(&self) -> &[u8] {
        let (Says(bytes) | Stays(bytes) | GoesOn(bytes)) = self;
        bytes
    }

    /// Returns true if the connection continues.
    fn perform(&self, connection: &mut Connection) -> bool {
        let sent = connection.send(self.bytes());
        match self {
            GoesOn(_) => return sent,
            Says(_) => drop(connection.stream.shutdown(std::net::Shutdown::Write)),
            Stays(_) => {}
        }
        connection.wait_for_end();
        false
    }
}

fn says(text: impl AsRef<[u8]>) -> Deed {
    Says(text.as_ref().to_vec())
}

fn stays(text: impl AsRef<[u8]>) -> Deed {
    Stays(text.as_ref().to_vec())
}

/// A deed for the request of `/bad`, and `good` for all others.
fn backend(deed: &Deed, good: impl Fn(&mut Connection) -> bool + Send + Sync + 'static) -> Raw {
    let deed = deed.clone();
    Raw::new(move |connection| {
        while let Some(request) = ask(connection) {
            let is_bad = request.contains("/bad");
            if !(if is_bad { deed.perform(connection) } else { good(connection) }) {
                return;
            }
        }
    })
}

/// A request of either protocol; for FastCGI, its parameters as text.
fn ask(connection: &mut Connection) -> Option<String> {
    let mut first = [0];
    (connection.stream.peek(&mut first).ok()? == 1).then_some(())?;
    if first != [1] {
        return connection.request();
    }
    let mut text = String::new();
    loop {
        let mut header = [0; 8];
        connection.stream.read_exact(&mut header).ok()?;
        let [_, kind, _, _, high, low, padding, _] = header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut content = vec![0; length + usize::from(padding)];
        connection.stream.read_exact(&mut content).ok()?;
        text.push_str(&String::from_utf8_lossy(&content));
        if (kind, length) == (5, 0) {
            return Some(text);
        }
    }
}

/// A record of a FastCGI server's answer to request 1.
fn record(kind: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}

fn stdout(text: impl AsRef<[u8]>) -> Vec<u8> {
    record(6, text)
}

fn end() -> Vec<u8> {
    record(3, [0; 8])
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";

/// A client that asks for `/bad` gets `status`, another one gets its own response; the log says
/// `why`.
fn check(server: &Server, deed: &Deed, status: u16, why: &str) {
    let bytes = deed.bytes();
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    let mut other = server.connect();
    assert_eq!(other.get("/good").text(), "good", "{shown:?}");
    let response = server.get("/bad");
    assert_eq!(response.status, status, "{shown:?}: {response:?}");
    assert_eq!(response.field("Set-Cookie"), None, "{shown:?}");
    assert!(!response.text().contains("secret"), "{shown:?}: {response:?}");
    for _ in 0..2 {
        let response = other.get("/good");
        assert_eq!((response.status, response.text().as_str()), (200, "good"), "{shown:?}");
    }
    if !why.is_empty() {
        let log = server.wait_for_log(why);
        assert!(log.contains("GET /bad ("), "{log}");
    }
}

// -- HTTP --

#[test]
fn what_is_no_http_response_is_502_with_a_reason() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(1000));
    let large = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(1 << 20));
    let lines = format!("HTTP/1.1 200 OK\r\n{}", "A: bcdefgh\r\n".repeat(100_000));
    for (deed, status, why) in [
        (says(""), 502, "closed before the response ended"),
        (says("HTTP/1.1 200 OK\r\nSet-Cookie: secret\r\n"), 502, "closed before the response"),
        (says("\x16\x03\x01\x02\0\r\n\r\nsecret"), 502, "does not start with HTTP/1"),
        (stays(b"\0".repeat(100_000)), 502, "does not start with HTTP/1"),
        (stays(&large), 502, "longer than 64 KiB"),
        (stays(&lines), 502, "longer than 64 KiB"),
        (stays(&many), 502, "too many fields"),
        (
            stays(
                "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\nsecret",
            ),
            502,
            "both Content-Length and Transfer-Encoding",
        ),
        (
            stays("HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: secret\r\nContent-Length: 0\r\n\r\n"),
            502,
            "control character",
        ),
        (stays("HTTP/1.1 200 OK\r\nA: b\0\r\nContent-Length: 0\r\n\r\n"), 502, "control character"),
        (
            stays("HTTP/1.1 200 OK\r\nA\r\nContent-Length: 0\r\n\r\n"),
            502,
            "a field line is malformed",
        ),
        (stays("HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n"), 502, "status"),
        (
            stays("HTTP/1.1 101 Over\r\nUpgrade: x\r\n\r\nsecret"),
            502,
            "that the request did not offer",
        ),
        (stays(""), 504, "no response came in time"),
        (stays("HTTP/1.1 200 OK\r\nSet-Cookie: secret\r\n"), 504, "no response came in time"),
    ] {
        let raw = backend(&deed, |connection| connection.send(GOOD));
        let patience = if status == 504 { SHORT } else { PATIENT };
        check(&http(&raw, patience), &deed, status, why);
        // The connection of the bad answer was not used again.
        assert!(raw.connections() >= 2, "{} connections", raw.connections());
    }
}

#[test]
fn interim_responses_without_end_are_502() {
    let flood = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(10_000);
    let deed = stays(flood);
    let raw = backend(&deed, |connection| connection.send(GOOD));
    let server = http(&raw, PATIENT);
    let mut client = server.connect();
    client.send("GET /bad HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut responses = std::iter::repeat_with(|| client.response());
    let last = responses.find(|response| response.status != 103).unwrap();
    assert_eq!(last.status, 502);
    assert_eq!(client.get("/good").text(), "good");
    server.wait_for_log("too many interim responses");
}

#[test]
fn a_body_of_another_length_than_announced_reaches_nobody_else() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (answer, text, cut) in [
        // Too much: the bytes beyond the end belong to no response.
        (format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody{poison}"), "body", false),
        (format!("{chunked}4\r\nbody\r\n0\r\n\r\n{poison}"), "body", false),
        (format!("HTTP/1.1 204 No Content\r\n\r\n{poison}"), "", false),
        (format!("HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n{poison}"), "", false),
        // Too little, or not the announced content: the client can tell.
        ("HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nbody".to_owned(), "body", true),
        (format!("{chunked}4\r\nbody\r\n"), "body", true),
        (format!("{chunked}400\r\nbody"), "body", true),
    ] {
        for (deed, buffering) in
            [(says(&answer), true), (says(&answer), false), (stays(&answer), true)]
        {
            let raw = backend(&deed, |connection| connection.send(GOOD));
            let server = http_taking(&raw, PATIENT, buffering);
            let mut other = server.connect();
            assert_eq!(other.get("/good").text(), "good");
            let response = server.get("/bad");
            assert_eq!((response.text().as_str(), response.cut), (text, cut), "{answer:?}");
            for _ in 0..3 {
                assert_eq!(other.get("/good").text(), "good", "after {answer:?}");
            }
            assert!(raw.connections() >= 2, "{answer:?}");
        }
    }
}

#[test]
fn an_answer_that_comes_while_the_body_is_sent_disturbs_nobody() {
    let raw = Raw::new(|connection| {
        while let Some(head) = connection.head() {
            connection.send(GOOD);
            // One server reads the body only then, another one not at all.
            if connection.number % 2 == 0 && head.starts_with("POST") {
                return;
            }
            if connection.body(&head).is_none() {
                return;
            }
        }
    });
    let server = http(&raw, PATIENT);
    let mut other = server.connect();
    let body = "GET /poison HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200_000);
    for _ in 0..4 {
        let response = server.post("/", "text/plain", &body);
        assert!(matches!(response.status, 200 | 502), "{response:?}");
        assert_eq!(other.get("/good").text(), "good");
    }
    assert!(raw.asked().iter().all(|request| !request.contains("/poison")));
}

#[test]
fn clients_that_share_connections_get_their_own_answers() {
    // Each answer names its request; some come with bytes that no request has asked for.
    let number = Arc::new(AtomicUsize::new(0));
    let raw = Raw::new(move |connection| {
        while let Some(head) = connection.request() {
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let length = path.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{path}");
            let extra = match number.fetch_add(1, Relaxed) % 5 {
                0 => "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
                1 => "\r\n",
                _ => "",
            };
            if !connection.send(answer + extra) {
                return;
            }
        }
    });
    let servers = json!({raw.address.to_string(): {}});
    let server = Site::new()
        .with(json!({
            "routes": [{"action": {"pass": "upstreams/other"}}],
            "upstreams": {"other": {"servers": servers, "keepalive": 4}},
        }))
        .serve();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                for n in 0..100 {
                    let target = format!("/client-{client}/{n}");
                    assert_eq!(connection.get(&target).text(), target);
                }
            });
        }
    });
    assert!(raw.connections() < 800, "connections are used again");
}

#[test]
fn a_head_of_many_megabytes_costs_little_memory() {
    let deed = stays(format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(16 << 20)));
    let raw = backend(&deed, |connection| connection.send(GOOD));
    let server = http(&raw, PATIENT);
    assert_eq!(server.get("/bad").status, 502);
    let before = processes::peak_memory(server.router());
    for _ in 0..5 {
        assert_eq!(server.get("/bad").status, 502);
    }
    let grown = processes::peak_memory(server.router()).saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes");
}

#[test]
fn no_answer_is_kept_for_another_client() {
    let number = Arc::new(AtomicUsize::new(0));
    let raw = Raw::new(move |connection| {
        while connection.request().is_some() {
            let n = number.fetch_add(1, Relaxed);
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=3600\r\nETag: \"1\"\r\n\
                 Expires: Thu, 31 Dec 2099 23:59:59 GMT\r\nContent-Length: 5\r\n\r\n{n:05}"
            ));
        }
    });
    let server = http(&raw, PATIENT);
    let fields = ["", "Cookie: a=b\r\n", "Authorization: Basic YQ==\r\n", "Host: b\r\n"];
    let mut expected = 0;
    for target in ["/", "/account.php/x.css", "/account.php;x.css", "/a?utm=1"] {
        for fields in fields {
            let host = if fields.starts_with("Host") { "" } else { "Host: a\r\n" };
            let response = server
                .send(format!("GET {target} HTTP/1.1\r\n{host}Connection: close\r\n{fields}\r\n"));
            assert_eq!(response.text(), format!("{expected:05}"), "{target} {fields}");
            expected += 1;
        }
    }
}

// -- FastCGI --

fn good_record(connection: &mut Connection) -> bool {
    connection.send([stdout("Content-Type: a/b\r\n\r\ngood"), end()].concat())
}

#[test]
fn what_is_no_fastcgi_answer_is_502_with_a_reason() {
    const NO_RECORD: &str = "does not answer with FastCGI records";
    let other_version = [&[2], &stdout("\r\n\r\nsecret")[1..]].concat();
    let other_request = [&[1, 6, 0, 2, 0, 10, 0, 0][..], b"\r\n\r\nsecret"].concat();
    let many = stdout(format!("{}\n", "A: b\n".repeat(1000)));
    let endless = (0..20).flat_map(|_| stdout(format!("A: {}\n", "x".repeat(60_000))));
    let status = |status: &str| stdout(format!("Status: {status}\r\n\r\nsecret"));
    for (deed, expected, why) in [
        (says(""), 502, "closed before the response ended"),
        (says("HTTP/1.1 200 OK\r\n\r\nsecret"), 502, NO_RECORD),
        (stays(other_version), 502, NO_RECORD),
        (stays(other_request), 502, NO_RECORD),
        (stays(end()), 502, "ended before its header lines"),
        (
            stays([stdout("Set-Cookie: secret\r\n"), end()].concat()),
            502,
            "ended before its header lines",
        ),
        (says(stdout("Set-Cookie: secret\r\n")), 502, "closed before the response ended"),
        (stays(many), 502, "too many header lines"),
        (stays(endless.collect::<Vec<_>>()), 502, "longer than 64 KiB"),
        (stays([status("100"), end()].concat()), 502, "status"),
        (stays([status("1000"), end()].concat()), 502, "status"),
        (stays([status("+200"), end()].concat()), 502, "not a status code"),
        (stays(record(3, [0, 0, 0, 0, 2, 0, 0, 0])), 502, "FCGI_OVERLOADED"),
        (stays(""), 504, "no response came in time"),
        (stays(stdout("Set-Cookie: secret\r\n")), 504, "no response came in time"),
    ] {
        let raw = backend(&deed, good_record);
        let patience = if expected == 504 { SHORT } else { PATIENT };
        check(&fastcgi(&raw, patience), &deed, expected, why);
    }
}

#[test]
fn a_line_of_a_fastcgi_head_cannot_add_a_field() {
    let head = "A: b\rSet-Cookie: secret\nB: c\0d\nTransfer-Encoding: chunked\n\
                Connection: close\nno field\nSet-Cookie : secret\nGood: 1\n\ntext";
    let deed = GoesOn([stdout(head), end()].concat());
    let raw = backend(&deed, good_record);
    let server = fastcgi(&raw, PATIENT);
    check(&server, &deed, 200, "");
    let response = server.get("/bad");
    assert_eq!((response.text().as_str(), response.field("Good")), ("text", Some("1")));
    for name in ["A", "B"] {
        assert_eq!(response.field(name), None, "{response:?}");
    }
}

#[test]
fn a_fastcgi_body_of_another_length_reaches_nobody_else() {
    let head = |length: usize| stdout(format!("Content-Length: {length}\r\n\r\nbody"));
    let poison = || [stdout("\r\n\r\npoison"), end()].concat();
    for (answer, text, cut) in [
        ([head(4), stdout("poison"), end()].concat(), "body", false),
        ([head(4), end(), poison()].concat(), "body", false),
        ([stdout("\r\nbody"), end(), poison()].concat(), "body", false),
        ([stdout("\r\nbody"), record(7, "a message"), end()].concat(), "body", false),
        ([head(400), end()].concat(), "body", true),
        (head(400), "body", true),
        (stdout("\r\nbody"), "body", true),
        ([stdout("\r\nbody"), vec![9; 8]].concat(), "body", true),
    ] {
        for (deed, buffering) in
            [(says(&answer), true), (says(&answer), false), (GoesOn(answer.clone()), true)]
        {
            let raw = backend(&deed, good_record);
            let server = fastcgi_taking(&raw, PATIENT, buffering);
            let mut other = server.connect();
            assert_eq!(other.get("/good").text(), "good");
            let response = server.get("/bad");
            let shown = String::from_utf8_lossy(&answer).into_owned();
            assert_eq!((response.text().as_str(), response.cut), (text, cut), "{shown:?}");
            for _ in 0..3 {
                assert_eq!(other.get("/good").text(), "good", "after {shown:?}");
            }
        }
    }
}

#[test]
fn messages_of_a_fastcgi_server_cannot_forge_records_and_none_is_lost() {
    let forged = record(7, "one\n2026/01/01 00:00:00 [emerg] forged\x1b[31m\r\n");
    let flood: Vec<u8> = (0..100).flat_map(|_| record(7, vec![b'~'; 60_000])).collect();
    let deed = stays([forged, flood, stdout("\r\ngood"), end()].concat());
    let raw = backend(&deed, good_record);
    let server = fastcgi(&raw, PATIENT);
    assert_eq!(server.get("/bad").text(), "good");
    let log = server.wait_for_log("forged");
    assert!(!log.lines().any(|line| line.starts_with("2026/01/01")), "a line of its own");
    assert!(!log.contains('\x1b'));
    assert_eq!(log.bytes().filter(|byte| *byte == b'~').count(), 6_000_000);
}

#[test]
fn messages_of_one_byte_make_few_records() {
    let flood = record(7, "~").repeat(20_000);
    let deed = stays([flood, stdout("\r\ngood"), end()].concat());
    let raw = backend(&deed, good_record);
    let server = fastcgi(&raw, PATIENT);
    assert_eq!(server.get("/bad").text(), "good");
    let log = server.wait_for_log("~");
    assert_eq!(log.lines().filter(|line| line.contains("GET /bad")).count(), 1, "one record");
    assert_eq!(log.bytes().filter(|byte| *byte == b'~').count(), 20_000);
}

#[test]
fn short_pieces_that_nobody_takes_cost_little_memory() {
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()
        + &"1\r\nA\r\n".repeat(120_000);
    let records = [stdout("\r\n"), stdout("A").repeat(120_000)].concat();
    for (deed, is_http) in [(stays(chunks), true), (stays(records), false)] {
        let (raw, server);
        if is_http {
            raw = Raw::new({
                let deed = deed.clone();
                move |connection| {
                    let is_bad = connection.request().is_some_and(|head| head.contains("/bad"));
                    let _ = if is_bad { deed.perform(connection) } else { connection.send(GOOD) };
                }
            });
            let upstream =
                json!({"servers": {raw.address.to_string(): {}}, "failures": {"max": 0}});
            server = Site::new()
                .with(json!({
                    "routes": [{"action": {"pass": "upstreams/other"}}],
                    "upstreams": {"other": upstream},
                    "settings": {"listen_threads": 1},
                }))
                .serve();
        } else {
            raw = backend(&deed, good_record);
            let site = Site::new().with(json!({"applications": null}));
            server = site
                .with(json!({
                    "routes": [{"action": {"pass": "applications/other"}}],
                    "applications": {"other": {
                        "type": "fastcgi", "server": raw.address.to_string(),
                        "root": "/nowhere", "script": "index.php",
                    }},
                }))
                .serve();
        }
        assert_eq!(server.get("/good").text(), "good");
        let before = processes::peak_memory(server.router());
        let mut clients: Vec<_> = (0..16).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET /bad HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for _ in 0..20 {
            assert_eq!(server.get("/good").text(), "good");
        }
        let grown = processes::peak_memory(server.router()).saturating_sub(before);
        assert!(grown < 24 << 20, "{grown} bytes");
    }
}
