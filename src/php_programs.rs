//! Finds the programs that run PHP: one `howdah-php` for each version.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use howdah_supervisor::{PhpProgram, UnusableProgram, busy_time};

/// Advice if no program is found.
pub const ADVICE: &str = "there is no howdah-php beside howdah or in /usr/lib/howdah; install a \
                          package howdah-phpX.Y, such as howdah-php8.2, or build it";

/// Advice if a program does not run and does not name the missing library.
const LIBRARY_ADVICE: &str = "install PHP's library (Debian: apt-get install libphp-embed)";

/// Time within which a program must have started PHP and printed its version: a start waits for
/// that. Time for which it runs, or waits for a processor, does not count.
const LIMIT: Duration = Duration::from_secs(10);

/// The same with the time for which it runs, and waits for a processor.
const MAX_TIME: Duration = Duration::from_secs(120);

/// Maximum time for the end of a program that was killed: a drive may stop it.
const END_TIMEOUT: Duration = Duration::from_millis(200);

/// The programs that were found.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// Programs that run.
    pub found: Vec<PhpProgram>,
    /// Programs that do not run.
    pub unusable: Vec<UnusableProgram>,
}

impl Programs {
    /// Returns the reason why PHP cannot be run, if there is no program that runs.
    pub fn missing(&self) -> Option<String> {
        if !self.found.is_empty() {
            return None;
        }
        let reason = self.unusable.first().map_or_else(|| ADVICE.to_owned(), ToString::to_string);
        Some(format!("PHP cannot be run: {reason}"))
    }
}

/// Returns the programs in the directory of this program and in that of packages, as they were when
/// they were searched for the first time. Each is run for its version, which takes time.
pub fn find() -> &'static Programs {
    static FOUND: OnceLock<Programs> = OnceLock::new();
    FOUND.get_or_init(|| {
        let queries = QUERIES.lock().unwrap_or_else(PoisonError::into_inner).take();
        search(queries.unwrap_or_else(Query::all))
    })
}

/// Starts each program with `--version`. [`find`] reads the output. Programs that it has not read
/// until the result is dropped are killed.
pub fn start_queries() -> Queries {
    *QUERIES.lock().unwrap_or_else(PoisonError::into_inner) = Some(Query::all());
    Queries
}

/// Kills the programs of [`start_queries`] that still run.
pub struct Queries;

impl Drop for Queries {
    fn drop(&mut self) {
        let left = QUERIES.lock().unwrap_or_else(PoisonError::into_inner).take();
        let children = left.into_iter().flatten().filter_map(|query| query.child.ok());
        children.for_each(|mut child| end(&mut child));
    }
}

/// Programs that were started with `--version`.
static QUERIES: Mutex<Option<Vec<Query>>> = Mutex::new(None);

/// A program that was started with `--version`.
struct Query {
    path: PathBuf,
    child: io::Result<Child>,
    start: Instant,
}

impl Query {
    fn all() -> Vec<Query> {
        let own = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
        let directories = own.into_iter().chain([PathBuf::from("/usr/lib/howdah")]);
        directories.flat_map(|directory| candidates(&directory)).map(Query::start).collect()
    }

    fn start(path: PathBuf) -> Query {
        let mut command = Command::new(&path);
        command.arg("--version").env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Query { child: command.spawn(), path, start: Instant::now() }
    }
}

fn search(queries: Vec<Query>) -> Programs {
    let mut programs = Programs::default();
    let mut versions = BTreeMap::new();
    for Query { path, child, start } in queries {
        match open(&path, child, start) {
            Ok(program) => {
                versions.entry(program.version.clone()).or_insert(program);
            }
            Err(reason) => programs.unusable.push(UnusableProgram { path, reason }),
        }
    }
    programs.found = versions.into_values().collect();
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

/// Opens a program of this version of Howdah. Error: why it cannot be used.
fn open(path: &Path, child: io::Result<Child>, start: Instant) -> Result<PhpProgram, String> {
    let version = version_of(path, child, start)?;
    PhpProgram::open(version, path.to_owned()).map_err(|error| format!("cannot be opened: {error}"))
}

/// Waits for the version of a program.
fn version_of(path: &Path, child: io::Result<Child>, start: Instant) -> Result<String, String> {
    let output = child.and_then(|child| output(child, start)).map_err(|error| error.to_string())?;
    let output = output.ok_or_else(|| {
        format!(
            "PHP has not started for {} s: an extension, or another file that its php.ini names, \
             waits for a drive or another program; correct that, or remove it",
            LIMIT.as_secs()
        )
    })?;
    match read_version(&String::from_utf8_lossy(&output.stdout)) {
        Some((php, OWN_VERSION)) if output.status.success() => Ok(php.to_owned()),
        Some((_, howdah)) if output.status.success() => Err(format!(
            "it belongs to Howdah {howdah}, and this is {OWN_VERSION}; install both in the same \
             version"
        )),
        _ => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let reason = errors.lines().next().unwrap_or("it does not print its version");
            // The dynamic linker begins with the program's path.
            let own = format!("{}: ", path.display());
            let reason = reason.strip_prefix(&own).unwrap_or(reason);
            // The dynamic linker exits with 127 if a library is missing.
            match output.status.code() {
                Some(127) | None => Err(format!("{reason}; {}", library_advice(reason))),
                Some(_) => Err(format!(
                    "{reason}; PHP is installed and does not start; correct this error, in its \
                     php.ini or in the system"
                )),
            }
        }
    }
}

/// Kills a program, and waits for a short time until it has ended.
fn end(child: &mut Child) {
    let (_, killed) = (child.kill(), Instant::now());
    while matches!(child.try_wait(), Ok(None)) && killed.elapsed() < END_TIMEOUT {
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a program exits. `start` is the time at which it was started. Returns its output, which
/// fits into a pipe; `None` if it takes too long.
fn output(mut child: Child, start: Instant) -> io::Result<Option<Output>> {
    while child.try_wait()?.is_none() {
        let elapsed = start.elapsed();
        let is_late = || elapsed.saturating_sub(busy_time(child.id())) >= LIMIT;
        if elapsed >= MAX_TIME || elapsed >= LIMIT && is_late() {
            end(&mut child);
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().map(Some)
}

/// Reads the versions of PHP and Howdah in `PHP 8.4.21 (Howdah 1.0.0; …)`.
fn read_version(text: &str) -> Option<(&str, &str)> {
    let (php, rest) = text.strip_prefix("PHP ")?.split_once(" (Howdah ")?;
    let howdah = rest.split([';', ')']).next()?;
    // "8.5.0RC1" is a version as well.
    let mut numbers = php.split('.').map(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    let is_version = numbers.by_ref().take(3).eq([true; 3]) && numbers.next().is_none();
    is_version.then_some((php, howdah))
}

/// Returns the advice for a message of the dynamic linker, which names the library that is missing.
fn library_advice(message: &str) -> String {
    let version = message.split_whitespace().find_map(|word| {
        let version = word.strip_prefix("libphp")?.split_once(".so")?.0;
        (!version.is_empty()).then_some(version)
    });
    match version {
        Some(version) => {
            format!("install PHP's library (Debian: apt-get install libphp{version}-embed)")
        }
        None => LIBRARY_ADVICE.to_owned(),
    }
}

const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_of_php_and_howdah_are_read() {
        let read = |text| read_version(text);
        assert_eq!(read("PHP 8.4.21 (Howdah 0.1.0; OPcache 8.4.21)\n"), Some(("8.4.21", "0.1.0")));
        assert_eq!(
            read("PHP 8.5.0RC1-dev (Howdah 1.2.3-beta; no OPcache)").unwrap().0,
            "8.5.0RC1-dev"
        );
        for text in [
            "",
            "PHP 8.4 (Howdah 1.0.0)",
            "PHP 8.4.1.2 (Howdah 1.0.0)",
            "PHP 8.4.1",
            "PHP 8..1 (Howdah 1)",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn the_advice_names_the_library_that_is_missing() {
        let message = "/x/howdah-php8.4: error while loading shared libraries: libphp8.4.so: \
                       cannot open shared object file: No such file or directory";
        assert!(library_advice(message).contains("apt-get install libphp8.4-embed)"));
        for message in ["libxml2.so.2: cannot open", "", "libphp.so: cannot open"] {
            assert_eq!(library_advice(message), LIBRARY_ADVICE);
        }
    }
}
