//! Takes responses while the thread has no time to sleep.
//!
//! Workers write the thread's eventfd only if it sleeps. Tasks that always have something to do keep the
//! runtime from waiting for events, so the thread looks for responses between the turns of its tasks.

use std::cell::Cell;

use super::php_thread::PhpThread;

/// Number of turns of tasks between two looks.
const INTERVAL: u32 = 8;

/// Turns of tasks since the thread has slept or looked for responses.
#[derive(Debug, Default)]
pub(super) struct Turns(Cell<u32>);

impl Turns {
    /// Counts a turn. Returns true if responses should be looked for.
    fn count(&self) -> bool {
        let turns = self.0.get() + 1;
        self.0.set(turns % INTERVAL);
        turns == INTERVAL
    }

    /// Begins to count again: the thread has looked for responses.
    pub fn restart(&self) {
        self.0.set(0);
    }
}

impl PhpThread {
    /// Counts a turn of a task, which is about to begin. Every few turns, takes the responses that
    /// there are.
    pub fn begin_turn(&self) {
        if self.turns.count() && self.is_dirty() {
            self.drain();
        }
    }

    /// Returns true if a worker has written a part of a response for this thread.
    pub(super) fn is_dirty(&self) -> bool {
        self.attached
            .borrow()
            .values()
            .any(|attached| attached.instance.region.is_dirty(self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_looked_for_every_few_turns_since_the_thread_has_slept() {
        let turns = Turns::default();
        let looks = |n: u32| (0..n).filter(|_| turns.count()).count();
        assert_eq!(looks(INTERVAL - 1), 0);
        turns.restart();
        assert_eq!(looks(INTERVAL - 1), 0);
        assert_eq!(looks(1 + 3 * INTERVAL), 4);
    }
}
