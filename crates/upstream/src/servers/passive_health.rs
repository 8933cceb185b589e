//! Passive health: a server that fails requests is not used for some time.
//!
//! The caller passes the time, measured from any fixed moment.

use std::time::Duration;

use howdah_config::Failures;

/// Maximum factor by which the pause of a repeatedly failing server grows.
const MAX_BACK_OFF: u32 = 16;

/// Failures of a server, and the resulting pause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassiveHealth {
    /// Failures since `since`.
    failures: u32,
    since: Duration,
    /// End of the pause.
    until: Duration,
    /// Number of pauses without a response between them.
    pauses: u32,
}

impl PassiveHealth {
    /// Returns true during a pause.
    pub fn is_failing(&self, now: Duration) -> bool {
        now < self.until
    }

    /// Returns the remaining time of the pause.
    pub fn remaining(&self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }

    /// Counts a failure. A pause begins after `max` failures within `time`, or after the first
    /// failure after a pause.
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
        if self.failures >= policy.max || self.pauses > 0 {
            let factor = 1u32.checked_shl(self.pauses).unwrap_or(MAX_BACK_OFF).min(MAX_BACK_OFF);
            self.until = now + policy.time * factor;
            self.pauses = self.pauses.saturating_add(1);
            self.failures = 0;
        }
    }

    /// Resets all failures, because the server has responded. Returns true if there was a pause.
    pub fn answered(&mut self) -> bool {
        let had_pause = self.pauses > 0;
        *self = PassiveHealth::default();
        had_pause
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
    fn max_failures_within_the_time_begin_a_pause() {
        let mut health = PassiveHealth::default();
        health.failed(at(0), &POLICY);
        assert!(!health.is_failing(at(0)));
        health.failed(at(11), &POLICY);
        assert!(!health.is_failing(at(11)), "the first is forgotten");
        health.failed(at(12), &POLICY);
        assert!(health.is_failing(at(21)) && !health.is_failing(at(22)));
    }

    #[test]
    fn a_server_that_fails_again_at_once_has_a_longer_pause() {
        let mut health = PassiveHealth::default();
        let mut now = 0;
        for expected in [10, 20, 40, 80, 160, 160] {
            health.failed(at(now), &POLICY);
            if now == 0 {
                health.failed(at(now), &POLICY);
            }
            assert!(
                health.is_failing(at(now + expected - 1)) && !health.is_failing(at(now + expected))
            );
            now += expected;
        }
        assert!(health.answered() && !health.answered());
        health.failed(at(now), &POLICY);
        assert!(!health.is_failing(at(now)), "an answer forgives all");
    }

    #[test]
    fn zero_is_never() {
        let mut health = PassiveHealth::default();
        let policy = Failures { max: 0, ..POLICY };
        (0..9).for_each(|_| health.failed(at(0), &policy));
        assert_eq!(health, PassiveHealth::default());
    }
}
