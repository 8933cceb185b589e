//! How long to wait before a process that keeps dying is started again.

use std::time::{Duration, Instant};

/// Delays between starts: none after a long life, then doubling from 50 ms to 800 ms while lives
/// stay short. More would only keep visitors waiting: a start costs less than a tenth of that.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    short_lives: u32,
}

/// A life shorter than this counts as a failed start.
const SHORT: Duration = Duration::from_secs(2);

impl Backoff {
    /// The process that was started at `started` has ended; when to start the next one.
    pub(crate) fn next_start(&mut self, started: Instant, now: Instant) -> Instant {
        if now.saturating_duration_since(started) >= SHORT {
            self.short_lives = 0;
            return now;
        }
        self.short_lives += 1;
        now + Duration::from_millis(50 << (self.short_lives - 1).min(4))
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
        assert_eq!(delay(SHORT), Duration::ZERO);
        assert_eq!(delay(short), Duration::from_millis(50));
    }
}
