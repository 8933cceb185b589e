//! Bandwidth by key: all responses to one key share a rate of bytes a second.
//!
//! The algorithm is that of [`crate::gcra`] for bytes: a key may be ahead of its rate by the number
//! of bytes that are not slowed down, and a piece is sent when it is no further ahead.

use std::cell::Cell;
use std::sync::Arc;

use howdah_config::LimitBandwidth;

use crate::key::KeyHash;
use crate::table::Table;
use crate::{Nanos, SECOND};

/// Bandwidth of one key or of one response.
#[derive(Debug, Clone)]
pub struct Bandwidth {
    counter: Counter,
    /// Bytes a second.
    rate: u64,
    /// Time by which the key may be ahead.
    tolerance: Nanos,
}

/// Bytes that were sent.
#[derive(Debug, Clone)]
enum Counter {
    /// Bytes of all responses to a key.
    Key(Arc<Table>, KeyHash),
    /// Bytes of one response: the time at which its rate has caught up with them.
    Response(Cell<Nanos>),
}

/// Maximum number of bytes of a piece.
const MAX_PIECE_BYTES: u64 = 64 * 1024;

impl Bandwidth {
    /// Creates the bandwidth of a key, whose state is in `table`.
    pub(crate) fn new(table: &Arc<Table>, key: KeyHash, limit: LimitBandwidth) -> Bandwidth {
        Bandwidth::with(Counter::Key(Arc::clone(table), key), limit)
    }

    /// Creates the bandwidth of one response.
    pub fn of_response(limit: LimitBandwidth) -> Bandwidth {
        Bandwidth::with(Counter::Response(Cell::new(0)), limit)
    }

    fn with(counter: Counter, limit: LimitBandwidth) -> Bandwidth {
        let rate = limit.rate.max(1);
        Bandwidth { counter, rate, tolerance: time_of(limit.after, rate) }
    }

    /// Returns the number of bytes to send at once: those of a quarter of a second, up to 64 KiB.
    pub fn piece(&self) -> usize {
        (self.rate / 4).clamp(1, MAX_PIECE_BYTES) as usize
    }

    /// Counts bytes that are about to be sent. Returns the time to wait before.
    pub fn take(&self, bytes: usize, now: Nanos) -> Nanos {
        let cost = time_of(bytes as u64, self.rate);
        let ahead = match &self.counter {
            Counter::Key(table, key) => table.update(*key, now, |state| {
                let ahead = state.due.saturating_sub(now);
                state.due = now.saturating_add(ahead).saturating_add(cost);
                state.forgotten_at = state.due;
                ahead
            }),
            Counter::Response(due) => {
                let ahead = due.get().saturating_sub(now);
                due.set(now.saturating_add(ahead).saturating_add(cost));
                ahead
            }
        };
        ahead.saturating_sub(self.tolerance)
    }

    /// Gives bytes back that were counted and are not sent: the client has left while they waited.
    pub fn give_back(&self, bytes: usize, now: Nanos) {
        let cost = time_of(bytes as u64, self.rate);
        match &self.counter {
            Counter::Key(table, key) => table.update(*key, now, |state| {
                state.due = state.due.saturating_sub(cost);
                state.forgotten_at = state.due;
            }),
            Counter::Response(due) => due.set(due.get().saturating_sub(cost)),
        }
    }
}

/// Returns the time of bytes at a rate.
fn time_of(bytes: u64, rate: u64) -> Nanos {
    let time = u128::from(bytes) * u128::from(SECOND) / u128::from(rate);
    Nanos::try_from(time).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash;

    fn bandwidth(table: &Arc<Table>, rate: u64, after: u64) -> Bandwidth {
        Bandwidth::new(table, hash(b"a"), LimitBandwidth { rate, after })
    }

    #[test]
    fn responses_of_a_key_share_its_rate_after_the_first_bytes() {
        let table = Arc::new(Table::new(100));
        let [first, second] = [(); 2].map(|()| bandwidth(&table, 1000, 2000));
        let now = SECOND;
        assert_eq!((first.take(1000, now), second.take(1000, now)), (0, 0));
        assert_eq!(first.take(500, now), 0, "the key is ahead by the bytes that are free");
        assert_eq!((second.take(500, now), first.take(500, now)), (SECOND / 2, SECOND));
        let other = Bandwidth::new(&table, hash(b"b"), LimitBandwidth { rate: 1000, after: 0 });
        assert_eq!((other.take(1000, now), other.take(1000, now)), (0, SECOND));
    }

    #[test]
    fn a_response_has_its_own_rate() {
        let limit = LimitBandwidth { rate: 1000, after: 500 };
        let [first, second] = [(); 2].map(|()| Bandwidth::of_response(limit));
        let now = SECOND;
        assert_eq!((first.take(500, now), first.take(500, now)), (0, 0));
        assert_eq!((first.take(500, now), second.take(500, now)), (SECOND / 2, 0));
        assert_eq!(first.take(500, 3 * SECOND), 0, "the rate has caught up");
    }

    /// Two responses that wait as they are told, for ten seconds.
    #[test]
    fn the_rate_is_exact_over_ten_seconds() {
        let table = Arc::new(Table::new(100));
        let responses = [(); 2].map(|()| bandwidth(&table, 300_000, 0));
        let (mut next, mut sent) = ([SECOND; 2], 0);
        loop {
            let which = usize::from(next[1] < next[0]);
            let now = next[which];
            if now >= 11 * SECOND {
                break;
            }
            let piece = responses[which].piece();
            next[which] = now + responses[which].take(piece, now).max(1);
            sent += piece as u64;
        }
        assert!(sent.abs_diff(3_000_000) <= 30_000 + 3 * MAX_PIECE_BYTES, "{sent}");
    }

    #[test]
    fn bytes_that_are_not_sent_after_all_cost_nothing() {
        let table = Arc::new(Table::new(100));
        let now = SECOND;
        let first = bandwidth(&table, 1000, 0);
        assert_eq!(first.take(250, now), 0);
        for _ in 0..1000 {
            let leaving = bandwidth(&table, 1000, 0);
            assert_eq!(leaving.take(250, now), SECOND / 4);
            leaving.give_back(250, now);
        }
        assert_eq!(first.take(250, now), SECOND / 4);
    }

    #[test]
    fn a_slow_rate_has_small_pieces() {
        let table = Arc::new(Table::new(100));
        assert_eq!(bandwidth(&table, 1, 0).piece(), 1);
        assert_eq!(bandwidth(&table, u64::MAX, u64::MAX).piece(), 64 * 1024);
        assert_eq!(bandwidth(&table, 1, u64::MAX).take(usize::MAX, SECOND), 0);
    }
}
