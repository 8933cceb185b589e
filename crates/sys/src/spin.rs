//! Spins briefly before a thread or process sleeps.
//!
//! Sleeping and being woken takes longer than a short script, so spinning is worthwhile with one
//! visitor at a time. After a spin without success a number of occasions are skipped, twice as many
//! each time: without frequent events, spinning has almost no cost.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Duration of a spin: about the time to wake a process on an idle processor and to run a short
/// script.
const SPIN_TIME: Duration = Duration::from_micros(150);

/// Number of checks, which take some microseconds, before the processor is yielded.
const CHECKS_PER_YIELD: u32 = 128;

/// Maximum number of occasions that are skipped after a spin without success.
const MAX_SKIPPED: u32 = 256;

/// Returns true if there is more than one processor, so that another process runs during a spin.
pub fn has_room() -> bool {
    static HAS_ROOM: LazyLock<bool> =
        LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1));
    *HAS_ROOM
}

/// Decides whether to spin, by the results so far.
#[derive(Debug, Default)]
pub struct SpinPolicy {
    /// Number of occasions that will be skipped.
    pause: Cell<u32>,
    /// Number of occasions to skip after the next spin without success.
    next_pause: Cell<u32>,
}

impl SpinPolicy {
    /// Returns true if the caller should spin on this occasion; otherwise counts it as skipped.
    pub fn should_spin(&self) -> bool {
        let pause = self.pause.get();
        self.pause.set(pause.saturating_sub(1));
        pause == 0
    }

    /// Spins until `is_there` returns true or [`SPIN_TIME`] is over.
    pub fn until(&self, is_there: impl Fn() -> bool) {
        let begun = Instant::now();
        loop {
            for _ in 0..CHECKS_PER_YIELD {
                if is_there() {
                    self.next_pause.set(1);
                    return;
                }
                std::hint::spin_loop();
            }
            // The awaited process may need this processor.
            std::thread::yield_now();
            if begun.elapsed() > SPIN_TIME {
                let next = self.next_pause.get();
                self.pause.set(next);
                self.next_pause.set((next * 2).clamp(1, MAX_SKIPPED));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spins without success if a spin is due. Returns true if it was.
    fn looks_in_vain(looks: &SpinPolicy) -> bool {
        let due = looks.should_spin();
        if due {
            let begun = Instant::now();
            looks.until(|| false);
            assert!(begun.elapsed() >= SPIN_TIME);
        }
        due
    }

    #[test]
    fn a_look_in_vain_is_repeated_less_and_less_often() {
        let looks = SpinPolicy::default();
        let pattern: Vec<bool> = (0..8).map(|_| looks_in_vain(&looks)).collect();
        assert_eq!(pattern, [true, true, false, true, false, false, true, false]);
        // One success resets the number of skipped occasions.
        while !looks.should_spin() {}
        looks.until(|| true);
        assert!(looks_in_vain(&looks));
        assert!(!looks_in_vain(&looks));
        assert!(looks_in_vain(&looks));
    }
}
