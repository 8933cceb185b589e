//! Proxies of mail: logins, encryption that begins with a command, and what may not pass.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harness::client::Client;
use harness::time::patience;
use harness::tls::Authority;
use harness::{Server, Site, eventually, free_address, free_listener};
use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::{Value, json};

/// Runs a server in threads: `serve` gets each connection.
pub fn run(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    run_on(free_listener(), serve)
}

fn run_on(listener: TcpListener, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

pub fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    Some(line)
}

/// A server of IMAP that takes literals, the password `secret`, and then repeats what comes.
pub fn imap() -> SocketAddr {
    run(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let _ = stream.write_all(b"* OK ready\r\n");
        let Some(command) = line(&mut reader) else { return };
        let tag = command.split(' ').next().unwrap().to_owned();
        let _ = stream.write_all(b"+ go on\r\n");
        let user = line(&mut reader).unwrap();
        let _ = stream.write_all(b"+ go on\r\n");
        let password = line(&mut reader).unwrap();
        if password != "secret\r\n" {
            let _ = stream.write_all(format!("{tag} NO [AUTH] not {password}").as_bytes());
            return;
        }
        let name = user.split(' ').next().unwrap();
        let answer = format!("* CAPABILITY X\r\n{tag} OK [CAPABILITY IMAP4rev1] hello {name}\r\n");
        let _ = stream.write_all(answer.as_bytes());
        echo(reader, stream);
    })
}

fn echo(mut reader: impl Read, mut stream: TcpStream) {
    let mut room = [0; 4096];
    while let Ok(count @ 1..) = reader.read(&mut room) {
        if stream.write_all(&room[..count]).is_err() {
            return;
        }
    }
}

/// A server of SMTP that keeps what it is told, and takes everything.
fn smtp(told: &Arc<Mutex<String>>) -> SocketAddr {
    smtp_on(free_listener(), told)
}

fn smtp_on(listener: TcpListener, told: &Arc<Mutex<String>>) -> SocketAddr {
    let told = Arc::clone(told);
    run_on(listener, move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let _ = stream.write_all(b"220 behind\r\n");
        while let Some(command) = line(&mut reader) {
            told.lock().unwrap().push_str(&command);
            let reply = match command.get(..4) {
                Some("EHLO") => "250-behind\r\n250-XCLIENT ADDR\r\n250 AUTH PLAIN\r\n",
                Some("XCLI") => "220 behind\r\n",
                Some("AUTH") => "235 yes\r\n",
                Some("DATA") => "354 go on\r\n",
                _ => "250 done\r\n",
            };
            let _ = stream.write_all(reply.as_bytes());
        }
    })
}

/// An authentication server that knows the password `secret`. Keeps the questions.
pub fn authentication(behind: SocketAddr, asked: &Arc<Mutex<String>>) -> SocketAddr {
    let asked = Arc::clone(asked);
    run(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut question = String::new();
        while let Some(line) = line(&mut reader).filter(|line| line != "\r\n") {
            question.push_str(&line);
        }
        let has = |text: &str| question.contains(text);
        let answer = if has("Auth-Pass: secret\r\n") || has("Auth-Method: none\r\n") {
            format!("OK\r\nAuth-Server: {}\r\nAuth-Port: {}", behind.ip(), behind.port())
        } else if has("Auth-Login-Attempt: 1\r\n") {
            "Wrong password\r\nAuth-Wait: 1".to_owned()
        } else {
            "Too many".to_owned()
        };
        asked.lock().unwrap().push_str(&question);
        let _ = stream
            .write_all(format!("HTTP/1.0 200 OK\r\nAuth-Status: {answer}\r\n\r\n").as_bytes());
    })
}

pub struct Proxy {
    pub server: Server,
    pub address: SocketAddr,
    authority: Authority,
    _directory: tempfile::TempDir,
}

/// Serves a proxy of mail. `{}` as `tls` becomes one with a certificate for `mx.test`.
pub fn serve(mail: Value, listener: Value, upstreams: Value) -> Proxy {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    harness::open_to_all(directory.path(), 0o755);
    let (chain, key) = authority.issue(&["mx.test"]);
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("chain.pem"), chain).unwrap();
    std::fs::write(path("key.pem"), key).unwrap();
    let (http, address) = (free_address().to_string(), free_address());
    let mut wanted = json!({"pass": "mail/m"});
    harness::merge(&mut wanted, listener);
    if wanted.get("tls").is_some() {
        wanted["tls"]["certificate"] = json!({"chain": path("chain.pem"), "key": path("key.pem")});
    }
    let server = Site::new().controlled().serve_at(&http);
    server.put(
        "/config",
        &json!({
            "listeners": {&http: {"pass": "routes"}, address.to_string(): wanted},
            "routes": [{"action": {"return": 200}}],
            "mail": {"m": mail},
            "upstreams": upstreams,
        }),
    );
    Proxy { server, address, authority, _directory: directory }
}

pub fn asking(protocol: &str, url: SocketAddr, more: Value) -> Value {
    let mut mail = json!({
        "protocol": protocol,
        "server_name": "mx.test",
        "authentication": {"url": format!("http://{url}/auth"), "headers": {"X-Key": "k"}},
    });
    harness::merge(&mut mail, more);
    mail
}

fn secured(
    proxy: &Proxy,
    stream: TcpStream,
    protocols: &[&str],
) -> StreamOwned<ClientConnection, TcpStream> {
    let config: Arc<ClientConfig> = proxy.authority.client(None, protocols);
    stream.set_read_timeout(Some(patience())).unwrap();
    let name = ServerName::try_from("mx.test").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream)
}

#[test]
fn a_client_of_imap_is_led_to_its_server_and_nothing_is_changed_from_then_on() {
    let asked = Arc::default();
    let url = authentication(imap(), &asked);
    let proxy = serve(asking("imap", url, json!({})), json!({}), json!({}));
    let mut client = Client::connect(proxy.address);
    client.wait_for("* OK IMAP4 ready\r\n");
    // What follows the login at once reaches the server after it, as it is.
    client.send("a/:$ LOGIN \"me too\" {6+}\r\nsecret\r\nb X {3}\n.\r.\n\r\n.\r\n");
    client.wait_for("* CAPABILITY X\r\na/:$ OK [CAPABILITY IMAP4rev1] hello me\r\n");
    client.wait_for("b X {3}\n.\r.\n\r\n.\r\n");
    client.finish_sending();
    client.everything();
    let asked = asked.lock().unwrap().clone();
    for field in [
        "GET /auth HTTP/1.0\r\n",
        "Auth-Method: plain\r\n",
        "Auth-User: me%20too\r\n",
        "Auth-Protocol: imap\r\n",
        "Auth-Login-Attempt: 1\r\n",
        "Client-IP: 127.0.0.1\r\n",
        "X-Key: k\r\n",
    ] {
        assert!(asked.contains(field), "{field} {asked}");
    }
}

#[test]
fn a_failed_login_may_be_tried_again_and_stands_in_the_log_without_its_password() {
    let asked = Arc::default();
    let url = authentication(imap(), &asked);
    let proxy = serve(asking("imap", url, json!({})), json!({}), json!({}));
    let mut client = Client::connect(proxy.address);
    client.send("a LOGIN me wrong-word\r\n");
    client.wait_for("a NO Wrong password\r\n");
    client.send("b LOGIN me secret\r\n");
    client.wait_for("b OK");
    let log = proxy.server.wait_for_log("imap login of \"me\" by plain failed: Wrong password");
    assert!(!log.contains("wrong-word"), "{log}");
    let mut other = Client::connect(proxy.address);
    other.send("a LOGIN me x\r\n").wait_for("a NO Wrong");
    other.send("b LOGIN me x\r\n");
    let all = String::from_utf8(other.everything()).unwrap();
    assert!(all.ends_with("b NO Too many\r\n"), "{all}");
}

#[test]
fn a_session_without_a_server_ends_with_an_internal_error() {
    for (protocol, login, expected) in [
        ("imap", "a LOGIN me secret\r\n", "* BAD internal server error\r\n"),
        ("pop3", "USER me\r\nPASS secret\r\n", "-ERR internal server error\r\n"),
        (
            "smtp",
            "EHLO a\r\nAUTH PLAIN AG1lAHNlY3JldA==\r\n",
            "451 4.3.2 Internal server error\r\n",
        ),
    ] {
        let proxy = serve(asking(protocol, free_address(), json!({})), json!({}), json!({}));
        let mut client = Client::connect(proxy.address);
        client.send(login);
        let all = String::from_utf8(client.everything()).unwrap();
        assert!(all.ends_with(expected), "{all}");
    }
}

#[test]
fn a_server_behind_may_check_the_password_itself() {
    let mail = json!({"protocol": "imap", "backend": "upstreams/u", "server_name": "mx.test"});
    let upstreams = json!({"u": {"servers": {imap().to_string(): {}}}});
    let proxy = serve(mail, json!({}), upstreams);
    let mut client = Client::connect(proxy.address);
    client.send("a AUTHENTICATE PLAIN AG1lAHdyb25n\r\n");
    client.wait_for("a NO [AUTHENTICATIONFAILED] Authentication failed\r\n");
    client.send("b AUTHENTICATE PLAIN AG1lAHNlY3JldA==\r\n");
    client.wait_for("b OK");
    proxy.server.wait_for_log("imap login of \"me\" by plain failed");
}

#[test]
fn encryption_that_is_required_begins_before_the_login_and_nothing_slips_in_before_it() {
    let asked = Arc::default();
    let url = authentication(imap(), &asked);
    let listener = json!({"tls": {"starttls": "required"}});
    let proxy = serve(asking("imap", url, json!({})), listener, json!({}));
    let mut plain = Client::connect(proxy.address);
    plain.send("a CAPABILITY\r\nb LOGIN me secret\r\n");
    plain.wait_for("* CAPABILITY IMAP4rev1 UIDPLUS STARTTLS LOGINDISABLED\r\n");
    plain.wait_for("b BAD invalid command\r\n");
    plain.send("c STARTTLS\r\n").wait_for("c OK completed\r\n");
    let mut stream = secured(&proxy, plain.stream().try_clone().unwrap(), &["imap"]);
    stream.write_all(b"d LOGIN me secret\r\n").unwrap();
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"* CAPABILITY X\r\nd OK"), "{answer:?}");
    // Commands behind STARTTLS, in plain text.
    let mut injecting = Client::connect(proxy.address);
    injecting.send("a STARTTLS\r\nb NOOP\r\n");
    let all = String::from_utf8(injecting.everything()).unwrap();
    assert_eq!(all, "* OK IMAP4 ready\r\na OK completed\r\n");
    proxy.server.wait_for_log("the client has sent more behind STARTTLS");
    assert_eq!(asked.lock().unwrap().matches("GET ").count(), 1);
    assert!(asked.lock().unwrap().contains("Auth-SSL: on\r\nAuth-SSL-Protocol: TLSv1.3\r\n"));
}

#[test]
fn a_client_of_another_protocol_is_not_served() {
    let url = authentication(imap(), &Arc::default());
    let listener = json!({"tls": {}});
    let proxy = serve(asking("imap", url, json!({})), listener, json!({}));
    let connect = || TcpStream::connect(proxy.address).unwrap();
    let mut browser = secured(&proxy, connect(), &["h2", "http/1.1"]);
    assert!(browser.write_all(b"GET / HTTP/1.1\r\n").is_err());
    for protocols in [&["imap"][..], &[]] {
        let mut client = secured(&proxy, connect(), protocols);
        client.write_all(b"a NOOP\r\n").unwrap();
        let mut greeting = [0; 18];
        client.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"* OK IMAP4 ready\r\n");
    }
    let mut client = secured(&proxy, connect(), &[]);
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\n\r\na LOGIN me secret\r\n").unwrap();
    let mut all = Vec::new();
    let _ = client.read_to_end(&mut all);
    assert_eq!(all, b"* OK IMAP4 ready\r\n");
}

#[test]
fn a_server_of_smtp_is_told_the_client_and_its_message_is_begun() {
    let (told, asked) = (Arc::default(), Arc::default());
    let url = authentication(smtp(&told), &asked);
    let mail = asking("smtp", url, json!({"methods": ["none"], "xclient": true}));
    let proxy = serve(mail, json!({}), json!({}));
    let mut client = Client::connect(proxy.address);
    client.send("EHLO me\r\nMAIL FROM:<a@b> SIZE=3\r\nRCPT TO:<c@d>\r\nDATA\r\n");
    client.wait_for(
        "220 mx.test ESMTP ready\r\n250 mx.test\r\n250 2.0.0 OK\r\n250 done\r\n354 go on\r\n",
    );
    let told = told.lock().unwrap().clone();
    assert_eq!(
        told,
        "EHLO mx.test\r\nXCLIENT ADDR=127.0.0.1 NAME=[UNAVAILABLE]\r\nEHLO me\r\n\
         MAIL FROM:<a@b> SIZE=3\r\nRCPT TO:<c@d>\r\nDATA\r\n"
    );
    let asked = asked.lock().unwrap().clone();
    assert!(
        asked.contains("Auth-Method: none\r\n")
            && asked.contains("Auth-SMTP-To: RCPT TO:<c@d>\r\n")
    );
    assert!(!asked.contains("Auth-User"), "{asked}");
}

#[test]
fn a_server_of_smtp_checks_the_password_again_if_it_is_to() {
    let told = Arc::default();
    let url = authentication(smtp(&told), &Arc::default());
    let mail = asking("smtp", url, json!({"xclient": false, "backend_authentication": true}));
    let proxy = serve(mail, json!({}), json!({}));
    let mut client = Client::connect(proxy.address);
    client.send("EHLO me\r\nAUTH LOGIN bWU=\r\nc2VjcmV0\r\nMAIL FROM:<a>\r\n");
    client.wait_for("334 UGFzc3dvcmQ6\r\n235 2.0.0 OK\r\n250 done\r\n");
    let told = told.lock().unwrap().clone();
    assert_eq!(told, "EHLO mx.test\r\nAUTH PLAIN AG1lAHNlY3JldA==\r\nMAIL FROM:<a>\r\n");
}

#[test]
fn the_proxy_protocol_passes_the_client_on_both_sides() {
    let behind = run(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let header = line(&mut reader).unwrap();
        let _ = stream.write_all(b"+OK\r\n");
        line(&mut reader);
        let _ = stream.write_all(b"+OK\r\n");
        line(&mut reader);
        let _ = stream.write_all(format!("+OK {header}").as_bytes());
    });
    let asked = Arc::default();
    let url = authentication(behind, &asked);
    let listener = json!({"proxy_protocol": {"source": "127.0.0.0/8"}});
    let proxy = serve(asking("pop3", url, json!({"proxy_protocol": 1})), listener, json!({}));
    let mut client = Client::connect(proxy.address);
    client.send("PROXY TCP4 192.0.2.1 198.51.100.7 1234 110\r\nUSER me\r\nPASS secret\r\n");
    client.wait_for("+OK PROXY TCP4 192.0.2.1 198.51.100.7 1234 110\r\n");
    let asked = asked.lock().unwrap().clone();
    assert!(
        asked.contains("Client-IP: 192.0.2.1\r\nProxy-Protocol-Addr: 192.0.2.1\r\n"),
        "{asked}"
    );
}

#[test]
fn what_is_too_long_or_too_slow_ends_before_the_login() {
    let url = authentication(imap(), &Arc::default());
    let more = json!({"timeouts": {"client": 1}, "max_errors": 2});
    let proxy = serve(asking("imap", url, more), json!({}), json!({}));
    let mut long = Client::connect(proxy.address);
    let _ = long.try_send("a".repeat(20_000));
    let all = String::from_utf8_lossy(&long.everything()).into_owned();
    assert!(all.ends_with("* BAD line is too long\r\n") || all == "* OK IMAP4 ready\r\n", "{all}");
    let mut literal = Client::connect(proxy.address);
    literal.send("a LOGIN {2000000000}\r\nb LOGIN {5000}\r\n");
    let all = String::from_utf8(literal.everything()).unwrap();
    assert!(all.ends_with("a BAD invalid command\r\nb BAD invalid command\r\n"), "{all}");
    assert_eq!(Client::connect(proxy.address).everything(), b"* OK IMAP4 ready\r\n");
}

#[test]
fn a_script_of_a_site_decides_about_logins() {
    let behind = imap();
    let (host, port) = (behind.ip(), behind.port());
    let site = Site::script(
        "auth.php",
        &format!(
            "if ($_SERVER['HTTP_AUTH_USER'] === 'broken') {{ throw new Exception('broken'); }}
             $is_right = $_SERVER['HTTP_AUTH_PASS'] === 'se%20cret' && $_SERVER['HTTP_X_KEY'] === 'k'
                 && $_SERVER['HTTP_AUTH_PROTOCOL'] === 'imap' && $_SERVER['HTTP_CLIENT_IP'] === '127.0.0.1';
             header('Auth-Status: ' . ($is_right ? 'OK' : 'Wrong password'));
             header($is_right ? 'Auth-Server: {host}' : 'Auth-Wait: 1');
             header('Auth-Port: {port}');
             header('Auth-Pass: secret');"
        ),
    );
    let (http, address) = (free_address().to_string(), free_address());
    let mut document = site.document(&http);
    document["applications"]["auth"] = document["applications"]["site"].take();
    document["applications"].as_object_mut().unwrap().remove("site");
    document["applications"]["auth"]["script"] = json!("auth.php");
    document["routes"] = json!([{"action": {"return": 200}}]);
    document["listeners"][address.to_string()] = json!({"pass": "mail/m"});
    document["mail"] = json!({"m": {
        "protocol": "imap",
        "authentication": {"script": "applications/auth", "headers": {"X-Key": "k"}},
    }});
    let server = site.controlled().serve_at(&http);
    server.put("/config", &document);
    let mut client = Client::connect(address);
    client.send("a LOGIN me wrong\r\n").wait_for("a NO Wrong password\r\n");
    client.send("b LOGIN me \"se cret\"\r\n").wait_for("b OK [CAPABILITY IMAP4rev1] hello me\r\n");
    let mut broken = Client::connect(address);
    broken.send("a LOGIN broken x\r\n");
    let all = String::from_utf8(broken.everything()).unwrap();
    assert!(all.ends_with("* BAD internal server error\r\n"), "{all}");
    server.wait_for_log("applications/auth: it sends no \"Auth-Status\" (status 500)");
}

#[test]
fn names_of_servers_and_clients_are_looked_up_and_answers_may_end_lines_without_cr() {
    let (told, asked) = (Arc::<Mutex<String>>::default(), Arc::<Mutex<String>>::default());
    let port = smtp_on(TcpListener::bind("127.0.0.1:0").unwrap(), &told).port();
    let questions = Arc::clone(&asked);
    let url = run(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(line) = line(&mut reader).filter(|line| line != "\r\n") {
            questions.lock().unwrap().push_str(&line);
        }
        let answer = format!(
            "HTTP/1.0 200 OK\nAuth-Status: OK\nAuth-Server: localhost\nAuth-Port: {port}\n\n"
        );
        let _ = stream.write_all(answer.as_bytes());
    });
    let more = json!({"methods": ["none"], "client_names": true});
    let proxy = serve(asking("smtp", url, more), json!({}), json!({}));
    let mut client = Client::connect(proxy.address);
    client
        .send("EHLO me\r\nMAIL FROM:<a>\r\nRCPT TO:<b>\r\nNOOP\r\n")
        .wait_for("250 done\r\n250 done\r\n");
    let asked = asked.lock().unwrap().clone();
    assert!(asked.contains("Client-Host: localhost\r\n"), "{asked}");
    let told = told.lock().unwrap().clone();
    assert!(told.contains("XCLIENT ADDR=127.0.0.1 NAME=localhost\r\n"), "{told}");
}

#[test]
fn a_server_behind_that_sends_without_end_is_left() {
    for (protocol, login, piece) in [
        ("imap", "a LOGIN me secret\r\n", "* CAPABILITY X\r\n"),
        ("smtp", "EHLO a\r\nAUTH PLAIN AG1lAHNlY3JldA==\r\n", "220-wait\r\n"),
    ] {
        let behind = run(move |mut stream| {
            let greeting = if protocol == "imap" { "* OK hello\r\n" } else { "" };
            let _ = stream.write_all(greeting.as_bytes());
            while stream.write_all(piece.repeat(1000).as_bytes()).is_ok() {}
        });
        let url = authentication(behind, &Arc::default());
        let proxy = serve(asking(protocol, url, json!({})), json!({}), json!({}));
        let mut client = Client::connect(proxy.address);
        client.send(login);
        let all = String::from_utf8(client.everything()).unwrap().to_lowercase();
        assert!(all.ends_with("internal server error\r\n"), "{all}");
        proxy.server.wait_for_log("it sends too much before the login");
    }
}

#[test]
fn a_client_that_leaves_while_it_is_to_wait_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    harness::open_to_all(directory.path(), 0o777);
    let path = directory.path().join("access.log");
    let (asking_now, asked) = std::sync::mpsc::channel();
    let url = run(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while line(&mut reader).is_some_and(|line| line != "\r\n") {}
        let answer = "HTTP/1.0 200 OK\r\nAuth-Status: WAIT\r\nAuth-Wait: 3600\r\n\r\n";
        let _ = stream.write_all(answer.as_bytes());
        let _ = asking_now.send(());
    });
    let listener = json!({"access_log": {"path": path, "format": "$status"}});
    let proxy = serve(asking("imap", url, json!({})), listener, json!({}));
    let mut client = Client::connect(proxy.address);
    client.send("a LOGIN me secret\r\n");
    asked.recv_timeout(patience()).unwrap();
    drop(client);
    let lines = eventually("the session ends", || {
        std::fs::read_to_string(&path).ok().filter(|lines| !lines.is_empty())
    });
    assert_eq!(lines, "499\n");
}

#[test]
fn sessions_go_on_at_the_end_of_the_server_and_others_are_told() {
    let url = authentication(imap(), &Arc::default());
    let Proxy { mut server, address, .. } =
        serve(asking("imap", url, json!({})), json!({}), json!({}));
    let mut client = Client::connect(address);
    client.send("a LOGIN me secret\r\n").wait_for("a OK");
    let mut waiting = Client::connect(address);
    waiting.wait_for("* OK IMAP4 ready\r\n");
    server.signal(Signal::QUIT);
    assert!(waiting.everything().ends_with(b"* BYE server is going down\r\n"));
    eventually("new connections are refused", || {
        TcpStream::connect(address).is_err().then_some(())
    });
    std::thread::sleep(Duration::from_millis(300));
    client.send("b IDLE\r\n").wait_for("b IDLE\r\n");
    drop(client);
    assert!(server.wait().success());
}
