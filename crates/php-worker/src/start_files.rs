//! Files that PHP opens while it starts: settings, extensions and scripts. It would wait for the
//! writer of a FIFO, and read a device until no memory is left. Whether a file exists is PHP's to
//! say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use howdah_sys::regular_file;
use howdah_wire::messages::{ApplicationSpec, Problem};

use crate::ffi::IniFiles;

/// Maximum length of a `php.ini`.
pub const MAX_INI_FILE_BYTES: u64 = 16 << 20;

/// Settings that name a file which PHP opens while it starts.
const FILES: [&str; 4] =
    ["opcache.preload", "opcache.blacklist_filename", "browscap", "ffi.preload"];

/// Settings that name code which is loaded into PHP.
const CODE: [&str; 3] = ["extension", "zend_extension", "ffi.preload"];

/// Code that a line of `php.ini` names.
pub struct Code<'a> {
    /// The setting, in lower case.
    pub name: String,
    /// The name or path of the code; not empty.
    pub value: &'a str,
}

impl<'a> Code<'a> {
    /// Returns the code that a line names; `None` if it names none.
    pub fn named_in(line: &'a str) -> Option<Self> {
        let (name, value) = line.split_once('=')?;
        let name = name.trim().to_ascii_lowercase(); // a comment begins with a semicolon
        let value = value.split(';').next().unwrap_or_default().trim();
        let value = ['"', '\'']
            .iter()
            .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
            .unwrap_or(value);
        (CODE.contains(&name.as_str()) && !value.is_empty()).then_some(Code { name, value })
    }

    /// Returns the files that PHP looks for.
    pub fn candidates(&self, extension_dir: &Path) -> Vec<PathBuf> {
        let value = self.value;
        if value.contains('/') {
            vec![PathBuf::from(value)]
        } else {
            vec![extension_dir.join(value), extension_dir.join(format!("{value}.so"))]
        }
    }
}

/// Returns the reason why a file must not be opened; `None` if it is a regular file, or none.
pub fn not_regular(path: &Path) -> Option<String> {
    let is_other = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    let is_empty = path == Path::new("/dev/null");
    (is_other && !is_empty).then(|| format!("{} is not a regular file", path.display()))
}

/// Checks the files that settings name, once they have been read. Relative paths are not checked:
/// PHP looks them up in `include_path`.
pub fn check_named(spec: &ApplicationSpec) -> Result<(), Problem> {
    for name in FILES {
        let parts = [("admin", &spec.ini_admin), ("user", &spec.ini_user)];
        let own = parts.iter().find_map(|(part, settings)| {
            let (_, value) = settings.iter().rev().find(|(found, _)| found == name)?;
            Some((format!("options/{part}/{name}"), value.clone()))
        });
        let is_own = own.is_some();
        let of_files = || Some((key_of_files(spec), IniFiles::setting(name)?));
        let Some((key, value)) = own.or_else(of_files) else { continue };
        if value.starts_with('/')
            && let Some(problem) = not_regular(Path::new(&value))
        {
            return Err(Problem::at(
                key,
                if is_own { problem } else { format!("{name}: {problem}") },
            ));
        }
    }
    Ok(())
}

/// Returns the files of settings that can be read, with their texts.
fn texts(ini: &IniFiles) -> impl Iterator<Item = (&Path, String)> {
    std::iter::once(&ini.main).chain(&ini.scanned).filter_map(|file| {
        let text = regular_file::read(file, MAX_INI_FILE_BYTES).ok()?;
        Some((file.as_path(), String::from_utf8_lossy(&text).into_owned()))
    })
}

/// Returns true if settings contain variables, whose values other applications may not have.
pub fn contain_variables(ini: &IniFiles) -> bool {
    let is_variable = |line: &str| line.contains("${") && !line.trim_start().starts_with(';');
    texts(ini).any(|(_, text)| text.lines().any(is_variable))
}

/// Returns a problem for each variable that the files of settings name and nobody has. `missing` are
/// the names that PHP has asked for in vain: those with a default, too.
pub fn missing_variables(spec: &ApplicationSpec, missing: &BTreeSet<String>) -> Vec<Problem> {
    if missing.is_empty() {
        return Vec::new();
    }
    let (ini, _) = IniFiles::of_this_start();
    let files: Vec<_> = texts(&ini).collect();
    let places = files.iter().flat_map(|(file, text)| {
        missing_in(text, missing).map(move |(line, name)| {
            let problem = format_args!(
                "{}, line {line}: ${{{name}}} is neither in the environment of the application nor \
                 in that of the server (which files that other users can change do not see), so it \
                 is empty; set it, or write ${{{name}:-default}}",
                file.display()
            );
            Problem::at(key_of_files(spec), problem)
        })
    });
    places.collect()
}

/// Returns the places of these variables in a file, each with the number of its line.
fn missing_in<'a>(
    text: &'a str,
    missing: &'a BTreeSet<String>,
) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with(';'));
    lines.flat_map(move |(index, line)| {
        let names = line.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
        let is_missing = |name: &&str| missing.contains(*name);
        names.map(|(name, _)| name).filter(is_missing).map(move |name| (index + 1, name))
    })
}

/// Checks the extensions that the files of settings name, before they are loaded.
pub fn check_extensions(spec: &ApplicationSpec) -> Result<(), Problem> {
    let (ini, extension_dir) = IniFiles::of_this_start();
    for (file, text) in texts(&ini) {
        if let Some(problem) = extension_in(&text, &extension_dir) {
            let problem = format_args!("{}: {problem}", file.display());
            return Err(Problem::at(key_of_files(spec), problem));
        }
    }
    Ok(())
}

fn extension_in(text: &str, extension_dir: &Path) -> Option<String> {
    text.lines().filter_map(Code::named_in).find_map(|code| {
        let problem = code.candidates(extension_dir).iter().find_map(|path| not_regular(path))?;
        Some(format!("{}: {problem}", code.name))
    })
}

fn key_of_files(spec: &ApplicationSpec) -> String {
    spec.ini_file.as_ref().map_or_else(String::new, |_| "options/file".to_owned())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn an_extension_that_is_no_file_is_found() {
        let place = tempfile::tempdir().unwrap();
        let fifo = place.path().join("fifo.so");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let path = fifo.display().to_string();
        for line in [
            "extension=fifo",
            "  Zend_Extension = \"fifo.so\" ; a comment",
            &format!("extension={path}"),
            &format!("memory_limit=1G\n[PHP]\nffi.preload='{path}'"),
        ] {
            let found = extension_in(line, place.path());
            assert!(found.is_some_and(|found| found.contains(&path)), "{line}");
        }
        for line in [";extension=fifo", "extension=", "extension=other", "fifo", "extension=/tmp"] {
            assert_eq!(extension_in(line, place.path()), None, "{line}");
        }
        assert_eq!(not_regular(Path::new("/dev/null")), None);
        assert!(not_regular(Path::new("/dev/zero")).is_some());
    }
}
