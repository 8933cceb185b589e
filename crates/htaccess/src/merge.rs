//! Merged directives, computed once for each pair of parent and child.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::config::DirConfig;

/// Most pairs that are kept; beyond that, all are forgotten.
const MAX_PAIRS: usize = 8192;

/// Approximate memory in bytes of all results of a site on a thread; beyond that, all are
/// forgotten.
const MAX_BYTES: usize = 8 << 20;

/// Approximate memory in bytes of all results of all threads; beyond that, results are not kept.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// Approximate memory in bytes of the results that all threads keep.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Returns true if all results take nearly as much memory as they may: a thread should forget its
/// own.
pub fn is_full() -> bool {
    KEPT.load(Relaxed) > MAX_TOTAL_BYTES / 4 * 3
}

/// Results of merges by the addresses of parent and child. An entry keeps both alive, so that an
/// address stands for one configuration as long as the entry is there.
#[derive(Debug, Default)]
pub struct Merges {
    pairs: RefCell<HashMap<(usize, usize), Merged, BuildHasherDefault<AddressHasher>>>,
    /// Approximate memory of the results in bytes.
    bytes: Cell<usize>,
}

#[derive(Debug)]
struct Merged {
    _parent: Arc<DirConfig>,
    _child: Arc<DirConfig>,
    result: Arc<DirConfig>,
}

impl Merges {
    /// Returns the directives of `parent` with those of `child`, the same `Arc` each time for the
    /// same pair.
    pub fn merge(&self, parent: &Arc<DirConfig>, child: &Arc<DirConfig>) -> Arc<DirConfig> {
        let key = (Arc::as_ptr(parent).addr(), Arc::as_ptr(child).addr());
        let mut pairs = self.pairs.borrow_mut();
        if let Some(known) = pairs.get(&key) {
            return known.result.clone();
        }
        let result = Arc::new(parent.merged(child));
        let bytes = self.bytes.get().saturating_add(result.size);
        if pairs.len() >= MAX_PAIRS || bytes > MAX_BYTES {
            pairs.clear();
            self.count(0);
        }
        if KEPT.load(Relaxed).saturating_add(result.size) > MAX_TOTAL_BYTES {
            return result;
        }
        let entry =
            Merged { _parent: parent.clone(), _child: child.clone(), result: result.clone() };
        pairs.insert(key, entry);
        self.count(self.bytes.get().saturating_add(result.size));
        result
    }

    /// Sets the memory of the results.
    fn count(&self, bytes: usize) {
        let before = self.bytes.replace(bytes);
        KEPT.fetch_add(bytes, Relaxed);
        KEPT.fetch_sub(before, Relaxed);
    }

    /// Forgets all results. To be called after `.htaccess` files have changed, to free the results
    /// for them.
    pub fn clear(&self) {
        self.pairs.borrow_mut().clear();
        self.count(0);
    }
}

impl Drop for Merges {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// Mixes addresses; clients do not choose them.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Base;
    use crate::engine::compile;

    #[test]
    fn a_pair_is_merged_once() {
        let merges = Merges::default();
        let (parent, child) = (Arc::new(DirConfig::default()), Arc::new(DirConfig::default()));
        let first = merges.merge(&parent, &child);
        assert!(Arc::ptr_eq(&first, &merges.merge(&parent, &child)));
        assert!(!Arc::ptr_eq(&first, &merges.merge(&child, &parent)));
    }

    fn compiled(text: &str) -> Arc<DirConfig> {
        let base = Base::default();
        Arc::new(compile(text.as_bytes(), b"f", b"/", &base, &|_| false).unwrap())
    }

    fn types(count: usize) -> Arc<DirConfig> {
        compiled(&(0..count).map(|number| format!("AddType a/b .x{number}\n")).collect::<String>())
    }

    #[test]
    fn what_a_directory_does_not_change_is_not_copied() {
        let merges = Merges::default();
        let base = Arc::new(DirConfig::default());
        let parent = merges.merge(&base, &types(5000));
        for _ in 0..2000 {
            merges.merge(&parent, &compiled("Options -Indexes\n"));
        }
        assert_eq!(merges.pairs.borrow().len(), 2001);
        assert!(merges.bytes.get() < MAX_BYTES);
    }

    #[test]
    fn the_memory_of_all_results_has_a_limit() {
        let merges = Merges::default();
        let parent = types(5000);
        for _ in 0..30 {
            let merged = merges.merge(&parent, &compiled("AddType c/d .y\n"));
            assert!(merged.size > 5000 * 300, "{}", merged.size);
            assert!(merges.bytes.get() <= MAX_BYTES);
        }
        assert!(merges.pairs.borrow().len() < 8);
    }

    #[test]
    fn a_new_file_gives_a_new_result() {
        let merges = Merges::default();
        let parent = Arc::new(DirConfig::default());
        let first = merges.merge(&parent, &Arc::new(DirConfig::default()));
        let second = merges.merge(&parent, &Arc::new(DirConfig::default()));
        assert!(!Arc::ptr_eq(&first, &second));
    }
}
