//! When an application whose prototype has ended is started again.

use std::time::Duration;

/// A prototype that has been ready for this long is replaced at once if it dies.
pub(super) const LONG_LIFE: Duration = Duration::from_secs(1);

/// Prototypes in a row that were ready, died sooner, and are replaced at once all the same.
const MAX_AT_ONCE: u32 = 3;

/// The first pause before a start; it doubles with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Prototypes of one application that ended early, in a row.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// Those that were replaced at once.
    at_once: u32,
    /// Those that were replaced after a pause.
    paused: u32,
}

impl Restarts {
    /// A prototype has ended after it had been ready for this long (`None`: it never was). Returns
    /// the pause before the next start. A prototype that loads PHP and then dies was likely killed
    /// from outside; one that cannot load PHP would fail again.
    pub(super) fn ended(&mut self, ready_for: Option<Duration>) -> Duration {
        if ready_for.is_some_and(|time| time >= LONG_LIFE) {
            *self = Restarts::default();
            return Duration::ZERO;
        }
        if ready_for.is_some() && self.at_once < MAX_AT_ONCE {
            self.at_once += 1;
            return Duration::ZERO;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.paused.min(8)).min(LONGEST_PAUSE);
        self.paused += 1;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Option<Duration> = Some(Duration::from_millis(100));
    const LONG: Option<Duration> = Some(LONG_LIFE);

    #[test]
    fn prototypes_that_cannot_load_php_are_started_again_with_growing_pauses() {
        let mut restarts = Restarts::default();
        let pauses: Vec<_> = (0..8).map(|_| restarts.ended(None).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(restarts.ended(LONG), Duration::ZERO);
        assert_eq!(restarts.ended(None), FIRST_PAUSE);
    }

    #[test]
    fn prototypes_that_were_ready_are_replaced_at_once_unless_all_die_early() {
        let mut restarts = Restarts::default();
        let pauses: Vec<_> = (0..5).map(|_| restarts.ended(SHORT).as_millis()).collect();
        assert_eq!(pauses, [0, 0, 0, 500, 1000]);
        for _ in 0..9 {
            assert_eq!(restarts.ended(LONG), Duration::ZERO);
        }
        assert_eq!(restarts.ended(SHORT), Duration::ZERO);
    }
}
