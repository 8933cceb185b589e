//! Restarts that nobody waits for: a script has called `opcache_reset()`, or a watched file has changed.
//!
//! They run beside everything else. A change of the configuration or a restart that somebody waits for
//! comes first: it ends a restart that is in progress, which begins again afterwards.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Minimum time between two beginnings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Pause after a restart that has failed; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A restart of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::router) struct Wanted {
    /// Name of the application.
    pub(in crate::router) name: String,
    /// Why, for the log.
    pub(in crate::router) reason: String,
}

/// The restarts that are due or in progress.
#[derive(Debug, Default)]
pub(super) struct WantedRestarts {
    waiting: Vec<Wanted>,
    /// The restart in progress, with the time at which it has failed.
    running: Option<(Wanted, Instant)>,
    /// Failures in a row by application, with the time before which there is no other attempt.
    failed: HashMap<String, (u32, Instant)>,
    /// Time before which none begins.
    next: Option<Instant>,
}

impl WantedRestarts {
    /// Adds a restart, unless the application waits for one already.
    pub(super) fn add(&mut self, name: String, reason: String) {
        if self.waiting.iter().all(|wanted| wanted.name != name) {
            self.waiting.push(Wanted { name, reason });
        }
    }

    /// Returns the time at which there is something to do without an event.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.running {
            Some((_, deadline)) => Some(*deadline),
            None => {
                let begins = |wanted| self.begins_at(wanted).unwrap_or_else(Instant::now);
                self.waiting.iter().map(begins).min()
            }
        }
    }

    /// Returns the time at which a restart may begin; `None` for any time.
    fn begins_at(&self, wanted: &Wanted) -> Option<Instant> {
        let pause = self.failed.get(&wanted.name).map(|(_, until)| *until);
        [self.next, pause].into_iter().flatten().max()
    }

    /// Begins a restart that is due, if none is in progress. It must end within `limit`.
    pub(super) fn begin(&mut self, now: Instant, limit: Duration) -> Option<Wanted> {
        if self.running.is_some() {
            return None;
        }
        let is_due = |wanted: &Wanted| self.begins_at(wanted).is_none_or(|at| at <= now);
        let index = self.waiting.iter().position(is_due)?;
        let wanted = self.waiting.remove(index);
        self.next = Some(now + INTERVAL);
        self.running = Some((wanted.clone(), now + limit));
        Some(wanted)
    }

    /// Returns true while a restart is in progress.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns true if the restart in progress takes too long.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.running.as_ref().is_some_and(|(_, deadline)| *deadline <= now)
    }

    /// Ends the restart in progress.
    pub(super) fn end(&mut self, has_succeeded: bool, now: Instant) -> Option<Wanted> {
        let (wanted, _) = self.running.take()?;
        if has_succeeded {
            self.failed.remove(&wanted.name);
        } else {
            let (count, until) = self.failed.entry(wanted.name.clone()).or_insert((0, now));
            *until = now + FIRST_PAUSE.saturating_mul(1 << (*count).min(8)).min(MAX_PAUSE);
            *count += 1;
        }
        Some(wanted)
    }

    /// Lets the restart in progress begin again later. Returns false if there is none.
    pub(super) fn postpone(&mut self) -> bool {
        let Some((wanted, _)) = self.running.take() else { return false };
        self.waiting.retain(|other| other.name != wanted.name);
        self.waiting.insert(0, wanted);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn begun(restarts: &mut WantedRestarts, now: Instant) -> Option<String> {
        restarts.begin(now, LIMIT).map(|wanted| wanted.name)
    }

    #[test]
    fn one_restart_at_a_time_and_one_a_second() {
        let (mut restarts, now) = (WantedRestarts::default(), Instant::now());
        assert_eq!((restarts.due(), begun(&mut restarts, now)), (None, None));
        for name in ["a", "b", "a"] {
            restarts.add(name.to_owned(), "r".to_owned());
        }
        assert_eq!(begun(&mut restarts, now).as_deref(), Some("a"));
        assert_eq!(begun(&mut restarts, now + INTERVAL), None, "another one is in progress");
        assert_eq!((restarts.due(), restarts.is_late(now)), (Some(now + LIMIT), false));
        assert_eq!(restarts.end(true, now).unwrap().name, "a");
        assert_eq!(begun(&mut restarts, now), None);
        assert_eq!(begun(&mut restarts, now + INTERVAL).as_deref(), Some("b"));
    }

    #[test]
    fn a_restart_that_fails_is_tried_again_after_longer_and_longer_pauses() {
        let (mut restarts, mut now) = (WantedRestarts::default(), Instant::now());
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            restarts.add("a".to_owned(), String::new());
            assert_eq!(begun(&mut restarts, now).as_deref(), Some("a"));
            restarts.end(false, now);
            restarts.add("a".to_owned(), String::new());
            let due = now + Duration::from_secs(pause);
            assert_eq!(restarts.due(), Some(due));
            assert_eq!(begun(&mut restarts, due - Duration::from_millis(1)), None);
            now = due;
        }
        begun(&mut restarts, now);
        restarts.end(true, now);
        restarts.add("a".to_owned(), String::new());
        assert_eq!(restarts.due(), Some(now + INTERVAL));
    }

    #[test]
    fn a_restart_that_is_postponed_is_the_next_one() {
        let (mut restarts, now) = (WantedRestarts::default(), Instant::now());
        assert!(!restarts.postpone());
        restarts.add("a".to_owned(), String::new());
        restarts.add("b".to_owned(), String::new());
        assert_eq!(begun(&mut restarts, now).as_deref(), Some("a"));
        restarts.add("a".to_owned(), String::new());
        assert!(restarts.postpone() && !restarts.is_running());
        assert_eq!(begun(&mut restarts, now + INTERVAL).as_deref(), Some("a"));
        restarts.end(true, now);
        assert_eq!(begun(&mut restarts, now + INTERVAL * 2).as_deref(), Some("b"));
    }
}
