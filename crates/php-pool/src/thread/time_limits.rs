//! Ends scripts that exceed their time limit. The limit holds until the response is complete, even
//! if the client has left; work of a script after `fastcgi_finish_request` has no limit, as under
//! PHP-FPM.
//!
//! A periodic check finds them, so that a request has no cost. It also reports requests that no
//! worker takes.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_sys::clock;
use howdah_wire::queue::Claim;

use super::attached::AttachedInstance;
use super::control::ControlRequest;
use super::php_thread::PhpThread;
use super::requests::Entry;
use crate::pending::Failure;
use crate::request::RequestKey;
use crate::status::SlowRequest;
use crate::times::Times;

/// Interval of the checks, and the maximum delay of the end of a script.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl PhpThread {
    /// Ends scripts that exceed their limit, for as long as the thread runs.
    pub async fn run_time_limits(self: Rc<Self>) {
        loop {
            while self.checked.count.get() == 0 {
                self.checked.added.notified().await;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
            // A script whose response is complete has ended, even if this thread is late.
            self.drain();
            let attached: Vec<_> = self.attached.borrow().values().cloned().collect();
            attached.iter().for_each(|attached| self.end_overdue(attached));
        }
    }

    fn end_overdue(&self, attached: &AttachedInstance) {
        let now = clock::monotonic_us();
        for (slot, key) in attached.instance.slots_of(self.number) {
            let worker = match attached.instance.region.claim_of(slot) {
                Claim::Taken(_, worker) => worker,
                Claim::Queued(_) => {
                    // No worker takes it: those that there are may be stopped or unavailable.
                    self.ask_for_check(&attached.queue);
                    continue;
                }
                _ => continue,
            };
            let times = || attached.queue.times(key).unwrap_or_default();
            let context_if_exceeded = |entry: &mut Entry| {
                let is_exceeded = !entry.is_rejected
                    && !entry.is_overdue
                    && !entry.pending.is_complete()
                    && entry.limit.is_exceeded(now, || times().ran);
                is_exceeded.then(|| Arc::clone(&entry.context))
            };
            let Some(Some(context)) = self.with_entry(key, context_if_exceeded) else { continue };
            let Times { queued, waited, ran } = times();
            let ran = ran.max(self.observed_run_time(key, now));
            let (pid, instance) =
                (attached.instance.pid(worker).unwrap_or(0), attached.instance.number);
            let times = Times { queued, waited, ran };
            self.send_to_control(ControlRequest::Overdue(SlowRequest {
                instance,
                worker,
                pid,
                context,
                times,
            }));
            self.with_entry(key, |entry| {
                entry.is_overdue = true;
                entry.pending.fail(Failure::TimedOut);
            });
        }
    }

    /// Returns the time since the script was first seen to run, in microseconds.
    fn observed_run_time(&self, key: RequestKey, now: u64) -> u64 {
        let started = self.with_entry(key, |entry| entry.limit.started).flatten();
        started.map_or(0, |started| now.saturating_sub(started))
    }
}
