//! Mistakes of sites that show when their parts begin to run: a user that does not exist, a version
//! of PHP that is not installed, a file that cannot be opened. Each is told with the file and the
//! key of the site, once, and the other sites are served.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{Server, Site, eventually, programs};
use serde_json::{Value, json};

use crate::site_files::{command, file, with_document, without_sites, write};

/// The wrong keys of a site, the key that is told, and a part of what is told.
fn mistakes() -> [(Value, &'static str, &'static str); 4] {
    [
        (json!({"user": "no-such-user"}), "/user", "no-such-user"),
        (json!({"php": {"version": "9.9"}}), "/php/version", "PHP 9.9 is not available"),
        (json!({"https": {"certificate": "/nonexistent.pem"}}), "/https", "/nonexistent.pem"),
        (json!({"logs": {"access": "/nonexistent/log"}}), "/logs/access", "/nonexistent/log"),
    ]
}

fn directory(site: &Site, name: &str) -> PathBuf {
    site.root().with_file_name(format!("root-of-{name}"))
}

fn values(site: &Site, name: &str) -> Value {
    json!({"hosts": format!("{name}.example"), "root": directory(site, name)})
}

/// Two sites before they are served, and the address.
fn prepared() -> (Site, String) {
    let site = without_sites();
    for name in ["good", "bad"] {
        fs::create_dir(directory(&site, name)).unwrap();
        let script = format!("<?php echo '{name}';");
        fs::write(directory(&site, name).join("index.php"), script).unwrap();
        write(&site, name, &values(&site, name));
    }
    let (plain, secure) = (harness::free_address().to_string(), harness::free_address());
    let defaults = json!({"listen_https": secure.to_string()});
    (with_document(site, &plain, defaults), plain)
}

fn write_bad(site: &Site, wrong: &Value) {
    let mut bad = values(site, "bad");
    harness::merge(&mut bad, wrong.clone());
    write(site, "bad", &bad);
}

fn get(server: &Server, name: &str) -> (u16, String) {
    let request = format!("GET / HTTP/1.1\r\nHost: {name}.example\r\nConnection: close\r\n\r\n");
    let response = server.connect().send(request).response();
    (response.status, response.text())
}

/// Waits until the status has the mistake, and checks that the log has it once.
fn told_once(server: &Server, key: &str, part: &str) {
    let place = format!("{}: {key}: ", file(&server.site, "bad").display());
    let is_told = |out: &&Value| {
        let [name, reason] = ["name", "reason"].map(|key| out[key].as_str().unwrap_or_default());
        reason.contains(&place) && format!("{name}: {reason}").contains(part)
    };
    eventually("the status has the mistake", || {
        let status = server.control("GET", "/status", "").succeeded();
        let out = status["out"].as_array().cloned().unwrap_or_default();
        (out.iter().filter(is_told).count() == 1).then_some(())
    });
    server.wait_for_log(&place);
    let log = server.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(part)).collect();
    assert!(lines.len() == 1 && lines[0].contains(&place), "{place}: {lines:#?}");
    assert_eq!(get(server, "good"), (200, "good".to_owned()));
}

#[test]
fn a_reload_names_the_file_and_the_key_once() {
    for (wrong, key, part) in mistakes() {
        let (site, address) = prepared();
        let server = site.serve_at(&address);
        assert_eq!(get(&server, "bad"), (200, "bad".to_owned()));
        write_bad(&server.site, &wrong);
        let output = command(&server, &["reload"]);
        let text = String::from_utf8_lossy(&output.stderr);
        let place = format!("{}: {key}: ", file(&server.site, "bad").display());
        assert_eq!(output.status.code(), Some(4), "{key}: {text}");
        let lines: Vec<_> = text.lines().filter(|line| line.contains(part)).collect();
        assert!(lines.len() == 1 && lines[0].contains(&place), "{place}: {text}");
        told_once(&server, key, part);
    }
}

#[test]
fn a_start_names_the_file_and_the_key_once() {
    for (wrong, key, part) in mistakes() {
        let (site, address) = prepared();
        write_bad(&site, &wrong);
        told_once(&site.serve_at(&address), key, part);
    }
}

#[test]
fn check_and_list_name_the_file_and_the_key_once() {
    for (wrong, key, part) in mistakes() {
        let (site, address) = prepared();
        let server = site.serve_at(&address);
        write_bad(&server.site, &wrong);
        let place = format!("{}: {key}: ", file(&server.site, "bad").display());
        let document = server.site.root().with_file_name("config.json");
        let check = programs::run(Command::new(programs::howdah()).arg("check").arg(document));
        let text = String::from_utf8_lossy(&check.stderr);
        let lines: Vec<_> = text.lines().filter(|line| line.contains(part)).collect();
        assert!(lines.len() == 1 && lines[0].contains(&place), "{place}: {text}");
        command(&server, &["reload"]);
        if key == "/user" || key == "/php/version" {
            let list = command(&server, &["site", "list"]);
            let text = String::from_utf8_lossy(&list.stdout).into_owned();
            assert!(text.contains(&place) && text.matches(part).count() == 1, "{text}");
        }
    }
}

/// The command has changed the site, but its PHP does not run.
#[test]
fn a_command_that_changes_a_site_says_that_its_php_cannot_run() {
    let (site, address) = prepared();
    write_bad(&site, &json!({"user": "no-such-user", "enabled": false}));
    let server = site.serve_at(&address);
    let place = format!("{}: /user: ", file(&server.site, "bad").display());
    for words in [["site", "enable", "bad"].as_slice(), &["site", "rename", "bad", "other"]] {
        let output = command(&server, words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{words:?}: {output:?}");
        let place = place.replace("bad.json", &format!("{}.json", words[words.len() - 1]));
        assert_eq!(text.matches(&place).count(), 1, "{text}");
    }
    assert_eq!(command(&server, &["site", "disable", "other"]).status.code(), Some(0));
}

#[test]
fn a_value_of_defaults_is_a_mistake_of_the_document() {
    let (site, address) = prepared();
    let site = site.with(json!({"defaults": {"php": {"version": "9.9"}}}));
    let server = site.serve_at(&address);
    let place = format!(
        "{}: /defaults/php/version: PHP 9.9 ",
        server.site.root().with_file_name("config.json").display()
    );
    server.wait_for_log(&place);
}

#[test]
fn a_change_by_the_control_api_names_the_path_of_the_site() {
    let server = Site::new().controlled().serve();
    server.put("/config/defaults", &json!({"listen": server.address.to_string()}));
    for name in ["good", "bad"] {
        fs::create_dir(directory(&server.site, name)).unwrap();
        let script = format!("<?php echo '{name}';");
        fs::write(directory(&server.site, name).join("index.php"), script).unwrap();
    }
    server.put("/config/sites/good", &values(&server.site, "good"));
    for (wrong, key, part) in mistakes() {
        let mut bad = values(&server.site, "bad");
        harness::merge(&mut bad, wrong);
        let answer = server.control("PUT", "/config/sites/bad", bad.to_string());
        assert_eq!(answer.status, 500, "{answer:?}");
        let detail = answer.text("detail");
        let place = format!("/sites/bad{key}: ");
        assert!(detail.matches(&place).count() == 1 && detail.contains(part), "{key}: {detail}");
        let whole = server.control("GET", "/config/sites", "").succeeded();
        assert_eq!(whole.get("bad"), None);
    }
    assert_eq!(get(&server, "good"), (200, "good".to_owned()));
}
