//! Descriptors run short: one client cannot hold them all, and requests in progress continue.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use harness::client::Client;
use harness::http2::{END_HEADERS, frame, kind, request};
use harness::tls::{Authority, get};
use harness::{Server, Site, allow_many_files, eventually, free_address, processes, requirements};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

/// Open files that the server may have, of which three quarters are for connections.
const FILES: u32 = 240;

/// Connections of a client that wants to have them all.
const MANY: usize = 400;

/// Address of that client. Others are at 127.0.0.1.
const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Waits until there is a file in the data directory.
const WAIT: &str =
    "while (!file_exists(getenv('DATA') . '/go')) { usleep(10000); clearstatcache(); }
    echo 'waited';";

/// A site whose clients may take as long as they like, with one listener of this kind.
fn serve(listener: Value) -> Server {
    let address = free_address().to_string();
    serve_at(&address, site(), listener)
}

fn site() -> Site {
    let post = "<?php echo strlen(file_get_contents('php://input'));";
    Site::script("wait.php", WAIT)
        .file("post.php", post)
        .file("a.txt", "static")
        .open_files(FILES)
        .workers(2)
}

fn serve_at(address: &str, site: Site, listener: Value) -> Server {
    allow_many_files();
    let times = ["header_read_timeout", "body_read_timeout", "send_timeout", "idle_timeout"];
    let times: Value = times.into_iter().map(|name| (name.to_owned(), json!(3600))).collect();
    let settings = json!({"http": times, "listen_threads": 2});
    let changes = json!({"listeners": {address: listener}, "settings": settings});
    site.with(changes).serve_at(address)
}

/// As many connections as the server has descriptors for and more, each with these first bytes.
fn hold(address: SocketAddr, bytes: &[u8]) -> Vec<Client> {
    let one = |_| {
        let mut client = Client::connect_from(GREEDY, address);
        // Some of the first connections may be cut already.
        let _ = client.try_send(bytes);
        client
    };
    (0..MANY).map(one).collect()
}

/// The log says whose connections were closed.
fn told(server: &Server) {
    server.wait_for_log("connections are open, as many as the limit of open files allows (240)");
    server.wait_for_log(&format!("without a request, most of them from {GREEDY}"));
}

#[test]
fn requests_that_are_not_complete_give_way_to_another_client_the_oldest_first() {
    let server = serve(json!({}));
    let mut patient = server.connect();
    assert_eq!(patient.get("/a.txt").text(), "static");
    let mut busy = Client::connect_from(GREEDY, server.address);
    busy.send("GET /wait.php HTTP/1.1\r\nHost: a\r\n\r\n");
    for bytes in [
        "G",
        "GET /a.txt HTTP/1.1\r\nHost: a\r\n",
        "POST /post.php HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n123",
        "POST /post.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123",
        "PUT /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n123",
    ] {
        let mut held = hold(server.address, bytes.as_bytes());
        assert_eq!(server.get("/a.txt").text(), "static", "{bytes:?}");
        assert_eq!(patient.get("/a.txt").text(), "static", "its connection is idle: {bytes:?}");
        let _ = held[0].everything(); // up to its end
        let newest = held.last_mut().unwrap();
        if bytes.starts_with("GET") {
            assert_eq!(newest.send("\r\n").response().text(), "static");
        }
    }
    told(&server);
    fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(busy.response().text(), "waited", "a request in hand is never cut");
}

#[test]
fn idle_connections_give_way_too() {
    let server = serve(json!({}));
    let mut patient = server.connect();
    assert_eq!(patient.get("/a.txt").text(), "static");
    let mut held = hold(server.address, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(server.get("/a.txt").text(), "static");
    assert_eq!(patient.get("/a.txt").text(), "static");
    told(&server);
    for client in &mut held {
        assert_eq!(client.response().text(), "static", "each has had its answer");
    }
    assert!(held[0].is_closed());
    assert_eq!(held.last_mut().unwrap().get("/a.txt").text(), "static");
}

#[test]
fn http_2_without_a_complete_request_gives_way() {
    let server = serve(json!({"http2": true}));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [&preface[..], &frame(kind::SETTINGS, 0, 0, &[])].concat();
    let post = frame(kind::HEADERS, END_HEADERS, 1, &request("POST", "/post.php", &[]));
    let post = [&settings[..], &post, &frame(kind::DATA, 0, 1, b"123")].concat();
    for bytes in [&preface[..7], preface, &settings, &post] {
        let held = hold(server.address, bytes);
        assert_eq!(server.get("/a.txt").text(), "static", "{}", bytes.len());
        drop(held);
    }
    told(&server);
}

#[test]
fn tls_handshakes_that_are_not_complete_give_way() {
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["a.example"]);
    let site = site();
    let file = |name: &str, text: &str| {
        let path = site.data().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let files = json!({"chain": file("chain.pem", &chain), "key": file("key.pem", &key)});
    let address = free_address().to_string();
    // Each router thread chooses among its own connections. On a busy machine one of several may
    // have no other than that of the client that is served below.
    let site = site.with(json!({"settings": {"listen_threads": 1}}));
    let server = serve_at(&address, site, json!({"tls": {"certificate": files}}));
    let client = authority.client(None, &[]);
    let served = || get(server.address, &client, "a.example", "/a.txt").map(|answer| answer.text());
    for bytes in [&b"\x16"[..], b"\x16\x03\x01\x02\x00\x01"] {
        let held = hold(server.address, bytes);
        assert_eq!(served().unwrap(), "static");
        drop(held);
    }
    told(&server);
    // A handshake of another client is not taken for one of the many that come all the time.
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = VecDeque::from(hold(server.address, b"\x16"));
            while goes_on.load(Relaxed) {
                held.pop_front();
                held.push_back(Client::connect_from(GREEDY, server.address));
                let _ = held.back_mut().unwrap().try_send(b"\x16");
            }
        });
        let served: Vec<_> = (0..30).map(|_| served()).collect();
        goes_on.store(false, Relaxed);
        served.into_iter().for_each(|text| assert_eq!(text.unwrap(), "static"));
    });
}

/// A proxy that may speak for others is counted by its own address.
#[test]
fn the_address_of_the_transport_counts_behind_a_balancer() {
    let server = serve(json!({"proxy_protocol": {"source": "127.0.0.0/8"}}));
    for head in ["", "\r\nGET / HTTP/1.1\r\n"] {
        let mut held = Vec::new();
        for number in 0..MANY {
            let line = format!("PROXY TCP4 192.0.2.{} 198.51.100.7 1234 80{head}", number % 250);
            let mut client = Client::connect_from(GREEDY, server.address);
            let _ = client.try_send(line);
            held.push(client);
        }
        let line = "PROXY TCP4 192.0.2.1 198.51.100.7 1234 80\r\n";
        let ask = "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert_eq!(server.send(format!("{line}{ask}")).text(), "static");
    }
    told(&server);
}

/// The limit of open files may be reached with fewer connections than it allows, as sockets to
/// other servers are open files, too.
#[test]
fn connections_give_way_to_what_requests_need() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", backend.local_addr().unwrap());
    let site = site();
    let share = format!("{}$uri", site.root().display());
    let site = site.with(json!({"routes": [
        {"match": {"uri": "/proxied"}, "action": {"proxy": proxy}},
        {"action": {"share": share}},
    ]}));
    let server = serve_at(&free_address().to_string(), site, json!({}));
    let base = processes::descriptors(server.router()).len();
    let mut busy = Vec::new();
    let mut asked = Vec::new();
    // Two descriptors each; a few are left before the server stops accepting.
    for _ in 0..(FILES as usize - FILES as usize / 8 - base - 20) / 2 {
        let mut client = server.connect();
        client.send("GET /proxied HTTP/1.1\r\nHost: a\r\n\r\n");
        busy.push(client);
        asked.push(backend.accept().unwrap().0);
    }
    let held = hold(server.address, b"GET /");
    assert_eq!(server.get("/a.txt").text(), "static");
    told(&server);
    let open = processes::descriptors(server.router()).len();
    assert!(open < FILES as usize * 15 / 16, "some are left: {open}");
    for (client, mut connection) in busy.iter_mut().zip(asked) {
        connection.write_all(b"HTTP/1.0 200 OK\r\n\r\nanswer").unwrap();
        drop(connection);
        assert_eq!(client.response().text(), "answer");
    }
    drop(held);
}

/// A limit that was lowered while the server runs is found out by running into it.
#[test]
fn connections_give_way_when_none_can_be_accepted() {
    let server = serve(json!({}));
    let router = server.router();
    let pid = Pid::from_raw(router.try_into().unwrap());
    let lowered = processes::descriptors(router).len() as u64 + 60;
    let limit = Rlimit { current: Some(lowered), maximum: Some(u64::from(FILES)) };
    if prlimit(pid, Resource::Nofile, limit).is_err() {
        return requirements::skipped("the limits of another process cannot be set here");
    }
    let held = hold(server.address, b"GET /");
    assert_eq!(server.get("/a.txt").text(), "static");
    server.wait_for_log(&format!("as many as the limit of open files allows ({lowered})"));
    assert_eq!(server.get("/post.php").text(), "0");
    drop(held);
}

#[test]
fn files_that_are_kept_open_leave_room_for_connections() {
    let names: Vec<_> = (0..60).map(|number| format!("large{number}.bin")).collect();
    let large = || vec![b'x'; 300 << 10];
    let site = names.iter().fold(site(), |site, name| site.file(name, large()));
    let address = free_address().to_string();
    let server = serve_at(&address, site, json!({}));
    let root = server.site.root().display().to_string();
    let kept = || {
        let open = processes::descriptors(server.router()).into_iter();
        open.filter(|(_, target)| target.starts_with(&root)).count()
    };
    // A file that was just written is not.
    eventually("some are kept", || {
        for name in &names {
            assert_eq!(server.get(&format!("/{name}")).body.len(), 300 << 10);
        }
        (kept() > 0).then_some(())
    });
    assert!(kept() <= FILES as usize / 16, "{}", kept());
}
