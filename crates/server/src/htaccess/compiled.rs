//! `.htaccess` files that have been compiled, shared by all threads.
//!
//! A file is read again when its identity, size or times have changed. Whether they have is asked with one
//! system call for each directory of a path, as a change must hold for the next request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use howdah_htaccess::config::DirConfig;
use howdah_htaccess::world::Broken;

/// Largest number of directories whose files are kept.
const MAX_DIRECTORIES: usize = 4096;

/// State of a file. Any change of the file changes it, unless two come within a tick of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub modified: (i64, i64),
    pub changed: (i64, i64),
}

/// A compiled file, or why it cannot be used.
pub(super) type Compiled = Result<Arc<DirConfig>, Broken>;

/// Compiled files by their directories.
type Table = HashMap<Box<[u8]>, (Stamp, Compiled)>;

/// Compiled files of a site.
#[derive(Debug, Default)]
pub(super) struct CompiledFiles(Mutex<Table>);

impl CompiledFiles {
    /// Returns the compiled file of a directory if it has this state.
    pub(super) fn get(&self, directory: &[u8], stamp: &Stamp) -> Option<Compiled> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, compiled) = files.get(directory)?;
        (known == stamp).then(|| compiled.clone())
    }

    /// Stores the compiled file of a directory.
    pub(super) fn put(&self, directory: &[u8], stamp: Stamp, compiled: Compiled) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MAX_DIRECTORIES {
            files.clear();
        }
        files.insert(directory.into(), (stamp, compiled));
    }
}
