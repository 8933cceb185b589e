//! Sites in files of their own: each stands alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use harness::client::Response;
use harness::hanging::HangingMount;
use harness::{Server, Site, eventually, programs, requirements};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::site_files::{command, file, with_document, without_sites, write};

/// A document with sites, each with a directory whose script says the name and the process.
fn serve(names: &[&str]) -> Server {
    let (site, address) = prepared(names);
    site.serve_at(&address)
}

/// The same before it is served, and the address.
fn prepared(names: &[&str]) -> (Site, String) {
    let site = without_sites();
    for name in names {
        add(&site, name);
    }
    let address = harness::free_address().to_string();
    (with_document(site, &address, json!({})), address)
}

fn directory(site: &Site, name: &str) -> PathBuf {
    site.root().with_file_name("sites-of-users").join(name)
}

/// Adds the directory and the file of a site.
fn add(site: &Site, name: &str) {
    let directory = directory(site, name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(
        directory.join("index.php"),
        format!("<?php echo '{name} ', getmypid(), ' ', $_SERVER['REQUEST_URI'];"),
    )
    .unwrap();
    write(site, name, &values(site, name));
}

/// The keys of a site.
fn values(site: &Site, name: &str) -> Value {
    json!({"hosts": [format!("{name}.example"), format!("www.{name}.example")],
        "root": directory(site, name)})
}

fn get(server: &Server, host: &str) -> Response {
    let request = format!("GET /a?b HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    server.connect().send(request).response()
}

/// The process that has run the script of a site.
fn process(server: &Server, name: &str) -> String {
    let response = get(server, &format!("{name}.example"));
    let text = response.text();
    let words: Vec<_> = text.split(' ').collect();
    assert_eq!((response.status, words.first(), words.get(2)), (200, Some(&name), Some(&"/a?b")));
    words[1].to_owned()
}

fn reload(server: &Server) -> Output {
    command(server, &["reload"])
}

/// Reloads, and returns what the status says about files that cannot be used.
fn problems(server: &Server) -> String {
    let output = reload(server);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let status = server.control("GET", "/status", "").succeeded();
    status["out"].to_string()
}

#[test]
fn a_host_leads_to_its_site() {
    let server = serve(&["a", "b"]);
    process(&server, "a");
    process(&server, "b");
    assert!(get(&server, "WWW.a.example:80").text().starts_with("a "));
    assert_eq!(get(&server, "c.example").status, 404);
}

#[test]
fn a_site_that_is_added_or_changed_or_removed_touches_no_other() {
    let server = serve(&["a", "b"]);
    let (a, b) = (process(&server, "a"), process(&server, "b"));
    add(&server.site, "c");
    assert!(reload(&server).status.success());
    process(&server, "c");
    let mut changed = values(&server.site, "b");
    changed["environment"] = json!({"A": "b"});
    write(&server.site, "b", &changed);
    fs::remove_file(file(&server.site, "c")).unwrap();
    assert!(reload(&server).status.success());
    assert_ne!(process(&server, "b"), b);
    assert_eq!(process(&server, "a"), a);
    assert_eq!(get(&server, "c.example").status, 404);
}

#[test]
fn a_mistake_keeps_the_last_good_version_of_its_site_also_after_a_restart() {
    let server = serve(&["a", "b"]);
    let a = process(&server, "a");
    for (wrong, expected) in [
        (json!("x"), "a site must be an object"),
        (json!({"hosts": ["a.example"], "rot": "/"}), "unknown key \\\"rot\\\""),
        (json!({"hosts": ["a.example"], "root": "/none"}), "/root: "),
        (json!({"listeners": {}}), "is a whole document"),
        (
            json!({"hosts": ["a.example"], "root": directory(&server.site, "a"),
                "routes": [{"action": {"shaer": "x"}}]}),
            "/routes/0/action: unknown key \\\"shaer\\\"; did you mean \\\"share\\\"?",
        ),
    ] {
        write(&server.site, "a", &wrong);
        let problem = problems(&server);
        assert!(problem.contains("a.json") && problem.contains("line "), "{problem}");
        assert!(problem.contains(expected), "{expected}: {problem}");
        assert_eq!(process(&server, "a"), a, "{wrong}");
        process(&server, "b");
    }
    let kept = server.site.root().with_file_name("kept/served.json");
    eventually("the document is kept", || {
        fs::read_to_string(&kept).ok().filter(|text| text.contains("shaer"))
    });
    let address = server.address.to_string();
    let (_, site) = server.end(Signal::TERM);
    let server = site.serve_again(&address);
    process(&server, "a");
    process(&server, "b");
}

#[test]
fn the_hosts_of_a_site_that_was_never_good_are_not_served() {
    let server = serve(&["a"]);
    write(&server.site, "b", &json!({"hosts": ["b.example"], "root": "/none"}));
    problems(&server);
    assert_eq!(get(&server, "b.example").status, 503);
    process(&server, "a");
}

#[test]
fn a_host_stays_with_the_site_that_had_it() {
    let server = serve(&["b"]);
    add(&server.site, "a");
    let mut thief = values(&server.site, "a");
    thief["hosts"] = json!(["a.example", "b.example"]);
    write(&server.site, "a", &thief);
    let problem = problems(&server);
    assert!(problem.contains("a.json") && problem.contains("/hosts/1: "), "{problem}");
    assert!(problem.contains("b.json as well"), "{problem}");
    process(&server, "b");
    assert_eq!(get(&server, "a.example").status, 503);
}

#[test]
fn a_file_that_others_can_change_is_no_site() {
    let server = serve(&["a", "b"]);
    let mut changed = values(&server.site, "a");
    changed["hosts"] = json!(["a.example", "c.example"]);
    write(&server.site, "a", &changed);
    fs::set_permissions(file(&server.site, "a"), fs::Permissions::from_mode(0o664)).unwrap();
    let problem = problems(&server);
    assert!(problem.contains("a.json") && problem.contains("chmod go-w"), "{problem}");
    assert_eq!(get(&server, "c.example").status, 404);
    process(&server, "a");
    process(&server, "b");
}

#[test]
fn a_site_that_needs_a_missing_file_is_served_once_it_is_there() {
    let server = serve(&["a"]);
    let directory = |name: &str| directory(&server.site, name);
    let secret = directory("secret");
    let site = |name: &str, more: Value| {
        let mut site = values(&server.site, name);
        harness::merge(&mut site, more);
        write(&server.site, name, &site);
    };
    site("b", json!({}));
    fs::create_dir_all(directory("c")).unwrap();
    site("c", json!({"public": "web"}));
    add(&server.site, "d");
    // The processes of one read the file, and requests of the other one have its content.
    site("d", json!({"environment": {"A": {"file": secret}}}));
    add(&server.site, "e");
    site("e", json!({"environment": {"A": {"file": secret}}, "php": {"shared": true}}));
    problems(&server);
    let status = server.control("GET", "/status", "").succeeded();
    for (name, key) in [("b", "/root: "), ("c", "/public: "), ("e", "/environment/A: ")] {
        let is_it = |part: &&Value| part["kind"] == "site" && part["name"] == name;
        let part = status["out"].as_array().unwrap().iter().find(is_it).unwrap();
        assert_eq!(part["file"], json!(file(&server.site, name)));
        let reason = part["reason"].as_str().unwrap();
        assert!(reason.contains(key) && reason.ends_with("; its hosts get 503"), "{reason}");
        assert_eq!(get(&server, &format!("{name}.example")).status, 503);
    }
    server.wait_for_log(&format!(
        "site \"b\" ({}) cannot be used: line ",
        file(&server.site, "b").display()
    ));
    assert_eq!(get(&server, "d.example").status, 503);
    let a = process(&server, "a");
    let script = |name: &str| format!("<?php echo '{name} 1 ', $_SERVER['REQUEST_URI'];");
    fs::create_dir_all(directory("c").join("web")).unwrap();
    fs::write(directory("c").join("web/index.php"), script("c")).unwrap();
    fs::write(&secret, "s").unwrap();
    fs::create_dir(directory("new")).unwrap();
    fs::write(directory("new").join("index.php"), script("b")).unwrap();
    fs::rename(directory("new"), directory("b")).unwrap();
    for name in ["b", "c", "d", "e"] {
        let is_served =
            || Some(()).filter(|()| get(&server, &format!("{name}.example")).status == 200);
        eventually("the site is served", is_served);
        process(&server, name);
    }
    assert_eq!(process(&server, "a"), a);
    eventually("no site is out", || {
        let status = server.control("GET", "/status", "").succeeded();
        let parts = status["out"].as_array().cloned().unwrap_or_default();
        Some(()).filter(|()| parts.iter().all(|part| part["kind"] != "site"))
    });
}

#[test]
fn the_last_good_version_of_a_site_is_told_to_be_in_use() {
    let server = serve(&["a"]);
    write(&server.site, "a", &json!({"hosts": ["a.example"], "root": "/none"}));
    let problem = problems(&server);
    assert!(problem.contains("its last good version stays in use"), "{problem}");
}

/// Scenario: a network drive does not answer when the machine boots.
#[test]
fn a_root_that_does_not_answer_keeps_no_other_site_from_starting() {
    if !requirements::root() {
        return;
    }
    let (site, address) = prepared(&["a", "hung", "z"]);
    let server;
    // Is removed before the directory of the server, also if the test fails.
    let Some(hanging) = HangingMount::new(&directory(&site, "hung")) else { return };
    server = site.serve_at(&address);
    process(&server, "a");
    process(&server, "z");
    assert_eq!(get(&server, "hung.example").status, 503);
    let status = server.control("GET", "/status", "").succeeded();
    let out = status["out"].as_array().cloned().unwrap_or_default();
    let [part] = out.as_slice() else { panic!("{status}") };
    assert_eq!((&part["kind"], &part["name"]), (&json!("site"), &json!("hung")));
    let root = directory(&server.site, "hung").display().to_string();
    let expected = format!("/root: {root}: its file system has not answered for 5 s");
    assert!(part["reason"].as_str().unwrap().contains(&expected), "{part}");
    // Nor from being added.
    add(&server.site, "new");
    let output = reload(&server);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(4) && text.contains(&expected), "{text}");
    process(&server, "new");
    drop(hanging);
    eventually("the site is served", || (get(&server, "hung.example").status == 200).then_some(()));
}

#[test]
fn one_mistake_among_500_files_is_named_with_its_file_line_and_cure() {
    let server = serve(&["a"]);
    let shared = directory(&server.site, "a");
    for number in 0..499 {
        let host = format!("s{number}.example");
        write(&server.site, &format!("s{number}"), &json!({"hosts": [host], "root": shared}));
    }
    // Its process does not end while it waits for requests, however long all of this takes.
    let php = json!({"processes": 1});
    write(&server.site, "a", &json!({"hosts": ["a.example"], "root": shared, "php": php}));
    assert!(reload(&server).status.success());
    let a = process(&server, "a");
    let wrong = file(&server.site, "s250");
    let of_s250 = |line: &str| {
        format!(
            "{{\n  \"hosts\": [\"s250.example\"],\n  \"root\": {},\n  {line}\n}}\n",
            json!(shared)
        )
    };
    for (line, cure) in [
        ("\"users\": \"www-data\"", "unknown key \"users\"; did you mean \"user\"?"),
        ("\"limits\": { \"mail\": 0 }", "/limits/mail: "),
        ("\"enabled\" true", "a colon is expected"),
    ] {
        fs::write(&wrong, of_s250(line)).unwrap();
        let place = wrong.display().to_string();
        let named = |told: &str, by: &str| {
            let lines: Vec<_> = told.lines().filter(|line| line.contains("/sites/s")).collect();
            assert_eq!(lines.len(), 1, "{by}: {told}");
            let line = lines[0];
            assert!(line.contains(&place) && line.contains(cure), "{by}: {cure}: {line}");
            assert!(line.contains("line 4, ") || line.contains("line 5, "), "{by}: {line}");
        };
        let output = reload(&server);
        assert_eq!(output.status.code(), Some(4));
        named(&String::from_utf8_lossy(&output.stderr), "reload");
        let document = server.site.root().with_file_name("config.json");
        let check = programs::run(Command::new(programs::howdah()).arg("check").arg(document));
        assert_eq!(check.status.code(), Some(1), "{check:?}");
        named(&String::from_utf8_lossy(&check.stderr), "check");
        let response = get(&server, "s250.example");
        assert_eq!(response.status, 200, "the last good version is served");
        assert_eq!(process(&server, "a"), a);
    }
}
