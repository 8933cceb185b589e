//! What a test needs of the machine. A test that cannot run here says so and ends.
//!
//! `tools/ci.py` reads what is said and counts the test as skipped.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::thread;

/// Whether the test runs as root; otherwise it is skipped.
#[track_caller]
pub fn root() -> bool {
    let found = is_root();
    if !found {
        skipped("it takes root");
    }
    found
}

/// Whether the test runs as root, for those that run either way.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that the test that calls this cannot run here; it has to return then.
#[track_caller]
pub fn skipped(reason: impl Display) {
    let thread = thread::current();
    match thread.name() {
        // libtest names the thread of each test after it, unless there is one thread only.
        Some(name) if name != "main" => skipped_test(name, reason),
        _ => skipped_test(&Location::caller().to_string(), reason),
    }
}

/// As [`skipped`], for the test of a name.
pub fn skipped_test(name: &str, reason: impl Display) {
    say(&format!("{MARK}{name}: {reason}"));
}

/// Says again what a test has said about its requirements that this one has run as a program.
pub fn pass_on(errors: &str) {
    errors.lines().filter(|line| line.starts_with(MARK)).for_each(say);
}

const MARK: &str = "skipped: ";

/// Not with `eprintln!`, whose lines libtest keeps to itself if the test passes.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
