//! Access to the control API, and links that are not followed to files of the server.
//!
//! Names of certificates are in `tls/certificates.rs`, large documents in `control_limits.rs`.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use harness::client::Client;
use harness::control::Answer;
use harness::programs::{self, run};
use harness::{Ends, Server, Site, control, eventually, free_address, processes, requirements};
use rustix::process::Signal;
use serde_json::json;

/// The token that requests to the API must carry over TCP, and a field with it.
const TOKEN: &str = "0123456789abcdefGHIJ";
const AUTHORIZATION: &str = "Authorization: Bearer 0123456789abcdefGHIJ\r\n";

/// A site with an API at this address, which asks for a token.
fn with_token(address: &str) -> Site {
    let site = Site::new();
    let path = token_file(&site);
    site.argument("--control-token-file")
        .argument(&path.display().to_string())
        .controlled_at(address)
}

fn token_file(site: &Site) -> std::path::PathBuf {
    let path = site.data().with_file_name("token");
    fs::write(&path, format!("{TOKEN}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn over_tcp() -> (Server, SocketAddr) {
    let control = free_address();
    (with_token(&control.to_string()).serve(), control)
}

/// Asks with the token.
fn ask(control: SocketAddr, method: &str, target: &str, fields: &str) -> Answer {
    control::ask_tcp(control, method, target, &format!("{fields}{AUTHORIZATION}"))
}

/// The message of a server that does not start.
fn refused(site: &Site) -> String {
    let output = run(&mut site.command(&free_address().to_string()));
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn over_tcp_the_api_is_for_who_has_the_token() {
    let (server, control) = over_tcp();
    let host = format!("Host: {control}\r\n");
    for target in ["/", "/config", "/status", "/certificates", "/nothing"] {
        for wrong in [
            "",
            "Authorization: Bearer\r\n",
            "Authorization: Bearer 0123456789abcdefGHI\r\n",
            "Authorization: Bearer 0123456789abcdefGHIJK\r\n",
            "Authorization: Basic 0123456789abcdefGHIJ\r\n",
            "Cookie: token=0123456789abcdefGHIJ\r\n",
        ] {
            let answer = control::ask_tcp(control, "GET", target, &format!("{host}{wrong}"));
            assert_eq!(
                (answer.status, answer.text("error")),
                (401, "Token required."),
                "{wrong:?}"
            );
        }
    }
    let mut client = Client::connect(control);
    client.send(format!("DELETE /config HTTP/1.1\r\n{host}\r\n"));
    let response = client.response();
    assert_eq!(response.status, 401);
    assert_eq!(response.field("WWW-Authenticate"), Some("Bearer"));
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    assert!(response.text().contains("--control-token-file"), "{response:?}");
    assert_eq!(ask(control, "GET", "/config", &host).status, 200);
    // Of two fields, a program in between may have read the other.
    let twice =
        control::ask_tcp(control, "GET", "/", &format!("{host}{AUTHORIZATION}{AUTHORIZATION}"));
    assert_eq!(twice.status, 401);
    // Another control process asks for the same.
    let title = "howdah: control";
    for process in server.processes().iter().filter(|process| process.title == title) {
        processes::signal(process.pid, Signal::KILL);
    }
    let answer = eventually("there is another one", || {
        let stream = TcpStream::connect(control).ok()?;
        let request = format!("GET / HTTP/1.1\r\n{host}Connection: close\r\n{AUTHORIZATION}\r\n");
        control::exchange(stream, request.as_bytes()).ok()
    });
    assert_eq!(answer.status, 200);
    assert_eq!(control::ask_tcp(control, "GET", "/", &host).status, 401);
}

#[test]
fn the_token_is_nowhere_but_in_its_file() {
    let (server, control) = over_tcp();
    assert_eq!(ask(control, "GET", "/", "Host: localhost\r\n").status, 200);
    for process in server.processes().iter().map(|process| process.pid).chain([server.supervisor()])
    {
        for name in ["cmdline", "environ", "comm"] {
            let text = fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&text).contains(TOKEN), "{name} of {process}");
        }
    }
    assert!(!server.log().contains(TOKEN));
    assert!(!server.announcement.contains(TOKEN));
    let (_, site) = server.end(Signal::TERM);
    assert!(!fs::read_to_string(site.data().with_file_name("stderr")).unwrap().contains(TOKEN));
}

#[test]
fn without_permissions_or_a_token_the_api_is_not_offered() {
    for address in ["127.0.0.1:0", "[::1]:0", "unix:@howdah-test-without-token"] {
        let text = refused(&Site::new().controlled_at(address));
        assert!(
            text.contains(&format!("--control {address}: every program of this machine")),
            "{text}"
        );
        assert!(text.contains("--control-token-file FILE") && text.contains("unix:PATH"), "{text}");
    }
    let site = with_token("127.0.0.1:0");
    let path = token_file(&site);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let text = refused(&site);
    assert!(text.contains("mode 0644") && text.contains("chmod 600"), "{text}");
    fs::write(&path, "short").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refused(&site).contains("at least 16 characters"));
    fs::remove_file(&path).unwrap();
    assert!(refused(&site).contains("No such file"));
}

#[test]
fn an_abstract_socket_asks_for_the_token_too() {
    let name = format!("howdah-test-{}", std::process::id());
    let _server = with_token(&format!("unix:@{name}")).serve();
    let ask = |fields: &str| {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let stream = UnixStream::connect_addr(&address).unwrap();
        let request =
            format!("GET /config HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        control::exchange(stream, request.as_bytes()).unwrap().status
    };
    assert_eq!((ask(""), ask(AUTHORIZATION)), (401, 200));
}

/// More connections than the API serves at once, with heads that never end, leave the administrator
/// room.
#[test]
fn connections_without_the_token_do_not_keep_others_out() {
    let (_server, control) = over_tcp();
    let unfinished = || {
        let mut stream = TcpStream::connect(control).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").unwrap();
        stream
    };
    let mut known = Client::connect(control);
    let request = format!("GET /config HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}\r\n");
    known.send(&request);
    assert_eq!(known.response().status, 200);
    // New connections take the places of those that are closed, so that the API is full all the
    // time.
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = Ends(&ending);
        scope.spawn(|| {
            let mut held: VecDeque<_> = (0..200).map(|_| unfinished()).collect();
            while !ending.load(Ordering::Relaxed) {
                held.pop_front();
                held.push_back(unfinished());
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        for _ in 0..3 {
            assert_eq!(ask(control, "GET", "/config", "Host: localhost\r\n").status, 200);
            // A client that has shown the token keeps the connection.
            known.send(&request);
            assert_eq!(known.response().status, 200);
        }
        drop(ended);
    });
}

/// A client without the token times out sooner than one with it, and has begun before.
#[test]
fn a_head_without_the_token_must_come_soon() {
    let (_server, control) = over_tcp();
    let request = format!("GET /config HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}");
    let mut known = Client::connect(control);
    known.send(format!("{request}\r\n{request}"));
    assert_eq!(known.response().status, 200);
    let mut stranger = Client::connect(control);
    stranger.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
    assert_eq!(stranger.response().status, 408);
    known.send("\r\n");
    assert_eq!(known.response().status, 200);
}

#[test]
fn the_commands_take_the_token_from_its_file() {
    let (server, control) = over_tcp();
    let file = token_file(&server.site);
    let howdah = |option: bool, variable: Option<&Path>| {
        let mut command = Command::new(programs::howdah());
        command.args(["config", "get", "--control", &control.to_string()]);
        command.env_remove("HOWDAH_CONTROL_TOKEN_FILE");
        if option {
            command.arg("--control-token-file").arg(&file);
        }
        if let Some(variable) = variable {
            command.env("HOWDAH_CONTROL_TOKEN_FILE", variable);
        }
        let output = run(&mut command);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(howdah(true, None), (Some(0), String::new()));
    assert_eq!(howdah(false, Some(&file)), (Some(0), String::new()));
    assert_eq!(howdah(true, Some(Path::new("/nowhere"))), (Some(0), String::new()));
    let (status, said) = howdah(false, None);
    assert_eq!(status, Some(1));
    assert!(said.contains("--control-token-file FILE"), "{said}");
    assert!(said.contains("HOWDAH_CONTROL_TOKEN_FILE"), "{said}");
    let (status, said) = howdah(false, Some(Path::new("/nowhere")));
    assert_eq!(status, Some(1));
    assert!(said.contains("HOWDAH_CONTROL_TOKEN_FILE /nowhere: No such file"), "{said}");
    fs::write(&file, "another token than that of the server").unwrap();
    assert!(howdah(true, None).1.contains("visible ASCII"));
    fs::write(&file, "another-token-than-that-of-the-server").unwrap();
    let (status, said) = howdah(true, None);
    assert_eq!(status, Some(1));
    assert!(said.contains("refuses this token") && !said.contains("another"), "{said}");
}

#[test]
fn browsers_are_refused_over_tcp() {
    let (_server, control) = over_tcp();
    let ask = |fields: &str| ask(control, "DELETE", "/config", fields).status;
    assert_eq!(ask(&format!("Host: {control}\r\n")), 200);
    assert_eq!(ask("Host: localhost\r\n"), 200);
    for field in [
        "Origin: http://evil.example",
        "Origin: null",
        "origin: http://localhost",
        "Sec-Fetch-Mode: no-cors",
        "sec-fetch-site: same-origin",
    ] {
        assert_eq!(ask(&format!("Host: {control}\r\n{field}\r\n")), 403, "{field}");
    }
}

#[test]
fn names_of_others_are_refused_over_tcp() {
    let (_server, control) = over_tcp();
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1", "[::2]"] {
        let answer = ask(control, "GET", "/config", &format!("Host: {host}\r\n"));
        assert_eq!((answer.status, answer.text("error")), (403, "Request for another host."));
    }
    // The target's own authority counts, not the field (RFC 9112, 3.2.2).
    let target = "http://evil.example/config";
    let answer = ask(control, "GET", target, "Host: evil.example\r\n");
    assert_eq!(answer.status, 403);
    for fields in ["", "Host: localhost\r\nHost: evil.example\r\n", "Host: localhost@evil\r\n"] {
        let answer = ask(control, "GET", "/config", fields);
        assert_eq!(answer.status, 400, "{fields:?}");
    }
    let answer = ask(control, "GET", target, "Host: localhost\r\n");
    assert!((400..500).contains(&answer.status), "{answer:?}");
}

#[test]
fn the_api_is_not_offered_to_other_machines() {
    let mut command = Site::new().controlled_at("0.0.0.0:0").command(&free_address().to_string());
    let output = command.stdout(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78));
    assert!(text.contains("--control 0.0.0.0:0") && text.contains("127.0.0.1:8000"), "{text}");
}

#[test]
fn only_its_owner_may_speak_to_the_unix_socket() {
    let server = Site::new().controlled().serve();
    let socket = fs::metadata(server.site.control_socket()).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!(socket.mode() & 0o777, 0o600);
    assert_eq!(socket.uid(), rustix::process::geteuid().as_raw());
}

/// A directory of another user's, in which that user has put a link to a file of root's.
fn foreign(site: &Site, link: &str, target: &Path) -> Option<std::path::PathBuf> {
    let directory = site.data().join("foreign");
    fs::create_dir(&directory).unwrap();
    fs::write(target, "precious").unwrap();
    fs::set_permissions(target, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(target, directory.join(link)).unwrap();
    // Only root can be misled in this way.
    if !requirements::root() {
        return None;
    }
    chown(&directory, Some(65534), Some(65534)).unwrap();
    lchown(directory.join(link), Some(65534), Some(65534)).unwrap();
    Some(directory)
}

#[test]
fn a_log_that_was_made_a_link_is_not_opened_again() {
    let site = Site::new().controlled();
    let precious = site.data().join("precious");
    let Some(directory) = foreign(&site, "access.log", &precious) else { return };
    let (link, real) = (directory.join("access.log"), directory.join("real.log"));
    let address = free_address();
    let server = site.serve();
    let document = |path: &Path| {
        json!({
            "listeners": {address.to_string(): {"pass": "routes"}},
            "routes": [{"action": {"return": 204}}],
            "access_log": path,
        })
    };
    let refused = server.control("PUT", "/config", document(&link).to_string());
    assert_eq!(refused.status, 500, "{refused:?}");
    server.put("/config", &document(&real));
    fs::remove_file(&real).unwrap();
    symlink(&precious, &real).unwrap();
    server.signal(Signal::USR1);
    server.wait_for_log("cannot be opened again");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn a_pid_file_and_a_socket_do_not_follow_links() {
    let site = Site::new();
    let precious = site.data().join("precious");
    let Some(directory) = foreign(&site, "howdah.pid", &precious) else { return };
    symlink(&precious, directory.join("control.sock")).unwrap();
    let pid = directory.join("howdah.pid");
    let server = site.argument("--pid").argument(&pid.display().to_string()).controlled().serve();
    assert_eq!(fs::read_to_string(&pid).unwrap().trim(), server.supervisor().to_string());
    let (_, site) = server.end(Signal::TERM);
    assert!(fs::symlink_metadata(&pid).is_err());
    // A socket is not opened where a link is.
    let socket = format!("unix:{}", directory.join("control.sock").display());
    let site = site.controlled_at(&socket);
    let output = site.command(&free_address().to_string()).stdout(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(fs::metadata(&precious).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn links_of_others_are_not_followed_on_the_way() {
    let site = Site::new();
    let goal = site.data().join("etc");
    fs::create_dir(&goal).unwrap();
    let Some(directory) = foreign(&site, "logs", &site.data().join("precious")) else { return };
    fs::remove_file(directory.join("logs")).unwrap();
    symlink(&goal, directory.join("logs")).unwrap();
    lchown(directory.join("logs"), Some(65534), Some(65534)).unwrap();
    let pid = directory.join("logs/howdah.pid").display().to_string();
    let site = site.argument("--pid").argument(&pid).controlled();
    let output = site.command(&free_address().to_string()).stdout(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("another user's link (logs)"), "{text}");
    eventually("nothing was written", || {
        fs::read_dir(&goal).unwrap().next().is_none().then_some(())
    });
}
