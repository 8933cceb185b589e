//! Search for `.htaccess` files below a directory.

use std::path::{Path, PathBuf};
use std::{fs, io};

use howdah_supervisor::file_progress;

/// Bounds of a search.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of directory entries that are looked at.
    entries: usize,
    /// Maximum depth below the directory.
    depth: usize,
    /// Maximum number of files that are returned.
    files: usize,
}

/// A look at a site while it starts.
const QUICK: Limits = Limits { entries: 200_000, depth: 48, files: 500 };

/// A review of a site.
const REVIEW: Limits = Limits { entries: 2_000_000, depth: 48, files: 20_000 };

/// Files that a search has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Absolute or relative paths, as the directory was given, in the order of directories.
    pub files: Vec<PathBuf>,
    /// False if the limits have ended the search.
    pub is_complete: bool,
    /// Directories below the first one that may not be listed.
    pub unreadable: Vec<PathBuf>,
}

/// Looks for everything of this name in a directory and those below it: the server refuses all
/// requests below a directory in which it is no readable file. Symbolic links are not followed, and
/// directories that cannot be listed are left out.
pub fn search(directory: &Path, name: &str) -> Found {
    search_within(directory, name, QUICK)
}

/// As [`search`], with the limits of a review.
pub fn search_for_review(directory: &Path, name: &str) -> Found {
    search_within(directory, name, REVIEW)
}

fn search_within(directory: &Path, name: &str, limits: Limits) -> Found {
    let mut found = Found { is_complete: true, ..Found::default() };
    let mut entries = 0;
    let mut pending = vec![(directory.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let listing = match fs::read_dir(&directory) {
            Ok(listing) => listing,
            Err(error) => {
                if depth > 0 && error.kind() == io::ErrorKind::PermissionDenied {
                    found.unreadable.push(directory);
                }
                continue;
            }
        };
        let mut below = Vec::new();
        for entry in listing.flatten() {
            if entries % 1000 == 0 {
                file_progress(&directory.display().to_string());
            }
            entries += 1;
            if entries > limits.entries || found.files.len() >= limits.files {
                found.is_complete = false;
                return found;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if entry.file_name() == name {
                found.files.push(entry.path());
            } else if kind.is_dir() {
                below.push(entry.path());
            }
        }
        if depth == limits.depth {
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
        let names = [".git", "a", "b/c", "node_modules/x"];
        assert_eq!(found.files, names.map(|name| root.join(name).join(".htaccess")));
        assert!(found.is_complete);
    }
}
