//! Temporary files of responses that clients do not read: one for each, and their space has a
//! limit.

use std::fs;
use std::os::unix::fs::MetadataExt;

use harness::client::Client;
use harness::http2::{END_STREAM, Frame, Http2, frame, kind, request};
use harness::{Server, Site, allow_many_files, eventually, free_address, merge};
use serde_json::{Value, json};

use super::unsent::{MIB, patience, temporary_files};

const INITIAL_WINDOW: u16 = 4;
const END: u8 = 5; // END_STREAM, END_HEADERS

/// A server whose script writes as many KiB as it is asked for, for clients that a proxy on this
/// machine names.
fn serve(mut http: Value) -> Server {
    merge(&mut http, patience());
    let code = "for ($n = 0; $n < $_GET['kib']; $n++) echo str_repeat('v', 1024);";
    let address = free_address().to_string();
    Site::script("index.php", code)
        .file("a.txt", "other")
        .open_files(10_000)
        .workers(1)
        .with(json!({
            "settings": { "http": http },
            "listeners": {
                &address: {
                    "http2": true,
                    "forwarded": { "client_ip": "X-Forwarded-For", "source": ["127.0.0.0/8"] },
                },
            },
        }))
        .serve_at(&address)
}

/// A connection that asks for as many responses of this size and takes none.
fn ask(server: &Server, client: &str, requests: u32, kib: u64) -> Http2 {
    let mut connection = Http2::connect(server.address, &[(INITIAL_WINDOW, 0)]);
    let path = format!("/index.php?kib={kib}");
    let head = request("GET", &path, &[("x-forwarded-for", client)]);
    (0..requests)
        .for_each(|number| connection.send(frame(kind::HEADERS, END, 2 * number + 1, &head)));
    let mut begun = 0;
    while begun < requests {
        let Frame { kind, .. } = connection.frame().expect("the server answers");
        assert_ne!(kind, kind::RST_STREAM);
        begun += u32::from(kind == kind::HEADERS);
    }
    connection
}

/// Opens the windows, and returns the number of responses that are whole, and of those that are cut
/// off.
fn read(connection: &mut Http2, requests: u32, kib: u64) -> (u32, u32) {
    connection.send(frame(kind::SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
    connection.send(frame(kind::WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
    let (mut whole, mut cut) = (0, 0);
    let mut lengths = vec![0; 2 * requests as usize];
    while whole + cut < requests {
        let Frame { kind, flags, stream, payload } = connection.frame().expect("the server sends");
        cut += u32::from(kind == kind::RST_STREAM);
        if kind == kind::DATA {
            lengths[stream as usize] += payload.len() as u64;
            if flags & END_STREAM != 0 {
                assert_eq!(lengths[stream as usize], kib << 10);
                whole += 1;
            }
        }
    }
    (whole, cut)
}

/// Returns the space that temporary files of the router take, in bytes.
fn space(server: &Server) -> u64 {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", server.router())).unwrap();
    let of = |path: &std::path::Path| {
        let target = fs::read_link(path).ok()?;
        let is_temporary = target.to_string_lossy().contains("/tmp/#");
        is_temporary.then(|| fs::metadata(path).map_or(0, |file| file.blocks() * 512))
    };
    descriptors.filter_map(|entry| of(&entry.ok()?.path())).sum()
}

#[test]
fn a_response_that_its_client_does_not_read_has_one_file() {
    allow_many_files();
    let server = serve(json!({}));
    // Each has up to 128 KiB of memory, of which the client has 32 MiB.
    let mut streams: Vec<_> = (0..4).map(|_| ask(&server, "192.0.2.1", 100, 300)).collect();
    eventually("each has a file", || (temporary_files(&server) == 400).then_some(()));
    let mut connections: Vec<_> = (0..3)
        .map(|_| {
            let mut connection = Client::connect(server.address);
            let head = "GET /index.php?kib=16384 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: \
                        192.0.2.1\r\n\r\n";
            connection.send(head);
            eventually("the response begins", || connection.has_data().then_some(()));
            connection
        })
        .collect();
    server.get("/index.php?kib=0"); // those before have ended, and sockets have taken their part
    eventually("each has a file", || (temporary_files(&server) == 403).then_some(()));
    assert_eq!(server.get("/a.txt").text(), "other");
    assert_eq!(temporary_files(&server), 403, "and no second one");
    for connection in &mut connections {
        assert_eq!(connection.response().body.len(), 16 << 20);
    }
    for connection in &mut streams {
        assert_eq!(read(connection, 100, 300), (100, 0));
    }
    eventually("all is given back", || (temporary_files(&server) == 0).then_some(()));
}

#[test]
fn responses_that_a_client_does_not_read_have_a_limit_on_the_disk() {
    // A client has a quarter: eight responses of 8 MiB.
    let server = serve(json!({ "response_temp_size": 256 * MIB }));
    let mut slow = ask(&server, "192.0.2.1", 12, 8192);
    server.get("/index.php?kib=0"); // those before have ended
    assert_eq!(temporary_files(&server), 8);
    assert!(space(&server) <= 64 * MIB, "{}", space(&server));
    let mut other = ask(&server, "192.0.2.2", 1, 8192);
    assert_eq!(read(&mut other, 1, 8192), (1, 0), "another client has its own space");
    let mut third = ask(&server, "192.0.2.3", 1, 8192);
    server.get("/index.php?kib=0"); // the one before has ended
    let before = space(&server);
    for stream in [0, 1] {
        third.send(frame(kind::WINDOW_UPDATE, 0, stream, &(4_u32 << 20).to_be_bytes()));
    }
    let mut taken = 0;
    while taken < 4 * MIB {
        let Frame { kind, payload, .. } = third.frame().expect("the server sends");
        taken += if kind == kind::DATA { payload.len() as u64 } else { 0 };
    }
    let is_less = || (space(&server) + 3 * MIB <= before).then_some(());
    eventually("the space of what was taken is given back", is_less);
    drop(third);
    let log = server.wait_for_log("client 192.0.2.1: temporary files of responses");
    assert_eq!(log.matches("take 64 MiB of disk space").count(), 1, "{log}");
    assert_eq!(read(&mut slow, 12, 8192), (8, 4));
    eventually("all is given back", || (temporary_files(&server) == 0).then_some(()));
    let mut again = ask(&server, "192.0.2.1", 8, 8192);
    assert_eq!(read(&mut again, 8, 8192), (8, 0));
}
