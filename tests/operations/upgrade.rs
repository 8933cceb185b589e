//! Upgrades: the server is replaced by a new start of its program, and clients do not notice.
//!
//! `tests/tools/upgrades.py` does the same fifty times under the load of wrk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use harness::time::patience;
use harness::{Ends, Server, Site, eventually, free_address, open_to_all, processes, programs};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Serves a site through the control API, with a PID file.
pub(super) fn serve(site: Site) -> Server {
    let pid = site.data().join("howdah.pid");
    let site = site.argument("--pid").argument(&pid.display().to_string()).controlled();
    let server = site.serve();
    let document = server.site.document(server.address);
    server.put("/config", &document);
    server.workers();
    server
}

pub(super) fn pid_file(server: &Server) -> u32 {
    server.data("howdah.pid").trim().parse().unwrap()
}

/// Runs `howdah upgrade`.
pub(super) fn command(server: &Server) -> Output {
    let socket = format!("unix:{}", server.site.control_socket().display());
    programs::run(Command::new(programs::howdah()).args(["upgrade", "--control", &socket]))
}

/// Titles of the processes below the server, without those that come and go: the control process
/// and the one that looks at files.
pub(super) fn titles(server: &Server) -> Vec<String> {
    server.workers();
    let titles = server.processes().into_iter().map(|process| process.title);
    // A process has the title of its parent until it sets its own.
    let is_passing = |title: &str| {
        !title.starts_with("howdah: ") || matches!(title, "howdah: control" | "howdah: files")
    };
    let mut titles: Vec<_> = titles.filter(|title| !is_passing(title)).collect();
    titles.sort();
    titles
}

/// Number of descriptors of supervisor and router while there is a control process.
fn descriptors(server: &Server) -> BTreeMap<String, usize> {
    server.control("GET", "/status", "").succeeded();
    let router = server.processes().into_iter().find(|process| process.title == "howdah: router");
    let count = |pid| processes::descriptors(pid).len();
    let router = ("router".to_owned(), count(router.unwrap().pid));
    [("supervisor".to_owned(), count(server.supervisor())), router].into()
}

// -- without loss --

/// A client that sends one request after the other until `done`. Returns the first failure.
fn ask_on(
    address: SocketAddr,
    target: &str,
    keep: bool,
    done: &AtomicBool,
    answered: &AtomicU32,
) -> Result<(), String> {
    let option = if keep { "" } else { "Connection: close\r\n" };
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{option}\r\n");
    let mut kept: Option<TcpStream> = None;
    while !done.load(Ordering::Relaxed) {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?,
        };
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.write_all(request.as_bytes()).map_err(|error| format!("send: {error}"))?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).map_err(|error| format!("head: {error}"))?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let field = |name: &str| {
            head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned)
        };
        let length = field("content-length:").and_then(|text| text.parse().ok());
        let mut body = vec![0; length.ok_or_else(|| format!("no length: {head}"))?];
        stream.read_exact(&mut body).map_err(|error| format!("body: {error}"))?;
        if !head.starts_with("http/1.1 200 ") || body != b"hello" {
            return Err(format!("{head}{}", String::from_utf8_lossy(&body)));
        }
        answered.fetch_add(1, Ordering::Relaxed);
        kept = (field("connection:").as_deref() != Some("close")).then_some(stream);
    }
    Ok(())
}

#[test]
fn no_request_is_lost_and_nothing_is_left_over() {
    let server = serve(
        Site::script("a.php", "header('Content-Length: 5'); echo 'hello';").file("a.txt", "hello"),
    );
    // The first server has descriptors of the process that started the test.
    server.wait_for_end_of(server.upgrade());
    // A zygote may still be starting.
    let before = eventually("everything has started", || {
        let seen = (titles(&server), descriptors(&server));
        harness::time::sleep(Duration::from_millis(500));
        (seen == (titles(&server), descriptors(&server))).then_some(seen)
    });
    let (done, answered) = (AtomicBool::new(false), [const { AtomicU32::new(0) }; 4]);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        let clients = [("/a.php", true), ("/a.php", false), ("/a.txt", true), ("/a.txt", false)];
        let clients = clients.into_iter().zip(&answered).map(|((target, keep), answered)| {
            let (address, done) = (server.address, &done);
            scope.spawn(move || ask_on(address, target, keep, done, answered))
        });
        let clients: Vec<_> = clients.collect();
        for _ in 0..3 {
            let old = server.upgrade();
            assert_eq!(pid_file(&server), server.supervisor());
            server.wait_for_end_of(old);
            // Each client has been served by the new server.
            let counts = || answered.each_ref().map(|count| count.load(Ordering::Relaxed));
            let before = counts();
            eventually("all are served", || {
                clients.iter().all(|client| client.is_finished()).then_some(()).or_else(|| {
                    counts().iter().zip(before).all(|(now, before)| *now > before + 1).then_some(())
                })
            });
        }
        done.store(true, Ordering::Relaxed);
        for client in clients {
            assert_eq!(client.join().unwrap(), Ok(()));
        }
    });
    // The router may not have noticed yet that a client has closed its connection.
    eventually("nothing is left over", || {
        ((titles(&server), descriptors(&server)) == before).then_some(())
    });
    assert_eq!(
        server.control("GET", "/config/listeners", "").succeeded().as_object().unwrap().len(),
        1
    );
    server.signal(Signal::QUIT);
    server.wait_for_end_of(server.supervisor());
    for file in [server.site.control_socket(), server.site.data().join("howdah.pid")] {
        assert!(!file.exists(), "{} is left over", file.display());
    }
}

const SLOW: &str = "touch(getenv('DATA') . '/begun');
    while (!file_exists(getenv('DATA') . '/go')) { usleep(5000); clearstatcache(); }
    echo 'done';";

#[test]
fn a_request_in_progress_outlives_its_server_and_changes_go_to_the_new_one() {
    let server = serve(Site::script("slow.php", SLOW).file("a.txt", "hello"));
    let mut client = server.connect();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it has begun", || server.site.data().join("begun").exists().then_some(()));
    // Changed through the API, and kept by the new server.
    server.put("/config/settings", &json!({"shutdown_timeout": 3600}));
    let old = server.upgrade();
    assert_eq!(server.get("/a.txt").text(), "hello");
    assert_eq!(server.control("GET", "/config/settings/shutdown_timeout", "").body, 3600);
    server.put("/config/settings/shutdown_timeout", &json!(1800));
    let refused = server.control("POST", "/control/upgrade", "");
    assert_eq!(refused.status, 500, "{}", refused.body);
    assert!(refused.text("detail").contains("still finishes requests"), "{}", refused.body);
    assert!(processes::is_alive(old));
    fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(client.response().text(), "done");
    server.wait_for_end_of(old);
    let stored = fs::read_to_string(server.site.state().join("conf.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["settings"]["shutdown_timeout"], 1800);
}

#[test]
fn an_upgrade_soon_after_another_waits_for_the_end_of_the_old_server() {
    let server = serve(Site::new().file("a.txt", "hello"));
    let old: Vec<_> = (0..3).map(|_| server.upgrade()).collect();
    assert_eq!(server.get("/a.txt").text(), "hello");
    old.into_iter().for_each(|old| server.wait_for_end_of(old));
    assert!(!server.log().contains("there is no upgrade"), "{}", server.log());
}

#[test]
fn requests_end_when_their_time_is_over() {
    let server = serve(Site::script("slow.php", SLOW));
    let mut client = server.connect();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it has begun", || server.site.data().join("begun").exists().then_some(()));
    server.put("/config/settings", &json!({"shutdown_timeout": 0}));
    let old = server.upgrade();
    server.wait_for_end_of(old);
    server.wait_for_log("settings/shutdown_timeout has passed");
}

/// A router that hangs, or that an attacker has taken over, does not keep its server for ever.
#[test]
fn a_router_that_does_not_end_is_killed() {
    let server = serve(Site::script("slow.php", SLOW).file("a.txt", "hello"));
    let mut client = server.connect();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it has begun", || server.site.data().join("begun").exists().then_some(()));
    server.put("/config/settings", &json!({"shutdown_timeout": 1}));
    let router = server.router();
    let old = server.upgrade();
    let Some(mut stopper) = processes::stop_thread(router) else { return };
    server.wait_for_end_of(old);
    // Whichever of the two limits is over first.
    let log = server.wait_for_log("is killed: it");
    let named = [format!("router process {router} is killed"), "the router is killed".to_owned()];
    assert!(named.iter().any(|line| log.contains(line)), "{log}");
    assert!(!processes::is_alive(router));
    let _ = stopper.kill();
    let _ = stopper.wait();
    assert_eq!(server.get("/a.txt").text(), "hello");
}

/// The listener is a file, which the old server must not remove, and a new server that fails must
/// not either.
/// Lets the application write its output into a directory. Without it, it cannot start again.
pub(super) fn output_into(server: &Server) -> std::path::PathBuf {
    let logs = server.site.data().join("logs");
    fs::create_dir(&logs).unwrap();
    harness::open_to_all(&logs, 0o777);
    let former = server.prototype();
    server.put("/config/applications/site/stdout", &json!(logs.join("out.log")));
    server.wait_for_end_of(former);
    logs
}

#[test]
fn a_unix_socket_stays_where_it_is() {
    let server = serve(Site::script("a.php", "echo 'hello';"));
    let path = server.site.data().join("s");
    let document = server.site.document(format!("unix:{}", path.display()));
    server.put("/config", &document);
    let ask = || {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /a.php HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
    };
    let old = server.upgrade();
    server.wait_for_end_of(old);
    ask();
    let logs = output_into(&server);
    fs::remove_dir_all(&logs).unwrap();
    assert_eq!(command(&server).status.code(), Some(1));
    ask();
    assert!(server.site.control_socket().exists());
}

#[test]
fn a_server_in_the_background_is_replaced_in_the_directory_where_it_was_started() {
    let site = Site::script("a.php", "echo 'hello';").at(".".into());
    let (address, file) = (free_address(), site.data().join("pid"));
    let mut command = site.command(&address.to_string());
    command.current_dir(site.root()).arg("--daemon").arg("--pid").arg(&file);
    assert!(command.stderr(Stdio::null()).output().unwrap().status.success());
    let pid = || fs::read_to_string(&file).unwrap_or_default().trim().parse::<u32>().ok();
    let old = pid().unwrap();
    processes::signal(old, Signal::USR2);
    let new = eventually("another process has taken over", || pid().filter(|pid| *pid != old));
    eventually("the old one ends", || (!processes::is_alive(old)).then_some(()));
    assert_eq!(harness::client::Client::connect(address).get("/a.php").text(), "hello");
    assert_eq!(fs::read_link(format!("/proc/{new}/cwd")).unwrap(), Path::new("/"));
    let streams = processes::descriptors(new).into_iter().take_while(|(number, _)| *number < 3);
    assert!(streams.into_iter().all(|(_, target)| target == "/dev/null"));
    processes::signal(new, Signal::TERM);
    eventually("it ends", || (!processes::is_alive(new)).then_some(()));
    assert!(!file.exists());
}

// -- kill -9 --

/// A server whose application loads PHP only while there is a file `go`, so that an upgrade stops
/// where the test wants it.
fn serve_waiting() -> Server {
    let site = Site::script("a.php", "echo 'hello';").file("slow.php", format!("<?php {SLOW}"));
    let preload = site.root().join("preload.php");
    fs::write(
        &preload,
        "<?php while (!file_exists(getenv('DATA') . '/start')) {
        usleep(5000); clearstatcache(); }",
    )
    .unwrap();
    open_to_all(&preload, 0o644);
    fs::write(site.data().join("start"), "").unwrap();
    let pid = site.data().join("howdah.pid");
    let site = site.argument("--pid").argument(&pid.display().to_string()).controlled();
    let server = site.serve();
    let mut document = server.site.document(server.address);
    document["applications"]["site"]["options"]["admin"] =
        json!({"opcache.preload": preload, "opcache.enable": "1"});
    server.put("/config", &document);
    server.workers();
    server
}

/// Begins an upgrade that waits for its application. Returns the process id of the new server.
fn begin(server: &Server) -> u32 {
    let _ = fs::remove_file(server.site.data().join("start"));
    server.signal(Signal::USR2);
    eventually("the new server loads PHP", || new_server(server))
}

/// Returns the process id of a new server that loads PHP.
fn new_server(server: &Server) -> Option<u32> {
    let all = processes::descendants(server.supervisor());
    let new = all.iter().find(|process| {
        process.parent == server.supervisor() && process.title.contains(" serve ")
    })?;
    let is_loading = |process: &processes::Process| {
        process.parent == new.pid && process.title.contains("prototype")
    };
    all.iter().any(is_loading).then_some(new.pid)
}

fn go_on(server: &Server) {
    fs::write(server.site.data().join("start"), "").unwrap();
}

fn child(of: u32, title: &str) -> u32 {
    let all = processes::descendants(of);
    let found = all.iter().find(|process| process.parent == of && process.title.contains(title));
    found.unwrap_or_else(|| panic!("{title}: {all:?}")).pid
}

#[test]
fn the_new_server_may_be_killed_before_it_serves() {
    let server = serve_waiting();
    for (title, expected) in [
        ("", "exited on signal 9 before it served"),
        ("router", "the router exited on signal 9 before it served"),
    ] {
        let new = begin(&server);
        let refused = server.control("PUT", "/config/settings", "{}");
        assert_eq!((refused.status, refused.text("error")), (503, "Upgrade in progress."));
        assert_eq!(server.get("/a.php").text(), "hello");
        let victim = if title.is_empty() { new } else { child(new, title) };
        processes::signal(victim, Signal::KILL);
        server.wait_for_log(expected);
        server.wait_for_end_of(new);
        go_on(&server);
        assert_eq!(server.get("/a.php").text(), "hello");
        assert_eq!(pid_file(&server), server.supervisor());
        eventually("nothing is left over", || {
            let all = processes::descendants(server.supervisor());
            (!all.iter().any(|process| process.title.contains(" serve "))).then_some(())
        });
        server.put("/config/settings", &json!({}));
    }
}

/// Whichever process dies, one server serves afterwards, owns the PID file and takes changes.
#[test]
fn any_process_may_be_killed_during_an_upgrade() {
    let server = serve_waiting();
    for (is_new, title) in [
        (true, "prototype"),
        (false, "prototype"),
        (false, "application"),
        (false, "control"),
        (false, "router"),
    ] {
        let before = server.supervisor();
        let new = begin(&server);
        server.control("GET", "/status", "").succeeded();
        let below = processes::descendants(if is_new { new } else { before });
        let is_victim = |process: &&processes::Process| {
            let is_of_new =
                processes::descendants(new).iter().any(|other| other.pid == process.pid);
            process.title.contains(title) && is_of_new == is_new
        };
        let victims: Vec<_> = below.iter().filter(is_victim).map(|process| process.pid).collect();
        assert!(!victims.is_empty(), "{title}: {below:?}");
        for victim in &victims {
            processes::signal(*victim, Signal::KILL);
        }
        go_on(&server);
        let serves = eventually("the upgrade ends", || {
            let owner = server.data("howdah.pid").trim().parse::<u32>().ok()?;
            let is_over =
                [before, new].iter().filter(|pid| processes::is_alive(**pid)).count() == 1;
            (is_over && processes::is_alive(owner)).then_some(owner)
        });
        if serves == new {
            server.replaced_by(new);
        }
        eventually(&format!("{title} was killed, it serves"), || {
            (server.get("/a.php").text() == "hello").then_some(())
        });
        server.put("/config/settings", &json!({}));
    }
}

#[test]
fn the_old_router_may_be_killed_while_the_new_server_starts() {
    let server = serve_waiting();
    let new = begin(&server);
    processes::signal(child(server.supervisor(), "howdah: router"), Signal::KILL);
    go_on(&server);
    server.wait_for_log("has taken over");
    let old = server.replaced_by(new);
    server.wait_for_end_of(old);
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!(pid_file(&server), new);
}

#[test]
fn an_upgrade_succeeds_for_its_command_too_if_the_old_router_is_killed() {
    let server = serve_waiting();
    fs::remove_file(server.site.data().join("start")).unwrap();
    let old = server.supervisor();
    let (output, new) = std::thread::scope(|scope| {
        let upgrading = scope.spawn(|| command(&server));
        let new = eventually("the new server loads PHP", || new_server(&server));
        processes::signal(child(old, "howdah: router"), Signal::KILL);
        server.wait_for_log("exited on signal 9");
        go_on(&server);
        (upgrading.join().unwrap(), new)
    });
    assert!(output.status.success(), "{output:?}");
    server.replaced_by(new);
    server.wait_for_end_of(old);
    // The new server has a control process that knows its own router.
    server.control("GET", "/status", "").succeeded();
}

#[test]
fn the_old_server_may_be_killed_before_it_hands_over() {
    let server = serve_waiting();
    let router = server.router();
    let new = begin(&server);
    let old = server.replaced_by(new);
    processes::signal(old, Signal::KILL);
    server.wait_for_log("the old server has ended before this one served; this one continues");
    server.wait_for_end_of(router); // until then, it may take a connection with itself
    go_on(&server);
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!(pid_file(&server), new);
    server.put("/config/settings", &json!({"http": {"server_version": false}}));
}

/// The new server dies after it has taken over, while the old one finishes a request.
#[test]
fn the_old_server_serves_again_if_the_new_one_dies_before_it_has_ended() {
    let server = serve_waiting();
    let mut client = server.connect();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it has begun", || server.site.data().join("begun").exists().then_some(()));
    let new = server.control("POST", "/control/upgrade", "").succeeded()["pid"].as_u64().unwrap();
    assert_eq!(u64::from(pid_file(&server)), new);
    processes::signal(new as u32, Signal::KILL);
    server.wait_for_log("this one serves again");
    fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(server.get("/a.php").text(), "hello");
    eventually("the PID file is its own again", || {
        (server.data("howdah.pid").trim() == server.supervisor().to_string()).then_some(())
    });
    server.put("/config/settings", &json!({"http": {"server_version": false}}));
    server.wait_for_end_of(server.upgrade());
    assert_eq!(server.get("/a.php").text(), "hello");
}

/// The end of the new server is the end of both: the old one must not serve again.
#[test]
fn a_new_server_that_is_told_to_end_does_not_bring_the_old_one_back() {
    let server = serve(Site::script("slow.php", SLOW).file("a.txt", "hello"));
    let mut client = server.connect();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it has begun", || server.site.data().join("begun").exists().then_some(()));
    let old = server.upgrade();
    server.signal(Signal::TERM);
    server.wait_for_end_of(server.supervisor());
    server.wait_for_end_of(old);
    assert!(TcpStream::connect_timeout(&server.address, Duration::from_secs(1)).is_err());
}

/// Also if both servers still have requests to finish.
#[test]
fn a_new_server_that_is_told_to_finish_refuses_new_clients_at_once() {
    let server = serve(Site::script("slow.php", SLOW).file("a.txt", "hello"));
    let slow = || {
        let mut client = server.connect();
        client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("it has begun", || server.site.data().join("begun").exists().then_some(()));
        fs::remove_file(server.site.data().join("begun")).unwrap();
        client
    };
    let mut first = slow();
    let old = server.upgrade();
    let mut second = slow();
    server.signal(Signal::QUIT);
    eventually("clients are refused", || {
        let error = TcpStream::connect_timeout(&server.address, Duration::from_secs(1)).err()?;
        (error.kind() == std::io::ErrorKind::ConnectionRefused).then_some(())
    });
    drop(std::net::TcpListener::bind(server.address).unwrap());
    assert!(processes::is_alive(old) && processes::is_alive(server.supervisor()));
    fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!((first.response().status, second.response().status), (200, 200));
    server.wait_for_end_of(old);
    server.wait_for_end_of(server.supervisor());
}

#[test]
fn signals_that_come_meanwhile_reach_the_new_server() {
    let server = serve_waiting();
    let new = begin(&server);
    let log = server.site.log_path();
    fs::rename(&log, log.with_extension("1")).unwrap();
    server.signal(Signal::USR1);
    server.signal(Signal::HUP);
    // The log is opened by another process; until then lines go to the old one.
    eventually("the new log says so", || {
        server.signal(Signal::USR2);
        server.log().contains("an upgrade is in progress already").then_some(())
    });
    go_on(&server);
    server.wait_for_log("has taken over");
    let old = server.replaced_by(new);
    server.wait_for_log("was read again");
    server.wait_for_end_of(old);
}
