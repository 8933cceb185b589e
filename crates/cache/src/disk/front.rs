//! The store that a file belongs to, as the thread of the file sees it.

use std::sync::Arc;

use super::file::Disk;
use super::journal::Record;
use crate::entry::Entry;

/// A store with a file.
pub trait Front: Send + Sync {
    /// Returns the file.
    fn disk(&self) -> Option<&Disk>;

    /// Returns the number of purges before the first request.
    fn first_epoch(&self) -> u64;

    /// Repeats a purge that took place before a restart.
    fn repeat_purge(&self, record: &Record);

    /// Returns the state of all purges, by group.
    fn purge_state(&self) -> Vec<Vec<Record>>;

    /// Returns the number of purges below which everything is gone.
    fn floor(&self) -> u64;

    /// Removes a response from memory.
    fn forget_in_memory(&self, key: &[u8], entry: &Arc<Entry>);
}
