//! Regular files at paths that other users can change at any time.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::owned_links;

/// Initial size of the buffer in bytes. Most files of sites fit.
const INITIAL_BUFFER_BYTES: usize = 2048;

/// Opens a regular file for reading, and checks its kind after opening it: the path may have been
/// changed since any earlier check.
///
/// Never waits for another process: a FIFO is opened without blocking and refused, a terminal does
/// not become the controlling terminal, and a file under a lease (`F_SETLEASE`), which would delay
/// an open by 45 seconds, fails with [`WouldBlock`](io::ErrorKind::WouldBlock). A network drive
/// that does not answer still makes it wait.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    open_with(path, OFlags::empty())
}

/// As [`open`], and never opens a device: to open one may start a clock that ends the machine
/// (`/dev/watchdog`).
pub fn open_no_device(path: &Path) -> io::Result<(File, Metadata)> {
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let found = File::from(found);
    check_kind(&found.metadata()?)?;
    open(&Path::new("/proc/self/fd").join(found.as_raw_fd().to_string()))
}

/// As [`open`], and fails if the last part of the path is a link.
pub fn open_no_link(path: &Path) -> io::Result<(File, Metadata)> {
    open_with(path, OFlags::NOFOLLOW)
}

/// As [`open`], and fails if a link leads to a file that does not belong to the link's owner
/// ([`owned_links`](crate::owned_links)).
pub fn open_owned(path: &Path) -> io::Result<(File, Metadata)> {
    let (directory, name) = owned_links::resolve(path)?;
    open_at(&directory, &name)
}

/// A directory that was opened by the link rules of [`open_owned`].
#[derive(Debug)]
pub struct OwnedDirectory {
    directory: OwnedFd,
    /// Owner and mode.
    pub metadata: Metadata,
}

impl OwnedDirectory {
    /// Opens a directory.
    pub fn open(path: &Path) -> io::Result<OwnedDirectory> {
        let directory = File::from(owned_links::open_directory(path)?);
        Ok(OwnedDirectory { metadata: directory.metadata()?, directory: directory.into() })
    }

    /// Opens a file of this directory by the link rules of [`open_owned`]. `path` is the full path of
    /// the file.
    pub fn open_file(&self, path: &Path) -> io::Result<(File, Metadata)> {
        match open_at(&self.directory, path.file_name().unwrap_or_default()) {
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                open_owned(path)
            }
            opened => opened,
        }
    }
}

fn open_at(directory: &OwnedFd, name: &OsStr) -> io::Result<(File, Metadata)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    check(openat(directory, name, flags, Mode::empty()).map(File::from).map_err(io::Error::from))
}

/// Reads a regular file of at most `limit` bytes, as [`open_owned`].
pub fn read_owned(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_opened(open_owned(path)?.0, limit)
}

/// Reads a regular file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_opened(open(path)?.0, limit)
}

/// Reads a file that is open, from its position. Fails with
/// [`FileTooLarge`](io::ErrorKind::FileTooLarge) beyond `limit` bytes, also if the file is growing.
pub fn read_opened(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(INITIAL_BUFFER_BYTES);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let problem = match limit >> 20 {
            0 => format!("it is longer than {limit} bytes"),
            megabytes => format!("it is longer than {megabytes} MiB"),
        };
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

fn open_with(path: &Path, more: OFlags) -> io::Result<(File, Metadata)> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | more).bits().cast_signed();
    check(OpenOptions::new().read(true).custom_flags(flags).open(path))
}

/// Checks the kind of a file that was opened.
fn check(opened: io::Result<File>) -> io::Result<(File, Metadata)> {
    let file = opened.map_err(|error| match error.kind() {
        kind @ io::ErrorKind::WouldBlock => {
            io::Error::new(kind, "another program holds a lease of it")
        }
        _ => error,
    })?;
    let metadata = file.metadata()?;
    check_kind(&metadata)?;
    Ok((file, metadata))
}

fn check_kind(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(if metadata.is_dir() {
        io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")
    } else {
        io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::os::unix::fs::symlink("fifo", at("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["fifo", "link", "/dev/zero", "/dev/tty"] {
            let error = read(&at(name), 10).unwrap_err().to_string();
            // There may be no terminal.
            assert!(name == "/dev/tty" || error == "it is not a regular file", "{name}: {error}");
            let error = open_no_device(&at(name)).unwrap_err().to_string();
            assert!(name == "/dev/tty" || error == "it is not a regular file", "{name}: {error}");
        }
        assert!(open(&at("socket")).is_err());
        assert_eq!(open(directory.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(open(&at("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn files_of_a_directory_are_those_of_their_paths() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("real/file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("real/link")).unwrap();
        std::os::unix::fs::symlink("real", at("sites")).unwrap();
        let sites = OwnedDirectory::open(&at("sites")).unwrap();
        assert!(sites.metadata.is_dir());
        for name in ["sites/file", "sites/link"] {
            let (file, _) = sites.open_file(&at(name)).unwrap();
            assert_eq!(read_opened(file, 10).unwrap(), b"text");
        }
        assert_eq!(sites.open_file(&at("sites/no")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(OwnedDirectory::open(&at("real/file")).is_err());
    }

    #[test]
    fn no_more_is_read_than_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        let error = read(&path, 4).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 4 bytes");
        // The size of a file of /proc is 0, and the file of a link is another.
        assert!(read(Path::new("/proc/self/maps"), 10).is_err());
        std::os::unix::fs::symlink("file", directory.path().join("link")).unwrap();
        assert!(read(&directory.path().join("link"), 5).is_ok());
        assert!(open_no_link(&directory.path().join("link")).is_err());
    }
}
