//! The directories of uploaded files: one per worker, so that the files of a killed worker can be
//! removed.
//!
//! A worker creates its directory below PHP's with its first request with a body, and locks it
//! until it ends. It is removed
//!
//! - by the prototype, when the worker has ended;
//! - by the next prototype of the same user, if a whole server was killed: then it is not locked.
//!
//! If the directory cannot be created or locked, PHP uses its own.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

/// Prefix of the names; the worker's process id follows.
const PREFIX: &str = "howdah-uploads-";

/// A worker's directory.
#[derive(Debug)]
pub struct Uploads {
    /// Path of the directory, for PHP.
    pub path: CString,
    /// Descriptor that holds the lock.
    _directory: OwnedFd,
}

impl Uploads {
    /// Creates this process's directory in `base`.
    pub fn new(base: &Path) -> io::Result<Self> {
        let path = path_of(base, std::process::id());
        match DirBuilder::new().mode(0o700).create(&path) {
            // The directory of an earlier process, or of another user: `lock` checks that.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result?,
        }
        let directory = lock(&path)?;
        Ok(Uploads { path: CString::new(path.as_os_str().as_bytes())?, _directory: directory })
    }
}

/// Removes the directory of a worker that has ended.
pub fn remove(base: &Path, worker: u32) {
    let path = path_of(base, worker);
    if is_own_directory(&path) {
        let _ = fs::remove_dir_all(path);
    }
}

/// Removes directories of workers whose prototype has ended without removing them.
pub fn remove_abandoned(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if number.is_some_and(|number| number.parse::<u32>().is_ok())
            && let Ok(_locked) = lock(&entry.path())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn path_of(base: &Path, worker: u32) -> PathBuf {
    base.join(format!("{PREFIX}{worker}"))
}

/// Opens and locks a directory of this user; an error if another process has locked it.
fn lock(path: &Path) -> io::Result<OwnedFd> {
    if !is_own_directory(path) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

/// Returns true if the path is a directory, not a link, that belongs to this user and that no other
/// user can access.
fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.mode() & 0o077 == 0
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_in_use_is_kept_and_an_abandoned_one_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(base.path()).unwrap();
        let own = path_of(base.path(), std::process::id());
        let old = path_of(base.path(), 1);
        DirBuilder::new().mode(0o700).create(&old).unwrap();
        fs::write(old.join("phpabc"), "left").unwrap();
        remove_abandoned(base.path());
        assert!(own.exists() && !old.exists());
        drop(uploads);
        remove(base.path(), std::process::id());
        assert!(!own.exists());
    }

    #[test]
    fn what_is_not_ours_is_neither_used_nor_removed() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = base.path().join("elsewhere");
        DirBuilder::new().mode(0o700).create(&elsewhere).unwrap();
        let own = path_of(base.path(), std::process::id());
        symlink(&elsewhere, &own).unwrap();
        assert!(Uploads::new(base.path()).is_err(), "a link");
        remove(base.path(), std::process::id());
        assert!(own.symlink_metadata().is_ok());
        fs::remove_file(&own).unwrap();
        DirBuilder::new().mode(0o700).create(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Uploads::new(base.path()).is_err(), "others may write to it");
        let other = path_of(base.path(), 2);
        fs::write(&other, "a file").unwrap();
        remove_abandoned(base.path());
        assert!(own.exists() && other.exists() && elsewhere.exists());
    }
}
