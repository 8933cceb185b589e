//! An entry of a listing.

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: Vec<u8>,
    pub is_directory: bool,
    /// Size in bytes; 0 for directories.
    pub size: u64,
    /// Time of the last modification in seconds since 1970.
    pub modified: u64,
}

impl Entry {
    pub fn file(name: Vec<u8>, size: u64, modified: i64) -> Entry {
        let modified = u64::try_from(modified).unwrap_or_default();
        Entry { name, is_directory: false, size, modified }
    }

    pub fn directory(name: Vec<u8>, modified: i64) -> Entry {
        Entry { is_directory: true, ..Entry::file(name, 0, modified) }
    }
}
