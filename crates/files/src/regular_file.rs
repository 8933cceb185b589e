//! Regular files at paths that other users can change at any time.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading, and checks its kind after opening it: the path may have been
/// changed since any earlier check.
///
/// Never waits for another process: a FIFO is opened without blocking and refused, a terminal does
/// not become the controlling terminal, and a file under a lease (`F_SETLEASE`), which would delay
/// an open by 45 seconds, fails with [`WouldBlock`](io::ErrorKind::WouldBlock).
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| match error.kind() {
        kind @ io::ErrorKind::WouldBlock => {
            io::Error::new(kind, "another program holds a lease of it")
        }
        _ => error,
    })?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata)),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}
