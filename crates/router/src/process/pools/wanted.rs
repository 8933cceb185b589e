//! Restarts whose outcome is not awaited: a script has called `opcache_reset()`, a watched file has
//! changed, or a worker script works again.
//!
//! Restarts run beside everything else.
//!
//! No application keeps others from their restarts: one that takes long does not delay the next
//! one, and one that asks again and again has to wait longer.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Minimum time between two beginnings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time after which the next restart begins although the one before is in progress. Until then they
/// follow each other: each one doubles the memory of its application while it lasts.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause after a restart that has failed; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// An application may restart [`MAX_AT_ONCE`] times without a pause of its own, as while files are
/// saved during development, and once in this time in the long run: a worker script that works now
/// and then would restart without an end otherwise.
const REFILL: Duration = Duration::from_secs(10);
const MAX_AT_ONCE: u32 = 10;

/// A restart of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::process) struct Wanted {
    /// Name of the application.
    pub(in crate::process) name: String,
    /// Why, for the log.
    pub(in crate::process) reason: String,
}

/// A restart in progress.
#[derive(Debug)]
struct Running {
    wanted: Wanted,
    since: Instant,
    /// Time at which it has failed.
    deadline: Instant,
}

/// The restarts that are due or in progress.
#[derive(Debug, Default)]
pub(super) struct WantedRestarts {
    waiting: Vec<Wanted>,
    /// At most one for each application.
    running: Vec<Running>,
    /// Failures in a row by application, with the time before which there is no other attempt.
    failed: HashMap<String, (u32, Instant)>,
    /// Times at which the applications that have restarted may restart [`MAX_AT_ONCE`] times again.
    spent: HashMap<String, Instant>,
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
        let begins = |wanted| self.begins_at(wanted).unwrap_or_else(Instant::now);
        let waiting = self.waiting.iter().filter(|wanted| !self.is_running(&wanted.name));
        let deadlines = self.running.iter().map(|running| running.deadline);
        waiting.map(begins).chain(deadlines).min()
    }

    fn is_running(&self, name: &str) -> bool {
        self.running.iter().any(|running| running.wanted.name == name)
    }

    /// Returns the time at which a restart may begin; `None` for any time.
    fn begins_at(&self, wanted: &Wanted) -> Option<Instant> {
        let pause = self.failed.get(&wanted.name).map(|(_, until)| *until);
        let spent = self.spent.get(&wanted.name);
        let refilled = spent.and_then(|until| until.checked_sub(REFILL * (MAX_AT_ONCE - 1)));
        let others = self.running.iter().map(|running| running.since + PATIENCE).max();
        [self.next, pause, refilled, others].into_iter().flatten().max()
    }

    /// Begins a restart that is due. It must end within `limit`.
    pub(super) fn begin(&mut self, now: Instant, limit: Duration) -> Option<Wanted> {
        let is_due = |wanted: &Wanted| {
            !self.is_running(&wanted.name) && self.begins_at(wanted).is_none_or(|at| at <= now)
        };
        let index = self.waiting.iter().position(is_due)?;
        let wanted = self.waiting.remove(index);
        self.next = Some(now + INTERVAL);
        self.spent.retain(|_, until| *until > now);
        *self.spent.entry(wanted.name.clone()).or_insert(now) += REFILL;
        self.running.push(Running { wanted: wanted.clone(), since: now, deadline: now + limit });
        Some(wanted)
    }

    /// Returns the names of the applications whose restarts are in progress, with true for those
    /// that take too long.
    pub(super) fn in_progress(&self, now: Instant) -> Vec<(String, bool)> {
        let state = |running: &Running| (running.wanted.name.clone(), running.deadline <= now);
        self.running.iter().map(state).collect()
    }

    /// Ends the restart of an application that is in progress.
    pub(super) fn end(&mut self, name: &str, has_succeeded: bool, now: Instant) -> Option<Wanted> {
        let index = self.running.iter().position(|running| running.wanted.name == name)?;
        let wanted = self.running.remove(index).wanted;
        if has_succeeded {
            self.failed.remove(&wanted.name);
        } else {
            let (count, until) = self.failed.entry(wanted.name.clone()).or_insert((0, now));
            *until = now + FIRST_PAUSE.saturating_mul(1 << (*count).min(8)).min(MAX_PAUSE);
            *count += 1;
        }
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn begun(restarts: &mut WantedRestarts, now: Instant) -> Option<String> {
        restarts.begin(now, LIMIT).map(|wanted| wanted.name)
    }

    fn add(restarts: &mut WantedRestarts, name: &str) {
        restarts.add(name.to_owned(), "r".to_owned());
    }

    #[test]
    fn one_restart_at_a_time_and_one_a_second() {
        let (mut restarts, now) = (WantedRestarts::default(), Instant::now());
        assert_eq!((restarts.due(), begun(&mut restarts, now)), (None, None));
        for name in ["a", "b", "a"] {
            add(&mut restarts, name);
        }
        assert_eq!(begun(&mut restarts, now).as_deref(), Some("a"));
        assert_eq!(begun(&mut restarts, now + INTERVAL), None, "another one is in progress");
        assert_eq!(restarts.due(), Some(now + PATIENCE));
        assert_eq!(restarts.end("a", true, now).unwrap().name, "a");
        assert_eq!(begun(&mut restarts, now), None);
        assert_eq!(begun(&mut restarts, now + INTERVAL).as_deref(), Some("b"));
    }

    #[test]
    fn a_restart_that_takes_long_does_not_hold_others_up() {
        let (mut restarts, now) = (WantedRestarts::default(), Instant::now());
        for name in ["slow", "b", "c"] {
            add(&mut restarts, name);
        }
        assert_eq!(begun(&mut restarts, now).as_deref(), Some("slow"));
        // The application asks once more meanwhile; that restart follows the first.
        add(&mut restarts, "slow");
        assert_eq!(begun(&mut restarts, now + PATIENCE).as_deref(), Some("b"));
        assert_eq!(begun(&mut restarts, now + PATIENCE), None);
        restarts.end("b", true, now);
        assert_eq!(begun(&mut restarts, now + PATIENCE + INTERVAL).as_deref(), Some("c"));
        restarts.end("c", true, now);
        assert_eq!(restarts.due(), Some(now + LIMIT));
        assert_eq!(restarts.in_progress(now), [("slow".to_owned(), false)]);
        assert_eq!(restarts.in_progress(now + LIMIT), [("slow".to_owned(), true)]);
        restarts.end("slow", false, now + LIMIT);
        assert_eq!(restarts.due(), Some(now + LIMIT + FIRST_PAUSE));
        assert_eq!(begun(&mut restarts, now + LIMIT * 2).as_deref(), Some("slow"));
        assert_eq!(restarts.end("other", true, now), None);
    }

    #[test]
    fn an_application_that_asks_again_and_again_restarts_now_and_then() {
        let (mut restarts, mut now) = (WantedRestarts::default(), Instant::now());
        let mut restart = |now, name| {
            add(&mut restarts, name);
            let begun = begun(&mut restarts, now);
            restarts.end(name, true, now);
            begun.is_some()
        };
        let count = (0..1000)
            .filter(|_| {
                now += INTERVAL;
                restart(now, "a")
            })
            .count();
        assert_eq!(count, 10 + 99);
        // The other ones do not wait for it, and it is as before after a while.
        assert!(restart(now, "b"));
        now += REFILL * MAX_AT_ONCE;
        assert!((0..MAX_AT_ONCE).all(|n| restart(now + INTERVAL * n, "a")));
    }

    #[test]
    fn a_restart_that_fails_is_tried_again_after_longer_and_longer_pauses() {
        let (mut restarts, mut now) = (WantedRestarts::default(), Instant::now());
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            restarts.add("a".to_owned(), String::new());
            assert_eq!(begun(&mut restarts, now).as_deref(), Some("a"));
            restarts.end("a", false, now);
            restarts.add("a".to_owned(), String::new());
            let due = now + Duration::from_secs(pause);
            assert_eq!(restarts.due(), Some(due));
            assert_eq!(begun(&mut restarts, due - Duration::from_millis(1)), None);
            now = due;
        }
        begun(&mut restarts, now);
        restarts.end("a", true, now);
        restarts.add("a".to_owned(), String::new());
        assert_eq!(restarts.due(), Some(now + INTERVAL));
    }
}
