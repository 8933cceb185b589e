//! Reads files and directories of a site.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

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

/// Returns at most `max` bytes from the start of a regular file. Other files are not opened:
/// opening a FIFO can block.
pub(super) fn read_start(path: &Path, max: usize) -> Option<Vec<u8>> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(max as u64).read_to_end(&mut text).ok()?;
    Some(text)
}
