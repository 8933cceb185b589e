//! Numbers of requests or connections at once, by key.
//!
//! Unlike the keys of a [`crate::table`], these are never evicted, and need no bound: there are no
//! more than requests or connections in progress, which the limit of open files bounds.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::key::KeyHash;

/// Numbers at once, by key.
#[derive(Debug)]
pub struct AtOnce {
    shards: [Mutex<HashMap<KeyHash, u32, BuildHasherDefault<Identity>>>; SHARDS],
}

/// One of the counted requests or connections, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    counts: Arc<AtOnce>,
    key: KeyHash,
}

const SHARDS: usize = 64;

/// Keys are hashes already.
#[derive(Debug, Default)]
pub struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl Default for AtOnce {
    fn default() -> Self {
        AtOnce { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl AtOnce {
    /// Counts one more of a key; `None` if it has `max` already.
    pub fn enter(self: &Arc<Self>, key: KeyHash, max: u32) -> Option<Permit> {
        let mut shard = self.shard(key);
        let count = shard.entry(key).or_insert(0);
        if *count >= max {
            // Zero only if `max` is: then the entry was made just now.
            if *count == 0 {
                shard.remove(&key);
            }
            return None;
        }
        *count += 1;
        Some(Permit { counts: Arc::clone(self), key })
    }

    /// Returns the current number of a key.
    pub fn count(&self, key: KeyHash) -> u32 {
        self.shard(key).get(&key).copied().unwrap_or(0)
    }

    /// Returns the number of keys.
    pub fn keys(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock().map_or(0, |shard| shard.len())).sum()
    }

    fn shard(
        &self,
        key: KeyHash,
    ) -> MutexGuard<'_, HashMap<KeyHash, u32, BuildHasherDefault<Identity>>> {
        let shard = &self.shards[(key.get() >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut shard = self.counts.shard(self.key);
        if let Some(count) = shard.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                shard.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash;

    #[test]
    fn a_key_has_no_more_than_its_maximum_and_leaves_no_trace() {
        let (counts, key) = (Arc::new(AtOnce::default()), hash(b"a"));
        let first = counts.enter(key, 2);
        let second = counts.enter(key, 2);
        assert!(first.is_some() && second.is_some() && counts.enter(key, 2).is_none());
        assert!(counts.enter(hash(b"b"), 2).is_some());
        drop(first);
        assert!(counts.enter(key, 2).is_some());
        drop(second);
        assert!(counts.enter(key, 0).is_none());
        assert_eq!((counts.keys(), counts.count(key)), (0, 0));
    }

    #[test]
    fn threads_share_one_maximum() {
        let (counts, key) = (Arc::new(AtOnce::default()), hash(b"a"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let permit = counts.enter(key, 3);
                        assert!(counts.count(key) <= 3);
                        drop(permit);
                    }
                });
            }
        });
        assert_eq!(counts.keys(), 0);
    }
}
