//! A store of responses in memory, shared by all threads.
//!
//! Each key has one [`Slot`]: the responses for several values of the fields that `Vary` names, or
//! a mark that the response is not shared. Entries are in an `Arc`, so that no lock is held while
//! one is sent. The store never has more bytes than configured ([`memory`](crate::memory)). It may
//! have a file besides ([`disk`](crate::disk)).

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use howdah_config::{Cache as Settings, CacheStore};
use howdah_http::body::in_kernel::{InKernel, offset_in};
use howdah_http::message::{Encoding, Fields};

use crate::decisions::Decisions;
use crate::disk::file::Disk;
use crate::disk::front::Front;
use crate::disk::journal::Record;
use crate::disk::record::Stored;
use crate::disk::writing;
use crate::entry::Entry;
use crate::flight::{Flights, Landing, Leader, Role};
use crate::inquiry::{Inquiry, Invalidations};
use crate::memory::{Memory, Owner, Slot};
use crate::peers::Peers;
use crate::purge::{Effect, Group, Purge, Purges, Verdict};
use crate::space::Object;
use crate::storing::Refusal;
use crate::variances::Variances;
use crate::vary;

/// Maximum number of responses with one key.
const MAX_VARIANTS: usize = 32;

/// Seconds for which requests with a key do not wait for each other, as their responses are not
/// shared.
const NOT_SHARED_SECONDS: u64 = 120;

/// Number of applications up to which those that another server names are taken for known.
const MAX_OWNERS: usize = 1 << 12;

/// Maximum number of keys whose uses are counted for `min_uses`.
const MAX_COUNTED: usize = 1 << 16;

/// Result of a look-up.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// No response is stored.
    Missing,
    /// The last response was not shared: requests need not wait for each other.
    NotShared(Refusal),
    /// Responses are stored for other values of the fields that `Vary` names.
    OtherVariants,
    /// A response; stale since a time in seconds since 1970 if it was purged.
    Found(Arc<Entry>, Option<u64>),
}

/// A store.
pub struct Store {
    config: CacheStore,
    memory: Memory,
    disk: Option<Disk>,
    /// Number of purges before the first request.
    first_epoch: u64,
    /// Responses that are being read from the disk.
    loads: Arc<Flights>,
    /// Requests in progress.
    pub flights: Arc<Flights>,
    invalidations: Invalidations,
    /// Purges.
    pub purges: Purges,
    /// The last decisions about URLs.
    pub decisions: Decisions,
    /// Servers that are told about purges.
    peers: RwLock<Option<Arc<dyn Peers>>>,
    /// The effect of queries on responses.
    pub variances: Variances,
    uses: Mutex<HashMap<u64, u32>>,
    hasher: RandomState,
    /// Counters.
    pub counters: Counters,
}

/// Counters of a store since its creation.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "their names are those of the status")]
pub struct Counters {
    pub hits: AtomicU64,
    pub stale_hits: AtomicU64,
    pub misses: AtomicU64,
    pub collapsed: AtomicU64,
    pub bypassed: AtomicU64,
    pub revalidated: AtomicU64,
    pub stored: AtomicU64,
    pub refused: AtomicU64,
    pub purges: AtomicU64,
}

impl Store {
    /// Creates an empty store.
    pub fn new(config: CacheStore) -> Arc<Store> {
        let disk = config.disk.as_ref().map(|disk| Disk::new(disk.size, config.memory));
        // Numbers that are greater than those before a restart.
        let first_epoch = match disk {
            Some(_) => microseconds_since_1970(),
            None => 0,
        };
        let store = Store {
            memory: Memory::new(config.memory),
            disk,
            first_epoch,
            loads: Arc::default(),
            flights: Arc::default(),
            invalidations: Invalidations::default(),
            purges: Purges::default(),
            decisions: Decisions::default(),
            peers: RwLock::default(),
            variances: Variances::new(variance_bytes(config.memory)),
            config,
            uses: Mutex::default(),
            hasher: RandomState::new(),
            counters: Counters::default(),
        };
        store.purges.skip_to(first_epoch);
        Arc::new(store)
    }

    /// Returns the settings.
    pub fn config(&self) -> &CacheStore {
        &self.config
    }

    /// Returns the account of an application or server, by its name.
    pub fn owner(&self, name: &[u8]) -> Arc<Owner> {
        self.memory.owner(name)
    }

    /// Looks a request up, in memory.
    pub fn lookup(&self, key: &[u8], request: &Fields, settings: &Settings, now: u64) -> Lookup {
        let Some((slot, owner)) = self.memory.get(key) else { return Lookup::Missing };
        match slot {
            Slot::NotShared(refusal, until) if now < until => Lookup::NotShared(refusal),
            Slot::NotShared(..) => Lookup::Missing,
            Slot::Variants(variants) => self.choose(key, &variants, &owner, request, settings),
        }
    }

    /// Looks a request up, in memory and on the disk, without blocking the thread.
    pub async fn find(
        self: &Arc<Self>,
        key: &[u8],
        request: &Fields,
        settings: &Settings,
        now: u64,
    ) -> Lookup {
        let found = self.lookup(key, request, settings, now);
        if self.disk.is_none() || !matches!(found, Lookup::Missing | Lookup::OtherVariants) {
            return found;
        }
        let Some((entries, owner)) = self.load(key).await else { return found };
        // Memory may have lost them again.
        match self.choose(key, &entries, &owner, request, settings) {
            Lookup::Found(entry, purged) => Lookup::Found(entry, purged),
            _ => self.lookup(key, request, settings, now),
        }
    }

    /// Chooses among the responses of a key.
    fn choose(
        &self,
        key: &[u8],
        variants: &[Arc<Entry>],
        owner: &Owner,
        request: &Fields,
        settings: &Settings,
    ) -> Lookup {
        let selects = |entry: &&Arc<Entry>| vary::matches(&entry.selection, request, settings);
        let Some(entry) = variants.iter().find(selects) else { return Lookup::OtherVariants };
        match self.purges.judge(entry, &owner.purges) {
            Verdict::Valid => Lookup::Found(Arc::clone(entry), None),
            Verdict::Stale(at) => Lookup::Found(Arc::clone(entry), Some(at)),
            Verdict::Gone => {
                self.forget(key, entry);
                Lookup::Missing
            }
        }
    }

    /// Begins a request to the origin; `leader` if others may wait for its response.
    pub fn ask(&self, key: &[u8], leader: Option<Leader>) -> Inquiry {
        Inquiry::new(leader, &self.invalidations, self.hasher.hash_one(key))
    }

    /// Stores a response. Returns it as later requests get it.
    pub fn insert(&self, key: &[u8], owner: &Arc<Owner>, entry: Entry) -> Arc<Entry> {
        self.insert_if(key, owner, entry, |_| true).0
    }

    /// Stores the response to an inquiry, unless an invalidation came since that began: it is as
    /// old as the one that was removed. Returns it, and whether it was stored.
    pub fn insert_current(
        &self,
        key: &[u8],
        owner: &Arc<Owner>,
        entry: Entry,
        inquiry: &Inquiry,
    ) -> (Arc<Entry>, bool) {
        self.insert_if(key, owner, entry, |_| inquiry.is_current(&self.invalidations))
    }

    /// Stores a response if the state of the key permits it. This is decided under the lock of the
    /// key: a later invalidation removes the response after it was stored.
    fn insert_if(
        &self,
        key: &[u8],
        owner: &Arc<Owner>,
        entry: Entry,
        is_permitted: impl FnOnce(Option<&Slot>) -> bool,
    ) -> (Arc<Entry>, bool) {
        let entry = Arc::new(entry);
        let (mut removed, mut is_stored) = (None, false);
        self.memory.change(key, owner, |known| {
            if !is_permitted(known.as_ref()) {
                return None;
            }
            is_stored = true;
            self.counters.stored.fetch_add(1, Relaxed);
            let mut variants = vec![Arc::clone(&entry)];
            if let Some(Slot::Variants(others)) = known {
                // The refreshed response keeps the number of uses of the former one.
                if let Some(old) = others.iter().find(|other| other.selection == entry.selection) {
                    entry.uses.fetch_add(old.uses.load(Relaxed), Relaxed);
                }
                let is_kept = |other: &&Arc<Entry>| {
                    other.selection != entry.selection
                        && self.purges.judge(other, &owner.purges) != Verdict::Gone
                };
                variants.extend(others.iter().filter(is_kept).take(MAX_VARIANTS - 1).cloned());
            }
            // Under the lock of the key, so that the last one is the last one in both.
            removed = self.disk.as_ref().map(|disk| disk.put(key, owner, &entry));
            Some(Slot::Variants(variants.into()))
        });
        self.erase(removed);
        (entry, is_stored)
    }

    /// Stores the update of a response, unless that was removed or replaced meanwhile: it must not
    /// come back.
    pub fn update(&self, key: &[u8], owner: &Arc<Owner>, old: &Arc<Entry>, updated: Entry) {
        self.insert_if(key, owner, updated, |known| {
            matches!(known, Some(Slot::Variants(variants))
                if variants.iter().any(|entry| Arc::ptr_eq(entry, old)))
        });
    }

    /// Remembers that a response was not shared. Stored responses stay.
    pub fn mark_not_shared(&self, key: &[u8], owner: &Arc<Owner>, refusal: Refusal, now: u64) {
        self.counters.refused.fetch_add(1, Relaxed);
        let until = now.saturating_add(NOT_SHARED_SECONDS);
        self.memory.change(key, owner, |known| match known {
            Some(Slot::Variants(_)) => None,
            _ => Some(Slot::NotShared(refusal, until)),
        });
    }

    /// Removes all responses with a key (RFC 9111, 4.4). One that is being computed will not be
    /// stored.
    pub fn invalidate(&self, key: &[u8]) {
        // First: those that store a response look at these under the lock of the key.
        self.flights.detach(key);
        self.invalidations.count(self.hasher.hash_one(key));
        let mut removed = None;
        self.memory.remove(key, || removed = self.disk.as_ref().map(|disk| disk.remove(key)));
        self.erase(removed);
    }

    /// Removes one response.
    pub fn forget(&self, key: &[u8], entry: &Arc<Entry>) {
        self.erase(self.disk.as_ref().map(|disk| disk.remove_one(key, entry)));
        self.forget_in_memory(key, entry);
    }

    fn erase(&self, removed: Option<Vec<Arc<Object>>>) {
        if let (Some(disk), Some(removed)) = (&self.disk, removed) {
            disk.erase(&removed);
        }
    }

    /// Returns the file.
    pub fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Takes the file, which is open, locked, and has been refused to all others.
    pub fn open_disk(self: &Arc<Self>, file: File) -> std::io::Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let store = Arc::downgrade(self);
        writing::start(disk, file, store)
    }

    /// Reads the responses of a key that only the disk has, and puts them into memory. Returns
    /// them, and their owner.
    async fn load(self: &Arc<Self>, key: &[u8]) -> Option<(Vec<Arc<Entry>>, Arc<Owner>)> {
        let disk = self.disk.as_ref()?;
        let objects = || {
            let slot = self.memory.get(key);
            disk.find(key, slot.as_ref().map_or(&[][..], |(slot, _)| slot.entries()))
        };
        let mut found = objects();
        if found.is_empty() {
            return None;
        }
        // Of many requests, one reads.
        let leader = match self.loads.join(key) {
            Role::Leader(leader) => Some(leader),
            Role::Follower(follower) => {
                follower.wait().await;
                found = objects();
                None
            }
        };
        let (store, wanted) = (Arc::clone(self), Box::<[u8]>::from(key));
        let read = tokio::task::spawn_blocking(move || {
            let disk = store.disk.as_ref()?;
            let (mut entries, mut owner) = (Vec::new(), None);
            for object in found {
                if let Some(stored) = disk.read(&object, &wanted) {
                    let known = owner.get_or_insert_with(|| store.owner(&stored.owner));
                    entries.extend(store.restore(disk, &object, stored, known));
                }
            }
            Some((entries, owner?))
        });
        let read = read.await.ok().flatten();
        if let Some(leader) = leader {
            leader.land(Landing::Stored);
        }
        read
    }

    /// Puts a response of the disk into memory. `None` if it was replaced or removed meanwhile.
    fn restore(
        &self,
        disk: &Disk,
        object: &Object,
        stored: Stored,
        owner: &Arc<Owner>,
    ) -> Option<Arc<Entry>> {
        let entry = Arc::new(stored.entry);
        let mut restored = None;
        self.memory.change(&stored.key, owner, |known| {
            if !disk.has(object) {
                return None;
            }
            let others = match &known {
                Some(Slot::Variants(others)) => &others[..],
                Some(Slot::NotShared(..)) | None => &[],
            };
            if let Some(other) = others.iter().find(|other| other.selection == entry.selection) {
                restored = Some(Arc::clone(other));
                return None;
            }
            restored = Some(Arc::clone(&entry));
            let kept = others.iter().take(MAX_VARIANTS - 1).cloned();
            Some(Slot::Variants([Arc::clone(&entry)].into_iter().chain(kept).collect()))
        });
        restored
    }

    /// Writes a purge down.
    fn record(&self, owner: Option<&Owner>, effect: Effect) {
        if let Some(disk) = &self.disk {
            let group = owner.map(|owner| owner.name.to_vec());
            disk.record(&Record { group, effect }, || self.purge_state());
        }
    }

    /// Purges the entries that a request to an application makes invalid.
    pub fn purge_quietly(&self, owner: &Owner, what: &Purge, now: u64) {
        let effect = self.purges.purge_in(&owner.purges, what, false, now);
        self.record(Some(owner), effect);
    }

    /// Sets the servers that are told about purges; `None` if this server is alone.
    pub fn set_peers(&self, peers: Option<Arc<dyn Peers>>) {
        *self.peers.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = peers;
    }

    /// Tells other servers about a purge; with an owner, only its entries are concerned.
    pub fn tell_peers(&self, owner: Option<&Owner>, what: &Purge, is_soft: bool) {
        let peers = self.peers.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(peers) = &*peers {
            peers.purged(&self.config.name, owner.map(|owner| &*owner.name), what, is_soft);
        }
    }

    /// Purges entries, also those of other servers; see [`Purges::purge`].
    pub fn purge(&self, what: &Purge, is_soft: bool, now: u64) {
        self.apply_purge(what, is_soft, now);
        self.tell_peers(None, what, is_soft);
    }

    /// Purges entries of this server.
    pub fn apply_purge(&self, what: &Purge, is_soft: bool, now: u64) {
        self.counters.purges.fetch_add(1, Relaxed);
        let effect = self.purges.purge(what, is_soft, now);
        self.record(None, effect);
        if *what == Purge::All && !is_soft {
            self.memory.clear();
            if let Some(disk) = &self.disk {
                disk.clear();
            }
        }
    }

    /// Purges entries of one application or server.
    pub fn purge_of(&self, owner: &Owner, what: &Purge, is_soft: bool, now: u64) {
        self.counters.purges.fetch_add(1, Relaxed);
        let effect = self.purges.purge_in(&owner.purges, what, is_soft, now);
        self.record(Some(owner), effect);
        self.tell_peers(Some(owner), what, is_soft);
    }

    /// Purges entries of one application of this server, which another server names.
    pub fn apply_purge_of(&self, owner: &[u8], what: &Purge, is_soft: bool, now: u64) {
        let owner = match (self.memory.known_owner(owner), &self.disk) {
            // An unknown owner has no entries in memory and no requests in progress.
            (None, None) => return,
            (None, Some(_)) if self.memory.owners().len() >= MAX_OWNERS => {
                return self.apply_purge(what, is_soft, now);
            }
            // Its entries may be on the disk only.
            (None, Some(_)) => self.memory.owner(owner),
            (Some(owner), _) => owner,
        };
        self.counters.purges.fetch_add(1, Relaxed);
        let effect = self.purges.purge_in(&owner.purges, what, is_soft, now);
        self.record(Some(&owner), effect);
    }

    /// Keeps the content of an entry in an encoding.
    pub fn keep_copy(&self, owner: &Owner, entry: &Entry, encoding: Encoding, content: Bytes) {
        let length = content.len() as u64;
        if entry.copies.set(encoding, content) {
            self.memory.grow(owner, entry, length);
        }
    }

    /// Returns the copy of an entry's content in memory of the kernel, and the offset of `part` in
    /// it. `None` if there is none yet, or if `part` is no part of the content.
    pub fn in_kernel(
        &self,
        owner: &Owner,
        entry: &Entry,
        part: &Bytes,
    ) -> Option<(Arc<InKernel>, u64)> {
        let content = entry.body.memory()?;
        let offset = offset_in(content, part)?;
        let (copy, is_new) = entry.copies.in_kernel(content);
        if is_new {
            self.memory.grow(owner, entry, entry.body.len());
        }
        Some((copy?, offset))
    }

    /// Counts a request for a response that is not stored. Returns true if there were `min_uses`.
    pub fn is_used_enough(&self, key: &[u8], min_uses: u32) -> bool {
        if min_uses <= 1 {
            return true;
        }
        let mut uses = self.uses.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let key = self.hasher.hash_one(key);
        if uses.len() >= MAX_COUNTED && !uses.contains_key(&key) {
            uses.clear();
        }
        let count = uses.entry(key).or_default();
        *count = count.saturating_add(1);
        if *count < min_uses {
            return false;
        }
        uses.remove(&key);
        true
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.memory.keys()
    }

    /// Returns true if the store is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory with its accounts.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns all responses that are not purged, with their states. Takes time in proportion to
    /// their number.
    pub fn entries(&self) -> Vec<(Arc<Entry>, Verdict)> {
        let mut found = Vec::new();
        self.memory.each(|_, entry, owner| {
            let verdict = self.purges.judge(entry, &owner.purges);
            if verdict != Verdict::Gone {
                found.push((Arc::clone(entry), verdict));
            }
        });
        found
    }
}

impl Front for Store {
    fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    fn first_epoch(&self) -> u64 {
        self.first_epoch
    }

    fn repeat_purge(&self, record: &Record) {
        match &record.group {
            None => self.purges.everyone().repeat(&record.effect),
            Some(name) => self.owner(name).purges.repeat(&record.effect),
        }
    }

    fn purge_state(&self) -> Vec<Vec<Record>> {
        let records = |name: Option<&[u8]>, group: &Group| -> Vec<Record> {
            let record = |effect| Record { group: name.map(Into::into), effect };
            group.effects().into_iter().map(record).collect()
        };
        let owners = self.memory.owners();
        let owners = owners.iter().map(|owner| records(Some(&owner.name), &owner.purges));
        let all = [records(None, self.purges.everyone())].into_iter().chain(owners);
        all.filter(|records| !records.is_empty()).collect()
    }

    fn floor(&self) -> u64 {
        self.purges.everyone().floor()
    }

    fn forget_in_memory(&self, key: &[u8], entry: &Arc<Entry>) {
        self.memory.retain(key, |other| !Arc::ptr_eq(other, entry));
    }
}

/// Returns the memory in bytes for statements of responses about queries: a sixteenth of that of
/// the store.
fn variance_bytes(memory: u64) -> usize {
    usize::try_from(memory / 16).unwrap_or(usize::MAX)
}

fn microseconds_since_1970() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_micros()).unwrap_or(0)
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Store { config, counters, .. } = self;
        f.debug_struct("Store").field("config", config).field("counters", counters).finish()
    }
}

#[cfg(test)]
mod tests;
