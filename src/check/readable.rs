//! Files of shares that the server may not read: requests for them get 403.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use howdah_config::RouterPath;
use howdah_sys::credentials::Credentials;
use howdah_sys::permission::{Obstacle, Wanted};
use rustix::fs::{Access, AtFlags, CWD, accessat};

/// Maximum number of entries of a directory and those below that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// Looks at the directories that are served, as the user of this process. Returns a line, `PATH:
/// PROBLEM`, for each with files that cannot be read. Names with a dot at the beginning are left
/// out, and scripts, which applications read.
pub(super) fn unreadable(served: &[RouterPath]) -> String {
    let user = Credentials::current();
    let mut known = BTreeSet::new();
    let mut lines = String::new();
    for RouterPath { path, file, is_directory, .. } in served {
        if !is_directory || file == Path::new("/") || !known.insert(file) {
            continue;
        }
        let found = below(file);
        let Some(first) = found.first() else { continue };
        let obstacle = Obstacle::explain(
            first,
            &user,
            if first.is_dir() { Wanted::Enter } else { Wanted::Read },
        );
        let others = match found.len() - 1 {
            0 => String::new(),
            1 => " (and 1 more below this directory)".to_owned(),
            more => format!(" (and {more} more below this directory)"),
        };
        lines.push_str(&format!("{path}: requests get 403, as {obstacle}{others}\n"));
    }
    lines
}

/// Returns the files and directories below a directory that cannot be read or entered. Links are
/// not followed.
fn below(directory: &Path) -> Vec<PathBuf> {
    let (mut waiting, mut found, mut entries) = (vec![directory.to_owned()], Vec::new(), 0);
    while let Some(directory) = waiting.pop() {
        // A directory that can be entered and not listed may be intended.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return found;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            let path = entry.path();
            let may = |access| accessat(CWD, &path, access, AtFlags::EACCESS).is_ok();
            if is_hidden {
                continue;
            } else if kind.is_dir() {
                if may(Access::EXEC_OK) { waiting.push(path) } else { found.push(path) }
            } else if kind.is_file() && !is_script(&path) && !may(Access::READ_OK) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("php"))
}
