//! Applications whose script stays in memory and does not work, or not any more.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::{fs, thread};

use harness::processes;
use harness::{Server, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::worker_mode::{
    SCRIPT, ask, site, sleeping_template, template, uncontrolled, under_load, worker_status,
};

#[test]
fn a_script_that_does_not_work_any_more_leaves_what_runs() {
    let server = site(json!({"processes": 2})).serve();
    fs::write(server.site.root().join("version"), "broken").unwrap();
    let answer = server.control("GET", "/control/applications/site/restart", "");
    assert_eq!(answer.status, 500);
    assert!(answer.text("detail").contains("the database is down"), "{answer:?}");
    let versions = under_load(&server, || {
        let document = server.control("GET", "/config", "").succeeded();
        let mut changed = document.clone();
        changed["applications"]["site"]["limits"] = json!({"timeout": 77});
        let answer = server.control("PUT", "/config", changed.to_string());
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(answer.text("detail").contains("the database is down"), "{answer:?}");
    });
    assert_eq!(versions, ["one"]);
}

#[test]
fn requests_do_not_wait_for_a_script_that_does_not_work_any_more() {
    let server = site(json!({"processes": 1})).serve();
    let (_, boot, pid) = ask(&server, "/");
    fs::write(server.site.root().join("version"), "broken").unwrap();
    processes::signal(boot, Signal::KILL);
    processes::signal(pid, Signal::KILL);
    eventually("requests are refused", || (server.get("/").status == 503).then_some(()));
    assert!(server.log().contains("the database is down"), "{}", server.log());
    fs::write(server.site.root().join("version"), "three").unwrap();
    eventually("the script works again", || (server.get("/").status == 200).then_some(()));
}

/// A script that runs once for each request, instead of the worker script.
const CLASSIC: &str = "<?php echo 'classic 0 ', getmypid();";

/// A site with a `fallback`. `worker` is the worker script.
fn with_fallback(processes: u32, worker: &str) -> Server {
    let worker_key = json!({"script": "worker.php", "fallback": "classic"});
    site(json!({"script": "classic.php", "processes": processes, "worker": worker_key}))
        .file("classic.php", CLASSIC)
        .file("worker.php", worker)
        .serve()
}

/// Breaks the worker script for all processes but those that run.
fn change_version(server: &Server, version: &str) {
    fs::write(server.site.root().join("version"), version).unwrap();
}

/// Kills the template, if there is one, and the workers, which must be as many as given.
fn kill_all_processes(server: &Server, workers: usize) {
    let all_run = || Some(server.running_workers()).filter(|running| running.len() == workers);
    let running = eventually("all workers run", all_run);
    let has_template = worker_status(server)["template"] == json!(true);
    let template = has_template.then(|| sleeping_template(server));
    for pid in template.into_iter().chain(running) {
        processes::signal(pid, Signal::KILL);
    }
}

#[test]
fn another_script_answers_while_the_worker_script_does_not_work() {
    let server = with_fallback(2, SCRIPT);
    assert_eq!(ask(&server, "/").0, "one");
    change_version(&server, "broken");
    kill_all_processes(&server, 2);
    // The processes are killed while no request runs: none may be lost, and none may wait for long.
    let versions = under_load(&server, || {
        let state = || worker_status(&server)["fallback"].as_str().map(str::to_owned);
        let problem = eventually("the status has the problem", state);
        assert!(problem.contains("the database is down"), "{problem}");
        let status = server.control("GET", "/status", "").succeeded();
        let warning = status["warnings"][0]["reason"].as_str().unwrap_or_default().to_owned();
        assert!(warning.contains("for each request") && warning.contains(&problem), "{status}");
        // Several attempts to start it have failed meanwhile.
        thread::sleep(std::time::Duration::from_secs(2));
    });
    assert_eq!(versions, ["classic"]);
    assert_eq!(server.log().matches("runs its \"script\" for each request").count(), 1);
    assert!(server.log().contains("the database is down"), "{}", server.log());
    let versions = under_load(&server, || {
        change_version(&server, "two");
        let is_two = || (ask(&server, "/").0 == "two").then_some(());
        eventually("the worker script takes over", is_two);
    });
    assert!(versions.contains(&"classic".to_owned()), "{versions:?}");
    server.wait_for_log("was restarted: its worker script works again");
    assert_eq!(ask(&server, "/").0, "two");
    assert_eq!(worker_status(&server)["fallback"], Value::Null);
    assert_eq!(worker_status(&server)["template"], json!(true));
}

#[test]
fn another_script_answers_until_a_script_that_was_broken_at_the_start_works() {
    let site = site(json!({
        "script": "classic.php", "processes": 1,
        "worker": {"script": "worker.php", "fallback": "classic"},
    }));
    let server = site.file("classic.php", CLASSIC).file("version", "broken").serve();
    assert_eq!(ask(&server, "/").0, "classic");
    server.wait_for_log("the database is down");
    change_version(&server, "two");
    eventually("the worker script works", || (ask(&server, "/").0 == "two").then_some(()));
}

#[test]
fn another_script_answers_if_processes_that_boot_by_themselves_cannot() {
    // Two processes must not share the pipe.
    let worker = SCRIPT.replace("<?php", "<?php $pipe = popen('cat', 'w');");
    let server = with_fallback(1, &worker);
    assert_eq!(ask(&server, "/").0, "one");
    assert_eq!(template(&server), None);
    change_version(&server, "broken");
    kill_all_processes(&server, 1);
    let versions = under_load(&server, || {});
    assert_eq!(versions, ["classic"]);
    change_version(&server, "two");
    eventually("the worker script works", || (ask(&server, "/").0 == "two").then_some(()));
}

#[test]
fn requests_do_not_wait_for_processes_that_cannot_boot_by_themselves() {
    let worker = SCRIPT.replace("<?php", "<?php $pipe = popen('cat', 'w');");
    let server = site(json!({"processes": 1})).file("worker.php", worker).serve();
    assert_eq!(ask(&server, "/").0, "one");
    change_version(&server, "broken");
    kill_all_processes(&server, 1);
    eventually("requests are refused", || (server.get("/").status == 503).then_some(()));
    change_version(&server, "two");
    eventually("the script works again", || (server.get("/").status == 200).then_some(()));
}

#[test]
fn a_script_that_hangs_while_it_starts_again_holds_no_request_up() {
    let worker = SCRIPT.replace("throw new Exception('the database is down')", "sleep(1000)");
    let server = with_fallback(1, &worker);
    assert_eq!(ask(&server, "/").0, "one");
    change_version(&server, "broken");
    kill_all_processes(&server, 1);
    assert_eq!(ask(&server, "/").0, "classic");
    server.wait_for_log("it has not started again within 5 seconds");
}

#[test]
fn a_message_of_an_application_does_not_command_the_terminal() {
    let server = site(json!({"processes": 1})).serve();
    let script = "<?php throw new Exception(\"\\e]0;title\\x07 first\\nsecond\");";
    fs::write(server.site.root().join("worker.php"), script).unwrap();
    let socket = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(harness::programs::howdah());
    let output = harness::programs::run(command.args(["restart", "site", "--control", &socket]));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("first") && text.lines().any(|line| line.starts_with("second")),
        "{text}"
    );
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
}

#[test]
fn a_script_that_does_not_work_at_the_start_is_named() {
    let broken = uncontrolled(json!({"processes": 1})).file("version", "broken");
    let mut command = broken.command(&harness::free_address().to_string());
    let output = command.arg("--strict").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let log = fs::read_to_string(broken.log_path()).unwrap_or_default();
    assert!(!output.status.success());
    assert!(format!("{said}{log}").contains("the database is down"), "{said}{log}");
}

/// No request is there for the message.
#[test]
fn a_script_that_may_not_be_read_is_named_when_it_boots() {
    let site = uncontrolled(json!({"processes": 1})).file("a.txt", "served");
    let script = site.root().join("worker.php");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o0)).unwrap();
    let static_file =
        json!({"match": {"uri": "/a.txt"}, "action": {"share": site.root().join("a.txt")}});
    let worker = json!({"action": {"pass": "applications/site"}});
    let server = site.with(json!({"routes": [static_file, worker]})).serve();
    assert_eq!(server.get("/").status, 503);
    assert_eq!(server.get("/a.txt").text(), "served");
    let log = server.wait_for_log("worker.php");
    assert!(log.contains("denied") && !log.contains("signal 11"), "{log}");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    eventually("it boots", || (server.get("/").status == 200).then_some(()));
}

#[test]
fn a_server_that_waits_for_a_correction_does_not_say_that_it_serves() {
    let broken = site(json!({"processes": 1})).file("version", "broken");
    let mut command = broken.command(&harness::free_address().to_string());
    command.arg("--strict");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    processes::signal(child.id(), Signal::TERM);
    child.wait().unwrap();
    assert!(line.starts_with("Nothing is served until the configuration is corrected"), "{line}");
}
