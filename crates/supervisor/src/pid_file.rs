//! The PID file: the supervisor's process id, locked while the server runs.
//!
//! The lock is a write lock of the process (fcntl(2), `F_SETLK`): it ends with the process, and
//! child processes do not inherit it. A process that may only read the file, such as a script of a
//! site, can only have a read lock, which keeps no server from starting.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, fcntl_lock};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::safe_path::SafePath;

/// Time within which a server that has been killed must have released its lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between attempts to lock the file.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The PID file of this process. Dropping it removes the file, unless another server has taken it
/// over.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    /// The locked file. The lock is lost when this process closes any descriptor of the file.
    locked: Option<File>,
}

impl PidFile {
    /// Locks and writes the file. One that no running server has locked is taken over. A link is
    /// replaced, not followed; a path that is neither file nor link is an error, so that `--pid
    /// /dev/null` does not remove the device. The error includes the remedy.
    pub(crate) fn claim(path: &Path) -> io::Result<Self> {
        Ok(PidFile { path: path.to_owned(), locked: Some(PidFile::take(path)?) })
    }

    /// Takes the file back after [`PidFile::release`], if it is not locked.
    pub(crate) fn reclaim(&mut self) -> io::Result<()> {
        if self.locked.is_none() {
            self.locked = Some(PidFile::take(&self.path)?);
        }
        Ok(())
    }

    fn take(path: &Path) -> io::Result<File> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        let place = SafePath::resolve(path)?;
        loop {
            match lock_file(&place)? {
                Locked::ByThis(mut file) => {
                    // Overwritten before it is cut: that needs no space, and the disk may be full.
                    let text = format!("{}\n", std::process::id());
                    file.write_all(text.as_bytes())?;
                    file.set_len(text.len() as u64)?;
                    fchmod(&file, Mode::from_raw_mode(0o644))?;
                    return Ok(file);
                }
                Locked::ByOther(_) if Instant::now() < deadline => {
                    std::thread::sleep(RETRY_INTERVAL)
                }
                Locked::ByOther(server) => {
                    let (which, how) = match server {
                        Some(pid) => (format!(", process {pid},"), format!(" (kill -QUIT {pid})")),
                        None => (String::new(), String::new()),
                    };
                    return Err(io::Error::other(format!(
                        "another server{which} runs with this file; end that server first{how}, or \
                         start this one with another --pid FILE"
                    )));
                }
            }
        }
    }

    /// Releases the lock, so that another server can take the file over. The process id stays in
    /// the file until then.
    pub(crate) fn release(&mut self) {
        self.locked = None;
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let Ok(place) = SafePath::resolve(&self.path) else { return };
        let file = place.open(OFlags::RDONLY, Mode::empty());
        if file.is_ok_and(|mut file| pid_in(&mut file) == Some(std::process::id())) {
            let _ = place.remove();
        }
    }
}

/// Returns the type of the file in the place of a PID file. Fails if a PID file must not replace
/// it.
pub(crate) fn check(place: &SafePath) -> io::Result<Option<FileType>> {
    match place.kind()? {
        Some(FileType::RegularFile | FileType::Symlink) | None => place.kind(),
        Some(_) => Err(io::Error::other("the path exists and is not a regular file")),
    }
}

/// The result of an attempt to lock the file.
enum Locked {
    ByThis(File),
    /// Another server has the lock. With its process id, if the file contains it already.
    ByOther(Option<u32>),
}

/// Tries once to open and lock the file.
///
/// A file of this user is locked as it is, so that one of several servers that start at the same
/// time gets the lock. A file of another user, or one with several names, may be a trap and is
/// replaced.
fn lock_file(place: &SafePath) -> io::Result<Locked> {
    match check(place)? {
        Some(FileType::RegularFile) => {
            let opened = match place.open(OFlags::RDWR, Mode::empty()) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    place.open(OFlags::RDONLY, Mode::empty())
                }
                opened => opened,
            };
            let mut file = match opened {
                // The other server has just removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return create(place),
                opened => opened?,
            };
            let found = file.metadata()?;
            let is_own = found.is_file() && found.nlink() == 1 && found.uid() == geteuid().as_raw();
            if is_own && lock(&file, FlockOperation::NonBlockingLockExclusive)? {
                // The server that had the lock may have removed the file meanwhile.
                return if place.is(&file)? {
                    Ok(Locked::ByThis(file))
                } else {
                    Ok(Locked::ByOther(None))
                };
            }
            if !lock(&file, FlockOperation::NonBlockingLockShared)? {
                return Ok(Locked::ByOther(pid_in(&mut file)));
            }
            place.remove()?;
            create(place)
        }
        Some(_) => {
            place.remove()?;
            create(place)
        }
        None => create(place),
    }
}

fn create(place: &SafePath) -> io::Result<Locked> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    // No other user can open the file before it is locked.
    match place.open(flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => {
            if lock(&file, FlockOperation::NonBlockingLockExclusive)? {
                Ok(Locked::ByThis(file))
            } else {
                Ok(Locked::ByOther(None))
            }
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Locked::ByOther(None)),
        Err(error) => Err(error),
    }
}

/// Locks a file. Returns false if another process has a conflicting lock. A file system without
/// locks counts as success.
fn lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match fcntl_lock(file, operation) {
        Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the process id in a PID file.
fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_pid_file_that_is_a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, path) = (dir.path().join("target"), dir.path().join("pid"));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        drop(PidFile::claim(&path).unwrap());
        fs::hard_link(&target, &path).unwrap();
        drop(PidFile::claim(&path).unwrap());
        assert_eq!(fs::read(target).unwrap(), b"precious");
    }

    #[test]
    fn a_pid_file_replaces_and_removes_nothing_but_files() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(PidFile::claim(&socket).is_err() && PidFile::claim(dir.path()).is_err());
        assert!(socket.exists());
        let path = dir.path().join("pid");
        let file = PidFile::claim(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_another_server_has_taken_over_is_left_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let mut file = PidFile::claim(&path).unwrap();
        file.release();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(path).unwrap(), "1\n");
    }

    #[test]
    fn a_file_is_taken_back_after_it_was_released() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let mut file = PidFile::claim(&path).unwrap();
        file.release();
        fs::write(&path, "1234567\n").unwrap();
        file.reclaim().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_file_is_taken_over_whatever_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        for stale in ["", "1\n", "4194304999999\nmore than a number\n"] {
            fs::write(&path, stale).unwrap();
            let _file = PidFile::claim(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        }
    }
}
