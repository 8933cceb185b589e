//! Where OPcache keeps its lock file.
//!
//! It makes one when PHP is loaded, in `/tmp` whatever `TMPDIR` says, with rights for everybody, and
//! removes its name at once. Whoever opens it in between, another site's script, can hold its lock
//! for ever, and PHP waits for that. So the file gets a directory that only this process's user can
//! enter, and that is there only while PHP is loaded. It is the default of `opcache.lockfile_path`:
//! what `php.ini` or the application's settings say goes before.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What to do where there is no such directory.
pub const ADVICE: &str = "OPcache can make its lock file neither in /tmp nor in the directories of \
                          --tmp and TMPDIR nor in /dev/shm; let the application's user write to one \
                          of them, or name another in PHP's opcache.lockfile_path";

/// Names that are tried until one is free: others may make such directories too.
const MAX_TRIES: u32 = 100;

/// A directory for one file, removed when this is dropped.
#[derive(Debug)]
pub struct LockDirectory(PathBuf);

impl LockDirectory {
    /// Makes it in the first directory where that is possible. `tmp` is the server's one for temporary
    /// files, or empty. `None` if there is none: permissions alone do not tell, as a file system may be
    /// read-only and a sandbox may forbid it.
    pub fn make(tmp: &str) -> Option<Self> {
        let variable = std::env::var("TMPDIR").unwrap_or_default();
        let candidates = ["/tmp", tmp, variable.as_str(), "/dev/shm"].map(Path::new);
        candidates.into_iter().filter(|place| place.is_absolute()).find_map(make_in)
    }

    /// Its path.
    pub fn path(&self) -> Option<&str> {
        self.0.to_str()
    }
}

impl Drop for LockDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn make_in(place: &Path) -> Option<LockDirectory> {
    let process = std::process::id();
    for number in 0..MAX_TRIES {
        let path = place.join(format!(".howdah-{process}-{number}"));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Some(LockDirectory(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_is_its_users_own_and_nothing_is_left() {
        let place = tempfile::tempdir().unwrap();
        let first = make_in(place.path()).unwrap();
        let second = make_in(place.path()).unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!(fs::metadata(&first.0).unwrap().permissions().mode() & 0o777, 0o700);
        drop((first, second));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(make_in(Path::new("/proc")).is_none());
        assert!(make_in(&place.path().join("none")).is_none());
    }

    #[test]
    fn names_that_others_have_taken_are_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let taken = format!(".howdah-{}-0", std::process::id());
        fs::write(place.path().join(taken), "").unwrap();
        assert!(make_in(place.path()).is_some());
    }
}
