//! Several versions of PHP beside one server: the document chooses, and every message names the
//! installed versions.
//!
//! One version is that of the tests. Scripts act as the programs of the others, which only print
//! the output of `howdah-php --version`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use harness::{Site, merge, open_to_all, programs};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with `howdah` and the programs of some versions.
struct Programs(TempDir);

impl Programs {
    fn new() -> Self {
        let programs = Programs(tempfile::tempdir().unwrap());
        open_to_all(programs.0.path(), 0o755);
        let howdah = programs::howdah();
        programs::copy(howdah, programs.0.path());
        let own = programs.path(&format!("howdah-php{}", programs::php_version()));
        programs::copy(&howdah.with_file_name("howdah-php"), &own);
        programs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Adds a script in place of a program.
    fn script(&self, name: &str, commands: &str) {
        let path = self.path(name);
        // Written by a program of its own: see `programs::copy`.
        let write = ["-c", "printf '#!/bin/sh\n%s\n' \"$1\" >\"$0\"; chmod 755 \"$0\""];
        let status = Command::new("sh").args(write).arg(&path).arg(commands).status().unwrap();
        assert!(status.success());
    }

    /// Adds a program that prints a version of PHP.
    fn version(&self, version: &str, howdah: &str) {
        let minor = version.rsplit_once('.').unwrap().0;
        let line = format!("echo 'PHP {version} (Howdah {howdah}; no OPcache)'");
        self.script(&format!("howdah-php{minor}"), &line);
    }

    fn howdah(&self, arguments: &[&str]) -> Output {
        programs::run(Command::new(self.path("howdah")).args(arguments))
    }

    /// Checks the site's document with changes to its application.
    fn check(&self, site: &Site, changes: Value) -> (bool, String) {
        let mut document = site.document("127.0.0.1:80");
        merge(&mut document, json!({"applications": {"site": changes}}));
        let path = site.data().join("check.json");
        fs::write(&path, document.to_string()).unwrap();
        let output = self.howdah(&["check", path.to_str().unwrap()]);
        (output.status.success(), text(&output))
    }
}

/// Standard output and standard error.
fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

const HOWDAH: &str = env!("CARGO_PKG_VERSION");

#[test]
fn the_command_line_lists_all_versions_that_there_are() {
    let programs = Programs::new();
    programs.version("7.98.2", HOWDAH);
    let listed = text(&programs.howdah(&["--version"]));
    let own =
        programs.path(&format!("howdah-php{}", programs::php_version())).display().to_string();
    for part in
        [&format!("PHP {}.", programs::php_version()), &own, "PHP 7.98.2 (", "howdah-php7.98)"]
    {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let (is_valid, told) = programs.check(&Site::script("a.php", "echo 1;"), json!({}));
    assert!(is_valid, "{told}");
    let list = format!(
        "check.json: there is PHP 7.98.2 ({}), ",
        programs.path("howdah-php7.98").display()
    );
    assert!(told.contains(&list), "{told}");
    assert!(told.contains(&own), "{told}");
}

#[test]
fn an_application_gets_the_version_that_it_names() {
    let programs = Programs::new();
    // Would be taken without a version in the document, and does not serve.
    programs.version("98.1.0", HOWDAH);
    let launcher =
        ["sh", "-c", "shift; exec \"$0/howdah\" \"$@\"", programs.0.path().to_str().unwrap()];
    let site = Site::script("a.php", "echo PHP_VERSION;");
    let kind = format!("php {}", programs::php_version());
    let server =
        site.with(json!({"applications": {"site": {"type": kind}}})).through(&launcher).serve();
    let version = server.get("/a.php").text();
    assert!(version.starts_with(&format!("{}.", programs::php_version())), "{version}");
}

#[test]
fn a_version_that_is_missing_is_reported_with_those_that_there_are() {
    let programs = Programs::new();
    programs.version("7.98.2", HOWDAH);
    let site = Site::script("a.php", "echo 1;");
    let (is_valid, told) = programs.check(&site, json!({"type": "php 98.3"}));
    assert!(!is_valid, "{told}");
    let start = "/applications/site/type: PHP 98.3 is not available; there is PHP 7.98.2, ";
    assert!(told.contains(start), "{told}");
    assert!(
        told.contains("install the package howdah-php98.3") && told.contains("libphp98.3-embed"),
        "{told}"
    );
    let (is_valid, told) = programs.check(&site, json!({"type": "php 7.98.1"}));
    assert!(!is_valid && told.contains("write \"php 7.98\" for any release"), "{told}");
}

#[test]
fn a_change_to_a_missing_version_is_refused_and_what_runs_goes_on() {
    let server = Site::script("a.php", "echo 'here';").controlled().serve();
    let document = server.site.document(server.address);
    server.put("/config", &document);
    let mut other = document.clone();
    other["applications"]["site"]["type"] = json!("php 98");
    other["applications"]["site"]["processes"] = json!({"spare": 0, "max": 1});
    let refused = server.control("PUT", "/config", other.to_string());
    assert_eq!(refused.status, 500, "{}", refused.body);
    let start = "application \"site\": type: PHP 98 is not available; there is PHP ";
    assert!(refused.text("detail").starts_with(start), "{}", refused.body);
    assert_eq!(server.get("/a.php").text(), "here");
    assert_eq!(server.control("GET", "/config", "").succeeded(), document);
}

#[test]
fn a_program_that_does_not_run_is_reported_with_its_reason() {
    let programs = Programs::new();
    programs.script(
        "howdah-php98.1",
        "echo 'libphp98.1.so: cannot open shared object file' >&2; exit 127",
    );
    let site = Site::script("a.php", "echo 1;");
    let (is_valid, told) = programs.check(&site, json!({}));
    assert!(is_valid, "another version serves: {told}");
    let warning = format!("howdah: warning: {}", programs.path("howdah-php98.1").display());
    assert!(told.contains(&warning) && told.contains("install libphp98.1-embed"), "{told}");
    let (is_valid, told) = programs.check(&site, json!({"type": "php 98.1"}));
    assert!(!is_valid, "{told}");
    let errors: Vec<_> =
        told.lines().filter(|line| line.contains("/applications/site/type")).collect();
    assert!(errors[0].contains("cannot open shared object file; install PHP's library"), "{told}");
}

#[test]
fn a_program_of_another_release_of_howdah_is_not_used() {
    let programs = Programs::new();
    programs.version("98.1.0", "0.0.1");
    let listed = text(&programs.howdah(&["--version"]));
    assert!(listed.contains("it belongs to Howdah 0.0.1"), "{listed}");
    assert!(!listed.contains("PHP 98.1.0"), "{listed}");
    let (is_valid, told) =
        programs.check(&Site::script("a.php", "echo 1;"), json!({"type": "php 98"}));
    assert!(!is_valid && told.contains("PHP 98 is not available; there is PHP "), "{told}");
}

/// A program that does not end, as one that waits for a drive.
#[test]
fn a_check_that_needs_no_php_leaves_no_program_behind() {
    let programs = Programs::new();
    let pid = programs.path("pid");
    let commands = format!("echo $$ >{}\nexec sleep 3600", pid.display());
    programs.script("howdah-php9.9", &commands);
    let document = programs.path("bad.json");
    fs::write(&document, "{").unwrap();
    // It may have been killed before it has written its id.
    for _ in 0..5 {
        let output = programs.howdah(&["check", document.to_str().unwrap()]);
        assert!(!output.status.success());
        let pid = fs::read_to_string(&pid).unwrap_or_default();
        assert!(pid.is_empty() || !PathBuf::from(format!("/proc/{}/exe", pid.trim())).exists());
    }
}
