//! Clients that take their time, do not read, or leave; and heads without end.

use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use harness::client::Client;
use harness::{Site, eventually, processes};
use serde_json::json;

use super::smuggling::site;
use harness::time::Stopwatch;

#[test]
fn heads_without_bounds_are_refused_in_bounded_memory() {
    let server = site().serve();
    let router = server.router();
    server.get("/a.php");
    let before = processes::private_memory(router);
    let long = "x".repeat(1 << 20);
    let many: String = (0..10_000).map(|n| format!("X-{n}: y\r\n")).collect();
    let requests = [
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431),
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{long}: x\r\n\r\n"), 431),
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431),
        (format!("GET /a.php?{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\nCookie: {long}\r\n\r\n"), 431),
    ];
    let mut open = Vec::new();
    for _ in 0..20 {
        for (request, status) in &requests {
            let mut client = server.connect();
            let _ = client.try_send(request);
            assert_eq!(client.response().status, *status, "{}", &request[..40]);
            open.push(client);
        }
    }
    let after = processes::private_memory(router);
    assert!(after < before + (24 << 20), "the router has grown from {before} to {after}");
    // A long line that never ends is refused as well.
    let mut client = server.connect();
    for _ in 0..64 {
        if client.try_send(vec![b'x'; 16 << 10]).is_err() {
            break;
        }
    }
    assert!(matches!(client.response().status, 400 | 414 | 431));
}

#[test]
fn slow_clients_hold_up_nobody_and_are_cut() {
    let server = site()
        .file("big.bin", vec![7; 8 << 20])
        .with(json!({"settings": {"http": {
            "header_read_timeout": 6, "body_read_timeout": 6, "send_timeout": 6,
        }}}))
        .serve();
    let router = server.router();
    let sockets = || {
        let all = processes::descriptors(router);
        all.iter().filter(|(_, target)| target.starts_with("socket:")).count()
    };
    let before = sockets();
    let mut slow = Vec::new();
    for n in 0..300 {
        let mut client = server.connect();
        client.send(match n % 3 {
            0 => "GET /a.php HTTP/1.1\r\nHost: a\r\nX: y",
            1 => "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nsome",
            _ => "GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        });
        slow.push(client);
    }
    let mut client = server.connect();
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(1) {
        let request = Stopwatch::start();
        assert_eq!(client.get("/a.php").status, 200);
        assert_eq!(client.get("/a.txt").status, 200);
        longest = longest.max(request.elapsed());
    }
    assert!(longest < Duration::from_secs(20), "a request waited {longest:?} for slow clients");
    let (files, heads_and_bodies): (Vec<_>, Vec<_>) =
        slow.into_iter().enumerate().partition(|(n, _)| n % 3 == 2);
    for (n, mut client) in heads_and_bodies {
        assert_eq!(client.response().status, 408, "client {n}");
        assert!(client.is_closed(), "client {n}");
    }
    drop(client);
    // The clients must not read before their time is over; it begins anew while the kernel passes
    // data on to their buffers.
    eventually("the clients that do not read are cut", || (sockets() <= before).then_some(()));
    for (n, mut client) in files {
        assert!(client.everything().len() < 8 << 20, "client {n} was cut");
    }
}

/// A client takes less in the time limit than the kernel's buffer must have free for the next
/// write.
#[test]
fn a_client_that_goes_on_reading_gets_the_whole_response() {
    const SIZE: usize = 24 << 20;
    let site = site().file("big.bin", vec![7; SIZE]);
    let address = site.data().join("socket");
    let listener = format!("unix:{}", address.display());
    let settings = json!({"settings": {"http": {"send_timeout": 6}}});
    let server =
        site.with(settings).with(json!({"listeners": {listener: {"pass": "routes"}}})).serve();
    let router = server.router();
    let sockets = move || {
        let all = processes::descriptors(router);
        all.iter().filter(|(_, target)| target.starts_with("socket:")).count()
    };
    let before = sockets();
    fn take(
        stream: &mut (impl Read + Write),
        is_reading: bool,
        is_cut: impl Fn() -> bool,
    ) -> usize {
        stream.write_all(b"GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let (mut piece, mut count) = (vec![0; 16 << 10], 0);
        for _ in 0..if is_reading { 20 } else { 1 } {
            std::thread::sleep(Duration::from_millis(600));
            stream.read_exact(&mut piece).unwrap();
            count += piece.len();
        }
        if !is_reading {
            eventually("the client is cut", || is_cut().then_some(()));
        }
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        count + rest.len()
    }
    let is_cut = || sockets() <= before;
    std::thread::scope(|scope| {
        let clients: Vec<_> = [true, false]
            .into_iter()
            .flat_map(|is_reading| {
                let mut tcp = std::net::TcpStream::connect(server.address).unwrap();
                let mut unix = std::os::unix::net::UnixStream::connect(&address).unwrap();
                [
                    (is_reading, scope.spawn(move || take(&mut tcp, is_reading, is_cut))),
                    (is_reading, scope.spawn(move || take(&mut unix, is_reading, is_cut))),
                ]
            })
            .collect();
        for (is_reading, client) in clients {
            assert_eq!(client.join().unwrap() > SIZE, is_reading);
        }
    });
}

#[test]
fn clients_that_do_not_read_hold_no_worker_and_little_memory() {
    const CLIENTS: usize = 60;
    const SIZE: usize = 4 << 20;
    let code = format!(
        "$piece = str_repeat('x', 65536);
        for ($i = 0; $i < {}; $i++) echo $piece;",
        SIZE / 65536
    );
    let server =
        Site::script("big.php", &code).file("small.php", "<?php echo 'small';").workers(4).serve();
    let router = server.router();
    server.get("/small.php");
    let before = processes::private_memory(router);
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /big.php HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    // Behind all of them in the queue: it is answered because none of them holds a worker.
    assert_eq!(server.get("/small.php").text(), "small");
    for _ in 0..20 {
        assert_eq!(server.get("/small.php").text(), "small");
    }
    let grown = processes::private_memory(router).saturating_sub(before);
    // For each, 128 KiB by design, up to 64 KiB of a buffer whose other half was sent, and the
    // overhead of the allocator and the sockets.
    assert!(grown < CLIENTS as u64 * (256 << 10), "the router has grown by {grown} bytes");
    for client in clients.iter_mut().take(3) {
        let response = client.response();
        assert!(response.body.len() == SIZE && !response.cut, "those that read get all of it");
    }
}

#[test]
fn a_script_whose_client_has_gone_ends_and_its_worker_is_free() {
    let server = Site::new()
        .file(
            "endless.php",
            "<?php register_shutdown_function(function () {
                 file_put_contents(getenv('DATA') . '/ended', connection_aborted());
             });
             touch(getenv('DATA') . '/begun');
             while (true) { echo str_repeat('x', 100); flush(); usleep(10000); }",
        )
        .file("free.php", "<?php echo 'free';")
        .workers(1)
        .with(json!({}))
        .serve();
    let worker = server.workers();
    for reset in [false, true] {
        let mut client = server.connect();
        client.send("GET /endless.php HTTP/1.1\r\nHost: a\r\n\r\n");
        client.wait_for("xxxx");
        if reset {
            leave_with_reset(client);
        } else {
            drop(client);
        }
        let begun = Stopwatch::start();
        assert_eq!(server.get("/free.php").text(), "free");
        assert!(begun.elapsed() < Duration::from_secs(20), "free after {:?}", begun.elapsed());
        assert_eq!(server.data("ended"), "1");
    }
    assert_eq!(server.workers(), worker, "it is the same worker");
}

#[test]
fn a_client_that_leaves_the_queue_costs_no_worker_anything() {
    let slow = "<?php touch(getenv('DATA') . '/begun');
        while (!file_exists(getenv('DATA') . '/go')) { usleep(1000); clearstatcache(); }
        echo 'slow';";
    let site = Site::new().file("slow.php", slow);
    let socket = site.control_socket();
    let server = site
        .argument("--control")
        .argument(&format!("unix:{}", socket.display()))
        .file("count.php", "<?php file_put_contents(getenv('DATA').'/ran', 'x', FILE_APPEND);")
        .workers(1)
        .with(json!({}))
        .serve();
    let mut first = server.connect();
    first.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it runs", || server.site.data().join("begun").exists().then_some(()));
    let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /count.php HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.wait_for_requests(51);
    drop(clients);
    server.wait_for_requests(1);
    fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(server.get("/slow.php").text(), "slow");
    assert_eq!(first.response().text(), "slow");
    assert_eq!(server.data("ran"), "", "nobody waited for these any more");
}

#[test]
fn a_script_may_go_on_without_its_client() {
    let server = Site::script(
        "a.php",
        "ignore_user_abort(true);
         for ($i = 0; $i < 20; $i++) { echo str_repeat('x', 1000); flush(); usleep(10000); }
         file_put_contents(getenv('DATA') . '/ended', 'aborted: ' . connection_aborted());",
    )
    .workers(1)
    .with(json!({}))
    .serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for("xxxx");
    drop(client);
    eventually("the script ends by itself", || {
        (server.data("ended") == "aborted: 1").then_some(())
    });
}

/// Closes a connection as a crashing client does.
fn leave_with_reset(client: Client) {
    let mut stream = client.stream();
    // Bytes that were not read make the kernel send a reset.
    let _ = stream.write_all(b"");
    let _ = stream.read(&mut [0; 1]);
    harness::time::sleep(Duration::from_millis(30));
    drop(client);
}
