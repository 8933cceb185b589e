//! The last requests: `howdah requests` and `/requests` of the control API.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use harness::{Server, Site, eventually, programs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const CODE: &str =
    "usleep((int) ($_GET['us'] ?? 0)); http_response_code((int) ($_GET['s'] ?? 200));
    echo str_repeat('x', 1000);";

/// A site with a control API and a state directory.
fn site() -> Site {
    let site = Site::script("a.php", CODE).file("style.css", "body {}");
    let control = format!("unix:{}", site.control_socket().display());
    let state = site.state().display().to_string();
    site.argument("--control").argument(&control).argument("--state").argument(&state)
}

fn list(server: &Server, query: &str) -> Vec<Value> {
    let answer = server.control("GET", &format!("/requests{query}"), "").succeeded();
    answer["requests"].as_array().unwrap().clone()
}

/// Waits until there are so many requests: a client may have its response before.
fn wait_for(server: &Server, query: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} requests of {query:?} are listed"), || {
        let found = list(server, query);
        (found.len() == count).then_some(found)
    })
}

fn command(server: &Server, arguments: &[&str]) -> Command {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    command.args(["requests", "--control", &control]).args(arguments);
    command
}

fn printed(server: &Server, arguments: &[&str]) -> Output {
    programs::run(&mut command(server, arguments))
}

#[test]
fn a_request_is_listed_with_the_parts_of_its_time() {
    let server = site().with(json!({})).serve();
    // Requests of several threads are listed in the order of their ends.
    let requests = ["/style.css", "/a.php?us=50000&token=s3cret&b=c", "/a.php?s=503", "/missing"];
    for (before, target) in requests.into_iter().enumerate() {
        server.get(target);
        wait_for(&server, "", before + 1);
    }
    server.send("NONSENSE\r\n\r\n");
    let all = wait_for(&server, "", 5);
    let [file, script, failed, missing, refused] = &all[..] else { panic!() };
    assert_eq!((&file["target"], &file["status"]), (&json!("/style.css"), &json!(200)));
    assert_eq!((&file["method"], &file["site"]), (&json!("GET"), &json!("site")));
    assert_eq!(file["listener"], server.address.to_string());
    assert!(file["script"].is_null() && file["sending"].is_null(), "{file}");
    assert!(file["time"].as_str().unwrap().ends_with('Z'), "{file}");
    assert_eq!(file["id"].as_str().map(str::len), Some(32));

    assert_eq!(script["target"], "/a.php?us=50000&token=***&b=c");
    let number = |name: &str| script[name].as_f64().unwrap_or_else(|| panic!("{name}: {script}"));
    assert!(number("script") >= 0.05 && number("seconds") >= number("script"), "{script}");
    assert!(number("memory_peak") > 100_000.0 && number("cpu") < number("seconds"));
    assert!(number("sent") > 1000.0 && number("received") > 20.0);
    let waited = [&script["queue"], &script["php_start"]];
    assert_eq!(waited.iter().filter(|time| time.is_number()).count(), 1, "{script}");
    assert_eq!((&failed["status"], &missing["status"]), (&json!(503), &json!(404)));
    assert_eq!((&refused["status"], &refused["id"]), (&json!(400), &Value::Null));

    let targets = |query: &str| {
        let found = list(&server, query);
        found.iter().map(|one| one["target"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(targets("?status=5xx"), ["/a.php?s=503"]);
    assert_eq!(targets("?status=404"), ["/missing"]);
    assert_eq!(targets("?slow=0.05&status=2xx")[0], "/a.php?us=50000&token=***&b=c");
    assert_eq!(targets("?limit=1&site=site").len(), 1);
    assert!(targets("?site=other").is_empty());
    for wrong in ["?status=x", "?limit=0", "?nothing=1", "?slow=-1"] {
        assert_eq!(server.control("GET", &format!("/requests{wrong}"), "").status, 400);
    }
    assert_eq!(server.control("POST", "/requests", "").status, 405);
}

#[test]
fn a_request_whose_process_has_died_says_how_and_the_log_has_no_secret_of_it() {
    let site = site().file("dies.php", "<?php posix_kill(getmypid(), 9); sleep(60);");
    let server = site.with(json!({})).serve();
    assert_eq!(server.get("/dies.php?b=c&token=s3cret").status, 502);
    let died = wait_for(&server, "?status=502", 1).remove(0);
    let failure = died["failure"].as_str().unwrap();
    assert!(failure.ends_with("exited on signal 9"), "{died}");
    let log = server.wait_for_log("/dies.php?b=c&token=***");
    assert!(!log.contains("s3cret"), "{log}");
    server.get("/a.php");
    assert!(wait_for(&server, "?status=200", 1)[0].get("failure").is_none());
}

#[test]
fn the_command_prints_a_line_for_each_and_follows() {
    let server = site().with(json!({})).serve();
    server.get("/a.php?s=503&password=x");
    wait_for(&server, "", 1);
    let text = String::from_utf8(printed(&server, &[]).stdout).unwrap();
    assert!(text.contains("Z site GET /a.php?s=503&password=*** 503 "), "{text}");
    assert!(text.contains(" script=") && text.contains(" memory="), "{text}");
    let json = printed(&server, &["--json", "--status", "5xx", "--slow", "0s"]).stdout;
    let one: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(one["status"], 503);
    assert_eq!(printed(&server, &["--status", "404"]).stdout, b"");
    assert_eq!(printed(&server, &["--status", "x"]).status.code(), Some(1));
    assert_eq!(printed(&server, &["--slow", "x"]).status.code(), Some(2));

    let mut following =
        command(&server, &["-f", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().contains(" 503 "));
    for number in 0..3 {
        server.get(&format!("/a.php?new={number}"));
        assert!(next().contains(&format!("/a.php?new={number} 200 ")), "each once, in order");
    }
    let pid = Pid::from_raw(i32::try_from(following.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    following.wait().unwrap();
}

#[test]
fn the_list_has_a_fixed_size_and_can_be_turned_off() {
    let settings = |count: u32| json!({"settings": {"listen_threads": 1, "last_requests": count}});
    let server = site().with(settings(3)).serve();
    let mut client = server.connect();
    for number in 0..10 {
        client.get(&format!("/style.css?{number}"));
    }
    let kept = eventually("the last request is listed", || {
        let kept = list(&server, "?limit=100");
        (kept.last()?["target"] == "/style.css?9").then_some(kept)
    });
    assert_eq!(kept.len(), 3);
    // A hostile client cannot make it larger, nor a line longer.
    client.get(&format!("/{}", "y".repeat(6000)));
    let cut = eventually("the long request is listed", || {
        let kept = list(&server, "");
        let target = kept.last()?["target"].as_str()?.to_owned();
        target.starts_with("/yyy").then_some(target)
    });
    assert!(cut.ends_with('…') && cut.len() < 600, "{cut}");
    drop(server);
    let server = site().with(settings(0)).serve();
    server.get("/style.css");
    assert!(list(&server, "").is_empty());
}
