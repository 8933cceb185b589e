//! Logs that cannot be opened again after log rotation: the status tells it until they can, without
//! another signal.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Server, Site, eventually, programs};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Serves a document with a control socket, without a state.
fn serve(site: Site, document: Value) -> Server {
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).with(document).serve()
}

fn problems(server: &Server) -> String {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(["status", "--problems", "--control", &control]));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until the status has this log, with this reason.
fn wait_until_told(server: &Server, log: &Path, reason: &str) {
    let part = format!(": log \"{}\": {reason}", log.display());
    eventually(&format!("{part} is told"), || problems(server).contains(&part).then_some(()));
    let alert = format!("log \"{}\": {reason}", log.display());
    server.wait_for_log(&alert);
}

fn wait_until_mended(server: &Server) {
    eventually("no problem", || (problems(server) == "No problems.\n").then_some(()));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

const FORMER: &str = "it cannot be opened again, so its former file stays in use: ";

#[test]
fn an_access_log_whose_directory_is_gone_is_opened_when_it_is_back() {
    let site = Site::new().file("a.txt", "a");
    let (directory, moved) = (site.data().join("logs"), site.data().join("moved"));
    fs::create_dir(&directory).unwrap();
    let log = directory.join("access.log");
    let access_log = json!({"path": log, "format": "$request_line"});
    let server = serve(site, json!({"access_log": access_log}));
    assert_eq!(server.get("/a.txt").text(), "a");
    fs::rename(&directory, &moved).unwrap();
    server.signal(Signal::USR1);
    wait_until_told(&server, &log, &format!("{FORMER}No such file or directory"));
    assert_eq!(server.get("/a.txt?gone").text(), "a");
    let former = moved.join("access.log");
    eventually("the former file goes on", || read(&former).contains("?gone").then_some(()));
    fs::create_dir(&directory).unwrap();
    eventually("it is opened without a signal", || log.exists().then_some(()));
    wait_until_mended(&server);
    let said = server.wait_for_log(&format!("log \"{}\" works again", log.display()));
    assert_eq!(said.matches(FORMER).count(), 1, "once: {said}");
    assert_eq!(server.get("/a.txt?back").text(), "a");
    eventually("lines go there", || read(&log).contains("?back").then_some(()));
    assert!(!read(&former).contains("?back"));
}

#[test]
fn the_servers_log_is_opened_when_it_can_be_and_others_are_rotated_meanwhile() {
    let site = Site::new().file("a.txt", "a");
    let (log, access_log) = (site.data().with_file_name("log"), site.data().join("access.log"));
    let server = serve(site, json!({"access_log": access_log}));
    let (old, rotated) = (log.with_extension("old"), access_log.with_extension("old"));
    fs::rename(&log, &old).unwrap();
    fs::create_dir(&log).unwrap();
    for _ in 0..2 {
        fs::rename(&access_log, &rotated).unwrap();
        server.signal(Signal::USR1);
        eventually("the access log is opened again", || access_log.exists().then_some(()));
        let part = format!(": log \"{}\": {FORMER}Is a directory", log.display());
        eventually(&format!("{part} is told"), || problems(&server).contains(&part).then_some(()));
    }
    eventually("the former file has the reason", || read(&old).contains(FORMER).then_some(()));
    fs::remove_dir(&log).unwrap();
    eventually("it is opened without a signal", || log.is_file().then_some(()));
    wait_until_mended(&server);
    server.wait_for_log(&format!("log \"{}\" works again", log.display()));
}

#[test]
fn a_slow_log_that_cannot_be_opened_is_told_and_opened_later() {
    let site = Site::script("a.php", "echo 'here';");
    let directory = site.data().join("logs");
    let log = directory.join("slow.log");
    let limits = json!({"slow": 1, "slow_log": log});
    let server = serve(site, json!({"applications": {"site": {"limits": limits}}}));
    let reason = "it cannot be opened, so the server's log has its records: No such file";
    wait_until_told(&server, &log, reason);
    assert_eq!(server.get("/a.php").text(), "here");
    fs::create_dir(&directory).unwrap();
    eventually("it is opened", || log.exists().then_some(()));
    wait_until_mended(&server);
}
