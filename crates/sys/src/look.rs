//! A short look for what is about to come, before a thread or process sleeps.
//!
//! To be put to sleep and woken takes longer than a short script, so with one visitor at a time it is
//! worth to look for a moment. If that was in vain, some occasions are let pass, twice as many each
//! time: where nothing comes in a moment, the looks cost next to nothing.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How long to look: about what it takes to wake a process on a processor that sleeps, and a short
/// script.
const MOMENT: Duration = Duration::from_micros(150);

/// How often to look before others may have the processor: for some microseconds.
const SPINS: u32 = 128;

/// The most occasions that are let pass after a look in vain.
const MOST_PAUSE: u32 = 256;

/// Whether whoever is waited for has a processor meanwhile.
pub fn has_room() -> bool {
    static HAS_ROOM: LazyLock<bool> =
        LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1));
    *HAS_ROOM
}

/// What has come of the looks until now.
#[derive(Debug, Default)]
pub struct Looks {
    /// Occasions to let pass, and how many it will be the next time.
    pause: Cell<u32>,
    next_pause: Cell<u32>,
}

impl Looks {
    /// Whether to look on this occasion, which counts as let pass otherwise.
    pub fn are_due(&self) -> bool {
        let pause = self.pause.get();
        self.pause.set(pause.saturating_sub(1));
        pause == 0
    }

    /// Looks until it is there or the moment is over.
    pub fn until(&self, is_there: impl Fn() -> bool) {
        let begun = Instant::now();
        loop {
            for _ in 0..SPINS {
                if is_there() {
                    self.next_pause.set(1);
                    return;
                }
                std::hint::spin_loop();
            }
            // Whoever brings it may wait for this very processor, and would not get it in time.
            std::thread::yield_now();
            if begun.elapsed() > MOMENT {
                let next = self.next_pause.get();
                self.pause.set(next);
                self.next_pause.set((next * 2).clamp(1, MOST_PAUSE));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether something that never comes is looked for.
    fn looks_in_vain(looks: &Looks) -> bool {
        let due = looks.are_due();
        if due {
            let begun = Instant::now();
            looks.until(|| false);
            assert!(begun.elapsed() >= MOMENT);
        }
        due
    }

    #[test]
    fn a_look_in_vain_is_repeated_less_and_less_often() {
        let looks = Looks::default();
        let pattern: Vec<bool> = (0..8).map(|_| looks_in_vain(&looks)).collect();
        assert_eq!(pattern, [true, true, false, true, false, false, true, false]);
        // What comes in time makes up for all of it.
        while !looks.are_due() {}
        looks.until(|| true);
        assert!(looks_in_vain(&looks));
        assert!(!looks_in_vain(&looks));
        assert!(looks_in_vain(&looks));
    }
}
