//! Links on the way to a file that this process, often root, reads in a directory of another user.
//!
//! The owner of a directory can replace an entry by a symbolic link to a file that only root can
//! read. So a link is followed if it belongs to root, to the user of this process, or to the owner
//! of its target, such as `current` of a deployment (as `SymLinksIfOwnerMatch` of Apache and
//! `disable_symlinks if_not_owner` of nginx).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::process::geteuid;

/// Maximum number of symbolic links in a path (Linux: 40).
const MAX_LINKS: usize = 40;

/// A link of another user, whose target has not been reached yet.
struct Foreign {
    name: OsString,
    owner: u32,
    /// Number of parts of the path behind the link.
    behind: usize,
}

/// Returns the directory of a file and its name there, which is no link at this moment. Fails if a
/// link of another user leads to a file that is not that user's.
pub fn resolve(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let Resolved { directory, name, .. } = walk(path)?;
    Ok((directory, name))
}

/// Opens a directory (`O_PATH`), by the rules of [`resolve`].
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let Resolved { file, is_directory, .. } = walk(path)?;
    if is_directory { Ok(file) } else { Err(io::Error::from(rustix::io::Errno::NOTDIR)) }
}

/// A file to which a path leads.
struct Resolved {
    directory: OwnedFd,
    name: OsString,
    /// The file itself (`O_PATH`), whose owner was checked.
    file: OwnedFd,
    is_directory: bool,
}

fn walk(path: &Path) -> io::Result<Resolved> {
    let mut directory = open(CWD, OsStr::new("."))?;
    let mut rest = parts(path);
    let mut foreign = Vec::<Foreign>::new();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        let next = open(&directory, &part)?;
        let found = fstat(&next)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        if kind == FileType::Symlink {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::from(rustix::io::Errno::LOOP));
            }
            if found.st_uid != 0 && found.st_uid != geteuid().as_raw() {
                foreign.push(Foreign { name: part, owner: found.st_uid, behind: rest.len() });
            }
            let target = PathBuf::from(OsString::from_vec(readlinkat(&next, "", [])?.into_bytes()));
            let mut target = parts(&target);
            target.append(&mut rest);
            rest = target;
            continue;
        }
        // Several links can lead to the same place.
        while let Some(link) = foreign.pop_if(|link| rest.len() <= link.behind) {
            if link.owner != found.st_uid {
                return Err(io::Error::other(format!(
                    "the target of the link {} does not belong to the link's owner",
                    Path::new(&link.name).display()
                )));
            }
        }
        if rest.is_empty() {
            let is_directory = kind == FileType::Directory;
            return Ok(Resolved { directory, name: part, file: next, is_directory });
        }
        directory = next;
    }
    Err(io::Error::from(rustix::io::Errno::NOENT))
}

fn open(directory: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, lchown, symlink};

    use crate::regular_file::read_owned;

    /// A user of the test that is neither root nor the one of this process.
    const SITE: Option<u32> = Some(65534);

    #[test]
    fn own_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "text").unwrap();
        symlink("a/b", at("relative")).unwrap();
        symlink(at("a/b"), at("absolute")).unwrap();
        symlink("absolute", at("second")).unwrap();
        symlink("relative/file", at("last")).unwrap();
        symlink("endless", at("endless")).unwrap();
        for path in ["a/b/file", "relative/file", "absolute/./file", "second/../b/file", "last"] {
            assert_eq!(read_owned(&at(path), 9).unwrap(), b"text", "{path}");
        }
        for path in ["endless", "endless/file", "a/b/file/x", "a", "missing", "a/b/file/.."] {
            assert!(read_owned(&at(path), 9).is_err(), "{path}");
        }
    }

    #[test]
    fn a_link_of_another_user_leads_only_to_what_is_that_users() {
        // Only root can give files and links to another user.
        if !howdah_requirements::root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let link = |target: &str, name: &str, owner: Option<u32>| {
            symlink(target, at(name)).unwrap();
            lchown(at(name), owner, owner).unwrap();
        };
        for name in ["secret", "releases/5"] {
            fs::create_dir_all(at(name)).unwrap();
            fs::write(at(name).join("file"), name).unwrap();
        }
        chown(at("releases/5"), SITE, SITE).unwrap();
        chown(at("releases/5/file"), SITE, SITE).unwrap();
        link("releases/5", "current", SITE);
        link("releases/5/file", "own", SITE);
        link("current", "again", SITE);
        for path in ["current/file", "own", "again/file"] {
            assert_eq!(read_owned(&at(path), 99).unwrap(), b"releases/5", "{path}");
        }
        link("secret/file", "stolen", SITE);
        link("secret", "directory", SITE);
        link("stolen", "trusted-to-stolen", None);
        link("../secret/file", "releases/up", SITE);
        link("trusted", "to-trusted", SITE);
        link("secret/file", "trusted", Some(0));
        for path in ["stolen", "directory/file", "trusted-to-stolen", "releases/up", "to-trusted"] {
            let error = read_owned(&at(path), 99).unwrap_err().to_string();
            assert!(error.contains("does not belong to the link's owner"), "{path}: {error}");
        }
        assert_eq!(read_owned(&at("trusted"), 99).unwrap(), b"secret");
    }
}
