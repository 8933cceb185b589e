//! The format of the state directory, in its file `format`.
//!
//! ```text
//! howdah state 1
//! written by howdah 1.2.0
//! ```
//!
//! The number changes only if a program that knows the former number could not use the directory,
//! or would damage it. That program refuses the directory before it reads or writes anything else.
//! A directory without the file is of format 1. The second line is for messages.

use std::io;
use std::path::Path;

use howdah_sys::regular_file;

use crate::store;

/// The format that this program reads and writes.
const FORMAT: u32 = 1;

const VERSION: &str = env!("CARGO_PKG_VERSION");

const FILE: &str = "format";

/// Maximum length of the file, in bytes.
const MAX_LENGTH: u64 = 4096;

/// Name of the temporary file.
const NEW: &str = "format.new";

/// The contents of the file.
#[derive(Debug, PartialEq, Eq)]
struct StateFormat {
    number: u32,
    /// Version of the program that wrote to the directory last; empty if it is not known.
    writer: String,
}

/// The reason why a state directory cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct FormatProblem {
    /// The problem, and the remedy.
    pub message: String,
    /// The file cannot be read. Other files of the directory may still be read; the directory
    /// cannot be written to.
    pub is_damage: bool,
}

/// Checks that this program can use a state directory. One that does not exist is new.
pub fn check(state: &Path) -> Result<(), FormatProblem> {
    let found = read(state).map_err(|error| {
        let message =
            format!("cannot read the format of the state in {}: {error}", state.display());
        FormatProblem { message, is_damage: true }
    })?;
    match found {
        Some(StateFormat { number, writer }) if number > FORMAT => {
            let by =
                if writer.is_empty() { "a newer version" } else { &*format!("howdah {writer}") };
            let message = format!(
                "the state in {} has format {number}, written by {by}; howdah {VERSION} reads \
                 format {FORMAT}, and has changed nothing: install {by} again, or start with \
                 another directory (--state DIR)",
                state.display()
            );
            Err(FormatProblem { message, is_damage: false })
        }
        _ => Ok(()),
    }
}

/// Returns the version of the program that wrote to a state directory last, if it is newer than
/// this one.
pub fn newer_writer(state: &Path) -> Option<String> {
    let writer = read(state).ok()??.writer;
    (numbers(&writer)? > numbers(VERSION)?).then_some(writer)
}

/// Records that this program writes to a state directory. Must be called before it does.
pub(crate) fn mark(state: &Path) -> io::Result<()> {
    let own = StateFormat { number: FORMAT, writer: VERSION.to_owned() };
    if read(state)?.as_ref() == Some(&own) {
        return Ok(());
    }
    let text = format!("howdah state {FORMAT}\nwritten by howdah {VERSION}\n");
    store::replace(state, NEW, FILE, text.as_bytes())
}

/// Reads the file; `None` if there is none.
fn read(state: &Path) -> io::Result<Option<StateFormat>> {
    let path = state.join(FILE);
    let text = match regular_file::read(&path, MAX_LENGTH) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut lines = text.lines();
    let number = lines.next().and_then(|line| line.strip_prefix("howdah state ")?.parse().ok());
    let number = number.ok_or_else(|| {
        io::Error::other(format!(
            "{} does not begin with \"howdah state NUMBER\"; restore it from a backup, or remove \
             it if this version of howdah has written the directory",
            path.display()
        ))
    })?;
    let writer = lines.next().and_then(|line| line.strip_prefix("written by howdah "));
    Ok(Some(StateFormat { number, writer: writer.unwrap_or_default().to_owned() }))
}

/// Returns the numbers of a version such as `1.2.3`, without a suffix.
fn numbers(version: &str) -> Option<Vec<u32>> {
    let plain = version.split(['-', '+']).next()?;
    plain.split('.').map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn state(text: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), text).unwrap();
        directory
    }

    #[test]
    fn a_newer_format_is_refused_with_the_version_to_install() {
        let newer = state("howdah state 2\nwritten by howdah 9.1.0\nmore\n");
        let problem = check(newer.path()).unwrap_err();
        assert!(!problem.is_damage);
        let problem = problem.message;
        for part in ["has format 2", "install howdah 9.1.0 again", "--state DIR"] {
            assert!(problem.contains(part), "{problem}");
        }
        let problem = check(state("howdah state 3\n").path()).unwrap_err().message;
        assert!(problem.contains("install a newer version again"), "{problem}");
        assert_eq!(newer_writer(newer.path()).as_deref(), Some("9.1.0"));
    }

    #[test]
    fn a_damaged_file_is_refused_too() {
        for text in ["", "2\n", "howdah state\n", "howdah state -1\n", "howdah state 1x\n"] {
            let problem = check(state(text).path()).unwrap_err();
            assert!(problem.is_damage);
            let problem = problem.message;
            assert!(problem.contains("howdah state NUMBER"), "{text:?}: {problem}");
            assert!(mark(state(text).path()).is_err(), "{text:?} is not overwritten");
        }
    }

    #[test]
    fn a_directory_of_this_format_is_used_whoever_has_written_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none");
        assert_eq!((check(&path), newer_writer(&path)), (Ok(()), None));
        mark(&path).unwrap();
        let text = format!("howdah state 1\nwritten by howdah {VERSION}\n");
        assert_eq!(fs::read_to_string(path.join(FILE)).unwrap(), text);
        assert_eq!((check(&path), newer_writer(&path)), (Ok(()), None));
        let newer = state("howdah state 1\nwritten by howdah 99.0.0\n");
        assert_eq!(check(newer.path()), Ok(()));
        assert_eq!(newer_writer(newer.path()).as_deref(), Some("99.0.0"));
        mark(newer.path()).unwrap();
        assert_eq!(newer_writer(newer.path()), None);
        assert_eq!(newer_writer(state("howdah state 1\n").path()), None);
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("0.10.0") > numbers("0.9.9") && numbers("1.0.0-rc1") == numbers("1.0.0"));
        assert_eq!(numbers("x"), None);
    }
}
