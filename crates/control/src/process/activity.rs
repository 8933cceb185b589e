//! Counts the work in progress, to end the process when it is idle.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The work in progress.
#[derive(Debug, Default)]
pub struct Activity {
    count: Cell<usize>,
    last_end: Cell<Option<Instant>>,
}

/// A piece of work, which ends when this is dropped.
#[derive(Debug)]
pub struct Busy(Rc<Activity>);

impl Activity {
    /// Begins a piece of work.
    pub fn begin(self: &Rc<Self>) -> Busy {
        self.count.set(self.count.get() + 1);
        Busy(Rc::clone(self))
    }

    /// Waits until there has been no work for this time.
    pub async fn idle(&self, time: Duration) {
        let begun = Instant::now();
        loop {
            let due = self.last_end.get().map_or(begun, |last| last.max(begun)) + time;
            if self.count.get() == 0 && due <= Instant::now() {
                return;
            }
            let due = due.max(Instant::now() + Duration::from_millis(100));
            tokio::time::sleep_until(due.into()).await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.last_end.set(Some(Instant::now()));
    }
}
