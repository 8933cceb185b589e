//! Cache with limits on the number of entries and on bytes; evicts by the clock algorithm.
//!
//! Entries form a circle. A lookup marks its entry; to make room, the hand removes the first entry
//! that has not been marked since its last pass. A lookup costs one hash and no allocation. The
//! hash is keyed, so that clients cannot cause collisions; of two keys with the same hash, the
//! newer entry replaces the older.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use super::share::FileLocation;

/// Key of a cache entry: the share and the location of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'a> {
    /// Identity of the share.
    pub share: u64,
    /// Location that is looked up.
    pub place: FileLocation<'a>,
    hash: u64,
}

impl<'a> Key<'a> {
    pub fn new(share: u64, place: FileLocation<'a>, hasher: &RandomState) -> Self {
        let mut state = hasher.build_hasher();
        state.write_u64(share);
        state.write_usize(place.url_offset);
        for part in [place.root, place.chroot, place.path] {
            state.write_usize(part.len());
            state.write(part);
        }
        Key { share, place, hash: state.finish() }
    }
}

/// Cache; `V` is cheap to clone.
#[derive(Debug)]
pub(super) struct Cache<V> {
    index: HashMap<u64, usize, BuildHasherDefault<Hashed>>,
    face: Vec<Entry<V>>,
    hand: usize,
    weight: usize,
    max_weight: usize,
    max_entries: usize,
}

#[derive(Debug)]
struct Entry<V> {
    hash: u64,
    share: u64,
    root: Box<[u8]>,
    path: Box<[u8]>,
    base: usize,
    chroot: Box<[u8]>,
    value: V,
    weight: usize,
    used: bool,
}

impl<V> Cache<V> {
    /// Creates a cache for at most this many bytes and entries.
    pub fn new(max_weight: usize, max_entries: usize) -> Self {
        Cache {
            index: HashMap::default(),
            face: Vec::new(),
            hand: 0,
            weight: 0,
            max_weight,
            max_entries,
        }
    }

    /// Returns the value of the key and marks its entry.
    pub fn get(&mut self, key: &Key<'_>) -> Option<&mut V> {
        let entry = self.face.get_mut(*self.index.get(&key.hash)?)?;
        if !entry.is(key) {
            return None;
        }
        entry.used = true;
        Some(&mut entry.value)
    }

    /// Inserts a value and replaces an existing one. A value heavier than the whole cache is not
    /// stored.
    pub fn insert(&mut self, key: &Key<'_>, value: V, weight: usize) {
        self.remove(key);
        let place = &key.place;
        let names = place.root.len() + place.chroot.len() + place.path.len();
        let weight = weight.saturating_add(names).saturating_add(ENTRY_WEIGHT);
        if weight > self.max_weight || self.max_entries == 0 {
            return;
        }
        while self.weight.saturating_add(weight) > self.max_weight
            || self.face.len() >= self.max_entries
        {
            self.evict();
        }
        self.weight += weight;
        self.index.insert(key.hash, self.face.len());
        self.face.push(Entry {
            hash: key.hash,
            share: key.share,
            root: place.root.into(),
            path: place.path.into(),
            base: place.url_offset,
            chroot: place.chroot.into(),
            value,
            weight,
            used: false,
        });
    }

    /// Removes the entry with the key's hash, if there is one.
    pub fn remove(&mut self, key: &Key<'_>) {
        if let Some(place) = self.index.get(&key.hash) {
            self.take(*place);
        }
    }

    /// Returns the number of entries.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.face.len()
    }

    /// Bytes that the entries account for.
    #[cfg(test)]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Turns the hand until it has removed one entry; ends within two rounds.
    fn evict(&mut self) {
        loop {
            if self.hand >= self.face.len() {
                self.hand = 0;
            }
            match self.face.get_mut(self.hand) {
                None => return,
                Some(entry) if entry.used => entry.used = false,
                Some(_) => return self.take(self.hand),
            }
            self.hand += 1;
        }
    }

    /// Removes the entry at an index; the last entry moves there.
    fn take(&mut self, place: usize) {
        if place >= self.face.len() {
            return;
        }
        let entry = self.face.swap_remove(place);
        self.weight -= entry.weight;
        self.index.remove(&entry.hash);
        if let Some(moved) = self.face.get(place) {
            self.index.insert(moved.hash, place);
        }
    }
}

impl<V> Entry<V> {
    fn is(&self, key: &Key<'_>) -> bool {
        self.share == key.share
            && self.base == key.place.url_offset
            && *self.path == *key.place.path
            && *self.root == *key.place.root
            && *self.chroot == *key.place.chroot
    }
}

/// Memory of an entry in bytes in addition to its names and its value.
const ENTRY_WEIGHT: usize = 256;

/// Hasher for keys that are hashes already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(path: &[u8]) -> FileLocation<'_> {
        FileLocation { root: b"/www", path, url_offset: 0, chroot: b"" }
    }

    #[test]
    fn keys_differ_by_every_part() {
        let hasher = RandomState::new();
        let mut cache = Cache::new(1 << 20, 100);
        cache.insert(&Key::new(1, place(b"/a"), &hasher), 'x', 0);
        assert!(cache.get(&Key::new(1, place(b"/a"), &hasher)).is_some());
        assert!(cache.get(&Key::new(2, place(b"/a"), &hasher)).is_none());
        assert!(cache.get(&Key::new(1, place(b"/b"), &hasher)).is_none());
        let moved = FileLocation { root: b"/www/", path: b"a", ..place(b"") };
        assert!(cache.get(&Key::new(1, moved, &hasher)).is_none());
        let jailed = FileLocation { chroot: b"/www", ..place(b"/a") };
        assert!(cache.get(&Key::new(1, jailed, &hasher)).is_none());
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_leaves() {
        let hasher = RandomState::new();
        let mut cache = Cache::new(usize::MAX, 10);
        cache.insert(&Key::new(1, place(b"/hot"), &hasher), 0, 0);
        for n in 1..1000 {
            assert!(cache.get(&Key::new(1, place(b"/hot"), &hasher)).is_some());
            cache.insert(&Key::new(1, place(format!("/{n}").as_bytes()), &hasher), n, 0);
            assert!(cache.len() <= 10);
        }
    }

    proptest! {
        #[test]
        fn limits_hold_and_nothing_wrong_is_found(
            steps in prop::collection::vec((0u8..40, 0usize..4000, any::<bool>()), 0..300),
        ) {
            let hasher = RandomState::new();
            let mut cache = Cache::new(10_000, 8);
            let mut model = HashMap::new();
            for (name, weight, insert) in steps {
                let path = [b'/', name];
                let key = Key::new(7, place(&path), &hasher);
                if insert {
                    cache.insert(&key, (name, weight), weight);
                    model.insert(name, (name, weight));
                } else if let Some(found) = cache.get(&key) {
                    prop_assert_eq!(Some(&*found), model.get(&name));
                }
                prop_assert!(cache.len() <= 8 && cache.weight() <= 10_000);
                prop_assert_eq!(cache.index.len(), cache.face.len());
                prop_assert_eq!(cache.weight(), cache.face.iter().map(|e| e.weight).sum::<usize>());
            }
        }
    }
}
