//! Detects a shortage of memory, in which the server frees memory that it does not need.

use std::time::{Duration, Instant};

use super::GROWTH_PRESSURE_PERCENT;
use super::meter::MachineState;

/// Minimum interval between two readings.
pub const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Part of the memory that is available if memory is not short, as a divisor of all of it. For
/// memory that processes wait for, and where the kernel does not report that: control groups of
/// version 1, and kernels without PSI.
const AVAILABLE_DIVISOR: u64 = 8;

/// The same if no process waits for memory. Without swap, processes wait only when hardly any
/// memory is left, and then one start of PHP can be too much.
const AVAILABLE_DIVISOR_WITHOUT_WAIT: u64 = 16;

/// Part of the memory below which hardly any is left, as a divisor of that below which it is short.
const URGENT_DIVISOR: u64 = 2;

/// Time for which a division of the memory counts. Applications that lack workers are measured, and
/// the memory is divided again, every second.
const CONTENTION_TIME: Duration = Duration::from_secs(2);

/// Maximum idle time of workers while memory is contended. Not zero: the requests of one page
/// follow each other.
pub(super) const CONTENDED_IDLE_TIMEOUT: Duration = Duration::from_millis(300);

/// State of the machine's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// There is enough memory.
    #[default]
    None,
    /// Less than a sixteenth of the memory is available, or less than an eighth if processes wait
    /// for memory or that is not known. The wait alone is no proof: a script can cause it within
    /// the limit of its own control group. Or the budget is used up.
    Short,
    /// Less than half of that is available.
    Urgent,
}

/// The last reading.
#[derive(Debug, Default)]
pub struct MemoryShortage {
    read_at: Option<Instant>,
    last: Shortage,
    contended_until: Option<Instant>,
    over_budget_until: Option<Instant>,
}

impl MemoryShortage {
    /// Returns whether memory is short. `read` is called at most once in [`READ_INTERVAL`].
    pub fn now(&mut self, now: Instant, read: impl FnOnce() -> MachineState) -> Shortage {
        if self.read_at.is_none_or(|at| now - at >= READ_INTERVAL) {
            let MachineState { pressure, available, total, .. } = read();
            let divisor = match pressure {
                Some(percent) if percent < GROWTH_PRESSURE_PERCENT => {
                    AVAILABLE_DIVISOR_WITHOUT_WAIT
                }
                _ => AVAILABLE_DIVISOR,
            };
            self.last = match () {
                () if available < total / divisor / URGENT_DIVISOR => Shortage::Urgent,
                () if available < total / divisor => Shortage::Short,
                () => Shortage::None,
            };
            self.read_at = Some(now);
        }
        let is_over_budget = self.over_budget_until.is_some_and(|until| now < until);
        self.last.max(if is_over_budget { Shortage::Short } else { Shortage::None })
    }

    /// Takes the result of dividing the memory: whether idle workers must make room
    /// ([`is_contended`](super::shares::Division::is_contended)), and whether the
    /// budget is used up, by which memory is short.
    pub fn divided(&mut self, is_contended: bool, is_used_up: bool, now: Instant) {
        self.contended_until = is_contended.then(|| now + CONTENTION_TIME);
        self.over_budget_until = is_used_up.then(|| now + CONTENTION_TIME);
    }

    /// Returns the maximum idle time of workers that are not spare ones; `None` if their memory is
    /// not needed. `read` is called as by [`MemoryShortage::now`].
    pub fn release_timeout(
        &mut self,
        now: Instant,
        read: impl FnOnce() -> MachineState,
    ) -> Option<Duration> {
        if self.now(now, read) != Shortage::None {
            return Some(Duration::ZERO);
        }
        let is_contended = self.contended_until.is_some_and(|until| now < until);
        is_contended.then_some(CONTENDED_IDLE_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(pressure: Option<f64>, available: u64) -> MachineState {
        let total = 800;
        MachineState {
            processors: 1,
            total,
            available,
            reserved_bytes: 0,
            pressure,
            idle: None,
            budget: None,
            own_group: None,
        }
    }

    #[test]
    fn memory_is_short_if_processes_wait_for_it_and_little_is_left() {
        let now = Instant::now();
        for (pressure, available, expected) in [
            (Some(10.0), 99, Shortage::Short),
            (None, 99, Shortage::Short),
            (None, 50, Shortage::Short),
            (None, 49, Shortage::Urgent),
            (Some(9.9), 49, Shortage::Short),
            (Some(9.9), 24, Shortage::Urgent),
            (Some(90.0), 100, Shortage::None),
            (None, 100, Shortage::None),
            (Some(9.9), 50, Shortage::None),
        ] {
            let found = MemoryShortage::default().now(now, || machine(pressure, available));
            assert_eq!(found, expected, "{pressure:?} {available}");
        }
    }

    #[test]
    fn idle_workers_make_room_at_once_if_memory_is_short_and_soon_if_it_is_contended() {
        let (mut shortage, now) = (MemoryShortage::default(), Instant::now());
        let ample = || machine(Some(0.0), 800);
        assert_eq!(shortage.release_timeout(now, ample), None);
        shortage.divided(true, false, now);
        assert_eq!(shortage.release_timeout(now, ample), Some(CONTENDED_IDLE_TIMEOUT));
        let later = now + CONTENTION_TIME;
        assert_eq!(
            shortage.release_timeout(later, || machine(Some(50.0), 0)),
            Some(Duration::ZERO)
        );
        let end = later + READ_INTERVAL;
        assert_eq!(shortage.release_timeout(end, ample), None);
        shortage.divided(true, true, end);
        assert_eq!(
            shortage.release_timeout(end, ample),
            Some(Duration::ZERO),
            "the budget is used"
        );
    }

    #[test]
    fn memory_is_read_again_after_the_interval_and_not_before() {
        let (mut shortage, now) = (MemoryShortage::default(), Instant::now());
        assert_eq!(shortage.now(now, || machine(Some(50.0), 0)), Shortage::Urgent);
        assert_eq!(shortage.now(now + READ_INTERVAL / 2, || unreachable!()), Shortage::Urgent);
        let ample = shortage.now(now + READ_INTERVAL, || machine(Some(0.0), 800));
        assert_eq!(ample, Shortage::None);
    }
}
