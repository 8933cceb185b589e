//! When a server that fails is left alone. The time is the caller's: since some moment, the same for
//! all calls.

use std::time::Duration;

use howdah_config::Failures;

/// A server that fails again at once is left alone for up to so many times as long.
const MOST_BACK_OFF: u32 = 16;

/// What a server's failures come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Failures since `since`.
    failures: u32,
    since: Duration,
    /// It is left alone until then.
    until: Duration,
    /// It was left alone so often in a row.
    times: u32,
}

impl Marks {
    /// Whether it is left alone.
    pub fn is_marked(&self, now: Duration) -> bool {
        now < self.until
    }

    /// For how long it is left alone yet.
    pub fn left(&self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }

    /// It has failed.
    pub fn failed(&mut self, now: Duration, policy: &Failures) {
        if policy.max == 0 {
            return;
        }
        if now.saturating_sub(self.since) > policy.time {
            self.failures = 0;
        }
        if self.failures == 0 {
            self.since = now;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= policy.max || self.times > 0 {
            let factor = 1u32.checked_shl(self.times).unwrap_or(MOST_BACK_OFF).min(MOST_BACK_OFF);
            self.until = now + policy.time * factor;
            self.times = self.times.saturating_add(1);
            self.failures = 0;
        }
    }

    /// It has answered. Whether it was left alone before.
    pub fn answered(&mut self) -> bool {
        let was_marked = self.times > 0;
        *self = Marks::default();
        was_marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Failures = Failures { max: 2, time: Duration::from_secs(10) };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn so_many_failures_within_the_time_mark_a_server() {
        let mut marks = Marks::default();
        marks.failed(at(0), &POLICY);
        assert!(!marks.is_marked(at(0)));
        marks.failed(at(11), &POLICY);
        assert!(!marks.is_marked(at(11)), "the first is forgotten");
        marks.failed(at(12), &POLICY);
        assert!(marks.is_marked(at(21)) && !marks.is_marked(at(22)));
    }

    #[test]
    fn one_that_fails_again_at_once_is_left_alone_for_longer() {
        let mut marks = Marks::default();
        let mut now = 0;
        for expected in [10, 20, 40, 80, 160, 160] {
            marks.failed(at(now), &POLICY);
            if now == 0 {
                marks.failed(at(now), &POLICY);
            }
            assert!(
                marks.is_marked(at(now + expected - 1)) && !marks.is_marked(at(now + expected))
            );
            now += expected;
        }
        assert!(marks.answered() && !marks.answered());
        marks.failed(at(now), &POLICY);
        assert!(!marks.is_marked(at(now)), "an answer forgives all");
    }

    #[test]
    fn zero_is_never() {
        let mut marks = Marks::default();
        let policy = Failures { max: 0, ..POLICY };
        (0..9).for_each(|_| marks.failed(at(0), &policy));
        assert_eq!(marks, Marks::default());
    }
}
