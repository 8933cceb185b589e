//! Tells whether memory is short, by the kernel's pressure stall information.

use std::time::{Duration, Instant};

use howdah_php_pool::sizing::GROWTH_PRESSURE_PERCENT;

/// Minimum interval between two readings.
pub(super) const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The memory pressure at the last reading.
#[derive(Debug, Default)]
pub(super) struct MemoryPressure {
    read_at: Option<Instant>,
    is_high: bool,
}

impl MemoryPressure {
    /// Returns true if processes wait for memory so that automatic sizing starts no more workers. `read`
    /// returns the pressure in percent, `None` if the kernel does not report it; it is called at most
    /// once in [`READ_INTERVAL`].
    pub(super) fn is_high(&mut self, now: Instant, read: impl FnOnce() -> Option<f64>) -> bool {
        if self.read_at.is_none_or(|at| now - at >= READ_INTERVAL) {
            self.read_at = Some(now);
            self.is_high = read().is_some_and(|percent| percent >= GROWTH_PRESSURE_PERCENT);
        }
        self.is_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_short_from_the_pressure_on_at_which_pools_stop_growing() {
        let now = Instant::now();
        let is_high = |percent| MemoryPressure::default().is_high(now, || percent);
        assert_eq!([None, Some(9.9), Some(10.0)].map(is_high), [false, false, true]);
    }

    #[test]
    fn the_pressure_is_read_again_after_the_interval_and_not_before() {
        let (mut pressure, now) = (MemoryPressure::default(), Instant::now());
        assert!(pressure.is_high(now, || Some(50.0)));
        assert!(pressure.is_high(now + READ_INTERVAL / 2, || unreachable!()));
        assert!(!pressure.is_high(now + READ_INTERVAL, || Some(0.0)));
    }
}
