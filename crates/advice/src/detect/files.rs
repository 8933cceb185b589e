//! Reads files and directories of a site.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use howdah_sys::regular_file;

use super::error::DetectError;

/// Fails unless the directory can be listed.
pub(super) fn check_directory(directory: &Path) -> Result<(), DetectError> {
    let metadata = fs::metadata(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DetectError::Missing(directory.to_owned()),
        io::ErrorKind::NotADirectory => DetectError::NotDirectory(directory.to_owned()),
        _ => DetectError::unreadable(directory, error),
    })?;
    if !metadata.is_dir() {
        return Err(DetectError::NotDirectory(directory.to_owned()));
    }
    match fs::read_dir(directory) {
        Ok(_) => Ok(()),
        Err(error) => Err(DetectError::unreadable(directory, error)),
    }
}

/// Returns true if the path is a file or a symbolic link to a file.
pub(super) fn is_file(path: &Path) -> Result<bool, DetectError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
            _ => Err(DetectError::unreadable(path.parent().unwrap_or(path), error)),
        },
    }
}

/// Returns at most `max` bytes from the start of a regular file. Others are not opened, whatever
/// the owner of the directory puts there meanwhile: a FIFO would block, a device may do anything.
pub fn read_start(path: &Path, max: usize) -> Option<Vec<u8>> {
    let (file, _) = regular_file::open_no_device(path).ok()?;
    let mut text = Vec::new();
    file.take(max as u64).read_to_end(&mut text).ok()?;
    Some(text)
}
