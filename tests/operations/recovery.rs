//! Applications that cannot run, or lose their directories while they run: they are told, and are
//! back by themselves once that is mended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::hanging::HangingMount;
use harness::{Server, Site, eventually, open_to_all, programs, requirements};
use serde_json::{Value, json};

/// Runs a command of the server's control API.
fn howdah(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(arguments).args(["--control", &control]));
    let text =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    (output.status.code(), text)
}

/// Waits until `howdah status` names exactly these parts as out.
fn names(server: &Server, expected: &[&str]) {
    eventually(&format!("{expected:?} are out"), || {
        let (_, told) = howdah(server, &["status", "--problems"]);
        let lines = told.lines().filter(|line| line.contains("application \"")).count();
        let has = |name: &&str| told.contains(&format!("application \"{name}\""));
        (lines == expected.len() && expected.iter().all(has)).then_some(())
    });
}

/// Directories of sites, each with a script.
struct Sites {
    directory: PathBuf,
    names: Vec<&'static str>,
}

impl Sites {
    fn new(site: &Site, names: &[&'static str]) -> Sites {
        let directory = site.root().with_file_name("sites");
        let sites = Sites { directory, names: names.to_vec() };
        for name in names {
            fs::create_dir_all(sites.path(name)).unwrap();
            fs::write(sites.path(name).join("index.php"), format!("<?php echo '{name}';")).unwrap();
            open_to_all(&sites.path(name), 0o755);
        }
        open_to_all(&sites.directory, 0o755);
        sites
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the document of these, with changes of each application.
    fn document(&self, changes: impl Fn(&str) -> Value) -> Value {
        let step = |name: &str| {
            let action = json!({"pass": format!("applications/{name}"), "rewrite": "/index.php"});
            json!({"match": {"uri": format!("/{name}/*")}, "action": action})
        };
        let application = |name: &str| {
            let mut application =
                json!({"type": "php", "root": self.path(name), "script": "index.php"});
            harness::merge(&mut application, changes(name));
            application
        };
        let applications = self.names.iter().map(|name| ((*name).to_owned(), application(name)));
        json!({
            "routes": self.names.iter().map(|name| step(name)).collect::<Vec<_>>(),
            "applications": applications.collect::<serde_json::Map<_, _>>(),
        })
    }
}

fn serve(site: Site, document: Value) -> Server {
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).with(document).serve()
}

fn get(server: &Server, name: &str) -> (u16, String) {
    let response = server.get(&format!("/{name}/"));
    (response.status, response.text().to_owned())
}

fn put_away(path: &Path) {
    fs::rename(path, path.with_extension("away")).unwrap();
}

fn put_back(path: &Path) {
    fs::rename(path.with_extension("away"), path).unwrap();
}

/// Of each site without processes, something is missing that only a start shows, or that a look
/// shows, too.
#[test]
fn applications_without_processes_are_back_by_themselves_and_keep_none() {
    let site = Site::new();
    let sites = Sites::new(&site, &["good", "root", "ini", "worker"]);
    let (ini, script) =
        (sites.path("ini").join("php.ini"), sites.path("worker").join("worker.php"));
    let broken_ini = "opcache.preload = /nonexistent/preload.php\n";
    fs::write(&ini, broken_ini).unwrap();
    fs::write(&script, "<?php this is no PHP").unwrap();
    put_away(&sites.path("root"));
    let document = sites.document(|name| {
        let more = match name {
            "ini" => json!({"options": {"file": ini}}),
            "worker" => json!({"worker": {"script": "worker.php"}}),
            _ => json!({}),
        };
        let mut changes = json!({"processes": {"max": 2, "spare": 0}});
        harness::merge(&mut changes, more);
        changes
    });
    let server = serve(site, document);
    assert_eq!(get(&server, "good"), (200, "good".to_owned()));
    let broken = ["root", "ini", "worker"];
    for name in broken {
        assert_eq!(get(&server, name).0, 503, "{name}");
    }
    names(&server, &broken);

    // No client sends a request from now on.
    put_back(&sites.path("root"));
    fs::write(&ini, "precision = 9\n").unwrap();
    let worker = "<?php while (frankenphp_handle_request(fn() => print 'worker')) {}";
    fs::write(&script, worker).unwrap();
    names(&server, &[]);
    for name in broken {
        server.wait_for_log(&format!("application \"{name}\" works again"));
    }
    eventually("no process is kept for them", || {
        let titles = server.processes().into_iter().map(|process| process.title);
        let is_kept =
            |title: &String| broken.iter().any(|name| title.contains(&format!("\"{name}\"")));
        (titles.filter(is_kept).count() == 0).then_some(())
    });
    let log = server.log();
    for name in ["ini", "worker"] {
        assert!(log.contains(&format!("\"{name}\" application can run again")), "{log}");
    }
    for name in ["root", "ini", "worker"] {
        assert_eq!(get(&server, name), (200, name.to_owned()), "{}", server.log());
    }
}

#[test]
fn a_root_that_goes_missing_while_the_site_runs_is_told_until_it_is_back() {
    let site = Site::new();
    let sites = Sites::new(&site, &["a", "b", "idle"]);
    let document = sites.document(|name| match name {
        "idle" => json!({"processes": {"max": 1, "spare": 0}}),
        _ => json!({"processes": 1}),
    });
    let server = serve(site, document);
    for name in ["a", "b"] {
        assert_eq!(get(&server, name), (200, name.to_owned()));
    }
    let root = sites.path("a");
    put_away(&root);
    assert_eq!(get(&server, "a").0, 404);
    names(&server, &["a"]);
    let (code, told) = howdah(&server, &["reload"]);
    let problem = format!("root: {} cannot be used: No such file or directory", root.display());
    assert!(code == Some(4) && told.contains(&problem), "{code:?} {told}");
    assert_eq!(get(&server, "b"), (200, "b".to_owned()));
    put_away(&sites.path("idle"));
    names(&server, &["a", "idle"]);
    let log = server.log();
    let alerts = log.lines().filter(|line| line.contains("[alert]")).collect::<Vec<_>>();
    let line = format!("application \"a\": {problem}; its scripts are not found until then");
    assert!(alerts.len() == 1 && alerts[0].contains(&line), "{alerts:?}");
    let line = "[notice]";
    let has =
        |told: &str| told.contains(line) && told.contains("\"idle\" application cannot run: ");
    assert!(log.lines().any(has), "{log}");

    put_back(&root);
    put_back(&sites.path("idle"));
    names(&server, &[]);
    for name in ["a", "idle"] {
        server.wait_for_log(&format!("application \"{name}\" works again"));
        assert_eq!(get(&server, name), (200, name.to_owned()));
    }
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));
}

/// A site that cannot run gets many requests. The errors of its neighbour, and its own later, are
/// logged.
#[test]
fn requests_to_an_application_that_does_not_run_have_one_line_in_the_log() {
    let site = Site::new();
    let sites = Sites::new(&site, &["gone", "ini", "other"]);
    let ini = sites.path("ini").join("php.ini");
    fs::write(&ini, "opcache.preload = /nonexistent/preload.php\n").unwrap();
    fs::write(sites.path("other").join("index.php"), "<?php error_log('of a script');").unwrap();
    put_away(&sites.path("gone"));
    let document = sites.document(|name| match name {
        "ini" => json!({"options": {"file": ini}}),
        _ => json!({}),
    });
    let server = serve(site, document);
    let lines = |name: &str| {
        let log = server.log();
        let is_it = |line: &&str| {
            line.contains(&format!("/{name}/")) && line.contains("the application does not run: ")
        };
        log.lines().filter(is_it).map(str::to_owned).collect::<Vec<_>>()
    };
    for name in ["gone", "ini"] {
        eventually("a request is refused", || {
            assert_eq!(get(&server, name).0, 503);
            (!lines(name).is_empty()).then_some(())
        });
        for _ in 0..50 {
            assert_eq!(get(&server, name).0, 503);
        }
    }
    for _ in 0..3 {
        assert_eq!(get(&server, "other").0, 200);
    }
    eventually("the errors of a script are logged", || {
        let log = server.log();
        (log.lines().filter(|line| line.ends_with("of a script")).count() == 3).then_some(())
    });
    // A machine that is busy for more than a minute may have two.
    for name in ["gone", "ini"] {
        assert!((1..=2).contains(&lines(name).len()), "{:?}", lines(name));
    }
}

/// The drives of two sites do not answer. No other site waits for them, nor does the server itself.
#[test]
fn a_root_on_a_drive_that_does_not_answer_is_told_and_others_are_still_looked_at() {
    if !requirements::root() {
        return;
    }
    let site = Site::new();
    let sites = Sites::new(&site, &["good", "hung1", "hung2", "later"]);
    let document = sites.document(|_| json!({"processes": {"max": 1, "spare": 0}}));
    let server = serve(site, document);
    assert_eq!(get(&server, "good"), (200, "good".to_owned()));
    let hung = ["hung1", "hung2"].map(|name| HangingMount::new(&sites.path(name)));
    if hung.iter().any(Option::is_none) {
        return;
    }
    names(&server, &["hung1", "hung2"]);
    put_away(&sites.path("later"));
    names(&server, &["hung1", "hung2", "later"]);
    put_back(&sites.path("later"));
    names(&server, &["hung1", "hung2"]);
    let (_, told) = howdah(&server, &["status", "--problems"]);
    let path = sites.path("hung1").display().to_string();
    assert!(told.contains(&format!("{path}: its file system has not answered for 5 s")), "{told}");
    assert_eq!(get(&server, "good"), (200, "good".to_owned()));
    let [first, second] = hung;
    drop(first);
    names(&server, &["hung2"]);
    drop(second);
    names(&server, &[]);
}

/// Each of its processes runs the worker script itself, as they would share the files that it has
/// left open. So the prototype continues when the script breaks.
#[test]
fn processes_that_could_not_start_are_tried_again_without_a_request() {
    let site = Site::new();
    let sites = Sites::new(&site, &["app", "good"]);
    let script = sites.path("app").join("worker.php");
    let right = "<?php $open = stream_socket_server('tcp://127.0.0.1:0');
        while (frankenphp_handle_request(fn() => print 'worker')) {}";
    fs::write(&script, right).unwrap();
    let document = sites.document(|name| match name {
        "app" => json!({
            "processes": {"max": 1, "spare": 0, "idle_timeout": 1},
            "worker": {"script": "worker.php"},
            "options": {"admin": {"opcache.enable": "0"}},
        }),
        _ => json!({}),
    });
    let server = serve(site, document);
    assert_eq!(get(&server, "app"), (200, "worker".to_owned()));
    server.wait_for_log("each worker starts it");
    let is_running = || {
        let mut titles = server.processes().into_iter().map(|process| process.title);
        titles.any(|title| title.contains("\"app\" application"))
    };
    eventually("it is idle", || (!is_running()).then_some(()));
    fs::write(&script, "<?php this is no PHP").unwrap();
    assert!(get(&server, "app").0 >= 500);
    names(&server, &["app"]);
    fs::write(&script, right).unwrap();
    names(&server, &[]);
    eventually("no process is kept", || (!is_running()).then_some(()));
    names(&server, &[]);
    assert_eq!(get(&server, "app"), (200, "worker".to_owned()));
}
