//! Scripts that fail, workers that die, and processes that are killed: the exact losses, and that
//! everything else continues.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{Ends, Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::json;

/// A script that ends in the way that the query says.
const ENDS: &str = "
    function end_it($how) {
        switch ($how) {
            case 'segv': posix_kill(getmypid(), SIGSEGV); break;
            case 'kill': posix_kill(getmypid(), SIGKILL); break;
            case 'abrt': posix_kill(getmypid(), SIGABRT); break;
            case 'fatal': no_such_function();
            case 'throw': throw new Exception('nobody catches this');
            case 'memory': ini_set('memory_limit', '8M'); $x = str_repeat('x', 64 << 20); break;
            case 'deep': ini_set('memory_limit', '8M'); $f = fn($f) => [$f($f)]; $f($f); break;
            case 'time': set_time_limit(1); while (true) { $n = ($n ?? 0) + 1; }
            case 'exit': exit('bye');
            case 'exit1': exit(1);
        }
        usleep(200000);
    }
    if (isset($_GET['pid'])) die('' . getmypid());
    if (isset($_GET['begin'])) { echo str_repeat('x', 10000); flush(); usleep(20000); }
    end_it($_GET['how']);
    echo 'not reached';";

fn site() -> Site {
    Site::script("a.php", ENDS)
        .file("fine.php", "<?php usleep(2000); echo 'fine';")
        .file("static.txt", "static")
        .with(json!({"applications": {"site": {"options": {"admin": {"display_errors": "0"}}}}}))
}

/// Asks for a script over and over on several connections while `f` runs; every answer must be
/// the right one.
fn under_load(server: &Server, f: impl FnOnce()) {
    const CLIENTS: usize = 4;
    let (ending, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let ended = Ends(&ending);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    loop {
                        assert_eq!(client.get("/fine.php").text(), "fine");
                        assert_eq!(client.get("/static.txt").text(), "static");
                        answered.fetch_add(1, Ordering::Relaxed);
                        if ending.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                })
            })
            .collect();
        eventually("there is a load", || {
            (answered.load(Ordering::Relaxed) >= CLIENTS).then_some(())
        });
        f();
        drop(ended);
        for client in clients {
            client.join().expect("every answer was right");
        }
    });
}

// -- workers that die --

#[test]
fn the_time_limit_of_the_configuration_holds_with_and_without_a_body() {
    let limits = json!({"max_execution_time": "1", "max_input_time": "60"});
    let options = json!({"applications": {"site": {"options": {"admin": limits}}}});
    let code = "while (isset($_GET['loop'])); echo ini_get('max_input_time');";
    let server = Site::script("a.php", code).workers(1).with(options).serve();
    let form = "application/x-www-form-urlencoded";
    for _ in 0..2 {
        assert_eq!(server.get("/a.php").text(), "60");
        assert_eq!(server.get("/a.php?loop").status, 500);
        assert_eq!(server.post("/a.php?loop", form, "a=b").status, 500);
    }
    server.wait_for_log("Maximum execution time of 1 second exceeded");
}

#[test]
fn a_worker_that_dies_before_the_head_costs_its_own_request_and_nothing_else() {
    let server = site().workers(4).serve();
    under_load(&server, || {
        for how in ["segv", "kill", "abrt", "kill", "segv", "kill"] {
            let response = server.get(&format!("/a.php?how={how}"));
            assert_eq!(response.status, 502, "{how}: {response:?}");
            assert!(!response.cut, "the client gets a whole answer");
        }
    });
    assert_eq!(server.workers().len(), 4, "they were replaced");
    let log = server.wait_for_log("signal 11");
    let line = log.lines().find(|line| line.contains("how=segv")).expect("it names the request");
    assert!(line.contains("GET") && line.contains("a.php") && line.contains("signal"), "{line}");
}

#[test]
fn a_worker_that_dies_is_replaced_at_once() {
    let server = site().workers(1).serve();
    for _ in 0..10 {
        let before = server.get("/a.php?pid").text();
        assert_eq!(server.get("/a.php?how=kill").status, 502);
        let begun = Instant::now();
        let after = server.get("/a.php?pid").text();
        assert_ne!(before, after);
        println!("served again after {:?}", begun.elapsed());
    }
}

#[test]
fn an_answer_whose_worker_dies_is_never_taken_for_whole() {
    let server = site().workers(2).serve();
    under_load(&server, || {
        for how in ["segv", "kill"] {
            let response = server.get(&format!("/a.php?begin&how={how}"));
            assert_eq!((response.status, response.cut), (200, true), "{how}: {response:?}");
            assert!(response.body.len() <= 10_000, "{how}");
            let old = server
                .connect()
                .send(format!("GET /a.php?begin&how={how} HTTP/1.0\r\n\r\n"))
                .everything();
            assert!(!String::from_utf8_lossy(&old).contains("not reached"));
        }
    });
}

#[test]
fn requests_in_the_queue_of_dying_workers_are_all_served() {
    let server = site().workers(1).serve();
    let mut clients: Vec<_> = (0..60)
        .map(|n| {
            let mut client = server.connect();
            let target = if n % 6 == 0 { "/a.php?how=kill" } else { "/fine.php" };
            let body = "x".repeat(if n % 2 == 0 { 0 } else { 100_000 });
            client.send(format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            client
        })
        .collect();
    for (n, client) in clients.iter_mut().enumerate() {
        let response = client.response();
        let expected = if n % 6 == 0 { 502 } else { 200 };
        assert_eq!(response.status, expected, "request {n}: {response:?}");
    }
}

// -- scripts that fail --

#[test]
fn a_script_that_fails_is_answered_with_500_and_its_worker_goes_on() {
    let server = site().workers(1).serve();
    let worker = server.get("/a.php?pid").text();
    for how in ["fatal", "throw", "memory", "deep"] {
        let response = server.get(&format!("/a.php?how={how}"));
        assert_eq!(response.status, 500, "{how}: {response:?}");
        assert!(!response.text().contains("not reached"), "{how}");
        assert_eq!(server.get("/a.php?pid").text(), worker, "{how}: the worker goes on");
    }
    let log = server.log();
    for needle in ["no_such_function", "nobody catches this", "Allowed memory size"] {
        let line = log.lines().find(|line| line.contains(needle)).expect(needle);
        assert!(line.contains("GET /a.php?how=") && line.contains("\"site\""), "{line}");
    }
}

#[test]
fn a_script_may_exit_whenever_it_likes() {
    let server = site().workers(1).serve();
    let worker = server.get("/a.php?pid").text();
    let response = server.get("/a.php?how=exit");
    assert_eq!((response.status, response.text().as_str()), (200, "bye"));
    assert_eq!(server.get("/a.php?how=exit1").status, 200);
    let response = server.get("/a.php?begin&how=exit");
    assert!(!response.cut && response.text().ends_with("bye"), "{response:?}");
    assert_eq!(server.get("/a.php?pid").text(), worker);
}

#[test]
fn an_endless_loop_ends_at_the_time_limit_that_the_script_has() {
    let server = site().workers(1).serve();
    let worker = server.get("/a.php?pid").text();
    let response = server.get("/a.php?how=time");
    assert_eq!(response.status, 500, "{response:?}");
    assert!(server.log().contains("Maximum execution time of 1 second"), "{}", server.log());
    assert_eq!(server.get("/a.php?pid").text(), worker, "the worker goes on");
}

// -- time limits of the application --

#[test]
fn a_script_beyond_the_limit_of_its_application_is_answered_with_504() {
    let code = "if (isset($_GET['begin'])) { echo 'begun'; flush(); }
        if (isset($_GET['loop'])) while (true) {}
        if (isset($_GET['block'])) { $f = fopen(getenv('DATA') . '/fifo', 'r'); fgets($f); }
        if (isset($_GET['sleep'])) sleep(30);
        echo getmypid();";
    let server = Site::script("a.php", code)
        .workers(1)
        // Enough for a short script on a busy machine.
        .with(json!({"applications": {"site": {"limits": {"timeout": 4}}}}))
        .serve();
    let fifo = server.site.data().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    harness::open_to_all(&fifo, 0o666);
    for how in ["sleep", "loop", "block"] {
        let worker = server.get("/a.php").text();
        let begun = Instant::now();
        let response = server.get(&format!("/a.php?{how}"));
        let took = begun.elapsed();
        assert_eq!(response.status, 504, "{how}: {response:?}");
        assert!(took >= Duration::from_millis(3950), "{how}: after {took:?}");
        assert!(took < Duration::from_secs(25), "{how}: after {took:?}");
        assert_ne!(server.get("/a.php").text(), worker, "{how}: the worker was replaced");
        let cut = server.get(&format!("/a.php?begin&{how}"));
        assert!(cut.cut && cut.text() == "begun", "{how}: {cut:?}");
    }
    assert!(server.log().contains("GET /a.php?sleep"), "the log names the request");
}

#[test]
fn the_time_in_the_queue_has_a_limit_of_its_own() {
    let code = "touch(getenv('DATA') . '/begun');
        while (!file_exists(getenv('DATA') . '/go')) { usleep(1000); clearstatcache(); }
        echo 'done';";
    let server = Site::script("a.php", code)
        .workers(1)
        .with(json!({"applications": {"site": {"limits": {"queue_timeout": 1, "timeout": 60}}}}))
        .serve();
    let mut slow = server.connect();
    slow.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it runs", || server.site.data().join("begun").exists().then_some(()));
    let response = server.get("/a.php");
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.field("Retry-After").is_some(), "{response:?}");
    std::fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(slow.response().text(), "done", "a script that runs is not concerned");
}

#[test]
fn a_full_queue_is_answered_with_503_and_nothing_that_waits_is_lost() {
    let server = Site::script("a.php", "usleep(100000); echo 'done';")
        .workers(1)
        .with(json!({"applications": {"site": {"limits": {"queue": 5}}}}))
        .serve();
    let mut clients: Vec<_> = (0..30)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let mut served = 0;
    for client in &mut clients {
        let response = client.response();
        match response.status {
            200 => served += 1,
            503 => assert!(response.field("Retry-After").is_some(), "{response:?}"),
            _ => panic!("{response:?}"),
        }
    }
    assert!((6..30).contains(&served), "{served} were served");
}

// -- processes that are killed --

#[test]
fn the_router_is_started_again_and_serves() {
    let server = site().workers(2).serve();
    for _ in 0..3 {
        let (router, prototype) = (server.router(), server.prototype());
        processes::signal(router, Signal::KILL);
        eventually("it serves again", || {
            let mut client = server.connect();
            // The old one may still have taken the connection, and die within its answer.
            client.try_send("GET /fine.php HTTP/1.0\r\n\r\n").ok()?;
            client.everything().ends_with(b"fine").then_some(())
        });
        assert_ne!(server.router(), router);
        assert_eq!(server.get("/static.txt").text(), "static");
        eventually("workers of the old one are gone", || {
            (!processes::is_alive(prototype) && server.running_workers().len() == 2).then_some(())
        });
    }
}

#[test]
fn connections_wait_for_the_next_router() {
    let server = site().workers(1).serve();
    let router = server.router();
    // The next one starts only when these clients have come.
    server.signal(Signal::STOP);
    processes::signal(router, Signal::KILL);
    eventually("the router is gone", || (!processes::is_alive(router)).then_some(()));
    let mut clients: Vec<_> = (0..20)
        .map(|n| {
            let mut client = server.connect();
            let target = if n % 2 == 0 { "/fine.php" } else { "/static.txt" };
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            client
        })
        .collect();
    server.signal(Signal::CONT);
    let begun = Instant::now();
    for (n, client) in clients.iter_mut().enumerate() {
        let response = client.response();
        assert_eq!(response.status, 200, "client {n}: {response:?}");
    }
    println!("all that waited was served after {:?}", begun.elapsed());
}

#[test]
fn the_prototype_is_started_again_and_requests_wait_for_it() {
    let server = site().workers(2).serve();
    assert_eq!(server.get("/fine.php").text(), "fine");
    std::thread::sleep(Duration::from_millis(1100));
    let old = server.prototype();
    processes::signal(old, Signal::KILL);
    eventually("its end is noticed", || {
        server.log().contains("its prototype exited on signal 9").then_some(())
    });
    for _ in 0..5 {
        assert_eq!(server.get("/fine.php").text(), "fine", "nothing is refused meanwhile");
    }
    assert_ne!(server.prototype(), old);
    assert_eq!(server.workers().len(), 2);
}

#[test]
fn idle_workers_that_are_killed_are_replaced() {
    let server = site().workers(4).serve();
    let before = server.workers();
    before.iter().for_each(|pid| processes::signal(*pid, Signal::KILL));
    eventually("all are replaced", || {
        let now = server.running_workers();
        (now.len() == 4 && now.iter().all(|pid| !before.contains(pid))).then_some(())
    });
    assert_eq!(server.get("/fine.php").text(), "fine");
}

#[test]
fn waves_of_kills_cost_a_pool_no_pause() {
    let server = site().workers(8).serve();
    let mut before = server.workers();
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    for _ in 0..8 {
        let killed = Instant::now();
        before.iter().for_each(|pid| processes::signal(*pid, Signal::KILL));
        before = eventually("all are replaced", || {
            let now = server.running_workers();
            (now.len() == 8 && now.iter().all(|pid| !before.contains(pid))).then_some(now)
        });
        longest = longest.max(killed.elapsed());
        // Only one of them gets a request.
        assert_eq!(server.get("/fine.php").text(), "fine");
    }
    println!("64 workers replaced in {:?}, 8 in {longest:?} at most", begun.elapsed());
}

#[test]
fn prototypes_that_are_killed_again_and_again_refuse_no_request() {
    let server = site().workers(2).serve();
    for _ in 0..3 {
        let (old, workers) = (server.prototype(), server.workers());
        processes::signal(old, Signal::KILL);
        eventually("it has gone with its workers", || {
            let mut all = workers.iter().chain([&old]);
            all.all(|pid| !processes::is_alive(*pid)).then_some(())
        });
        assert_eq!(server.get("/fine.php").text(), "fine");
        assert_ne!(server.prototype(), old);
    }
}

#[test]
fn nothing_outlives_the_supervisor_and_a_new_one_starts_at_once() {
    let server = site().serve();
    server.workers();
    let address = server.address.to_string();
    let all: Vec<_> = server.processes().iter().map(|process| process.pid).collect();
    assert!(all.len() >= 4, "{all:?}");
    let (_, site) = server.end(Signal::KILL);
    eventually("all processes are gone", || {
        all.iter().all(|pid| !processes::is_alive(*pid)).then_some(())
    });
    let server = site.serve_at(&address);
    assert_eq!(server.get("/fine.php").text(), "fine");
}

#[test]
fn a_worker_that_has_served_its_share_leaves_without_a_trace() {
    let server = site()
        .workers(2)
        .with(json!({"applications": {"site": {"limits": {"requests": 7}}}}))
        .serve();
    let before = server.workers();
    under_load(&server, || {
        eventually("they have left", || {
            (!before.iter().any(|pid| processes::is_alive(*pid))).then_some(())
        });
    });
    assert_eq!(server.workers().len(), 2);
    assert!(!server.log().contains("[error]"), "{}", server.log());
}
