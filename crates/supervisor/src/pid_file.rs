//! The PID file: the supervisor's process id, and a lock that tells whether that server runs.
//!
//! The lock is one for writing that belongs to the process (fcntl(2), `F_SETLK`): it ends with the
//! process however that ends, and child processes do not have it. Whoever may merely read the file,
//! as scripts of a site may, can lock it for reading only, and such a lock keeps no server from
//! starting.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, fcntl_lock};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::place::Place;

/// How long a server that has just been killed may take to end.
const END_TIME: Duration = Duration::from_secs(2);

/// Time between two looks at the file of a server that may be about to end.
const LOOK: Duration = Duration::from_millis(20);

/// The PID file of this process. When it is dropped, the file is removed, unless it is another
/// server's by then.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    /// The lock. It is lost when this process closes any descriptor of the file.
    locked: Option<File>,
}

impl PidFile {
    /// Locks and writes the file; one that no running server has locked is taken over. The error
    /// says what to do. A link is replaced and not followed. Nothing but a file or a link is
    /// replaced: `--pid /dev/null` must not cost the system its device.
    pub(crate) fn claim(path: &Path) -> io::Result<Self> {
        let deadline = Instant::now() + END_TIME;
        let place = Place::find(path)?;
        loop {
            match lock_file(&place)? {
                Locked::ByThis(mut file) => {
                    file.set_len(0)?;
                    writeln!(file, "{}", std::process::id())?;
                    fchmod(&file, Mode::from_raw_mode(0o644))?;
                    return Ok(PidFile { path: path.to_owned(), locked: Some(file) });
                }
                Locked::ByOther(_) if Instant::now() < deadline => std::thread::sleep(LOOK),
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

    /// Gives up the lock, so that another server may take the file over. Until then signals find
    /// this one by it.
    pub(crate) fn release(&mut self) {
        self.locked = None;
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let Ok(place) = Place::find(&self.path) else { return };
        let file = place.open(OFlags::RDONLY, Mode::empty());
        if file.is_ok_and(|mut file| pid_in(&mut file) == Some(std::process::id())) {
            let _ = place.remove();
        }
    }
}

/// What is in the place of a PID file; an error if that is nothing that a PID file may replace.
pub(crate) fn check(place: &Place) -> io::Result<Option<FileType>> {
    match place.kind()? {
        Some(FileType::RegularFile | FileType::Symlink) | None => place.kind(),
        Some(_) => Err(io::Error::other("there is something that is no file")),
    }
}

/// Who has the lock after an attempt to get it.
enum Locked {
    ByThis(File),
    /// Another server, with its process id if the file has it already.
    ByOther(Option<u32>),
}

/// Tries once to get the file and its lock.
///
/// This process's own files are locked as they are, so that of several servers that start at the
/// same time one gets the lock. A file of another user, or one with several names, may be a trap:
/// it is replaced.
fn lock_file(place: &Place) -> io::Result<Locked> {
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
                // The server that had it may have removed it meanwhile.
                return match place.is(&file)? {
                    true => Ok(Locked::ByThis(file)),
                    false => Ok(Locked::ByOther(None)),
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

fn create(place: &Place) -> io::Result<Locked> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    // Nobody else can open it before it is locked.
    match place.open(flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => match lock(&file, FlockOperation::NonBlockingLockExclusive)? {
            true => Ok(Locked::ByThis(file)),
            false => Ok(Locked::ByOther(None)),
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Locked::ByOther(None)),
        Err(error) => Err(error),
    }
}

/// Returns false if another process has a lock that excludes this one. Where the file system has no
/// locks, there is none.
fn lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match fcntl_lock(file, operation) {
        Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The process id in a PID file.
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
    fn hardening_49_a_pid_file_that_is_a_link_is_replaced_and_not_followed() {
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
    fn hardening_49_a_pid_file_replaces_and_removes_nothing_but_files() {
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
