//! `.htaccess` files that have been compiled, shared by all threads.
//!
//! A file is read again when its identity, size or times have changed. Each thread knows from the
//! kernel when it has to compare them (`howdah_files::Watched`), or does so for each request: a
//! change must hold for the next one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use howdah_htaccess::config::DirConfig;
use howdah_htaccess::world::Broken;

/// Largest number of directories whose files are kept, for each site.
const MAX_DIRECTORIES: usize = 4096;

/// Largest size of all files that are kept, for each site, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// Approximate memory of all compiled files that are kept, for each site, in bytes. Less than a
/// site may use: other state, for example of running requests, needs memory, too.
const MAX_COMPILED_BYTES: usize = 48 << 20;

/// Approximate memory in bytes of an entry, beside its path and the compiled file.
const ENTRY_BYTES: usize = 256;

/// State of a file. Any change of the file changes it, unless two come within a tick of the clock;
/// a file that has just changed is therefore not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Device of the file system.
    pub device: u64,
    /// Number of the file in it.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Time of the last change of the file: seconds and nanoseconds.
    pub changed: (i64, i64),
}

/// Time after a change for which a file may still be written to. Longer than a tick of the kernel's
/// clock, which gives files their times.
pub const SETTLING_TIME: Duration = Duration::from_millis(10);

/// The same for an empty file. Most programs that write a file in place empty it first, and may
/// have to wait for a processor before they write; without its rules, a directory is open.
const EMPTY_SETTLING_TIME: Duration = Duration::from_millis(500);

impl Stamp {
    /// Returns true if the last change is a while ago, or in the future.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = if self.size == 0 { EMPTY_SETTLING_TIME } else { SETTLING_TIME };
        [self.modified, self.changed].into_iter().all(|(seconds, nanoseconds)| {
            let seconds = u64::try_from(seconds).unwrap_or_default();
            let changed = Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or_default());
            now.checked_sub(changed).is_none_or(|age| age >= time)
        })
    }
}

/// A compiled file, or why it cannot be used.
pub type Compiled = Result<Arc<DirConfig>, Broken>;

/// Directives of a directory; `None` if it has no file of them.
pub type Directives = Result<Option<Arc<DirConfig>>, Broken>;

/// The directives of a directory, as a thread keeps them; `None` if the directory has no file of
/// them. Only [`CompiledFiles`] keeps them, so that their memory can be counted and freed.
pub type KnownDirectives = Option<Weak<DirConfig>>;

/// The files of all sites.
static ALL: Mutex<Vec<Weak<CompiledFiles>>> = Mutex::new(Vec::new());

/// Compiled files of a site, by their directories.
#[derive(Debug, Default)]
pub struct CompiledFiles {
    table: Mutex<Table>,
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    files: HashMap<Box<[u8]>, (Stamp, Compiled)>,
    /// Size of all files in bytes.
    size: u64,
    /// Approximate memory of the compiled forms, in bytes.
    compiled_size: usize,
}

impl CompiledFiles {
    /// Returns the empty table of a new site.
    pub fn new() -> Arc<CompiledFiles> {
        let files = Arc::new(CompiledFiles::default());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&files));
        files
    }

    /// Forgets the files of the site.
    pub fn clear(&self) {
        let forgotten =
            std::mem::take(&mut *self.table.lock().unwrap_or_else(PoisonError::into_inner));
        drop(forgotten);
        self.record_change();
    }

    /// Forgets the files of all sites.
    pub fn clear_all() {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|files| files.clear());
    }

    /// Returns the compiled file of a directory if it has this state.
    pub fn get(&self, directory: &[u8], stamp: &Stamp) -> Option<Compiled> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, compiled) = table.files.get(directory)?;
        (known == stamp).then(|| compiled.clone())
    }

    /// Stores the compiled file of a directory.
    pub fn put(&self, directory: &[u8], stamp: Stamp, compiled: Compiled) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let size = compiled_size(directory, &compiled);
        if table.files.len() >= MAX_DIRECTORIES
            || table.size + stamp.size > MAX_BYTES
            || table.compiled_size + size > MAX_COMPILED_BYTES
        {
            *table = Table::default();
        }
        table.size += stamp.size;
        table.compiled_size += size;
        if let Some((old, compiled)) = table.files.insert(directory.into(), (stamp, compiled)) {
            table.size = table.size.saturating_sub(old.size);
            table.compiled_size -= compiled_size(directory, &compiled);
        }
    }

    /// Records that a file was compiled: the state that threads have derived from an earlier one is
    /// out of date.
    pub fn record_change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of files that were compiled.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

/// Returns the approximate memory of a compiled file, or of its error, in bytes.
fn compiled_size(directory: &[u8], compiled: &Compiled) -> usize {
    let size = compiled.as_ref().map_or_else(|broken| broken.message.len(), |config| config.size);
    size + directory.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(size: u64) -> Stamp {
        Stamp { device: 1, inode: 1, size, modified: (0, 0), changed: (0, 0) }
    }

    #[test]
    fn a_file_is_known_in_one_state_and_all_files_have_a_limit() {
        let files = CompiledFiles::default();
        let compiled = || Ok(Arc::new(DirConfig::default()));
        files.put(b"/a/", stamp(1), compiled());
        assert!(files.get(b"/a/", &stamp(1)).is_some() && files.get(b"/a/", &stamp(2)).is_none());
        for number in 0..100_u8 {
            files.put(&[b'/', number, b'/'], stamp(MAX_BYTES / 8), compiled());
            assert!(files.table.lock().unwrap().size <= MAX_BYTES);
        }
        for _ in 0..100 {
            files.put(b"/b/", stamp(MAX_BYTES / 8), compiled());
        }
        assert!(files.get(b"/b/", &stamp(MAX_BYTES / 8)).is_some());
    }

    #[test]
    fn the_memory_of_compiled_files_has_a_limit() {
        let files = CompiledFiles::default();
        let size = MAX_COMPILED_BYTES / 4 - 1000;
        let compiled = || {
            let mut config = DirConfig::default();
            config.size = size;
            Ok(Arc::new(config))
        };
        for number in 0..20_u8 {
            files.put(&[b'/', number, b'/'], stamp(1), compiled());
            let table = files.table.lock().unwrap();
            assert!(table.compiled_size >= table.files.len() * size);
            assert!(table.compiled_size <= MAX_COMPILED_BYTES);
        }
    }

    #[test]
    fn a_file_settles_some_time_after_its_last_change() {
        let at = |milliseconds| SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
        let file = Stamp { modified: (1, 0), changed: (1, 5_000_000), ..stamp(9) };
        assert!(!file.is_settled(at(1014)) && file.is_settled(at(1015)));
        let empty = Stamp { size: 0, ..file };
        assert!(!empty.is_settled(at(1015)) && empty.is_settled(at(1505)));
    }
}
