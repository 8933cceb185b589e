//! Requests to an origin whose responses may be stored, and the invalidations that come meanwhile.
//!
//! A response is as old as its request. If the URL was changed since then (RFC 9111, 4.4), the
//! response must not be stored, or the change would be undone.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::flight::{Landing, Leader};

/// Number of parts of all keys.
const PARTS: usize = 1 << 10;

/// Numbers of invalidations so far, each of the keys of one part.
#[derive(Debug)]
pub struct Invalidations(Box<[AtomicU64]>);

impl Default for Invalidations {
    fn default() -> Self {
        Invalidations((0..PARTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Invalidations {
    /// Counts the invalidation of a key with this hash.
    pub fn count(&self, hash: u64) {
        if let Some(number) = self.0.get(part(hash)) {
            number.fetch_add(1, SeqCst);
        }
    }

    fn number(&self, hash: u64) -> u64 {
        self.0.get(part(hash)).map_or(0, |number| number.load(SeqCst))
    }
}

fn part(hash: u64) -> usize {
    usize::try_from(hash % PARTS as u64).unwrap_or(0)
}

/// A request to an origin whose response may be stored.
#[derive(Debug)]
pub struct Inquiry {
    /// Set if other requests may wait for the response.
    leader: Option<Leader>,
    hash: u64,
    /// Number of invalidations before.
    since: u64,
}

impl Inquiry {
    /// Begins a request for a key with this hash.
    pub(crate) fn new(leader: Option<Leader>, invalidations: &Invalidations, hash: u64) -> Inquiry {
        Inquiry { leader, hash, since: invalidations.number(hash) }
    }

    /// Returns true if the key was not invalidated since. A request without waiting ones, because
    /// another one was in progress, may take the invalidation of another key for one of its own:
    /// then its response is not stored, which the next one is.
    pub(crate) fn is_current(&self, invalidations: &Invalidations) -> bool {
        match &self.leader {
            Some(leader) => leader.is_current(),
            None => invalidations.number(self.hash) == self.since,
        }
    }

    /// Sends the result to the waiting requests. If it is dropped without that, they continue by
    /// themselves.
    pub fn land(self, landing: Landing) {
        if let Some(leader) = self.leader {
            leader.land(landing);
        }
    }
}
