//! The directory of OPcache's lock file.
//!
//! OPcache creates the file when PHP is loaded, in `/tmp` even if `TMPDIR` is set, readable and
//! writable for all users, and removes its name at once. Another site's script that opens it in
//! between can hold its lock for ever, and PHP waits for that. So the file is created in a
//! directory that only this process's user can enter and that exists only while PHP is being
//! loaded. Its name is random, so that no other user can take it first. Without a directory,
//! OPcache gets an invalid path, and does not start: otherwise it would use `/tmp` itself. The
//! directory is the default of `opcache.lockfile_path`, which `php.ini` and the application's
//! settings can change.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Advice for the log if the directory cannot be made.
pub const ADVICE: &str = "OPcache can make its lock file neither in /tmp nor in the directories of \
                          --tmp and TMPDIR nor in /dev/shm; let the application's user write to \
                          one of them, or name another in PHP's opcache.lockfile_path";

/// The path in place of the directory if there is none: no file can be created below it.
pub const NO_DIRECTORY: &str = "/dev/null";

/// Maximum number of names that are tried until one is free.
const MAX_ATTEMPTS: u32 = 10;

/// A directory that is removed on drop.
#[derive(Debug)]
pub struct LockDirectory(PathBuf);

impl LockDirectory {
    /// Creates a directory in the first possible place of `/tmp`, `tmp`, `TMPDIR` and `/dev/shm`;
    /// `None` if none is possible. `tmp` is the server's directory for temporary files, or empty.
    pub fn make(tmp: &str) -> Option<Self> {
        let variable = std::env::var("TMPDIR").unwrap_or_default();
        let candidates = ["/tmp", tmp, variable.as_str(), "/dev/shm"].map(Path::new);
        candidates.into_iter().filter(|place| place.is_absolute()).find_map(make_in)
    }

    /// Returns the path of the directory.
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
    for _ in 0..MAX_ATTEMPTS {
        let path = place.join(format!(".howdah-{}", random_name()));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Some(LockDirectory(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
    }
    None
}

/// Returns a name that cannot be guessed.
fn random_name() -> String {
    let mut random = [0; 16];
    // A root directory of its own may have no devices.
    let _ = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    // The keys of the hash are random, but processes that were forked from one share them.
    let own = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
    format!("{:039}{own:020}", u128::from_ne_bytes(random))
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
    fn no_name_follows_from_the_process_or_from_another_name() {
        let names: std::collections::HashSet<_> = (0..100).map(|_| random_name()).collect();
        assert_eq!(names.len(), 100);
        let halves: std::collections::HashSet<_> =
            names.iter().flat_map(|name| [&name[..16], &name[16..32]]).collect();
        assert_eq!(halves.len(), 200, "each part is random");
        assert!(fs::File::create(Path::new(NO_DIRECTORY).join(".ZendSem.x")).is_err());
    }
}
