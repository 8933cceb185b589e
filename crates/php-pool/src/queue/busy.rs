//! An application whose processes are all busy with the same requests for long.

use std::time::Duration;

use howdah_sys::clock;

use super::Queue;

/// Processes that have all been busy for long, while requests wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// Number of processes: all that there are.
    pub processes: u32,
    /// Each has had its request for at least this time.
    pub time: Duration,
    /// Number of requests that no process has taken.
    pub waiting: u32,
}

impl Queue {
    /// Returns the processes if each has had its request for at least `limit`, and other requests
    /// wait.
    pub fn busy(&self, limit: Duration) -> Option<Busy> {
        let (inner, now) = (self.lock(), clock::monotonic_us());
        let serving = inner.serving.as_ref()?;
        let processes = serving.instance.worker_count();
        let running = (0..).zip(&serving.infos).filter_map(|(slot, _)| serving.running(slot, now));
        let times: Vec<_> = running.map(|(_, _, times)| times.ran).collect();
        let load = inner.load();
        let busy = Busy {
            processes,
            time: Duration::from_micros(times.iter().copied().min()?),
            waiting: (load.in_slots + load.waiting).saturating_sub(times.len() as u32),
        };
        let is_busy = times.len() >= processes as usize && busy.time >= limit && busy.waiting > 0;
        is_busy.then_some(busy)
    }

    /// Returns the maximum number of workers if it has been reached since the last call: requests
    /// have begun to wait, or fewer workers than `spare` are idle now. Only of applications whose
    /// number of workers varies. `None` in place of `spare` leaves the idle workers as they were.
    pub fn take_exhaustion(&self, spare: Option<u32>) -> Option<u32> {
        let mut inner = self.lock();
        let workers = inner.serving.as_ref().map_or(0, |serving| serving.instance.worker_count());
        let requests = inner.in_slots() + inner.waiting.len() as u32;
        match spare {
            Some(spare) => inner.counters.look_at_idle(requests, workers, spare),
            None => inner.counters.look(requests, workers),
        }
        inner.counters.exhausted.take()
    }

    /// Returns the number of requests that have run for at least this time.
    pub fn count_running_longer_than(&self, least: Duration) -> u32 {
        let (inner, now) = (self.lock(), clock::monotonic_us());
        let Some(serving) = &inner.serving else { return 0 };
        let running = (0..).zip(&serving.infos).filter_map(|(slot, _)| serving.running(slot, now));
        running.filter(|(_, _, times)| u128::from(times.ran) >= least.as_micros()).count() as u32
    }
}
