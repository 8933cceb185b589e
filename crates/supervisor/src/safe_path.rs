//! Paths of files that this process, often root, writes or removes in directories of other users: a
//! log in a directory of the site's user, a socket in one of `www-data`.
//!
//! The owner of a directory can replace an entry by a symbolic link and have root write where the
//! link leads (CVE-2016-1247). So links in a path are followed only if they belong to root or to
//! the user of this process, such as `/var/run`, and the last part of a path is never followed.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, accessat, fstat, mkdirat, openat, readlinkat,
    statat, unlinkat,
};
use rustix::process::geteuid;

/// A file, or the place for one: an open directory and a name in it.
#[derive(Debug)]
pub(crate) struct SafePath {
    directory: OwnedFd,
    name: OsString,
}

impl SafePath {
    /// Resolves all parts of a path but the last one. An error if a link belongs to another user.
    pub(crate) fn resolve(path: &Path) -> io::Result<SafePath> {
        let name = path.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let mut directory = open(CWD, OsStr::new("."))?;
        let mut rest = parts(above.unwrap_or(Path::new(".")));
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            let next = open(&directory, &part)?;
            let found = fstat(&next)?;
            if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
                directory = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::from(rustix::io::Errno::LOOP));
            }
            if found.st_uid != 0 && found.st_uid != geteuid().as_raw() {
                let part = Path::new(&part).display();
                return Err(io::Error::other(format!(
                    "another user's link ({part}) is on the way"
                )));
            }
            let target = PathBuf::from(OsString::from_vec(readlinkat(&next, "", [])?.into_bytes()));
            let mut target = parts(&target);
            target.append(&mut rest);
            rest = target;
        }
        Ok(SafePath { directory, name: name.to_owned() })
    }

    /// Opens the file. Fails on a link, and does not wait for the other end of a pipe.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, &self.name, flags, mode)?.into())
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Makes a directory of this name.
    pub(crate) fn make_directory(&self, mode: Mode) -> io::Result<()> {
        Ok(mkdirat(&self.directory, &self.name, mode)?)
    }

    /// Returns the type of the file; `None` if there is none.
    pub(crate) fn kind(&self) -> io::Result<Option<FileType>> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the mode of the file if it is a socket; `None` if it is not, or if there is none.
    pub(crate) fn socket_mode(&self) -> io::Result<Option<u32>> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Socket => {
                Ok(Some(found.st_mode & 0o7777))
            }
            Ok(_) | Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the file for its attributes alone, without following it if it is a link.
    pub(crate) fn look(&self) -> io::Result<OwnedFd> {
        open(&self.directory, &self.name)
    }

    /// Returns true if the path still leads to this open file.
    pub(crate) fn is(&self, file: &File) -> io::Result<bool> {
        let opened = fstat(file)?;
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks this process's access to the directory.
    pub(crate) fn access(&self, wanted: Access) -> io::Result<()> {
        Ok(accessat(&self.directory, ".", wanted, AtFlags::EACCESS)?)
    }

    /// Removes the file or link.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &self.name, AtFlags::empty())?)
    }
}

fn open(directory: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

/// Maximum number of symbolic links in a path (Linux: 40).
const MAX_LINKS: usize = 40;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    fn exists(path: &Path) -> io::Result<bool> {
        SafePath::resolve(path)?.kind().map(|kind| kind.is_some())
    }

    #[test]
    fn links_of_this_user_are_followed_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/file"), "").unwrap();
        symlink("a/b", dir.path().join("relative")).unwrap();
        symlink(dir.path().join("a/b"), dir.path().join("absolute")).unwrap();
        symlink("endless", dir.path().join("endless")).unwrap();
        for path in ["a/file", "a/b/../file", "relative/../file", "absolute/.././file"] {
            assert!(exists(&dir.path().join(path)).unwrap(), "{path}");
        }
        assert!(exists(&dir.path().join("endless/file")).is_err());
        assert!(exists(&dir.path().join("a/file/x")).is_err());
        assert!(exists(Path::new("Cargo.toml")).unwrap());
        assert!(exists(Path::new("/")).is_err());
    }

    #[test]
    fn links_of_others_are_not_followed_on_the_way() {
        // Only root can give a link to another user.
        if !howdah_requirements::root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        lchown(dir.path().join("link"), Some(65534), Some(65534)).unwrap();
        let error = exists(&dir.path().join("link/file")).unwrap_err();
        assert!(error.to_string().contains("another user's link (link)"), "{error}");
    }

    #[test]
    fn what_a_path_leads_to_is_no_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        let link = SafePath::resolve(&dir.path().join("link")).unwrap();
        assert_eq!(link.kind().unwrap(), Some(FileType::Symlink));
        assert!(link.open(OFlags::WRONLY, Mode::empty()).is_err());
        link.remove().unwrap();
        assert!(dir.path().join("file").exists());
    }
}
