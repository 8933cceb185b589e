//! Documents that cannot be used, or not as a whole: the rest is served, or the last valid
//! document.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::{Server, Site, eventually, programs};
use rustix::process::Signal;
use serde_json::{Value, json};

const CUSTOMERS: [&str; 3] = ["a", "b", "c"];

/// A document that includes a file of each customer.
fn site() -> Site {
    let site = Site::new();
    let directory = site.root().with_file_name("conf.d");
    fs::create_dir(&directory).unwrap();
    for name in CUSTOMERS {
        fs::write(directory.join(format!("{name}.json")), customer(name, 201)).unwrap();
    }
    let control = format!("unix:{}", site.control_socket().display());
    let step = |name: &str| {
        json!({"match": {"uri": format!("/{name}")},
        "action": {"pass": format!("routes/{name}")}})
    };
    let mut steps: Vec<Value> = CUSTOMERS.map(step).into();
    steps.push(json!({"action": {"return": 204}}));
    site.argument("--control").argument(&control).with(json!({
        "include": CUSTOMERS.map(|name| format!("conf.d/{name}.json")),
        "routes": {"main": steps},
    }))
}

fn customer(name: &str, status: u16) -> String {
    json!({"routes": {name: [{"action": {"return": status}}]}}).to_string()
}

fn serve(site: Site) -> Server {
    let address = harness::free_address().to_string();
    site.with(json!({"listeners": {&address: {"pass": "routes/main"}}})).serve_at(&address)
}

fn document_of(site: &Site) -> PathBuf {
    site.root().with_file_name("config.json")
}

fn file(site: &Site, name: &str) -> PathBuf {
    site.root().with_file_name("conf.d").join(format!("{name}.json"))
}

fn statuses(server: &Server) -> [u16; 4] {
    ["/a", "/b", "/c", "/"].map(|target| server.get(target).status)
}

/// The files that are left out, as the status has them.
fn left_out(server: &Server) -> Vec<String> {
    let status = server.control("GET", "/status", "").succeeded();
    let parts = status.get("out").and_then(Value::as_array).cloned().unwrap_or_default();
    let includes = parts.iter().filter(|part| part["kind"] == "include");
    includes.map(|part| part["name"].as_str().unwrap().to_owned()).collect()
}

fn howdah(server: &Server, command: &str) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    Command::new(programs::howdah()).args([command, "--control", &control]).output().unwrap()
}

fn check(document: &Path) -> Output {
    Command::new(programs::howdah()).args(["check", "--syntax"]).arg(document).output().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

#[test]
fn a_broken_file_of_one_customer_concerns_no_other_one_at_a_start() {
    for broken in [Some("{"), Some(r#"{"routes": {"b": [{"action": {"retrun": 1}}]}}"#), None] {
        let site = site();
        let path = file(&site, "b");
        match broken {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let server = serve(site);
        assert_eq!(statuses(&server), [201, 503, 201, 204], "{broken:?}");
        server.wait_for_log("b.json\" is left out of the configuration: ");
        assert_eq!(left_out(&server), [path.display().to_string()]);
        let shown = text(&howdah(&server, "status"));
        assert!(shown.contains("b.json") && shown.contains("503"), "{shown}");
        let line = shown.lines().find(|line| line.starts_with("OUT")).unwrap();
        assert_eq!(line.matches("b.json").count(), 1, "{line}");
        assert!(!check(&document_of(&server.site)).status.success());

        // The site recovers by itself.
        fs::write(&path, customer("b", 202)).unwrap();
        eventually("the file is used", || (server.get("/b").status == 202).then_some(()));
        assert_eq!(statuses(&server), [201, 202, 201, 204]);
        server.wait_for_log("b.json\" works again");
        eventually("nothing is out", || left_out(&server).is_empty().then_some(()));
        assert!(check(&document_of(&server.site)).status.success());
    }
}

#[test]
fn a_file_that_breaks_keeps_its_former_content_over_a_reload() {
    let server = serve(site());
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    let (a, b) = (file(&server.site, "a"), file(&server.site, "b"));
    fs::write(&a, customer("a", 202)).unwrap();
    fs::write(&b, "{ broken").unwrap();
    let reloaded = howdah(&server, "reload");
    assert_eq!(reloaded.status.code(), Some(4), "{reloaded:?}");
    let lines = text(&reloaded);
    let told: Vec<_> = lines.lines().filter(|line| line.contains("b.json")).collect();
    assert!(told.len() == 1 && told[0].starts_with("howdah: OUT since "), "{lines}");
    assert!(told[0].contains("its former content stays in use"), "{lines}");
    assert_eq!(statuses(&server), [202, 201, 201, 204], "the other change counts");
    let log = server.wait_for_log("b.json\" is left out");
    assert!(log.contains("its former content stays in use"), "{log}");
    // Another change of the API does not lose it, and is not undone when the file is mended.
    let mut steps = server.control("GET", "/config/routes/main", "").succeeded();
    steps[3]["action"]["return"] = json!(206);
    server.put("/config/routes/main", &steps);
    assert_eq!(statuses(&server), [202, 201, 201, 206]);
    fs::write(&b, customer("b", 203)).unwrap();
    server.wait_for_log("b.json can be used again, but");
    assert_eq!(statuses(&server), [202, 201, 201, 206]);
    assert!(howdah(&server, "reload").status.success());
    assert_eq!(statuses(&server), [202, 203, 201, 204]);
}

#[test]
fn a_mended_file_is_used_while_the_edit_of_another_waits_for_a_reload() {
    let site = site();
    let (a, b) = (file(&site, "a"), file(&site, "b"));
    fs::write(&b, "{").unwrap();
    let server = serve(site);
    assert_eq!(statuses(&server), [201, 503, 201, 204]);
    fs::write(&a, customer("a", 202)).unwrap();
    fs::write(&b, customer("b", 203)).unwrap();
    eventually("the mended file is used", || (server.get("/b").status == 203).then_some(()));
    assert_eq!(statuses(&server), [201, 203, 201, 204], "the edit waits");
    eventually("nothing is out", || left_out(&server).is_empty().then_some(()));
    assert!(howdah(&server, "reload").status.success());
    assert_eq!(statuses(&server), [202, 203, 201, 204]);
}

#[test]
fn a_document_that_cannot_be_read_is_refused_by_a_reload_and_told_until_it_is_mended() {
    let server = serve(site());
    let path = document_of(&server.site);
    let good = fs::read(&path).unwrap();
    fs::write(&path, "{").unwrap();
    let reloaded = howdah(&server, "reload");
    assert_eq!(reloaded.status.code(), Some(1), "{reloaded:?}");
    let refused = server.control("GET", "/status/document/refused", "").succeeded();
    let since = refused["since"].clone();
    assert!(since.as_str().unwrap().ends_with('Z'), "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("line 1"), "{refused}");
    let shown = text(&howdah(&server, "status"));
    assert!(shown.contains("document on disk refused since"), "{shown}");
    // By a signal, too; the time is that of the first refusal.
    fs::write(&path, "[]").unwrap();
    server.signal(Signal::HUP);
    eventually("the reason is the new one", || {
        let refused = server.control("GET", "/status/document/refused", "").succeeded();
        assert_eq!(refused["since"], since);
        refused["reason"].as_str().unwrap().contains("object").then_some(())
    });
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    // An upgrade takes the document that is served, and the time.
    let old = server.upgrade();
    server.wait_for_end_of(old);
    let refused = server.control("GET", "/status/document/refused", "").succeeded();
    assert_eq!(refused["since"], since);
    assert!(refused["reason"].as_str().unwrap().contains("object"), "{refused}");
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    fs::write(&path, good).unwrap();
    assert!(howdah(&server, "reload").status.success());
    assert_eq!(server.control("GET", "/status", "").succeeded().get("document"), None);
}

#[test]
fn a_start_with_a_document_that_cannot_be_read_serves_the_one_that_was_good_last() {
    let site = site();
    let state = site.state();
    let site = site.argument("--state").argument(state.to_str().unwrap());
    let server = serve(site);
    let address = server.address.to_string();
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    eventually("the document is kept", || state.join("served.json").exists().then_some(()));
    let (_, site) = server.end(Signal::QUIT);
    let path = document_of(&site);
    let good = fs::read(&path).unwrap();
    // Customer b breaks as well: the former content is in the kept document.
    fs::write(file(&site, "b"), "{").unwrap();
    for broken in ["{", "[]", r#"{"listeners": 1}"#] {
        fs::write(&path, broken).unwrap();
    }
    let server = site.serve_again(&address);
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    let log = server.wait_for_log("the document is refused");
    assert!(log.contains("[alert]"), "{log}");
    let refused = server.control("GET", "/status/document/refused", "").succeeded();
    assert!(refused["reason"].as_str().unwrap().contains("listeners"), "{refused}");
    fs::write(&path, &good).unwrap();
    assert_eq!(howdah(&server, "reload").status.code(), Some(4), "a file is broken");
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    let (_, site) = server.end(Signal::QUIT);

    // At a start a file that is broken keeps its former content, too.
    let server = site.serve_again(&address);
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    eventually("the file is named", || (left_out(&server).len() == 1).then_some(()));
    let (_, site) = server.end(Signal::QUIT);

    // Not if that is wanted.
    let mut command = site.command(&address);
    fs::write(&path, good).unwrap();
    let output = command.arg("--strict").output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(text(&output).contains("b.json"), "{output:?}");
}

#[test]
fn without_a_state_a_document_that_cannot_be_read_is_refused() {
    let site = site();
    let mut command = site.command("127.0.0.1:0");
    fs::write(document_of(&site), "{").unwrap();
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{output:?}");
}

#[test]
fn a_damaged_state_is_told_and_does_not_keep_the_server_from_starting() {
    let site = site();
    let state = site.state();
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("format"), "\0\0\0").unwrap();
    let server = serve(site.argument("--state").argument(state.to_str().unwrap()));
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    let log = server.wait_for_log("howdah state NUMBER");
    assert!(log.contains(state.join("format").to_str().unwrap()), "{log}");
    assert!(log.contains("restore it from a backup"), "{log}");
}

#[test]
fn a_stored_configuration_that_is_damaged_gives_way_to_the_one_that_was_served_last() {
    let server = Site::new().controlled().serve_at("127.0.0.1:0");
    let address = harness::free_address().to_string();
    let document = json!({
        "listeners": {address.as_str(): {"pass": "routes"}},
        "routes": [{"action": {"return": 203}}],
    });
    server.put("/config", &document);
    let state = server.site.state();
    let served = || fs::read_to_string(state.join("served.json")).unwrap_or_default();
    eventually("the document is kept", || served().contains("203").then_some(()));
    let (_, site) = server.end(Signal::QUIT);
    fs::write(state.join("conf.json"), &document.to_string()[..20]).unwrap();
    let server = site.serve_at("127.0.0.1:0");
    let mut client = harness::client::Client::connect(address.parse().unwrap());
    assert_eq!(client.get("/").status, 203);
    server.wait_for_log("the document is refused");
}

/// A file that is mended is used although its application cannot run yet: that is out alone then.
#[test]
fn a_mended_file_is_used_without_what_cannot_run() {
    let site = site();
    let path = file(&site, "b");
    fs::write(&path, "{").unwrap();
    let server = serve(site);
    assert_eq!(statuses(&server), [201, 503, 201, 204]);
    let application =
        json!({"type": "php", "root": "/", "user": "nobody-of-this-name", "processes": 1});
    let routes = json!({"b": [
        {"match": {"uri": "/b"}, "action": {"return": 202}},
        {"action": {"pass": "applications/b"}},
    ]});
    fs::write(&path, json!({"routes": routes, "applications": {"b": application}}).to_string())
        .unwrap();
    eventually("the file is used", || (server.get("/b").status == 202).then_some(()));
    server.wait_for_log("nobody-of-this-name");
}

/// A link that leads nowhere, as one to a site that was removed. Without it, no file is left out.
#[test]
fn a_link_that_leads_nowhere_is_out_until_it_is_removed_or_leads_to_a_file() {
    let site = site().with(json!({"include": "conf.d/*.json"}));
    let [link, other] = ["d", "e"].map(|name| file(&site, name));
    for link in [&link, &other] {
        std::os::unix::fs::symlink(link.with_extension("target"), link).unwrap();
    }
    let server = serve(site);
    let names = |links: &[&PathBuf]| {
        let links: Vec<_> = links.iter().map(|link| link.display().to_string()).collect();
        eventually(&format!("{links:?} are out"), || (left_out(&server) == links).then_some(()));
    };
    names(&[&link, &other]);
    fs::write(other.with_extension("target"), customer("e", 205)).unwrap();
    names(&[&link]);
    fs::remove_file(&link).unwrap();
    names(&[]);
    server.wait_for_log("d.json\" works again");
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
}

#[test]
fn a_directory_of_customers_that_is_gone_takes_no_site_down() {
    let with_pattern = |site: Site| site.with(json!({"include": "conf.d/*.json"}));
    let server = serve(with_pattern(site()));
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    let directory = file(&server.site, "a").parent().unwrap().to_owned();
    let away = directory.with_file_name("away");
    fs::rename(&directory, &away).unwrap();
    let pattern = directory.join("*.json").display().to_string();
    let reloaded = howdah(&server, "reload");
    let told = text(&reloaded);
    assert_eq!(reloaded.status.code(), Some(4), "{told}");
    assert!(told.contains(&pattern) && told.contains("there is no such directory"), "{told}");
    assert!(left_out(&server).contains(&pattern));
    server.wait_for_log("there is no such directory");
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
    let checked = check(&document_of(&server.site));
    assert!(text(&checked).contains("there is no such directory"), "{checked:?}");
    assert_eq!(checked.status.code(), Some(1));
    fs::rename(&away, &directory).unwrap();
    eventually("it is mended", || left_out(&server).is_empty().then_some(()));
    assert_eq!(statuses(&server), [201, 201, 201, 204]);
}

#[test]
fn names_of_a_missing_directory_are_answered_with_503() {
    let site = site().with(json!({"include": "missing/*.json"}));
    let server = serve(site);
    assert_eq!(statuses(&server), [503, 503, 503, 204]);
    server.wait_for_log("there is no such directory");
}

/// The stored state of a document is found by its absolute path.
#[test]
fn a_relative_path_names_the_same_files_after_a_restart() {
    let site = site().with(json!({"listeners": {"127.0.0.1:0": {"pass": "routes/main"}}}));
    let document = document_of(&site);
    let directory = document.parent().unwrap();
    let listen = harness::free_address().to_string();
    let text = json!({
        "include": "conf.d/*.json",
        "listeners": {&listen: {"pass": "routes/a"}},
    });
    fs::write(&document, text.to_string()).unwrap();
    let state = directory.join("kept");
    fs::create_dir(&state).unwrap();
    let start = || {
        let mut command = Command::new(programs::howdah());
        command.current_dir(directory).args(["serve", "--config", "config.json", "--no-control"]);
        let log = fs::File::create(directory.join("log")).unwrap();
        command.arg("--state").arg(&state).stderr(log).spawn().unwrap()
    };
    let answers = || {
        eventually("it answers", || std::net::TcpStream::connect(&listen).ok());
        harness::client::Client::connect(listen.parse().unwrap()).get("/").status
    };
    for broken in [false, true] {
        if broken {
            fs::write(file(&site, "a"), "{").unwrap();
        }
        let mut server = start();
        let status = answers();
        if !broken {
            eventually("it is kept", || fs::metadata(state.join("served.json")).ok());
        }
        let process = rustix::process::Pid::from_child(&server);
        rustix::process::kill_process(process, Signal::TERM).unwrap();
        server.wait().unwrap();
        let log = fs::read_to_string(directory.join("log")).unwrap();
        assert_eq!(status, 201, "{log}");
        assert!(!log.contains("works again"), "{log}");
    }
}

#[test]
fn a_document_that_is_a_fifo_is_refused_at_once() {
    let site = Site::new();
    let fifo = site.root().with_file_name("fifo.json");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let checked = check(&fifo);
    assert!(text(&checked).contains("fifo.json: it is not a regular file"), "{checked:?}");
    assert_eq!(checked.status.code(), Some(1));
}
