//! `howdah config`, `status`, `restart` and `reload` against a running server: what they print, and
//! their exit status.

mod harness;

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use harness::{Server, Site, programs};
use serde_json::{Value, json};

/// Runs a command line, with the address of the server's control API.
fn run(server: &Server, words: &[&str]) -> Output {
    run_with(server, words, "", "true")
}

/// As [`run`], with an input and an editor.
fn run_with(server: &Server, words: &[&str], input: &str, editor: &str) -> Output {
    let mut command = Command::new(programs::howdah());
    command.args(words).arg("--control").env_remove("VISUAL").env("EDITOR", editor);
    command.arg(format!("unix:{}", server.site.control_socket().display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// What a command that succeeds prints.
fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The one line that a command complains with; it prints nothing else.
fn complaint(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

fn serving() -> Server {
    let server = Site::new().file("index.php", "<?php echo 1;").controlled().serve();
    server.put("/config", &server.site.document(server.address));
    server
}

#[test]
fn parts_of_the_configuration_are_shown_changed_and_deleted() {
    let server = serving();
    let done = "Reconfiguration done.\n";
    let set = |words: &[&str], input: &str| {
        printed(&run_with(&server, &[&["config"], words].concat(), input, "true"))
    };
    assert_eq!(set(&["get", "applications/site/processes"], ""), "2\n");
    assert_eq!(set(&["set", "applications/site/processes", "3"], ""), done);
    assert_eq!(set(&["set", "applications/site/processes"], "4"), done);
    assert_eq!(set(&["set", "/config/applications/site/processes/", "-"], "5"), done);
    assert_eq!(set(&["get", "config/applications/site/processes"], ""), "5\n");
    let file = server.site.data().join("step.json");
    fs::write(&file, r#"{"action": {"return": 404}} /* a remark that is not kept */"#).unwrap();
    assert_eq!(set(&["append", "routes", &format!("@{}", file.display())], ""), done);
    assert_eq!(set(&["get", "routes/1"], ""), "{\n\t\"action\": {\n\t\t\"return\": 404\n\t}\n}\n");
    assert_eq!(set(&["delete", "routes/1"], ""), done);
    let whole: Value = serde_json::from_str(&set(&["get"], "")).unwrap();
    assert_eq!(whole, server.control("GET", "/config", "").succeeded());
    assert_eq!(set(&["set", "/", "{}"], ""), done);
    assert_eq!(server.control("GET", "/config", "").body, json!({}));
}

#[test]
fn what_is_refused_is_said_in_one_line_that_names_the_place() {
    let server = serving();
    let before = server.control("GET", "/config", "").succeeded();
    for (words, line) in [
        (&["get", "applications/shop"][..], "Value doesn't exist: /config/applications/shop"),
        (&["delete", "routes/7"], "Value doesn't exist: /config/routes/7"),
        (&["append", "listeners", "{}"], "Method isn't allowed: only an array can be appended to"),
        (&["set", "applications/site/procesess", "8"], "did you mean \"processes\"?"),
        (&["set", "applications/site/user", "blog"], "write a string as '\"blog\"'"),
        (&["set", "applications/site/user", "@/nonexistent"], "/nonexistent"),
    ] {
        let output = run(&server, &[&["config"], words].concat());
        let complaint = complaint(&output, 1);
        assert!(complaint.starts_with("howdah: ") && complaint.contains(line), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
    assert!(complaint(&run(&server, &["restart", "shop"]), 1).contains("\"shop\""));
    assert_eq!(server.control("GET", "/config", "").succeeded(), before);
}

#[test]
fn an_editor_changes_a_part() {
    let server = serving();
    let edit = |editor: &str| run_with(&server, &["config", "edit", "routes"], "", editor);
    assert_eq!(printed(&edit("true")), "Nothing was changed.\n");
    let sed = "sed -i 's/index.html/start.html/'";
    assert_eq!(printed(&edit(sed)), "Reconfiguration done.\n");
    let index = server.control("GET", "/config/routes/0/action/index/1", "").succeeded();
    assert_eq!(index, "start.html");
    let output = edit("sed -i 's/index/indecks/'");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("unknown key \"indecks\""), "{text}");
    // What was typed is not lost, and the advice how to send it is right.
    let kept = text.split('@').nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("indecks"));
    fs::remove_file(kept).unwrap();
}

#[test]
fn applications_are_shown_and_restarted() {
    let server = serving();
    let before = server.workers();
    assert_eq!(server.get("/index.php").text(), "1");
    let status = printed(&run(&server, &["status"]));
    let line = status.lines().find(|line| line.starts_with("site")).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("2"), "{status}");
    assert!(status.starts_with("PHP ") && status.contains("Requests     1\n"), "{status}");
    // Connections that have just ended may still be counted the first time.
    harness::eventually("it prints what the API says", || {
        let text = printed(&run(&server, &["status", "--json"]));
        let json: Value = serde_json::from_str(&text).unwrap();
        (json == server.control("GET", "/status", "").succeeded()).then_some(())
    });
    assert_eq!(printed(&run(&server, &["restart", "site"])), "site: restarted\n");
    harness::eventually("all workers are others", || {
        server.running_workers().iter().all(|pid| !before.contains(pid)).then_some(())
    });
    assert_eq!(printed(&run(&server, &["reload"])), "Reload done.\n");
}

#[test]
fn what_an_application_does_and_why_is_printed() {
    let server = serving();
    assert_eq!(server.get("/index.php").text(), "1");
    let status = printed(&run(&server, &["status", "site"]));
    for line in ["pool:                 site\n", "process manager:      static\n"] {
        assert!(status.contains(line), "{status}");
    }
    let worker = server.workers()[0].to_string();
    assert!(status.lines().any(|line| line.starts_with(&worker)), "{status}");
    let tuning = printed(&run(&server, &["tune", "site"]));
    assert!(tuning.starts_with("site: always 2 processes, as configured; 2 now\n"), "{tuning}");
    assert!(tuning.contains("For PHP-FPM (www.conf)\n  pm = static\n"), "{tuning}");
    for command in ["status", "tune"] {
        let text = complaint(&run(&server, &[command, "shop"]), 1);
        assert!(text.contains("the configuration has no application \"shop\""), "{text}");
    }
}

#[test]
fn top_shows_applications_in_a_terminal_until_q_is_pressed() {
    let server = serving();
    assert!(complaint(&run(&server, &["top"]), 1).contains("needs a terminal"));
    let control = server.site.control_socket();
    let top = format!("{} top --control unix:{}", programs::howdah().display(), control.display());
    // It gives a program a terminal of its own.
    let mut child = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command", &top, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut screen = Vec::new();
    let mut output = child.stdout.take().unwrap();
    // Until it clears what is below its last line.
    while !String::from_utf8_lossy(&screen).contains("\x1b[J") {
        let mut some = [0; 4096];
        let length = output.read(&mut some).unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&screen));
        screen.extend_from_slice(&some[..length]);
    }
    child.stdin.take().unwrap().write_all(b"q").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let screen = String::from_utf8_lossy(&screen);
    assert!(screen.contains("howdah top (q quits)") && screen.contains("site"), "{screen}");
}

#[test]
fn a_server_that_is_not_there_has_an_exit_status_of_its_own() {
    let control = "--control=unix:/nonexistent/control.sock";
    for words in [&["status"][..], &["reload"], &["restart", "a"], &["config", "get"]] {
        let output = Command::new(programs::howdah()).args(words).arg(control).output().unwrap();
        assert!(complaint(&output, 3).contains("no server answers"), "{output:?}");
    }
    let output = Command::new(programs::howdah()).args(["config", "frob"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
