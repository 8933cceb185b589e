//! A store of responses in memory, shared by all threads.
//!
//! Each key has one [`Slot`]: the responses for several values of the fields that `Vary` names, or a
//! mark that the response is not shared. Entries are in an `Arc`, so that no lock is held while one
//! is sent. The store never has more bytes than configured ([`memory`](crate::memory)).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

use bytes::Bytes;
use howdah_config::{Cache as Settings, CacheStore, Encoding};
use howdah_http::body::in_kernel::{InKernel, offset_in};
use howdah_http::message::Fields;

use crate::decisions::Decisions;
use crate::entry::Entry;
use crate::flight::Flights;
use crate::memory::{Memory, Owner, Slot};
use crate::peers::Peers;
use crate::purge::{Purge, Purges, Verdict};
use crate::search::Variances;
use crate::storing::Refusal;
use crate::vary;

/// Maximum number of responses with one key.
const MAX_VARIANTS: usize = 32;

/// Seconds for which requests with a key do not wait for each other, as their responses are not
/// shared.
const NOT_SHARED_SECONDS: u64 = 120;

/// Maximum number of keys whose uses are counted for `min_uses`.
const MAX_COUNTED: usize = 1 << 16;

/// Result of a look-up.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// Nothing is stored.
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
    /// Requests in progress.
    pub flights: Arc<Flights>,
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
        Arc::new(Store {
            memory: Memory::new(config.memory),
            config,
            flights: Arc::default(),
            purges: Purges::default(),
            decisions: Decisions::default(),
            peers: RwLock::default(),
            variances: Variances::default(),
            uses: Mutex::default(),
            hasher: RandomState::new(),
            counters: Counters::default(),
        })
    }

    /// Returns the settings.
    pub fn config(&self) -> &CacheStore {
        &self.config
    }

    /// Returns the account of an application or server, by its name.
    pub fn owner(&self, name: &[u8]) -> Arc<Owner> {
        self.memory.owner(name)
    }

    /// Looks a request up.
    pub fn lookup(&self, key: &[u8], request: &Fields, settings: &Settings, now: u64) -> Lookup {
        let Some((slot, owner)) = self.memory.get(key) else { return Lookup::Missing };
        match slot {
            Slot::NotShared(refusal, until) if now < until => Lookup::NotShared(refusal),
            Slot::NotShared(..) => Lookup::Missing,
            Slot::Variants(variants) => {
                let selects =
                    |entry: &&Arc<Entry>| vary::matches(&entry.selection, request, settings);
                let Some(entry) = variants.iter().find(selects) else {
                    return Lookup::OtherVariants;
                };
                match self.purges.judge(entry, &owner.purges) {
                    Verdict::Valid => Lookup::Found(Arc::clone(entry), None),
                    Verdict::Stale(at) => Lookup::Found(Arc::clone(entry), Some(at)),
                    Verdict::Gone => {
                        self.forget(key, entry);
                        Lookup::Missing
                    }
                }
            }
        }
    }

    /// Stores a response. Returns it as later requests get it.
    pub fn insert(&self, key: &[u8], owner: &Arc<Owner>, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        self.counters.stored.fetch_add(1, Relaxed);
        self.memory.change(key, owner, |known| {
            let mut variants = vec![Arc::clone(&entry)];
            if let Some(Slot::Variants(others)) = known {
                // The refreshed response is the same one to those who count its uses.
                if let Some(old) = others.iter().find(|other| other.selection == entry.selection) {
                    entry.uses.fetch_add(old.uses.load(Relaxed), Relaxed);
                }
                let is_kept = |other: &&Arc<Entry>| {
                    other.selection != entry.selection
                        && self.purges.judge(other, &owner.purges) != Verdict::Gone
                };
                variants.extend(others.iter().filter(is_kept).take(MAX_VARIANTS - 1).cloned());
            }
            Some(Slot::Variants(variants.into()))
        });
        entry
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
        self.flights.detach(key);
        self.memory.remove(key);
    }

    /// Removes one response.
    pub fn forget(&self, key: &[u8], entry: &Arc<Entry>) {
        self.memory.retain(key, |other| !Arc::ptr_eq(other, entry));
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
        self.purges.purge(what, is_soft, now);
        if *what == Purge::All && !is_soft {
            self.memory.clear();
        }
    }

    /// Purges entries of one application or server.
    pub fn purge_of(&self, owner: &Owner, what: &Purge, is_soft: bool, now: u64) {
        self.counters.purges.fetch_add(1, Relaxed);
        self.purges.purge_in(&owner.purges, what, is_soft, now);
        self.tell_peers(Some(owner), what, is_soft);
    }

    /// Purges entries of one application of this server, which another server names.
    pub fn apply_purge_of(&self, owner: &[u8], what: &Purge, is_soft: bool, now: u64) {
        // One that is not known has no entries, and no requests in progress.
        if let Some(owner) = self.memory.known_owner(owner) {
            self.counters.purges.fetch_add(1, Relaxed);
            self.purges.purge_in(&owner.purges, what, is_soft, now);
        }
    }

    /// Keeps the content of an entry in an encoding.
    pub fn keep_copy(&self, owner: &Owner, entry: &Entry, encoding: Encoding, content: Bytes) {
        let length = content.len() as u64;
        if entry.copies.set(encoding, content) {
            self.memory.grow(owner, entry, length);
        }
    }

    /// Returns the copy of an entry's content in memory of the kernel, and the offset of `part` in it. `None` if there is
    /// none yet, or if `part` is no part of the content.
    pub fn in_kernel(
        &self,
        owner: &Owner,
        entry: &Entry,
        part: &Bytes,
    ) -> Option<(Arc<InKernel>, u64)> {
        let offset = offset_in(&entry.body, part)?;
        let (copy, is_new) = entry.copies.in_kernel(&entry.body);
        if is_new {
            self.memory.grow(owner, entry, entry.body.len() as u64);
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
        self.memory.each(|entry, owner| {
            let verdict = self.purges.judge(entry, &owner.purges);
            if verdict != Verdict::Gone {
                found.push((Arc::clone(entry), verdict));
            }
        });
        found
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Store { config, counters, .. } = self;
        f.debug_struct("Store").field("config", config).field("counters", counters).finish()
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
