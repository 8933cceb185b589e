//! Applications whose start hangs delay no other one.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use harness::client::Client;
use harness::control::Answer;
use harness::hanging::HangingFiles;
use harness::time::Stopwatch;
use harness::{Server, Site, eventually, free_address, merge, open_to_all, programs};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

/// The time within which something ends that does not wait for an application, on a machine that is
/// busy. One that waited took 60 seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A site with a script and a control API, and applications that have a `php.ini` of their own.
struct Served {
    server: Server,
    directory: PathBuf,
}

impl Served {
    /// Serves these applications beside `site`, each with a `php.ini` and one worker.
    fn new(names: &[&str]) -> Served {
        let site = Site::script("a.php", "echo getmypid(), ' ', ini_get('user_agent');").workers(1);
        let directory = site.root().with_file_name("ini");
        fs::create_dir(&directory).unwrap();
        open_to_all(&directory, 0o755);
        let control = format!("unix:{}", site.control_socket().display());
        let site = site.argument("--control").argument(&control);
        let mut document = json!({"applications": {}, "routes": []});
        for name in names {
            write_ini(&directory, name, "");
            let application = application(&site.root(), &directory.join(name));
            document["applications"][name] = application;
        }
        document["routes"] = routes(names);
        Served { server: site.with(document).serve(), directory }
    }

    fn ini(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn application(&self, name: &str) -> Value {
        application(&self.server.site.root(), &self.ini(name))
    }

    /// Changes the document on the disk.
    fn write(&self, change: impl FnOnce(&mut Value)) {
        let path = self.server.site.root().with_file_name("config.json");
        let mut document = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut document);
        fs::write(path, document.to_string()).unwrap();
    }

    fn reload(&self) -> Output {
        let control = format!("unix:{}", self.server.site.control_socket().display());
        let mut command = Command::new(programs::howdah());
        within_patience(|| command.args(["reload", "--control", &control]).output().unwrap())
    }

    fn put(&self, target: &str, value: &Value) -> Answer {
        within_patience(|| self.server.control("PUT", target, value.to_string()))
    }

    /// Returns the answer of an application.
    fn get(&self, name: &str) -> (u16, String) {
        let response = self.server.get(&format!("/{name}/a.php"));
        (response.status, response.text().to_owned())
    }

    fn is_out(&self, name: &str) -> bool {
        let status = self.server.control("GET", "/status", "").succeeded();
        let parts = status.get("out").and_then(Value::as_array).cloned().unwrap_or_default();
        parts.iter().any(|part| part["kind"] == "application" && part["name"] == name)
    }
}

/// Returns true if a reload is done, whether it names a part that is out or not yet.
fn is_done(output: &Output) -> bool {
    matches!(output.status.code(), Some(0 | 4))
}

fn within_patience<T>(work: impl FnOnce() -> T) -> T {
    let begun = Stopwatch::start();
    let done = work();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    done
}

fn write_ini(directory: &Path, name: &str, agent: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("user_agent = \"{agent}\"\n")).unwrap();
    open_to_all(&path, 0o644);
}

fn application(root: &Path, ini: &Path) -> Value {
    json!({"type": "php", "root": root, "script": "a.php", "processes": 1,
        "options": {"file": ini}})
}

/// Routes to applications, and to the additions of a test.
fn routes(names: &[&str]) -> Value {
    let step = |name: &&str| {
        let action = json!({"pass": format!("applications/{name}")});
        json!({"match": {"uri": format!("/{name}/*")}, "action": action})
    };
    let mut steps: Vec<_> = names.iter().map(step).collect();
    steps.push(json!({"action": {"pass": "applications/site"}}));
    steps.into()
}

/// Puts a step in front of the routes of a document.
fn add_step(document: &mut Value, uri: &str) {
    let step = json!({"match": {"uri": uri}, "action": {"return": 204}});
    document["routes"].as_array_mut().unwrap().insert(0, step);
}

#[test]
fn a_php_ini_that_is_no_file_is_refused_at_once() {
    let served = Served::new(&[]);
    let fifo = served.ini("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    for file in [fifo.as_path(), Path::new("/dev/zero")] {
        let application = application(&served.server.site.root(), file);
        let answer = served.put("/config/applications/new", &application);
        let expected =
            format!("options/file: {} cannot be read: it is not a regular file", file.display());
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(answer.text("detail").contains(&expected), "{answer:?}");
    }
    let mut application = served.application("none");
    let admin = json!({"opcache.enable": "1", "opcache.preload": fifo});
    application["options"] = json!({"admin": admin});
    let answer = served.put("/config/applications/new", &application);
    let expected = "options/admin/opcache.preload: ";
    assert!(answer.text("detail").contains(expected), "{answer:?}");
    assert!(answer.text("detail").ends_with("is not a regular file"), "{answer:?}");
}

/// Lines of `php.ini` that name a file which PHP opens while it starts.
const NAMED: [(&str, &str); 5] = [
    ("preload", "opcache.preload"),
    ("blacklist", "opcache.blacklist_filename"),
    ("browscap", "browscap"),
    ("extension", "extension"),
    ("zend", "zend_extension"),
];

#[test]
fn a_file_that_php_ini_names_and_is_no_file_is_refused_at_once() {
    let served = Served::new(&[]);
    let fifo = served.ini("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    for (name, setting) in NAMED {
        fs::write(served.ini(name), format!("{setting} = {}\n", fifo.display())).unwrap();
        open_to_all(&served.ini(name), 0o644);
        let answer = served.put("/config/applications/new", &served.application(name));
        let expected = format!("{setting}: {} is not a regular file", fifo.display());
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(answer.text("detail").contains("options/file: "), "{answer:?}");
        assert!(answer.text("detail").ends_with(&expected), "{answer:?}");
    }
    // Several applications with the same settings share the start of PHP.
    let mut applications = json!({"site": served.application("good")});
    write_ini(&served.directory, "good", "");
    for (name, _) in NAMED {
        for number in [1, 2] {
            applications[format!("{name}{number}")] = served.application(name);
        }
    }
    served.write(|document| document["applications"] = applications);
    let output = served.reload();
    assert!(is_done(&output), "{output:?}");
    for (name, setting) in NAMED {
        for number in [1, 2] {
            let name = format!("{name}{number}");
            eventually(&format!("{name} is out"), || served.is_out(&name).then_some(()));
            let line = format!("application \"{name}\": options/file: ");
            let log = served.server.log();
            let line = log.lines().find(|text| text.contains(&line)).expect("it is named");
            assert!(line.contains(&format!("{setting}: ")), "{line}");
        }
    }
    assert_eq!(served.server.get("/a.php").status, 200);
    fs::remove_file(&fifo).unwrap();
    fs::write(&fifo, "").unwrap();
    open_to_all(&fifo, 0o644);
    for name in ["preload1", "blacklist2", "browscap1"] {
        eventually(&format!("{name} runs"), || (!served.is_out(name)).then_some(()));
    }
}

#[test]
fn an_application_that_does_not_start_holds_no_reload_and_no_change() {
    let served = Served::new(&[]);
    let before = served.server.get("/a.php").text().to_owned();
    write_ini(&served.directory, "hung", "");
    let Some(hanging) = HangingFiles::new(&[&served.ini("hung")]) else { return };
    served.write(|document| {
        document["applications"]["hung"] = served.application("hung");
        document["routes"] = routes(&["hung"]);
        add_step(document, "/new");
    });
    let output = served.reload();
    assert!(is_done(&output), "{output:?}");
    assert_eq!(served.server.get("/new").status, 204);
    assert_eq!(served.server.get("/a.php").text(), before, "the same process");
    // The directory is known to hang now, and delays no change.
    let step = json!([{"match": {"uri": "/api"}, "action": {"return": 201}}]);
    served.put("/config/routes", &step).succeeded();
    assert_eq!(served.server.get("/api").status, 201);
    served.write(|document| add_step(document, "/newer"));
    let output = served.reload();
    assert!(is_done(&output), "{output:?}");
    assert_eq!(served.server.get("/newer").status, 204);
    eventually("it is named", || served.is_out("hung").then_some(()));
    assert_eq!(served.get("hung").0, 503);
    let log = served.server.log();
    assert!(log.contains("application \"hung\": it has not started for 10 s"), "{log}");
    drop(hanging);
    eventually("it is served", || (served.get("hung").0 == 200).then_some(()));
    assert!(!served.is_out("hung"));
}

/// The first change is refused as its application does not start, and the second one does not wait
/// for long.
#[test]
fn a_change_waits_only_for_a_moment_for_one_whose_application_does_not_start() {
    let served = Served::new(&[]);
    write_ini(&served.directory, "hung", "");
    let Some(_hanging) = HangingFiles::new(&[&served.ini("hung")]) else { return };
    let hung = served.application("hung");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| served.put("/config/applications/hung", &hung));
        harness::time::sleep(Duration::from_millis(500));
        let routes = json!([{"action": {"return": 201}}]);
        served.put("/config/routes", &routes).succeeded();
        let refused = first.join().unwrap();
        assert_eq!(refused.status, 500, "{refused:?}");
        let detail = refused.text("detail");
        assert!(
            detail.contains("\"hung\" is not ready") && detail.contains("another change waits"),
            "{detail}"
        );
    });
    assert_eq!(served.server.get("/").status, 201);
}

#[test]
fn an_application_that_cannot_start_anew_keeps_its_processes_and_holds_no_other_restart() {
    let served = Served::new(&["hung", "other", "broken"]);
    let [hung, other, broken] = ["hung", "other", "broken"].map(|name| served.get(name));
    assert_eq!((hung.0, other.0, broken.0), (200, 200, 200));
    let fifo = served.ini("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    fs::write(served.ini("broken"), format!("extension = {}\n", fifo.display())).unwrap();
    for name in ["hung", "other"] {
        write_ini(&served.directory, name, "new");
    }
    let Some(hanging) = HangingFiles::new(&[&served.ini("hung")]) else { return };
    let output = served.reload();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "the document was taken over: {text}");
    let line = |part: &str| text.lines().any(|line| line.contains(part));
    assert!(
        line("application \"hung\": it continues unchanged: its new processes are not"),
        "{text}"
    );
    assert!(line("application \"broken\": its former processes continue"), "{text}");
    assert!(served.get("other").1.ends_with("new"), "it was restarted");
    assert_eq!((served.get("hung"), served.get("broken")), (hung, broken));
    assert!(["hung", "broken"].iter().all(|name| served.is_out(name)));
    // A restart that a command waits for delays no change, and no other restart.
    std::thread::scope(|scope| {
        let target = "/control/applications/hung/restart";
        let restart = scope.spawn(|| served.server.control("POST", target, ""));
        harness::time::sleep(Duration::from_millis(500));
        let target = "/control/applications/other/restart";
        within_patience(|| served.server.control("POST", target, "")).succeeded();
        let step = json!([{"action": {"return": 201}}]);
        served.put("/config/routes", &step).succeeded();
        assert!(!restart.is_finished(), "{:?}", restart.join());
        assert_eq!(served.server.get("/").status, 201);
        drop(hanging);
        restart.join().unwrap().succeeded();
    });
    let routes = routes(&["hung"]);
    served.put("/config/routes", &routes).succeeded();
    assert!(served.get("hung").1.ends_with("new"), "it was restarted");
    assert!(!served.is_out("hung"));
}

/// Applications whose start never returns until there is a file: in a preload script, and in a
/// worker script.
struct Endless {
    root: PathBuf,
    end: PathBuf,
}

impl Endless {
    const NAMES: [&str; 2] = ["preload", "worker"];

    /// Writes the scripts. The script of the others answers, and ends the wait with `?go`.
    fn new(site: Site) -> (Endless, Site) {
        let end = site.data().join("go");
        let waits = format!("while (!file_exists('{}')) usleep(20000);", end.display());
        let handles = "while (frankenphp_handle_request(fn() => print 'up'));";
        let answers = format!("isset($_GET['go']) && touch('{}'); echo 'up';", end.display());
        let site = site
            .file("a.php", format!("<?php {answers}"))
            .file("preload.php", format!("<?php {waits}"))
            .file("worker.php", format!("<?php {waits} {handles}"));
        (Endless { root: site.root(), end }, site)
    }

    /// Returns the applications, with others that start.
    fn applications(&self) -> Value {
        let php = json!({"type": "php", "root": self.root, "script": "a.php", "processes": 1});
        let mut all = json!({"one": php, "preload": php, "two": php, "worker": php});
        let preload = self.root.join("preload.php");
        all["preload"]["options"] = json!({"admin": {"opcache.preload": preload}});
        all["worker"]["worker"] = json!({"script": "worker.php"});
        all
    }

    fn routes() -> Value {
        routes(&["one", "two", "preload", "worker"])
    }

    /// Waits until a listener and an application answer.
    fn answered(address: SocketAddr, target: &str) {
        eventually(&format!("{target} is answered"), || {
            TcpStream::connect(address).ok()?;
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let response = Client::connect(address).send(request).response();
            (response.status == 200 && response.text() == "up").then_some(())
        });
    }
}

#[test]
fn a_start_serves_the_others_while_applications_hang() {
    let (endless, site) = Endless::new(Site::new());
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let site =
        site.with(json!({"applications": endless.applications(), "routes": Endless::routes()}));
    let address = free_address();
    // The others answer before the server has told that it has started.
    let server = std::thread::scope(|scope| {
        let answered = scope.spawn(|| {
            Endless::answered(address, "/one/");
            Endless::answered(address, "/two/?go");
        });
        let server = site.serve_at(&address.to_string());
        answered.join().unwrap();
        server
    });
    for name in Endless::NAMES {
        Endless::answered(address, &format!("/{name}/"));
    }
    let log = server.log();
    assert!(!log.contains("not ready"), "the start has waited for them:\n{log}");
}

#[test]
fn a_reload_serves_new_applications_while_others_hang() {
    let (endless, site) = Endless::new(Site::script("index.php", ""));
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let server = site.with(json!({"routes": [{"action": {"return": 404}}]})).serve();
    let served = Served { directory: endless.root.clone(), server };
    served.write(|document| {
        merge(&mut document["applications"], endless.applications());
        document["routes"] = Endless::routes();
    });
    std::thread::scope(|scope| {
        let reload = scope.spawn(|| served.reload());
        Endless::answered(served.server.address, "/one/");
        Endless::answered(served.server.address, "/two/?go");
        let output = reload.join().unwrap();
        assert!(is_done(&output), "{output:?}");
    });
    for name in Endless::NAMES {
        Endless::answered(served.server.address, &format!("/{name}/"));
    }
    let log = served.server.log();
    assert!(!log.contains("not ready"), "the reload has waited for them:\n{log}");
}

/// A repaired application is used at once, although the start before would continue for a minute.
#[test]
fn a_script_that_never_returned_is_started_again_once_it_has_changed() {
    let (endless, site) = Endless::new(Site::new());
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let document = json!({"applications": endless.applications(), "routes": Endless::routes()});
    let served = Served { directory: endless.root.clone(), server: site.with(document).serve() };
    eventually("it is named", || served.is_out("worker").then_some(()));
    let handles = "<?php while (frankenphp_handle_request(fn() => print 'up'));";
    let script = endless.root.join("worker.php");
    fs::write(&script, handles).unwrap();
    Endless::answered(served.server.address, "/worker/");
    let line = format!("its start is ended, and begins again: {} has changed", script.display());
    let log = served.server.log();
    assert!(log.contains(&line), "{log}");
    assert!(!log.contains("\"preload\" application: its start is ended"), "{log}");
}

/// A preload script and a worker script that never return cost only their own requests.
#[test]
fn scripts_of_the_start_that_never_return_are_named_and_recover() {
    let (endless, site) = Endless::new(Site::new());
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let document = json!({"applications": endless.applications(), "routes": Endless::routes()});
    let served = Served { directory: endless.root.clone(), server: site.with(document).serve() };
    for name in Endless::NAMES {
        eventually(&format!("{name} is named"), || served.is_out(name).then_some(()));
        assert_eq!(served.get(name).0, 503);
        let line = format!(
            "application \"{name}\": it has not started for 10 s: PHP, its extensions or the \
             {name} script {}",
            endless.root.join(format!("{name}.php")).display()
        );
        assert!(served.server.log().contains(&line), "{}", served.server.log());
    }
    assert_eq!(served.get("one").0, 200);
    fs::write(&endless.end, "").unwrap();
    for name in Endless::NAMES {
        Endless::answered(served.server.address, &format!("/{name}/"));
        assert!(!served.is_out(name));
    }
}
