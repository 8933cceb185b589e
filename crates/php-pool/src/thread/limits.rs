//! The time limit of scripts. It holds whoever waits for the answer, also if nobody does any more,
//! until the answer is complete: what a script does after `fastcgi_finish_request` is its own
//! matter, as under PHP-FPM.
//!
//! A look several times a second finds those whose time is over, so that the others, and requests
//! of applications without a limit, pay nothing for it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_sys::clock;
use howdah_wire::queue::Claim;
use tokio::sync::Notify;

use super::{Ask, Attached, Entry, PhpThread};
use crate::pending::Failure;
use crate::queue::Key;
use crate::status::{Slow, Times};

/// How late a limit may be noticed.
const LOOK: Duration = Duration::from_millis(50);

/// The limit of one script.
#[derive(Debug, Default)]
pub(super) struct Limit {
    pub(super) timeout: Option<Duration>,
    /// When it was first seen to run, in microseconds of the monotonic clock.
    began: Option<u64>,
}

impl Limit {
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Limit { timeout, began: None }
    }

    /// Whether the time is over of a script that a worker has. How long it `ran` by then, as the
    /// worker says, is asked once: later on a worker could say anything.
    fn is_over(&mut self, now: u64, ran: impl FnOnce() -> u64) -> bool {
        let Some(timeout) = self.timeout else { return false };
        let began = *self.began.get_or_insert_with(|| now.saturating_sub(ran()));
        Duration::from_micros(now.saturating_sub(began)) >= timeout
    }
}

/// Whether there is anything to look at.
#[derive(Debug, Default)]
pub(super) struct Watch {
    limited: Cell<usize>,
    begun: Notify,
}

impl Watch {
    /// A request has come.
    pub(super) fn begin(&self, timeout: Option<Duration>) {
        if timeout.is_some() {
            self.limited.set(self.limited.get() + 1);
            self.begun.notify_one();
        }
    }

    /// A request is over.
    pub(super) fn end(&self, timeout: Option<Duration>) {
        if timeout.is_some() {
            self.limited.set(self.limited.get().saturating_sub(1));
        }
    }
}

impl PhpThread {
    /// Ends scripts whose time is over, for as long as the thread runs.
    pub async fn run_limits(self: Rc<Self>) {
        loop {
            while self.limits.limited.get() == 0 {
                self.limits.begun.notified().await;
            }
            tokio::time::sleep(LOOK).await;
            let attached: Vec<_> = self.attached.borrow().values().cloned().collect();
            attached.iter().for_each(|attached| self.end_overdue(attached));
        }
    }

    fn end_overdue(&self, attached: &Attached) {
        let now = clock::monotonic_us();
        for (slot, key) in attached.instance.slots_of(self.thread) {
            let Claim::Taken(_, worker) = attached.instance.region.claim_of(slot) else { continue };
            let times = || attached.queue.times(key).unwrap_or_default();
            let over = |entry: &mut Entry| {
                let over = !entry.distrusted
                    && !entry.pending.is_complete()
                    && entry.limit.is_over(now, || times().ran);
                over.then(|| Arc::clone(&entry.context))
            };
            let Some(Some(context)) = self.with_entry(key, over) else { continue };
            let Times { waited, ran } = times();
            let ran = ran.max(self.time_of(key, now));
            let (pid, instance) =
                (attached.instance.pid(worker).unwrap_or(0), attached.instance.number);
            let times = Times { waited, ran };
            self.ask(Ask::Overdue(Slow { instance, worker, pid, context, times }));
            self.with_entry(key, |entry| {
                entry.distrusted = true;
                entry.pending.fail(Failure::TimedOut);
            });
        }
    }

    /// How long a script has been seen to run.
    fn time_of(&self, key: Key, now: u64) -> u64 {
        let began = self.with_entry(key, |entry| entry.limit.began).flatten();
        began.map_or(0, |began| now.saturating_sub(began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_script_begins_when_a_worker_has_it() {
        let mut limit = Limit::new(Some(Duration::from_secs(1)));
        assert!(!limit.is_over(5_000_000, || 30_000), "it has run for 30 ms");
        assert!(!limit.is_over(5_960_000, || 0));
        assert!(limit.is_over(5_970_000, || 0));
        assert!(!Limit::new(None).is_over(u64::MAX, || u64::MAX));
    }

    #[test]
    fn a_worker_cannot_make_its_time_longer() {
        let mut limit = Limit::new(Some(Duration::from_secs(1)));
        for look in 0..20 {
            assert!(!limit.is_over(1_000_000 + look * 50_000, || 0));
        }
        assert!(limit.is_over(2_000_000, || 0), "whatever it says now");
    }
}
