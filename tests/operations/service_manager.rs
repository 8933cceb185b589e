//! The server under a service manager that the test plays: notifications, passed sockets, the
//! watchdog, the journal.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use harness::http3::Http3;
use harness::processes::{self, Process};
use harness::tls::Authority;
use harness::{Server, Site, eventually, free_address, free_listener, requirements};
use howdah_sys::packet::{self, Received};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

/// The service manager: the socket that it is notified at.
struct Manager {
    directory: TempDir,
    socket: UnixDatagram,
}

/// A notification: its lines, and its descriptors.
struct Notification {
    text: String,
    descriptors: Vec<OwnedFd>,
}

impl Notification {
    fn value(&self, name: &str) -> Option<&str> {
        let mut fields = self.text.lines().filter_map(|line| line.split_once('='));
        fields.find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

impl Manager {
    fn new() -> Manager {
        let directory = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        Manager { directory, socket }
    }

    /// Lets a site be started by this service manager.
    fn starts(&self, site: Site) -> Site {
        let variable = format!("NOTIFY_SOCKET={}", self.directory.path().join("notify").display());
        site.through(&["env", &variable])
    }

    fn try_next(&self) -> Option<Notification> {
        let mut buffer = [0; 4096];
        match packet::receive(&self.socket, &mut buffer).unwrap() {
            Received::Packet(length, descriptors) => {
                let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
                Some(Notification { text, descriptors })
            }
            Received::Empty | Received::Closed => None,
        }
    }

    /// Waits for the notification with this field, and ignores others.
    fn wait_for(&self, name: &str) -> Notification {
        eventually(&format!("there is a notification {name}"), || {
            loop {
                let next = self.try_next()?;
                if next.value(name).is_some() {
                    return Some(next);
                }
            }
        })
    }

    /// Ignores notifications until there are none for this time, and those of the next.
    fn is_quiet_for(&self, time: Duration) -> bool {
        let mut begun = Instant::now();
        let end = begun + time * 20;
        while begun.elapsed() < time && Instant::now() < end {
            if self.try_next().is_some() {
                begun = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Instant::now() < end
    }
}

/// Passes a listening socket to a site as its descriptor 3.
fn passing(site: Site, socket: impl Into<OwnedFd>, name: &str) -> Site {
    let script = format!(
        "exec 3<&0 0</dev/null; exec env LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES='{name}' \"$@\""
    );
    site.stdin(socket).through(&["sh", "-c", &script, "sh"])
}

fn page() -> Site {
    Site::script("index.php", "echo 'served';").workers(1)
}

#[test]
fn the_start_a_reload_and_the_end_are_reported() {
    let manager = Manager::new();
    let server = manager.starts(page()).serve();
    let ready = manager.wait_for("READY");
    assert_eq!(ready.value("READY"), Some("1"));
    assert!(ready.value("STATUS").is_some_and(|status| status.contains("1 listener")));
    assert_eq!(server.get("/").body, b"served");

    server.signal(Signal::HUP);
    let reloading = manager.wait_for("RELOADING");
    assert_eq!(reloading.value("RELOADING"), Some("1"));
    let time: u64 = reloading.value("MONOTONIC_USEC").unwrap().parse().unwrap();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    assert!(time / 1_000_000 <= now.tv_sec as u64, "it is the monotonic clock, in microseconds");
    assert_eq!(manager.wait_for("READY").value("READY"), Some("1"));

    let (status, _site) = server.end(Signal::QUIT);
    let stopping = manager.wait_for("STOPPING");
    assert_eq!(stopping.value("STOPPING"), Some("1"));
    assert!(stopping.value("STATUS").is_some_and(|status| status.contains("requests")));
    assert!(status.success());
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let manager = Manager::new();
    let taken = free_listener();
    let address = taken.local_addr().unwrap().to_string();
    let site = manager.starts(page());
    let output = harness::programs::run(site.command(&address).arg("--strict"));
    assert_eq!(output.status.code(), Some(78), "the units do not start it again");
    let status = manager.wait_for("STATUS");
    assert!(status.value("STATUS").unwrap().contains("another program listens"), "{}", status.text);
}

/// Connects and requests the page; returns the connection without reading the response.
fn request(address: SocketAddr) -> TcpStream {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    connection
}

#[test]
fn no_connection_is_refused_during_a_restart() {
    let manager = Manager::new();
    let server = manager.starts(page()).serve();
    let address = server.address;
    let mut stored = manager.wait_for("FDSTORE");
    let name = stored.value("FDNAME").unwrap().to_owned();
    assert_eq!(name, format!("howdah-listener-{}", address.to_string().replace(':', "=")));
    let socket = stored.descriptors.pop().expect("the listening socket");
    let (status, _site) = server.end(Signal::QUIT);
    assert!(status.success());

    let mut waiting: Vec<_> = (0..20).map(|_| request(address)).collect();
    let again = Manager::new();
    let _server = passing(again.starts(page()), socket, &name).serve_at(&address.to_string());
    for connection in &mut waiting {
        let mut response = String::new();
        connection.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    // The next restart needs it, too.
    assert_eq!(again.wait_for("FDSTORE").value("FDNAME"), Some(name.as_str()));
}

#[test]
fn a_unix_socket_keeps_its_file_for_the_next_server() {
    let manager = Manager::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("site.sock");
    let listener = json!({"listeners": {format!("unix:{}", path.display()): {"pass": "routes"}}});
    let server = manager.starts(page()).with(listener.clone()).serve();
    let stored = eventually("the unix socket is stored", || {
        let next = manager.try_next()?;
        next.value("FDNAME").is_some_and(|name| name.contains("unix=")).then_some(next)
    });
    let (_, _site) = server.end(Signal::TERM);
    let mut connection = UnixStream::connect(&path).expect("it waits in the backlog");
    connection.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let name = stored.value("FDNAME").unwrap().to_owned();
    let socket = stored.descriptors.into_iter().next().unwrap();
    let _server = passing(manager.starts(page()), socket, &name).with(listener).serve();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("served"), "{response}");
}

#[test]
fn the_socket_of_a_removed_listener_is_not_kept() {
    let manager = Manager::new();
    let server = manager.starts(page().controlled()).serve();
    manager.wait_for("READY");
    let address = free_address();
    let mut document = server.site.document(address);
    server.put("/config", &document);
    let name = manager.wait_for("FDSTORE").value("FDNAME").unwrap().to_owned();
    assert!(name.ends_with(&address.to_string().replace(':', "=")), "{name}");
    document["listeners"] = json!({});
    server.put("/config", &document);
    assert_eq!(manager.wait_for("FDSTOREREMOVE").value("FDNAME"), Some(name.as_str()));
}

#[test]
fn a_passed_socket_serves_the_listener_with_its_address() {
    let socket = free_listener();
    let address = socket.local_addr().unwrap();
    let mut early = request(address);
    // The socket is the only one at this address: the server could not bind it.
    let kept = socket.try_clone().unwrap();
    let server = passing(page(), socket, "howdah.socket").serve_at(&address.to_string());
    let mut response = String::new();
    early.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("served"), "{response}");
    assert_eq!(server.get("/").body, b"served");
    drop(kept);
}

/// `ListenStream=80` opens one socket for IPv4 and IPv6. Scripts and access rules see IPv4
/// addresses of IPv4 clients.
#[test]
fn a_passed_socket_for_both_families_serves_a_listener_for_ipv4() {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let Ok(socket) = TcpListener::bind(any) else {
        return requirements::skipped("there is no IPv6");
    };
    let port = socket.local_addr().unwrap().port();
    if TcpStream::connect(("127.0.0.1", port)).is_err() {
        return requirements::skipped("IPv6 sockets take no IPv4 connections here");
    }
    let code = "echo $_SERVER['REMOTE_ADDR'], ' ', $_SERVER['SERVER_ADDR'];";
    let listener = json!({"listeners": {format!("*:{port}"): {"pass": "routes"}}});
    let site = Site::script("index.php", code).workers(1).with(listener);
    let _server = passing(site, socket, "howdah.socket").serve();
    let mut connection = request(SocketAddr::from(([127, 0, 0, 1], port)));
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("\r\n127.0.0.1 127.0.0.1"), "{response}");
}

#[test]
fn a_passed_socket_serves_the_listener_that_it_is_named_after() {
    let socket = free_listener();
    let (real, configured) = (socket.local_addr().unwrap(), free_address());
    let name = configured.to_string().replace(':', "=");
    let server = passing(page(), socket, &name).serve_at(&configured.to_string());
    let mut response = String::new();
    request(real).read_to_string(&mut response).unwrap();
    assert!(response.ends_with("served"), "{response}");
    assert!(TcpStream::connect(configured).is_err(), "nothing else is bound");
    drop(server);
}

/// `ListenDatagram=443` beside a listener with HTTP/3.
#[test]
fn a_datagram_socket_of_the_service_manager_serves_http_3() {
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["localhost"]);
    let site = Site::new().file("a.txt", "a file");
    let pair = site.data().join("pair.pem");
    fs::write(&pair, chain + &key).unwrap();
    let address = free_address();
    let tls = json!({"certificate": {"chain": pair, "key": pair}});
    let listeners = json!({address.to_string(): {"tls": tls, "http3": true}});
    let socket = UdpSocket::bind(address).unwrap();
    // Nobody else can bind the address as long as the test has this copy.
    let copy = socket.try_clone().unwrap();
    let site = passing(site.with(json!({"listeners": listeners})), socket, "howdah.socket");
    let server = site.serve_at(&address.to_string());
    let client = Http3::connect(server.address, &authority.client(None, &[]), "localhost");
    assert_eq!(client.get("/a.txt").text(), "a file");
    drop(copy);
}

#[test]
fn a_descriptor_that_cannot_be_a_listener_is_refused_and_named() {
    let passed = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let server = passing(page(), passed, "packets").serve();
    server
        .wait_for_log("inherited descriptor \"packets\" is closed: it is neither for connections");
    assert_eq!(server.get("/").body, b"served");
    let unused = free_listener();
    let address = unused.local_addr().unwrap();
    let server = passing(page(), unused, "web").serve();
    server.wait_for_log(&format!(
        "connections to {address} (\"web\"), which the service manager has opened"
    ));
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(harness::time::patience())).unwrap();
    let received = client.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(received, Ok(0) | Err(std::io::ErrorKind::ConnectionReset)), "{received:?}");
}

#[test]
fn variables_that_are_wrong_do_not_keep_the_server_from_starting() {
    let wrong = ["LISTEN_PID=1", "LISTEN_FDS=99999999999", "NOTIFY_SOCKET=x", "WATCHDOG_USEC=-1"];
    let server = page().through(&[&["env"], wrong.as_slice()].concat()).serve();
    let log = server.wait_for_log("WATCHDOG_USEC=\"-1\" is ignored");
    assert!(log.contains("LISTEN_PID=\"1\" is ignored"), "{log}");
    assert!(log.contains("NOTIFY_SOCKET=\"x\" is ignored"), "{log}");
    assert_eq!(server.get("/").body, b"served");
}

/// A script that could notify the service manager could make itself the main process of the
/// service.
#[test]
fn applications_have_neither_the_variables_nor_the_sockets_of_the_service_manager() {
    let manager = Manager::new();
    let socket = free_listener();
    let address = socket.local_addr().unwrap();
    let inode = rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
    let code = "echo json_encode([getenv(), array_map('readlink', glob('/proc/self/fd/*'))]);";
    let site = Site::script("index.php", code).workers(1).argument("--control");
    let control = site.control_socket();
    let site = site.argument(&format!("unix:{}", control.display()));
    let site = manager.starts(site.through(&["env", "WATCHDOG_USEC=60000000"]));
    let server = passing(site, socket, "web").serve_at(&address.to_string());
    let listening = format!("socket:[{inode}]");
    let response = server.get("/");
    let text = String::from_utf8_lossy(&response.body).replace('\\', "");
    for hidden in ["NOTIFY_SOCKET", "LISTEN_", "WATCHDOG_", &listening] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    assert!(text.contains("USER"), "{text}");
    // Starts the control process.
    server.control("GET", "/status", "").succeeded();
    if !requirements::is_root() {
        return; // the others cannot be inspected
    }
    let all = server.processes();
    assert!(all.iter().any(|process| process.title.ends_with(": control")), "{all:?}");
    for Process { pid, title, .. } in all {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        for hidden in ["NOTIFY_SOCKET=", "LISTEN_", "WATCHDOG_"] {
            assert!(!environment.contains(hidden), "{title}: {environment}");
        }
        let has_it = processes::descriptors(pid).iter().any(|(_, target)| *target == listening);
        assert_eq!(has_it, title.ends_with(": router"), "{title}");
    }
}

/// The interval is short, so that the test is; the result does not depend on it.
#[test]
fn the_watchdog_is_fed_only_while_the_router_answers() {
    let manager = Manager::new();
    let site = manager.starts(page().through(&["env", "WATCHDOG_USEC=60000"]));
    let server = site.serve();
    manager.wait_for("WATCHDOG");
    let router = server.router();
    processes::signal(router, Signal::STOP);
    let quiet = Duration::from_millis(500);
    assert!(manager.is_quiet_for(quiet), "it is fed although the router does not answer");
    processes::signal(router, Signal::CONT);
    manager.wait_for("WATCHDOG");
    processes::signal(server.supervisor(), Signal::STOP);
    assert!(manager.is_quiet_for(quiet), "it is fed although the supervisor does not run");
    processes::signal(server.supervisor(), Signal::CONT);
    manager.wait_for("WATCHDOG");
    // Another router answers like the first.
    processes::signal(server.router(), Signal::KILL);
    manager.wait_for("WATCHDOG");
    assert_eq!(server.get("/").body, b"served");
}

/// Starts the server with its standard error in a stream to the journal, which the test reads.
/// `native`: the journal's socket for records with fields.
fn with_journal(site: Site, native: Option<&Path>) -> (Server, BufReader<UnixStream>) {
    let (journal, stream) = UnixStream::pair().unwrap();
    let stat = rustix::fs::fstat(&stream).unwrap();
    let socket = native.unwrap_or(Path::new("/none"));
    let name = format!(
        "JOURNAL_STREAM={}:{} HOWDAH_JOURNAL_SOCKET={}",
        stat.st_dev,
        stat.st_ino,
        socket.display()
    );
    let script = format!("exec 2>&0 0</dev/null; exec env {name} \"$@\"");
    let site = site.stdin(stream).through(&["sh", "-c", &script, "sh"]).logs_to_stderr();
    journal.set_read_timeout(Some(harness::time::patience())).unwrap();
    (site.serve(), BufReader::new(journal))
}

fn line_with(journal: &mut BufReader<UnixStream>, needle: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(journal.read_line(&mut line).unwrap(), 0, "no line has {needle:?}");
        assert!(line.starts_with('<') && line.as_bytes()[2] == b'>', "no priority: {line:?}");
        assert!(!line.starts_with("<0>"), "it was forged: {line:?}");
        if line.contains(needle) {
            return line;
        }
    }
}

#[test]
fn records_in_the_journal_have_priorities_that_scripts_cannot_choose() {
    let long = "str_repeat('x', 16000) . str_repeat('<0>forged', 2000)";
    let code = format!(
        "error_log(\"one\\n<0>two\\r<0>three\"); error_log('<0>four'); error_log({long}); \
         file_put_contents('php://stderr', \"<0>five\\n<0>six\\n\"); echo 'served';"
    );
    let site = Site::script("index.php", &code).workers(1);
    let (server, mut journal) = with_journal(site, None);
    let started = line_with(&mut journal, "started: howdah");
    assert!(started.starts_with("<5>"), "{started}");
    assert!(!started.contains("[notice]") && !started.contains("/20"), "it has the journal's");
    assert_eq!(server.get("/").body, b"served");
    for text in ["<0>two", "<0>four", "<0>forged", "<0>five", "<0>six"] {
        line_with(&mut journal, text);
    }
    // The router's records and those about it.
    processes::signal(server.router(), Signal::KILL);
    let ended = line_with(&mut journal, "exited on signal 9");
    assert!(ended.starts_with("<1>"), "{ended}");
    // The journal is not opened again, like a file.
    server.signal(Signal::USR1);
    assert_eq!(server.get("/").body, b"served");
    server.signal(Signal::QUIT);
    line_with(&mut journal, "exiting");
}

/// Returns the fields of the next entry that has this text in its message.
fn entry_with(journal: &UnixDatagram, needle: &str) -> Vec<(String, Vec<u8>)> {
    loop {
        let mut datagram = vec![0; 256 << 10];
        let length = journal.recv(&mut datagram).unwrap();
        let (mut rest, mut fields) = (&datagram[..length], Vec::new());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = (&rest[..end], &rest[end + 1..]);
            let (name, value, behind) = match line.iter().position(|byte| *byte == b'=') {
                Some(at) => (&line[..at], &line[at + 1..], behind),
                None => {
                    let length = u64::from_le_bytes(behind[..8].try_into().unwrap()) as usize;
                    assert_eq!(behind[8 + length], b'\n');
                    (line, &behind[8..8 + length], &behind[9 + length..])
                }
            };
            fields.push((String::from_utf8(name.to_vec()).unwrap(), value.to_vec()));
            rest = behind;
        }
        assert!(rest.is_empty());
        let message = fields.iter().find(|(name, _)| name == "MESSAGE").unwrap();
        if String::from_utf8_lossy(&message.1).contains(needle) {
            return fields;
        }
    }
}

#[test]
fn records_in_the_journal_have_fields_that_scripts_cannot_choose() {
    let code = "error_log(\"one\\nPRIORITY=0\\nHOWDAH_SITE=forged\"); echo 'served';";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let journal = UnixDatagram::bind(&path).unwrap();
    harness::open_to_all(directory.path(), 0o755);
    harness::open_to_all(&path, 0o666);
    journal.set_read_timeout(Some(harness::time::patience())).unwrap();
    let site = Site::script("index.php", code).workers(1);
    let (server, _stream) = with_journal(site, Some(&path));
    assert_eq!(server.get("/").body, b"served");
    let fields = entry_with(&journal, "PRIORITY=0");
    let all = |wanted: &str| {
        let of_name = fields.iter().filter(|(name, _)| name == wanted);
        of_name.map(|(_, value)| String::from_utf8(value.clone()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(all("HOWDAH_SITE"), ["site"]);
    assert_eq!(all("HOWDAH_APPLICATION"), ["site"]);
    assert_eq!(all("PRIORITY").len(), 1);
    assert_ne!(all("PRIORITY"), ["0"]);
    let (id, message) = (all("HOWDAH_REQUEST_ID"), all("MESSAGE"));
    assert!(message[0].contains(&format!("request {}: GET /", id[0])), "{message:?}");
    assert!(message[0].ends_with("one\n    PRIORITY=0\n    HOWDAH_SITE=forged"), "{message:?}");
}

#[test]
fn standard_error_that_is_not_the_journal_has_no_priorities() {
    let site = page().through(&["env", "JOURNAL_STREAM=1:1"]).logs_to_stderr();
    let server = site.serve();
    let log = server.wait_for_log("started: howdah");
    assert!(log.contains("[notice]") && !log.contains("<5>"), "{log}");
}

#[test]
fn a_journal_that_is_not_there_is_an_error_with_advice() {
    if Path::new("/run/systemd/journal/stdout").exists() {
        return requirements::skipped("there is a journal");
    }
    let site = page().argument("--log").argument("journald").logs_to_stderr();
    let output = harness::programs::run(&mut site.command(&free_address().to_string()));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(text.contains("cannot log to the journal: /run/systemd/journal/stdout"), "{text}");
}

/// systemd makes the files of socket units accessible to all users by default.
#[test]
fn a_control_socket_of_a_socket_unit_must_not_be_open_to_everybody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let socket = UnixListener::bind(&path).unwrap();
    harness::open_to_all(&path, 0o666);
    let site = page().argument("--control").argument(&format!("unix:{}", path.display()));
    let site = passing(site, socket, "control");
    let output = site.command(&free_address().to_string()).arg("--strict").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("SocketMode=0600"), "{text}");
}
