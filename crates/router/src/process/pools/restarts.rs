//! Delays between the starts of an application whose prototypes end.

use std::time::Duration;

use crate::process::out;

/// A prototype that has been ready for this long is replaced at once if it dies.
pub(super) const LONG_LIFE: Duration = Duration::from_secs(1);

/// Maximum number of prototypes in a row that die sooner after being ready and are replaced at
/// once.
const MAX_IMMEDIATE: u32 = 3;

/// First pause before a start; it doubles with each failure in a row up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = out::MAX_PAUSE;

/// Counts the prototypes of one application that ended early, in a row.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// Prototypes that were replaced at once.
    immediate: u32,
    /// Prototypes that were replaced after a pause.
    paused: u32,
}

impl Restarts {
    /// Returns true if several starts in a row have failed, so that there are pauses.
    pub(super) fn is_pausing(&self) -> bool {
        self.paused > 0
    }

    /// Counts a prototype that has ended `ready_for` after it was ready (`None`: it never was).
    /// Returns the pause before the next start. A prototype that loads PHP and then dies was likely
    /// killed from outside; one that cannot load PHP would fail again.
    pub(super) fn ended(&mut self, ready_for: Option<Duration>) -> Duration {
        if ready_for.is_some_and(|time| time >= LONG_LIFE) {
            *self = Restarts::default();
            return Duration::ZERO;
        }
        if ready_for.is_some() && self.immediate < MAX_IMMEDIATE {
            self.immediate += 1;
            return Duration::ZERO;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.paused.min(8)).min(MAX_PAUSE);
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
        assert_eq!(pauses, [500, 1000, 2000, 4000, 5000, 5000, 5000, 5000]);
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
