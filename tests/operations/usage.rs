//! What sites use: counted for months, across restarts, crashes and upgrades.

use std::fs;
use std::process::{Command, Output};

use harness::mail::MailServer;
use harness::{Server, Site, eventually, programs};
use rustix::process::Signal;
use serde_json::{Value, json};

const FILE_BYTES: u64 = 10_000;

/// A script that runs for a fifth of a second, and sends a message to two recipients if it is told
/// to.
const CODE: &str = "usleep(200000);
    if (isset($_GET['mail'])) {
        echo mail('a@example.org, b@example.org', 'Hello', 'Text') ? 'sent' : 'not sent';
    }";

/// A site with a script and a file, and a state directory.
fn site() -> Site {
    let site = Site::script("a.php", CODE).file("style.css", "x".repeat(FILE_BYTES as usize));
    let control = format!("unix:{}", site.control_socket().display());
    let state = site.state().display().to_string();
    let site = site.argument("--control").argument(&control);
    site.argument("--state").argument(&state).with(json!({}))
}

fn usage(server: &Server) -> Value {
    server.control("GET", "/usage", "").succeeded()
}

/// Waits until so many requests are counted for a site: a client may have its response before.
fn counted(server: &Server, site: &str, requests: u64) -> Value {
    eventually(&format!("{requests} requests are counted"), || {
        let counts = usage(server)["sites"][site].clone();
        (counts["requests"] == requests).then_some(counts)
    })
}

fn command(server: &Server, arguments: &[&str]) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    programs::run(command.args(["site", "usage", "--control", &control]).args(arguments))
}

#[test]
fn requests_bytes_run_times_and_mails_of_a_site_are_counted() {
    let mails = MailServer::start();
    let smtp = json!({"host": "127.0.0.1", "port": mails.address.port()});
    let server = site().with(json!({"settings": {"smtp": smtp}})).serve();
    assert_eq!(server.get("/style.css").status, 200);
    let files = counted(&server, "site", 1);
    assert!((FILE_BYTES..FILE_BYTES + 2000).contains(&files["sent"].as_u64().unwrap()), "{files}");
    assert!(files["received"].as_u64().unwrap() > 20, "{files}");
    assert_eq!((&files["php_seconds"], &files["mails"]), (&json!(0.0), &json!(0)));

    let body = "b".repeat(5000);
    server.post("/a.php", "text/plain", &body);
    let posted = counted(&server, "site", 2);
    assert!(posted["received"].as_u64().unwrap() > 5000, "{posted}");
    assert_eq!(server.get("/a.php?mail").text(), "sent");
    assert_eq!(mails.wait_for(1)[0].to.len(), 2);
    eventually("the run times and the mail are counted", || {
        let counts = counted(&server, "site", 3);
        (counts["php_seconds"].as_f64().unwrap() >= 0.4 && counts["mails"] == 2).then_some(())
    });
    server.get("/missing");
    counted(&server, "site", 4);
}

#[test]
fn answers_of_500_and_above_count_as_errors_for_the_month_and_the_last_minute() {
    let server = Site::script("a.php", "http_response_code((int) $_GET['status']);");
    let control = format!("unix:{}", server.control_socket().display());
    let server = server.argument("--control").argument(&control).with(json!({})).serve();
    for status in [200, 404, 499, 500, 503] {
        assert_eq!(server.get(&format!("/a.php?status={status}")).status, status);
    }
    let counts = counted(&server, "site", 5);
    assert_eq!(counts["errors"], 2, "{counts}");
    let traffic = eventually("the last minute is known", || {
        let status = server.control("GET", "/status", "").succeeded();
        status["sites"].get("site").cloned()
    });
    assert_eq!((&traffic["requests"], &traffic["errors"]), (&json!(5), &json!(2)), "{traffic}");
}

#[test]
fn a_restart_a_crash_of_the_router_and_a_removed_site_lose_nothing() {
    let mut server = site().serve();
    let address = server.address.to_string();
    let mut requests = 0;
    for signal in [Signal::TERM, Signal::QUIT] {
        server.get("/style.css");
        requests += 1;
        counted(&server, "site", requests);
        let router = server.router();
        harness::processes::signal(router, Signal::KILL);
        eventually("another router serves", || (server.router() != router).then_some(()));
        assert_eq!(server.get("/style.css").status, 200);
        requests += 1;
        // This one is only in the memory of the router until the end.
        let (status, site) = server.end(signal);
        assert!(status.success(), "{status}");
        let stored = fs::read_dir(site.state()).unwrap().flatten().map(|entry| entry.path());
        let is_usage = |name: &str| name.starts_with("usage-") && name.ends_with(".json");
        let stored: Vec<_> = stored
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_usage))
            .collect();
        assert!(matches!(stored.len(), 1 | 2), "{stored:?}");
        server = site.serve_again(&address);
        counted(&server, "site", requests);
    }
    let month = usage(&server)["month"].as_str().unwrap().to_owned();
    let removed = json!({"listeners": {&address: {"pass": "routes"}},
        "routes": [{"action": {"return": 204}}]});
    server.put("/config", &removed);
    assert_eq!(server.get("/").status, 204);
    counted(&server, &address, 1);
    counted(&server, "site", requests);
    let one = server.control("GET", &format!("/usage/{month}/sites/site/requests"), "");
    assert_eq!(one.succeeded(), json!(requests));
}

#[test]
fn an_upgrade_counts_each_request_once() {
    let server = site().serve();
    for _ in 0..3 {
        server.get("/style.css");
    }
    counted(&server, "site", 3);
    // Is answered by the old server, which has handed its counts over by then.
    let mut slow = server.connect();
    slow.send("GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let old = server.upgrade();
    assert_eq!(slow.response().status, 200);
    server.get("/style.css");
    server.wait_for_end_of(old);
    let counts = counted(&server, "site", 5);
    assert!(counts["php_seconds"].as_f64().unwrap() >= 0.2, "{counts}");
    let second = server.upgrade();
    server.wait_for_end_of(second);
    counted(&server, "site", 5);
}

#[test]
fn a_host_counts_for_its_site_and_an_unknown_one_for_all_that_are() {
    let directory = tempfile::tempdir().unwrap();
    harness::open_to_all(directory.path(), 0o755);
    let (file, site) = (directory.path().join("a.txt"), site());
    fs::write(&file, "text").unwrap();
    let address = harness::free_address().to_string();
    let server = site
        .with(json!({
            "sites": {"files": {"hosts": ["files.example"], "root": directory.path()}},
            "defaults": {"listen": address},
            "routes": {},
            "listeners": {&address: {"pass": "routes/sites"}},
        }))
        .serve_at(&address);
    let get = |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        server.send(request).status
    };
    assert_eq!((get("files.example", "/a.txt"), get("files.example", "/none")), (200, 404));
    counted(&server, "files", 2);
    for number in 0..20 {
        assert_eq!(get(&format!("made-up-{number}.example"), "/"), 404);
    }
    counted(&server, "default", 20);
    assert!(server.send("nonsense\r\n\r\n").status == 400);
    counted(&server, &address, 1);
    assert_eq!(usage(&server)["sites"].as_object().unwrap().len(), 3);
}

#[test]
fn the_command_shows_sites_and_months() {
    let server = site().serve();
    server.get("/style.css");
    counted(&server, "site", 1);
    let month = usage(&server)["month"].as_str().unwrap().to_owned();
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let table = text(&command(&server, &[]));
    assert!(table.starts_with(&month) && table.contains("REQUESTS"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("site ")), "{table}");
    let json = command(&server, &["site", "--month", &month, "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["month"], &json["sites"]["site"]["requests"]), (&json!(month), &json!(1)));
    for arguments in [&["other"][..], &["--month", "2001-01"]] {
        let output = command(&server, arguments);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{problem}");
        assert!(problem.contains("there are no counts"), "{problem}");
    }
    assert_eq!(command(&server, &["--month", "2026"]).status.code(), Some(2));
}

#[test]
fn a_damaged_file_is_kept_and_named() {
    let server = site().serve();
    let month = usage(&server)["month"].as_str().unwrap().to_owned();
    let address = server.address.to_string();
    let (_, site) = server.end(Signal::TERM);
    let path = site.state().join(format!("usage-{month}.json"));
    fs::create_dir_all(site.state()).unwrap();
    fs::write(&path, "{").unwrap();
    let server = site.serve_again(&address);
    server.get("/style.css");
    eventually("the damaged file is reported", || {
        server.control("GET", "/usage", "");
        server.log().contains("is damaged").then_some(())
    });
    counted(&server, "site", 1);
    assert_eq!(fs::read_to_string(path.with_extension("json.damaged")).unwrap(), "{");
}
