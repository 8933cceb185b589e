//! Ends the prototypes of applications that have had no worker for some time, at once if memory is
//! short. The next request starts the application again.

use std::io;
use std::time::{Duration, Instant};

use howdah_php_pool::pool::PoolState;
use howdah_php_pool::sizing::GROWTH_PRESSURE_PERCENT;
use howdah_sys::log::Level;

use super::application::PooledApplication;
use super::{Pools, REMOVAL_GRACE};

/// Interval between two readings of the memory pressure while an application is unused.
const PRESSURE_INTERVAL: Duration = Duration::from_secs(2);

/// The memory pressure at the last reading.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    read_at: Option<Instant>,
    is_high: bool,
}

impl Pools {
    /// Ends the prototype if there has been no worker and no request for
    /// [`prototype_timeout`](howdah_php_pool::pool::PoolLimits::prototype_timeout). Returns the time at
    /// which that is due; `None` if the application is in use.
    pub(super) fn end_unused_prototype(
        &mut self,
        app: &mut PooledApplication,
        state: PoolState,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        let Some(timeout) = app.sizing.wanted().prototype_timeout else { return Ok(None) };
        if state.workers + app.starting + state.busy + state.waiting > 0 {
            app.unused_since = None;
            return Ok(None);
        }
        let unused_since = *app.unused_since.get_or_insert(now);
        let due = unused_since.checked_add(timeout);
        let Pools { pressure, machine, .. } = self;
        if due.is_none_or(|due| due > now)
            && !pressure.is_high(now, || machine.surroundings(None).pressure)
        {
            return Ok(due.into_iter().chain([now + PRESSURE_INTERVAL]).min());
        }
        let (name, unused) = (&app.config.name, (now - unused_since).as_secs());
        let message = format_args!("\"{name}\" application sleeps: unused for {unused} s");
        self.log(Level::Info, message);
        // Requests that come from now on wait for the next prototype.
        app.queue.set_instance(None);
        app.ready_since = None;
        app.unused_since = None;
        match app.instance.take() {
            Some(instance) => {
                self.retire(app.config.name.clone(), instance, REMOVAL_GRACE)?;
                Ok(Some(now)) // the retired instance has no requests, so that it ends at once
            }
            None => Ok(None),
        }
    }
}

impl Pressure {
    /// Returns true if processes wait for memory so that automatic sizing starts no more workers. `read`
    /// returns the pressure in percent, `None` if the kernel does not report it; it is called at most
    /// once in [`PRESSURE_INTERVAL`].
    fn is_high(&mut self, now: Instant, read: impl FnOnce() -> Option<f64>) -> bool {
        if self.read_at.is_none_or(|at| now - at >= PRESSURE_INTERVAL) {
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
        let is_high = |percent| Pressure::default().is_high(now, || percent);
        assert_eq!([None, Some(9.9), Some(10.0)].map(is_high), [false, false, true]);
    }

    #[test]
    fn the_pressure_is_read_again_after_the_interval_and_not_before() {
        let (mut pressure, now) = (Pressure::default(), Instant::now());
        assert!(pressure.is_high(now, || Some(50.0)));
        assert!(pressure.is_high(now + PRESSURE_INTERVAL / 2, || unreachable!()));
        assert!(!pressure.is_high(now + PRESSURE_INTERVAL, || Some(0.0)));
    }
}
