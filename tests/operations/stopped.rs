//! Processes of the server that a signal has stopped (SIGSTOP): each is replaced after a second,
//! and named in the log and by `howdah status`. Work that does not need it continues.

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use harness::mail::MailServer;
use harness::{Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::hung_router::howdah;

/// Two sites that share the start of PHP, and the settings that scripts need to send mail.
fn two_sites(more: Value) -> Server {
    let code = "if ($_SERVER['QUERY_STRING'] === 'mail') exit(mail('a@example.org', 'Hello', 'x') \
                ? 'sent' : 'not sent');
        echo 'site ', getmypid();";
    let site = Site::script("index.php", code).file("a.txt", "served");
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let application = |spare: u32| {
        let processes = json!({"max": 2, "spare": spare});
        json!({"type": "php", "root": site.root(), "script": "index.php", "processes": processes})
    };
    let share = format!("{}$uri", site.root().display());
    let uri = |uri: &str, action: Value| json!({"match": {"uri": uri}, "action": action});
    let mut document = json!({
        "applications": {"site": application(1), "other": application(1)},
        "routes": [
            uri("*.txt", json!({"share": share})),
            uri("/other", json!({"pass": "applications/other"})),
            {"action": {"pass": "applications/site"}},
        ],
    });
    harness::merge(&mut document, more);
    let server = site.with(document).serve();
    for target in ["/", "/other"] {
        assert!(server.get(target).text().starts_with("site "), "{target}: {}", server.log());
    }
    server
}

fn process(server: &Server, title: &str) -> Option<u32> {
    let all = server.processes().into_iter();
    all.filter(|process| process.title.contains(title)).map(|process| process.pid).next()
}

/// Stops a process, and waits until all of its threads are stopped.
fn stop(pid: u32) {
    processes::signal(pid, Signal::STOP);
    eventually("all threads are stopped", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let state = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("stat")).ok();
        let mut states = threads.flatten().map(state);
        states.all(|stat| stat.is_some_and(|stat| stat.contains(") T "))).then_some(())
    });
}

/// Stops a process. Checks that it is replaced, and named. `name` is its name with the number.
fn is_replaced(server: &Server, pid: u32, name: &str, line: &str) {
    processes::signal(pid, Signal::STOP);
    assert_eq!(server.get("/a.txt").text(), "served");
    eventually("it ends", || (!processes::is_alive(pid)).then_some(()));
    server.wait_for_log(line);
    eventually("the status names it", || {
        let status = howdah(server, &["status"]).output().unwrap();
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        let reason = format!(": {name}: it was stopped by a signal\n");
        (said.contains("\nReplaced     ") && said.contains(&reason)).then_some(())
    });
}

#[test]
fn a_router_is_replaced_and_connections_wait_for_the_next_one() {
    let server = two_sites(json!({}));
    let router = server.router();
    stop(router);
    let mut waiting = server.connect();
    waiting.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let line = format!("router process {router} is killed: it was stopped by a signal");
    is_replaced(&server, router, &format!("router process {router}"), &line);
    assert_eq!(waiting.response().text(), "served", "it had not been accepted");
    for target in ["/", "/other"] {
        assert!(server.get(target).text().starts_with("site "), "{target}");
    }
}

/// The router that is asked ends, and its control process with it: the command says so, and not
/// that the server is being stopped.
#[test]
fn a_command_says_that_the_router_has_ended_that_was_stopped() {
    let server = two_sites(json!({}));
    assert!(howdah(&server, &["status"]).output().unwrap().status.success());
    stop(server.router());
    let status = howdah(&server, &["status"]).output().unwrap();
    let said = String::from_utf8_lossy(&status.stderr).into_owned();
    // A router that is asked late is another one.
    if !status.status.success() {
        assert!(said.contains(" ended before it answered"), "{said}");
    }
    eventually("the next router answers", || {
        howdah(&server, &["status"]).output().unwrap().status.success().then_some(())
    });
}

#[test]
fn a_router_that_goes_on_within_a_second_is_left_alone() {
    let server = two_sites(json!({}));
    let router = server.router();
    for _ in 0..3 {
        // A shell stops and continues all processes of its job.
        for signal in [Signal::STOP, Signal::CONT] {
            processes::signal(router, signal);
            processes::signal(server.supervisor(), signal);
            if signal == Signal::STOP {
                std::thread::sleep(std::time::Duration::from_millis(1200));
            }
        }
    }
    assert_eq!(server.get("/a.txt").text(), "served");
    assert_eq!(server.router(), router);
    assert!(!server.log().contains("stopped by a signal"), "{}", server.log());
}

#[test]
fn a_control_process_is_replaced_and_the_command_that_waits_is_carried_out() {
    let server = two_sites(json!({}));
    server.control("GET", "/config", "").succeeded();
    let control = process(&server, "howdah: control").unwrap();
    processes::signal(control, Signal::STOP);
    let reload = howdah(&server, &["reload"]).output().unwrap();
    assert!(reload.status.success(), "{reload:?}");
    let line = format!("control process {control} is killed: it was stopped by a signal");
    is_replaced(&server, control, &format!("control process {control}"), &line);
}

/// A process that was killed is named as one that was stopped is.
#[test]
fn processes_that_are_killed_are_named() {
    let server = two_sites(json!({}));
    let is_named = |reason: &str| {
        eventually(reason, || {
            let status = howdah(&server, &["status"]).output().unwrap();
            let said = String::from_utf8_lossy(&status.stdout).into_owned();
            (said.contains("\nReplaced     ") && said.contains(reason)).then_some(())
        });
    };
    server.control("GET", "/config", "").succeeded();
    let control = process(&server, "howdah: control").unwrap();
    processes::signal(control, Signal::KILL);
    server
        .wait_for_log(&format!("control process {control} exited on signal 9; another is started"));
    is_named(&format!("control process {control}: it exited on signal 9"));
    let prototype = process(&server, "\"site\" prototype").unwrap();
    processes::signal(prototype, Signal::KILL);
    is_named("\"site\" prototype: it exited on signal 9");
    assert!(server.get("/").text().starts_with("site "));
}

#[test]
fn a_prototype_is_replaced_and_the_other_site_answers() {
    let server = two_sites(json!({}));
    let prototype = process(&server, "\"site\" prototype").unwrap();
    processes::signal(prototype, Signal::STOP);
    assert!(server.get("/other").text().starts_with("site "));
    let line = "\"site\" prototype is killed: it was stopped by a signal";
    is_replaced(&server, prototype, "\"site\" prototype", line);
    eventually("the site is back", || server.get("/").text().starts_with("site ").then_some(()));
}

#[test]
fn a_zygote_is_replaced_before_it_is_needed() {
    let server = two_sites(json!({}));
    let zygote = eventually("there is a zygote", || process(&server, "zygote"));
    let line = "the zygote is replaced: it was stopped by a signal";
    is_replaced(&server, zygote, &format!("zygote {zygote}"), line);
    assert!(howdah(&server, &["restart", "site", "other"]).status().unwrap().success());
    for target in ["/", "/other"] {
        assert!(server.get(target).text().starts_with("site "), "{target}");
    }
}

#[test]
fn a_mail_process_is_replaced() {
    let mails = MailServer::start();
    let smtp = json!({"host": "127.0.0.1", "port": mails.address.port()});
    let server = two_sites(json!({"settings": {"smtp": smtp}}));
    let sends = || server.get("/?mail").text() == "sent";
    assert!(sends());
    let mail = process(&server, "howdah: mail").unwrap();
    let line = format!("mail process {mail} is killed: it was stopped by a signal");
    is_replaced(&server, mail, &format!("mail process {mail}"), &line);
    eventually("mail is sent again", || sends().then_some(()));
}

/// Stops each new child of the supervisor at once, while `during` runs.
fn while_new_children_stop<T>(server: &Server, during: impl FnOnce() -> T) -> T {
    let supervisor = server.supervisor();
    let children = move || {
        let path = format!("/proc/{supervisor}/task/{supervisor}/children");
        let all = fs::read_to_string(path).unwrap_or_default();
        all.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<HashSet<u32>>()
    };
    let (known, is_over) = (children(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _end = EndOnDrop(&is_over);
        scope.spawn(|| {
            let mut known = known;
            while !is_over.load(Ordering::Relaxed) {
                for pid in children() {
                    if known.insert(pid) {
                        processes::signal(pid, Signal::STOP);
                    }
                }
            }
        });
        during()
    })
}

/// Tells a thread to end, also if the test fails.
struct EndOnDrop<'f>(&'f AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn processes_that_are_stopped_at_their_start_hold_up_no_command() {
    let server = Site::new().file("a.txt", "served").controlled().serve();
    server.control("GET", "/config", "").succeeded();
    // The helper that stores the document, or tries to, and the new server.
    let set = ["config", "set", "settings", r#"{"listen_threads": 1}"#];
    while_new_children_stop(&server, || {
        let stored = howdah(&server, &set).output().unwrap();
        assert!(stored.status.success() || !stored.stderr.is_empty(), "{stored:?}");
    });
    while_new_children_stop(&server, || {
        let upgrade = howdah(&server, &["upgrade"]).output().unwrap();
        let said = String::from_utf8_lossy(&upgrade.stderr).into_owned();
        assert!(!upgrade.status.success() && said.contains("exited on signal 9"), "{said}");
    });
    server.wait_for_log("it was stopped by a signal");
    assert!(howdah(&server, &set).status().unwrap().success());
}

#[test]
fn a_process_that_reads_tables_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    harness::open_to_all(directory.path(), 0o755);
    // The look at many files takes some time.
    for number in 0..1000 {
        let table = directory.path().join(format!("{number}.json"));
        fs::write(table, format!(r#"{{"{number}": "1"}}"#)).unwrap();
    }
    let values = directory.path().join("*.json");
    let server = two_sites(json!({"variables": {"found": {"map": "$uri", "values": values}}}));
    while_new_children_stop(&server, || {
        server
            .wait_for_log("tables of the configuration cannot be read: the process that opens it");
    });
    assert!(!server.log().contains("disk or network drive"), "{}", server.log());
    fs::write(directory.path().join("0.json"), r#"{"0": "2"}"#).unwrap();
    eventually("the table is read", || {
        let table = server.control("GET", "/config/variables/found/values", "").succeeded();
        (table["0"] == "2").then_some(())
    });
}
