//! Finds the programs that run PHP: one `howdah-php` for each version.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use howdah_supervisor::PhpProgram;

/// Advice if no program is found.
pub const ADVICE: &str = "no usable howdah-php beside howdah or in /usr/lib/howdah; install PHP's \
                          library (Debian: apt-get install libphp8.2-embed)";

/// The programs that were found.
#[derive(Debug, Default)]
pub struct Programs {
    /// Programs that run.
    pub found: Vec<PhpProgram>,
    /// Errors of programs that do not run.
    pub problems: Vec<String>,
}

/// Searches the directory of this program and that of packages.
pub fn find() -> Programs {
    let own = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let mut programs = Programs::default();
    let mut versions = BTreeMap::new();
    for directory in own.into_iter().chain([PathBuf::from("/usr/lib/howdah")]) {
        for path in candidates(&directory) {
            match version_of(&path) {
                Ok(version) => {
                    versions.entry(version).or_insert(path);
                }
                Err(problem) => programs.problems.push(problem),
            }
        }
    }
    let program = |(version, path)| PhpProgram { version, path };
    programs.found = versions.into_iter().map(program).collect();
    programs
}

fn candidates(directory: &Path) -> Vec<PathBuf> {
    let is_candidate = |name: &str| {
        name.strip_prefix("howdah-php")
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    };
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_candidate))
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
}

/// Runs a program to get its version.
fn version_of(path: &Path) -> Result<String, String> {
    let problem = |what: String| format!("{}: {what}", path.display());
    let output = Command::new(path)
        .arg("--version")
        .env_clear()
        .output()
        .map_err(|error| problem(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().find(|word| {
        word.split('.').count() == 3 && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    });
    match version {
        Some(version) if output.status.success() => Ok(version.to_owned()),
        _ => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let reason = errors.lines().next().unwrap_or("it does not print its version");
            // The dynamic linker exits with 127 if a library is missing.
            let is_installed = output.status.code().is_some_and(|status| status != 127);
            let advice = match is_installed {
                true => {
                    "PHP is installed and does not start; correct this error, in its php.ini or in \
                         the system"
                        .to_owned()
                }
                false => ADVICE.to_owned(),
            };
            Err(problem(format!("{reason}; {advice}")))
        }
    }
}
