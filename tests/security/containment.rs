//! Namespaces and users for a test alone.
//!
//! The test program starts itself again as the first process of a process namespace, with a
//! network, mounts and System V objects of its own, and a user database in which `www-data` and a
//! few others have numbers that nobody else has. So an attack that sends a signal to every process
//! of its user, or uses up the limits of a user, has no effect on other processes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use tempfile::TempDir;

use crate::attacker;
use harness::{open_to_all, programs, requirements};

/// Set in the program that runs inside; its value is a number that no other test has.
const VARIABLE: &str = "HOWDAH_TEST_CONTAINED";

const NAMESPACES: [&str; 7] =
    ["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--ipc", "--net"];

/// Tests of one run that have user ids of their own. Process ids are below 2^22, so that all ids
/// are below 2^31.
const TESTS: u32 = 32;

/// User ids for each test.
const USER_IDS: u32 = 8;

/// Users that exist in the test alone, besides `www-data`.
pub const USERS: [&str; 2] = ["site-a", "site-b"];

/// The surroundings of a test inside.
pub struct World {
    /// The attacker, compiled.
    pub attacker: PathBuf,
    /// Version of Landlock that the kernel has; 0 if it has none.
    pub landlock: u32,
    first_uid: u32,
    _directory: TempDir,
}

impl World {
    /// The user id of `www-data` here.
    pub fn www_data(&self) -> u32 {
        self.first_uid
    }

    /// The user id of one of [`USERS`].
    pub fn user(&self, name: &str) -> u32 {
        let position = USERS.iter().position(|user| *user == name).expect("one of USERS");
        self.first_uid + 1 + position as u32
    }
}

/// Runs a test inside, or says why it cannot. `name` is the test's own.
pub fn contained(name: &str, test: impl FnOnce(&World)) {
    if let Ok(number) = env::var(VARIABLE) {
        test(&enter(number.parse().expect("a number")));
        return;
    }
    if let Some(reason) = obstacle() {
        return requirements::skipped_test(name, reason);
    }
    // Built here, as there is no network inside.
    programs::howdah();
    // Several tests of this program run at once.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id() * TESTS + NEXT.fetch_add(1, Ordering::Relaxed) % TESTS;
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).arg(env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(VARIABLE, number.to_string()).stdin(Stdio::null());
    // A sandbox opens /tmp to its application.
    command.env("TMPDIR", "/var/tmp");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    eprint!("{errors}");
    requirements::pass_on(&errors);
    assert!(output.status.success(), "the test failed inside: {}", output.status);
    assert!(text.contains("1 passed"), "there is no test of the name {name}");
}

/// Reason why this machine cannot run the tests.
fn obstacle() -> Option<String> {
    if !requirements::is_root() {
        return Some("it takes root to make users and namespaces".to_owned());
    }
    let works = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        match output {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(error.to_string()),
        }
    };
    if let Some(error) = works("cc", &["--version"]) {
        return Some(format!("cc cannot be run: {error}"));
    }
    let unshare: Vec<_> = NAMESPACES.into_iter().chain(["true"]).collect();
    works("unshare", &unshare).map(|error| format!("namespaces cannot be made: {error}"))
}

/// Makes the world of a test.
fn enter(number: u32) -> World {
    // Otherwise the process group of the server is that of a process outside.
    let _ = rustix::process::setsid();
    let directory = tempfile::Builder::new().prefix("howdah-attacker-").tempdir().unwrap();
    open_to_all(directory.path(), 0o755);
    let attacker = directory.path().join("attacker");
    attacker::compile(&attacker);
    let status = Command::new(&attacker).arg("loopback").status().unwrap();
    assert!(status.success(), "the loopback device cannot be brought up: {status}");
    let output = Command::new(&attacker).arg("landlock").output().unwrap();
    let landlock = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0);
    let first_uid = (1 << 30) + number * USER_IDS;
    make_users(directory.path(), first_uid);
    let shared = Path::new("/dev/shm");
    if shared.exists() {
        let status = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(shared).status();
        assert!(status.unwrap().success(), "{} cannot be mounted", shared.display());
        open_to_all(shared, 0o1777);
    }
    World { attacker, landlock, first_uid, _directory: directory }
}

/// Puts a user database of the test's own in the place of the system's.
fn make_users(directory: &Path, first_uid: u32) {
    for (file, rest) in [("passwd", "::/nonexistent:/usr/sbin/nologin"), ("group", "")] {
        let path = Path::new("/etc").join(file);
        let mut text: String = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with("www-data:"))
            .map(|line| format!("{line}\n"))
            .collect();
        for (name, uid) in ["www-data"].into_iter().chain(USERS).zip(first_uid..) {
            let ids = if file == "passwd" { format!("{uid}:{uid}") } else { format!("{uid}:") };
            text.push_str(&format!("{name}:x:{ids}{rest}\n"));
        }
        let own = directory.join(file);
        fs::write(&own, text).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o644)).unwrap();
        let status = Command::new("mount").arg("--bind").args([&own, &path]).status().unwrap();
        assert!(status.success(), "{} cannot be mounted", path.display());
    }
}
