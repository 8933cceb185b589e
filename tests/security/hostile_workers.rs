//! A worker that writes garbage over all that it can write, its shared memory and its descriptors,
//! harms its own application alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::{Ends, Server, Site, eventually, processes, requirements};
use rustix::process::Signal;
use serde_json::json;

/// Writes garbage for as long as the query says, by calling C from PHP.
const EVIL: &str = r#"
    set_time_limit(0);
    $c = FFI::cdef('
        long getrandom(void *buffer, size_t length, unsigned flags);
        void *memset(void *at, int value, size_t length);
        long write(int fd, const void *buffer, size_t length);
        long send(int fd, const void *buffer, size_t length, int flags);
        int fcntl(int fd, int command, long argument);
        int ftruncate(int fd, long length);', null);
    $regions = [];
    foreach (file('/proc/self/maps') as $line)
        if (str_contains($line, 'howdah-region') && preg_match('/^(\w+)-(\w+) rw/', $line, $m))
            $regions[] = [hexdec($m[1]), hexdec($m[2]) - hexdec($m[1])];
    if (!$regions) { http_response_code(501); die('no region'); }
    file_put_contents(getenv('DATA') . '/evil', getmypid());
    $pointer = function (int $address) { $n = FFI::new('uintptr_t'); $n->cdata = $address;
        return FFI::cast('char **', FFI::addr($n))[0]; };
    $garbage = FFI::new('char[65536]');
    $until = microtime(true) + (float) $_GET['seconds'];
    do {
        foreach ($regions as [$start, $length]) {
            if (isset($_GET['all']))
                for ($offset = 0; $offset < $length; $offset += 65536)
                    $c->getrandom($pointer($start + $offset), min(65536, $length - $offset), 0);
            if (isset($_GET['ones'])) $c->memset($pointer($start), 0xff, $length);
            if (isset($_GET['zeros'])) $c->memset($pointer($start), 0, $length);
            if (isset($_GET['head']))
                $c->getrandom($pointer($start + random_int(0, 4095) * 8), 8, 0);
            if (isset($_GET['anywhere']))
                $c->getrandom($pointer($start + random_int(0, intdiv($length, 8) - 1) * 8), 8, 0);
        }
        if (isset($_GET['descriptors'])) for ($fd = 3; $fd < 64; $fd++) {
            $size = random_int(1, 65536);
            $c->getrandom($garbage, $size, 0);
            $c->fcntl($fd, 4, 2048); // not to wait
            $c->send($fd, $garbage, $size, 0x40);
            $c->write($fd, $garbage, $size);
            $c->ftruncate($fd, random_int(0, 100));
        }
    } while (microtime(true) < $until);
    echo 'done';"#;

fn two_applications() -> Server {
    let site = Site::script("evil.php", EVIL)
        .file("fine.php", "<?php usleep(500); echo 'fine';")
        .file("ok.php", "<?php echo 'ok';");
    let evil = json!({
        "type": "php", "root": site.root(), "processes": 3,
        "limits": {"timeout": 5, "queue_timeout": 2},
        "options": {"admin": {"ffi.enable": "1"}},
        "environment": {"TMPDIR": "/tmp", "DATA": site.data()},
    });
    let routes = json!([
        {"match": {"uri": ["/evil.php", "/ok.php"]}, "action": {"pass": "applications/evil"}},
        {"action": {"pass": "applications/site"}},
    ]);
    site.with(json!({"routes": routes, "applications": {"evil": evil}})).serve()
}

/// Sends a request to the evil application; every outcome will do, but there must be one.
fn ask_evil(server: &Server, target: &str) -> Option<u16> {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
    let answer = client.everything();
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}

#[test]
fn garbage_of_a_worker_harms_its_own_application_alone() {
    let server = two_applications();
    if ask_evil(&server, "/evil.php?seconds=0&head") == Some(500) {
        assert!(server.log().contains("FFI"), "{}", server.log());
        return requirements::skipped("PHP has no FFI");
    }
    let router = server.router();
    let ways = ["head", "anywhere", "all", "ones", "zeros", "descriptors", "all&descriptors"];
    for way in ways {
        let ending = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ended = Ends(&ending);
            let clients: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut served, mut slowest) = (0, Duration::ZERO);
                        let mut client = server.connect();
                        loop {
                            let begun = Instant::now();
                            assert_eq!(client.get("/fine.php").text(), "fine", "{way}");
                            slowest = slowest.max(begun.elapsed());
                            served += 1;
                            if ending.load(Ordering::Relaxed) {
                                break;
                            }
                        }
                        (served, slowest)
                    })
                })
                .collect();
            let others: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        while !ending.load(Ordering::Relaxed) {
                            ask_evil(&server, "/ok.php");
                            std::thread::sleep(Duration::from_millis(2));
                        }
                    })
                })
                .collect();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(1200) {
                ask_evil(&server, &format!("/evil.php?seconds=0.5&{way}"));
                std::thread::sleep(Duration::from_millis(20));
            }
            drop(ended);
            others.into_iter().for_each(|other| other.join().expect("there is an outcome"));
            for client in clients {
                let (served, slowest) = client.join().expect("the other application is served");
                assert!(served > 0, "{way}: {served} requests, the slowest took {slowest:?}");
                println!("{way}: {served} requests of the other one, at most {slowest:?}");
            }
        });
        let begun = Instant::now();
        eventually("the application is served again", || {
            (ask_evil(&server, "/ok.php") == Some(200)).then_some(())
        });
        println!("{way}: served again after {:?}", begun.elapsed());
    }
    assert_eq!(server.router(), router, "the router has not noticed much");
}

#[test]
fn a_worker_that_is_stopped_between_requests_is_replaced_when_requests_wait() {
    let site = Site::script("pid.php", "echo getmypid();").workers(2);
    let server = site.serve();
    let pid = || server.connect().get("/pid.php").text().parse::<u32>().ok();
    let stopped = server.workers();
    for worker in &stopped {
        // A worker that is not ready yet would not be called for a request.
        eventually("the worker sleeps", || processes::is_asleep(*worker).then_some(()));
        processes::signal(*worker, Signal::STOP);
    }
    let other = eventually("a new worker serves", pid);
    assert!(!stopped.contains(&other), "{other} of {stopped:?}");
    let log = server.log();
    assert!(log.contains("it has not taken another request for 5 seconds"), "{log}");
}

#[test]
fn a_stopped_worker_holds_up_no_others_and_is_replaced() {
    let resident = json!({
        "routes": [{"action": {"pass": "applications/site"}}],
        "applications": {"site": {"worker": {"script": "resident.php"}}},
    });
    for (name, site) in [
        ("classic", Site::script("pid.php", "echo getmypid();")),
        (
            "resident",
            Site::script(
                "resident.php",
                "while (frankenphp_handle_request(function () { echo getmypid(); }));",
            )
            .with(resident),
        ),
    ] {
        let server = site.workers(3).serve();
        let pid = || server.connect().get("/pid.php").text().parse::<u32>();
        eventually("all workers run", || (server.workers().len() == 3).then_some(()));
        let stopped = pid().unwrap();
        // A worker that still looks for the next request would not be called for it.
        eventually("the worker sleeps", || processes::is_asleep(stopped).then_some(()));
        processes::signal(stopped, Signal::STOP);
        // Several at once: all workers that sleep are called, also if it is not the first of them.
        let is_replaced = || {
            let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
            for client in &mut clients {
                client.send("GET /pid.php HTTP/1.1\r\nHost: a\r\n\r\n");
            }
            for client in &mut clients {
                let other: u32 = client.response().text().parse().unwrap();
                assert_ne!(other, stopped, "{name}");
            }
            (!server.workers().contains(&stopped)).then_some(())
        };
        eventually("the worker is replaced", is_replaced);
        let log = server.log();
        assert!(log.contains("it has not taken another request for 5 seconds"), "{name}: {log}");
    }
}

#[test]
fn a_worker_without_descriptors_ends_and_the_application_is_served() {
    let close = "$c = FFI::cdef('int close(int fd);', null);
        for ($fd = 3; $fd < 200; $fd++) $c->close($fd);";
    let site = Site::script("close.php", close)
        .file("ok.php", "<?php echo 'ok';")
        .with(json!({"applications": {"site": {"options": {"admin": {"ffi.enable": "1"}}}}}))
        .workers(2);
    let server = site.serve();
    let before = server.workers();
    ask_evil(&server, "/close.php");
    if server.log().contains("Class \"FFI\" not found") {
        return requirements::skipped("PHP has no FFI");
    }
    // The worker itself may answer with an error, but each request has an answer.
    eventually("the worker is replaced", || {
        assert!(ask_evil(&server, "/ok.php").is_some(), "{}", server.log());
        (server.workers() != before).then_some(())
    });
    for _ in 0..20 {
        assert_eq!(ask_evil(&server, "/ok.php"), Some(200), "{}", server.log());
    }
}
