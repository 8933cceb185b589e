//! Large stored pages, which the kernel sends from memory of its own after a few times.

use std::fs;

use harness::client::Client;
use harness::{Server, processes};
use serde_json::json;

use super::origin::{cached, get, is_hit, origin, page};

const LENGTH: usize = 100_000;

/// Returns text in which each place differs.
fn text(name: &str) -> String {
    let mut text: String = (0..LENGTH / 8).map(|number| format!("{number:07}\n")).collect();
    text.replace_range(..name.len(), name);
    text
}

fn serve() -> Server {
    let origin = origin(|head, _| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        page("Cache-Control: max-age=600\r\nETag: \"a\"\r\n", text(target))
    });
    // The origin is asked once for each page.
    cached(Box::leak(Box::new(origin)), json!({}))
}

/// Opens connections: copies are made for many.
fn others(server: &Server) -> Vec<Client> {
    let connect = |_| {
        let mut client = server.connect();
        assert_eq!(client.get("/other").status, 200);
        client
    };
    (0..64).map(connect).collect()
}

/// Returns the number of files in memory that the router has open.
fn files(server: &Server) -> usize {
    let links = fs::read_dir(format!("/proc/{}/fd", server.router())).unwrap();
    let links = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    links.filter(|link| link.to_string_lossy().contains("memfd:howdah-request")).count()
}

#[test]
fn a_page_that_is_sent_often_stays_the_same() {
    let server = serve();
    let before = files(&server);
    let _others = others(&server);
    for target in ["/one", "/two"] {
        let expected = text(target);
        for round in 0..30 {
            let response = get(&server, target, "");
            assert_eq!(is_hit(&response), round > 0, "{target} {round}");
            assert!(response.text() == expected, "{target} {round}");
        }
        let part = get(&server, target, "Range: bytes=5-90004\r\n");
        assert!(part.status == 206 && part.text() == expected[5..90_005], "{target}");
        let end = get(&server, target, "Range: bytes=-60000\r\n");
        assert!(end.text() == expected[expected.len() - 60_000..], "{target}");
        assert_eq!(get(&server, target, "If-None-Match: \"a\"\r\n").status, 304);
    }
    // The files of "/other" are removed, too.
    assert_eq!(files(&server), before + 3);
}

#[test]
fn several_on_one_connection_are_in_order() {
    let server = serve();
    let _others = others(&server);
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let targets = ["/one", "/two", "/one", "/small", "/two"];
    let mut client = server.connect();
    for _ in 0..10 {
        client.send(targets.map(request).concat());
        for target in targets {
            assert!(client.response().text() == text(target), "{target}");
        }
    }
}

/// Clients that do not read, and are then gone, delay no other client; one that reads late gets
/// all.
#[test]
fn slow_clients_get_all_or_are_dropped() {
    const REQUESTS: usize = 50;
    let server = serve();
    let request = "GET /one HTTP/1.1\r\nHost: a.example\r\n\r\n";
    get(&server, "/one", "");
    let mut slow: Vec<_> = (0..64)
        .map(|_| {
            let mut client = server.connect();
            client.send(request.repeat(REQUESTS));
            client
        })
        .collect();
    for _ in 0..20 {
        assert!(get(&server, "/one", "").text() == text("/one"));
    }
    let mut kept = slow.swap_remove(0);
    drop(slow);
    for number in 0..REQUESTS {
        assert!(kept.response().text() == text("/one"), "{number}");
    }
    assert!(get(&server, "/one", "").text() == text("/one"));
    // Bytes that wait in sockets are not memory of the router.
    let memory = processes::peak_memory(server.router());
    assert!(memory < 400 << 20, "{memory}");
}
