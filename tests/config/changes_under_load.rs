//! Changing the configuration while clients are served: no request fails, none is cut, no
//! connection that is kept alive is closed, and PHP continues undisturbed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::client::{Client, Response};
use harness::{Server, Site, eventually, free_address};
use serde_json::{Value, json};

const CHANGES: u32 = 200;

/// The state and results of the clients.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    kept_alive: AtomicU32,
    fresh: AtomicU32,
    uploads: AtomicU32,
    sleeps: AtomicU32,
    downloads: AtomicU32,
}

impl Load {
    /// Does something again and again until the load is over.
    fn repeat(&self, done: &AtomicU32, mut work: impl FnMut()) {
        // A client that fails ends the others.
        let ended = EndsLoad(self);
        while !self.over.load(Relaxed) {
            work();
            done.fetch_add(1, Relaxed);
        }
        std::mem::forget(ended);
    }
}

struct EndsLoad<'l>(&'l Load);

impl Drop for EndsLoad<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

fn site() -> Site {
    Site::new()
        .file("file.txt", "static")
        .file("large.bin", large())
        .file("hello.php", "<?php echo 'hello';")
        .file("generation.php", "<?php echo getenv('GENERATION');")
        .file("length.php", "<?php echo strlen(file_get_contents('php://input'));")
        .file(
            "sleep.php",
            "<?php $signals = 0;
            if (function_exists('pcntl_signal')) {
                pcntl_async_signals(true);
                foreach ([SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM] as $n) {
                    pcntl_signal($n, function () use (&$signals) { $signals++; });
                }
            }
            $begun = hrtime(true);
            usleep(900000);
            $rest = sleep(1);
            $slept = (hrtime(true) - $begun) / 1e9;
            echo $slept > 1.85 && $rest === 0 && $signals === 0
                ? 'undisturbed' : \"$slept s, $rest s left, $signals signals\";",
        )
        .file(
            "stream.php",
            "<?php while (ob_get_level()) ob_end_flush();
            for ($i = 0; $i < 30; $i++) { echo str_repeat(chr(65 + $i % 26), 10000); flush();
                usleep(100000); }",
        )
        .controlled()
}

fn large() -> Vec<u8> {
    (0..8_000_000u32).map(|i| (i / 7) as u8).collect()
}

fn application(server: &Server, generation: u32) -> Value {
    json!({
        "type": "php",
        "root": server.site.root(),
        "processes": {"max": 24, "spare": 4},
        "environment": {"GENERATION": generation.to_string()},
    })
}

fn routes(server: &Server, generation: u32) -> Value {
    json!([
        {"match": {"uri": format!("/never/{generation}")}, "action": {"return": 404}},
        {"action": {
            "share": format!("{}$uri", server.site.root().display()),
            "scripts": "applications/site",
        }},
    ])
}

fn good(response: &Response, body: &str) {
    assert!(response.status == 200 && !response.cut && response.text() == body, "{response:?}");
}

/// Sends a request on a connection that is kept alive, and opens another only if the server has
/// said that it closes this one.
fn kept_alive(server: &Server, client: &mut Client, target: &str, body: &str) {
    let response = client.get(target);
    good(&response, body);
    if response.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
        *client = server.connect();
    }
}

fn slow_upload(server: &Server) {
    let (pieces, piece) = (25, vec![b'x'; 10_000]);
    let mut client = server.connect();
    client.send(format!(
        "POST /length.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        pieces * piece.len()
    ));
    for _ in 0..pieces {
        client.send(&piece);
        sleep(Duration::from_millis(100));
    }
    good(&client.response(), "250000");
}

fn slow_download(server: &Server, large: &[u8]) {
    use std::io::Read;
    let mut client = server.connect();
    client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut all = Vec::new();
    let mut buffer = vec![0; 400_000];
    loop {
        let length = client.stream().read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        all.extend_from_slice(&buffer[..length]);
        sleep(Duration::from_millis(50));
    }
    assert!(all.starts_with(b"HTTP/1.1 200 ") && all.ends_with(large), "{} bytes", all.len());
}

fn streamed(server: &Server) {
    let response = server.get("/stream.php");
    assert!(response.status == 200 && !response.cut && response.body.len() == 300_000);
}

/// Makes a change; each kind in turn.
fn change(server: &Server, number: u32) {
    let address = server.address.to_string();
    match number % 5 {
        0 => {
            let other = free_address().to_string();
            let pass = json!({"pass": "routes"});
            server.put("/config/listeners", &json!({address: pass, other: pass}));
            server.put("/config/listeners", &json!({server.address.to_string(): pass}));
        }
        1 => server.put("/config/routes", &routes(server, number)),
        2 => {
            server.put("/config/applications/site", &application(server, number));
            assert_eq!(server.get("/generation.php").text(), number.to_string());
        }
        3 => server.put("/config/settings", &json!({"listen_threads": 1 + number % 2})),
        _ => server.put("/config", &document(server, number)),
    }
}

fn document(server: &Server, generation: u32) -> Value {
    json!({
        "listeners": {server.address.to_string(): {"pass": "routes"}},
        "routes": routes(server, generation),
        "applications": {"site": application(server, generation)},
    })
}

#[test]
fn two_hundred_changes_under_load_disturb_nobody() {
    let server = site().serve();
    server.put("/config", &document(&server, 0));
    let (load, large, begun) = (Load::default(), large(), Instant::now());
    std::thread::scope(|scope| {
        let (server, load, large) = (&server, &load, &large);
        for (target, body) in [("/hello.php", "hello"), ("/file.txt", "static")].repeat(2) {
            scope.spawn(move || {
                let mut client = server.connect();
                let pause = Duration::from_millis(if target == "/hello.php" { 3 } else { 1 });
                load.repeat(&load.kept_alive, || {
                    kept_alive(server, &mut client, target, body);
                    sleep(pause);
                });
            });
        }
        // Connections that are idle for longer than a change takes.
        scope.spawn(move || {
            let mut client = server.connect();
            load.repeat(&load.kept_alive, || {
                kept_alive(server, &mut client, "/hello.php", "hello");
                sleep(Duration::from_millis(700));
            });
        });
        for (target, body) in [("/hello.php", "hello"), ("/file.txt", "static")] {
            scope.spawn(move || {
                load.repeat(&load.fresh, || {
                    good(&server.get(target), body);
                    sleep(Duration::from_millis(2));
                });
            });
        }
        for _ in 0..3 {
            scope.spawn(|| load.repeat(&load.uploads, || slow_upload(server)));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                load.repeat(&load.sleeps, || good(&server.get("/sleep.php"), "undisturbed"));
            });
        }
        scope.spawn(|| load.repeat(&load.downloads, || slow_download(server, large)));
        scope.spawn(|| load.repeat(&load.downloads, || streamed(server)));
        // The clients end, even after a failure here.
        let _ended = EndsLoad(load);
        for number in 1..=CHANGES {
            if load.over.load(Relaxed) {
                break; // a client has failed
            }
            change(server, number);
        }
    });
    let count = |number: &AtomicU32| number.load(Relaxed);
    println!(
        "{CHANGES} changes in {:?}: {} requests on kept connections, {} on fresh ones, {} uploads, \
         {} sleepers, {} downloads",
        begun.elapsed(),
        count(&load.kept_alive),
        count(&load.fresh),
        count(&load.uploads),
        count(&load.sleeps),
        count(&load.downloads)
    );
    for done in [&load.kept_alive, &load.fresh, &load.uploads, &load.sleeps, &load.downloads] {
        assert!(count(done) > 2, "every kind of client was served");
    }
}

/// Sends requests on one connection until the server closes it, which it may do between two of
/// them; counts itself among those that are served with its first answer.
fn until_closed(mut client: Client, served: &AtomicU32) {
    let mut answered = 0;
    loop {
        let sent = client.try_send("GET /hello.php HTTP/1.1\r\nHost: a\r\n\r\n");
        let Some(response) = sent.ok().and_then(|()| client.next_response()) else { return };
        good(&response, "hello");
        answered += 1;
        served.fetch_add(u32::from(answered == 1), Relaxed);
        if response.field("Connection") == Some("close") {
            assert!(client.is_closed());
            return;
        }
    }
}

#[test]
fn connections_of_a_listener_that_goes_end_after_their_requests() {
    let server = site().serve();
    let (here, other) = (server.address.to_string(), free_address());
    let pass = json!({"pass": "routes"});
    let mut both = document(&server, 0);
    both["listeners"] = json!({here.as_str(): pass, other.to_string(): pass});
    for _ in 0..10 {
        server.put("/config", &both);
        let served = AtomicU32::new(0);
        std::thread::scope(|scope| {
            // Connected while there is a listener; their requests come when there is none.
            let (mut asleep, mut slow) = (Client::connect(other), Client::connect(other));
            asleep.send("GET /sleep.php HTTP/1.1\r\nHost: a\r\n\r\n");
            slow.send("POST /length.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
            for client in (0..6).map(|_| Client::connect(other)).collect::<Vec<_>>() {
                scope.spawn(|| until_closed(client, &served));
            }
            eventually("all are served", || (served.load(Relaxed) == 6).then_some(()));
            server.put("/config/listeners", &json!({here.as_str(): pass}));
            assert!(std::net::TcpStream::connect(other).is_err());
            slow.send("abc");
            good(&slow.response(), "3");
            good(&asleep.response(), "undisturbed");
            assert!(slow.is_closed() && asleep.is_closed());
        });
    }
}
