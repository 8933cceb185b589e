//! Deployments by a symbolic link, of applications that load code for each request, once from a
//! worker script, and once from a preload script.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use harness::{Server, Site, eventually, programs};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Number of deployments under load; the server delays restarts that follow each other without an
/// end.
const DEPLOYMENTS: u32 = 6;

/// Makes a release whose scripts answer with its number and the directory of the document root.
fn release(directory: &Path, number: u32) {
    let release = directory.join(format!("releases/{number}"));
    fs::create_dir_all(&release).unwrap();
    let answer = "echo Lib::RELEASE, ' ', basename($_SERVER['DOCUMENT_ROOT']), ' ',
        basename(dirname($_SERVER['SCRIPT_FILENAME']));";
    for (name, code) in [
        ("lib.php", format!("class Lib {{ const RELEASE = {number}; }}")),
        ("preload.php", "require_once __DIR__ . '/lib.php';".to_owned()),
        ("index.php", format!("require_once __DIR__ . '/lib.php'; {answer}")),
        (
            "worker.php",
            format!(
                "require __DIR__ . '/lib.php';
                while (frankenphp_handle_request(function () {{ {answer} }}));"
            ),
        ),
    ] {
        fs::write(release.join(name), format!("<?php {code}")).unwrap();
    }
}

fn swap(directory: &Path, number: u32) {
    symlink(format!("releases/{number}"), directory.join("new")).unwrap();
    fs::rename(directory.join("new"), directory.join("current")).unwrap();
}

/// A site with the applications `classic`, `worker` and `preload`, which requests choose by host.
fn site(application: Value) -> (Site, PathBuf) {
    let site = Site::new();
    let directory = site.data();
    release(&directory, 1);
    swap(&directory, 1);
    let root = directory.join("current");
    let preload = json!({"admin": {
        "opcache.preload": root.join("preload.php"), "opcache.enable": "1",
    }});
    let with = |own: Value| {
        let mut all = json!({"type": "php", "root": root, "processes": 2, "script": "index.php"});
        harness::merge(&mut all, application.clone());
        harness::merge(&mut all, own);
        all
    };
    let site = site.with(json!({
        "routes": [
            {"match": {"uri": "/missing"}, "action": {"return": 404}},
            {"match": {"host": HOSTS}, "action": {"pass": "applications/${host}"}},
            {"action": {"pass": "applications/worker"}},
        ],
        "applications": {
            "classic": with(json!({})),
            "worker": with(json!({"worker": true, "script": "worker.php"})),
            "preload": with(json!({"options": preload})),
        },
    }));
    (site, directory)
}

const HOSTS: [&str; 3] = ["classic", "worker", "preload"];

/// Asks an application. Returns the number of the release that has answered, as a whole.
fn ask(server: &Server, host: &str) -> u32 {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let response = server.send(request);
    let text = response.text();
    assert_eq!(response.status, 200, "{host}: {text}");
    let numbers: Vec<u32> = text.split(' ').map(|word| word.parse().unwrap()).collect();
    assert!(numbers.len() == 3 && numbers.iter().all(|one| *one == numbers[0]), "{host}: {text}");
    numbers[0]
}

fn wait_for(server: &Server, host: &str, number: u32) {
    eventually("the release answers", || (ask(server, host) == number).then_some(()));
}

#[test]
fn deployments_under_load_fail_no_request_and_mix_no_releases() {
    let (site, directory) = site(json!({"releases": true}));
    let server = site.serve();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for host in HOSTS {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    ask(&server, host);
                }
            });
        }
        let deployed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 2..2 + DEPLOYMENTS {
                release(&directory, number);
                swap(&directory, number);
                HOSTS.iter().for_each(|host| wait_for(&server, host, number));
                fs::remove_dir_all(directory.join(format!("releases/{}", number - 1))).unwrap();
            }
        }));
        is_over.store(true, Relaxed);
        deployed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(server.log().contains("current has changed"), "{}", server.log());
}

#[test]
fn without_releases_code_that_is_loaded_once_stays_in_its_release_until_a_reload() {
    let (site, directory) = site(json!({}));
    let server = site.serve();
    HOSTS.iter().for_each(|host| wait_for(&server, host, 1));
    release(&directory, 2);
    swap(&directory, 2);
    assert_eq!(HOSTS.map(|host| ask(&server, host)), [2, 1, 1]);
    server.signal(Signal::HUP);
    HOSTS.iter().for_each(|host| wait_for(&server, host, 2));
}

#[test]
fn a_deployment_that_does_not_work_is_taken_back() {
    let (site, directory) = site(json!({}));
    let control = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&control).serve();
    let url = format!("http://{}/", server.address);
    let deploy = |number: u32, options: &[&str]| {
        let mut command = Command::new(programs::howdah());
        command.args(["deploy", "worker"]);
        command.arg(directory.join(format!("releases/{number}"))).args(options);
        let output = command.args(["--control", &control]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let link = || fs::read_link(directory.join("current")).unwrap();
    HOSTS.iter().for_each(|host| wait_for(&server, host, 1));

    release(&directory, 2);
    let mark = "test \"$HOWDAH_SITE\" = worker && touch \"$HOWDAH_RELEASE/mark\"";
    let options =
        ["--before", mark, "--url", &url, "--check", "test -e mark", "--after", "rm mark"];
    let (status, text) = deploy(2, &options);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("{url}: 200, ")), "{text}");
    assert_eq!((ask(&server, "worker"), link()), (2, "releases/2".into()));
    assert!(!directory.join("releases/2/mark").exists());

    // A script that does not start, an answer of 404, a check, and a command before that fail.
    release(&directory, 3);
    fs::write(directory.join("releases/3/worker.php"), "<?php throw new Error('broken');").unwrap();
    release(&directory, 4);
    let missing = format!("{url}missing");
    for (number, options, expected) in [
        (3, vec![], "broken"),
        (4, vec!["--url", &missing], "is answered with 404"),
        (4, vec!["--check", "exit 3"], "--check has failed: exit status: 3"),
        (4, vec!["--before", "false"], "--before has failed: exit status: 1; nothing was changed"),
    ] {
        let (status, text) = deploy(number, &options);
        assert!(status == Some(1) && text.contains(expected), "{options:?}: {text}");
        assert!(
            text.contains("leads to releases/2 again") || options.contains(&"--before"),
            "{text}"
        );
        assert_eq!((ask(&server, "worker"), link()), (2, "releases/2".into()), "{text}");
    }

    let lock = fs::File::open(&directory).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (status, text) = deploy(4, &[]);
    assert!(status == Some(1) && text.contains("another deployment"), "{text}");
    drop(lock);
    let (status, text) = deploy(4, &["--link", directory.join("current").to_str().unwrap()]);
    assert_eq!((status, ask(&server, "worker")), (Some(0), 4), "{text}");
    for (options, expected) in [
        (vec!["--url", "https://a/"], "use --check"),
        (vec!["--link", directory.to_str().unwrap()], "no symbolic link"),
    ] {
        let (status, text) = deploy(4, &options);
        assert!(status == Some(1) && text.contains(expected), "{text}");
    }
}
