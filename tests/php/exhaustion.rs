//! Exhaustion: of descriptors, and of the memory of workers that leak.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use harness::disk::SmallDisk;
use harness::time::patience;
use harness::{Site, eventually, processes, requirements};
use serde_json::{Value, json};

/// Asks the control API.
fn status(socket: &std::path::Path) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    stream.write_all(b"GET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the control API answers");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn the_kernel_kills_workers_before_the_server_if_memory_runs_out() {
    let server = Site::script("a.php", "echo 'here';").workers(1).serve();
    let score = |pid: u32| -> i32 {
        let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        text.trim().parse().unwrap()
    };
    let base = score(server.supervisor());
    assert_eq!(score(server.router()), base);
    for pid in [server.prototype(), server.workers()[0]] {
        assert_eq!(score(pid), (base + 500).min(1000));
    }
}

#[test]
fn more_requests_than_descriptors_wait_and_the_server_stays_in_control() {
    let code = "while (!file_exists(getenv('DATA') . '/go')) { usleep(1000); clearstatcache(); }
        echo 'fine';";
    let changes = json!({"settings": {"listen_threads": 2}});
    let site = Site::script("a.php", code).with(changes).open_files(240);
    let socket = site.data().join("control");
    let control = format!("unix:{}", socket.display());
    let server = site.argument("--control").argument(&control).workers(1).serve();
    // Two thirds of them have a connection, the others wait in the backlog.
    let mut clients: Vec<_> = (0..260).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.wait_for_log("connections are open, as many as the limit of open files allows");
    server.wait_for_log("all of them have a request, so new ones wait until a request ends");
    let router = server.router();
    eventually("the router rests, and does not spin", || {
        let before = processes::processor_time(router);
        std::thread::sleep(Duration::from_secs(1));
        (processes::processor_time(router) - before < 0.3).then_some(())
    });
    let open = status(&socket)["connections"]["active"].as_u64().unwrap_or(0)
        + status(&socket)["connections"]["idle"].as_u64().unwrap_or(0);
    assert!((100..=190).contains(&open), "{open} connections");
    assert!(processes::descriptors(router).len() < 230, "some are left");
    // No request is cut, and the waiting ones have their turn.
    std::fs::write(server.site.data().join("go"), "").unwrap();
    for client in &mut clients {
        assert_eq!(client.response().text(), "fine");
    }
    let told = server.log().matches("connections are open").count();
    assert!(told < 50, "the log is flooded: {told}");
}

#[test]
fn a_worker_that_leaks_is_replaced_between_requests_and_no_request_fails() {
    let code = "$leak = FFI::new('char[8388608]', false, true); FFI::memset($leak, 1, 8388608);
        echo getmypid();";
    let limits = json!({"memory": 100 << 20});
    let server = Site::script("a.php", code)
        .file("b.php", "<?php echo getmypid();")
        .workers(2)
        .with(json!({"applications": {"site": {
            "limits": limits, "options": {"admin": {"ffi.enable": "1"}},
        }}}))
        .serve();
    if server.get("/a.php").status != 200 {
        return requirements::skipped("PHP has no FFI, without which nothing leaks");
    }
    let before = server.workers();
    let mut client = server.connect();
    let mut pids = std::collections::BTreeSet::new();
    for _ in 0..80 {
        let response = client.get("/a.php");
        assert_eq!(response.status, 200, "{response:?}");
        pids.insert(response.text());
        for worker in server.running_workers() {
            let private = processes::private_memory(worker);
            assert!(private < 140 << 20, "{private} bytes");
        }
    }
    assert!(pids.len() >= 5, "{pids:?}");
    eventually("there are new ones", || {
        let now = server.running_workers();
        (now.len() == 2 && now != before).then_some(())
    });
    assert!(!server.log().contains("[error]"), "it is no error: {}", server.log());
}

#[test]
fn a_full_disk_costs_what_needs_it_and_nothing_else() {
    let code =
        "echo strlen(file_get_contents('php://input')), str_repeat('x', (int) ($_GET['n'] ?? 0));";
    let site = Site::script("a.php", code).file("b.txt", "static").workers(2);
    // Where bodies and answers go that are too large for memory.
    let directory = site.data().with_file_name("tmp");
    let Some(disk) = SmallDisk::mount(&directory, "0777") else { return };
    let server = site.serve();
    let workers = server.workers();
    let fine = || {
        assert_eq!(server.get("/b.txt").text(), "static");
        assert_eq!(server.post("/a.php", "text/plain", "small").text(), "5");
    };
    fine();
    for round in 1..=3 {
        let refused = server.post("/a.php", "text/plain", "x".repeat(200_000));
        assert_eq!(refused.status, 507, "{refused:?}");
        fine();
        // More than the kernel takes for a client that does not read.
        let mut slow = server.connect();
        slow.send("GET /a.php?n=30000000 HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("neither can be kept", || {
            (server.log().matches("cannot be stored").count() == 2 * round).then_some(())
        });
        fine();
        let response = slow.response();
        let (is_cut, length) = (response.cut, response.body.len());
        // An error response if the head was not sent by then.
        assert!(
            is_cut || response.status == 507,
            "it is not taken for whole: {} with {length} bytes",
            response.status
        );
    }
    assert_eq!(server.post("/a.php", "text/plain", "x".repeat(30_000)).text(), "30000", "it fits");
    assert_eq!(server.workers(), workers, "it is no fault of theirs");
    let log = server.log();
    let told = format!("in {}: No space left on device", directory.display());
    for line in log.lines().filter(|line| line.contains("cannot be stored")) {
        assert!(line.contains(&told) && line.contains("make room there, or choose"), "{line}");
    }
    drop(server);
    drop(disk);
}

#[test]
fn each_application_has_an_opcache_of_its_own() {
    let code = "$s = opcache_get_status();
        echo json_encode(array_map('basename', array_keys($s['scripts'] ?? [])));";
    let site = Site::script("a.php", code).file("b.php", format!("<?php {code}"));
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    for name in ["a.php", "b.php"] {
        let file = std::fs::File::options().write(true).open(site.root().join(name)).unwrap();
        file.set_modified(old).unwrap();
    }
    let other = json!({"type": "php", "root": site.root(), "processes": 1});
    let server = site
        .workers(1)
        .with(json!({
            "routes": [
                {"match": {"uri": "/b.php"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "applications": {"other": other},
        }))
        .serve();
    for _ in 0..2 {
        assert_eq!(server.get("/a.php").text(), "[\"a.php\"]");
        assert_eq!(server.get("/b.php").text(), "[\"b.php\"]");
    }
}

#[test]
fn a_version_of_php_that_is_not_installed_is_named_with_those_that_are() {
    let site = Site::script("a.php", "echo PHP_VERSION;")
        .with(json!({"applications": {"site": {"type": "php 5.6"}}}));
    let output =
        site.command(&harness::free_address().to_string()).arg("--strict").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("application \"site\"") && said.contains("PHP 5.6 is not"), "{said}");
    assert!(said.contains("there is PHP 8"), "{said}");
    let server = Site::script("a.php", "echo PHP_VERSION;")
        .with(json!({"applications": {"site": {"type": "php 8"}}}))
        .serve();
    assert!(server.get("/a.php").text().starts_with("8."));
}
