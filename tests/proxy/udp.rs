//! Listeners for datagrams: sessions of clients, answers, ends, floods.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use harness::time::patience;
use harness::{Server, Site, allow_many_files, eventually, free_address, merge};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A server of datagrams that answers each with `name`, a space and its content. The channel has
/// the sources and contents.
fn echo(name: &'static str) -> (SocketAddr, Receiver<(SocketAddr, Vec<u8>)>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (taken, all) = channel();
    std::thread::spawn(move || {
        let mut room = vec![0; 65536];
        loop {
            // Errors are about answers whose receiver has gone.
            let Ok((count, from)) = socket.recv_from(&mut room) else { continue };
            let content = room[..count].to_vec();
            let answer = [name.as_bytes(), b" ", &content].concat();
            let is_answered = !content.starts_with(b"silent");
            // Before the answer, so that whoever has that finds it.
            let _ = taken.send((from, content));
            if is_answered {
                let _ = socket.send_to(&answer[..answer.len().min(65_507)], from);
            }
        }
    });
    (address, all)
}

/// A client at an address of its own.
struct Client(UdpSocket);

impl Client {
    fn new(listener: SocketAddr) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(listener).unwrap();
        socket.set_read_timeout(Some(patience())).unwrap();
        Client(socket)
    }

    fn send(&self, content: &[u8]) {
        // A former datagram may have been refused.
        let _ = self.0.send(content);
    }

    fn receive(&self) -> Vec<u8> {
        let mut room = vec![0; 65536];
        let count = self.0.recv(&mut room).unwrap();
        room.truncate(count);
        room
    }

    fn ask(&self, content: &str) -> String {
        self.send(content.as_bytes());
        String::from_utf8(self.receive()).unwrap()
    }

    /// Asks until an answer comes: datagrams may be lost while something changes.
    fn ask_again(&self, content: &str) -> String {
        self.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let answer = eventually("there is an answer", || {
            self.send(content.as_bytes());
            let mut room = [0; 1000];
            let count = self.0.recv(&mut room).ok()?;
            Some(String::from_utf8(room[..count].to_vec()).unwrap())
        });
        self.0.set_read_timeout(Some(patience())).unwrap();
        answer
    }
}

fn serve_site(site: Site, listener: Value, document: Value) -> (Server, SocketAddr) {
    let (http, udp) = (free_address().to_string(), free_address());
    let mut wanted = json!({"protocol": "udp", "pass": "upstreams/u"});
    merge(&mut wanted, listener);
    let mut whole = json!({
        "listeners": {&http: {"pass": "routes"}, udp.to_string(): wanted},
        "routes": [{"action": {"return": 200}}],
    });
    merge(&mut whole, document);
    let server = site.controlled().serve_at(&http);
    server.put("/config", &whole);
    (server, udp)
}

fn serve(listener: Value, document: Value) -> (Server, SocketAddr) {
    serve_site(Site::new(), listener, document)
}

fn upstream(servers: &[SocketAddr], more: Value) -> Value {
    let servers: serde_json::Map<_, _> =
        servers.iter().map(|address| (address.to_string(), json!({}))).collect();
    let mut upstream = json!({"servers": servers});
    merge(&mut upstream, more);
    json!({"upstreams": {"u": upstream}})
}

fn access_log() -> (tempfile::TempDir, PathBuf, Value) {
    let directory = tempfile::tempdir().unwrap();
    harness::open_to_all(directory.path(), 0o777);
    let path = directory.path().join("access.log");
    let format =
        "$remote_addr \"$request_line\" $status $request_length $bytes_sent $upstream_addr";
    let listener = json!({"access_log": {"path": path, "format": format}});
    (directory, path, listener)
}

fn lines(path: &PathBuf, count: usize) -> Vec<String> {
    eventually("the lines are there", || {
        let all = std::fs::read_to_string(path).ok()?;
        (all.lines().count() >= count).then(|| all.lines().map(str::to_owned).collect())
    })
}

#[test]
fn each_client_has_a_session_and_gets_its_own_answers() {
    let (server, taken) = echo("a");
    let (_server, address) = serve(json!({}), upstream(&[server], json!({})));
    let (one, other) = (Client::new(address), Client::new(address));
    assert_eq!(one.ask("one"), "a one");
    assert_eq!(other.ask("other"), "a other");
    assert_eq!(one.ask("again"), "a again");
    let from: Vec<_> = taken.try_iter().map(|(from, _)| from).collect();
    assert!(from[0] != from[1] && from[0] == from[2], "{from:?}");
    // Empty datagrams are datagrams, and large ones stay whole.
    one.send(b"");
    assert_eq!(one.receive(), b"a ");
    let large = vec![b'x'; 60_000];
    one.send(&large);
    assert_eq!(one.receive().len(), 60_002);
}

#[test]
fn a_session_ends_with_its_last_answer_and_is_logged() {
    let (server, taken) = echo("a");
    let (_directory, path, listener) = access_log();
    let udp = json!({"udp": {"responses": 1}});
    let (_server, address) = serve(listener, upstream(&[server], udp));
    let client = Client::new(address);
    assert_eq!(client.ask("1234"), "a 1234");
    let expected = format!("127.0.0.1 \"CONNECT upstreams/u UDP\" 200 4 6 {server}");
    assert_eq!(lines(&path, 1), [expected]);
    assert_eq!(client.ask("1"), "a 1");
    let from: Vec<_> = taken.try_iter().map(|(from, _)| from).collect();
    assert_ne!(from[0], from[1], "the next session has a port of its own");
}

#[test]
fn a_session_takes_as_many_datagrams_as_it_may_and_may_need_no_answer() {
    let (server, taken) = echo("a");
    let (_directory, path, listener) = access_log();
    let udp = json!({"udp": {"requests": 2, "responses": 0}});
    let (_server, address) = serve(listener, upstream(&[server], udp));
    let client = Client::new(address);
    (0..4).for_each(|_| client.send(b"silent"));
    let lines = lines(&path, 2);
    assert!(lines.iter().all(|line| line.contains(" 200 12 0 ")), "{lines:?}");
    let mut from: Vec<_> = (0..4).map(|_| taken.recv_timeout(patience()).unwrap().0).collect();
    from.dedup();
    assert_eq!(from.len(), 2);
}

#[test]
fn silence_ends_a_session_and_a_missing_answer_is_a_failure() {
    let ((silent, _taken), (_directory, path, listener)) = (echo("a"), access_log());
    let more = json!({"udp": {"responses": 1}, "timeouts": {"tunnel": 1}});
    let (server, address) = serve(listener, upstream(&[silent], more));
    Client::new(address).send(b"silent");
    assert!(lines(&path, 1)[0].contains(" 504 6 0 "));
    server.wait_for_log("no answer (timeouts/tunnel)");
}

#[test]
fn another_server_gets_the_next_session_if_one_is_not_there() {
    let (closed, (live, _taken)) = (free_address(), echo("live"));
    let more = json!({"failures": {"max": 1, "time": 60}});
    let (server, address) = serve(json!({}), upstream(&[closed, live], more));
    for _ in 0..4 {
        assert_eq!(Client::new(address).ask_again("x"), "live x");
    }
    server.wait_for_log("takes no datagrams");
    server.wait_for_log(&format!("{closed} gets no connections for 60 s"));
}

#[test]
fn each_datagram_begins_with_the_header_of_the_proxy_protocol() {
    let (server, taken) = echo("a");
    let (_server, address) = serve(json!({}), upstream(&[server], json!({"proxy_protocol": 2})));
    let client = Client::new(address);
    for text in ["one", "two"] {
        client.send(text.as_bytes());
        client.receive();
        let (_, content) = taken.recv_timeout(patience()).unwrap();
        let (header, rest) = content.split_at(28);
        assert_eq!(&header[..16], b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c");
        let port = client.0.local_addr().unwrap().port().to_be_bytes();
        assert_eq!((&header[16..20], &header[24..26]), (&[127, 0, 0, 1][..], &port[..]));
        assert_eq!(rest, text.as_bytes());
    }
}

#[test]
fn steps_and_limits_are_about_the_client() {
    let ((server, _taken), (_directory, path, listener)) = (echo("a"), access_log());
    let mut listener = listener;
    let limit = json!({"pass": "streams/s", "limit": {"connections": 1}});
    merge(&mut listener, limit);
    let mut document = upstream(&[server], json!({}));
    let steps = json!({"streams": {"s": [
        {"match": {"server_name": "a.test"}, "action": {"close": true}},
        {"match": {"source": "127.0.0.2"}, "action": {"close": true}},
        {"action": {"pass": "upstreams/u"}},
    ]}});
    merge(&mut document, steps);
    let (_server, address) = serve(listener, document);
    let client = Client::new(address);
    assert_eq!(client.ask("x"), "a x");
    let second = Client::new(address);
    second.send(b"x");
    let other = UdpSocket::bind("127.0.0.2:0").unwrap();
    other.send_to(b"x", address).unwrap();
    assert!(lines(&path, 1)[0].starts_with("127.0.0.2 \"CONNECT - UDP\" 403 "));
    assert_eq!(client.ask("y"), "a y");
    second.0.set_nonblocking(true).unwrap();
    assert_eq!(second.0.recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn sessions_outlive_reloads_and_the_address_is_free_after_the_listener() {
    let ((server, taken), (other, _)) = (echo("a"), echo("b"));
    let (server, address) = serve(json!({}), upstream(&[server], json!({})));
    let client = Client::new(address);
    assert_eq!(client.ask("one"), "a one");
    server.put("/config/upstreams/u/servers", &json!({other.to_string(): {}}));
    assert_eq!(Client::new(address).ask("one"), "b one");
    assert_eq!(client.ask("two"), "a two");
    let from: Vec<_> = taken.try_iter().map(|(from, _)| from).collect();
    assert_eq!(from[0], from[1]);
    let listeners = json!({server.address.to_string(): {"pass": "routes"}});
    server.put("/config/listeners", &listeners);
    UdpSocket::bind(address).unwrap();
    server.put(
        &format!("/config/listeners/{address}"),
        &json!({"protocol": "udp", "pass": "upstreams/u"}),
    );
    assert_eq!(client.ask_again("three"), "b three");
}

#[test]
fn an_address_has_connections_and_datagrams_and_another_program_is_named() {
    let (server, _taken) = echo("a");
    let document = upstream(&[server], json!({}));
    let (server, address) = serve(json!({}), document);
    let tcp = json!({"pass": "routes"});
    let both = json!({
        server.address.to_string(): tcp, address.to_string(): tcp,
        format!("udp:{address}"): {"pass": "upstreams/u"},
    });
    server.put("/config/listeners", &both);
    assert_eq!(Client::new(address).ask_again("x"), "a x");
    assert!(std::net::TcpStream::connect(address).is_ok());
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let holder = UdpSocket::bind(taken).unwrap();
    let target = format!("/config/listeners/udp:{}", holder.local_addr().unwrap());
    let answer = server.control("PUT", &target, json!({"pass": "upstreams/u"}).to_string());
    assert!(answer.body.to_string().contains("another program listens there"), "{}", answer.body);
}

#[test]
fn a_server_that_is_to_end_waits_for_its_sessions() {
    let (server, _taken) = echo("a");
    let more = json!({"timeouts": {"tunnel": 2}});
    let (mut server, address) = serve(json!({}), upstream(&[server], more));
    let client = Client::new(address);
    assert_eq!(client.ask("one"), "a one");
    server.signal(Signal::QUIT);
    eventually("new connections are refused", || {
        std::net::TcpStream::connect(server.address).is_err().then_some(())
    });
    assert_eq!(client.ask("two"), "a two");
    assert!(server.wait().success());
}

#[test]
fn the_next_server_takes_the_datagrams_over() {
    let (server, _taken) = echo("a");
    let (server, address) = serve(json!({}), upstream(&[server], json!({})));
    let client = Client::new(address);
    assert_eq!(client.ask("one"), "a one");
    let before = server.supervisor();
    server.upgrade();
    assert_eq!(client.ask_again("two"), "a two");
    drop(client);
    server.wait_for_end_of(before);
}

#[test]
fn a_flood_of_clients_ends_no_session_of_one_that_goes_on() {
    allow_many_files();
    let (server, taken) = echo("a");
    let site = Site::new().open_files(256);
    let (server, address) = serve_site(site, json!({}), upstream(&[server], json!({})));
    let client = Client::new(address);
    assert_eq!(client.ask("one"), "a one");
    assert_eq!(client.ask("two"), "a two");
    let own = taken.try_iter().next().unwrap().0;
    let flood = UdpSocket::bind("127.0.0.1:0").unwrap();
    drop(flood);
    for round in 0..300u16 {
        let [high, low] = (round + 2).to_be_bytes();
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 1, high, low), 0)).unwrap();
        socket.send_to(b"flood", address).unwrap();
    }
    server.wait_for_log("64 sessions are open, as many as the limit of open files allows");
    assert_eq!(client.ask("three"), "a three");
    let last = taken.try_iter().filter(|(_, content)| content == b"three").last().unwrap().0;
    assert_eq!(own, last, "it is the same session");
    assert!(server.get("/").status == 200);
}
