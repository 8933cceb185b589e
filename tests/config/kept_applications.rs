//! A reload that changes an application that serves to one that cannot run: it continues unchanged,
//! and is named.

use std::fs;
use std::process::Command;

use harness::{Server, Site, programs};
use serde_json::{Value, json};

/// Serves a site whose processes start with its first request, beside another one.
fn serve(more: Value) -> Server {
    let site = Site::script("a.php", "echo 'hello';").file("w.php", WORKER);
    let control = format!("unix:{}", site.control_socket().display());
    let root = site.root().display().to_string();
    let mut own = json!({"processes": {"max": 2, "spare": 0}});
    harness::merge(&mut own, more);
    let other = json!({"type": "php", "root": root, "processes": 1});
    let document = json!({
        "applications": {"site": own, "other": other},
        "routes": [
            {"match": {"uri": "/other/*"},
                "action": {"rewrite": "/a.php", "pass": "applications/other"}},
            {"action": {"pass": "applications/site"}},
        ],
    });
    site.argument("--control").argument(&control).with(document).serve()
}

const WORKER: &str = "<?php while (frankenphp_handle_request(function () { echo 'hello'; })) {}";

/// Changes the application in the document file.
fn change(server: &Server, change: impl FnOnce(&mut Value)) {
    let path = server.site.root().with_file_name("config.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut document["applications"]["site"]);
    fs::write(path, document.to_string()).unwrap();
}

fn howdah(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(arguments).args(["--control", &control]));
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    (output.status.code(), text.concat())
}

/// Reloads a document with a mistake. The site that serves continues, and is named.
fn goes_on_despite(server: &Server, reason: &str) {
    let (code, told) = howdah(server, &["reload"]);
    assert_eq!(code, Some(4), "{told}");
    for text in [&told, &howdah(server, &["status", "--problems"]).1] {
        assert!(text.contains("application \"site\": it continues unchanged"), "{text}");
        assert!(text.contains(reason) && text.contains("run howdah reload"), "{text}");
    }
    server.wait_for_log(reason);
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!(server.get("/other/").text(), "hello");
}

#[test]
fn mistakes_in_an_application_that_serves_do_not_end_it() {
    let server = serve(json!({}));
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));
    let missing = server.site.root().join("missing").display().to_string();
    let mistakes = [
        (json!({"user": "nobody-at-all"}), "there is no user \"nobody-at-all\""),
        (json!({"type": "php 5.1"}), "PHP 5.1 is not available"),
        (json!({"root": missing}), "missing cannot be used"),
        (json!({"stderr": format!("{missing}/log")}), "missing/log"),
    ];
    let path = server.site.root().with_file_name("config.json");
    let good = fs::read(&path).unwrap();
    for (mistake, reason) in mistakes {
        change(&server, |site| harness::merge(site, mistake.clone()));
        goes_on_despite(&server, reason);
        // The application survives a change of something else and a further reload.
        server.put("/config/settings", &json!({"http": {"header_read_timeout": 20}}));
        assert_eq!(server.get("/a.php").text(), "hello", "{mistake}");
        goes_on_despite(&server, reason);
        let (code, told) = howdah(&server, &["restart", "site"]);
        assert!(code != Some(0) && told.contains("it continues unchanged"), "{told}");
        fs::write(&path, &good).unwrap();
        let (code, told) = howdah(&server, &["reload"]);
        assert_eq!(code, Some(0), "{told}");
        assert_eq!(server.get("/a.php").text(), "hello", "{mistake}");
    }
    assert_eq!(howdah(&server, &["status", "--problems"]).1, "No problems.\n");
}

#[test]
fn what_was_mended_outside_the_document_counts_with_the_next_reload() {
    let server = serve(json!({}));
    assert_eq!(server.get("/a.php").text(), "hello");
    let later = server.site.root().with_file_name("later");
    let root = json!({"root": later.display().to_string()});
    change(&server, |site| harness::merge(site, root));
    goes_on_despite(&server, "later cannot be used");
    fs::create_dir(&later).unwrap();
    fs::write(later.join("a.php"), "<?php echo 'from there';").unwrap();
    harness::open_to_all(&later, 0o755);
    harness::open_to_all(&later.join("a.php"), 0o644);
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));
    assert_eq!(server.get("/a.php").text(), "from there");
}

#[test]
fn a_missing_worker_script_does_not_end_an_application_that_serves() {
    let server = serve(json!({"worker": {"script": "w.php"}}));
    assert_eq!(server.get("/a.php").text(), "hello");
    change(&server, |site| site["worker"]["script"] = json!("typo.php"));
    goes_on_despite(&server, "typo.php");
}

#[test]
fn an_application_that_did_not_serve_is_named_by_the_reload_itself() {
    let server = serve(json!({}));
    change(&server, |site| site["user"] = json!("nobody-at-all"));
    let (code, told) = howdah(&server, &["reload"]);
    assert!(code == Some(4) && told.contains("there is no user \"nobody-at-all\""), "{told}");
    assert_eq!(server.get("/other/").text(), "hello");

    // A removed application does not work again.
    let path = server.site.root().with_file_name("config.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    document["applications"].as_object_mut().unwrap().remove("site");
    document["routes"].as_array_mut().unwrap().pop();
    fs::write(path, document.to_string()).unwrap();
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));
    let log = server.wait_for_log("application \"site\" is no longer in the configuration");
    assert!(!log.contains("works again"), "{log}");
}
