//! Search for `.htaccess` files below a directory.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of directory entries that are looked at.
const MAX_ENTRIES: usize = 50_000;

/// Maximum depth below the directory.
const MAX_DEPTH: usize = 16;

/// Maximum number of files that are returned.
const MAX_FILES: usize = 500;

/// Directories without files of a site.
const SKIPPED: &[&str] = &[".git", ".hg", ".svn", "node_modules"];

/// Files that a search has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Absolute or relative paths, as the directory was given, in the order of directories.
    pub files: Vec<PathBuf>,
    /// True if there is a script of PHP.
    pub has_php: bool,
    /// False if the limits have ended the search.
    pub is_complete: bool,
}

/// Looks for files of this name in a directory and those below it. Symbolic links are not followed, and
/// directories that cannot be read are left out.
pub fn search(directory: &Path, name: &str) -> Found {
    let mut found = Found { is_complete: true, ..Found::default() };
    let mut entries = 0;
    let mut pending = vec![(directory.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let Ok(listing) = fs::read_dir(&directory) else { continue };
        let mut below = Vec::new();
        for entry in listing.flatten() {
            entries += 1;
            if entries > MAX_ENTRIES || found.files.len() >= MAX_FILES {
                found.is_complete = false;
                return found;
            }
            let Ok(kind) = entry.file_type() else { continue };
            found.has_php |= entry.file_name().as_bytes().ends_with(b".php");
            if kind.is_file() && entry.file_name() == name {
                found.files.push(entry.path());
            } else if kind.is_dir() && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped)
            {
                below.push(entry.path());
            }
        }
        if depth == MAX_DEPTH {
            found.is_complete &= below.is_empty();
            continue;
        }
        // The last one is looked at next: in the order of their names.
        below.sort_unstable_by(|a, b| b.cmp(a));
        pending.extend(below.into_iter().map(|path| (path, depth + 1)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_order_and_not_behind_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("site");
        for path in ["b/c", "a", ".git", "node_modules/x"] {
            fs::create_dir_all(root.join(path)).unwrap();
            fs::write(root.join(path).join(".htaccess"), "").unwrap();
        }
        fs::create_dir(directory.path().join("other")).unwrap();
        fs::write(directory.path().join("other/.htaccess"), "").unwrap();
        std::os::unix::fs::symlink("../other", root.join("link")).unwrap();
        let found = search(&root, ".htaccess");
        assert_eq!(found.files, [root.join("a/.htaccess"), root.join("b/c/.htaccess")]);
        assert!(found.is_complete);
    }
}
