//! `include`: documents of several files.

use std::fs;
use std::process::{Command, Output};

use harness::{Server, Site, programs};
use serde_json::json;

/// A document that includes `conf.d/*.json` beside it.
fn site(files: &[(&str, &str)]) -> Site {
    let site = Site::new();
    let directory = site.root().with_file_name("conf.d");
    fs::create_dir(&directory).unwrap();
    for (name, text) in files {
        fs::write(directory.join(name), text).unwrap();
    }
    let control = format!("unix:{}", site.control_socket().display());
    let routes = json!([{"match": {"uri": "/main"}, "action": {"return": 204}},
        {"action": {"pass": "routes/a"}}]);
    site.argument("--control")
        .argument(&control)
        .with(json!({
            "include": "conf.d/*.json", "routes": null,
        }))
        .with(json!({"routes": {"main": routes}}))
}

fn serve(site: Site) -> Server {
    let address = harness::free_address().to_string();
    site.with(json!({"listeners": {&address: {"pass": "routes/main"}}})).serve_at(&address)
}

fn howdah(server: &Server, arguments: &[&str]) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    command.arg(arguments[0]);
    if arguments[0] == "reload" {
        command.args(["--control", &control]);
    }
    command.args(&arguments[1..]).output().unwrap()
}

fn error(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn parts_of_files_are_served_reloaded_and_owned_by_the_files() {
    let server = serve(site(&[
        ("a.json", r#"{"routes": {"a": [{"action": {"return": 201}}]}}"#),
        ("note.txt", "not read"),
    ]));
    assert_eq!((server.get("/main").status, server.get("/").status), (204, 201));
    let file = server.site.root().with_file_name("conf.d").join("a.json");
    let shown = server.control("GET", "/config", "").succeeded();
    assert_eq!(shown["included"], json!({"/routes/a": file.display().to_string()}));

    // A part of a file, or an object that contains one, is not changed.
    let change = json!([{"action": {"return": 202}}]).to_string();
    for (method, path) in [
        ("PUT", "/config/routes/a"),
        ("PUT", "/config/routes/a/0/action/return"),
        ("DELETE", "/config/routes/a"),
        ("PUT", "/config/routes"),
        ("DELETE", "/config"),
        ("DELETE", "/config/included"),
    ] {
        let answer = server.control(method, path, &change);
        assert_eq!(answer.status, 400, "{method} {path}");
        let detail = answer.text("detail");
        assert!(detail.contains("howdah reload"), "{method} {path}: {detail}");
        assert!(path.ends_with("included") || detail.contains("conf.d/a.json"), "{detail}");
    }
    // Sections of several files name them all; a document that is sent back as it was is no change.
    let whole = server.control("GET", "/config", "").succeeded();
    server.put("/config", &whole);
    let mut own = whole.clone();
    own.as_object_mut().unwrap().remove("included");
    own["routes"]["main"][0]["action"]["return"] = json!(206);
    server.put("/config", &own);
    assert_eq!(server.get("/main").status, 206);
    assert_eq!(server.control("GET", "/config/included", "").succeeded(), whole["included"]);
    // Another part is.
    server.put("/config/routes/main/0/action/return", &json!(205));
    assert_eq!((server.get("/main").status, server.get("/").status), (205, 201));

    fs::write(&file, "{\n  \"routes\": {\n    \"a\": [{\"action\": {\"retrun\": 202}}]\n  }\n}")
        .unwrap();
    // The rest of the document is taken over.
    let reloaded = howdah(&server, &["reload"]);
    assert_eq!(reloaded.status.code(), Some(4), "{reloaded:?}");
    let told = String::from_utf8_lossy(&reloaded.stderr).into_owned();
    let mistake = "line 3, column 22: /routes/a/0/action: unknown key \"retrun\"";
    let expected = format!("include \"{}\": {mistake}", file.display());
    assert!(told.contains(&expected), "{told}");
    assert_eq!((server.get("/main").status, server.get("/").status), (204, 201));
    let document = server.site.root().with_file_name("config.json").display().to_string();
    let checked = error(&howdah(&server, &["check", "--syntax", &document]));
    let expected = format!("{}: {mistake}", file.display());
    assert!(checked.contains(&expected), "{checked}");

    fs::write(&file, r#"{"routes": {"a": [{"action": {"return": 203}}]}}"#).unwrap();
    assert!(howdah(&server, &["reload"]).status.success());
    assert_eq!((server.get("/main").status, server.get("/").status), (204, 203));
    assert!(howdah(&server, &["check", "--syntax", &document]).status.success());
    let printed = howdah(&server, &["serve", "--print-config", "--config", &document]);
    let printed: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed["routes"]["a"], json!([{"action": {"return": 203}}]));
    assert!(printed.get("included").is_none() && printed.get("include").is_none());
}

#[test]
fn a_pattern_that_names_no_file_is_told_by_a_check_and_at_the_start() {
    let server = serve(site(&[]).logs_to_stderr().with(json!({"routes": {"a": []}})));
    let document = server.site.root().with_file_name("config.json");
    let pattern = document.with_file_name("conf.d").join("*.json");
    let part = format!(": /include: {} names no file", pattern.display());
    let told = |text: &str| {
        let start = format!("howdah: note: {}: line 1, column ", document.display());
        text.lines().filter(|line| line.contains(&start) && line.ends_with(&part)).count()
    };
    assert_eq!(told(&server.log()), 1, "{}", server.log());
    assert_eq!(server.get("/main").status, 204);
    let checked = howdah(&server, &["check", "--syntax", &document.display().to_string()]);
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(told(&String::from_utf8_lossy(&checked.stderr)), 1, "{checked:?}");
    fs::write(document.with_file_name("conf.d").join("b.json"), "{}").unwrap();
    assert!(howdah(&server, &["reload"]).status.success());
    assert_eq!(told(&server.log()), 1, "it has one now: {}", server.log());
}

#[test]
fn a_table_in_a_file_is_read_again_when_it_changes() {
    let site = site(&[("a.json", r#"{"routes": {"a": [{"action": {"return": 201}}]}}"#)]);
    let file = site.root().with_file_name("hosts.json");
    fs::write(&file, r#"{"a": "one"}"#).unwrap();
    let variables = json!({"place": {"map": "$host", "values": "hosts.json", "default": "none"}});
    let redirect = json!({"action": {"return": 302, "location": "/$place"}});
    let server = serve(
        site.with(json!({"variables": variables, "routes": null}))
            .with(json!({"routes": {"main": [redirect]}})),
    );
    let place = || server.get("/").field("Location").map(str::to_owned);
    assert_eq!(place().as_deref(), Some("/one"));

    // The rest of the document on the disk is not taken over, and changes through the API stay.
    fs::write(server.site.root().with_file_name("config.json"), "{").unwrap();
    server.put("/config/routes/main/0/action/return", &json!(307));
    fs::write(&file, r#"{"a": "two"}"#).unwrap();
    harness::eventually("the table is new", || (place().as_deref() == Some("/two")).then_some(()));
    server.wait_for_log("changed files of the configuration were read again");
    assert_eq!(server.get("/").status, 307);

    fs::write(&file, "{\n\"a\": \"$nothing\"}").unwrap();
    server.wait_for_log("are not taken over, the old content stays in use: ");
    server.wait_for_log("hosts.json: line 2, column 6: /variables/place/values/a: ");
    assert_eq!(place().as_deref(), Some("/two"));
    fs::remove_file(&file).unwrap();
    server.wait_for_log("hosts.json: there is no such file");
    let new = file.with_extension("new");
    fs::write(&new, r#"{"a": "three"}"#).unwrap();
    fs::rename(&new, &file).unwrap();
    harness::eventually("the table is new", || {
        (place().as_deref() == Some("/three")).then_some(())
    });

    let answer = server.control("PUT", "/config/included", "{\"/variables/place/values\": \"/x\"}");
    assert_eq!(answer.status, 400);
}
