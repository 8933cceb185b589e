//! Deployments by a symbolic link, of applications that load code for each request, once from a
//! worker script, and once from a preload script.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use harness::tls::Authority;
use harness::{
    Server, Site, eventually, free_address, open_to_all, processes, programs, requirements, users,
};
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
            {"match": {"uri": "/classic"}, "action": {"pass": "applications/classic"}},
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
    let command = |number: u32, options: &[&str]| {
        let mut command = Command::new(programs::howdah());
        command.args(["deploy", "worker"]);
        command.arg(directory.join(format!("releases/{number}"))).args(options);
        command.args(["--control", &control]);
        command
    };
    let deploy = |number: u32, options: &[&str]| {
        let output = command(number, options).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let link = || fs::read_link(directory.join("current")).unwrap();
    HOSTS.iter().for_each(|host| wait_for(&server, host, 1));

    release(&directory, 2);
    // The hooks run as the user of the site, which is not root.
    open_to_all(&directory.join("releases/2"), 0o777);
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
        (vec!["--url", "ftp://a/"], "must be a URL like https://shop.example/cart"),
        // The port does not speak TLS.
        (vec!["--url", &url.replace("http:", "https:")], "InvalidContentType"),
        (vec!["--link", directory.to_str().unwrap()], "no symbolic link"),
    ] {
        let (status, text) = deploy(4, &options);
        assert!(status == Some(1) && text.contains(expected), "{text}");
    }

    // Nobody reads what the command prints: the deployment goes on. Ctrl-C ends a check that hangs.
    release(&directory, 5);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let no_signal_is_blocked = "grep -q '^SigBlk:.0*$' /proc/self/status";
    let options = ["--url", &url, "--check", no_signal_is_blocked];
    let status = command(5, &options).stdout(full).status().unwrap();
    assert!(status.success() && ask(&server, "worker") == 5, "{status}");

    // Where root starts the command at a terminal, code of the release cannot type into that.
    let terminal = "import os, pty, sys; \
                    sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let is_apart = command(5, &["--before", "test -t 1 && ! sh -c ': </dev/tty'"]);
    let status = Command::new("python3")
        .args(["-c", terminal])
        .arg(is_apart.get_program())
        .args(is_apart.get_args())
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");

    // The command is ended while it checks: the former release is back.
    release(&directory, 6);
    open_to_all(&directory.join("releases/6"), 0o777);
    let wait = "touch checked; sleep 600";
    let mut child = command(6, &["--check", wait]).stderr(Stdio::piped()).spawn().unwrap();
    let at = |name: &str| directory.join("releases/6").join(name);
    eventually("the check runs", || at("checked").exists().then_some(()));
    assert_eq!(ask(&server, "worker"), 6);
    // The command of the hook gets the signal, too.
    processes::signal(child.id(), Signal::TERM);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(
        text.contains("was ended by signal 15; ") && text.contains("releases/5 again"),
        "{text}"
    );
    assert_eq!((ask(&server, "worker"), link()), (5, "releases/5".into()));

    // One that does not want to end is killed by the second signal.
    fs::remove_file(at("checked")).unwrap();
    let stubborn = "trap 'touch asked' TERM; touch checked; while :; do sleep 0.05; done";
    let mut child = command(6, &["--before", stubborn]).stderr(Stdio::piped()).spawn().unwrap();
    for file in ["checked", "asked"] {
        eventually("the hook goes on", || at(file).exists().then_some(()));
        processes::signal(child.id(), Signal::TERM);
    }
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn hooks_of_a_deployment_have_the_user_and_the_variables_of_the_site() {
    if !requirements::root() {
        return;
    }
    let (site, directory) = site(json!({"environment": {"OF_SITE": "1"}}));
    let control = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&control).serve();
    ask(&server, "classic");
    let (Some(user), Some(group)) = users::www_data() else { return };
    release(&directory, 2);
    let expected = format!("test $(id -u):$(id -g):$OF_SITE:$OF_ROOT = {user}:{group}:1:");
    let mut command = Command::new(programs::howdah());
    command.args(["deploy", "classic", "--control", &control]).arg(directory.join("releases/2"));
    for hook in ["--before", "--check", "--after"] {
        command.args([hook, &expected]);
    }
    let output = command.env("OF_ROOT", "secret").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ask(&server, "classic"), 2);
}

#[test]
fn a_release_that_is_loaded_for_each_request_is_tried_before_visitors_see_it() {
    let (site, directory) = site(json!({}));
    let control = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&control).serve();
    let url = format!("http://{}/classic", server.address);
    let deploy = |number: u32, url: &str| {
        let mut command = Command::new(programs::howdah());
        command.args(["deploy", "classic", "--control", &control, "--url", url]);
        let output = command.arg(directory.join(format!("releases/{number}"))).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    release(&directory, 2);
    fs::write(directory.join("releases/2/index.php"), "<?php throw new Error('broken');").unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                assert_eq!(ask(&server, "classic"), 1);
            }
        });
        let (status, text) = deploy(2, &url);
        is_over.store(true, Relaxed);
        visitor.join().unwrap();
        let is_refused = text.contains("broken") && text.contains("; nothing was changed");
        assert!(status == Some(1) && is_refused, "{text}");
    });
    release(&directory, 3);
    let (status, text) = deploy(3, &url);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("{url}: 200 from the new release")), "{text}");
    assert_eq!(ask(&server, "classic"), 3);
    // The port of a balancer.
    let (status, text) = deploy(2, "http://127.0.0.1:1/");
    assert!(status == Some(1) && text.contains("no listener with port 1"), "{text}");
    assert_eq!(ask(&server, "classic"), 3);
}

#[test]
fn pages_over_https_need_a_certificate_of_an_authority_that_the_command_trusts() {
    let (site, directory) = site(json!({}));
    let (authority, other) = (Authority::new(), Authority::new());
    let address = free_address();
    let (chain, key) = authority.issue(&[&address.ip().to_string()]);
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let certificate = json!({"chain": file("chain.pem", &chain), "key": file("key.pem", &key)});
    let site = site.with(json!({"listeners": {
        address.to_string(): {"pass": "routes", "tls": {"certificate": certificate}},
    }}));
    let control = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&control).serve();
    let url = format!("https://{address}/classic");
    let deploy = |number: u32, authorities: Option<&Path>| {
        release(&directory, number);
        let mut command = Command::new(programs::howdah());
        command.args(["deploy", "classic", "--control", &control, "--url", &url]);
        command.arg(directory.join(format!("releases/{number}")));
        if let Some(file) = authorities {
            command.arg("--cacert").arg(file);
        }
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (status, text) = deploy(2, Some(&file("own.pem", &authority.pem())));
    assert_eq!((status, ask(&server, "classic")), (Some(0), 2), "{text}");
    assert!(text.contains(&format!("{url}: 200 from the new release")), "{text}");
    assert!(text.contains(&format!("{url}: 200, ")), "{text}");
    for untrusted in [None, Some(file("other.pem", &other.pem()))] {
        let (status, text) = deploy(3, untrusted.as_deref());
        assert_eq!((status, ask(&server, "classic")), (Some(1), 2), "{text}");
        assert!(text.contains("is not issued by an authority in "), "{text}");
    }
    let (status, text) = deploy(3, Some(&directory.join("none.pem")));
    assert_eq!((status, ask(&server, "classic")), (Some(1), 2), "{text}");
    assert!(text.contains("none.pem"), "{text}");
}
