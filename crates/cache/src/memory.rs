//! Memory for stored responses, shared by all threads and divided fairly among their producers.
//!
//! A look-up takes the read lock of one of many shards. The producer with most bytes makes room: so
//! each has the memory that it needs up to an equal share, and more only while others leave it. No
//! other library has this division, and limits to the byte.
//!
//! Locks are taken in this order: a shard, the queue of an owner.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

use crate::entry::Entry;
use crate::purge::Group;
use crate::sieve::{Element, Marks, Sieve};
use crate::storing::Refusal;

/// Number of shards.
const SHARDS: usize = 64;

/// Bytes that a key takes beside its text.
const SLOT_OVERHEAD: usize = 320;

/// The state of a key.
#[derive(Debug, Clone)]
pub enum Slot {
    /// Responses, the latest first.
    Variants(Arc<[Arc<Entry>]>),
    /// The response was not shared, for this reason; until a time in seconds since 1970.
    NotShared(Refusal, u64),
}

impl Slot {
    /// Returns the responses.
    pub fn entries(&self) -> &[Arc<Entry>] {
        match self {
            Slot::Variants(entries) => entries,
            Slot::NotShared(..) => &[],
        }
    }
}

/// An application or server whose responses are stored.
#[derive(Debug)]
pub struct Owner {
    /// Its name.
    pub name: Box<[u8]>,
    bytes: AtomicU64,
    queue: Mutex<Sieve<Item>>,
    /// Purges of its responses only.
    pub purges: Group,
}

impl Owner {
    fn new(name: &[u8]) -> Arc<Owner> {
        let (bytes, queue) = (AtomicU64::new(0), Mutex::default());
        Arc::new(Owner { name: name.into(), bytes, queue, purges: Group::default() })
    }

    /// Returns the memory of its responses in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// A key with its slot.
#[derive(Debug)]
struct Item {
    key: Arc<[u8]>,
    slot: RwLock<Slot>,
    owner: Arc<Owner>,
    marks: Marks,
}

impl Item {
    fn slot(&self) -> Slot {
        self.slot.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn overhead(&self) -> u64 {
        (SLOT_OVERHEAD + self.key.len()) as u64
    }
}

impl Element for Item {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

type Shard = RwLock<HashMap<Arc<[u8]>, Arc<Item>>>;

/// The memory of a store.
#[derive(Debug)]
pub struct Memory {
    shards: Box<[Shard]>,
    hasher: RandomState,
    owners: RwLock<HashMap<Box<[u8]>, Arc<Owner>>>,
    bytes: AtomicU64,
    entries: AtomicU64,
    limit: u64,
}

impl Memory {
    /// Creates an empty memory of at most `limit` bytes.
    pub fn new(limit: u64) -> Memory {
        Memory {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            hasher: RandomState::new(),
            owners: RwLock::default(),
            bytes: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            limit,
        }
    }

    /// Returns the owner with a name.
    pub fn owner(&self, name: &[u8]) -> Arc<Owner> {
        let owners = self.owners.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(owner) = owners.get(name) {
            return Arc::clone(owner);
        }
        drop(owners);
        let mut owners = self.owners.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(owners.entry(name.into()).or_insert_with(|| Owner::new(name)))
    }

    /// Returns the owner with a name, if it has ever been asked for a response.
    pub fn known_owner(&self, name: &[u8]) -> Option<Arc<Owner>> {
        let owners = self.owners.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        owners.get(name).map(Arc::clone)
    }

    /// Returns all owners.
    pub fn owners(&self) -> Vec<Arc<Owner>> {
        let owners = self.owners.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        owners.values().map(Arc::clone).collect()
    }

    /// Returns the state of a key, and its owner, and counts that as a use.
    pub fn get(&self, key: &[u8]) -> Option<(Slot, Arc<Owner>)> {
        let shard = self.shard(key)?.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let item = shard.get(key)?;
        item.marks.use_it();
        Some((item.slot(), Arc::clone(&item.owner)))
    }

    /// Returns the slot of a key without marking it as used.
    pub fn peek(&self, key: &[u8]) -> Option<Slot> {
        let shard = self.shard(key)?.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        shard.get(key).map(|item| item.slot())
    }

    /// Changes the slot of a key. `change` gets the known slot and returns a new one; `None` if
    /// nothing changes.
    pub fn change(
        &self,
        key: &[u8],
        owner: &Arc<Owner>,
        change: impl FnOnce(Option<Slot>) -> Option<Slot>,
    ) {
        let Some(shard) = self.shard(key) else { return };
        let mut shard = shard.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = shard.get(key).map(Arc::clone);
        let Some(new) = change(known.as_ref().map(|item| item.slot())) else { return };
        match known {
            Some(item) => {
                let mut slot = item.slot.write().unwrap_or_else(|poisoned| poisoned.into_inner());
                let is_kept =
                    |old: &&Arc<Entry>| new.entries().iter().any(|entry| Arc::ptr_eq(entry, old));
                slot.entries().iter().filter(|old| !is_kept(old)).for_each(|old| {
                    self.release(&item.owner, old);
                });
                new.entries().iter().for_each(|entry| self.charge(&item.owner, entry));
                *slot = new;
            }
            None => {
                new.entries().iter().for_each(|entry| self.charge(owner, entry));
                let (slot, owner) = (RwLock::new(new), Arc::clone(owner));
                let item = Item { key: key.into(), slot, owner, marks: Marks::default() };
                let item = Arc::new(item);
                self.add(&item.owner, item.overhead());
                shard.insert(Arc::clone(&item.key), Arc::clone(&item));
                let queue = item.owner.queue.lock();
                queue.unwrap_or_else(|poisoned| poisoned.into_inner()).push(Arc::clone(&item));
            }
        }
        drop(shard);
        self.make_room();
    }

    /// Removes a key. `also` is called under its lock, so that no response is stored in between.
    pub fn remove(&self, key: &[u8], also: impl FnOnce()) {
        let Some(shard) = self.shard(key) else { return };
        let mut shard = shard.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        also();
        if let Some(item) = shard.remove(key) {
            self.dismiss(&item);
        }
    }

    /// Removes the responses of a key that a function refuses.
    pub fn retain(&self, key: &[u8], keeps: impl Fn(&Arc<Entry>) -> bool) {
        let Some(shard) = self.shard(key) else { return };
        let mut shard = shard.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(item) = shard.get(key).map(Arc::clone) else { return };
        let Slot::Variants(all) = item.slot() else { return };
        let (kept, removed): (Vec<_>, Vec<_>) = all.iter().cloned().partition(keeps);
        if kept.is_empty() {
            shard.remove(key);
            self.dismiss(&item);
        } else if !removed.is_empty() {
            removed.iter().for_each(|entry| self.release(&item.owner, entry));
            *item.slot.write().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                Slot::Variants(kept.into());
        }
    }

    /// Removes everything.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            shard.drain().for_each(|(_, item)| self.dismiss(&item));
        }
    }

    /// Counts bytes that an entry takes from now on.
    pub fn grow(&self, owner: &Owner, entry: &Entry, bytes: u64) {
        // Added first: the sums never fall below zero.
        self.add(owner, bytes);
        if entry.charge.grow(bytes) { self.make_room() } else { self.subtract(owner, bytes) }
    }

    /// Returns the number of keys.
    pub fn keys(&self) -> usize {
        let keys =
            |shard: &Shard| shard.read().unwrap_or_else(|poisoned| poisoned.into_inner()).len();
        self.shards.iter().map(keys).sum()
    }

    /// Returns the number of responses.
    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Returns the memory of all keys and responses in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Calls a function with each response, its key and its owner.
    pub fn each(&self, mut call: impl FnMut(&[u8], &Arc<Entry>, &Arc<Owner>)) {
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            for item in shard.values() {
                let slot = item.slot();
                slot.entries().iter().for_each(|entry| call(&item.key, entry, &item.owner));
            }
        }
    }

    fn shard(&self, key: &[u8]) -> Option<&Shard> {
        let hash = self.hasher.hash_one(key);
        self.shards.get(usize::try_from(hash % SHARDS as u64).unwrap_or(0))
    }

    /// Evicts of those that have most until the limit holds.
    fn make_room(&self) {
        while self.bytes() > self.limit {
            let largest = {
                let owners = self.owners.read().unwrap_or_else(|poisoned| poisoned.into_inner());
                owners.values().max_by_key(|owner| owner.bytes()).map(Arc::clone)
            };
            let Some(owner) = largest else { return };
            let evicted =
                owner.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).evict();
            let Some(item) = evicted else { return };
            let Some(shard) = self.shard(&item.key) else { return };
            let mut shard = shard.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            // Another thread may have removed it meanwhile, and put another in its place.
            if shard.get(&item.key).is_some_and(|known| Arc::ptr_eq(known, &item)) {
                shard.remove(&item.key);
                self.dismiss(&item);
            }
        }
    }

    /// Takes an item that was removed from its shard, which is locked, out of the accounts.
    fn dismiss(&self, item: &Arc<Item>) {
        item.owner.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(item);
        item.slot().entries().iter().for_each(|entry| self.release(&item.owner, entry));
        self.subtract(&item.owner, item.overhead());
    }

    fn charge(&self, owner: &Owner, entry: &Entry) {
        if let Some(bytes) = entry.charge.begin(entry.weight() as u64) {
            self.entries.fetch_add(1, Relaxed);
            self.add(owner, bytes);
        }
    }

    fn release(&self, owner: &Owner, entry: &Entry) {
        if let Some(bytes) = entry.charge.end() {
            self.entries.fetch_sub(1, Relaxed);
            self.subtract(owner, bytes);
        }
    }

    fn add(&self, owner: &Owner, bytes: u64) {
        owner.bytes.fetch_add(bytes, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn subtract(&self, owner: &Owner, bytes: u64) {
        owner.bytes.fetch_sub(bytes, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::testing::entry;

    const MIB: u64 = 1 << 20;

    fn put(memory: &Memory, owner: &Arc<Owner>, key: &str, size: usize) {
        let entry = Arc::new(entry("/a", &[], &"x".repeat(size)));
        memory.change(key.as_bytes(), owner, |_| Some(Slot::Variants([entry].into())));
    }

    /// A site that stores without end has the memory that others leave, and no part of their
    /// shares.
    #[test]
    fn whoever_has_most_makes_room() {
        let memory = Memory::new(4 * MIB);
        let [small, middle, large] =
            ["small", "middle", "large"].map(|n| memory.owner(n.as_bytes()));
        for number in 0..20 {
            put(&memory, &small, &format!("s{number}"), 10_000);
        }
        for number in 0..1000 {
            put(&memory, &large, &format!("l{number}"), 10_000);
        }
        let before = small.bytes();
        assert!(before >= 200_000 && large.bytes() > 3 * MIB, "{before} {}", large.bytes());
        for number in 0..1000 {
            put(&memory, &middle, &format!("m{number}"), 10_000);
            put(&memory, &large, &format!("l{number}"), 10_000);
        }
        assert_eq!(small.bytes(), before, "it has less than its share, and keeps it");
        let difference = middle.bytes().abs_diff(large.bytes());
        assert!(difference < 50_000, "{} {}", middle.bytes(), large.bytes());
        assert!(memory.bytes() <= 4 * MIB);
    }

    #[test]
    fn the_accounts_are_exact_whatever_threads_do() {
        let memory = Memory::new(MIB);
        let owners: Vec<_> = (0..3).map(|n| memory.owner(&[n])).collect();
        thread::scope(|scope| {
            for number in 0..4 {
                let (memory, owners) = (&memory, &owners);
                scope.spawn(move || {
                    for round in 0..3000usize {
                        let key = format!("{}", (round * 7 + number) % 200);
                        let owner = &owners[key.len() % 3];
                        match round % 9 {
                            0 => memory.remove(key.as_bytes(), || {}),
                            1..=3 => drop(memory.get(key.as_bytes())),
                            4 => {
                                let mut all = Vec::new();
                                memory.each(|_, entry, owner| {
                                    all.push((Arc::clone(entry), Arc::clone(owner)));
                                });
                                all.iter()
                                    .for_each(|(entry, owner)| memory.grow(owner, entry, 100));
                            }
                            5 if round % 500 == 5 => memory.clear(),
                            _ => put(memory, owner, &key, round % 20_000),
                        }
                    }
                });
            }
        });
        let sum: u64 = owners.iter().map(|owner| owner.bytes()).sum();
        assert_eq!(sum, memory.bytes());
        assert!(memory.bytes() <= MIB, "{}", memory.bytes());
        memory.clear();
        assert_eq!((memory.bytes(), memory.entries(), memory.keys()), (0, 0, 0));
        let is_empty = |owner: &Arc<Owner>| owner.queue.lock().unwrap().evict().is_none();
        assert!(owners.iter().all(is_empty));
    }

    #[test]
    fn an_object_larger_than_the_memory_leaves_nothing() {
        let memory = Memory::new(MIB);
        let owner = memory.owner(b"a");
        put(&memory, &owner, "a", 2_000_000);
        assert_eq!((memory.bytes(), memory.keys()), (0, 0));
    }
}
