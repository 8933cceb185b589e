//! The index of a file: which object has a key, and which one makes room.
//!
//! As in memory, the owner with most bytes makes room, in the order of SIEVE.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::sieve::Sieve;
use crate::space::Object;

/// Maximum number of objects with one key.
const MAX_VARIANTS: usize = 32;

/// Maximum number of keys that are remembered while the file is not readable yet.
const MAX_MISSED: usize = 1 << 16;

/// The index.
#[derive(Debug, Default)]
pub struct Index {
    keys: HashMap<u128, Vec<Slot>>,
    owners: HashMap<u64, Account>,
    objects: usize,
    last: u64,
}

/// A response of a key.
#[derive(Debug)]
struct Slot {
    variant: u64,
    id: u64,
    /// `None` while it is being written.
    object: Option<Arc<Object>>,
}

/// The objects of an owner.
#[derive(Debug, Default)]
struct Account {
    chunks: u64,
    queue: Sieve<Object>,
}

impl Index {
    /// Returns the number of objects.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// Makes sure that no number is used twice.
    pub fn skip_to(&mut self, id: u64) {
        self.last = self.last.max(id);
    }

    /// Makes a place for an object that is to be written. Returns its number, and the objects that
    /// it replaces.
    pub fn reserve(&mut self, key: u128, variant: u64) -> (u64, Vec<Arc<Object>>) {
        let replaced = self.remove(key, |slot_variant, _| slot_variant == variant);
        let mut removed = replaced;
        while self.keys.get(&key).is_some_and(|slots| slots.len() >= MAX_VARIANTS) {
            let oldest = self.keys.get(&key).and_then(|slots| slots.iter().map(|s| s.id).min());
            removed.extend(self.remove(key, |_, id| Some(id) == oldest));
        }
        self.last += 1;
        let slot = Slot { variant, id: self.last, object: None };
        self.keys.entry(key).or_default().push(slot);
        (self.last, removed)
    }

    /// Adds an object that was written. False if its place is gone: it was replaced or removed.
    pub fn add(&mut self, object: &Arc<Object>) -> bool {
        let line = &object.line;
        let slots = self.keys.get_mut(&line.key);
        let slot = slots.and_then(|slots| slots.iter_mut().find(|slot| slot.id == line.id));
        let Some(slot) = slot.filter(|slot| slot.object.is_none()) else { return false };
        slot.object = Some(Arc::clone(object));
        self.objects += 1;
        let account = self.owners.entry(line.owner).or_default();
        account.chunks += u64::from(line.count);
        account.queue.push(Arc::clone(object));
        true
    }

    /// Adds an object that was found after a restart. Returns those that it replaces.
    pub fn restore(&mut self, object: &Arc<Object>) -> Vec<Arc<Object>> {
        let line = &object.line;
        let removed = self.remove(line.key, |variant, _| variant == line.variant);
        let slot = Slot { variant: line.variant, id: line.id, object: None };
        self.keys.entry(line.key).or_default().push(slot);
        self.add(object);
        removed
    }

    /// Removes the objects of a key that a function picks by variant and number.
    pub fn remove(&mut self, key: u128, picks: impl Fn(u64, u64) -> bool) -> Vec<Arc<Object>> {
        let Some(slots) = self.keys.get_mut(&key) else { return Vec::new() };
        let mut removed = Vec::new();
        slots.retain_mut(|slot| {
            let is_picked = picks(slot.variant, slot.id);
            if is_picked {
                removed.extend(slot.object.take());
            }
            !is_picked
        });
        if slots.is_empty() {
            self.keys.remove(&key);
        }
        removed.iter().for_each(|object| self.dismiss(object));
        removed
    }

    /// Returns the objects of a key but those of some variants, and counts that as a use.
    pub fn find(&self, key: u128, except: &[u64]) -> Vec<Arc<Object>> {
        let slots = self.keys.get(&key).map_or(&[][..], Vec::as_slice);
        let wanted = slots.iter().filter(|slot| !except.contains(&slot.variant));
        let found: Vec<_> = wanted.filter_map(|slot| slot.object.clone()).collect();
        found.iter().for_each(|object| object.use_it());
        found
    }

    /// Returns all objects, in no order.
    pub fn all(&self) -> Vec<Arc<Object>> {
        self.keys.values().flatten().filter_map(|slot| slot.object.clone()).collect()
    }

    /// Returns true if a key has an object of a variant. That is no use of it.
    pub fn has_variant(&self, key: u128, variant: u64) -> bool {
        let slots = self.keys.get(&key).map_or(&[][..], Vec::as_slice);
        slots.iter().any(|slot| slot.variant == variant && slot.object.is_some())
    }

    /// Returns true if an object has not been replaced or removed.
    pub fn has(&self, object: &Object) -> bool {
        let slots = self.keys.get(&object.line.key).map_or(&[][..], Vec::as_slice);
        slots.iter().any(|slot| slot.id == object.line.id)
    }

    /// Removes the object that is worth least of the owner that has most.
    pub fn evict(&mut self) -> Option<Arc<Object>> {
        let largest = self.owners.iter_mut().max_by_key(|(_, account)| account.chunks)?.1;
        let object = largest.queue.evict()?;
        let (key, id) = (object.line.key, object.line.id);
        self.remove(key, |_, other| other == id);
        Some(object)
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        let last = self.last;
        *self = Index { last, ..Index::default() };
    }

    fn dismiss(&mut self, object: &Object) {
        self.objects -= 1;
        let owner = object.line.owner;
        if let Some(account) = self.owners.get_mut(&owner) {
            account.chunks = account.chunks.saturating_sub(u64::from(object.line.count));
            account.queue.remove(object);
            if account.chunks == 0 {
                self.owners.remove(&owner);
            }
        }
    }
}

/// The keys whose responses were replaced or removed before the index had the contents of the file.
#[derive(Debug, Default)]
pub struct Missed {
    keys: HashSet<u128>,
    is_all: bool,
}

impl Missed {
    /// Adds a key.
    pub fn add(&mut self, key: u128) {
        self.is_all |= self.keys.len() >= MAX_MISSED;
        if self.is_all {
            self.keys = HashSet::new();
        } else {
            self.keys.insert(key);
        }
    }

    /// Adds all keys.
    pub fn add_all(&mut self) {
        self.is_all = true;
    }

    /// Returns true if a key was added.
    pub fn has(&self, key: u128) -> bool {
        self.is_all || self.keys.contains(&key)
    }
}
