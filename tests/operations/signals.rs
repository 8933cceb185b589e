//! Signals to the server.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use harness::time::Stopwatch;
use harness::{Site, eventually, processes};
use rustix::process::Signal;
use serde_json::json;

use super::command::WAITS;

#[test]
fn quit_lets_requests_finish_and_ends_with_0() {
    let mut server = Site::script("a.php", WAITS).with(json!({})).serve();
    let mut idle = server.connect();
    assert_eq!(idle.get("/none").status, 404);
    let mut clients: Vec<_> = (0..4)
        .map(|n| {
            let mut client = server.connect();
            let query = if n == 0 { "?flush" } else { "" };
            client.send(format!("GET /a.php{query} HTTP/1.1\r\nHost: a\r\n\r\n"));
            if n == 0 {
                client.wait_for("first,"); // it has a process before the others come
            }
            client
        })
        .collect();
    eventually("a script runs", || server.site.data().join("begun").exists().then_some(()));
    server.signal(Signal::QUIT);
    assert!(idle.is_closed(), "connections without a request end");
    eventually("no connection is taken any more", || {
        std::net::TcpStream::connect(server.address)
            .and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_millis(200)))?;
                stream.write_all(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n")?;
                stream.read(&mut [0; 1])
            })
            .map_or(true, |n| n == 0)
            .then_some(())
    });
    fs::write(server.site.data().join("go"), "").unwrap();
    for (n, client) in clients.iter_mut().enumerate() {
        let response = client.response();
        assert!(response.text().ends_with("answered"), "request {n}: {response:?}");
        assert!(client.is_closed());
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn quit_serves_what_waits_to_be_accepted() {
    // More than a thread accepts in one turn.
    const CLIENTS: usize = 600;
    let mut server = Site::new().file("a.txt", "answered").with(json!({})).serve();
    let router = server.router();
    processes::signal(router, Signal::STOP);
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    server.signal(Signal::QUIT);
    processes::signal(router, Signal::CONT);
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), "answered", "request {n}");
        assert!(client.is_closed());
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn quit_lets_a_script_finish_whose_answer_is_complete() {
    let code = format!(
        "echo 'early'; fastcgi_finish_request(); {WAITS}
        file_put_contents(getenv('DATA') . '/done', '1');"
    );
    let mut server = Site::script("a.php", &code).workers(1).with(json!({})).serve();
    assert_eq!(server.get("/a.php").text(), "early");
    eventually("the script runs", || server.site.data().join("begun").exists().then_some(()));
    server.signal(Signal::QUIT);
    harness::time::sleep(Duration::from_millis(300));
    fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(server.data("done"), "1");
}

#[test]
fn quit_refuses_new_clients_at_once_and_the_next_server_can_listen() {
    let mut server = Site::script("a.php", WAITS).with(json!({})).serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the script runs", || server.site.data().join("begun").exists().then_some(()));
    server.signal(Signal::QUIT);
    eventually("clients are refused", || TcpStream::connect(server.address).err());
    server.wait_for_log("told to end: requests in progress finish first");
    drop(TcpListener::bind(server.address).unwrap());
    fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(client.response().status, 200);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn term_and_int_end_the_server_at_once_also_while_it_quits() {
    for (signal, quits_first) in [(Signal::TERM, false), (Signal::INT, false), (Signal::TERM, true)]
    {
        let mut server = Site::script("a.php", WAITS).with(json!({})).serve();
        let mut client = server.connect();
        client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("the script runs", || server.site.data().join("begun").exists().then_some(()));
        let all: Vec<_> = server.processes().iter().map(|process| process.pid).collect();
        if quits_first {
            server.signal(Signal::QUIT);
            harness::time::sleep(Duration::from_millis(100));
        }
        let begun = Stopwatch::start();
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{signal:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{signal:?}: {:?}", begun.elapsed());
        eventually("nothing is left", || {
            all.iter().all(|pid| !processes::is_alive(*pid)).then_some(())
        });
    }
}

#[test]
fn usr1_opens_the_log_again_and_loses_no_line() {
    let server =
        Site::script("a.php", "error_log('line ' . $_GET['n'] . '.');").with(json!({})).serve();
    let log = server.site.data().with_file_name("log");
    let mut client = server.connect();
    let mut moved = Vec::new();
    for n in 0..200 {
        assert_eq!(client.get(&format!("/a.php?n={n}")).status, 200);
        if n % 50 == 25 {
            let to = log.with_file_name(format!("log.{n}"));
            fs::rename(&log, &to).unwrap();
            server.signal(Signal::USR1);
            eventually("there is a new log", || log.exists().then_some(()));
            moved.push(to);
        }
    }
    let all: String = moved.iter().chain([&log]).map(|p| fs::read_to_string(p).unwrap()).collect();
    for n in 0..200 {
        assert_eq!(all.matches(&format!("line {n}.")).count(), 1, "line {n}:\n{all}");
    }
    eventually("the new log is used", || {
        client.get("/a.php?n=new");
        server.log().contains("line new.").then_some(())
    });
    eventually("the old ones are let go", || {
        let held =
            |pid| processes::descriptors(pid).iter().any(|(_, name)| name.contains("log.25"));
        let all = server.processes().into_iter().map(|process| process.pid);
        (!all.chain([server.supervisor()]).any(held)).then_some(())
    });
}

#[test]
fn hup_does_not_end_the_server() {
    let server = Site::script("a.php", "echo 1;").serve();
    server.signal(Signal::HUP);
    for process in server.processes() {
        for signal in [Signal::HUP, Signal::USR1, Signal::USR2] {
            if process.title.contains("\" ") {
                processes::signal(process.pid, signal);
            }
        }
    }
    harness::time::sleep(Duration::from_millis(100));
    assert_eq!(server.get("/a.php").text(), "1");
}

/// A balancer that learns of the end a while later loses no request: all connections are served
/// until then, on old connections and new ones, with HTTP/1 and HTTP/2.
#[test]
fn connections_are_accepted_for_the_delay_after_quit_and_each_response_closes_its_own() {
    const DELAY: Duration = Duration::from_secs(4);
    let site = Site::new().file("a.txt", "answered");
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let address = harness::free_address().to_string();
    let changes = json!({
        "settings": {"shutdown_delay": DELAY.as_secs()},
        "listeners": {&address: {"http2": true}},
    });
    let mut server = site.with(changes).serve_at(&address);
    let ping = |arguments: &[&str]| {
        let mut command = std::process::Command::new(harness::programs::howdah());
        command.args(["ping", "--control", &control]).args(arguments);
        harness::programs::run(&mut command)
    };
    assert!(ping(&["--ready"]).status.success());
    let (mut kept, mut idle, mut tcp) = (server.connect(), server.connect(), server.connect());
    assert_eq!(kept.get("/a.txt").field("connection"), None);
    assert_eq!(idle.get("/a.txt").status, 200);
    let begun = std::time::Instant::now();
    server.signal(Signal::QUIT);
    let log = server.wait_for_log("connections are accepted for 4 s more");
    assert!(!log.contains("requests in progress finish first"), "{log}");
    eventually("it is not ready", || {
        let found = ping(&["--ready"]);
        let text = String::from_utf8_lossy(&found.stderr).into_owned();
        (!found.status.success()).then(|| assert!(text.contains("is about to end"), "{text}"))
    });
    assert!(ping(&[]).status.success(), "it is alive");
    let response = kept.get("/a.txt");
    assert_eq!(
        (response.text().as_str(), response.field("connection")),
        ("answered", Some("close"))
    );
    assert!(kept.is_closed());
    let response = tcp.get("/a.txt");
    assert_eq!(response.field("connection"), Some("close"), "its first request");
    let mut requests = 0;
    // The balancer stops well before the end, however busy the machine is.
    while begun.elapsed() < DELAY / 2 {
        assert_eq!(server.get("/a.txt").text(), "answered", "new connection {requests}");
        let mut http2 = harness::http2::Http2::connect(server.address, &[]);
        harness::time::sleep(Duration::from_millis(20));
        http2.get(1, "/a.txt");
        assert_eq!(http2.answer(1).body, b"answered", "{requests}");
        requests += 1;
    }
    assert!(idle.is_closed(), "at the end of the delay");
    eventually("clients are refused", || TcpStream::connect(server.address).err());
    assert_eq!(server.wait().code(), Some(0));
    server.wait_for_log("requests in progress finish first");
}

#[test]
fn a_second_quit_ends_the_delay_and_term_the_server() {
    for signal in [Signal::QUIT, Signal::TERM] {
        let changes = json!({"settings": {"shutdown_delay": 600}});
        let mut server = Site::new().file("a.txt", "answered").with(changes).serve();
        server.signal(Signal::QUIT);
        server.wait_for_log("connections are accepted for 600 s more");
        assert_eq!(server.get("/a.txt").text(), "answered");
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{signal:?}");
    }
}
