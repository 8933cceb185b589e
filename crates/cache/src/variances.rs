//! Statements about queries in the last responses of paths ([`search`](crate::search)), within a
//! limit of memory that the applications of a store share.
//!
//! The application with the most memory makes room, with its oldest statements: it cannot remove
//! those of others. The queries of a forgotten path are compared as they are.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use crate::place::Subject;
use crate::search::Variance;

/// Approximate memory in bytes of an entry beside its variance: the places in the table and in the
/// queue.
const ENTRY_BYTES: usize = 160;

/// The variances of the last responses, by host and path.
#[derive(Debug)]
pub struct Variances {
    table: RwLock<Table>,
    count: AtomicUsize,
    /// Maximum memory in bytes.
    limit: usize,
}

#[derive(Debug, Default)]
struct Table {
    known: HashMap<Subject, Known>,
    shares: HashMap<Arc<[u8]>, Share>,
    bytes: usize,
}

#[derive(Debug)]
struct Known {
    variance: Arc<Variance>,
    owner: Arc<[u8]>,
    bytes: usize,
    /// Distinguishes the entry from earlier ones of its path that are still queued.
    number: u64,
}

/// The entries of an application.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    count: usize,
    /// Paths with the numbers of their entries, the oldest first; also those of entries that are
    /// gone.
    queue: VecDeque<(Subject, u64)>,
    next: u64,
}

impl Variances {
    /// Creates an empty table of at most `limit` bytes.
    pub fn new(limit: usize) -> Variances {
        Variances { table: RwLock::default(), count: AtomicUsize::new(0), limit }
    }

    /// Returns the variance of the last response of a path.
    pub fn get(&self, path: impl FnOnce() -> Subject) -> Option<Arc<Variance>> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let table = self.table.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        table.known.get(&path()).map(|known| Arc::clone(&known.variance))
    }

    /// Keeps the variance of a response of an application.
    pub fn learn(&self, owner: &[u8], path: Subject, variance: Option<Variance>) {
        if variance.is_none() && self.count.load(Relaxed) == 0 {
            return;
        }
        let mut table = self.table.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        match variance {
            None => table.remove(path),
            Some(variance) => {
                let is_same = |known: &Known| *known.variance == variance && *known.owner == *owner;
                if table.known.get(&path).is_some_and(is_same) {
                    return;
                }
                table.remove(path);
                table.insert(owner, path, variance);
                while table.bytes > self.limit && table.make_room() {}
            }
        }
        self.count.store(table.known.len(), Relaxed);
    }

    /// Returns the approximate memory in bytes.
    pub fn bytes(&self) -> usize {
        self.table.read().unwrap_or_else(|poisoned| poisoned.into_inner()).bytes
    }
}

impl Table {
    fn insert(&mut self, owner: &[u8], path: Subject, variance: Variance) {
        let bytes = variance.bytes() + ENTRY_BYTES;
        let name = self.shares.get_key_value(owner).map(|(name, _)| Arc::clone(name));
        let owner = name.unwrap_or_else(|| owner.into());
        let share = self.shares.entry(Arc::clone(&owner)).or_default();
        if share.queue.len() > 2 * share.count + 16 {
            let known = &self.known;
            share.queue.retain(|(path, number)| {
                known.get(path).is_some_and(|known| known.number == *number && known.owner == owner)
            });
        }
        let number = share.next;
        share.next += 1;
        share.bytes += bytes;
        share.count += 1;
        share.queue.push_back((path, number));
        self.bytes += bytes;
        let variance = Arc::new(variance);
        self.known.insert(path, Known { variance, owner, bytes, number });
    }

    fn remove(&mut self, path: Subject) {
        let Some(known) = self.known.remove(&path) else { return };
        self.bytes -= known.bytes;
        let Some(share) = self.shares.get_mut(&known.owner) else { return };
        share.bytes -= known.bytes;
        share.count -= 1;
        if share.count == 0 {
            self.shares.remove(&known.owner);
        }
    }

    /// Removes the oldest entry of the application with the most memory. Returns false if there is
    /// none.
    fn make_room(&mut self) -> bool {
        let largest = self.shares.iter_mut().max_by_key(|(_, share)| share.bytes);
        let Some((owner, share)) = largest else { return false };
        while let Some((path, number)) = share.queue.pop_front() {
            let is_it = |known: &Known| known.number == number && known.owner == *owner;
            if self.known.get(&path).is_some_and(is_it) {
                self.remove(path);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variance(name: usize) -> Option<Variance> {
        let mut fields = howdah_http::message::FieldBlock::default();
        fields.push("No-Vary-Search", format!("params=(\"{name:0>300}\")"));
        Variance::of(&fields)
    }

    fn path(number: usize) -> Subject {
        Subject::path(b"h", number.to_string().as_bytes())
    }

    #[test]
    fn they_are_kept_by_path_within_their_memory() {
        let known = Variances::new(100_000);
        assert!(known.get(|| path(0)).is_none());
        for number in 0..5000 {
            known.learn(b"a", path(number), variance(number));
            assert!(known.bytes() <= 100_000);
        }
        assert!(known.get(|| path(4999)).is_some() && known.get(|| path(0)).is_none());
        known.learn(b"a", path(4999), None);
        assert!(known.get(|| path(4999)).is_none());
        for round in 0..5000 {
            known.learn(b"a", path(0), variance(round));
        }
        let table = known.table.read().unwrap();
        assert!(table.shares.values().all(|share| share.queue.len() <= 2 * share.count + 17));
    }

    #[test]
    fn an_application_removes_its_own_first() {
        let known = Variances::new(100_000);
        known.learn(b"a", path(0), variance(0));
        for number in 1..5000 {
            known.learn(b"b", path(number), variance(number));
        }
        assert!(known.get(|| path(0)).is_some());
        // A variance above the limit of all together is not kept.
        let small = Variances::new(10);
        small.learn(b"a", path(0), variance(0));
        assert!(small.get(|| path(0)).is_none() && small.bytes() == 0);
    }
}
