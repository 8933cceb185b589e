//! A file for the output of an application.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use rustix::io::{Errno, ioctl_fionbio};

/// Opens a file to which an application's output is appended. It may be a FIFO that has a reader.
///
/// Never waits: scripts may have replaced the file.
pub fn open(path: &str) -> std::io::Result<OwnedFd> {
    let mut options = File::options();
    let options = options.append(true).custom_flags(NOT_BLOCKING);
    let file = options.create(true).open(path).map_err(explained)?;
    ioctl_fionbio(&file, false)?;
    Ok(file.into())
}

/// Flags with which a FIFO without a reader, a socket, and a file with a lease are refused at once,
/// and a terminal does not become this session's.
const NOT_BLOCKING: i32 = (OFlags::NONBLOCK.bits() | OFlags::NOCTTY.bits()) as i32;

fn explained(error: std::io::Error) -> std::io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => std::io::Error::other("it is a FIFO without a reader, or a socket"),
        Some(Errno::AGAIN) => std::io::Error::other("a process has a lease on it"),
        _ => error,
    }
}

/// Checks that [`open`] could open a file. No file is made.
pub fn check(path: &str) -> std::io::Result<()> {
    match File::options().append(true).custom_flags(NOT_BLOCKING).open(path).map_err(explained) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let directory = Path::new(path).parent().filter(|path| !path.as_os_str().is_empty());
            let wanted = Access::WRITE_OK | Access::EXEC_OK;
            let directory = directory.unwrap_or(Path::new("."));
            Ok(accessat(CWD, directory, wanted, AtFlags::EACCESS)?)
        }
        opened => opened.map(|_| ()),
    }
}
