//! The queue in front of the workers: nothing is refused, and first come is first served.

use std::time::Instant;

use harness::{Site, eventually};
use serde_json::json;

/// Takes a number when it starts, then works for some milliseconds.
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
    usleep((int) ($_GET['us'] ?? 0));
    echo $number;";

#[test]
fn a_thousand_requests_at_once_are_all_served_in_the_order_they_came() {
    const REQUESTS: usize = 1000;
    const WORKERS: u32 = 4;
    harness::allow_many_files();
    // One router thread, for the order of arrival is one thread's.
    let settings = json!({"settings": {"listen_threads": 1}});
    let server = Site::script("a.php", NUMBERED).workers(WORKERS).with(settings).serve();
    server.workers();
    let mut clients: Vec<_> = (0..REQUESTS).map(|_| server.connect()).collect();
    // All are accepted: otherwise a late one could be read before an early one. The first client
    // is answered last: the router looks once more at the connection that it answered last,
    // before it asks the kernel which others have sent something.
    clients.iter_mut().rev().for_each(|client| assert_eq!(client.get("/none").status, 404));
    let begun = Instant::now();
    for client in &mut clients {
        client.send("GET /a.php?us=5000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let numbers: Vec<usize> = clients
        .iter_mut()
        .enumerate()
        .map(|(sent, client)| {
            let response = client.response();
            assert_eq!(response.status, 200, "request {sent}: {response:?}");
            response.text().parse().unwrap()
        })
        .collect();
    // Alone, the scripts take 1.25 s.
    println!("they took {:?}", begun.elapsed());
    // The machine may hold a worker up between taking a request and taking its number, for any
    // time, while the others continue: the request is late. But only those that a worker has can be
    // overtaken, so none is early by more than the other workers have.
    for (sent, number) in numbers.iter().enumerate() {
        let is_early = sent > number + 2 * (WORKERS as usize - 1);
        assert!(!is_early, "request {sent} was number {number}: {numbers:?}");
    }
    let mut sorted = numbers;
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..REQUESTS), "each was run once");
}

#[test]
fn one_worker_serves_strictly_in_the_order_of_arrival() {
    // One router thread, for the order of arrival is one thread's.
    let settings = json!({"settings": {"listen_threads": 1}});
    let site = Site::script("a.php", NUMBERED).workers(1).with(settings);
    let control = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&control).serve();
    let mut blocker = server.connect();
    blocker.send("GET /a.php?wait HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the worker is busy", || (server.data("counter") == "1").then_some(()));
    let mut clients: Vec<_> = (1..=20)
        .map(|number| {
            let mut client = server.connect();
            client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
            server.wait_for_requests(1 + number); // it has come before the next one is sent
            client
        })
        .collect();
    std::fs::write(server.site.data().join("go"), "").unwrap();
    let numbers: Vec<_> = clients.iter_mut().map(|client| client.response().text()).collect();
    let expected: Vec<_> = (1..=20).map(|n| n.to_string()).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn more_clients_than_workers_on_kept_connections_are_served_for_long() {
    let server = Site::script("a.php", "echo $_GET['n'];").workers(2).serve();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                for n in 0..200 {
                    let token = format!("{thread}-{n}");
                    assert_eq!(client.get(&format!("/a.php?n={token}")).text(), token);
                }
            });
        }
    });
}

#[test]
fn the_number_of_workers_follows_the_load() {
    let code = "while (!file_exists(getenv('DATA') . '/go')) { usleep(1000); clearstatcache(); }
        usleep(100000); echo getmypid();";
    let server = Site::script("a.php", code)
        .with(json!({"applications": {"site": {
            "processes": {"max": 6, "spare": 1, "idle_timeout": 1},
        }}}))
        .serve();
    eventually("one is spare", || (server.running_workers().len() == 1).then_some(()));
    let mut clients: Vec<_> = (0..30)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    eventually("there are 6", || (server.running_workers().len() == 6).then_some(()));
    std::fs::write(server.site.data().join("go"), "").unwrap();
    let mut pids: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            let response = client.response();
            assert_eq!(response.status, 200, "{response:?}");
            response.text()
        })
        .collect();
    pids.sort();
    pids.dedup();
    assert!((4..=6).contains(&pids.len()), "{} workers served", pids.len());
    eventually("idle ones leave", || (server.running_workers().len() == 1).then_some(()));
    assert!(!server.log().contains("[error]"), "{}", server.log());
}

#[test]
fn an_application_without_workers_starts_one_for_a_request() {
    let server = Site::script("a.php", "echo 'served';")
        .with(json!({"applications": {"site": {
            "processes": {"max": 2, "spare": 0, "idle_timeout": 1},
        }}}))
        .serve();
    for _ in 0..2 {
        assert_eq!(server.get("/a.php").text(), "served");
        eventually("it leaves", || server.running_workers().is_empty().then_some(()));
    }
}
