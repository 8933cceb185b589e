//! Files of caches. The supervisor opens them, and the router gets the descriptor: no application
//! can open the file of a cache, even if its user is the one whose files the router reads.
//!
//! A file belongs to this process's user, and only that user can write to its directory. It is
//! locked until the last process that has the descriptor ends: of the two servers of an upgrade,
//! only one uses it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Access, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::safe_path::SafePath;

/// Opens and locks a file of a cache, and makes it and its directory if they do not exist. `None`
/// if another process uses it.
pub(crate) fn open(path: &Path) -> io::Result<Option<OwnedFd>> {
    if let Some(directory) = path.parent() {
        make_directory(directory)?;
    }
    let place = SafePath::resolve(path)?;
    check_directory(&fstat(place.directory())?)?;
    let mode = Mode::from_raw_mode(0o600);
    let file = place.open(OFlags::RDWR | OFlags::CREATE, mode)?;
    check_file(&file)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file.into())),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Checks that [`open`] could open a file. No file or directory is made.
pub fn check(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let above = SafePath::resolve(directory)?;
    if above.kind()?.is_none() {
        return above.access(Access::WRITE_OK | Access::EXEC_OK);
    }
    let place = SafePath::resolve(path)?;
    check_directory(&fstat(place.directory())?)?;
    match place.open(OFlags::RDWR, Mode::empty()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            place.access(Access::WRITE_OK | Access::EXEC_OK)
        }
        opened => check_file(&opened?),
    }
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let above = SafePath::resolve(directory)?;
    match above.kind()? {
        None => above.make_directory(Mode::from_raw_mode(0o700)),
        Some(_) => Ok(()),
    }
}

fn check_directory(found: &Stat) -> io::Result<()> {
    let is_trusted = found.st_uid == 0 || found.st_uid == geteuid().as_raw();
    if is_trusted && found.st_mode & 0o022 == 0 {
        Ok(())
    } else {
        Err(io::Error::other(
            "others can write to the directory; it must belong to root, or to the user that \
             starts the server, with mode 0700",
        ))
    }
}

fn check_file(file: &File) -> io::Result<()> {
    let found = fstat(file.as_fd())?;
    let is_own = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && found.st_uid == geteuid().as_raw()
        && found.st_mode & 0o077 == 0
        && found.st_nlink == 1;
    if is_own {
        Ok(())
    } else {
        Err(io::Error::other(
            "the file is not a regular file of the user that starts the server with mode 0600 and \
             one name; remove it",
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_for_its_user_and_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache/a.cache");
        check(&path).unwrap();
        assert!(!dir.path().join("cache").exists());
        let first = open(&path).unwrap().unwrap();
        check(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(dir.path().join("cache")).unwrap().mode() & 0o7777, 0o700);
        assert!(open(&path).unwrap().is_none());
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(open(&path).unwrap().is_none(), "the router has it");
        drop(copy);
        assert!(open(&path).unwrap().is_some());
    }

    #[test]
    fn what_others_may_have_changed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.cache");
        let refused = |expected: &str| {
            for problem in [open(&path).map(drop), check(&path)] {
                let problem = problem.unwrap_err().to_string();
                assert!(problem.contains(expected), "{problem}");
            }
        };
        for mode in [0o770, 0o702, 0o1777] {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            refused("others can write to the directory");
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        refused("remove it");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(&path, dir.path().join("b")).unwrap();
        refused("remove it");
        fs::remove_file(&path).unwrap();
        symlink("b", &path).unwrap();
        refused("");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused("");
    }
}
