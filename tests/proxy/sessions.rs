//! Sessions of mail and streams: limits of users and bandwidth, sessions that go round, encryption to
//! servers of mail that begins by a command.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use harness::client::Client;
use harness::time::patience;
use harness::tls::Authority;
use harness::{Site, eventually, free_address};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::{mail, tcp};

/// Logs in over IMAP. Returns the connection and the reply.
fn log_in(address: SocketAddr, user: &str, password: &str) -> (TcpStream, String) {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(patience())).unwrap();
    let mut reader = BufReader::new(client.try_clone().unwrap());
    assert_eq!(mail::line(&mut reader).as_deref(), Some("* OK IMAP4 ready\r\n"));
    client.write_all(format!("a LOGIN {user} {password}\r\n").as_bytes()).unwrap();
    loop {
        let reply = mail::line(&mut reader).expect("a reply");
        if reply.starts_with("a ") || reply.starts_with("* BAD") {
            return (client, reply);
        }
    }
}

#[test]
fn a_user_with_too_many_failed_logins_is_refused_wherever_they_come_from() {
    let asked = Arc::new(Mutex::new(String::new()));
    let server = mail::authentication(mail::imap(), &asked);
    let limit = json!({"limit": {"key": "$remote_user", "rate": "1/d"}});
    let proxy = mail::serve(mail::asking("imap", server, json!({})), limit, json!({}));
    for _ in 0..2 {
        let (_, reply) = log_in(proxy.address, "me", "secret");
        assert!(reply.contains("CAPABILITY"), "{reply}");
    }
    let (_, reply) = log_in(proxy.address, "me", "wrong");
    assert_eq!(reply, "a NO Wrong password\r\n");
    let (_, reply) = log_in(proxy.address, "ME", "secret");
    assert_eq!(reply, "a NO [LIMIT] Too many failed logins\r\n");
    let log = proxy.server.wait_for_log("too many failed logins");
    assert!(log.contains("imap login of \"ME\" by plain failed: limit /listeners/"), "{log}");
    let (_, reply) = log_in(proxy.address, "you", "secret");
    assert!(reply.contains("CAPABILITY"), "{reply}");
    assert!(!asked.lock().unwrap().contains("Auth-User: ME"), "nobody is asked");
}

#[test]
fn a_user_has_no_more_sessions_than_the_limit_says() {
    let server = mail::authentication(mail::imap(), &Arc::default());
    let limit = json!({"limit": {"key": "$remote_user", "concurrency": 1}});
    let proxy = mail::serve(mail::asking("imap", server, json!({})), limit, json!({}));
    let (first, reply) = log_in(proxy.address, "me", "secret");
    assert!(reply.contains("CAPABILITY"), "{reply}");
    let (_waiting, reply) = log_in(proxy.address, "me", "secret");
    assert_eq!(reply, "a NO [LIMIT] Too many sessions\r\n");
    let (_other, reply) = log_in(proxy.address, "you", "secret");
    assert!(reply.contains("CAPABILITY"), "{reply}");
    drop(first);
    eventually("the place is free", || {
        log_in(proxy.address, "me", "secret").1.contains("CAPABILITY").then_some(())
    });
}

#[test]
fn a_session_is_no_faster_than_its_upstream_and_its_listener_permit() {
    let sender = tcp::backend(|mut stream| drop(stream.write_all(&[b'x'; 30_000])));
    let own = json!({"bandwidth": {"download": 20_000}});
    let shared = json!({"limit": {"bandwidth": 20_000}});
    for (listener, upstream) in [(json!({}), own), (shared, json!({}))] {
        let (_server, address) = tcp::serve(listener, tcp::upstream(&[sender], upstream));
        let began = Instant::now();
        assert_eq!(Client::connect(address).everything().len(), 30_000);
        // A quarter of a second's bytes come at once, and as many are one piece.
        assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    }
}

/// Serves listeners with `key` on addresses that their own targets name.
fn serve(document: impl Fn(SocketAddr) -> Value) -> (harness::Server, SocketAddr) {
    let (http, own) = (free_address().to_string(), free_address());
    let mut whole = json!({
        "listeners": {&http: {"pass": "routes"}}, "routes": [{"action": {"return": 200}}],
    });
    harness::merge(&mut whole, document(own));
    let server = Site::new().controlled().serve_at(&http);
    server.put("/config", &whole);
    (server, own)
}

#[test]
fn a_connection_that_comes_back_to_its_own_listener_ends() {
    let (server, address) = serve(|own| {
        json!({
            "listeners": {own.to_string(): {"protocol": "tcp", "pass": "upstreams/round"}},
            "upstreams": {"round": {"servers": {own.to_string(): {}}}},
        })
    });
    assert_eq!(Client::connect(address).everything(), b"");
    let log = server.wait_for_log("goes round");
    assert!(log.contains("\"upstreams/round\" connection of 127.0.0.1: "), "{log}");
    eventually("all connections are closed", || {
        let status = server.control("GET", "/status", "").body;
        (status["connections"]["active"] == 0).then_some(())
    });
}

#[test]
fn a_datagram_that_comes_back_to_its_own_listener_is_not_passed_on_for_ever() {
    let (server, address) = serve(|own| {
        json!({
            "listeners": {own.to_string(): {"protocol": "udp", "pass": "upstreams/round"}},
            "upstreams": {"round": {"servers": {own.to_string(): {}}}},
        })
    });
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"round", address).unwrap();
    server.wait_for_log("goes round");
}

#[test]
fn a_login_that_leads_to_its_own_listener_ends_with_an_internal_error() {
    let asked = Arc::new(Mutex::new(String::new()));
    let (server, address) = serve(|own| {
        let url = mail::authentication(own, &asked);
        json!({
            "listeners": {own.to_string(): {"pass": "mail/m"}},
            "mail": {"m": mail::asking("imap", url, json!({}))},
        })
    });
    let (_, reply) = log_in(address, "me", "secret");
    assert_eq!(reply, "* BAD internal server error\r\n");
    server.wait_for_log("goes round");
    assert_eq!(asked.lock().unwrap().matches("Auth-User: me").count(), 5);
}

/// A server of IMAP that begins TLS by its command, and sends this behind its answer.
fn imap_with_starttls(authority: &Authority, behind_answer: &'static str) -> SocketAddr {
    let config = authority.server(&["imap.test"]);
    mail::run(move |mut plain| {
        let _ = plain.write_all(b"* OK [CAPABILITY LOGINDISABLED STARTTLS] ready\r\n");
        let command = mail::line(&mut BufReader::new(&plain)).unwrap_or_default();
        let Some(tag) = command.strip_suffix(" STARTTLS\r\n") else { return };
        let _ = plain.write_all(format!("{tag} OK begin\r\n{behind_answer}").as_bytes());
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut reader = BufReader::new(StreamOwned::new(connection, plain));
        let Some(command) = mail::line(&mut reader) else { return };
        let tag = command.split(' ').next().unwrap().to_owned();
        for _ in 0..2 {
            let _ = reader.get_mut().write_all(b"+ go on\r\n");
            let _ = mail::line(&mut reader);
        }
        let _ = reader.get_mut().write_all(format!("{tag} OK encrypted\r\n").as_bytes());
        let _ = mail::line(&mut reader);
    })
}

#[test]
fn encryption_to_a_server_of_mail_begins_by_its_command_and_nothing_may_slip_in_before() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    harness::open_to_all(directory.path(), 0o755);
    let file = directory.path().join("authority.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let tls = |name: &str| json!({"starttls": true, "authorities": file, "server_name": name});
    let serve = |server: SocketAddr, tls: Value| {
        let mail = json!({"protocol": "imap", "backend": "upstreams/u", "tls": tls});
        mail::serve(mail, json!({}), json!({"u": {"servers": {server.to_string(): {}}}}))
    };
    let proxy = serve(imap_with_starttls(&authority, ""), tls("imap.test"));
    assert_eq!(log_in(proxy.address, "me", "secret").1, "a OK encrypted\r\n");
    let proxy = serve(imap_with_starttls(&authority, ""), tls("other.test"));
    assert_eq!(log_in(proxy.address, "me", "secret").1, "* BAD internal server error\r\n");
    let injected = imap_with_starttls(&authority, "* BYE from somebody else\r\n");
    let proxy = serve(injected, tls("imap.test"));
    assert_eq!(log_in(proxy.address, "me", "secret").1, "* BAD internal server error\r\n");
    proxy.server.wait_for_log("more behind its answer to STARTTLS");
}
