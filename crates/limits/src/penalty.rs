//! Penalties for keys that ignore refusals.
//!
//! After a number of refusals, a key is blocked for a time, which doubles with each further penalty
//! up to a maximum. Requests during a block are refused and count. Refusals are forgotten when the
//! key has been quiet for as long as its last block.

use crate::gcra::Rate;
use crate::table::State;
use crate::{Nanos, SECOND};

/// Penalties of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Penalty {
    /// Number of refusals after which the key is blocked, and again after as many more.
    pub after: u32,
    /// Time of the first block.
    pub time: Nanos,
    /// Maximum time of a block.
    pub max_time: Nanos,
    /// Number of refusals from which connections are closed without a response.
    pub close_after: Option<u32>,
}

/// Result of a refusal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Punishment {
    /// Time of the block that this refusal begins.
    pub block: Option<Nanos>,
    /// The connection is closed without a response.
    pub close: bool,
}

impl Penalty {
    /// Creates penalties from the document's settings.
    pub fn new(penalty: &howdah_config::LimitPenalty) -> Penalty {
        Penalty {
            after: penalty.after,
            time: penalty.time.saturating_mul(SECOND),
            max_time: penalty.max_time.saturating_mul(SECOND),
            close_after: penalty.close_after,
        }
    }

    /// Counts a refusal.
    pub fn refuse(&self, state: &mut State, rate: &Rate, now: Nanos) -> Punishment {
        state.refusals = state.refusals.saturating_add(1);
        let mut punishment = Punishment::default();
        if state.refusals.is_multiple_of(self.after.max(1)) {
            state.penalties = state.penalties.saturating_add(1);
            let block = self.block(state.penalties);
            state.due = state.due.max(rate.blocked_until(now.saturating_add(block)));
            punishment.block = Some(block);
        }
        let quiet = self.block(state.penalties);
        state.forgotten_at = state.due.max(now.saturating_add(quiet));
        punishment.close = self.close_after.is_some_and(|after| state.refusals >= after);
        punishment
    }

    /// Returns the time of the `number`th block, from 1.
    fn block(&self, number: u32) -> Nanos {
        let doublings = number.saturating_sub(1).min(40);
        self.time.saturating_mul(1 << doublings).min(self.max_time.max(self.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PENALTY: Penalty =
        Penalty { after: 3, time: 10 * SECOND, max_time: 40 * SECOND, close_after: Some(7) };

    #[test]
    fn blocks_double_up_to_the_maximum_and_then_the_connection_is_closed() {
        let (rate, mut state) = (Rate::new(1, SECOND, 0), State::default());
        let mut blocks = Vec::new();
        for refusal in 1..=15u64 {
            let punishment = PENALTY.refuse(&mut state, &rate, refusal);
            blocks.extend(punishment.block.map(|block| block / SECOND));
            assert_eq!(punishment.close, refusal >= 7, "{refusal}");
        }
        assert_eq!(blocks, [10, 20, 40, 40, 40]);
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let (rate, mut state) = (Rate::new(1, u64::MAX, u32::MAX), State::default());
        let penalty = Penalty { time: u64::MAX, max_time: u64::MAX, after: 1, close_after: None };
        for _ in 0..100 {
            penalty.refuse(&mut state, &rate, u64::MAX - 1);
        }
        assert_eq!(state.refusals, 100);
    }
}
