//! Several servers behind an upstream, of which some are in trouble.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use harness::{Ends, Server, Site, eventually, free_listener};
use serde_json::{Value, json};

/// An HTTP server that a test can bring into trouble.
struct Backend {
    address: SocketAddr,
    trouble: Arc<Trouble>,
}

#[derive(Default)]
struct Trouble {
    /// Connections are cut as soon as they come.
    cuts: AtomicBool,
    /// Milliseconds before an answer.
    pause: AtomicU32,
    /// Number of times that each body was seen.
    posts: Mutex<HashMap<String, u32>>,
    gets: AtomicU32,
}

impl Backend {
    fn start(name: &'static str) -> Backend {
        let listener = free_listener();
        let address = listener.local_addr().unwrap();
        let trouble = Arc::new(Trouble::default());
        let shared = Arc::clone(&trouble);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let trouble = Arc::clone(&shared);
                if !trouble.cuts.load(Relaxed) {
                    std::thread::spawn(move || serve(stream, name, &trouble));
                }
            }
        });
        Backend { address, trouble }
    }
}

/// Answers requests on one connection until it ends or is cut.
fn serve(mut stream: TcpStream, name: &str, trouble: &Trouble) -> Option<()> {
    let mut come = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = come.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            receive(&mut stream, &mut come)?;
        };
        let text = String::from_utf8_lossy(&come[..head]).into_owned();
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while come.len() < head + length {
            receive(&mut stream, &mut come)?;
        }
        let body = String::from_utf8_lossy(&come[head..head + length]).into_owned();
        come.drain(..head + length);
        match body.as_str() {
            "" => drop(trouble.gets.fetch_add(1, Relaxed)),
            _ => *trouble.posts.lock().unwrap().entry(body).or_default() += 1,
        }
        std::thread::sleep(Duration::from_millis(u64::from(trouble.pause.load(Relaxed))));
        if trouble.cuts.load(Relaxed) {
            return None;
        }
        let length = name.len();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}").ok()?;
    }
}

fn receive(stream: &mut TcpStream, come: &mut Vec<u8>) -> Option<()> {
    let mut piece = [0; 4096];
    let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
    come.extend_from_slice(&piece[..read]);
    Some(())
}

/// Serves an upstream of these servers, with changes.
fn front(backends: &[&Backend], changes: Value) -> Server {
    let server = Site::new().controlled().serve();
    let servers: serde_json::Map<_, _> =
        backends.iter().map(|backend| (backend.address.to_string(), json!({}))).collect();
    let mut document = json!({
        "listeners": {server.address.to_string(): {"pass": "upstreams/u"}},
        "upstreams": {"u": {"servers": servers}},
    });
    harness::merge(&mut document, changes);
    server.put("/config", &document);
    server
}

#[test]
fn no_get_fails_while_one_server_is_well_and_no_post_is_delivered_twice() {
    let (killed, slow, flapping) =
        (Backend::start("killed"), Backend::start("slow"), Backend::start("flapping"));
    let server = front(
        &[&killed, &slow, &flapping],
        json!({"upstreams": {"u": {"keepalive": 4, "tries": 3, "failures": {"time": 1}}}}),
    );
    slow.trouble.pause.store(30, Relaxed);
    let end = Instant::now() + Duration::from_secs(8);
    let (gets, failed_posts, number) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (server, gets, failed_posts, number) = (&server, &gets, &failed_posts, &number);
            scope.spawn(move || {
                let mut client = server.connect();
                while Instant::now() < end {
                    if worker % 4 == 0 {
                        let body = format!("post {}", number.fetch_add(1, Relaxed));
                        let length = body.len();
                        client.send(format!(
                            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
                        ));
                        let response = client.response();
                        failed_posts.fetch_add(u32::from(response.status != 200), Relaxed);
                    } else {
                        let response = client.get("/");
                        assert_eq!(response.status, 200, "{response:?}");
                        gets.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            killed.trouble.cuts.store(true, Relaxed);
            while Instant::now() < end {
                flapping.trouble.cuts.fetch_xor(true, Relaxed);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
    });
    assert!(gets.load(Relaxed) > 20, "{} requests", gets.load(Relaxed));
    let mut all: HashMap<String, u32> = HashMap::new();
    for backend in [&killed, &slow, &flapping] {
        for (body, times) in backend.trouble.posts.lock().unwrap().iter() {
            *all.entry(body.clone()).or_default() += times;
        }
    }
    let twice: Vec<_> = all.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "delivered twice: {twice:?}");
    let status = server.control("GET", "/status/upstreams/u/servers", "").succeeded();
    let failures = &status[killed.address.to_string()]["failures"];
    assert!(failures.as_u64().is_some_and(|n| n > 0), "{status}");
}

#[test]
fn health_checks_take_a_server_away_and_bring_it_back() {
    let (one, two) = (Backend::start("one"), Backend::start("two"));
    let health = json!({"uri": "/", "interval": 1, "timeout": 20, "body": "o"});
    let server = front(&[&one, &two], json!({"upstreams": {"u": {"health": health, "tries": 2}}}));
    let state = |backend: &Backend| {
        let path = format!("/status/upstreams/u/servers/{}/state", backend.address);
        server.control("GET", &path, "").succeeded()
    };
    one.trouble.cuts.store(true, Relaxed);
    eventually("the server is unhealthy", || (state(&one) == "unhealthy").then_some(()));
    for _ in 0..6 {
        assert_eq!(server.get("/").text(), "two");
    }
    one.trouble.cuts.store(false, Relaxed);
    eventually("the server is healthy", || (state(&one) == "up").then_some(()));
    eventually("it is asked again", || (server.get("/").text() == "one").then_some(()));
    server.wait_for_log("is unhealthy: ");
    server.wait_for_log("is healthy");
}

#[test]
fn a_change_of_the_servers_loses_no_request() {
    let (one, two) = (Backend::start("one"), Backend::start("two"));
    one.trouble.pause.store(20, Relaxed);
    let server = front(&[&one], json!({}));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = Ends(&done);
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    while !done.load(Relaxed) {
                        assert_eq!(client.get("/").status, 200);
                    }
                })
            })
            .collect();
        for round in 0..20 {
            let (add, remove) = if round % 2 == 0 { (&two, &one) } else { (&one, &two) };
            let path =
                |backend: &Backend| format!("/config/upstreams/u/servers/{}", backend.address);
            server.put(&path(add), &json!({}));
            server.control("DELETE", &path(remove), "").succeeded();
            if round == 0 {
                eventually("the other one is asked", || {
                    (two.trouble.gets.load(Relaxed) > 0).then_some(())
                });
            }
        }
        drop(ended);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

/// With one server in its slow start and the other one dead, most requests went to the dead one.
#[test]
fn a_server_in_its_slow_start_serves_if_no_other_can() {
    let (one, two) = (Backend::start("one"), Backend::start("two"));
    let server = front(
        &[&one, &two],
        json!({"upstreams": {"u": {"failures": {"time": 1}, "slow_start": 600}}}),
    );
    let state = |backend: &Backend| {
        let path = format!("/status/upstreams/u/servers/{}/state", backend.address);
        server.control("GET", &path, "").succeeded()
    };
    one.trouble.cuts.store(true, Relaxed);
    eventually("the first one is failing", || {
        server.get("/");
        (state(&one) == "failing").then_some(())
    });
    one.trouble.cuts.store(false, Relaxed);
    server.wait_for_log("gets no requests for 1 s");
    eventually("it serves again", || (server.get("/").text() == "one").then_some(()));
    let others = (0..40).filter(|_| server.get("/").text() == "two").count();
    assert!(others > 20, "the second one serves most: {others}");
    two.trouble.cuts.store(true, Relaxed);
    eventually("the second one is failing", || {
        server.get("/");
        (state(&two) == "failing").then_some(())
    });
    // Some tries of the second one at the end of its pause fail.
    let served = (0..30).filter(|_| server.get("/").text() == "one").count();
    assert!(served >= 28, "{served} of 30");
}
