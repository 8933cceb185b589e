//! Turns in the queue: a client with many requests does not delay others.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use harness::client::Client;
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

/// Takes a number when it starts, then works for five milliseconds, or until it may end.
const NUMBERED: &str = "
    $file = fopen(getenv('DATA') . '/counter', 'c+');
    flock($file, LOCK_EX);
    $number = (int) fgets($file);
    rewind($file);
    fwrite($file, (string) ($number + 1));
    flock($file, LOCK_UN);
    while (isset($_GET['wait']) && !file_exists(getenv('DATA') . '/go')) {
        usleep(1000);
        clearstatcache();
    }
    usleep(5000);
    echo $number;";

fn server(workers: u32, limits: Value, limit: Value) -> Server {
    let mut action = json!({"pass": "applications/site"});
    if !limit.is_null() {
        action["limit"] = limit;
    }
    let site = Site::script("a.php", NUMBERED)
        .workers(workers)
        .with(json!({"applications": {"site": {"limits": limits}}}))
        .with(json!({"routes": [{"action": action}]}));
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).serve()
}

fn started(server: &Server) -> usize {
    // Empty for a moment while a script writes it.
    eventually("the counter is there", || server.data("counter").parse().ok())
}

/// Fifty clients have a hundred requests in the queue at all times. A visitor that sends one now
/// and then is served by the next worker that is free, and not after the hundred.
#[test]
fn fifty_attackers_do_not_hold_up_an_honest_visitor() {
    harness::allow_many_files();
    let server = server(4, json!({"fair": true}), Value::Null);
    let is_over = AtomicBool::new(false);
    let mut waits: Vec<usize> = std::thread::scope(|scope| {
        for attacker in 0..100 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let source = Ipv4Addr::new(127, 1, 0, 1 + attacker / 2);
                let mut client = Client::connect_from(source, server.address);
                while !is_over.load(Relaxed) {
                    assert_eq!(client.get("/a.php").status, 200);
                }
            });
        }
        eventually("the attack goes on", || (started(&server) > 300).then_some(()));
        let mut visitor = server.connect();
        let waits = (0..41).map(|_| {
            let before = started(&server);
            let number: usize = visitor.get("/a.php").text().parse().unwrap();
            // Other clients have their turns before the next visit.
            eventually("others go on", || (started(&server) > number + 110).then_some(()));
            number.saturating_sub(before)
        });
        let waits = waits.collect();
        is_over.store(true, Relaxed);
        waits
    });
    waits.sort_unstable();
    // The machine may be slow between the look at the counter and the request.
    assert!(waits[20] < 40, "requests that were started before that of the visitor: {waits:?}");
}

/// All workers are free, and one client may have one of them.
#[test]
fn a_client_has_no_more_processes_than_its_limit() {
    let server = server(4, json!({}), json!({"processes": 1}));
    let mut greedy: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut greedy {
        client.send("GET /a.php?wait HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.wait_for_requests(4);
    eventually("one of them runs", || (started(&server) == 1).then_some(()));
    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), server.address);
    for _ in 0..5 {
        assert_eq!(other.get("/a.php").status, 200);
    }
    assert_eq!(started(&server), 6, "one of the greedy client and five of the other");
    std::fs::write(server.site.data().join("go"), "").unwrap();
    for client in &mut greedy {
        assert_eq!(client.response().status, 200, "the others have waited for their turn");
    }
}

#[test]
fn requests_that_wait_longer_than_clients_do_are_given_up() {
    let server = server(1, json!({"patience": 1}), Value::Null);
    let mut first = server.connect();
    first.send("GET /a.php?wait HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it runs", || (server.data("counter") == "1").then_some(()));
    // More than the slots of the shared memory have room for.
    let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.wait_for_log("the queue is overloaded: requests have waited longer than");
    std::fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(first.response().status, 200);
    let statuses: Vec<_> = clients.iter_mut().map(|client| client.response().status).collect();
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert!(count(503) > 0 && count(200) > 0 && count(200) + count(503) == 40, "{statuses:?}");
}
