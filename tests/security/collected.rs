//! Memory of responses that are stored in a cache while clients get them: the collected part, and
//! the part that clients do not read.

use std::sync::{Arc, Condvar, Mutex};

use harness::client::Client;
use harness::raw::Raw;
use harness::{Server, Site, eventually, merge};
use serde_json::{Value, json};

use super::memory::{Growth, MIB};
use super::unsent::{patience, temporary_files};

/// A server of one thread with a cache, for clients that a proxy on this machine names.
fn serve(site: Site, mut action: Value) -> Server {
    merge(
        &mut action,
        json!({ "cache": { "name": "pages", "memory": 8 * MIB, "max_object": 6 * MIB } }),
    );
    let root = site.root().display().to_string();
    let server = site.controlled().file("a.txt", "other").serve();
    let mut document = server.site.document(server.address);
    merge(
        &mut document,
        json!({
            "settings": { "listen_threads": 1, "http": patience() },
            "listeners": {
                server.address.to_string(): {
                    "forwarded": { "client_ip": "X-Forwarded-For", "source": ["127.0.0.0/8"] },
                },
            },
            "routes": [
                { "match": { "uri": "/a.txt" }, "action": { "share": format!("{root}$uri") } },
                { "action": action },
            ],
            "applications": { "site": { "script": "index.php" } },
        }),
    );
    server.put("/config", &document);
    server
}

/// Asks as a client whose address a proxy tells, and reads nothing of the response.
fn ask(server: &Server, client: &str, path: &str) -> Client {
    let mut connection = Client::connect(server.address);
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n"));
    connection
}

/// Returns a number about the cache.
fn number(server: &Server, name: &str) -> u64 {
    let status = server.control("GET", "/status/caches/pages", "").succeeded();
    status[name].as_u64().unwrap_or_else(|| panic!("{name}: {status}"))
}

#[test]
fn responses_that_are_stored_and_not_read_go_to_files_beyond_the_memory_of_their_client() {
    const LENGTH: usize = 4 << 20;
    let code = "header('Cache-Control: max-age=60');
        for ($n = 0; $n < 64; $n++) echo str_repeat(chr(65 + $n % 26), 65536);";
    let site = Site::script("index.php", code).workers(2);
    let server = serve(site, json!({ "pass": "applications/site" }));
    ask(&server, "192.0.2.1", "/first").response();
    let growth = Growth::of(&server);
    let mut slow: Vec<Client> = Vec::new();
    for number in 0..60 {
        let connection = ask(&server, "192.0.2.1", &format!("/{number}"));
        eventually("the response begins", || connection.has_data().then_some(()));
        slow.push(connection);
    }
    // 240 MiB.
    eventually("all are stored", || (number(&server, "stored") == 61).then_some(()));
    // A few may fit in the buffers of their connections.
    let files = temporary_files(&server);
    assert!(files > 30, "{files}");
    growth.assert_within((8 + 32) * MIB);
    assert_eq!(server.get("/a.txt").text(), "other");
    for connection in &mut slow {
        let body = connection.response().body;
        assert_eq!(body.len(), LENGTH);
        let is_in_order = |(at, byte): (usize, &u8)| usize::from(*byte) == 65 + (at >> 16) % 26;
        assert!(body.iter().enumerate().all(is_in_order));
    }
    eventually("all is given back", || (temporary_files(&server) == 0).then_some(()));
}

#[test]
fn responses_that_are_collected_before_their_end_have_a_limit_for_each_client() {
    const FIRST: usize = 3 << 20;
    let gate = Arc::<(Mutex<bool>, Condvar)>::default();
    let own = Arc::clone(&gate);
    let slow = Raw::new(move |connection| {
        let Some(head) = connection.request() else { return };
        let last = "the end";
        let fields = "Cache-Control: max-age=60\r\nConnection: close";
        let length = FIRST + last.len();
        connection.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {length}\r\n\r\n"));
        connection.send("v".repeat(FIRST));
        if !head.contains("/quick") {
            drop(own.1.wait_while(own.0.lock().unwrap(), |is_open| !*is_open));
        }
        connection.send(last);
    });
    let server = serve(Site::script("index.php", ""), json!({ "proxy": slow.url() }));
    let growth = Growth::of(&server);
    let mut waiting: Vec<Client> =
        (0..40).map(|number| ask(&server, "192.0.2.1", &format!("/{number}"))).collect();
    // Of 120 MiB, and the uncounted part of more responses, a client may have 32 MiB.
    eventually("most are not collected", || (number(&server, "refused") >= 30).then_some(()));
    growth.assert_within(2 * 32 * MIB);
    assert_eq!(server.get("/a.txt").text(), "other");
    for stored in 0..2 {
        assert_eq!(number(&server, "stored"), stored, "another client has its own memory");
        let quick = ask(&server, "192.0.2.2", "/quick").response();
        assert_eq!(quick.body.len(), FIRST + 7);
    }
    server.wait_for_log(
        "client 192.0.2.1: responses that are collected for a cache, before their end, take 32 \
         MiB of memory",
    );
    assert_eq!(slow.connections(), 41, "the second is from the cache");
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    for connection in &mut waiting {
        let response = connection.response();
        assert!(response.body.len() == FIRST + 7 && response.body.ends_with(b"the end"));
    }
    // The memory was given back.
    let (stored, refused) = (number(&server, "stored"), number(&server, "refused"));
    assert!(stored + refused == 41 && stored > 1, "{stored} {refused}");
    assert_eq!(ask(&server, "192.0.2.1", "/another").response().body.len(), FIRST + 7);
    assert_eq!(number(&server, "stored"), stored + 1);
}
