//! Requests of HTTP/2 that are being answered: those of one client and one site leave room for
//! those of others.

use harness::http2::{Frame, Http2, frame, kind, request};
use harness::raw::Raw;
use harness::{Server, Site, allow_many_files, eventually, free_address};
use serde_json::json;

use super::unsent::{MIB, memory, patience};

const INITIAL_WINDOW: u16 = 4;
const END: u8 = 5; // END_STREAM, END_HEADERS
const REFUSED: [u8; 4] = [0, 0, 0, 7]; // REFUSED_STREAM

/// Number of requests that a client, and a site, may have: 64 and 128 MiB of 32 KiB each.
const OF_CLIENT: usize = 2048;
const OF_SITE: usize = 4096;

/// A server with two applications and two directories on one listener, for clients that a proxy on
/// this machine names.
fn serve() -> Server {
    let (address, page) = (free_address().to_string(), "v".repeat(16_000));
    let site = Site::script("index.php", "echo str_repeat('v', 16000);")
        .file("a/page.txt", &page)
        .file("b/page.txt", &page)
        .open_files(10_000)
        .workers(1);
    let root = site.root().display().to_string();
    let share = |name: &str| {
        json!({
            "match": { "uri": format!("/{name}/*") },
            "action": { "share": format!("{root}/{name}/page.txt") },
        })
    };
    let application = |name: &str| {
        json!({ "match": { "uri": format!("/{name}/*") },
        "action": { "pass": format!("applications/{name}") } })
    };
    let php = json!({ "type": "php", "root": root, "script": "index.php", "processes": 1 });
    site.with(json!({
        "settings": { "http": patience() },
        "listeners": {
            &address: {
                "http2": true,
                "forwarded": { "client_ip": "X-Forwarded-For", "source": ["127.0.0.0/8"] },
            },
        },
        "routes": [share("a"), share("b"), application("blog"), application("shop")],
        "applications": { "blog": php, "shop": php },
    }))
    .serve_at(&address)
}

/// A server with a page of 8 MiB, and requests whose bodies wait for a check that never ends.
fn serve_unread() -> (Server, Raw) {
    let check = Raw::new(|connection| while connection.request().is_some() {});
    let address = free_address().to_string();
    let action = json!({ "auth_request": { "action": { "proxy": check.url() } }, "return": 200 });
    let site = Site::new().file("page.txt", "v".repeat(8 << 20)).file("a.txt", "other");
    let root = site.root().display().to_string();
    let server = site
        .with(json!({
            "settings": { "http": patience() },
            "listeners": { &address: { "http2": true } },
            "routes": [
                { "match": { "uri": "/check" }, "action": action },
                { "action": { "share": format!("{root}$uri") } },
            ],
        }))
        .serve_at(&address);
    (server, check)
}

/// Begins requests and sends frames of their bodies, as many as the windows allow.
fn send_bodies(server: &Server, is_rich: bool, length: usize, frames: u32) -> Http2 {
    let mut connection = Http2::connect(server.address, &[]);
    // The windows are as large as the server says once the client has acknowledged it.
    while connection.frame().expect("the server sends settings").kind != kind::SETTINGS {}
    connection.send(frame(kind::SETTINGS, 1, 0, &[])); // ACK
    if is_rich {
        connection.get(1, "/page.txt");
        assert_eq!(connection.answer(1).body.len(), 8 << 20);
    }
    let payload = vec![b'x'; length];
    for stream in [3, 5, 7, 9] {
        let head = request("POST", "/check", &[]);
        connection.try_send(frame(kind::HEADERS, 4, stream, &head)); // END_HEADERS
        let all = frame(kind::DATA, 0, stream, &payload).repeat(frames as usize);
        connection.try_send(&all);
    }
    // Its answer comes when the server has taken all; a connection that is cut off ends.
    connection.try_send(frame(kind::PING, 0, 0, &[7; 8]));
    while connection.frame().is_some_and(|frame| frame.kind != kind::PING) {}
    connection
}

#[test]
fn bodies_that_nobody_reads_have_little_more_than_the_windows_of_their_connections() {
    const CONNECTIONS: u64 = 40;
    let (server, check) = serve_unread();
    drop(send_bodies(&server, true, 1, 1));
    // Frames as large as they may be fill the windows, 1 MiB for each connection. A frame of a byte
    // takes hundreds: a client is cut off for them, also one that has transferred much before.
    let floods =
        [(false, 16_384, 16, 1), (false, 1, 20_000, 0), (true, 1, 20_000, 0), (true, 64, 4000, 0)];
    for (is_rich, length, frames, window) in floods {
        let (before, checks) = (memory(&server), check.connections());
        let connections: Vec<_> =
            (0..CONNECTIONS).map(|_| send_bodies(&server, is_rich, length, frames)).collect();
        assert_eq!(server.get("/a.txt").text(), "other");
        let grown = memory(&server).saturating_sub(before) / MIB;
        assert!(grown < CONNECTIONS * window + 32, "{length} bytes: {grown} MiB");
        if window > 0 {
            let waits = || (check.connections() > checks).then_some(());
            eventually("bodies wait for the check", waits);
        }
        drop(connections);
    }
}

/// A connection that asks for as many pages and takes none, and the number of requests that were
/// refused.
fn ask(server: &Server, client: &str, path: &str, requests: u32) -> (Http2, usize) {
    let mut connection = Http2::connect(server.address, &[(INITIAL_WINDOW, 0)]);
    let head = request("GET", path, &[("x-forwarded-for", client)]);
    (0..requests)
        .for_each(|number| connection.send(frame(kind::HEADERS, END, 2 * number + 1, &head)));
    let (mut begun, mut refused) = (0, 0);
    while begun + refused < requests {
        let Frame { kind, payload, .. } = connection.frame().expect("the server answers");
        begun += u32::from(kind == kind::HEADERS);
        refused += u32::from(kind == kind::RST_STREAM && payload == REFUSED);
    }
    (connection, refused as usize)
}

/// Connections of clients that ask for as much as they get of a page, and the number of requests
/// that were answered.
fn ask_for_all(server: &Server, clients: &[&str], path: &str) -> (Vec<Http2>, usize) {
    let connections: Vec<_> = (clients.iter())
        .flat_map(|client| (0..22).map(|_| ask(server, client, path, 100)))
        .collect();
    let answered = connections.iter().map(|(_, refused)| 100 - refused).sum();
    (connections.into_iter().map(|(connection, _)| connection).collect(), answered)
}

#[test]
fn long_streams_of_one_site_take_nothing_from_another() {
    allow_many_files();
    let server = serve();
    for (path, others) in [("/blog/", ["/shop/", "/a/"]), ("/a/", ["/b/", "/blog/"])] {
        let clients = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
        let (connections, answered) = ask_for_all(&server, &clients, path);
        let first = 4 * connections.len();
        assert_eq!(answered, OF_SITE + first, "{path}");
        assert_eq!(ask(&server, "192.0.2.9", path, 100).1, 96, "{path}: a few of each connection");
        for other in others {
            assert_eq!(ask(&server, "192.0.2.9", other, 100).1, 0, "{other} beside {path}");
        }
        drop(connections);
        let is_free = || (ask(&server, "192.0.2.9", path, 100).1 == 0).then_some(());
        eventually("the memory is given back", is_free);
    }
    server.wait_for_log(
        "client 192.0.2.1: requests of HTTP/2 and HTTP/3 that are being answered take 64 MiB",
    );
}

#[test]
fn connections_with_a_few_requests_each_have_a_limit_for_each_client() {
    allow_many_files();
    let server = serve();
    ask(&server, "192.0.2.1", "/a/", 4);
    let before = memory(&server);
    let connections: Vec<_> = (0..600).map(|_| ask(&server, "192.0.2.1", "/a/", 4)).collect();
    let refused: usize = connections.iter().map(|(_, refused)| refused).sum();
    assert_eq!(2400 - refused, OF_CLIENT);
    let grown = memory(&server).saturating_sub(before) / MIB;
    // Besides, a connection has little.
    assert!(grown < 64 + 24, "{grown} MiB");
    assert_eq!(ask(&server, "192.0.2.2", "/a/", 4).1, 0, "another client has its own");
    drop(connections);
    eventually("all is given back", || (ask(&server, "192.0.2.1", "/a/", 4).1 == 0).then_some(()));
    server.wait_for_log("client 192.0.2.1: first requests of HTTP/2 and HTTP/3 connections");
}
