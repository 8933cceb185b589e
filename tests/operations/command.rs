//! The command line, signals, sockets and the files that a running server leaves: as operators
//! meet them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use harness::time::Stopwatch;
use harness::{Site, eventually, free_address, processes, programs, requirements};
use rustix::fs::FlockOperation;
use rustix::process::Signal;
use serde_json::json;

/// Answers after the file `go` exists.
pub(super) const WAITS: &str = "touch(getenv('DATA') . '/begun');
    if (isset($_GET['flush'])) { echo 'first,'; flush(); }
    while (!file_exists(getenv('DATA') . '/go')) { usleep(2000); clearstatcache(); }
    echo 'answered';";

fn howdah(arguments: &[&str]) -> Output {
    let mut command = Command::new(programs::howdah());
    command.args(arguments);
    programs::run(&mut command)
}

/// The one line that a command that fails says; fails if it says more, or succeeds.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // 78: the document is invalid, or an address in use.
    assert!(matches!(output.status.code(), Some(1 | 78)), "{output:?}");
    assert_eq!(output.stdout, b"", "{output:?}");
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    assert!(text.starts_with("howdah: "), "{text}");
    text
}

// -- starting --

/// Mistakes in the command line and in the files that it names have one status, which the units
/// know.
#[test]
fn what_somebody_must_mend_first_has_one_exit_status() {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site");
    std::fs::create_dir(&site).unwrap();
    harness::open_to_all(place.path(), 0o755);
    harness::open_to_all(&site, 0o755);
    std::fs::write(site.join("a.txt"), "a").unwrap();
    let (site, address) = (site.display().to_string(), harness::free_address().to_string());
    let is_permanent = |arguments: &[&str]| {
        let output = howdah(&[&["serve", &site, "--listen", &address], arguments].concat());
        complaint(&output);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
    };
    is_permanent(&["--tmp", "/no/such"]);
    is_permanent(&["--mail-to", "/no/such/file"]);
    is_permanent(&["--control", "nowhere"]);
    if requirements::root() {
        is_permanent(&["--user", "no-such-user"]);
        let closed = place.path().join("closed");
        std::fs::create_dir(&closed).unwrap();
        harness::open_to_all(&closed, 0o700);
        let closed = closed.display().to_string();
        let output = howdah(&["serve", &closed, "--listen", &address]);
        assert!(complaint(&output).contains("may not read"), "{output:?}");
        assert_eq!(output.status.code(), Some(78), "{output:?}");
    }
    let output = howdah(&["serve", "/no/such", "--listen", &address]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
}

#[test]
fn a_directory_is_served_and_what_was_decided_is_printed() {
    let server =
        Site::script("index.php", "echo $_SERVER['REQUEST_URI'];").file("a.css", "p {}").serve();
    for needle in ["index.php", &server.site.root().display().to_string(), "Serving http://"] {
        assert!(server.announcement.contains(needle), "{needle}: {}", server.announcement);
    }
    assert_eq!(server.get("/pretty/url?x").text(), "/pretty/url?x");
    assert_eq!(server.get("/a.css").text(), "p {}");
    assert_eq!(server.workers().len(), 2);
    let titles: Vec<_> = server.processes().into_iter().map(|process| process.title).collect();
    for title in ["howdah: router", "howdah: \"site\" prototype", "howdah: \"site\" application"] {
        assert!(titles.iter().any(|found| found == title), "{title}: {titles:?}");
    }
}

#[test]
fn the_start_is_one_line_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let other = free_address();
    let site = Site::script("a.php", "echo 'a';").argument("--listen").argument(&other.to_string());
    let server = site.own_control(directory.path()).serve();
    server.workers();
    let control = format!("unix:{}/run/control.sock", directory.path().display());
    let mut listeners = [server.address.to_string(), other.to_string()];
    listeners.sort();
    let log = server.wait_for_log("started: ");
    let lines: Vec<_> = log.lines().filter(|line| !line.contains("[warn]")).collect();
    let [line] = lines.as_slice() else { panic!("{log}") };
    let start = concat!("[notice] PID#PID started: howdah ", env!("CARGO_PKG_VERSION"), ", PHP ");
    let start = start.replace("PID", &server.supervisor().to_string());
    assert!(line.contains(&start), "{line}");
    let end = format!(
        ", listeners {} {}, control {control}, pid {}",
        listeners[0],
        listeners[1],
        server.supervisor()
    );
    assert!(line.ends_with(&end), "{line}, expected {end}");
}

#[test]
fn several_addresses_are_served() {
    let other = free_address();
    let server = Site::script("a.php", "echo 'a';")
        .argument("--listen")
        .argument(&other.to_string())
        .serve();
    for address in [server.address, other] {
        let response = harness::client::Client::connect(address).get("/a.php");
        assert_eq!(response.text(), "a", "{address}");
    }
}

#[test]
fn nobody_needs_to_read_what_is_printed() {
    let site = Site::script("a.php", "echo 'a';");
    let address = free_address();
    let mut command = site.command(&address.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let text = eventually("it serves", || {
        let mut stream = std::net::TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /a.php HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok().map(|_| text)
    });
    assert!(text.ends_with("\r\n\r\na"), "{text}");
    assert!(child.try_wait().unwrap().is_none(), "it runs on");
    processes::signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_port_in_use_is_said_in_one_line() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let site = Site::script("a.php", "echo 1;");
    let begun = Stopwatch::start();
    let text = complaint(&programs::run(&mut site.command(&address)));
    assert!(text.contains(&address) && text.contains("another program"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    let address = free_address().to_string();
    let serve = |directory: &Path| {
        howdah(&["serve", "--listen", &address, &directory.display().to_string()])
    };
    let site = Site::script("a.php", "echo 1;");
    let text = complaint(&serve(&site.root().join("none")));
    assert!(text.contains("none"), "{text}");
    let text = complaint(&serve(&site.root().join("a.php")));
    assert!(text.contains("a.php") && text.contains("directory"), "{text}");
    let closed = site.root().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let text = complaint(&serve(&closed));
    assert!(text.contains("closed"), "{text}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    let text =
        complaint(&howdah(&["serve", "--user", "no-such-user", &closed.display().to_string()]));
    assert!(text.contains("no-such-user"), "{text}");
    let text = complaint(&howdah(&["serve", "--tmp", "/no/such", &closed.display().to_string()]));
    assert!(text.contains("/no/such"), "{text}");
    let text =
        complaint(&howdah(&["serve", "--log", "/no/such/log", &closed.display().to_string()]));
    assert!(text.contains("/no/such/log"), "{text}");
    let text =
        complaint(&howdah(&["serve", "--listen", "nonsense", &closed.display().to_string()]));
    assert!(text.starts_with("howdah: --listen: \"nonsense\" is not an address"), "{text}");
}

#[test]
fn a_project_without_its_public_index_is_not_served() {
    let site = Site::script("app/User.php", "")
        .file("artisan", "")
        .file("composer.json", r#"{"require": {"laravel/framework": "^11"}}"#)
        .file("public/index.html", "soon")
        .file("database/database.sqlite", "secret");
    let address = free_address().to_string();
    let text = complaint(&programs::run(&mut site.command(&address)));
    assert!(text.contains("a project of Laravel without public/index.php"), "{text}");
    assert!(text.contains("/public\"") && text.contains("--config"), "{text}");
    let public = site.root().join("public");
    assert_eq!(site.at(public).serve().get("/").text(), "soon");
}

#[test]
fn the_document_of_a_directory_is_printed_and_can_be_served() {
    let site = Site::script("index.php", "echo $_SERVER['REQUEST_URI'];")
        .file("wp-load.php", "")
        .file("wp-content/uploads/a.php", "<?php echo 'RAN';");
    let address = free_address().to_string();
    let mut command = site.command(&address);
    let output = programs::run(command.arg("--print-config"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stderr, b"", "{output:?}");
    let config = site.data().join("printed.json");
    fs::write(&config, &output.stdout).unwrap();
    let config = config.display().to_string();
    assert!(std::net::TcpStream::connect(&address).is_err(), "nothing is served");
    // The document of a document is the same.
    let again = howdah(&["serve", "--config", &config, "--print-config"]);
    assert_eq!(again.stdout, output.stdout, "{again:?}");
    let tmp = site.data().display().to_string();
    let mut child = Command::new(programs::howdah())
        .args(["serve", "--no-control", "--config", &config, "--tmp", &tmp])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let get = |target: &str| {
        eventually("it is served", || {
            let mut stream = std::net::TcpStream::connect(&address).ok()?;
            stream.write_all(format!("GET {target} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok().map(|_| text)
        })
    };
    let pages = [get("/pretty/url?x"), get("/wp-content/uploads/a.php")];
    processes::signal(child.id(), Signal::TERM);
    child.wait().unwrap();
    assert!(pages[0].ends_with("\r\n\r\n/pretty/url?x"), "{}", pages[0]);
    assert!(pages[1].starts_with("HTTP/1.1 403 "), "{}", pages[1]);
}

#[test]
fn a_directory_in_the_place_of_a_command_is_told_how_it_is_served() {
    let site = Site::script("a.php", "echo 1;");
    let directory = site.root().display().to_string();
    let output = howdah(&[&directory]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(&format!("howdah serve {directory}")), "{text}");
    let text = String::from_utf8_lossy(&howdah(&["srve"]).stderr).into_owned();
    assert!(text.contains("'serve'") && !text.contains("directory"), "{text}");
}

#[test]
fn a_document_that_cannot_be_carried_out_is_said_with_its_place() {
    let site = Site::script("a.php", "echo 1;");
    let config = site.data().join("config.json");
    let serve = |document: serde_json::Value| {
        fs::write(&config, document.to_string()).unwrap();
        complaint(&howdah(&["serve", "--strict", "--config", &config.display().to_string()]))
    };
    let address = free_address().to_string();
    let text =
        serve(json!({"listeners": {&address: {"pass": "routes"}}, "routes": [{"acton": 1}]}));
    assert!(text.contains("config.json") && text.contains("/routes/0"), "{text}");
    let application =
        json!({"type": "php", "root": site.root(), "working_directory": "/no/such/place"});
    let listeners = json!({&address: {"pass": "applications/x"}});
    let text = serve(json!({"listeners": listeners, "applications": {"x": application}}));
    assert!(text.contains("\"x\"") && text.contains("/no/such/place"), "{text}");
    let application = json!({"type": "php 5.6", "root": site.root()});
    let text = serve(json!({"listeners": listeners, "applications": {"x": application}}));
    assert!(text.contains("5.6"), "{text}");
    assert!(std::net::TcpStream::connect(&address).is_err(), "nothing stays behind");
}

#[test]
fn without_the_program_for_php_files_are_served_and_php_is_not() {
    let site = Site::script("a.php", "echo 1;").file("only/a.txt", "text");
    // The program alone, as after an incomplete installation.
    let alone = site.data().join("howdah");
    programs::copy(programs::howdah(), &alone);
    if Path::new("/usr/lib/howdah").exists() {
        return requirements::skipped("the howdah-php in /usr/lib/howdah would be found");
    }
    let address = free_address().to_string();
    let mut command = Command::new(&alone);
    command.args(["serve", "--listen", &address, &site.root().display().to_string()]);
    let text = complaint(&programs::run(&mut command));
    assert!(text.contains("install a package howdah-phpX.Y"), "{text}");
    let mut child = Command::new(&alone)
        .args(["serve", "--listen", &address, &site.root().join("only").display().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("files are served", || std::net::TcpStream::connect(&address).ok());
    processes::signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn check_says_whether_a_document_is_valid() {
    let site = Site::new();
    let config = site.data().join("config.json");
    fs::write(&config, "{\"listeners\": {}} // fine\n").unwrap();
    let output = howdah(&["check", &config.display().to_string()]);
    assert!(output.status.success(), "{output:?}");
    fs::write(&config, "{\"listeners\": {}").unwrap();
    let output = howdah(&["check", &config.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 1"), "{output:?}");
}

#[test]
fn version_names_the_versions_of_php() {
    let output = howdah(&["--version"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("howdah ") && text.contains("PHP"), "{text}");
    assert!(output.status.success());
}

#[test]
fn a_printed_document_names_the_user_of_its_application() {
    if !requirements::root() {
        return;
    }
    let site = Site::script("a.php", "echo 1;");
    let root = site.root().display().to_string();
    let user = ["--user", "daemon", "--group", "bin"];
    let printed = howdah(&[&["serve", &root, "--print-config"][..], &user].concat());
    let document: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let applications = document["applications"].as_object().unwrap();
    assert!(applications.values().all(|one| one["user"] == "daemon" && one["group"] == "bin"));
    let printed = howdah(&["serve", &root, "--print-config"]);
    assert!(!String::from_utf8_lossy(&printed.stdout).contains("\"user\""));
}

// -- background, files, sockets --

#[test]
fn a_daemon_returns_when_it_serves_and_leaves_its_pid() {
    let site = Site::script("a.php", "echo 'a';");
    let address = free_address();
    let pid_file = site.data().join("pid");
    let mut command = site.command(&address.to_string());
    let output =
        command.arg("--daemon").arg("--pid").arg(&pid_file).stderr(Stdio::null()).output().unwrap();
    // Output ends, so no process holds the terminal.
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut client = harness::client::Client::connect(address);
    assert_eq!(client.get("/a.php").text(), "a");
    let pid: u32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    assert!(processes::is_alive(pid));
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
    processes::signal(pid, Signal::QUIT);
    drop(client);
    eventually("it ends", || (!processes::is_alive(pid)).then_some(()));
    assert!(!pid_file.exists());
    // A server that cannot serve says so and with its status.
    let other = TcpListener::bind(address).unwrap();
    let mut command = site.command(&address.to_string());
    let output = command.arg("--daemon").arg("--pid").arg(&pid_file).output().unwrap();
    drop(other);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("another program"), "{output:?}");
    assert!(!pid_file.exists());
}

#[test]
fn a_daemon_names_the_parts_that_are_out() {
    let site = Site::script("a.php", "echo 'a';");
    let (document, pid_file) = (site.data().join("document.json"), site.data().join("pid"));
    let (address, taken) = (free_address(), TcpListener::bind("127.0.0.1:0").unwrap());
    let taken_address = taken.local_addr().unwrap();
    let listener = json!({"pass": "routes"});
    let value = json!({
        "listeners": {address.to_string(): listener, taken_address.to_string(): listener},
        "routes": [{"action": {"return": 204}}],
    });
    fs::write(&document, value.to_string()).unwrap();
    let control = format!("unix:{}", site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    command.args(["serve", "--daemon", "--control", &control]);
    command.arg("--config").arg(&document).arg("--pid").arg(&pid_file);
    // The log would hold standard error.
    command.arg("--log").arg(site.data().join("log"));
    command.arg("--tmp").arg(site.data());
    let output = command.output().unwrap();
    let pid: u32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let part = format!(": listener \"{taken_address}\": ");
    let is_it = |line: &str| line.starts_with("howdah: OUT since ") && line.contains(&part);
    let is_named = text.lines().any(is_it);
    let status = harness::client::Client::connect(address).get("/").status;
    processes::signal(pid, Signal::QUIT);
    eventually("it ends", || (!processes::is_alive(pid)).then_some(()));
    assert!(output.status.success() && is_named && status == 204, "{output:?}");
}

#[test]
fn a_command_line_of_unitd_starts_it() {
    let site = Site::new();
    let (data, address) = (site.data(), free_address());
    let state = data.join("state");
    fs::create_dir(&state).unwrap();
    let document = json!({
        "listeners": {address.to_string(): {"pass": "routes"}},
        "routes": [{"action": {"return": 204}}],
    });
    fs::write(state.join("conf.json"), document.to_string()).unwrap();
    let file = |name: &str| data.join(name).display().to_string();
    let control = format!("unix:{}", file("control.sock"));
    let mut child = Command::new(programs::howdah())
        .args(["--no-daemon", "--control", &control, "--pid", &file("pid"), "--log", &file("log")])
        .args(["--modulesdir", "/usr/lib/unit/modules", "--statedir", &file("state")])
        .args(["--tmpdir", &file("")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it serves", || {
        let mut stream = std::net::TcpStream::connect(address).ok()?;
        // Requests are read as Unit reads them: this one has no host.
        stream.write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.starts_with("HTTP/1.1 204 ").then_some(())
    });
    let socket = fs::symlink_metadata(data.join("control.sock")).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!(socket.mode() & 0o777, 0o600, "only its owner may speak to the control API");
    assert_eq!(fs::read_to_string(file("pid")).unwrap().trim(), child.id().to_string());
    processes::signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for name in ["pid", "control.sock"] {
        assert!(!Path::new(&file(name)).exists(), "{name} is removed");
    }
    assert!(Path::new(&file("log")).exists());
}

#[test]
fn unix_sockets_are_served_and_replaced_when_stale() {
    let site = Site::script("a.php", "echo $_SERVER['REMOTE_ADDR'], '|', $_SERVER['SERVER_ADDR'];");
    let path = site.data().join("site.sock");
    let listener = format!("unix:{}", path.display());
    let mut site = site.with(json!({"listeners": {&listener: {"pass": "routes"}}}));
    for signal in [Signal::KILL, Signal::TERM] {
        let server = site.serve();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /a.php HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("\r\n\r\nunix:|unix:"), "{text}");
        (_, site) = server.end(signal);
        assert_eq!(path.exists(), signal == Signal::KILL, "{signal:?}");
    }
    // A file of another user is not replaced.
    fs::write(&path, "precious").unwrap();
    let mut command = site.command(&free_address().to_string());
    let text = complaint(&programs::run(command.arg("--strict")));
    assert!(text.contains("site.sock"), "{text}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_second_server_with_the_same_pid_file_is_refused_and_the_first_is_not_disturbed() {
    let directory = tempfile::tempdir().unwrap();
    let pid_file = directory.path().join("howdah.pid");
    let pid = pid_file.display().to_string();
    fs::write(&pid_file, "1\n").unwrap(); // of a server that was killed
    let site = || Site::new().file("a", "a").with(json!({})).argument("--pid").argument(&pid);
    let first = site().serve();
    let number = format!("{}\n", first.supervisor());
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), number);
    // A reader's lock, which a script could have.
    let reader = fs::File::open(&pid_file).unwrap();
    let text = complaint(&programs::run(&mut site().command(&free_address().to_string())));
    let advice = format!("kill -QUIT {}", first.supervisor());
    assert!(text.contains(&pid) && text.contains(&advice) && text.contains("--pid"), "{text}");
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), number);
    assert_eq!(first.get("/a").text(), "a");

    // Files that a killed server leaves are no hindrance, for any reader.
    let (_, _) = first.end(Signal::KILL);
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), number);
    rustix::fs::fcntl_lock(&reader, FlockOperation::NonBlockingLockShared).unwrap();
    let second = site().serve();
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), format!("{}\n", second.supervisor()));
    let (status, _) = second.end(Signal::TERM);
    assert!(status.success() && !pid_file.exists());
}

#[test]
fn the_next_server_takes_the_pid_file_over_from_one_that_answers_its_last_requests() {
    let directory = tempfile::tempdir().unwrap();
    let pid_file = directory.path().join("howdah.pid");
    let pid = pid_file.display().to_string();
    let site = || Site::script("a.php", WAITS).with(json!({})).argument("--pid").argument(&pid);
    let mut first = site().serve();
    let mut client = first.connect();
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the script runs", || first.site.data().join("begun").exists().then_some(()));
    first.signal(Signal::QUIT);
    let second = site().serve();
    let number = format!("{}\n", second.supervisor());
    fs::write(first.site.data().join("go"), "").unwrap();
    assert!(client.response().text().ends_with("answered"));
    assert_eq!(first.wait().code(), Some(0));
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), number);
}

#[test]
fn the_server_serves_as_an_ordinary_user() {
    let server = Site::script("a.php", "echo posix_geteuid();").serve();
    let uid: u32 = server.get("/a.php").text().parse().unwrap();
    assert_ne!(uid, 0);
    if requirements::is_root() {
        let status = fs::read_to_string(format!("/proc/{}/status", server.router())).unwrap();
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
        let ids: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
        let [real, effective, saved, files] = ids[..] else { panic!("{ids:?}") };
        assert_eq!(files, uid, "router and PHP share the user unless an application names one");
        assert!(![real, effective, saved].contains(&uid), "scripts could signal it: {ids:?}");
    }
}
