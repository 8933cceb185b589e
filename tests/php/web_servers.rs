//! Listeners for web servers that pass requests over FastCGI, as to PHP-FPM.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::{Server, Site, eventually, merge};
use howdah_wire::fastcgi::{
    Answer, Answers, End, Kind, Role, put_begin, put_end_of_stream, put_params, put_stream,
};
use serde_json::{Value, json};

/// A connection of a web server.
pub struct WebServer(pub UnixStream);

/// Output and messages; `None` if the connection has ended before the response.
pub type Whole = Option<(String, String)>;

impl WebServer {
    pub fn connect(socket: &Path) -> WebServer {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        WebServer(stream)
    }

    pub fn send(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.write_all(bytes).unwrap();
        self
    }

    pub fn answer(&mut self) -> Whole {
        let (mut answers, mut out, mut err) = (Answers::new(1), Vec::new(), Vec::new());
        let mut buffer = [0; 65536];
        loop {
            let len = self.0.read(&mut buffer).ok().filter(|len| *len > 0)?;
            let mut input = &buffer[..len];
            while let Some(answer) = answers.next(&mut input).unwrap() {
                match answer {
                    Answer::Stdout(bytes) => out.extend_from_slice(bytes),
                    Answer::Stderr(bytes) => err.extend_from_slice(bytes),
                    Answer::End(End { .. }) => {
                        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                        return Some((text(&out), text(&err)));
                    }
                }
            }
        }
    }
}

/// The beginning and the parameters of a request for a file of the site.
pub fn head(site: &str, script: &str, keep: bool, more: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_begin(Role::Responder, keep, 1, &mut bytes);
    let (file, uri) = (format!("{site}/{script}"), format!("/{script}"));
    let usual = [
        ("SCRIPT_FILENAME", file.as_str()),
        ("SCRIPT_NAME", uri.as_str()),
        ("REQUEST_URI", uri.as_str()),
        ("REQUEST_METHOD", "GET"),
        ("DOCUMENT_ROOT", site),
        ("REMOTE_ADDR", "192.0.2.7"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
    ];
    let is_replaced = |name: &str| more.iter().any(|(other, _)| *other == name);
    let all = usual.iter().filter(|(name, _)| !is_replaced(name)).chain(more);
    put_params(1, all.map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut bytes);
    bytes
}

pub fn request(
    site: &str,
    script: &str,
    keep: bool,
    more: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let length = body.len().to_string();
    let mut all = vec![("CONTENT_LENGTH", length.as_str())];
    all.extend(more);
    let mut bytes = head(site, script, keep, &all);
    put_stream(Kind::Stdin, 1, body, &mut bytes);
    put_end_of_stream(Kind::Stdin, 1, &mut bytes);
    bytes
}

/// A server with a listener for FastCGI, and its root.
pub struct Behind {
    pub server: Server,
    pub socket: PathBuf,
    pub root: String,
}

/// A listener for FastCGI at the socket of a site.
fn listener(site: &Site) -> (PathBuf, Value) {
    let socket = site.data().join("fastcgi.sock");
    let listener = json!({"protocol": "fastcgi", "pass": "applications/site",
        "status_path": "/status", "ping_path": "/ping"});
    let listeners = json!({"listeners": {format!("unix:{}", socket.display()): listener}});
    (socket, listeners)
}

pub fn serve(site: Site, changes: Value) -> Behind {
    let (root, (socket, listener)) = (site.root().display().to_string(), listener(&site));
    let server = site.with(listener).with(changes).serve();
    Behind { server, socket, root }
}

/// As [`serve`], with a configuration that the control API changes.
pub fn serve_controlled(site: Site, changes: Value) -> Behind {
    let (root, (socket, listener)) = (site.root().display().to_string(), listener(&site));
    let server = site.controlled().serve();
    let mut document = server.site.document(server.address);
    merge(&mut document, listener);
    merge(&mut document, changes);
    server.put("/config", &document);
    Behind { server, socket, root }
}

impl Behind {
    pub fn connect(&self) -> WebServer {
        WebServer::connect(&self.socket)
    }

    pub fn ask(&self, script: &str, more: &[(&str, &str)]) -> (String, String) {
        let bytes = request(&self.root, script, false, more, b"");
        self.connect().send(&bytes).answer().expect("a response")
    }
}

pub fn body(answer: &(String, String)) -> &str {
    answer.0.split_once("\r\n\r\n").expect("a head").1
}

#[test]
fn idle_kept_connections_occupy_no_process() {
    let site = Site::script("a.php", "echo getmypid();").workers(1);
    let behind = serve(site, json!({}));
    let mut kept: Vec<_> = (0..20).map(|_| behind.connect()).collect();
    for _ in 0..2 {
        for connection in &mut kept {
            let bytes = request(&behind.root, "a.php", true, &[], b"");
            let answer = connection.send(&bytes).answer().expect("a response");
            assert!(body(&answer).parse::<u32>().is_ok(), "{answer:?}");
        }
    }
    assert!(behind.server.get("/a.php").text().parse::<u32>().is_ok(), "HTTP beside it");
}

#[test]
fn an_upload_and_a_download_are_whole() {
    let code = "echo md5_file('php://input'), str_repeat('x', (int)$_GET['n']);";
    let behind = serve(Site::script("a.php", code), json!({}));
    let upload = vec![b'u'; 20 << 20];
    let more = [("REQUEST_METHOD", "POST"), ("QUERY_STRING", "n=30000000")];
    let bytes = request(&behind.root, "a.php", true, &more, &upload);
    let mut connection = behind.connect();
    let mut sender = connection.0.try_clone().unwrap();
    let sending = std::thread::spawn(move || sender.write_all(&bytes).unwrap());
    let answer = connection.answer().expect("a response");
    sending.join().unwrap();
    assert_eq!(body(&answer).len(), 30_000_032);
    assert!(body(&answer).starts_with("0fbbdcce1e5a0071ffa329a05d3bedbc"));
    assert!(answer.0.ends_with("xxx"));
}

#[test]
fn a_script_must_be_below_the_root_of_the_application() {
    let site = Site::script("a.php", "echo 'inside';");
    let outside = site.data().join("b.php");
    std::fs::write(&outside, "<?php echo 'outside';").unwrap();
    std::os::unix::fs::symlink(&outside, site.root().join("link.php")).unwrap();
    let file = outside.display().to_string();
    let behind = serve(site, json!({}));
    assert_eq!(body(&behind.ask("a.php", &[])), "inside");
    for (script, more) in [("link.php", &[][..]), ("b.php", &[("SCRIPT_FILENAME", &*file)])] {
        let (out, err) = behind.ask(script, more);
        assert!(out.starts_with("Status: 403 Forbidden\r\n"), "{out}");
        assert!(!out.contains("outside") && err.contains("not in the root of the application"));
    }
}

#[test]
fn an_application_whose_root_is_that_of_the_system_runs_any_script() {
    let site = Site::script("a.php", "echo 'inside';");
    let outside = site.data().join("b.php");
    std::fs::write(&outside, "<?php echo 'outside';").unwrap();
    let file = outside.display().to_string();
    let behind = serve(site, json!({"applications": {"site": {"root": "/"}}}));
    assert_eq!(body(&behind.ask("b.php", &[("SCRIPT_FILENAME", &file)])), "outside");
}

#[test]
fn settings_of_the_web_server_are_those_of_one_request() {
    let site = Site::script("a.php", "echo ini_get('precision'), @ini_set('precision', 3);");
    let behind = serve(site.workers(1), json!({}));
    assert_eq!(body(&behind.ask("a.php", &[("PHP_VALUE", "precision=5")])), "55");
    assert_eq!(body(&behind.ask("a.php", &[("PHP_ADMIN_VALUE", "precision = 6")])), "6");
    assert_eq!(body(&behind.ask("a.php", &[])), "1414");
}

#[test]
fn messages_of_scripts_go_to_the_web_server_unless_that_is_off() {
    for (value, expected) in [("1", "PHP message: noted"), ("0", "")] {
        let options = json!({"options": {"admin": {"fastcgi.logging": value}}});
        let site = Site::script("a.php", "error_log('noted'); echo 'ok';");
        let behind = serve(site, json!({"applications": {"site": options}}));
        let answer = behind.ask("a.php", &[]);
        assert_eq!((body(&answer), answer.1.trim_end()), ("ok", expected));
        behind.server.wait_for_log("noted");
    }
}

#[test]
fn status_and_ping_are_answered_without_a_process() {
    let behind = serve(Site::script("a.php", "sleep(15);").workers(1), json!({}));
    let mut busy = behind.connect();
    busy.send(&request(&behind.root, "a.php", false, &[], b""));
    eventually("a busy process", || {
        let status = behind.ask("status", &[("QUERY_STRING", "json")]);
        let status: Value = serde_json::from_str(body(&status)).unwrap();
        (status["active processes"] == 1).then_some(())
    });
    let (out, _) = behind.ask("ping", &[]);
    assert!(
        out.contains("Content-type: text/plain;charset=UTF-8\r\n") && out.ends_with("pong"),
        "{out}"
    );
    let (out, _) = behind.ask("status", &[("QUERY_STRING", "full")]);
    assert!(out.contains("request URI:          /a.php"), "{out}");
}

#[test]
fn an_abandoned_request_ends_its_script() {
    let code = "touch(getenv('DATA') . '/began'); register_shutdown_function(function () {
        file_put_contents(getenv('DATA') . '/ended', connection_aborted()); });
        for (;;) { usleep(10000); echo 'x'; flush(); }";
    for is_abort in [false, true] {
        let site = Site::script("a.php", code);
        let data = site.data();
        let behind = serve(site, json!({}));
        let mut connection = behind.connect();
        connection.send(&request(&behind.root, "a.php", true, &[], b""));
        eventually("a running script", || data.join("began").exists().then_some(()));
        if is_abort {
            connection.send(&[1, 2, 0, 1, 0, 0, 0, 0]);
        } else {
            drop(connection);
        }
        eventually("the end of the script", || {
            std::fs::read(data.join("ended")).is_ok_and(|text| text == b"1").then_some(())
        });
    }
}

#[test]
fn a_full_queue_is_answered_with_503() {
    let site = Site::script("a.php", "sleep(15);").workers(1);
    let limits = json!({"applications": {"site": {"limits": {"queue": 1}}}});
    let behind = serve(site, limits);
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let mut connection = behind.connect();
        connection.send(&request(&behind.root, "a.php", true, &[], b""));
        waiting.push(connection);
    }
    eventually("a full queue", || {
        let mut connection = behind.connect();
        connection.send(&request(&behind.root, "a.php", true, &[], b""));
        connection.0.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let answer = connection.answer()?;
        answer.0.starts_with("Status: 503 Service Unavailable").then_some(())
    });
}

#[test]
fn a_worker_that_dies_costs_its_own_request() {
    let site =
        Site::script("a.php", "if (isset($_GET['die'])) posix_kill(getmypid(), 9); echo 'ok';");
    let behind = serve(site.workers(2), json!({}));
    let (out, _) = behind.ask("a.php", &[("QUERY_STRING", "die")]);
    assert!(out.starts_with("Status: 502 Bad Gateway\r\n"), "{out}");
    assert_eq!(body(&behind.ask("a.php", &[])), "ok");
}

#[test]
fn requests_are_in_the_access_log_with_their_client() {
    let site = Site::script("a.php", "echo 'ok';");
    let path = site.data().join("access.log");
    let behind = serve(
        site,
        json!({"access_log": {"path": path, "format": "$remote_addr $request_uri $status $body_bytes_sent"}}),
    );
    behind.ask("a.php", &[]);
    eventually("a line of the log", || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines().any(|line| line == "192.0.2.7 /a.php 200 2").then_some(())
    });
}

#[test]
fn an_address_that_is_not_allowed_is_not_served() {
    let address = harness::free_address();
    let listener =
        |allow: &str| json!({"protocol": "fastcgi", "pass": "applications/site", "allow": [allow]});
    for (allow, is_served) in [("127.0.0.0/8", true), ("192.0.2.1", false)] {
        let site = Site::script("a.php", "echo 'ok';");
        let root = site.root().display().to_string();
        let server =
            site.with(json!({"listeners": {address.to_string(): listener(allow)}})).serve();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let _ = stream.write_all(&request(&root, "a.php", false, &[], b""));
        let mut out = Vec::new();
        let _ = stream.read_to_end(&mut out);
        assert_eq!(!out.is_empty(), is_served);
        if !is_served {
            eventually("a line of the log", || {
                server
                    .log()
                    .contains("\"allow\" of the listener does not have the address")
                    .then_some(())
            });
        }
    }
}
