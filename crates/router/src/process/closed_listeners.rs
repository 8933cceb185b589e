//! Listeners whose addresses cannot be listened on, and when they are tried again.

use std::collections::BTreeMap;
use std::time::Instant;

use super::out::Attempts;

/// Listeners of the current configuration that are closed, by address.
#[derive(Debug, Default)]
pub(super) struct ClosedListeners(BTreeMap<String, Closed>);

#[derive(Debug)]
struct Closed {
    reason: String,
    attempts: Attempts,
    /// Time of the next attempt; `None` while one is in progress.
    due: Option<Instant>,
}

impl ClosedListeners {
    /// Returns true if a listener is closed.
    pub(super) fn contains(&self, address: &str) -> bool {
        self.0.contains_key(address)
    }

    /// Returns the addresses and reasons.
    pub(super) fn reasons(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter().map(|(address, closed)| (address, &closed.reason))
    }

    /// Takes the listeners that a configuration could not open; all others are open or removed.
    pub(super) fn replace(&mut self, reasons: BTreeMap<String, String>, now: Instant) {
        self.0.retain(|address, _| reasons.contains_key(address));
        for (address, reason) in reasons {
            let mut attempts = Attempts::default();
            let due = Some(now + attempts.failed());
            self.0.entry(address).or_insert(Closed { reason, attempts, due });
        }
    }

    /// Records that an attempt has failed.
    pub(super) fn failed(&mut self, address: &str, reason: String, now: Instant) {
        if let Some(closed) = self.0.get_mut(address) {
            closed.reason = reason;
            closed.due = Some(now + closed.attempts.failed());
        }
    }

    /// Records that a listener is open. Returns false if it was not closed.
    pub(super) fn opened(&mut self, address: &str) -> bool {
        self.0.remove(address).is_some()
    }

    /// Begins the attempts that are due. Returns their addresses.
    pub(super) fn begin_due(&mut self, now: Instant) -> Vec<String> {
        let due = self.0.iter_mut().filter(|(_, closed)| closed.due.is_some_and(|due| due <= now));
        due.map(|(address, closed)| {
            closed.due = None;
            address.clone()
        })
        .collect()
    }

    /// Returns the time of the next attempt.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(|closed| closed.due).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_closed_listener_is_tried_again_one_attempt_at_a_time() {
        let (mut closed, now) = (ClosedListeners::default(), Instant::now());
        let reasons = BTreeMap::from([("*:80".to_owned(), "taken".to_owned())]);
        closed.replace(reasons.clone(), now);
        assert_eq!(closed.begin_due(now), [""; 0]);
        let later = now + Duration::from_secs(1);
        assert_eq!(closed.begin_due(later), ["*:80"]);
        assert_eq!(
            (closed.begin_due(later), closed.due()),
            (Vec::new(), None),
            "it is in progress"
        );
        closed.failed("*:80", "still taken".to_owned(), later);
        closed.failed("*:81", "of no listener".to_owned(), later);
        assert_eq!(closed.due(), Some(later + Duration::from_millis(200)));
        closed.replace(reasons, later);
        assert_eq!(closed.reasons().next().unwrap().1, "still taken", "it goes on");
        closed.replace(BTreeMap::new(), later);
        assert!(!closed.contains("*:80") && !closed.opened("*:80"));
    }
}
