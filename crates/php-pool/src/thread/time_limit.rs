//! Time limit of one script, and the number of requests to check. No I/O, no clock.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Notify;

/// Time limit of one script.
#[derive(Debug, Default)]
pub(super) struct TimeLimit {
    pub timeout: Option<Duration>,
    /// Start of the script, in microseconds of the monotonic clock; `None` until it was seen to
    /// run.
    pub started: Option<u64>,
}

impl TimeLimit {
    pub fn new(timeout: Option<Duration>) -> Self {
        TimeLimit { timeout, started: None }
    }

    /// Returns true if a script that a worker runs has exceeded its limit. `ran` returns the run
    /// time in microseconds according to the worker's start mark; it is called once, as a worker
    /// could change the mark.
    pub fn is_exceeded(&mut self, now: u64, ran: impl FnOnce() -> u64) -> bool {
        let Some(timeout) = self.timeout else { return false };
        let started = *self.started.get_or_insert_with(|| now.saturating_sub(ran()));
        Duration::from_micros(now.saturating_sub(started)) >= timeout
    }
}

/// Number of requests at which the periodic check looks.
#[derive(Debug, Default)]
pub(super) struct CheckedRequests {
    pub count: Cell<usize>,
    pub added: Notify,
}

impl CheckedRequests {
    /// Counts a new request.
    pub fn add(&self) {
        self.count.set(self.count.get() + 1);
        self.added.notify_one();
    }

    /// Counts the end of a request.
    pub fn remove(&self) {
        self.count.set(self.count.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_script_begins_when_a_worker_has_it() {
        let mut limit = TimeLimit::new(Some(Duration::from_secs(1)));
        assert!(!limit.is_exceeded(5_000_000, || 30_000), "it has run for 30 ms");
        assert!(!limit.is_exceeded(5_960_000, || 0));
        assert!(limit.is_exceeded(5_970_000, || 0));
        assert!(!TimeLimit::new(None).is_exceeded(u64::MAX, || u64::MAX));
    }

    #[test]
    fn a_worker_cannot_make_its_time_longer() {
        let mut limit = TimeLimit::new(Some(Duration::from_secs(1)));
        for check in 0..20 {
            assert!(!limit.is_exceeded(1_000_000 + check * 50_000, || 0));
        }
        assert!(limit.is_exceeded(2_000_000, || 0), "whatever it says now");
    }
}
