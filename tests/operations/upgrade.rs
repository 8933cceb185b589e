//! Upgrades: the server is replaced by a new start of its program, and clients do not notice.
//!
//! `tests/tools/upgrades.py` does the same fifty times under the load of wrk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use harness::disk::SmallDisk;
use harness::time::patience;
use harness::{
    Ends, Server, Site, eventually, free_address, open_to_all, processes, programs, requirements,
    users,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Serves a site through the control API, with a PID file.
fn serve(site: Site) -> Server {
    let pid = site.data().join("howdah.pid");
    let site = site.argument("--pid").argument(&pid.display().to_string()).controlled();
    let server = site.serve();
    let document = server.site.document(server.address);
    server.put("/config", &document);
    server.workers();
    server
}

fn pid_file(server: &Server) -> u32 {
    server.data("howdah.pid").trim().parse().unwrap()
}

/// Runs `howdah upgrade`.
fn command(server: &Server) -> Output {
    let socket = format!("unix:{}", server.site.control_socket().display());
    programs::run(Command::new(programs::howdah()).args(["upgrade", "--control", &socket]))
}

/// Titles of the processes below the server, without those that come and go: the control process and the
/// one that looks at files.
fn titles(server: &Server) -> Vec<String> {
    server.workers();
    let titles = server.processes().into_iter().map(|process| process.title);
    let is_passing = |title: &str| matches!(title, "" | "howdah: control" | "howdah: files");
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
    // The first server has descriptors of whoever started the test.
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

/// A router that hangs, or that somebody has taken over, does not keep its server for ever.
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
fn output_into(server: &Server) -> std::path::PathBuf {
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

// -- failures --

#[test]
fn the_first_process_of_a_container_is_not_replaced() {
    if !requirements::root() {
        return;
    }
    let own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let server = Site::script("a.php", "echo 'hello';").through(&own).controlled().serve();
    let document = server.site.document(server.address);
    server.put("/config", &document);
    let output = command(&server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("first process of a container cannot be replaced"), "{text}");
    assert_eq!(server.get("/a.php").text(), "hello");
}

/// Serves from a program of the test's own.
fn serve_own() -> (Server, PathBuf) {
    let (site, program) = Site::script("a.php", "echo 'hello';").own_program();
    (serve(site), program)
}

/// Replaces a program.
fn replace(program: &Path, text: &str) {
    let new = program.with_extension("new");
    fs::write(&new, text).unwrap();
    open_to_all(&new, 0o755);
    fs::rename(new, program).unwrap();
}

/// Asserts that the upgrade fails with a message, and that the server goes on.
fn assert_goes_on(server: &Server, expected: &str) {
    let before = (server.supervisor(), titles(server));
    let output = command(server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains(expected), "{expected}: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(server.log().contains(expected), "{expected}: {}", server.log());
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!((pid_file(server), titles(server)), before);
    // It still takes changes, and the disk has them.
    server.put("/config/settings", &json!({"http": {"server_version": false}}));
}

#[test]
fn a_program_that_cannot_serve_changes_nothing() {
    let (server, program) = serve_own();
    replace(&program, "#!/bin/sh\nexit 3\n");
    assert_goes_on(&server, "exited with status 3 before it served");
    replace(&program, "#!/bin/sh\nkill -9 $$\n");
    assert_goes_on(&server, "was killed by signal 9 before it served");
    replace(&program, "not a program");
    assert_goes_on(&server, "is no program; install it again");
    replace(&program, "#!/no/such/interpreter\n");
    assert_goes_on(&server, "cannot execute ");
    replace(&program, "#!/bin/sh\nexit 3\n");
    open_to_all(&program, 0o757);
    assert_goes_on(&server, "can be changed by other users");
    fs::remove_file(&program).unwrap();
    assert_goes_on(&server, "does not exist any more");
    programs::copy(programs::howdah(), &program);
    let old = server.upgrade();
    server.wait_for_end_of(old);
    assert_eq!(server.get("/a.php").text(), "hello");
}

#[test]
fn a_version_without_the_php_of_an_application_changes_nothing() {
    let (server, program) = serve_own();
    let php = program.with_file_name("howdah-php");
    let away = program.with_file_name("away");
    fs::rename(&php, &away).unwrap();
    assert_goes_on(&server, "PHP");
    fs::rename(&away, &php).unwrap();
    server.wait_for_end_of(server.upgrade());
}

#[test]
fn a_configuration_that_the_new_version_cannot_run_changes_nothing() {
    let server = serve(Site::script("a.php", "echo 'hello';"));
    let logs = output_into(&server);
    fs::remove_dir_all(&logs).unwrap();
    assert_goes_on(&server, "application \"site\": stdout: ");
    fs::create_dir(&logs).unwrap();
    harness::open_to_all(&logs, 0o777);
    server.wait_for_end_of(server.upgrade());
}

#[test]
fn an_application_that_has_lost_its_user_is_out_and_the_others_are_upgraded() {
    let site = Site::script("a.php", "echo 'hello';");
    let Some((site, _)) = users::site_with_own_user(site) else { return };
    let passwd = site.root().with_file_name("users").join("passwd");
    let server = serve(site);
    let mut document = server.site.document(server.address);
    let lost = json!({
        "type": "php", "root": server.site.root(), "script": "a.php", "processes": 1, "user": users::NAME,
    });
    document["applications"]["lost"] = lost;
    document["listeners"][server.address.to_string()] = json!({"pass": "routes"});
    document["routes"] = json!([
        {"match": {"uri": "/lost/"}, "action": {"pass": "applications/lost"}},
        {"action": {"pass": "applications/site"}},
    ]);
    server.put("/config", &document);
    assert_eq!(server.get("/lost/").text(), "hello");
    let known = fs::read_to_string(&passwd).unwrap();
    let without = known.lines().filter(|line| !line.starts_with(users::NAME));
    fs::write(&passwd, without.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let old = server.upgrade();
    assert_eq!(server.get("/a.php").text(), "hello");
    server.wait_for_end_of(old);
    assert_eq!((server.get("/a.php").status, server.get("/lost/").status), (200, 503));
    assert!(server.log().contains("application \"lost\": user: "), "{}", server.log());
    fs::write(&passwd, known).unwrap();
    eventually("it is served again", || (server.get("/lost/").status == 200).then_some(()));
}

/// Serves two sites: `/a.php` of the first, and `/NAME/` of others with a preload script of their own. Returns the
/// preload script.
fn serve_with_preload(names: &[&str], kind: &str) -> (Server, PathBuf) {
    let server = serve(Site::script("a.php", "echo 'hello';"));
    let preload = server.site.data().join("preload.php");
    fs::write(&preload, "<?php").unwrap();
    open_to_all(&preload, 0o644);
    let mut document = server.site.document(server.address);
    let options = json!({"admin": {"opcache.preload": preload, "opcache.enable": "1"}});
    let mut routes = vec![json!({"action": {"pass": "applications/site"}})];
    for name in names {
        document["applications"][name] = json!({
            "type": kind, "root": server.site.root(), "script": "a.php", "processes": 1, "options": options,
        });
        let action = json!({"pass": format!("applications/{name}")});
        routes.insert(0, json!({"match": {"uri": format!("/{name}/")}, "action": action}));
    }
    document["listeners"][server.address.to_string()] = json!({"pass": "routes"});
    document["routes"] = json!(routes);
    server.put("/config", &document);
    for name in names {
        assert_eq!(server.get(&format!("/{name}/")).text(), "hello");
    }
    (server, preload)
}

#[test]
fn an_application_whose_preload_script_fails_is_out_and_the_others_are_upgraded() {
    let (server, preload) = serve_with_preload(&["shop"], "php");
    fs::write(&preload, "<?php no_such_function();").unwrap();
    let old = server.supervisor();
    let output = command(&server);
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("Upgrade done") && text.contains("application \"shop\": "), "{text}");
    server.replaced_by(pid_file(&server));
    server.wait_for_end_of(old);
    assert_eq!((server.get("/a.php").status, server.get("/shop/").status), (200, 503));
    let log = server.log();
    assert!(log.contains("no_such_function") && log.contains("the others are served"), "{log}");
    fs::write(&preload, "<?php").unwrap();
    eventually("it is served again", || (server.get("/shop/").status == 200).then_some(()));
    server.wait_for_end_of(server.upgrade());
    assert_eq!(server.get("/shop/").text(), "hello");
}

/// A preload script that waits for something for ever. It is waited for ten seconds, as it may be slow.
#[test]
fn an_application_whose_preload_script_hangs_is_out_and_the_others_are_upgraded() {
    let (server, preload) = serve_with_preload(&["shop"], "php");
    fs::write(&preload, "<?php while (true) { usleep(50000); }").unwrap();
    let old = server.supervisor();
    let socket = format!("unix:{}", server.site.control_socket().display());
    let mut upgrade = Command::new(programs::howdah());
    let output = upgrade.args(["upgrade", "--control", &socket]).output().unwrap();
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    let reason = "application \"shop\": it has not started for 10 s: ";
    assert!(text.contains("Upgrade done") && text.contains(reason), "{text}");
    assert_eq!(output.status.code(), Some(4), "{text}");
    server.replaced_by(pid_file(&server));
    server.wait_for_end_of(old);
    assert_eq!(server.get("/a.php").status, 200);
    assert!(server.log().contains(reason), "{}", server.log());
    assert_eq!(server.get("/shop/").status, 503);
    fs::write(&preload, "<?php").unwrap();
    server.control("GET", "/control/applications/shop/restart", "").succeeded();
    assert_eq!(server.get("/shop/").text(), "hello");
}

/// PHP of one version starts for none of its applications, as after a package that is broken: the old server has one that
/// works.
#[test]
fn a_version_of_php_that_starts_for_none_of_several_applications_changes_nothing() {
    let version = programs::php_version();
    let (server, preload) = serve_with_preload(&["shop", "blog"], &format!("php {version}"));
    fs::write(&preload, "<?php no_such_function();").unwrap();
    let before = server.supervisor();
    let output = command(&server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("application \"shop\": ") || text.contains("application \"blog\": "),
        "{text}"
    );
    assert_eq!(pid_file(&server), before);
    assert_eq!((server.get("/shop/").status, server.get("/blog/").status), (200, 200));
}

/// PID file and state are on a disk without room. Whether the upgrade succeeds or
/// not, one server has all of it, and serves.
#[test]
fn a_full_disk_leaves_one_server_in_charge() {
    let site = Site::script("a.php", "echo 'hello';");
    let small = site.state();
    let Some(_disk) = SmallDisk::mount(&small, "0700") else { return };
    let pid = small.join("pid").display().to_string();
    let server = site.argument("--pid").argument(&pid).controlled().serve();
    let document = server.site.document(server.address);
    server.put("/config", &document);
    let full = fs::write(small.join("fill"), vec![0; 1 << 20]);
    assert!(full.is_err(), "the disk is full");
    let output = command(&server);
    let pid: u32 = fs::read_to_string(small.join("pid")).unwrap().trim().parse().unwrap();
    if output.status.success() {
        let old = server.replaced_by(pid);
        server.wait_for_end_of(old);
    }
    assert_eq!(pid, server.supervisor(), "{output:?}");
    assert_eq!(server.get("/a.php").text(), "hello");
    let refused = server.control("PUT", "/config/settings", "{}");
    assert_eq!(refused.status, 500, "it cannot be stored: {}", refused.body);
    fs::remove_file(small.join("fill")).unwrap();
    server.put("/config/settings", &json!({}));
    server.wait_for_end_of(server.upgrade());
    assert_eq!(server.get("/a.php").text(), "hello");
}

/// A state directory of a newer format is not opened, by an upgrade or a start.
#[test]
fn a_state_of_a_newer_format_is_refused() {
    let server = serve(Site::script("a.php", "echo 'hello';"));
    let format = server.site.state().join("format");
    let own = fs::read_to_string(&format).unwrap();
    assert!(own.starts_with("howdah state 1\nwritten by howdah "), "{own}");
    fs::write(&format, "howdah state 2\nwritten by howdah 9.0.0\n").unwrap();
    let output = command(&server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("has format 2") && text.contains("install howdah 9.0.0"), "{text}");
    assert_eq!(server.get("/a.php").text(), "hello");
    let refused = server.control("PUT", "/config/settings", "{}");
    assert_eq!(refused.status, 200, "this server has the directory: {}", refused.body);
    fs::write(&format, "howdah state 2\n").unwrap();
    let (_, site) = server.end(Signal::TERM);
    let output = programs::run(&mut site.command("127.0.0.1:0"));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{text}");
    assert!(text.contains("install a newer version again"), "{text}");
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
        ("", "was killed by signal 9 before it served"),
        ("router", "the router was killed by signal 9 before it served"),
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
    server.wait_for_log("the old server has ended before this one served; this one goes on");
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

/// The end of the new server is the end of both: nobody wants the old one to serve again.
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
