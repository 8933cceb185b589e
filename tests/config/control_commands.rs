//! `howdah config`, `status`, `restart` and `reload` against a running server: their output, and
//! their exit status.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use harness::{Server, Site, eventually, own_control, processes, programs};
use rustix::process::Signal;
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

/// The output of a command that succeeds.
fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the line that a command complains with; it prints only this line.
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
        (&["get", "applications/shop"][..], "there is nothing at /config/applications/shop"),
        (&["delete", "routes/7"], "there is nothing at /config/routes/7"),
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
fn ping_tells_whether_the_router_answers_and_whether_visitors_can_be_served() {
    let server = serving();
    assert_eq!(printed(&run(&server, &["ping"])), "the server answers\n");
    assert_eq!(printed(&run(&server, &["ping", "--ready"])), "ready\n");
    assert_eq!(printed(&run(&server, &["ping", "--quiet"])), "");
    // A router that is stopped holds its connections, and does not answer.
    let router = server.processes().into_iter().find(|found| found.title == "howdah: router");
    let router = router.unwrap().pid;
    processes::signal(router, Signal::STOP);
    let complaint = complaint(&run(&server, &["ping", "--timeout", "0.2"]), 1);
    processes::signal(router, Signal::CONT);
    assert!(complaint.contains("did not answer within 0.2 s"), "{complaint}");
    server.put("/config", &json!({}));
    assert_eq!(printed(&run(&server, &["ping"])), "the server answers\n");
    let output = run(&server, &["ping", "--ready"]);
    assert!(self::complaint(&output, 1).contains("no listener"), "{output:?}");
}

#[test]
fn ping_without_a_server_has_a_status_of_its_own() {
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(["ping", "--control", "unix:/nowhere/control.sock"]));
    assert!(complaint(&output, 3).contains("no server answers there"), "{output:?}");
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
    // The typed text is not lost, and the advice how to send it is right.
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
    assert!(status.contains("\nPHP ") && status.contains("Requests     1\n"), "{status}");
    let version = format!("Howdah       {}, up ", env!("CARGO_PKG_VERSION"));
    assert!(status.starts_with(&version), "{status}");
    let shown = server.control("GET", "/status", "").succeeded();
    assert_eq!(shown["listeners"], json!({server.address.to_string(): {}}));
    assert_eq!(shown["server"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(shown["server"]["started"].as_str().is_some_and(|date| date.ends_with(" GMT")));
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
fn top_prints_sites_once_without_a_terminal() {
    let server = serving();
    assert_eq!(server.get("/index.php").text(), "1");
    let text = printed(&run(&server, &["top", "--all", "--interval", "0.1"]));
    assert!(text.starts_with("howdah top  ") && !text.contains('\u{1b}'), "{text:?}");
    assert!(text.lines().any(|line| line.starts_with("site ")), "{text}");
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

#[test]
fn a_change_beside_a_file_says_that_a_reload_undoes_it() {
    let site = Site::script("a.php", "echo 1;");
    let control = format!("unix:{}", site.control_socket().display());
    let routes = json!([{"action": {"return": 200}}]);
    let site = site.argument("--control").argument(&control);
    let server = site.with(json!({"routes": routes})).serve();
    let file = server.site.root().with_file_name("config.json").display().to_string();
    let answer = server.control("PUT", "/config/routes/0/action/return", "201");
    let note = answer.text("note").to_owned();
    assert!(note.starts_with(&file) && note.contains("undoes this change"), "{note}");
    let output = run(&server, &["config", "set", "routes/0/action/return", "202"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Reconfiguration done.\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("howdah: {note}\n"));
    assert_eq!(server.get("/").status, 202);
    assert_eq!(printed(&run(&server, &["reload"])), "Reload done.\n");
    assert_eq!(server.get("/").status, 200, "as it says");
    // A kept document is not undone.
    let answer = serving().control("PUT", "/config/applications/site/processes", "3");
    assert_eq!(answer.text("note"), "");
}

// -- the socket that a server has by default --

/// Runs a command line that names no server.
fn run_without_address(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(programs::howdah());
    programs::run(command.args(words).envs(own_control(directory)))
}

#[test]
fn a_server_is_found_without_its_address() {
    let directory = tempfile::tempdir().unwrap();
    let ask = |words: &[&str]| run_without_address(directory.path(), words);
    let text = complaint(&ask(&["status"]), 3);
    assert!(
        text.contains("no server of this user answers in ") && text.contains("--control"),
        "{text}"
    );
    let server = Site::script("a.php", "echo 1;").own_control(directory.path()).serve();
    let socket = directory.path().join("run/control.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let run = socket.parent().unwrap();
    assert_eq!(fs::metadata(run).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(printed(&ask(&["status"])).contains("PHP"));
    assert!(printed(&ask(&["tune", "site"])).contains("site"));
    assert_eq!(printed(&ask(&["config", "get", "applications/site/processes"])), "2\n");
    assert_eq!(printed(&ask(&["reload"])), "Reload done.\n");
    server.end(Signal::TERM);
    assert!(!socket.exists());
}

#[test]
fn several_servers_of_one_user_have_sockets_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let ask = |words: &[&str]| run_without_address(directory.path(), words);
    let serve = |code: &str| Site::script("a.php", code).own_control(directory.path()).serve();
    let mut servers: Vec<_> = ["echo 1;", "echo 2;"].into_iter().map(serve).collect();
    let text = complaint(&ask(&["status"]), 1);
    assert!(text.starts_with("howdah: several servers run; name one with --control:"), "{text}");
    for server in &servers {
        let end = format!(" serves {}", server.address);
        let line = text.lines().find(|line| line.ends_with(&end)).unwrap().trim();
        let address = line.strip_suffix(&end).unwrap();
        let listeners = printed(&ask(&["config", "get", "listeners", "--control", address]));
        assert!(listeners.contains(&server.address.to_string()), "{listeners}");
    }
    // A server that is killed leaves its socket behind, which does no harm.
    let first = servers.remove(0);
    first.end(Signal::KILL);
    let remaining = servers[0].address.to_string();
    eventually("the other one is found", || {
        let listeners = ask(&["config", "get", "listeners"]);
        String::from_utf8_lossy(&listeners.stdout).contains(&remaining).then_some(())
    });
    let run = directory.path().join("run");
    assert!(run.join("control.sock").exists());
    let _third = serve("echo 3;");
    assert_eq!(fs::read_dir(&run).unwrap().count(), 2, "the socket that was left is used again");
}

#[test]
fn a_server_has_another_control_socket_or_none_if_it_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let ask = |words: &[&str]| run_without_address(directory.path(), words);
    let other = format!("unix:{}/other.sock", directory.path().display());
    let site = || Site::script("a.php", "echo 1;").own_control(directory.path());
    let _none = site().argument("--no-control").serve();
    let _other = site().argument("--control").argument(&other).serve();
    assert!(!directory.path().join("run").exists());
    complaint(&ask(&["status"]), 3);
    assert!(printed(&ask(&["status", "--control", &other])).contains("PHP"));
}

#[test]
fn a_control_socket_that_cannot_be_made_does_not_keep_a_site_from_being_served() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("run"), "").unwrap();
    let server = Site::script("a.php", "echo 1;").own_control(directory.path()).serve();
    assert_eq!(server.get("/a.php").text(), "1");
    server.wait_for_log("there is no control socket: ");
}

#[test]
fn a_document_that_cannot_be_run_is_refused_although_there_is_a_control_socket() {
    let directory = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let site = Site::script("a.php", "echo 1;").own_control(directory.path());
    let output = programs::run(&mut site.command(&taken));
    assert_eq!(output.status.code(), Some(78), "{output:?}");
}

/// Without its file, no command reaches the server, also not one that would end or reload it.
#[test]
fn a_control_socket_that_was_deleted_is_there_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = Site::script("a.php", "echo 1;").own_control(directory.path()).serve();
    let run = directory.path().join("run");
    let answers =
        || run_without_address(directory.path(), &["config", "get"]).status.success().then_some(());
    eventually("it answers", answers);
    // The control process runs, and takes the new socket; then without the directory.
    fs::remove_file(run.join("control.sock")).unwrap();
    eventually("the socket is back", answers);
    let line = format!("the control socket unix:{}/control.sock was deleted", run.display());
    server.wait_for_log(&line);
    fs::remove_dir_all(&run).unwrap();
    eventually("the directory is back", answers);
    assert_eq!(server.log().matches(&line).count(), 2, "{}", server.log());
}
