//! Tells whether memory is short, so that the server frees what it can do without.

use std::time::{Duration, Instant};

use howdah_php_pool::sizing::GROWTH_PRESSURE_PERCENT;
use howdah_php_pool::sizing::meter::MachineState;

/// Minimum interval between two readings.
pub(super) const READ_INTERVAL: Duration = Duration::from_secs(2);

/// Part of the memory that is available if memory is not short, as a divisor of all of it.
const AVAILABLE_DIVISOR: u64 = 8;

/// The last reading.
#[derive(Debug, Default)]
pub(super) struct MemoryShortage {
    read_at: Option<Instant>,
    is_short: bool,
}

impl MemoryShortage {
    /// Returns true if processes wait for memory and less than an eighth of it is available. The wait
    /// alone is no proof: a script can cause it within the limit of its own control group. `read` is
    /// called at most once in [`READ_INTERVAL`].
    pub(super) fn is_short(&mut self, now: Instant, read: impl FnOnce() -> MachineState) -> bool {
        if self.read_at.is_none_or(|at| now - at >= READ_INTERVAL) {
            let MachineState { pressure, available, total, .. } = read();
            let has_pressure = pressure.is_some_and(|percent| percent >= GROWTH_PRESSURE_PERCENT);
            self.is_short = has_pressure && available < total / AVAILABLE_DIVISOR;
            self.read_at = Some(now);
        }
        self.is_short
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
        let is_short = |pressure, available| {
            MemoryShortage::default().is_short(now, || machine(pressure, available))
        };
        assert!(is_short(Some(10.0), 99));
        for (pressure, available) in [(Some(9.9), 99), (None, 99), (Some(90.0), 100)] {
            assert!(!is_short(pressure, available), "{pressure:?} {available}");
        }
    }

    #[test]
    fn memory_is_read_again_after_the_interval_and_not_before() {
        let (mut shortage, now) = (MemoryShortage::default(), Instant::now());
        assert!(shortage.is_short(now, || machine(Some(50.0), 0)));
        assert!(shortage.is_short(now + READ_INTERVAL / 2, || unreachable!()));
        assert!(!shortage.is_short(now + READ_INTERVAL, || machine(Some(0.0), 0)));
    }
}
