//! Logs of sites (`error_logs`): what is in them and not in the server's, rotation, files that
//! cannot be opened, and sites that try to forge lines or to have another file written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Server, Site, eventually, programs};
use rustix::process::Signal;
use serde_json::json;

/// A script for every kind of record.
const SCRIPT: &str = "error_log('said ' . $_GET['q']); file_put_contents('php://stderr', 'printed'); \
                      if (isset($_GET['die'])) { posix_kill(getmypid(), 9); } echo 'served';";

/// Two applications with one script, of which `site` has a log of its own.
fn serve(log: &Path, site: Site) -> Server {
    let other = json!({"type": "php", "root": site.root(), "script": "a.php", "processes": 1});
    let routes = json!([
        {"match": {"uri": "/other"}, "action": {"pass": "applications/other"}},
        {"action": {"pass": "applications/site"}},
    ]);
    let document = json!({
        "routes": routes, "applications": {"other": other}, "error_logs": {"site": log},
    });
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).with(document).serve()
}

fn problems(server: &Server) -> String {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(["status", "--problems", "--control", &control]));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn wait_for(path: &Path, needle: &str) -> String {
    eventually(&format!("{} has {needle:?}", path.display()), || {
        Some(read(path)).filter(|text| text.contains(needle))
    })
}

fn site_with_log() -> (Site, PathBuf) {
    let site = Site::script("a.php", SCRIPT).workers(1);
    let log = site.data().join("site.log");
    (site, log)
}

#[test]
fn the_log_of_a_site_has_its_records_and_the_servers_those_of_others_and_its_crashes() {
    let (site, log) = site_with_log();
    let server = serve(&log, site);
    assert_eq!(server.get("/a.php?q=one").text(), "served");
    assert_eq!(server.get("/other?q=two").text(), "served");
    wait_for(&log, "said one");
    let text = wait_for(&log, "output: printed");
    assert!(text.contains("\"site\" request ") && !text.contains("said two"), "{text}");
    let main = server.wait_for_log("said two");
    assert!(!main.contains("said one"), "{main}");
    assert_eq!(server.get("/a.php?q=three&die").status, 502);
    wait_for(&log, "exited on signal 9");
    server.wait_for_log("exited on signal 9");
    assert!(!server.log().contains("said three"), "{}", server.log());
    // After log rotation, and after a change of the configuration.
    let rotated = log.with_extension("old");
    fs::rename(&log, &rotated).unwrap();
    server.signal(Signal::USR1);
    eventually("it is opened again", || log.exists().then_some(()));
    eventually("records go there", || {
        server.get("/a.php?q=four");
        read(&log).contains("said four").then_some(())
    });
}

#[test]
fn a_script_forges_no_line_of_its_sites_log_and_drives_no_terminal() {
    let code = r#"error_log("one\n2026/11/20 16:30:27 [alert] 1#1 forged\r\x1b[2J\u{9b}2J");
        error_log('<' . str_repeat("long\n", 200000) . '>'); echo 'served';"#;
    let site = Site::script("a.php", code).workers(1);
    let log = site.data().join("site.log");
    let server = serve(&log, site);
    assert_eq!(server.get("/a.php").text(), "served");
    let text = wait_for(&log, "long\n    >");
    let is_record = |line: &&str| !line.starts_with(' ');
    assert!(text.lines().filter(is_record).all(|line| line.contains("] ")), "no other lines");
    assert!(!text.lines().filter(is_record).any(|line| line.contains("forged")));
    assert!(text.contains("[alert] 1#1 forged"), "it is a part of the record");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
}

/// The user of a site owns the directory of its log, and replaces the file by a link.
#[test]
fn a_link_in_place_of_a_sites_log_is_not_followed() {
    let (site, log) = site_with_log();
    let target = site.data().join("target");
    fs::write(&target, "untouched").unwrap();
    let server = serve(&log, site);
    fs::rename(&log, log.with_extension("old")).unwrap();
    std::os::unix::fs::symlink(&target, &log).unwrap();
    server.signal(Signal::USR1);
    let part = format!("log \"{}\": it cannot be opened again, so its former file", log.display());
    eventually("the status tells it", || problems(&server).contains(&part).then_some(()));
    assert_eq!(server.get("/a.php?q=one").text(), "served");
    wait_for(&log.with_extension("old"), "said one");
    assert_eq!(read(&target), "untouched");
    fs::remove_file(&log).unwrap();
    eventually("it is opened without a signal", || log.is_file().then_some(()));
    eventually("no problem", || (problems(&server) == "No problems.\n").then_some(()));
}

#[test]
fn the_records_of_a_site_whose_log_cannot_be_opened_are_in_the_servers() {
    let (site, log) = site_with_log();
    let log = log.with_file_name("none").join("site.log");
    let server = serve(&log, site);
    let part = format!("log \"{}\": it cannot be opened, so the server's log has", log.display());
    eventually("the status tells it", || problems(&server).contains(&part).then_some(()));
    assert_eq!(server.get("/a.php?q=one").text(), "served");
    server.wait_for_log("said one");
    fs::create_dir(log.parent().unwrap()).unwrap();
    eventually("it is opened", || log.exists().then_some(()));
    eventually("records go there", || {
        server.get("/a.php?q=two");
        read(&log).contains("said two").then_some(())
    });
}

/// A site that floods the log in every form, beside one whose worker crashes.
#[test]
fn the_flood_of_a_site_does_not_hide_the_crash_of_another() {
    let flood = "for ($n = 0; $n < 60000; $n++) { error_log(str_repeat('x', 500)); } echo 'done';";
    let site = Site::script("a.php", flood).workers(1).file(
        "crash.php",
        "<?php error_log('the last words'); posix_kill(getmypid(), 11); sleep(60);",
    );
    let other = json!({"type": "php", "root": site.root(), "script": "crash.php", "processes": 1});
    let routes = json!([
        {"match": {"uri": "/other"}, "action": {"pass": "applications/other"}},
        {"action": {"pass": "applications/site"}},
    ]);
    let document = json!({"routes": routes, "applications": {"other": other}});
    let server = site.with(document).serve();
    assert_eq!(server.get("/a.php").text(), "done");
    server.wait_for_log("\"site\" writes too much for the log: its lines are left out");
    assert_eq!(server.get("/other?token=secret").status, 502);
    let log = server.wait_for_log("last messages:\n    the last words");
    let is_alert = log.contains("[alert]") && log.contains("\"other\" worker process ");
    assert!(is_alert, "a line of its own: {log}");
    assert!(log.contains("/other?token=***") && !log.contains("=secret"), "{log}");
}

/// The record has what the worker itself could tell: its signal, and the calls of PHP.
#[test]
fn a_crash_is_a_record_with_request_messages_and_calls() {
    let code = "function inner() { error_log('before'); posix_kill(getmypid(), 11); sleep(60); }
        class Shop { static function outer() { inner(); } } Shop::outer();";
    let site = Site::script("a.php", code).workers(1);
    let log = site.data().join("site.log");
    let server = serve(&log, site);
    assert_eq!(server.get("/a.php?order=7").status, 502);
    let text = wait_for(&log, "last messages:");
    let split = text.split_once(" exited on signal 11\n    last messages:\n");
    let (line, record) = split.unwrap_or_else(|| panic!("{text}"));
    assert!(line.rsplit('\n').next().unwrap().contains(": GET /a.php?order=7 ("), "{line}");
    let record = record.split_once("\n20").map_or(record, |(record, _)| record);
    for part in ["    before\n", "signal 11\n", "#0 posix_kill()\n"] {
        assert!(record.contains(part), "{part:?} in {record}");
    }
    for part in ["inner() at ", "Shop::outer() at ", "{main} at ", "a.php:1"] {
        assert!(record.contains(part), "{part:?} in {record}");
    }
    assert!(record.contains("libphp"), "calls of the C library: {record}");
    let main = server.wait_for_log("exited on signal 11");
    let line = main.lines().find(|line| line.contains("exited on signal 11")).unwrap();
    assert!(line.contains("[alert]") && line.contains("\"site\" worker process "), "{line}");
    assert!(!main.contains("last messages"), "{main}");
    assert_eq!(server.get("/a.php?again").status, 502, "another worker serves");
}
