//! A change of the configuration is made whole or not at all, even after failures.

use std::fs;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use harness::control::{Answer, ask};
use harness::disk::SmallDisk;
use harness::{Ends, Server, Site, free_address, free_listener};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A server with a configuration that answers "before".
fn serving() -> Server {
    let server = Site::new().file("index.php", "<?php echo 'before';").controlled().serve();
    server.put("/config", &server.site.document(server.address));
    server
}

/// The state before a change that fails, to be found unchanged after it.
struct Before {
    document: Value,
    stored: Vec<u8>,
}

impl Before {
    fn of(server: &Server) -> Before {
        let document = server.control("GET", "/config", "").succeeded();
        Before { document, stored: stored(server) }
    }

    fn is_unchanged(&self, server: &Server) {
        assert_eq!(server.control("GET", "/config", "").succeeded(), self.document);
        assert_eq!(stored(server), self.stored);
        assert_eq!(server.get("/index.php").text(), "before");
        let left = fs::read_dir(server.site.state()).unwrap().flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        // A copy of the served document, and files that test for free space, are written
        // afterwards.
        let is_later = |name: &str| name.starts_with("served.json") || name == "probe.new";
        left.retain(|name| !is_later(&name.to_string_lossy()));
        left.sort();
        assert_eq!(left, ["conf.json", "format"], "nothing else is left of the change");
    }
}

fn stored(server: &Server) -> Vec<u8> {
    fs::read(server.site.state().join("conf.json")).unwrap()
}

fn failed(answer: &Answer, status: u16, error: &str, details: &[&str]) {
    assert_eq!((answer.status, answer.text("error")), (status, error), "{answer:?}");
    for detail in details {
        assert!(answer.text("detail").contains(detail), "{answer:?}");
    }
}

#[test]
fn an_invalid_document_changes_nothing() {
    let server = serving();
    let before = Before::of(&server);
    let answer = server.control("PUT", "/config/routes", r#"[{"action": {"retrun": 200}}]"#);
    failed(&answer, 400, "Invalid configuration.", &["/routes/0/action", "\"return\""]);
    before.is_unchanged(&server);
    let answer = server.control("PUT", "/config", "{\"listeners\": {},\n}}");
    failed(&answer, 400, "Invalid JSON.", &[]);
    assert_eq!(answer.body["location"], json!({"offset": 19, "line": 2, "column": 2}));
    before.is_unchanged(&server);
    let answer = server.control("DELETE", "/config/routes", "");
    failed(&answer, 400, "Invalid configuration.", &["/listeners/", "routes"]);
    before.is_unchanged(&server);
}

#[test]
fn a_port_in_use_changes_nothing_and_other_new_sockets_are_closed_again() {
    let server = serving();
    let before = Before::of(&server);
    let taken = free_listener();
    let (taken_at, other) = (taken.local_addr().unwrap().to_string(), free_address());
    for _ in 0..3 {
        let mut document = server.site.document(server.address);
        document["listeners"][other.to_string()] = json!({"pass": "routes"});
        document["listeners"][&taken_at] = json!({"pass": "routes"});
        document["applications"]["site"]["environment"] = json!({"NEW": "1"});
        let answer = server.control("PUT", "/config", document.to_string());
        failed(&answer, 500, "Failed to apply new configuration.", &[&taken_at, "another program"]);
        before.is_unchanged(&server);
        harness::eventually("the other socket is closed", || {
            TcpStream::connect(other).is_err().then_some(())
        });
    }
    drop(taken);
    let both =
        json!({server.address.to_string(): {"pass": "routes"}, taken_at: {"pass": "routes"}});
    server.put("/config/listeners", &both);
}

#[test]
fn an_application_that_cannot_start_changes_nothing() {
    let server = serving();
    let before = Before::of(&server);
    for (key, value, detail) in [
        ("working_directory", json!("/nonexistent/work"), "/nonexistent/work"),
        ("type", json!("php 5.1"), "PHP 5.1"),
        ("user", json!("nobody-of-this-name"), "nobody-of-this-name"),
        ("stderr", json!("/nonexistent/dir/log"), "/nonexistent/dir/log"),
    ] {
        let mut document = server.site.document(server.address);
        document["applications"]["site"][key] = value;
        document["routes"] = json!([{"action": {"return": 500}}]);
        let answer = server.control("PUT", "/config", document.to_string());
        failed(&answer, 500, "Failed to apply new configuration.", &["\"site\"", detail]);
        before.is_unchanged(&server);
    }
    let workers = server.workers();
    assert_eq!(workers.len(), 2, "those of applications that were not started have gone");
}

#[test]
fn a_full_disk_changes_nothing() {
    let site = Site::new().file("index.php", "<?php echo 'before';").controlled();
    let Some(disk) = SmallDisk::mount(&site.state(), "0700") else { return };
    let server = site.serve();
    server.put("/config", &server.site.document(server.address));
    let before = Before::of(&server);
    let mut document = server.site.document(server.address);
    document["routes"][0]["match"] = json!({"uri": format!("/{}", "x".repeat(100_000))});
    for _ in 0..3 {
        let answer = server.control("PUT", "/config", document.to_string());
        let details = ["conf.json", "No space left"];
        failed(&answer, 500, "Failed to store new configuration.", &details);
        before.is_unchanged(&server);
    }
    // A certificate takes the last space, and is not half there.
    let bundle = include_str!("../../crates/control/testdata/rsa.pem");
    let bundle = format!("{bundle}{}", "remark\n".repeat(10_000));
    let answer = server.control("PUT", "/certificates/a", &bundle);
    failed(&answer, 500, "Failed to store certificate.", &["No space left"]);
    assert_eq!(server.control("GET", "/certificates", "").succeeded(), json!({}));
    // A document that fits is stored.
    server.put("/config/applications/site/environment", &json!({"DISK": "is large enough"}));
    drop(server);
    drop(disk);
}

/// A document that says a number at its beginning and at its end.
fn numbered(number: u64) -> String {
    let step = |uri: &str| json!({"match": {"uri": uri}, "action": {"return": 200}});
    let mut steps = vec![step(&format!("/{number}"))];
    steps.extend((0..30).map(|filler| step(&format!("/filler/{filler}"))));
    steps.push(step(&format!("/{number}")));
    json!({"listeners": {}, "routes": steps}).to_string()
}

/// The number that the configuration says.
fn number_of(server: &Server) -> u64 {
    let routes = server.control("GET", "/config/routes", "").succeeded();
    let routes = routes.as_array().unwrap();
    let number = |at: usize| routes[at]["match"]["uri"].as_str().unwrap()[1..].parse::<u64>();
    assert_eq!(routes.len(), 32);
    assert_eq!(number(0).unwrap(), number(31).unwrap(), "it is whole");
    number(0).unwrap()
}

#[test]
fn a_kill_at_any_moment_leaves_the_old_configuration_or_the_new_one() {
    let mut server = Site::new().controlled().serve();
    server.control("PUT", "/config", numbered(0)).succeeded();
    let (sent, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut unfinished = 0;
    for round in 0..50u64 {
        let over = AtomicBool::new(false);
        let socket = server.site.control_socket();
        let site = std::thread::scope(|scope| {
            let ended = Ends(&over);
            let writer = scope.spawn(|| {
                while !over.load(Relaxed) {
                    let number = sent.fetch_add(1, Relaxed) + 1;
                    match ask(&socket, "PUT", "/config", numbered(number).as_bytes()) {
                        Ok(answer) if answer.status == 200 => done.store(number, Relaxed),
                        _ => return,
                    }
                }
            });
            // Not a multiple of the size of a change.
            std::thread::sleep(Duration::from_micros(3_000 + round * 2_370));
            let (_, site) = server.end(Signal::KILL);
            drop(ended);
            writer.join().unwrap();
            site
        });
        server = site.serve();
        let (sent, done, found) = (sent.load(Relaxed), done.load(Relaxed), number_of(&server));
        assert!((done..=sent).contains(&found), "{found} is there, {done} was done, {sent} sent");
        unfinished += u64::from(done < sent);
    }
    println!("{} changes, {unfinished} of them cut off", sent.load(Relaxed));
    assert!(unfinished > 5, "the kills did not hit changes");
}
