//! Where OPcache keeps its lock file.
//!
//! It makes one when PHP is loaded, in `/tmp` whatever `TMPDIR` says, and ends the process if it
//! cannot. So it gets the first directory in which this process can make a file, as the default of
//! `opcache.lockfile_path`: what `php.ini` or the application's settings say goes before.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, open, unlinkat};

/// What to do where there is no such directory.
pub const ADVICE: &str = "OPcache can make its lock file neither in /tmp nor in the directories of \
                          --tmp and TMPDIR nor in /dev/shm; let the application's user write to one \
                          of them, or name another in PHP's opcache.lockfile_path";

/// The directory; `tmp` is the server's one for temporary files, or empty. `None` if there is none.
pub fn find(tmp: &str) -> Option<String> {
    let variable = std::env::var("TMPDIR").unwrap_or_default();
    let candidates = ["/tmp", tmp, variable.as_str(), "/dev/shm"];
    let usable = |directory: &&str| Path::new(directory).is_absolute() && can_make_files(directory);
    candidates.into_iter().find(usable).map(str::to_owned)
}

/// Tries it as OPcache does: permissions alone do not tell, as a file system may be read-only and a
/// sandbox may forbid it.
fn can_make_files(directory: &str) -> bool {
    let path = Path::new(directory).join(format!(".howdah-{}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let made = open(&path, flags, Mode::RUSR | Mode::WUSR);
    made.is_ok() && unlinkat(CWD, &path, AtFlags::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_made_in_directories_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        assert!(can_make_files(path));
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
        assert!(!can_make_files("/proc") && !can_make_files(&format!("{path}/none")));
    }
}
