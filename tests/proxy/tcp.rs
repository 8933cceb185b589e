//! Listeners whose connections are passed on: balancing, names of TLS, the PROXY protocol, ends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use harness::client::Client;
use harness::time::patience;
use harness::tls::{Authority, certificate};
use harness::{Server, Site, eventually, free_address, free_listener};
use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// Runs a server in threads: `serve` gets each connection.
pub fn backend(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = free_listener();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Greets, repeats what comes, and says good-bye when its client has finished.
pub fn echo(name: &'static str) -> SocketAddr {
    backend(move |mut stream| {
        let _ = stream.write_all(format!("{name} ready\n").as_bytes());
        let mut room = [0; 4096];
        while let Ok(count) = stream.read(&mut room) {
            if count == 0 {
                let _ = stream.write_all(format!("{name} bye\n").as_bytes());
                return;
            }
            if stream.write_all(&room[..count]).is_err() {
                return;
            }
        }
    })
}

/// Serves a document with a listener for connections beside that for HTTP.
pub fn serve(listener: Value, document: Value) -> (Server, SocketAddr) {
    let (http, tcp) = (free_address().to_string(), free_address());
    let mut wanted = json!({"protocol": "tcp", "pass": "upstreams/u"});
    harness::merge(&mut wanted, listener);
    let mut changes = json!({"listeners": {tcp.to_string(): wanted}});
    harness::merge(&mut changes, document);
    let mut whole = json!({
        "listeners": {&http: {"pass": "routes"}}, "routes": [{"action": {"return": 200}}],
    });
    harness::merge(&mut whole, changes);
    let server = Site::new().controlled().serve_at(&http);
    server.put("/config", &whole);
    (server, tcp)
}

pub fn upstream(servers: &[SocketAddr], more: Value) -> Value {
    let servers: serde_json::Map<_, _> =
        servers.iter().map(|address| (address.to_string(), json!({}))).collect();
    let mut upstream = json!({"servers": servers});
    harness::merge(&mut upstream, more);
    json!({"upstreams": {"u": upstream}})
}

fn echoes(client: &mut Client, text: &str) {
    client.send(text);
    client.wait_for(text);
}

#[test]
fn bytes_pass_both_ways_whoever_speaks_first_and_whoever_finishes_first() {
    let (_server, address) = serve(json!({}), upstream(&[echo("a")], json!({})));
    let mut client = Client::connect(address);
    client.wait_for("a ready\n");
    let large = "0123456789abcdef".repeat(100_000);
    let mut sender = client.stream().try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        sender.write_all(large.as_bytes()).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    let all = client.everything();
    sending.join().unwrap();
    assert_eq!(all.len(), "a ready\n".len() + 1_600_000 + "a bye\n".len());
    assert!(all.ends_with(b"cdefa bye\n"));
}

#[test]
fn another_server_gets_the_connection_if_one_cannot_be_reached() {
    let closed = free_address();
    let live = echo("live");
    let more = json!({"tries": 2, "failures": {"max": 1, "time": 60}});
    let (server, address) = serve(json!({}), upstream(&[closed, live], more));
    for _ in 0..6 {
        Client::connect(address).wait_for("live ready\n");
    }
    let log = server.wait_for_log("gets no connections for 60 s");
    assert!(
        log.contains(&format!("\"upstreams/u\" connection of 127.0.0.1: {closed}: cannot connect")),
        "{log}"
    );
    assert_eq!(log.matches("cannot connect").count(), 1, "it is skipped: {log}");
    // Without a second try the client learns at once.
    let (_server, address) = serve(json!({}), upstream(&[closed], json!({})));
    assert_eq!(Client::connect(address).everything(), b"");
}

#[test]
fn a_backup_serves_while_the_others_are_down_and_a_drained_server_gets_nothing() {
    let closed = free_address();
    let (backup, drained) = (echo("backup"), echo("drained"));
    let upstream = json!({"upstreams": {"u": {
        "servers": {
            closed.to_string(): {},
            backup.to_string(): {"backup": true},
            drained.to_string(): {"drain": true},
        },
        "tries": 2, "failures": {},
    }}});
    let (server, address) = serve(json!({}), upstream);
    for _ in 0..3 {
        Client::connect(address).wait_for("backup ready\n");
    }
    let status = server.control("GET", "/status/upstreams/u", "").body;
    assert_eq!(status["servers"][closed.to_string()]["state"], "failing", "{status}");
    eventually("the sessions are counted", || {
        let status = server.control("GET", "/status/upstreams/u", "").body;
        (status["servers"][backup.to_string()]["requests"]["total"] == 3).then_some(())
    });
}

#[test]
fn a_check_that_only_connects_takes_a_server_out() {
    let (closed, live) = (free_address(), echo("live"));
    let more = json!({"health": {"connect": true, "interval": 1}});
    let (server, address) = serve(json!({}), upstream(&[closed, live], more));
    server.wait_for_log(&format!("{closed} is unhealthy"));
    for _ in 0..4 {
        Client::connect(address).wait_for("live ready\n");
    }
}

#[test]
fn the_proxy_protocol_is_read_and_sent_in_both_versions() {
    let shown = backend(|mut stream| {
        let mut head = [0; 28];
        let _ = stream.read_exact(&mut head);
        let _ = stream.write_all(&head);
    });
    for (version, expected) in [
        (1, &b"PROXY TCP4 192.0.2.1 198.51."[..]),
        (2, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x07\x04\xd2\x20\xfb"),
    ] {
        let listener = json!({"proxy_protocol": {"source": "127.0.0.0/8"}});
        let document = upstream(&[shown], json!({"proxy_protocol": version}));
        let (_server, address) = serve(listener, document);
        let mut client = Client::connect(address);
        // However it is cut.
        for byte in *b"PROXY TCP4 192.0.2.1 198.51.100.7 1234 8443\r\nx" {
            client.send([byte]);
        }
        assert_eq!(client.everything(), expected);
        let mut other = Client::connect(address);
        let _ = other.try_send("GET / HTTP/1.0\r\n\r\n");
        assert_eq!(other.everything(), b"", "without the header");
    }
}

/// Runs a server that speaks TLS with a certificate for a name, and repeats what comes.
fn secure(config: Arc<ServerConfig>) -> SocketAddr {
    backend(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut room = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut room) {
            if stream.write_all(&room[..count]).is_err() {
                return;
            }
        }
    })
}

/// Sends a client's bytes one by one, so that the hello comes in as many segments.
struct ByteWise(TcpStream);

impl Read for ByteWise {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(room)
    }
}

impl Write for ByteWise {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn names_of(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> String {
    String::from_utf8_lossy(&certificate(address, client, name)).into_owned()
}

#[test]
fn steps_choose_by_the_names_and_protocols_of_tls_without_ending_it() {
    let authority = Authority::new();
    let (a, b) = (secure(authority.server(&["a.test"])), secure(authority.server(&["b.test"])));
    let server = |address: SocketAddr| json!({"servers": {address.to_string(): {}}});
    let document = json!({
        "streams": {"names": [
            {"match": {"server_name": "A.test"}, "action": {"pass": "upstreams/a"}},
            {"match": {"alpn": ["imap"]}, "action": {"pass": "upstreams/a"}},
            {"match": {"server_name": "*.test"}, "action": {"pass": "streams/rest"}},
            {"match": {"server_name": "*"}, "action": {"close": true}},
            {"action": {"pass": "upstreams/plain"}},
        ], "rest": [{"action": {"pass": "upstreams/b"}}]},
        "upstreams": {"a": server(a), "b": server(b), "plain": server(echo("plain"))},
    });
    let (_server, address) = serve(json!({"pass": "streams/names"}), document);
    let plain = authority.client(None, &[]);
    assert!(names_of(address, &plain, "a.test").contains("a.test"));
    assert!(names_of(address, &plain, "b.test").contains("b.test"));
    // The steps about names come before the client's bytes, so it has to begin.
    let mut client = Client::connect(address);
    client.send("hello\n").wait_for("plain ready\nhello\n");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let name = ServerName::try_from("other.example").unwrap();
    let mut connection = ClientConnection::new(Arc::clone(&plain), name).unwrap();
    assert!(connection.complete_io(&mut stream).is_err(), "it is closed");
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let name = ServerName::try_from("a.test").unwrap();
    let connection = ClientConnection::new(plain, name).unwrap();
    let mut stream = StreamOwned::new(connection, ByteWise(stream));
    stream.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

#[test]
fn tls_ends_at_the_listener_and_begins_anew_to_the_servers() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let (chain, key) = authority.issue(&["front.test"]);
    let path = |name: &str| directory.path().join(name);
    harness::open_to_all(directory.path(), 0o755);
    for (name, content) in
        [("chain.pem", &chain), ("key.pem", &key), ("authority.pem", &authority.pem())]
    {
        std::fs::write(path(name), content).unwrap();
    }
    let listener = json!({
        "tls": {"certificate": {"chain": path("chain.pem"), "key": path("key.pem")}},
    });
    let more = json!({"tls": {"authorities": path("authority.pem"), "server_name": "back.test"}});
    let document = upstream(&[secure(authority.server(&["back.test"]))], more);
    let (server, address) = serve(listener, document);
    let client = authority.client(None, &["whatever"]);
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let name = ServerName::try_from("front.test").unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(client, name).unwrap(), stream);
    stream.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
    let mut plain = Client::connect(address);
    plain.send("hello\n");
    assert_eq!(plain.everything(), b"");
    server.wait_for_log("the client does not speak TLS");
}

#[test]
fn a_client_has_no_more_connections_than_it_may() {
    let listener = json!({"limit": [{"connections": 2}, {"rate": "1/d", "burst": 1000}]});
    let (_server, address) = serve(listener, upstream(&[echo("a")], json!({})));
    let mut clients = [Client::connect(address), Client::connect(address)];
    clients.iter_mut().for_each(|client| client.wait_for("a ready\n"));
    assert_eq!(Client::connect(address).everything(), b"");
    drop(clients);
    eventually("there is room again", || {
        let mut client = Client::connect(address);
        client.finish_sending();
        client.everything().starts_with(b"a ready\n").then_some(())
    });
}

#[test]
fn silence_ends_a_session_after_its_timeout() {
    let more = json!({"timeouts": {"tunnel": 1}});
    let (server, address) = serve(json!({}), upstream(&[echo("a")], more));
    assert_eq!(Client::connect(address).everything(), b"a ready\n");
    drop(server);
}

#[test]
fn sessions_outlive_changes_and_their_listener() {
    let (server, address) = serve(json!({}), upstream(&[echo("a")], json!({})));
    let mut client = Client::connect(address);
    client.wait_for("a ready\n");
    server.put("/config/upstreams/u/servers", &json!({echo("b").to_string(): {}}));
    Client::connect(address).wait_for("b ready\n");
    echoes(&mut client, "still a\n");
    let listeners = json!({server.address.to_string(): {"pass": "routes"}});
    server.put("/config/listeners", &listeners);
    assert!(TcpStream::connect(address).is_err(), "the listener is gone");
    echoes(&mut client, "and still\n");
    client.finish_sending();
    assert!(client.everything().ends_with(b"a bye\n"));
}

#[test]
fn a_server_that_is_to_end_refuses_connections_and_waits_for_its_sessions() {
    let (mut server, address) = serve(json!({}), upstream(&[echo("a")], json!({})));
    let mut client = Client::connect(address);
    client.wait_for("a ready\n");
    server.signal(Signal::QUIT);
    eventually("new connections are refused", || {
        TcpStream::connect(address).is_err().then_some(())
    });
    std::thread::sleep(Duration::from_millis(300));
    echoes(&mut client, "still here\n");
    drop(client);
    assert!(server.wait().success());
}

#[test]
fn an_upgrade_cuts_no_session() {
    let (server, address) = serve(json!({}), upstream(&[echo("a")], json!({})));
    let mut client = Client::connect(address);
    client.wait_for("a ready\n");
    server.upgrade();
    echoes(&mut client, "still here\n");
    Client::connect(address).wait_for("a ready\n");
    client.finish_sending();
    assert!(client.everything().ends_with(b"a bye\n"));
}

#[test]
fn sessions_are_logged_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    harness::open_to_all(directory.path(), 0o777);
    let path = directory.path().join("access.log");
    let format =
        "$remote_addr \"$request_line\" $status $request_length $bytes_sent $upstream_addr";
    let listener = json!({"access_log": {"path": path, "format": format}});
    let echo = echo("a");
    let (server, address) = serve(listener, upstream(&[echo], json!({})));
    let mut client = Client::connect(address);
    client.send("ping").wait_for("ping");
    client.finish_sending();
    client.everything();
    let expected = format!("127.0.0.1 \"CONNECT upstreams/u TCP\" 200 4 18 {echo}\n");
    eventually("there is a line", || {
        std::fs::read_to_string(&path).ok().filter(|lines| !lines.is_empty())
    });
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    let metrics = server.control("GET", "/status", "").body;
    assert!(metrics["requests"]["total"].as_u64() >= Some(1), "{metrics}");
}
