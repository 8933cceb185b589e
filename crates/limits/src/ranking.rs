//! The keys with the most refusals, for people: a list of bounded size (Space-Saving; Metwally,
//! Agrawal, El Abbadi 2005).
//!
//! A key that is not in the full list replaces that with the fewest refusals and takes over its
//! number, so a number may be too high by that of the replaced key, and a key with many refusals is
//! never left out.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::Nanos;
use crate::key::{self, KeyHash};

/// Maximum number of keys of a ranking.
pub const MAX_KEYS: usize = 128;

/// A ranking.
#[derive(Debug, Default)]
pub struct Ranking(Mutex<HashMap<KeyHash, Ranked>>);

/// A key of the ranking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// The key, for people.
    pub key: String,
    /// Refusals, at most.
    pub refused: u64,
    /// Number by which `refused` may be too high.
    pub error: u64,
    /// Time of the last refusal.
    pub last: Nanos,
}

impl Ranking {
    /// Counts a refusal.
    pub fn count(&self, hash: KeyHash, text: &[u8], now: Nanos) {
        let mut ranking = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(ranked) = ranking.get_mut(&hash) {
            ranked.refused += 1;
            ranked.last = now;
            return;
        }
        let mut error = 0;
        if ranking.len() >= MAX_KEYS
            && let Some((least, replaced)) = ranking.iter().min_by_key(|(_, ranked)| ranked.refused)
        {
            error = replaced.refused;
            let least = *least;
            ranking.remove(&least);
        }
        let ranked = Ranked { key: key::shown(text), refused: error + 1, error, last: now };
        ranking.insert(hash, ranked);
    }

    /// Returns up to `max` keys, those with the most refusals first.
    pub fn top(&self, max: usize) -> Vec<Ranked> {
        let ranking = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut all: Vec<_> = ranking.values().cloned().collect();
        drop(ranking);
        all.sort_by(|a, b| b.refused.cmp(&a.refused).then_with(|| a.key.cmp(&b.key)));
        all.truncate(max);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_many_refusals_is_ranked_however_many_keys_there_are() {
        let ranking = Ranking::default();
        for round in 0..10_000u64 {
            ranking.count(key::hash(&round.to_le_bytes()), b"rotating", round);
            if round % 50 == 0 {
                ranking.count(key::hash(b"offender"), b"offender", round);
            }
        }
        let top = ranking.top(1000);
        assert_eq!(top.len(), MAX_KEYS);
        let offender = top.iter().find(|ranked| ranked.key == "offender").expect("ranked");
        assert!(offender.refused >= 200 && offender.refused - offender.error <= 200);
        assert_eq!(offender.last, 9_950);
    }
}
