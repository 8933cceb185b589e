//! A timer with which a busy thread looks for responses by itself. While it runs, workers need not
//! wake the thread for each response: they wake it for several at once. The timer limits the delay
//! if the next request of a worker takes long.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Interval of the timer. Tokio's timers have no shorter one.
const INTERVAL: Duration = Duration::from_millis(1);

/// Number of responses between two looks at the clock.
const SAMPLE: u32 = 16;

/// Time for [`SAMPLE`] responses below which the thread is busy: the timer costs no more than
/// waking the thread for each response.
const BUSY: Duration = Duration::from_millis(16);

/// The timer of one thread.
#[derive(Debug, Default)]
pub(super) struct Tick {
    is_running: Cell<bool>,
    /// Number of responses since the last look at the clock, or in this interval.
    responses: Cell<u32>,
    sampled: Cell<Option<Instant>>,
    started: Notify,
}

impl Tick {
    /// Returns true if the thread looks for responses within a few milliseconds.
    pub fn is_running(&self) -> bool {
        self.is_running.get()
    }

    /// Counts a response; starts the timer if the thread has many.
    pub fn count_response(&self) {
        self.count(Instant::now);
    }

    fn count(&self, now: impl FnOnce() -> Instant) {
        self.responses.set(self.responses.get().saturating_add(1));
        if self.is_running.get() || self.responses.get() < SAMPLE {
            return;
        }
        self.responses.set(0);
        let now = now();
        if self.sampled.replace(Some(now)).is_some_and(|before| now - before < BUSY) {
            self.is_running.set(true);
            self.started.notify_one();
        }
    }

    /// Waits until the timer is started.
    pub async fn wait_for_start(&self) {
        while !self.is_running.get() {
            self.started.notified().await;
        }
    }

    /// Waits for the end of an interval. Returns the number of responses in it.
    pub async fn next(&self) -> u32 {
        tokio::time::sleep(INTERVAL).await;
        self.responses.take()
    }

    /// Ends the timer.
    pub fn stop(&self) {
        self.is_running.set(false);
        self.sampled.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_runs_only_while_there_are_many_responses() {
        let tick = Tick::default();
        let start = Instant::now();
        let count = |millis| {
            (0..SAMPLE).for_each(|_| tick.count(|| start + Duration::from_millis(millis)));
            tick.is_running()
        };
        assert!(!count(0), "nobody knows how long that took");
        assert!(!count(20));
        assert!(count(21));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            tick.wait_for_start().await;
            assert_eq!(tick.next().await, 0);
            tick.count(|| start);
            assert_eq!(tick.next().await, 1);
        });
        tick.stop();
        assert!(!count(22));
        assert!(count(23));
    }
}
