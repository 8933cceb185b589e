//! The stored configuration, and log files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use howdah_sys::regular_file;
use rustix::fs::{Access, Mode, OFlags};

use crate::safe_path::SafePath;

const DOCUMENT: &str = "conf.json";

/// Maximum length of a configuration, in bytes. The control API accepts no more than a part of it.
pub(crate) const MAX_DOCUMENT: u64 = 256 << 20;

/// Returns the path of the stored configuration.
pub fn stored_document(state: &Path) -> PathBuf {
    state.join(DOCUMENT)
}

/// Reads the stored configuration; `None` if there is none yet.
pub fn load_document(state: &Path) -> io::Result<Option<Vec<u8>>> {
    match regular_file::read(&state.join(DOCUMENT), MAX_DOCUMENT) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stores the configuration.
pub(crate) fn save_document(state: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(state, &format!("{DOCUMENT}.new"), DOCUMENT, bytes)
}

/// Writes a file that only this user can read. After a crash at any moment the old or the new file
/// is complete. `new` is the name of the temporary file, which is overwritten unless it is a link.
pub(crate) fn replace(directory: &Path, new: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = directory.join(name);
    write(directory, &directory.join(new), &path, bytes)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Writes a file as [`replace`] does, and removes it.
pub(crate) fn probe(directory: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = directory.join("probe.new");
    write_new(directory, &new, bytes)
        .and_then(|()| fs::remove_file(&new))
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", new.display())))
}

fn write(directory: &Path, new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(directory, new, bytes)?;
    fs::rename(new, path)?;
    File::open(directory)?.sync_all()
}

fn write_new(directory: &Path, new: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32)
        .open(new)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is not a regular file", new.display())));
    }
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Frees the space: the disk may be full.
        let _ = fs::remove_file(new);
        return Err(error);
    }
    Ok(())
}

/// Opens a log for appending. A symbolic link is refused (see [`SafePath`]), except for
/// `/dev/stdout` and `/dev/stderr`, which mean the server's own streams. A pipe without a reader is
/// an error.
pub fn open_log(path: &Path) -> io::Result<OwnedFd> {
    match path.to_str() {
        Some("/dev/stdout") => return io::stdout().as_fd().try_clone_to_owned(),
        Some("/dev/stderr") => return io::stderr().as_fd().try_clone_to_owned(),
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    Ok(SafePath::resolve(path)?.open(flags, Mode::from_raw_mode(0o640))?.into())
}

/// Opens an access log. A pipe as a standard stream is opened anew where that is permitted: the
/// router writes to it without waiting for its reader, and other processes have the same stream.
pub fn open_access_log(path: &Path) -> io::Result<OwnedFd> {
    let own = match path.to_str() {
        Some("/dev/stdout") => "/proc/self/fd/1",
        Some("/dev/stderr") => "/proc/self/fd/2",
        _ => return open_log(path),
    };
    let is_pipe = fs::metadata(own).is_ok_and(|found| found.file_type().is_fifo());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match is_pipe.then(|| rustix::fs::open(own, flags, Mode::empty())) {
        Some(Ok(pipe)) => Ok(pipe),
        _ => open_log(path),
    }
}

/// Checks that [`open_log`] could open a log. No file is made.
pub fn check_log(path: &Path) -> io::Result<()> {
    if matches!(path.to_str(), Some("/dev/stdout" | "/dev/stderr")) {
        return Ok(());
    }
    let place = SafePath::resolve(path)?;
    match place.open(OFlags::WRONLY | OFlags::APPEND, Mode::empty()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            place.access(Access::WRITE_OK | Access::EXEC_OK)
        }
        opened => opened.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert_eq!(load_document(&state).unwrap(), None);
        save_document(&state, b"{}").unwrap();
        assert_eq!(load_document(&state).unwrap().unwrap(), b"{}");
    }

    #[test]
    fn a_probe_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        probe(dir.path(), b"text").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        fs::create_dir(dir.path().join("probe.new")).unwrap();
        let error = probe(dir.path(), b"text").unwrap_err().to_string();
        assert!(error.contains("probe.new"), "{error}");
    }

    #[test]
    fn a_pipe_in_place_of_a_stored_file_does_not_stop_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        for name in ["conf.json", "conf.json.new"] {
            let path = dir.path().join(name);
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        }
        assert!(load_document(dir.path()).is_err());
        assert!(save_document(dir.path(), b"{}").is_err());
        // With a reader, a pipe can be opened; it is no file all the same.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let _reader = rustix::fs::open(dir.path().join("conf.json.new"), flags, mode).unwrap();
        assert!(save_document(dir.path(), b"{}").is_err());
    }

    #[test]
    fn a_log_that_is_a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join("log")).unwrap();
        assert!(open_log(&dir.path().join("log")).is_err());
    }

    #[test]
    fn a_log_is_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        for line in ["a\n", "b\n"] {
            File::from(open_log(&path).unwrap()).write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read(path).unwrap(), b"a\nb\n");
    }

    #[test]
    fn a_log_that_is_a_pipe_without_reader_does_not_stop_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(open_log(&path).is_err());
    }
}
