//! Counts the turns of a thread's tasks since it has last looked for responses.

use std::cell::Cell;

/// Number of turns of tasks between two looks.
const INTERVAL: u32 = 8;

/// Turns of tasks since the thread has slept or looked for responses.
#[derive(Debug, Default)]
pub(super) struct Turns(Cell<u32>);

impl Turns {
    /// Counts a turn. Returns true if responses should be looked for.
    pub fn count(&self) -> bool {
        let turns = self.0.get() + 1;
        self.0.set(turns % INTERVAL);
        turns == INTERVAL
    }

    /// Begins to count again: the thread has looked for responses.
    pub fn restart(&self) {
        self.0.set(0);
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
