//! Merged directives, computed once for each pair of parent and child.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::config::DirConfig;

/// Most pairs that are kept; beyond that, all are forgotten.
const MAX_PAIRS: usize = 4096;

/// Results of merges by the addresses of parent and child. An entry keeps both alive, so that an address stands
/// for one configuration as long as the entry is there.
#[derive(Debug, Default)]
pub struct Merges {
    pairs: RefCell<HashMap<(usize, usize), Merged, BuildHasherDefault<AddressHasher>>>,
}

#[derive(Debug)]
struct Merged {
    _parent: Arc<DirConfig>,
    _child: Arc<DirConfig>,
    result: Arc<DirConfig>,
}

impl Merges {
    /// Returns the directives of `parent` with those of `child`, the same `Arc` each time for the same pair.
    pub fn merge(&self, parent: &Arc<DirConfig>, child: &Arc<DirConfig>) -> Arc<DirConfig> {
        let key = (Arc::as_ptr(parent).addr(), Arc::as_ptr(child).addr());
        let mut pairs = self.pairs.borrow_mut();
        if let Some(known) = pairs.get(&key) {
            return known.result.clone();
        }
        if pairs.len() >= MAX_PAIRS {
            pairs.clear();
        }
        let result = Arc::new(parent.merged(child));
        let entry =
            Merged { _parent: parent.clone(), _child: child.clone(), result: result.clone() };
        pairs.insert(key, entry);
        result
    }

    /// Forgets all results. To be called after `.htaccess` files have changed, to free what belonged to them.
    pub fn clear(&self) {
        self.pairs.borrow_mut().clear();
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

    #[test]
    fn a_pair_is_merged_once() {
        let merges = Merges::default();
        let (parent, child) = (Arc::new(DirConfig::default()), Arc::new(DirConfig::default()));
        let first = merges.merge(&parent, &child);
        assert!(Arc::ptr_eq(&first, &merges.merge(&parent, &child)));
        assert!(!Arc::ptr_eq(&first, &merges.merge(&child, &parent)));
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
