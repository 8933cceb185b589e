//! Limit on the rate at which an application may write to the log.
//!
//! Router and supervisor write the log, so a script that writes without end would take their time
//! from all other sites. Output beyond [`RATE`] stays in its pipe until it may be read: nothing is
//! lost, and the script waits, as for a slow disk.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock;

/// Rate of an application, all its workers together, in bytes per second.
pub const RATE: u64 = 4 << 20;

/// Burst after a pause, in bytes.
const BURST: u64 = RATE / 2;

/// Cost of a record in addition to its bytes, in bytes.
const RECORD_COST: u64 = 512;

/// Log rate of one application: a generic cell rate algorithm, whose state is one number that
/// several threads may change.
#[derive(Debug, Default)]
pub struct LogRate {
    /// Time at which the output so far fits the rate, in microseconds of the monotonic clock.
    paid: AtomicU64,
}

impl LogRate {
    /// Counts a record of this many bytes.
    pub fn wrote(&self, bytes: usize) {
        self.wrote_at(clock::monotonic_us(), bytes);
    }

    /// Returns true if another record may be written now.
    pub fn has_room(&self) -> bool {
        self.wait_at(clock::monotonic_us()).is_zero()
    }

    /// Returns the time until another record may be written; zero if it may be now.
    pub fn wait(&self) -> Duration {
        self.wait_at(clock::monotonic_us())
    }

    fn wrote_at(&self, now: u64, bytes: usize) {
        let cost = (bytes as u64).saturating_add(RECORD_COST).saturating_mul(1_000_000) / RATE;
        let add = |paid: u64| Some(paid.max(now).saturating_add(cost));
        let _ = self.paid.fetch_update(Relaxed, Relaxed, add);
    }

    fn wait_at(&self, now: u64) -> Duration {
        let burst = BURST * 1_000_000 / RATE;
        Duration::from_micros(self.paid.load(Relaxed).saturating_sub(now.saturating_add(burst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_written_at_once_and_more_at_the_rate() {
        let (rate, start) = (LogRate::default(), 7_000_000);
        let record = 1 << 16;
        let mut written = 0;
        while rate.wait_at(start).is_zero() {
            rate.wrote_at(start, record);
            written += record as u64;
        }
        assert!((BURST - BURST / 8..=BURST + BURST / 8).contains(&written), "{written}");
        let mut now = start;
        for _ in 0..1_000 {
            now += rate.wait_at(now).as_micros() as u64;
            assert!(rate.wait_at(now).is_zero());
            rate.wrote_at(now, record);
        }
        let each_second = 1_000 * record as u64 * 1_000_000 / (now - start);
        assert!((RATE * 9 / 10..=RATE).contains(&each_second), "{each_second}");
    }

    #[test]
    fn many_short_records_count_for_what_they_cost() {
        let rate = LogRate::default();
        let records = (0..).take_while(|_| {
            rate.wrote_at(1, 1);
            rate.wait_at(1).is_zero()
        });
        let most = (BURST / RECORD_COST) as usize * 101 / 100;
        assert!((2_000..=most).contains(&records.count()));
    }

    #[test]
    fn a_pause_gives_no_more_than_one_burst_and_no_size_overflows() {
        let rate = LogRate::default();
        rate.wrote_at(1, 1 << 20);
        rate.wrote_at(3_600_000_000, 1 << 20);
        assert!(rate.wait_at(3_600_000_000).is_zero());
        rate.wrote_at(3_600_000_000, usize::MAX);
        rate.wrote_at(3_600_000_000, usize::MAX);
        assert!(!rate.wait_at(3_600_000_000).is_zero());
    }
}
