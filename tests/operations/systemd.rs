//! The units of `packaging/systemd`: checked by systemd, and under systemd as the first process of
//! a container.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::processes::{self, descendants};
use harness::{Ends, eventually, free_address, open_to_all, programs, requirements};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

/// Maximum exposure that `systemd-analyze security` may find, in tenths. One of them is the right to
/// lower the priority of applications (`CAP_SYS_NICE`).
const MAX_EXPOSURE: &str = "--threshold=41";

/// First version of systemd that can check units without running them.
const FIRST_VERSION_WITH_CHECKS: u32 = 250;

/// Time until systemd has booted, or cannot boot here.
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the version of systemd; `None` without it.
fn version() -> Option<u32> {
    let output = Command::new("systemd-analyze").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().nth(1)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Installs the units.
fn install(directory: &Path) {
    let mut command = Command::new(repository().join("packaging/systemd/install"));
    let output = command.arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

#[test]
fn the_units_are_valid_and_restrict_the_server() {
    if version().is_none_or(|version| version < FIRST_VERSION_WITH_CHECKS) {
        return requirements::skipped("there is no systemd that checks units");
    }
    let directory = tempfile::tempdir().unwrap();
    install(directory.path());
    let units = ["howdah.service", "howdah@.service", "howdah.socket"];
    let paths = units.map(|unit| directory.path().join(unit));
    for path in &paths {
        // The program need not be installed.
        let unit = fs::read_to_string(path).unwrap();
        let own = programs::howdah().display().to_string();
        fs::write(path, unit.replace("/usr/bin/howdah", &own)).unwrap();
    }
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "service")) {
        let mut command = Command::new("systemd-analyze");
        let command = command.args(["security", "--offline=true", "--no-pager", MAX_EXPOSURE]);
        let output = command.arg(path).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert!(!text(&output).contains("ignoring"), "{}", text(&output));
    }
    let instance = directory.path().join("howdah@blog.service");
    fs::copy(&paths[1], &instance).unwrap();
    let mut command = Command::new("systemd-analyze");
    let command = command.args(["verify", "--man=no"]).args([&paths[0], &instance, &paths[2]]);
    let output = command.output().unwrap();
    let problems = text(&output);
    let is_about_units = problems.lines().any(|line| line.contains("howdah"));
    assert!(output.status.success() && !is_about_units, "{problems}");
}

#[test]
fn a_reload_can_fail_with_every_version_of_systemd() {
    let directory = tempfile::tempdir().unwrap();
    install(directory.path());
    for unit in ["howdah.service", "howdah@.service"] {
        let unit = fs::read_to_string(directory.path().join(unit)).unwrap();
        let has = |line: &str| unit.lines().any(|found| found == line);
        assert!(
            has("Type=notify") && has("ExecReload=/usr/bin/howdah reload --tolerant"),
            "{unit}"
        );
    }
}

/// A container in which systemd is the first process; ends on drop.
struct Machine {
    child: Child,
    /// Process id of its systemd.
    init: u32,
    _directory: TempDir,
}

impl Machine {
    /// Boots; `None` if that is not possible here.
    fn boot() -> Option<Machine> {
        let directory = tempfile::tempdir().unwrap();
        let programs = programs::howdah().parent().unwrap();
        let child = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--kill-child"])
            .args(["--propagation", "private"])
            .arg(repository().join("packaging/boot.sh"))
            .args([Path::new("/"), directory.path()])
            .args(["/lib/systemd/systemd", "--unit=basic.target"])
            .env("PROGRAMS", programs)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let mut machine = Machine { child, init: 0, _directory: directory };
        let begun = Instant::now();
        while begun.elapsed() < BOOT_TIMEOUT && machine.child.try_wait().unwrap().is_none() {
            let init = descendants(machine.child.id()).into_iter().find(|process| {
                process.parent == machine.child.id() && process.title.contains("/systemd")
            });
            machine.init = init.map_or(0, |process| process.pid);
            let state = if machine.init == 0 { String::new() } else { machine.state() };
            if state.contains("running") || state.contains("degraded") {
                return Some(machine);
            }
            thread::sleep(Duration::from_millis(50));
        }
        None
    }

    fn state(&self) -> String {
        text(&self.run(&["systemctl", "is-system-running"]))
    }

    /// Runs a command in the container.
    fn run(&self, command: &[&str]) -> Output {
        let init = self.init.to_string();
        let mut nsenter = Command::new("nsenter");
        let nsenter = nsenter.args(["-t", &init, "-m", "-p", "-u", "-i", "-C", "--"]);
        nsenter.args(command).stdin(Stdio::null()).output().unwrap()
    }

    fn systemctl(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["systemctl", "--no-pager"], arguments].concat());
        let journal =
            || text(&self.run(&["journalctl", "-u", "howdah*", "--no-pager", "-n", "50"]));
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output), journal());
        text(&output).trim().to_owned()
    }

    /// Returns the path outside of a path in the container.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.init))
    }

    /// Writes a file in the container, which all users can read.
    fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        open_to_all(&path, 0o644);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The first process of the namespace ends with it, and all others with that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn document(address: SocketAddr) -> String {
    let site = json!({"type": "php", "root": "/var/www/blog", "processes": 2});
    let action = json!({
        "share": "/var/www/blog$uri", "index": "index.php", "scripts": "applications/blog",
    });
    let listeners = json!({address.to_string(): {"pass": "routes"}});
    let routes = json!([{"action": action}]);
    json!({"listeners": listeners, "routes": routes, "applications": {"blog": site}}).to_string()
}

/// Returns the response to a request on a new connection. Error: the connection was refused or cut.
fn get(address: SocketAddr) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(harness::time::patience()))?;
    connection.write_all(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")?;
    let mut response = String::new();
    connection.read_to_string(&mut response)?;
    if response.ends_with("served") {
        Ok(response)
    } else {
        Err(std::io::Error::other(format!("response: {response:?}")))
    }
}

#[test]
fn systemd_starts_reloads_restarts_and_stops_the_server_without_a_refused_connection() {
    if version().is_none() {
        return requirements::skipped("there is no systemd");
    }
    if !requirements::root() {
        return;
    }
    let Some(machine) = Machine::boot() else {
        return requirements::skipped("systemd does not boot in a container here");
    };
    install(&machine.path("/etc/systemd/system"));
    machine.write("/var/www/blog/index.php", "<?php echo 'served';");
    open_to_all(&machine.path("/var/www/blog"), 0o755);
    let [address, other, activated] = [(); 3].map(|()| free_address());
    machine.write("/etc/howdah/howdah.json", document(address));
    machine.write("/etc/howdah/servers/blog.json", document(other));
    machine.systemctl(&["daemon-reload"]);

    // The start is over when the server serves.
    machine.systemctl(&["start", "howdah"]);
    get(address).unwrap();
    let status = machine.systemctl(&["show", "-p", "StatusText", "--value", "howdah"]);
    assert!(status.contains("1 listener"), "{status}");

    // Restarts: every request is answered.
    let is_over = AtomicBool::new(false);
    let request_until_over = || {
        let mut count = 0;
        while !is_over.load(Ordering::Relaxed) {
            get(address)?;
            count += 1;
        }
        std::io::Result::Ok(count)
    };
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(request_until_over)).collect();
        for _ in 0..3 {
            machine.systemctl(&["restart", "howdah"]);
        }
        machine.systemctl(&["reload", "howdah"]);
        get(address).unwrap();
        drop(ends);
        for client in clients {
            assert!(client.join().unwrap().expect("a request failed") > 0);
        }
    });

    // A reload takes over another document.
    let moved = free_address();
    machine.write("/etc/howdah/howdah.json", document(moved));
    machine.systemctl(&["reload", "howdah"]);
    eventually("the new listener serves", || get(moved).ok());
    machine.write("/etc/howdah/howdah.json", document(address));
    machine.systemctl(&["reload", "howdah"]);
    eventually("the old listener serves again", || get(address).ok());

    // A refused document fails the reload, and nothing else. With several services, each reloads
    // its own.
    machine.write("/etc/howdah/howdah.json", "{");
    let reloaded = machine.run(&["systemctl", "reload", "howdah"]);
    assert!(!reloaded.status.success(), "{}", text(&reloaded));
    get(address).unwrap();
    let state = machine.systemctl(&["is-active", "howdah"]);
    assert_eq!(state.trim(), "active");
    machine.write("/etc/howdah/howdah.json", document(address));
    machine.systemctl(&["start", "howdah@blog"]);
    machine.systemctl(&["reload", "howdah", "howdah@blog"]);
    machine.systemctl(&["stop", "howdah@blog"]);

    // A killed server is started again; connections wait for it.
    let pid = machine.systemctl(&["show", "-p", "MainPID", "--value", "howdah"]);
    let killed = machine.run(&["kill", "-KILL", &pid]);
    assert!(killed.status.success(), "{}", text(&killed));
    eventually("the server is started again", || match get(address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => panic!("{error}"),
        // The router that has accepted it has ended.
        response => response.ok(),
    });

    // Records are in the journal with priorities.
    let journal = machine.run(&["journalctl", "-u", "howdah", "-p", "notice", "--no-pager"]);
    assert!(text(&journal).contains("started: howdah"), "{}", text(&journal));

    // A server with a unit of its own, found by the commands.
    machine.systemctl(&["start", "howdah@blog"]);
    get(other).unwrap();
    machine.systemctl(&["stop", "howdah"]);
    let status = text(&machine.run(&["howdah", "status"]));
    assert!(status.contains("Requests     1"), "{status}");
    assert!(get(address).is_err(), "the socket is not kept after the end");
    machine.systemctl(&["stop", "howdah@blog"]);

    // The first request starts the server.
    let unit = format!("[Socket]\nListenStream=\nListenStream={activated}\n");
    machine.write("/etc/systemd/system/howdah.socket.d/address.conf", unit);
    machine.write("/etc/howdah/howdah.json", document(activated));
    machine.systemctl(&["daemon-reload"]);
    machine.systemctl(&["start", "howdah.socket"]);
    get(activated).unwrap();
    machine.systemctl(&["stop", "howdah.socket", "howdah"]);
    let failed = machine.systemctl(&["list-units", "--failed", "--plain", "--no-legend"]);
    assert!(!failed.contains("howdah"), "{failed}");
    let left = descendants(machine.init).into_iter();
    let left: Vec<_> = left.filter(|process| process.title.contains("howdah")).collect();
    assert!(left.is_empty(), "{left:?}");
    processes::signal(machine.init, Signal::KILL);
}
