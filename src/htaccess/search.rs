//! Search for `.htaccess` files below a directory.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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
    /// Links to directories are followed: nothing that can be requested is missed.
    is_thorough: bool,
}

/// A look at a site while it starts.
const QUICK: Limits = Limits { entries: 200_000, depth: 48, files: 500, is_thorough: false };

/// A review of a site.
const REVIEW: Limits = Limits { entries: 2_000_000, depth: 48, files: 20_000, is_thorough: false };

/// A search on which access depends.
const THOROUGH: Limits = Limits { entries: 2_000_000, depth: 48, files: 20_000, is_thorough: true };

/// Files that a search has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Absolute or relative paths, as the directory was given, in the order of directories.
    pub files: Vec<PathBuf>,
    /// Links that lead to a directory around them; only with a thorough search.
    pub circles: Vec<PathBuf>,
    /// True if there is a script of PHP.
    pub has_php: bool,
    /// False if the limits have ended the search.
    pub is_complete: bool,
}

/// Looks for everything of this name in a directory and those below it: the server refuses what is below a
/// directory if it is no readable file. Symbolic links are not followed, and
/// directories that cannot be read are left out.
pub fn search(directory: &Path, name: &str) -> Found {
    search_within(directory, name, QUICK)
}

/// As [`search`], with the limits of a review.
pub fn search_for_review(directory: &Path, name: &str) -> Found {
    search_within(directory, name, REVIEW)
}

/// Looks for everything of this name in a directory and those below it, behind links as well. A directory that
/// cannot be read makes the search incomplete.
pub fn search_thoroughly(directory: &Path, name: &str) -> Found {
    search_within(directory, name, THOROUGH)
}

fn search_within(directory: &Path, name: &str, limits: Limits) -> Found {
    let mut found = Found { is_complete: true, ..Found::default() };
    let mut entries = 0;
    let mut pending = vec![(directory.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let Ok(listing) = fs::read_dir(&directory) else {
            found.is_complete &= !limits.is_thorough;
            continue;
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
            let is_named = entry.file_name() == name;
            found.has_php |= entry.file_name().as_bytes().ends_with(b".php");
            if is_named {
                found.files.push(entry.path());
            } else if kind.is_dir() {
                below.push(entry.path());
            } else if limits.is_thorough && kind.is_symlink() && entry.path().is_dir() {
                match is_circle(&entry.path()) {
                    true => found.circles.push(entry.path()),
                    false => below.push(entry.path()),
                }
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

/// Returns true if a link to a directory leads to one that it is in.
fn is_circle(link: &Path) -> bool {
    let Ok(target) = fs::canonicalize(link) else { return true };
    { link.ancestors().skip(1) }
        .any(|around| fs::canonicalize(around).is_ok_and(|around| around.starts_with(&target)))
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

    #[test]
    fn a_thorough_search_looks_behind_links_and_ends_in_circles() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("site");
        for path in ["node_modules", "b"] {
            fs::create_dir_all(root.join(path)).unwrap();
            fs::write(root.join(path).join(".htaccess"), "").unwrap();
        }
        fs::create_dir_all(root.join("odd/.htaccess")).unwrap();
        std::os::unix::fs::symlink("b", root.join("link")).unwrap();
        std::os::unix::fs::symlink("..", root.join("b/up")).unwrap();
        let found = search_thoroughly(&root, ".htaccess");
        let names =
            ["b", "link", "node_modules", "odd"].map(|name| root.join(name).join(".htaccess"));
        assert_eq!(found.files, names);
        assert_eq!(found.circles, [root.join("b/up"), root.join("link/up")]);
        assert!(found.is_complete);
    }
}
