//! Tells the server of a document from others.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Number of processes above one of a server that are looked at: the router is a child of the
/// supervisor.
const MAX_PARENTS: usize = 3;

/// Returns true if a process belongs to a server that was started with this document.
pub(super) fn serves(pid: u32, document: &Path) -> bool {
    let Ok(document) = fs::canonicalize(document) else { return false };
    let mut pid = pid;
    for _ in 0..=MAX_PARENTS {
        let process = PathBuf::from(format!("/proc/{pid}"));
        if names(&process, &document) {
            return true;
        }
        match parent(&process) {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

/// Returns true if a command line or `HOWDAH_CONFIG` names the document.
fn names(process: &Path, document: &Path) -> bool {
    let read = |name: &str| fs::read(process.join(name)).unwrap_or_default();
    let (arguments, environment) = (read("cmdline"), read("environ"));
    let is_server = |arguments: &[u8]| {
        let first = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
        Path::new(OsStr::from_bytes(first)).file_name().is_some_and(|name| name == "howdah")
    };
    let directory = process.join("cwd");
    let is_document = |text: &[u8]| {
        let text = text.strip_prefix(b"--config=").unwrap_or(text);
        let text = text.strip_prefix(b"HOWDAH_CONFIG=").unwrap_or(text);
        let name = Path::new(OsStr::from_bytes(text));
        name.file_name() == document.file_name()
            && fs::canonicalize(directory.join(name)).is_ok_and(|found| found == document)
    };
    let of_environment = environment.split(|byte| *byte == 0);
    let of_environment = of_environment.filter(|text| text.starts_with(b"HOWDAH_CONFIG="));
    is_server(&arguments)
        && arguments.split(|byte| *byte == 0).chain(of_environment).any(is_document)
}

/// Returns the process that has started another one.
fn parent(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_is_no_server_of_a_document() {
        let own = std::process::id();
        assert!(!serves(own, Path::new("/proc/self/cmdline")));
        assert!(!serves(own, Path::new("/no/such/document")));
        assert!(parent(Path::new("/proc/self")).is_some());
    }
}
