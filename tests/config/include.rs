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
    let routes = json!([{"match": {"uri": "/main"}, "action": {"return": 204}}, {"action": {"pass": "routes/a"}}]);
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

    // A part of a file, or what contains one, is not changed.
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
    // Another part is.
    server.put("/config/routes/main/0/action/return", &json!(205));
    assert_eq!((server.get("/main").status, server.get("/").status), (205, 201));

    fs::write(&file, "{\n  \"routes\": {\n    \"a\": [{\"action\": {\"retrun\": 202}}]\n  }\n}")
        .unwrap();
    let refused = error(&howdah(&server, &["reload"]));
    let expected = format!(
        "{}: line 3, column 22: /routes/a/0/action: unknown key \"retrun\"",
        file.display()
    );
    assert!(refused.contains(&expected), "{refused}");
    assert_eq!(server.get("/").status, 201);
    let document = server.site.root().with_file_name("config.json").display().to_string();
    let checked = error(&howdah(&server, &["check", "--syntax", &document]));
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
