//! A table of bounded size: the state of each key, and which keys lose theirs.
//!
//! Keys are in buckets of eight, buckets in shards with a lock each. A lock is held for one update.
//! A shard begins with one bucket and doubles while buckets are full, up to the maximum.
//!
//! A key whose debt is paid and whose refusals are forgotten is like a key that was never seen, so
//! its place is free. If a bucket has no free place and cannot grow, the key with the least debt
//! makes room for a key with at least as much; a key with less debt than all is not kept. So a
//! client that sends each request under another key replaces only its own keys, never that of an
//! offender, and keys that are not kept are admitted: no client is locked out. Keys that were not
//! kept are counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use crate::Nanos;
use crate::key::KeyHash;

/// State of a key. The default is that of a key that was never seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// Due time ([`crate::gcra`]).
    pub due: Nanos,
    /// Time at which the state is like that of a key that was never seen.
    pub forgotten_at: Nanos,
    /// Number of refusals.
    pub refusals: u32,
    /// Number of blocks.
    pub penalties: u32,
}

/// The table.
#[derive(Debug)]
pub struct Table {
    shards: Box<[Mutex<Shard>]>,
    /// Maximum number of buckets of a shard.
    max_buckets: usize,
    untracked: AtomicU64,
}

/// Keys of a bucket.
const WAYS: usize = 8;

/// Maximum number of shards.
const MAX_SHARDS: usize = 256;

/// Keys and states of a bucket. A place without a key is free, and so is one whose state is
/// forgotten.
type Bucket = [Option<(KeyHash, State)>; WAYS];

#[derive(Debug, Default)]
struct Shard {
    buckets: Vec<Bucket>,
}

impl Table {
    /// Creates a table for about this many keys; at least eight.
    pub fn new(keys: usize) -> Table {
        let shards = (keys / (4 * WAYS)).next_power_of_two().clamp(1, MAX_SHARDS);
        Table {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            max_buckets: keys.div_ceil(shards * WAYS).max(1),
            untracked: AtomicU64::new(0),
        }
    }

    /// Updates the state of a key, and returns the result of `update`.
    pub fn update<R>(&self, key: KeyHash, now: Nanos, update: impl FnOnce(&mut State) -> R) -> R {
        let mut shard = self.shard(key);
        if let Some(state) = shard.find(key) {
            if state.forgotten_at <= now {
                *state = State::default();
            }
            return update(state);
        }
        let mut state = State::default();
        let result = update(&mut state);
        if state.forgotten_at > now && !shard.keep(key, state, now, self.max_buckets) {
            self.untracked.fetch_add(1, Relaxed);
        }
        result
    }

    /// Returns the state of a key, if it is kept.
    pub fn get(&self, key: KeyHash, now: Nanos) -> Option<State> {
        self.shard(key).find(key).copied().filter(|state| state.forgotten_at > now)
    }

    /// Returns the number of keys that are not forgotten. Looks at all of them.
    pub fn len(&self, now: Nanos) -> usize {
        let live = |place: &&Option<(KeyHash, State)>| debt(place) > now;
        let shards = self.shards.iter().map(lock);
        shards.map(|shard| shard.buckets.iter().flatten().filter(live).count()).sum()
    }

    /// Returns the number of places, used or free: the memory of the table.
    pub fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).buckets.len() * WAYS).sum()
    }

    /// Returns the number of times that a key was not kept because the table was full.
    pub fn untracked(&self) -> u64 {
        self.untracked.load(Relaxed)
    }

    fn shard(&self, key: KeyHash) -> MutexGuard<'_, Shard> {
        // The number of shards is a power of two.
        let index = key.get() as usize & (self.shards.len() - 1);
        lock(&self.shards[index])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic leaves no half-made update: a state is replaced as a whole.
    shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shard {
    /// Returns the index of a key's bucket among `buckets`.
    fn index(key: KeyHash, buckets: usize) -> usize {
        // The high half of the hash: the low one selects the shard.
        ((u128::from(key.get() >> 32) * buckets as u128) >> 32) as usize
    }

    fn find(&mut self, key: KeyHash) -> Option<&mut State> {
        let index = Shard::index(key, self.buckets.len());
        let bucket = self.buckets.get_mut(index)?;
        let place = bucket.iter_mut().flatten().find(|(other, _)| *other == key);
        place.map(|(_, state)| state)
    }

    /// Keeps a key that the shard does not have. Returns false if there is no place for it.
    fn keep(&mut self, key: KeyHash, state: State, now: Nanos, max_buckets: usize) -> bool {
        loop {
            let is_full_size = self.buckets.len() >= max_buckets;
            let index = Shard::index(key, self.buckets.len());
            if let Some(bucket) = self.buckets.get_mut(index)
                && let Some(place) = bucket.iter_mut().min_by_key(|place| debt(place))
            {
                let least = debt(place);
                if least <= now || (is_full_size && least <= state.forgotten_at) {
                    *place = Some((key, state));
                    return true;
                }
                if is_full_size {
                    return false;
                }
            }
            self.grow(now, max_buckets);
        }
    }

    /// Doubles the number of buckets, up to the maximum.
    fn grow(&mut self, now: Nanos, max_buckets: usize) {
        let count = (2 * self.buckets.len()).clamp(1, max_buckets);
        let old = std::mem::replace(&mut self.buckets, vec![[None; WAYS]; count]);
        for (key, state) in old.into_iter().flatten().flatten() {
            if state.forgotten_at <= now {
                continue;
            }
            // With a maximum that is no power of two, two buckets may come together. The keys with
            // the least debt are dropped then.
            let bucket = &mut self.buckets[Shard::index(key, count)];
            if let Some(place) = bucket.iter_mut().min_by_key(|place| debt(place))
                && debt(place) <= state.forgotten_at
            {
                *place = Some((key, state));
            }
        }
    }
}

/// Returns the time at which a place is free.
fn debt(place: &Option<(KeyHash, State)>) -> Nanos {
    place.map_or(0, |(_, state)| state.forgotten_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;
    use crate::gcra::{Conformance, Rate};
    use crate::key::hash;

    fn key(number: u64) -> KeyHash {
        hash(&number.to_le_bytes())
    }

    /// Sends a request; returns true if it is admitted.
    fn request(table: &Table, rate: &Rate, number: u64, now: Nanos) -> bool {
        table.update(key(number), now, |state| {
            let conformance = rate.request(&mut state.due, now);
            state.forgotten_at = rate.forgotten_at(state.due);
            matches!(conformance, Conformance::Conforms { .. })
        })
    }

    #[test]
    fn a_state_is_kept_until_it_is_forgotten() {
        let table = Table::new(8);
        let state = State { due: 5, forgotten_at: 7, refusals: 1, penalties: 0 };
        table.update(key(1), 1, |kept| *kept = state);
        assert_eq!(table.get(key(1), 6), Some(state));
        assert_eq!((table.get(key(1), 7), table.get(key(2), 1)), (None, None));
        table.update(key(1), 7, |kept| assert_eq!(*kept, State::default()));
    }

    #[test]
    fn a_table_grows_with_its_keys_up_to_its_size() {
        let table = Table::new(1000);
        assert_eq!(table.capacity(), 0, "no memory before the first key");
        let rate = Rate::new(1, 100 * SECOND, 0);
        for number in 0..100 {
            request(&table, &rate, number, SECOND);
        }
        assert!(table.capacity() < 1000, "{}", table.capacity());
        assert_eq!((table.len(SECOND), table.untracked()), (100, 0));
        for number in 0..100_000 {
            request(&table, &rate, number, 2 * SECOND);
        }
        assert!((1000..1300).contains(&table.capacity()), "{}", table.capacity());
    }

    /// An attacker sends each request under a key of its own, many more than the table has places
    /// for.
    #[test]
    fn keys_that_rotate_evict_no_offender_and_lock_nobody_out() {
        let (table, rate) = (Table::new(2000), Rate::new(1, SECOND, 9));
        let offenders = 1_000_000..1_000_050;
        let mut rotating = 0;
        for step in 0..600u64 {
            let now = SECOND + step * SECOND / 50;
            for _ in 0..500 {
                rotating += 1;
                assert!(request(&table, &rate, rotating, now), "a new key is admitted");
            }
            let admitted = offenders.clone().filter(|offender| {
                // Twice each time, that is a hundred times their rate.
                request(&table, &rate, *offender, now) | request(&table, &rate, *offender, now)
            });
            let admitted = admitted.count();
            if step >= 10 {
                // Ten seconds of burst are used up; each has one a second from now on.
                assert!(admitted == 0 || step % 50 == 0, "{admitted} in step {step}");
            }
            let honest = 2_000_000 + step;
            assert!(request(&table, &rate, honest, now), "an honest client is admitted");
        }
        assert!(table.capacity() <= 2100);
    }

    #[test]
    fn a_key_with_less_debt_than_all_is_admitted_without_a_place() {
        let (table, heavy) = (Table::new(8), Rate::new(1, 100 * SECOND, 0));
        for number in 0..8 {
            assert!(request(&table, &heavy, number, SECOND));
        }
        let light = Rate::new(1, SECOND, 0);
        for _ in 0..3 {
            assert!(request(&table, &light, 100, SECOND));
        }
        assert_eq!(table.untracked(), 3);
        assert!((0..8).all(|number| !request(&table, &heavy, number, SECOND)));
    }

    #[test]
    fn threads_share_one_rate() {
        let (table, rate) = (Table::new(100), Rate::new(1000, SECOND, 0));
        let admitted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        // Each thread asks at each of ten thousand moments of ten seconds.
                        let times = (0..10_000u64).map(|step| SECOND + step * SECOND / 1000);
                        times.filter(|now| request(&table, &rate, 7, *now)).count()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        // Threads are at different times; one that is behind is refused by the due time of another,
        // and never is anything admitted twice.
        assert!((9_999..=10_001).contains(&admitted), "{admitted}");
    }
}
