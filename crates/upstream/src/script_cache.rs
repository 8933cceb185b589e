//! Cache of script files that exist on the disk, one for each thread.
//!
//! As for static files, an entry is valid for a second without a system call. A missing file is not
//! cached.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for which an entry is valid.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);
/// Maximum number of entries; the cache is emptied when it is reached.
const MAX_ENTRIES: usize = 1024;

/// Paths of scripts, with the time at which each was found.
#[derive(Debug, Default)]
pub struct ScriptCache(RefCell<HashMap<Box<OsStr>, Instant>>);

impl ScriptCache {
    /// Returns true if the script was found within the last second.
    pub fn contains(&self, file: &Path, now: Instant) -> bool {
        let found = self.0.borrow().get(file.as_os_str()).copied();
        found.is_some_and(|found| now.saturating_duration_since(found) < TIME_TO_LIVE)
    }

    /// Adds a script that was found now.
    pub fn insert(&self, file: &Path, now: Instant) {
        let mut found = self.0.borrow_mut();
        if found.len() >= MAX_ENTRIES {
            found.clear();
        }
        found.insert(file.as_os_str().into(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_valid_for_a_second() {
        let (scripts, file) = (ScriptCache::default(), Path::new("/site/a.php"));
        let now = Instant::now();
        assert!(!scripts.contains(file, now));
        scripts.insert(file, now);
        assert!(scripts.contains(file, now + TIME_TO_LIVE / 2));
        assert!(!scripts.contains(file, now + TIME_TO_LIVE));
        assert!(!scripts.contains(Path::new("/site/b.php"), now));
    }

    #[test]
    fn many_names_take_bounded_memory() {
        let (scripts, now) = (ScriptCache::default(), Instant::now());
        for number in 0..3 * MAX_ENTRIES {
            scripts.insert(Path::new(&format!("/site/{number}.php")), now);
            assert!(scripts.0.borrow().len() <= MAX_ENTRIES);
        }
    }
}
