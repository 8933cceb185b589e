//! Resolves paths with their symbolic links, to restrict files: the kernel compares files, not
//! names, so later targets of a link must be granted in advance.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// A resolved path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Existing part of the path, without links.
    pub path: PathBuf,
    /// The whole path exists.
    pub exists: bool,
    /// Links in the path, in the order in which they are followed.
    pub links: Vec<Link>,
}

/// A symbolic link in a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Directory of the link, without links.
    pub directory: PathBuf,
    /// Name of the link, and the rest of the path after it.
    pub rest: PathBuf,
}

/// Resolves an absolute path as the kernel does.
pub fn resolve(path: &Path) -> Resolved {
    let mut found = Resolved { path: "/".into(), exists: true, links: Vec::new() };
    // In reverse order: the last part is the next.
    let mut parts: Vec<PathBuf> = parts(path);
    while let Some(part) = parts.pop() {
        match part.components().next() {
            Some(Component::RootDir) => found.path = "/".into(),
            Some(Component::ParentDir) => drop(found.path.pop()),
            Some(Component::Normal(name)) => {
                let next = found.path.join(name);
                match fs::symlink_metadata(&next) {
                    Err(_) => return Resolved { exists: false, ..found },
                    Ok(metadata) if metadata.is_symlink() => {
                        if found.links.len() == MAX_LINKS {
                            return Resolved { exists: false, ..found };
                        }
                        let rest = [part].into_iter().chain(parts.iter().rev().cloned()).collect();
                        found.links.push(Link { directory: found.path.clone(), rest });
                        let target = fs::read_link(&next).unwrap_or_default();
                        parts.extend(self::parts(&target));
                    }
                    Ok(_) => found.path = next,
                }
            }
            _ => {}
        }
    }
    found
}

fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

/// Returns true if a directory does not belong to a single site: the root directory, a system
/// directory in it, or a directory in `/usr` or `/var`.
pub fn is_shared(directory: &Path) -> bool {
    let mut names = directory.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    match (names.next(), names.next(), names.next()) {
        (None, ..) => true,
        (Some(top), None, _) => top.to_str().is_some_and(is_system_directory),
        (Some(top), Some(_), None) => top == OsStr::new("var") || top == OsStr::new("usr"),
        _ => false,
    }
}

/// Returns true if a directory in the root directory belongs to the system.
pub fn is_system_directory(name: &str) -> bool {
    let merged = name.strip_suffix(".usr-is-merged").unwrap_or(name);
    SYSTEM.contains(&merged)
}

const SYSTEM: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libo32",
    "libx32",
    "lost+found",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "var",
];

/// Maximum number of symbolic links in a path (Linux: 40).
const MAX_LINKS: usize = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir_all(path.join("a/b")).unwrap();
        symlink("a", path.join("relative")).unwrap();
        symlink(path.join("a/b"), path.join("absolute")).unwrap();
        symlink("endless", path.join("endless")).unwrap();
        let resolved = resolve(&path.join("relative/./b/../b/c"));
        assert_eq!((resolved.path, resolved.exists), (path.join("a/b"), false));
        let rest = PathBuf::from("relative/b/../b/c");
        assert_eq!(resolved.links, [Link { directory: path.clone(), rest }]);
        let resolved = resolve(&path.join("absolute/.."));
        assert_eq!((resolved.path, resolved.exists), (path.join("a"), true));
        assert!(!resolve(&path.join("endless/a")).exists);
        assert_eq!(resolve(Path::new("/")).path, Path::new("/"));
    }

    #[test]
    fn what_holds_more_than_one_site_is_shared() {
        for shared in ["/", "/etc", "/lib64", "/var", "/var/lib", "/usr/share", "/tmp", "/root"]
            .into_iter()
            .chain(["/lib", "/lib.usr-is-merged", "/bin.usr-is-merged"])
        {
            assert!(is_shared(Path::new(shared)), "{shared}");
        }
        for own in ["/srv", "/home/a", "/var/www/a", "/etc/site", "/data", "/library", "/libs"] {
            assert!(!is_shared(Path::new(own)), "{own}");
        }
    }
}
