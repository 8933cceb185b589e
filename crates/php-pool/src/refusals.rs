//! Limits the log lines about requests that an application's queue has refused, apart from those of
//! its scripts: the first is written at once, then one a minute with the number of those in
//! between. Each reason has a limit of its own.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::queue_results::QueueError;

/// Time between two lines about the same.
const INTERVAL: Duration = Duration::from_secs(60);

/// Requests that were refused, by the reason.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<[Limit; 4]>);

#[derive(Debug, Clone, Copy, Default)]
struct Limit {
    /// Time of the last line, in microseconds of the monotonic clock.
    logged_at: Option<u64>,
    /// Number of refused requests since.
    unlogged: u64,
}

impl Refusals {
    /// Counts a refused request. Returns the number of requests without a line since the last one
    /// if this one is to be logged. `now` is in microseconds of the monotonic clock.
    pub(crate) fn count(&self, refused: &QueueError, now: u64) -> Option<u64> {
        let [full, overloaded, timeout, stopped] =
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = match refused {
            QueueError::QueueFull => full,
            QueueError::Overloaded => overloaded,
            QueueError::QueueTimeout => timeout,
            QueueError::Stopped(_) => stopped,
        };
        let passed = limit.logged_at.map(|at| Duration::from_micros(now.saturating_sub(at)));
        if passed.is_some_and(|passed| passed < INTERVAL) {
            limit.unlogged += 1;
            return None;
        }
        limit.logged_at = Some(now);
        Some(std::mem::take(&mut limit.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_is_logged_at_once_and_then_one_a_minute() {
        let refusals = Refusals::default();
        let stopped = |reason: &str| QueueError::Stopped(reason.to_owned());
        let at = |second: u64| 7_000_000 + second * 1_000_000;
        assert_eq!(refusals.count(&stopped("no user"), at(0)), Some(0));
        for second in 1..60 {
            assert_eq!(refusals.count(&stopped("no root"), at(second)), None);
        }
        assert_eq!(refusals.count(&QueueError::QueueFull, at(30)), Some(0), "another reason");
        assert_eq!(refusals.count(&stopped("no user"), at(60)), Some(59));
        assert_eq!(refusals.count(&stopped("no user"), at(119)), None);
        assert_eq!(refusals.count(&stopped("no user"), at(3600)), Some(1));
        assert_eq!(refusals.count(&stopped("no user"), at(3600)), None);
    }
}
