//! The last decision about each URL that was not answered from the cache, for
//! `howdah cache inspect`.
//!
//! A table of fixed size: another URL with the same place replaces the record.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use crate::place::Subject;
use crate::status::Outcome;

/// Number of URLs.
const SLOTS: usize = 2048;

/// Maximum length of a cause in bytes.
const MAX_CAUSE: usize = 800;

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Seconds since 1970.
    pub at: u64,
    /// Status of the response.
    pub status: u16,
    /// The decision, as in `Cache-Status`.
    pub outcome: Outcome,
    /// The cause; empty if the response was stored.
    pub cause: Box<str>,
}

/// A place for the record of one URL.
type Slot = Mutex<Option<Box<(Subject, Decision)>>>;

/// The decisions of a store.
pub struct Decisions {
    slots: Box<[Slot]>,
    /// A client that knew the places could erase the record of a URL.
    hasher: RandomState,
}

impl Default for Decisions {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        Decisions { slots, hasher: RandomState::new() }
    }
}

impl Decisions {
    /// Records the decision about a URL.
    pub fn record(&self, url: Subject, mut decision: Decision) {
        if decision.cause.len() > MAX_CAUSE {
            decision.cause = decision.cause.chars().take(MAX_CAUSE / 4).chain(['…']).collect();
        }
        let new = Some(Box::new((url, decision)));
        if let Some(slot) = self.slot(url) {
            *slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = new;
        }
    }

    /// Returns the last decision about a URL.
    pub fn of(&self, url: Subject) -> Option<Decision> {
        let slot = self.slot(url)?.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        slot.as_deref().filter(|(known, _)| *known == url).map(|(_, decision)| decision.clone())
    }

    fn slot(&self, url: Subject) -> Option<&Slot> {
        let hash = self.hasher.hash_one(url);
        self.slots.get(usize::try_from(hash % SLOTS as u64).unwrap_or(0))
    }
}

impl std::fmt::Debug for Decisions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decisions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Forward;

    fn decision(at: u64) -> Decision {
        let outcome = Outcome::Forwarded { reason: Forward::Bypass, status: None, stored: None };
        Decision { at, status: 200, outcome, cause: "a field".into() }
    }

    #[test]
    fn the_last_decision_about_a_url_is_kept_and_the_number_is_limited() {
        let decisions = Decisions::default();
        let url = |number: usize| Subject::url(b"a.org", number.to_string().as_bytes(), b"");
        (0..10_000).for_each(|number| decisions.record(url(number), decision(1)));
        decisions.record(url(7), decision(2));
        decisions.record(url(7), decision(3));
        assert_eq!(decisions.of(url(7)), Some(decision(3)));
        assert_eq!(decisions.of(url(20_000)), None);
        decisions.record(url(8), Decision { cause: "é".repeat(10_000).into(), ..decision(4) });
        assert!(decisions.of(url(8)).unwrap().cause.len() <= MAX_CAUSE);
    }
}
