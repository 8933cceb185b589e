//! The symbolic link to a release, in a directory that often belongs to the user of the site.
//!
//! That user can put a link in the place of each directory of its own, and root would write where it
//! leads. So the directory is opened once, by the rules of [`owned_links`], and everything is done
//! below what was opened.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use howdah_sys::owned_links;
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, chownat, flock, fstat, openat,
    readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

/// A link, and the lock of its directory, which is held as long as this value lives.
pub(super) struct Link {
    /// Where it is, for messages.
    path: PathBuf,
    directory: OwnedFd,
    name: OsString,
    /// What it led to when the lock was taken; `None` if there was no link.
    former: Option<PathBuf>,
    /// Its owner and group, or those of its directory if there was no link.
    owner: (u32, u32),
}

impl Link {
    /// Opens the directory of a link, refuses a second deployment in it, and reads the link.
    pub(super) fn open(path: &Path) -> Result<Link, String> {
        let wrong = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err("--link must name a symbolic link".to_owned());
        };
        let opened = owned_links::open_directory(above).and_then(|directory| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(openat(directory, ".", flags, Mode::empty())?)
        });
        let directory = opened.map_err(|error| format!("{}: {error}", above.display()))?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(format!(
                    "another deployment in {} is in progress; try again when it has ended",
                    above.display()
                ));
            }
            Err(error) => return Err(format!("{}: {error}", above.display())),
        }
        let found = look(&directory, name).map_err(|error| wrong(&error))?;
        let (former, of) = match found {
            Some((link, of)) if is_link(&of) => {
                (Some(target(&link).map_err(|error| wrong(&error))?), of)
            }
            Some(_) => return Err(format!("{} is no symbolic link", path.display())),
            None => (None, fstat(&directory).map_err(|error| wrong(&error))?),
        };
        let owner = (of.st_uid, of.st_gid);
        Ok(Link { path: path.to_owned(), directory, name: name.to_owned(), former, owner })
    }

    /// Returns where the link is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text of the link before the deployment; `None` if there was none.
    pub(super) fn former(&self) -> Option<&Path> {
        self.former.as_deref()
    }

    /// Returns the text of a link that leads to a release: relative if the release is below the
    /// directory, so that both can be moved.
    pub(super) fn text(&self, release: &Path) -> PathBuf {
        let directory = path_of(&self.directory).unwrap_or_default();
        let below = release.strip_prefix(directory).ok().filter(|below| *below != Path::new(""));
        below.unwrap_or(release).to_owned()
    }

    /// Replaces the link, so that at each moment it leads to one of both releases.
    pub(super) fn lead_to(&self, text: &Path) -> Result<(), String> {
        let mut new = OsString::from(".");
        new.push(&self.name);
        new.push(".new");
        let replaced = self.make(&new, text).and_then(|()| {
            renameat(&self.directory, &new, &self.directory, &self.name)?;
            Ok(())
        });
        replaced.map_err(|error| {
            let _ = unlinkat(&self.directory, &new, AtFlags::empty());
            format!("{}: {error}", self.path.display())
        })
    }

    /// Removes the link.
    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &self.name, AtFlags::empty())?)
    }

    fn make(&self, name: &OsStr, text: &Path) -> io::Result<()> {
        // A command that was killed has left it.
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        symlinkat(text, &self.directory, name)?;
        let Some((link, found)) = look(&self.directory, name)? else {
            return Err(Errno::NOENT.into());
        };
        // The owner of the directory may have put something else in its place.
        if !is_link(&found) || target(&link)? != text {
            return Err(io::Error::other("somebody else has replaced the new link"));
        }
        // Links that shares follow belong to the owner of their target.
        if (found.st_uid, found.st_gid) != self.owner {
            let (user, group) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
            // Only root can; otherwise it belongs to the user of this command.
            let _ = chownat(&link, "", Some(user), Some(group), AtFlags::EMPTY_PATH);
        }
        Ok(())
    }
}

/// Returns the path of a release, which is a directory. Error: it is none, or a link of another user
/// leads to what is not that user's.
pub(super) fn release(named: &Path) -> Result<PathBuf, String> {
    let found = owned_links::open_directory(named).and_then(|directory| path_of(&directory));
    found.map_err(|error| format!("{}: {error}", named.display()))
}

/// Returns the path of an open directory.
fn path_of(directory: &impl AsRawFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// Opens a file for its attributes alone; `None` if there is none.
fn look(directory: impl AsFd, name: &OsStr) -> io::Result<Option<(OwnedFd, Stat)>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => {
            let found = fstat(&file)?;
            Ok(Some((file, found)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_link(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Symlink
}

fn target(link: &OwnedFd) -> io::Result<PathBuf> {
    Ok(PathBuf::from(OsString::from_vec(readlinkat(link, "", Vec::new())?.into_bytes())))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_is_read_replaced_and_removed_under_a_lock() {
        let place = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(place.path()).unwrap();
        fs::create_dir_all(base.join("releases/1/public")).unwrap();
        let path = base.join("current");
        {
            let link = Link::open(&path).unwrap();
            assert_eq!((link.former(), link.text(&base)), (None, base.clone()));
            assert!(Link::open(&path).err().unwrap().contains("another deployment"));
            fs::write(base.join(".current.new"), "left over").unwrap();
            link.lead_to(&link.text(&base.join("releases/1"))).unwrap();
        }
        let link = Link::open(&path).unwrap();
        assert_eq!(link.former(), Some(Path::new("releases/1")));
        assert!(path.join("public").is_dir());
        link.remove().unwrap();
        assert_eq!(fs::read_dir(&base).unwrap().count(), 1);
        drop(link);
        fs::write(&path, "").unwrap();
        assert!(Link::open(&path).err().unwrap().contains("no symbolic link"));
        assert!(release(&path).is_err() && release(&base.join("releases/2")).is_err());
    }

    #[test]
    fn links_of_other_users_lead_to_nothing_that_is_not_theirs() {
        // Only root can give a link to another user.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(place.path()).unwrap();
        let own = |name: &str| std::os::unix::fs::lchown(base.join(name), Some(65534), None);
        for name in ["releases", "releases/1", "private"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        own("releases/1").unwrap();
        for (text, name) in [("1", "releases/2"), ("../private", "releases/3"), ("private", "app")]
        {
            symlink(text, base.join(name)).unwrap();
            own(name).unwrap();
        }
        assert_eq!(release(&base.join("releases/2")), Ok(base.join("releases/1")));
        for name in ["releases/3", "app"] {
            let problem = release(&base.join(name)).unwrap_err();
            assert!(problem.contains("does not belong to the link's owner"), "{problem}");
        }
        assert!(Link::open(&base.join("app/current")).is_err());
        symlink("releases/1", base.join("current")).unwrap();
        own("current").unwrap();
        Link::open(&base.join("current")).unwrap().lead_to(Path::new("releases/2")).unwrap();
        let owner = std::os::unix::fs::MetadataExt::uid(
            &fs::symlink_metadata(base.join("current")).unwrap(),
        );
        assert_eq!(owner, 65534);
    }
}
