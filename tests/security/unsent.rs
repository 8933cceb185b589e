//! Memory of clients that do not read, and of pages that are put together: each kind is driven to
//! its limit. Meanwhile another client is served, and in the end all is given back.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, LazyLock, Mutex};

use harness::client::Client;
use harness::http2::{END_STREAM, Frame, Http2, frame, kind, request};
use harness::raw::Raw;
use harness::{Server, Site, eventually, free_address, processes};
use serde_json::{Value, json};

pub const MIB: u64 = 1 << 20;

/// Lines that are all different, so that a byte which is missing or at a wrong place is noticed.
static LINES: LazyLock<String> =
    LazyLock::new(|| (0..7 << 16).map(|number| format!("{number:015}\n")).collect());

/// Length of [`LINES`] in MiB.
const LENGTH: u64 = 7;

/// A server whose pages have 7 MiB, each with a part that comes once the gate is open.
fn pages(gate: &Arc<(Mutex<bool>, Condvar)>) -> Raw {
    let gate = Arc::clone(gate);
    Raw::new(move |connection| {
        while let Some(head) = connection.request() {
            let page = "Surrogate-Control: content=\"ESI/1.0\"\r\n";
            let (fields, body) = match head.split(' ').nth(1) {
                Some("/pages/part") => ("", "part\n".to_owned()),
                Some("/pages/gate") => {
                    let open = gate.1.wait_while(gate.0.lock().unwrap(), |is_open| !*is_open);
                    drop(open);
                    ("", "gate\n".to_owned())
                }
                Some("/pages/late") => {
                    (page, format!("<esi:include src=\"/pages/gate\"/>{}", *LINES))
                }
                _ => (page, format!("<esi:include src=\"/pages/part\"/>{}", *LINES)),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n{fields}Content-Length: \
                 {length}\r\n\r\n"
            );
            if !connection.send(head) || !connection.send(body) {
                return;
            }
        }
    })
}

/// A server that puts these pages together, for clients that a proxy on this machine names.
fn serve(pages: &Raw) -> Server {
    let (address, site) = (free_address().to_string(), Site::new());
    let root = site.root().display().to_string();
    site.file("a.txt", "other")
        .with(json!({
            "settings": { "http": patience() },
            "listeners": {
                &address: {
                    "http2": true,
                    "forwarded": { "client_ip": "X-Forwarded-For", "source": ["127.0.0.0/8"] },
                },
            },
            "routes": [
                {
                    "match": { "uri": "/pages/*" },
                    "action": { "proxy": pages.url(), "cache": { "esi": true } },
                },
                { "action": { "share": format!("{root}$uri") } },
            ],
        }))
        .serve_at(&address)
}

/// Returns settings with which slow clients are not left, however busy the machine is.
pub fn patience() -> Value {
    json!({ "min_rate": 0, "send_timeout": 3600 })
}

/// Returns the memory of the router in bytes.
pub fn memory(server: &Server) -> u64 {
    processes::private_memory(server.router())
}

/// Returns the number of temporary files that the router has open.
pub fn temporary_files(server: &Server) -> usize {
    let all = processes::descriptors(server.router());
    all.iter().filter(|(_, target)| target.contains("/tmp/#")).count()
}

/// Reads the bodies of streams to their end, and keeps the windows open.
fn bodies(connection: &mut Http2, streams: &[u32]) -> HashMap<u32, Vec<u8>> {
    let mut bodies: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut left = streams.len();
    while left > 0 {
        let Frame { kind, flags, stream, payload } = connection.frame().expect("the server sends");
        assert!(kind != kind::RST_STREAM && kind != kind::GOAWAY, "{kind} {payload:?}");
        if kind == kind::DATA {
            bodies.entry(stream).or_default().extend_from_slice(&payload);
            let room = (payload.len() as u32).to_be_bytes();
            for stream in [0, stream] {
                if !payload.is_empty() {
                    connection.try_send(frame(kind::WINDOW_UPDATE, 0, stream, &room));
                }
            }
        }
        left -= usize::from(matches!(kind, kind::HEADERS | kind::DATA) && flags & END_STREAM != 0);
    }
    bodies
}

/// Asks for a page as a client whose address a proxy tells, and reads nothing of it.
fn ask(address: SocketAddr, client: &str, path: &str) -> Client {
    let mut connection = Client::connect(address);
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n"));
    connection
}

#[test]
fn responses_that_a_client_does_not_read_go_to_files_beyond_its_memory() {
    let pages = pages(&Arc::default());
    let server = serve(&pages);
    let is_whole = |connection: &mut Client| {
        let response = connection.response();
        assert_eq!(response.status, 200);
        assert!(response.text() == format!("part\n{}", *LINES), "{}", response.body.len());
    };
    is_whole(&mut ask(server.address, "192.0.2.1", "/pages/x"));
    let before = memory(&server);
    for _ in 0..2 {
        let mut slow: Vec<Client> = Vec::new();
        for number in 0..16 {
            let connection = ask(server.address, "192.0.2.1", "/pages/x");
            eventually("the response begins", || connection.has_data().then_some(()));
            slow.push(connection);
            if number == 2 {
                assert_eq!(temporary_files(&server), 0, "there is memory for this");
            }
        }
        // Without a limit they take 16 × 7 MiB, less the bytes that sockets hold.
        eventually("the rest goes to files", || (temporary_files(&server) >= 6).then_some(()));
        let grown = memory(&server).saturating_sub(before) / MIB;
        assert!(grown < 32 + 3 * LENGTH, "{grown} MiB");
        let files = temporary_files(&server);
        is_whole(&mut ask(server.address, "192.0.2.2", "/pages/x"));
        assert_eq!(temporary_files(&server), files, "another client has its own memory");
        assert_eq!(server.get("/a.txt").text(), "other");
        slow.iter_mut().for_each(is_whole);
        eventually("all is given back", || (temporary_files(&server) == 0).then_some(()));
    }
    let log =
        server.wait_for_log("client 192.0.2.1: responses that clients do not read take 32 MiB");
    assert_eq!(log.matches("which is the limit").count(), 1, "{log}");
}

#[test]
fn streams_that_a_client_does_not_read_go_to_files_beyond_its_memory() {
    const INITIAL_WINDOW: u16 = 4;
    const END: u8 = 5; // END_STREAM, END_HEADERS
    let pages = pages(&Arc::default());
    let server = serve(&pages);
    server.get("/pages/x");
    let before = memory(&server);
    let ask = |connection: &mut Http2, stream| {
        let head = request("GET", "/pages/x", &[("x-forwarded-for", "192.0.2.1")]);
        connection.send(frame(kind::HEADERS, END, stream, &head));
    };
    let mut connection = Http2::connect(server.address, &[(INITIAL_WINDOW, 0)]);
    let streams: Vec<u32> = (0..16).map(|number| 2 * number + 1).collect();
    for stream in &streams {
        ask(&mut connection, *stream);
        let is_head = |frame: &Frame| frame.kind == kind::HEADERS && frame.stream == *stream;
        while !is_head(&connection.frame().expect("the response begins")) {}
    }
    eventually("the rest goes to files", || (temporary_files(&server) >= 10).then_some(()));
    let grown = memory(&server).saturating_sub(before) / MIB;
    assert!(grown < 32 + 3 * LENGTH, "{grown} MiB");
    assert_eq!(server.get("/a.txt").text(), "other");
    connection.send(frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]));
    let bodies = bodies(&mut connection, &streams);
    for stream in streams {
        assert!(bodies[&stream] == format!("part\n{}", *LINES).as_bytes(), "{stream}");
    }
    assert_eq!(temporary_files(&server), 0);
    let mut again = Http2::connect(server.address, &[(INITIAL_WINDOW, 0)]);
    ask(&mut again, 1);
    while again.frame().expect("the response begins").kind != kind::HEADERS {}
    assert_eq!(temporary_files(&server), 0, "the memory was given back");
}

#[test]
fn short_responses_that_nobody_reads_are_refused_beyond_their_memory() {
    const INITIAL_WINDOW: u16 = 4;
    const REFUSED: [u8; 4] = [0, 0, 0, 7]; // REFUSED_STREAM
    let address = free_address().to_string();
    let server = Site::script("index.php", "echo str_repeat('v', 16000);")
        .workers(2)
        .file("a.txt", "other")
        .with(json!({ "settings": { "http": patience() },
            "listeners": { &address: { "http2": true } } }))
        .serve_at(&address);
    server.get("/");
    let before = memory(&server);
    // A connection that asks a hundred times and takes no body, and the number of requests that
    // were refused.
    let ask = || {
        let mut connection = Http2::connect(server.address, &[(INITIAL_WINDOW, 0)]);
        (0..100).for_each(|number| connection.get(2 * number + 1, "/"));
        let (mut begun, mut refused) = (0, 0);
        while begun + refused < 100 {
            let Frame { kind, payload, .. } = connection.frame().expect("the server answers");
            begun += u32::from(kind == kind::HEADERS);
            refused += u32::from(kind == kind::RST_STREAM && payload == REFUSED);
        }
        (connection, refused)
    };
    let (connections, refused): (Vec<Http2>, Vec<u32>) = (0..50).map(|_| ask()).unzip();
    // 128 MiB of 32 KiB each, and four of each connection.
    assert_eq!(5000 - refused.iter().sum::<u32>(), 4096 + 4 * 50);
    let grown = memory(&server).saturating_sub(before) / MIB;
    assert!(grown < 160, "{grown} MiB");
    assert_eq!(server.get("/a.txt").text(), "other");
    let mut other = Http2::connect(server.address, &[]);
    let streams = [1, 3, 5, 7];
    streams.iter().for_each(|stream| other.get(*stream, "/"));
    let bodies = bodies(&mut other, &streams);
    assert!(streams.iter().all(|stream| bodies[stream].len() == 16_000), "each has a few");
    drop(connections);
    eventually("the memory is given back", || (ask().1 == 0).then_some(()));
}

#[test]
fn heads_that_a_client_does_not_read_wait_for_room() {
    const END: u8 = 5; // END_STREAM, END_HEADERS
    let code = "header('X-Large: ' . str_repeat('v', 30000)); echo 'x';";
    let address = free_address().to_string();
    let server = Site::script("index.php", code)
        .workers(1)
        .file("a.txt", "other")
        .with(json!({ "settings": { "http": patience() },
            "listeners": { &address: { "http2": true } } }))
        .serve_at(&address);
    server.get("/");
    let before = memory(&server);
    let mut connections = Vec::new();
    for _ in 0..30 {
        let mut connection = Http2::connect(server.address, &[]);
        for number in 0..100 {
            connection.send(frame(kind::HEADERS, END, 2 * number + 1, &request("GET", "/", &[])));
        }
        connections.push(connection);
    }
    // Without a limit they take up to 30 × 100 × 30 KB, less the bytes that sockets hold.
    assert_eq!(server.get("/a.txt").text(), "other");
    let grown = memory(&server).saturating_sub(before) / MIB;
    assert!(grown < 48, "{grown} MiB");
    for connection in &mut connections {
        let streams: Vec<u32> = (0..100).map(|number| 2 * number + 1).collect();
        assert!(bodies(connection, &streams).values().all(|body| body == b"x"));
    }
}

#[test]
fn pages_that_are_put_together_have_a_limit_for_each_client() {
    let gate = Arc::<(Mutex<bool>, Condvar)>::default();
    let pages = pages(&gate);
    let server = serve(&pages);
    let before = memory(&server);
    let late = || ask(server.address, "192.0.2.1", "/pages/late");
    // A page takes twice its length, and a client may have 64 MiB: four pages wait for their part.
    // They come one after another: pages that grow together could each have a part of the memory.
    let mut waiting: Vec<Client> = Vec::new();
    for page in 1..=4 {
        waiting.push(late());
        let gates =
            || pages.asked().iter().filter(|head| head.starts_with("GET /pages/gate")).count();
        eventually("the page waits for its part", || (gates() == page).then_some(()));
    }
    waiting.extend((0..8).map(|_| late()));
    let refused = |waiting: &[Client]| waiting.iter().filter(|one| one.has_data()).count();
    eventually("the other pages are refused", || (refused(&waiting) == 8).then_some(()));
    let grown = memory(&server).saturating_sub(before) / MIB;
    assert!(grown < 64 + 4 * LENGTH, "{grown} MiB");
    let mut other = ask(server.address, "192.0.2.2", "/pages/x");
    assert_eq!(other.response().status, 200, "another client has its own memory");
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let mut statuses: Vec<u16> = waiting.iter_mut().map(|one| one.response().status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 503, 503, 503, 503, 503, 503, 503, 503]);
    for _ in 0..3 {
        let response = ask(server.address, "192.0.2.1", "/pages/late").response();
        assert!(response.text() == format!("gate\n{}", *LINES), "the memory was given back");
    }
    let log =
        server.wait_for_log("client 192.0.2.1: pages while they are put together take 64 MiB");
    assert!(log.contains("there is no memory left for such pages"), "{log}");
}
