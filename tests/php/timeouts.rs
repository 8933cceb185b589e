//! The time limit of scripts: in all calls that wait, for all clients, and its messages.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use harness::time::Stopwatch;
use harness::{Server, Site, eventually, processes};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(1);

/// Waits in the way that the query says.
const WAITS: &str = "
    set_time_limit(0);
    if (isset($_GET['begin'])) { echo 'begun'; flush(); }
    file_put_contents(getenv('DATA') . '/pid', getmypid());
    switch ($_GET['how'] ?? '') {
        case 'loop': while (true) {}
        case 'regex': preg_match('/(a+)+$/', str_repeat('a', 60) . 'b'); while (true) {}
        case 'sleep': sleep(30); break;
        case 'lock': flock($f = fopen(getenv('DATA') . '/lock', 'c'), LOCK_EX);
                     $g = fopen(getenv('DATA') . '/lock', 'c'); flock($g, LOCK_EX); break;
        case 'exec': exec('sleep 30; sleep 30'); break;
        case 'sqlite': $f = 'sqlite:' . getenv('DATA') . '/db'; $a = new PDO($f); $b = new PDO($f);
                     $a->exec('BEGIN EXCLUSIVE'); $b->setAttribute(PDO::ATTR_TIMEOUT, 30);
                     $b->query('SELECT * FROM sqlite_master'); break;
        case 'mysql': new mysqli('127.0.0.1', 'a', 'b', 'c', (int) $_GET['port']); break;
        case 'socket': $s = fsockopen('127.0.0.1', (int) $_GET['port']); fgets($s); break;
        case 'curl': $c = curl_init('http://127.0.0.1:' . (int) $_GET['port']); curl_exec($c); \
        break;
        case 'handler': pcntl_async_signals(true); foreach ([SIGTERM, SIGALRM, SIGINT] as $s)
                     pcntl_signal($s, function () {}); sleep(30); break;
        case 'shutdown': register_shutdown_function(function () { while (true) {} }); break;
        case 'finished': fastcgi_finish_request(); sleep(30); break;
    }
    echo 'over';";

fn site() -> Site {
    limited(LIMIT)
}

fn limited(limit: Duration) -> Site {
    Site::script("a.php", WAITS)
        .file("fine.php", "<?php echo getmypid();")
        .workers(1)
        .with(json!({"applications": {"site": {"limits": {"timeout": limit.as_secs()}}}}))
}

/// Enough for a short script on a busy machine.
const LONG: Duration = Duration::from_secs(4);

/// The least of some measurements: the cost of the server, without the delays of a busy machine.
fn least(server: &Server, target: &str) -> Duration {
    (0..2)
        .map(|_| {
            server.get("/fine.php");
            let begun = Instant::now();
            let response = server.get(target);
            assert_eq!(response.status, 504, "{target}: {response:?}");
            let took = begun.elapsed();
            assert!(took >= LIMIT - Duration::from_millis(50), "{target}: after {took:?}");
            took
        })
        .min()
        .unwrap()
}

#[test]
fn a_script_is_stopped_at_its_limit_wherever_it_waits() {
    // A server, such as a database, that takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let server = site().serve();
    let ways = [
        "loop", "regex", "sleep", "lock", "exec", "socket", "handler", "shutdown", "curl", "mysql",
        "sqlite",
    ];
    for how in ways {
        let took = least(&server, &format!("/a.php?how={how}&port={port}"));
        println!("{how}: {} ms beyond the limit", took.saturating_sub(LIMIT).as_millis());
        let log = server.log();
        let line = log.lines().find(|line| line.contains(&format!("how={how}&")));
        let line = line.expect("it names the request");
        assert!(line.contains("longer than applications/site/limits/timeout allows"), "{line}");
        assert!(line.contains("a.php"), "{line}");
    }
}

#[test]
fn the_programs_that_a_script_waits_for_end_with_it() {
    let server = site().serve();
    assert_eq!(server.get("/a.php?how=exec").status, 504);
    eventually("they end", || {
        let left = server.processes();
        (!left.iter().any(|process| process.title.contains("sleep"))).then_some(())
    });
}

#[test]
fn a_script_that_nobody_waits_for_any_more_has_the_same_limit() {
    let server = limited(LONG).serve();
    for how in ["loop", "sleep", "exec"] {
        let mut client = server.connect();
        client.send(format!("GET /a.php?how={how} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let worker = eventually("it runs", || server.data("pid").parse::<u32>().ok());
        harness::time::sleep(Duration::from_millis(100));
        drop(client);
        let begun = Stopwatch::start();
        eventually("the worker is free", || (!processes::is_alive(worker)).then_some(()));
        // By itself it ends after thirty seconds, or never.
        assert!(begun.elapsed() < Duration::from_secs(20), "{how}: after {:?}", begun.elapsed());
        std::fs::remove_file(server.site.data().join("pid")).unwrap();
        assert_eq!(server.get("/fine.php").status, 200);
    }
}

#[test]
fn what_a_script_does_when_its_answer_is_complete_is_its_own_matter() {
    let server = limited(LONG).workers(2).serve();
    assert_eq!(server.get("/a.php?how=finished").status, 200);
    let worker: u32 = eventually("it runs", || server.data("pid").parse().ok());
    std::thread::sleep(LONG + LIMIT);
    assert!(processes::is_alive(worker));
    assert_eq!(server.get("/fine.php").status, 200);
}

#[test]
fn a_script_that_floods_its_answer_or_the_log_keeps_nobody_from_being_served() {
    let server = Site::script(
        "a.php",
        "set_time_limit(0); ignore_user_abort(true);
         file_put_contents(getenv('DATA') . '/pid', getmypid());
         if (isset($_GET['log'])) while (true) error_log('x');
         if (isset($_GET['flush'])) while (true) { echo 'x'; flush(); }",
    )
    .file("fine.php", "<?php echo 'fine';")
    .with(json!({"applications": {"site": {"processes": 2, "limits": {"timeout": 60}}}}))
    .serve();
    for how in ["log", "flush"] {
        let mut flood = server.connect();
        flood.send(format!("GET /a.php?{how} HTTP/1.0\r\n\r\n"));
        let reader = std::thread::spawn(move || flood.everything().len());
        let worker = eventually("it runs", || server.data("pid").parse().ok());
        std::fs::remove_file(server.site.data().join("pid")).unwrap();
        let (begun, mut slowest, mut served) = (Instant::now(), Duration::ZERO, 0);
        while begun.elapsed() < Duration::from_secs(1) {
            let asked = Stopwatch::start();
            assert_eq!(server.get("/fine.php").text(), "fine", "{how}");
            (slowest, served) = (slowest.max(asked.elapsed()), served + 1);
        }
        println!("{how}: {served} served meanwhile, the slowest in {slowest:?}");
        // Without a bound on the bytes that are taken at once it would be the time limit of the
        // other one.
        assert!(slowest < Duration::from_secs(20), "{how}: {slowest:?}");
        processes::signal(worker, rustix::process::Signal::KILL);
        reader.join().expect("it is cut, or told so");
    }
}
