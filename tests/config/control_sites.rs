//! Sites that are sent to the control API as an object: what requests and commands do with them,
//! and what stays as it was.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use harness::client::Response;
use harness::hanging::HangingMount;
use harness::{Server, Site, eventually, programs, requirements};
use rustix::process::Signal;
use serde_json::{Value, json};

const SCRIPT: &str = "<?php echo getmypid(), ' ', getenv('WORD'), ' ', $_SERVER['HTTP_HOST'];";

/// A server with an empty configuration, but for the address of its sites.
fn serving() -> Server {
    let server = Site::new().controlled().serve();
    for name in ["one", "two"] {
        fs::create_dir(directory(&server.site, name)).unwrap();
        fs::write(directory(&server.site, name).join("index.php"), SCRIPT).unwrap();
    }
    server.put("/config/defaults", &json!({"listen": server.address.to_string()}));
    server
}

fn directory(site: &Site, name: &str) -> PathBuf {
    site.root().with_file_name(name)
}

fn values(server: &Server, name: &str, word: &str) -> Value {
    json!({
        "hosts": format!("{name}.example"),
        "root": directory(&server.site, name),
        "php": {"processes": 1},
        "environment": {"WORD": word},
    })
}

fn get(server: &Server, name: &str) -> Response {
    let request = format!("GET / HTTP/1.1\r\nHost: {name}.example\r\nConnection: close\r\n\r\n");
    server.connect().send(request).response()
}

/// What the script of a site says: its process and the variable.
fn said(server: &Server, name: &str) -> (String, String) {
    let response = get(server, name);
    assert_eq!(response.status, 200, "{name}: {}", response.text());
    let text = response.text();
    let words: Vec<_> = text.split(' ').collect();
    assert_eq!(words[2], format!("{name}.example"));
    (words[0].to_owned(), words[1].to_owned())
}

fn refused(server: &Server, method: &str, target: &str, body: &Value) -> String {
    let answer = server.control(method, target, body.to_string());
    assert_eq!(answer.status, 400, "{answer:?}");
    answer.text("detail").to_owned()
}

fn run(server: &Server, words: &[&str]) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    command.args(&words[..1]).args(["--control", &control]).args(&words[1..]).output().unwrap()
}

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn sites_are_put_read_changed_and_deleted() {
    let server = serving();
    let one = values(&server, "one", "first");
    server.put("/config/sites/one", &one);
    let (pid, word) = said(&server, "one");
    assert_eq!(word, "first");
    server.put("/config/sites/two", &values(&server, "two", "second"));
    assert_eq!(said(&server, "two").1, "second");
    server.put("/config/sites/two/environment/WORD", &json!("third"));
    assert_eq!(said(&server, "two").1, "third");
    let config = server.control("GET", "/config", "").succeeded();
    let expected = json!({
        "listeners": {},
        "routes": {},
        "applications": {},
        "defaults": {"listen": server.address.to_string()},
        "sites": {"one": one, "two": values(&server, "two", "third")},
    });
    assert_eq!(config, expected);
    assert_eq!(server.control("GET", "/config/sites/one", "").body, one);
    assert_eq!(server.control("GET", "/", "").body["config"], expected);
    let compiled = server.control("GET", "/control/compiled", "").succeeded();
    assert_eq!(compiled["applications"]["two"]["environment"]["WORD"], "third");
    // What was read can be sent again.
    server.put("/config", &config);
    assert_eq!(server.control("GET", "/config", "").body, expected);
    server.control("DELETE", "/config/sites/two", "").succeeded();
    assert_eq!(get(&server, "two").status, 404);
    assert_eq!(server.control("GET", "/config/sites/two", "").status, 404);
    assert_eq!(said(&server, "one").0, pid, "no change of another site restarts its PHP");
    // Parts of the document itself stand beside sites.
    server.put("/config/routes/default", &json!([{"action": {"return": 418}}]));
    assert_eq!(get(&server, "two").status, 418);
    server.control("DELETE", "/config/sites", "").succeeded();
    server.control("DELETE", "/config/defaults", "").succeeded();
    let left = json!({
        "listeners": {},
        "routes": {"default": [{"action": {"return": 418}}]},
        "applications": {},
    });
    assert_eq!(server.control("GET", "/config", "").body, left);
    assert_eq!(server.control("GET", "/control/compiled", "").body, left);
}

#[test]
fn a_change_with_a_mistake_is_refused_as_a_whole() {
    let server = serving();
    server.put("/config/sites/one", &values(&server, "one", "first"));
    let before = server.control("GET", "/control/compiled", "").succeeded();
    let mut missing = values(&server, "two", "");
    missing["root"] = json!("/nonexistent");
    let mut unknown = values(&server, "two", "");
    unknown["rot"] = json!(1);
    let mut target = values(&server, "two", "");
    target["routes"] = json!([{"action": {"pass": "routes/none"}}]);
    let mut taken = values(&server, "two", "");
    taken["hosts"] = json!(["two.example", "one.example"]);
    let mut secret = values(&server, "two", "");
    secret["environment"]["WORD"] = json!({"file": "/etc/shadow"});
    secret["php"] = json!({"shared": true});
    for (value, detail) in [
        (&missing, "/sites/two/root: "),
        (&unknown, "/sites/two: unknown key \"rot\"; did you mean \"root\"?"),
        (&target, "/sites/two/routes/0/action/pass: "),
        (&taken, "/sites/two/hosts/1: \"one.example\" is in /sites/one as well"),
        (&secret, "/sites/two/environment/WORD: /etc/shadow: files are read for sites in files"),
        (&json!("sites/two.json"), "/sites/two: a site must be an object"),
    ] {
        let problem = refused(&server, "PUT", "/config/sites/two", value);
        assert!(problem.starts_with(detail), "{detail}: {problem}");
    }
    let answer = server.control("PUT", "/config/sites/two", missing.to_string());
    assert_eq!(answer.body["location"], json!({"path": "/sites/two/root"}));
    for (method, target, value, detail) in [
        ("PUT", "/config/sites", json!("sites/*.json"), "/sites: must be an object of sites"),
        ("PUT", "/config/defaults", json!({"limit": 1}), "/defaults: unknown key \"limit\""),
        ("PUT", "/config/routes/one", json!([]), "/routes/one is made from /sites/one; change /c"),
        ("DELETE", "/config/applications/one", json!(null), "/applications/one is made from"),
        ("PUT", "/config/include", json!("/etc/shadow"), "/include: file \"/etc/shadow\" cannot"),
        (
            "PUT",
            "/config/variables",
            json!({"x": {"map": "$host", "values": "/etc/shadow"}}),
            "/variables/x/values: file \"/etc/shadow\" cannot be read for this document",
        ),
    ] {
        let problem = refused(&server, method, target, &value);
        assert!(problem.starts_with(detail), "{target}: {problem}");
    }
    // Files of the directory that lead out of it give nothing away.
    let two = directory(&server.site, "two");
    let secret = server.site.data().join("secret");
    fs::write(&secret, "canary\nRequire canary\n").unwrap();
    for name in ["composer.json", ".htaccess", ".user.ini", "artisan"] {
        symlink(&secret, two.join(name)).unwrap();
    }
    let answer = server.control("PUT", "/config/sites/two", values(&server, "two", "").to_string());
    let compiled = server.control("GET", "/control/compiled", "").body.to_string();
    assert!(!answer.body.to_string().contains("canary") && !compiled.contains("canary"));
    if answer.status == 200 {
        server.control("DELETE", "/config/sites/two", "").succeeded();
    }
    assert_eq!(server.control("GET", "/control/compiled", "").body, before);
    assert_eq!(said(&server, "one").1, "first");
}

#[test]
fn sites_stay_over_restarts_and_a_reload_looks_at_their_directories() {
    let server = serving();
    let two = directory(&server.site, "two");
    fs::rename(two.join("index.php"), two.join("later")).unwrap();
    fs::write(two.join("index.html"), "static").unwrap();
    for name in ["one", "two"] {
        server.put(&format!("/config/sites/{name}"), &values(&server, name, name));
    }
    assert_eq!(get(&server, "two").text(), "static");
    let config = server.control("GET", "/config", "").succeeded();
    let address = server.address.to_string();
    // A change of another part does not fail because of a site that it does not change.
    let gone = directory(&server.site, "gone");
    fs::rename(&two, &gone).unwrap();
    let problem = refused(&server, "PUT", "/config/sites/two/environment/WORD", &json!("new"));
    assert!(problem.starts_with("/sites/two/root: "), "{problem}");
    server.put("/config/routes/default", &json!([{"action": {"return": 418}}]));
    let answer = server.control("POST", "/control/reload", "").succeeded();
    let out = &answer["out"][0];
    assert_eq!((&out["kind"], &out["name"]), (&json!("site"), &json!("two")), "{answer}");
    let listed = printed(&run(&server, &["site", "list"]));
    assert!(listed.contains("former") && listed.contains("two: "), "{listed}");
    fs::rename(&gone, &two).unwrap();
    server.control("DELETE", "/config/routes/default", "").succeeded();
    assert_eq!(server.control("GET", "/status/out", "").status, 404, "nothing is out");
    assert_eq!(get(&server, "two").text(), "static");
    // What has vanished meanwhile concerns nothing at the next start.
    fs::rename(&two, &gone).unwrap();
    let (_, site) = server.end(Signal::TERM);
    fs::rename(&gone, &two).unwrap();
    let server = site.serve_at(&address);
    assert_eq!(server.control("GET", "/config", "").succeeded(), config);
    let (pid, word) = said(&server, "one");
    assert_eq!((word.as_str(), get(&server, "two").text().as_str()), ("one", "static"));
    fs::remove_file(two.join("index.html")).unwrap();
    fs::rename(two.join("later"), two.join("index.php")).unwrap();
    server.control("POST", "/control/reload", "").succeeded();
    assert_eq!(said(&server, "two").1, "two");
    assert_eq!(said(&server, "one").0, pid);
    assert_eq!(server.control("GET", "/config", "").succeeded(), config);
}

/// Scenario: a network drive goes away.
#[test]
fn a_root_that_does_not_answer_refuses_no_change_of_another_site() {
    if !requirements::root() {
        return;
    }
    let server = serving();
    for name in ["one", "two"] {
        server.put(&format!("/config/sites/{name}"), &values(&server, name, name));
    }
    let Some(hanging) = HangingMount::new(&directory(&server.site, "two")) else { return };
    server.put("/config/sites/one/environment/WORD", &json!("new"));
    assert_eq!(said(&server, "one").1, "new");
    let out = server.control("GET", "/status/out", "").succeeded();
    let is_it = |part: &&Value| part["kind"] == "site" && part["name"] == "two";
    assert!(out.as_array().unwrap().iter().any(|part| is_it(&part)), "{out}");
    let problem = refused(&server, "PUT", "/config/sites/two/environment/WORD", &json!("new"));
    let root = directory(&server.site, "two").display().to_string();
    let expected = format!("/sites/two/root: {root}: its file system has not answered for 5 s");
    assert!(problem.starts_with(&expected), "{problem}");
    drop(hanging);
    server.put("/config/sites/two/environment/WORD", &json!("new"));
    assert_eq!(said(&server, "two").1, "new");
}

#[test]
fn commands_show_such_sites_and_say_how_to_change_them() {
    let server = serving();
    let none = run(&server, &["site", "list"]);
    assert_eq!(
        printed(&none),
        "the configuration of the control API has no sites; howdah config \
                               set sites/NAME @FILE adds one.\n"
    );
    let file = server.site.data().join("site.json");
    fs::write(&file, values(&server, "one", "first").to_string()).unwrap();
    printed(&run(&server, &["config", "set", "sites/one", &format!("@{}", file.display())]));
    let (pid, _) = said(&server, "one");
    let listed: Value =
        serde_json::from_str(&printed(&run(&server, &["site", "list", "--json"]))).unwrap();
    let row = &listed[0];
    assert_eq!((&row["name"], &row["state"]), (&json!("one"), &json!("loaded")), "{row}");
    assert!(row["php"].is_string() && row["memory"].is_number(), "{row}");
    let shown = printed(&run(&server, &["site", "show", "one"]));
    assert!(shown.starts_with("the configuration of the control API, /sites/one:\n"), "{shown}");
    assert!(shown.contains("hosts: one.example\n") && shown.contains("application one: "));
    let expanded: Value =
        serde_json::from_str(&printed(&run(&server, &["site", "expand", "one"]))).unwrap();
    assert_eq!(expanded["applications"]["one"]["environment"]["WORD"], "first");
    assert_eq!(expanded["variables"]["site"]["values"], json!({"one.example": "one"}));
    assert_eq!(printed(&run(&server, &["site", "check", "--syntax"])), "The site is valid.\n");
    for (words, advice) in [
        (&["site", "edit", "one"][..], "howdah config edit sites/one"),
        (&["site", "disable", "one"], "howdah config edit sites/one"),
        (&["site", "remove", "one"], "howdah config edit sites/one"),
        (&["site", "rename", "one", "two"], "howdah config edit sites/one"),
        (&["site", "add", "x.example", "--root", "/srv/x"], "howdah config set sites/NAME"),
    ] {
        let output = run(&server, words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && text.contains(advice), "{words:?}: {text}");
    }
    printed(&run(&server, &["ping", "--ready"]));
    assert_eq!(printed(&run(&server, &["site", "restart", "one"])), "one: restarted\n");
    eventually("another process", || (said(&server, "one").0 != pid).then_some(()));
}
