//! Delays before a process that has ended is started again.

use std::time::{Duration, Instant};

/// Delays between starts: none if the process ran for at least [`MIN_HEALTHY_UPTIME`], otherwise
/// doubling from 50 ms to 800 ms. Longer delays would only delay responses: a start takes less than
/// a tenth of that time.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

/// A process that ends earlier counts as a failed start.
const MIN_HEALTHY_UPTIME: Duration = Duration::from_secs(2);

impl Backoff {
    /// Returns the time of the next start of a process that was started at `started` and has ended.
    pub(crate) fn next_start(&mut self, started: Instant, now: Instant) -> Instant {
        if now.saturating_duration_since(started) >= MIN_HEALTHY_UPTIME {
            self.failures = 0;
            return now;
        }
        self.failures += 1;
        now + Duration::from_millis(50 << (self.failures - 1).min(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_while_lives_are_short_and_vanish_after_a_long_one() {
        let (start, mut backoff) = (Instant::now(), Backoff::default());
        let mut delay = |life| backoff.next_start(start, start + life) - (start + life);
        let short = Duration::from_millis(10);
        assert_eq!(delay(short), Duration::from_millis(50));
        assert_eq!(delay(short), Duration::from_millis(100));
        for _ in 0..20 {
            delay(short);
        }
        assert_eq!(delay(short), Duration::from_millis(800));
        assert_eq!(delay(MIN_HEALTHY_UPTIME), Duration::ZERO);
        assert_eq!(delay(short), Duration::from_millis(50));
    }
}
