//! The programs under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;

use super::processes;
use super::time::{PATIENCE, Stopwatch};

/// Returns the `howdah` that cargo has built with this test, with an up-to-date `howdah-php` beside
/// it.
pub fn howdah() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        // Tests are in `deps`; cargo puts the programs of their package beside that directory.
        let above = test.ancestors().nth(2).expect("a test's program lies in two directories");
        let program = above.join("howdah");
        assert!(program.exists(), "{} is not built: run the test with cargo", program.display());
        build_php(&program);
        program
    })
}

/// Returns the version of PHP that is tested with, such as `8.4`.
pub fn php_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let output = Command::new(howdah().with_file_name("howdah-php")).arg("--version").output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        // "PHP 8.4.21 (Howdah …)"
        let numbers: Vec<_> = text.split([' ', '.']).skip(1).take(2).collect();
        numbers.join(".")
    })
}

/// Returns true if the PHP that is tested with is of this version or a later one.
pub fn php_is_at_least(major: u32, minor: u32) -> bool {
    let numbers: Vec<u32> =
        php_version().split('.').map(|number| number.parse().unwrap()).collect();
    numbers.as_slice() >= [major, minor].as_slice()
}

/// Copies a program, with another program: a child that another test forks meanwhile inherits the
/// descriptors of this process, and a file that is open for writing cannot be executed.
pub fn copy(program: &Path, to: &Path) {
    let status = Command::new("cp").arg(program).arg(to).status().unwrap();
    assert!(status.success(), "{} cannot be copied: {status}", program.display());
}

/// Runs a command that ends by itself.
pub fn run(command: &mut Command) -> Output {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stopwatch = Stopwatch::start();
    while child.try_wait().unwrap().is_none() {
        if stopwatch.elapsed() > PATIENCE {
            processes::signal(child.id(), Signal::TERM);
            panic!("it goes on: {:?}", child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Builds `howdah-php`: cargo builds only the programs of the package under test, and this is
/// another package's. It goes into the same directory with the same profile. Cargo's lock
/// serialises concurrent tests.
fn build_php(howdah: &Path) {
    let profile_dir = howdah.parent().expect("a program lies in a directory");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is not in a directory of cargo's", howdah.display()),
    };
    let above = profile_dir.parent().expect("a profile's directory lies in the target directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "howdah-php", "--profile", profile]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // With `--target` there is another directory between, named after the target.
    match (above.join("CACHEDIR.TAG").exists(), above.parent(), above.file_name()) {
        (false, Some(target_dir), Some(triple)) if target_dir.join("CACHEDIR.TAG").exists() => {
            cargo.arg("--target-dir").arg(target_dir).arg("--target").arg(triple);
        }
        _ => {
            cargo.arg("--target-dir").arg(above);
        }
    }
    let output = cargo.output().unwrap_or_else(|error| panic!("{cargo:?}: {error}"));
    assert!(
        output.status.success(),
        "howdah-php cannot be built ({cargo:?}):\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
