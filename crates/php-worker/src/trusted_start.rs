//! The files that the zygote loads when PHP starts must be the administrator's: settings, and the
//! extensions that they name. It runs with the right to become any user.
//!
//! Checked once PHP has read its settings, before it loads the first extension.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use howdah_sys::protected::protected;
use howdah_sys::regular_file;

use crate::ffi::IniFiles;
use crate::start_files::{Code, MAX_INI_FILE_BYTES, not_regular};

/// Returns the reason why the zygote must not start PHP with these settings. `extension_dir` is the
/// directory of extensions.
pub fn refusal(ini: &IniFiles, extension_dir: &Path) -> Option<String> {
    let mut files = vec![ini.main.clone()];
    for directory in &ini.directories {
        match fs::read_dir(directory) {
            Ok(entries) => {
                // PHP reads only these.
                let is_read =
                    |path: &PathBuf| path.extension() == Some("ini".as_ref()) && path.is_file();
                files.extend(entries.flatten().map(|entry| entry.path()).filter(is_read));
                files.push(directory.clone());
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Some(format!("{}: {error}", directory.display())),
        }
    }
    files.push(extension_dir.to_owned());
    for file in files {
        match protected(&file) {
            // In a sticky directory others could put files of their own.
            Ok(real) if real.is_dir() => {
                if is_open_to_others(&real) {
                    let problem = "can be changed by other users; take that right away from them";
                    return Some(format!("{} {problem}", real.display()));
                }
            }
            Ok(_) => {
                if let Some(reason) = refusal_of_file(&file, extension_dir) {
                    return Some(format!("{}: {reason}", file.display()));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Some(error.to_string()),
        }
    }
    None
}

fn refusal_of_file(file: &Path, extension_dir: &Path) -> Option<String> {
    let text = match regular_file::read(file, MAX_INI_FILE_BYTES) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => return Some(format!("cannot be read by the server's user: {error}")),
    };
    text.lines().find_map(|line| refusal_of_line(line, extension_dir))
}

fn refusal_of_line(line: &str, extension_dir: &Path) -> Option<String> {
    if !line.trim_start().starts_with([';', '[']) && line.contains("${") {
        return Some("it contains environment variables".to_owned());
    }
    let Code { name, value } = Code::named_in(line)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    if !value.bytes().all(is_plain) {
        return Some(format!("{name} is neither a name nor a path"));
    }
    // A name is looked for in a directory in which no other user can put a file; a path that leads
    // nowhere yet could be one of another user by the time it is loaded.
    let may_be_missing = !value.contains('/');
    let problem = |path: &PathBuf| match protected(path) {
        Ok(real) => not_regular(&real),
        Err(error) if may_be_missing && error.kind() == ErrorKind::NotFound => None,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("{} does not exist", path.display()))
        }
        Err(error) => Some(error.to_string()),
    };
    Code { name, value }.candidates(extension_dir).iter().find_map(problem)
}

fn is_open_to_others(directory: &Path) -> bool {
    fs::metadata(directory).map_or(true, |found| found.mode() & 0o022 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn code_that_others_could_change_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(place.path()).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        let refusal = |line: &str| refusal_of_line(line, &directory);
        fs::write(directory.join("mine.so"), "").unwrap();
        fs::write(directory.join("theirs.so"), "").unwrap();
        let theirs = fs::Permissions::from_mode(0o666);
        fs::set_permissions(directory.join("theirs.so"), theirs).unwrap();
        let path = directory.join("theirs.so").display().to_string();
        for line in [
            "extension=mine",
            "extension = \"mine.so\" ; a comment",
            "zend_extension=missing",
            ";extension=theirs",
            "[extension=theirs]",
            "memory_limit = theirs",
            "extension=",
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
        for line in [
            "extension=theirs",
            "  Extension = 'theirs.so'",
            "zend_extension=theirs",
            &format!("ffi.preload={path}"),
            &format!("extension={path}"),
            "extension=PHP_BINDIR \"/x.so\"",
            "error_log=${HOME}",
            "extension=relative/x.so",
            "extension=/nonexistent/x.so",
        ] {
            assert!(refusal(line).is_some(), "{line}");
        }
    }

    #[test]
    fn settings_that_others_could_change_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(place.path()).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&directory, 0o755);
        let (main, further) = (directory.join("php.ini"), directory.join("conf.d"));
        fs::create_dir(&further).unwrap();
        fs::write(&main, "memory_limit=1G\n").unwrap();
        fs::write(further.join("20-x.ini"), "extension=none\n").unwrap();
        let ini = IniFiles {
            main: main.clone(),
            directories: vec![further.clone()],
            scanned: Vec::new(),
        };
        let refusal = || refusal(&ini, &directory.join("extensions"));
        assert_eq!(refusal(), None);
        for (path, good, bad) in [
            (&main, 0o644, 0o666),
            (&further, 0o755, 0o777),
            (&further, 0o755, 0o1777),
            (&further.join("20-x.ini"), 0o644, 0o606),
        ] {
            mode(path, bad);
            assert!(refusal().is_some_and(|reason| reason.contains("can be changed")), "{path:?}");
            mode(path, good);
        }
        fs::write(&main, "extension=/tmp\n").unwrap();
        fs::write(further.join("20-x.ini"), "extension=${X}\n").unwrap();
        assert!(refusal().is_some());
    }
}
