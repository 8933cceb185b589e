//! Requirements of tests on the machine. A test that cannot run here prints the reason and ends.
//!
//! `tools/ci.py` reads the output and counts the test as skipped.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::thread;

/// Returns true if the test runs as root; otherwise reports that it is skipped.
#[track_caller]
pub fn root() -> bool {
    let found = is_root();
    if !found {
        skipped("it takes root");
    }
    found
}

/// Returns true if the test runs as root, for tests that can run either way.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Reports that the calling test cannot run here; the test must then return.
#[track_caller]
pub fn skipped(reason: impl Display) {
    let thread = thread::current();
    match thread.name() {
        // libtest names the thread of each test after it, unless there is only one thread.
        Some(name) if name != "main" => skipped_test(name, reason),
        _ => skipped_test(&Location::caller().to_string(), reason),
    }
}

/// Reports that the test of this name cannot run here.
pub fn skipped_test(name: &str, reason: impl Display) {
    say(&format!("{MARK}{name}: {reason}"));
}

/// Repeats the reports of a test that this test has run as a program.
pub fn pass_on(errors: &str) {
    errors.lines().filter(|line| line.starts_with(MARK)).for_each(say);
}

const MARK: &str = "skipped: ";

/// Does not use `eprintln!`, whose output libtest hides if the test passes.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
