//! Limit on the rate at which an application may write to the log.
//!
//! Router and supervisor write the log, so a script that writes without end would take their time
//! from all other sites. Output beyond [`RATE`] stays in its pipe until it may be read, and the
//! script waits, as for a slow disk.
//!
//! A script that keeps logging would fill the disk of all sites. Beyond [`LASTING_RATE`], records
//! are counted and left out: [`Admission`]. The same holds for the server's own lines about the
//! requests of a site, which its clients cause.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock;

/// Rate of an application, all its workers together, in bytes per second.
pub const RATE: u64 = 4 << 20;

/// Burst after a pause, in bytes.
const BURST: u64 = RATE / 2;

/// Cost of a record in addition to its bytes, in bytes.
const RECORD_COST: u64 = 512;

/// Lasting rate of an application, in bytes per second: 11 GB a day.
pub const LASTING_RATE: u64 = 128 << 10;

/// Maximum number of bytes that an application may write at once beyond [`LASTING_RATE`].
const LASTING_BURST: u64 = 16 << 20;

/// Time for which records are left out, in microseconds.
const LEFT_OUT_TIME: u64 = 10_000_000;

/// Log rate of one application: two generic cell rate algorithms, whose states are numbers that
/// several threads may change.
#[derive(Debug, Default)]
pub struct LogRate {
    /// Time at which the output so far fits the rate, in microseconds of the monotonic clock.
    paid: AtomicU64,
    /// The same for the lasting rate, of which only records count that are written.
    lasting: AtomicU64,
    /// Time until which records are left out; 0 if they are written.
    closed_until: AtomicU64,
    /// Number of records that were left out since.
    left_out: AtomicU64,
    /// Number of records that were ever left out.
    all_left_out: AtomicU64,
    /// Number of bytes of all records, those included that were left out.
    all_bytes: AtomicU64,
}

/// Decision about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The record is written.
    Open,
    /// The record is written again, and this many were left out.
    Opened(u64),
    /// The record is the first that is left out.
    Closed,
    /// The record is left out.
    LeftOut,
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

    /// Returns the number of records that were ever left out.
    pub fn all_left_out(&self) -> u64 {
        self.all_left_out.load(Relaxed)
    }

    /// Returns the number of bytes of all records, those included that were left out.
    pub fn all_bytes(&self) -> u64 {
        self.all_bytes.load(Relaxed)
    }

    /// Decides about a record. One that is left out is counted.
    pub fn admit(&self) -> Admission {
        self.admit_at(clock::monotonic_us())
    }

    /// Counts a record of this many bytes that was written against the lasting rate, too.
    pub fn kept(&self, bytes: usize) {
        self.kept_at(clock::monotonic_us(), bytes);
    }

    /// Returns true if the lasting rate is as unused as a new one, and no record was left out.
    pub fn is_unused(&self) -> bool {
        let now = clock::monotonic_us();
        self.lasting.load(Relaxed) <= now && self.closed_until.load(Relaxed) == 0
    }

    fn admit_at(&self, now: u64) -> Admission {
        let closed_until = self.closed_until.load(Relaxed);
        if closed_until > now {
            self.count_left_out();
            return Admission::LeftOut;
        }
        let change = |to| self.closed_until.compare_exchange(closed_until, to, Relaxed, Relaxed);
        if closed_until > 0 {
            return match change(0) {
                Ok(_) => Admission::Opened(self.left_out.swap(0, Relaxed)),
                Err(_) => Admission::Open, // another thread says so
            };
        }
        let burst = LASTING_BURST * 1_000_000 / LASTING_RATE;
        if self.lasting.load(Relaxed) <= now.saturating_add(burst) {
            return Admission::Open;
        }
        self.count_left_out();
        match change(now.saturating_add(LEFT_OUT_TIME)) {
            Ok(_) => Admission::Closed,
            Err(_) => Admission::LeftOut,
        }
    }

    fn count_left_out(&self) {
        self.left_out.fetch_add(1, Relaxed);
        self.all_left_out.fetch_add(1, Relaxed);
    }

    fn kept_at(&self, now: u64, bytes: usize) {
        let cost = (bytes as u64).saturating_mul(1_000_000) / LASTING_RATE;
        let add = |paid: u64| Some(paid.max(now).saturating_add(cost));
        let _ = self.lasting.fetch_update(Relaxed, Relaxed, add);
    }

    fn wrote_at(&self, now: u64, bytes: usize) {
        self.all_bytes.fetch_add(bytes as u64, Relaxed);
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
        assert_eq!(rate.all_bytes(), written + 1_000 * record as u64);
        let each_second = 1_000 * record as u64 * 1_000_000 / (now - start);
        assert!((RATE * 9 / 10..=RATE).contains(&each_second), "{each_second}");
    }

    #[test]
    fn what_lasts_is_left_out_and_counted() {
        let (rate, mut now) = (LogRate::default(), 7_000_000);
        let mut bytes = 0;
        while rate.admit_at(now) == Admission::Open {
            rate.kept_at(now, 1 << 16);
            bytes += 1 << 16;
        }
        assert!((LASTING_BURST..=LASTING_BURST + (1 << 17)).contains(&bytes), "{bytes}");
        for _ in 0..4 {
            assert_eq!(rate.admit_at(now), Admission::LeftOut);
        }
        now += LEFT_OUT_TIME;
        assert_eq!(rate.admit_at(now), Admission::Opened(5));
        let mut again = 0;
        while rate.admit_at(now) == Admission::Open {
            rate.kept_at(now, 1 << 10);
            again += 1 << 10;
        }
        let expected = LASTING_RATE * LEFT_OUT_TIME / 1_000_000;
        assert!((expected / 2..=expected * 2).contains(&again), "{again}");
        now += 3_600_000_000;
        assert_eq!(rate.admit_at(now), Admission::Opened(1));
        assert_eq!(rate.admit_at(now), Admission::Open);
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
