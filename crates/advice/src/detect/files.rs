//! Reads files and directories of a site.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use howdah_sys::regular_file;

use super::error::DetectError;

/// Maximum number of names of a directory that are kept.
const MAX_NAMES: usize = 1000;

/// A directory with a cached list of its entries. The list saves a `stat` for each missing file.
pub(super) struct Directory {
    path: PathBuf,
    /// In lower case, as some file systems ignore case; `None` if there are too many.
    names: Option<HashSet<Vec<u8>>>,
}

impl Directory {
    /// Lists a directory.
    pub(super) fn list(path: &Path) -> Result<Directory, DetectError> {
        let entries = fs::read_dir(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DetectError::Missing(path.to_owned()),
            io::ErrorKind::NotADirectory => DetectError::NotDirectory(path.to_owned()),
            _ => DetectError::unreadable(path, error),
        })?;
        // Counted, as names that differ only in case are one.
        let (mut names, mut count) = (HashSet::new(), 0);
        for entry in entries.take(MAX_NAMES) {
            let entry = entry.map_err(|error| DetectError::unreadable(path, error))?;
            names.insert(entry.file_name().as_encoded_bytes().to_ascii_lowercase());
            count += 1;
        }
        let names = (count < MAX_NAMES).then_some(names);
        Ok(Directory { path: path.to_owned(), names })
    }

    /// Returns a directory whose names are not known.
    pub(super) fn unlisted(path: &Path) -> Directory {
        Directory { path: path.to_owned(), names: None }
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if it has a file of this name, or a symbolic link to a file. The name may lead
    /// into other directories.
    pub(super) fn has_file(&self, name: &str) -> Result<bool, DetectError> {
        if !self.may_have(Path::new(name)) {
            return Ok(false);
        }
        let path = self.path.join(name);
        match fs::metadata(&path) {
            Ok(metadata) => Ok(metadata.is_file()),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
                _ => Err(DetectError::unreadable(path.parent().unwrap_or(&path), error)),
            },
        }
    }

    /// Returns at most `max` bytes from the start of a file, as [`read_start`].
    pub(super) fn read_start(&self, name: &str, max: usize) -> Option<Vec<u8>> {
        self.may_have(Path::new(name)).then(|| read_start(&self.path.join(name), max))?
    }

    fn may_have(&self, name: &Path) -> bool {
        match (&self.names, name.components().next()) {
            (Some(names), Some(Component::Normal(first))) => {
                names.contains(&first.as_encoded_bytes().to_ascii_lowercase())
            }
            _ => true,
        }
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
