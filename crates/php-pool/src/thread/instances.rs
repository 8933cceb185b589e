//! Handles the start and the end of instances and workers.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_sys::reactor;
use howdah_wire::queue::{Claim, WorkerId};

use super::answers::FullLog;
use super::attached::AttachedInstance;
use super::php_thread::PhpThread;
use crate::instance::Instance;
use crate::pending::Failure;
use crate::queue::Queue;
use crate::request::RequestKey;

/// Maximum time until the start of a worker is reported, usually milliseconds. A worker name in a
/// claim that stays unknown for longer is forged.
const START_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of turns to take the frames of a dead worker: enough for a ring of the smallest
/// frames.
const MAX_LEFTOVER_TURNS: usize = 256;

impl PhpThread {
    /// Attaches an instance that answers requests of this thread.
    pub fn attach(&self, instance: Arc<Instance>, queue: Arc<Queue>) -> std::io::Result<()> {
        let eventfd = instance.eventfds()[self.number as usize].try_clone()?;
        let event = reactor::readable(eventfd)?;
        let attached = Rc::new(AttachedInstance { instance, queue, event });
        self.attached.borrow_mut().insert(attached.instance.number, Rc::clone(&attached));
        self.wake_drainer();
        Ok(())
    }

    /// Detaches an instance that has ended with all its workers; fails their requests.
    pub fn detach(&self, number: u32, reason: &str) {
        let Some(attached) = self.attached.borrow_mut().remove(&number) else { return };
        self.settle(&attached, &Failure::Died(reason.to_owned()), |_, _| true);
    }

    /// Handles the report of a worker's start. The worker may have taken a request before.
    pub fn worker_started(&self, number: u32, worker: WorkerId) {
        let attached = self.attached.borrow().get(&number).cloned();
        let Some(attached) = attached else { return };
        for (slot, key, claim) in attached.queue.claims_of(&attached.instance, self.number) {
            if matches!(claim, Claim::Taken(_, owner) if owner == worker)
                && let Some(Some(event)) = self.with_entry(key, |entry| entry.deferred.take())
            {
                self.on_event(&attached, slot, key, event);
            }
        }
    }

    /// Handles the report of a worker's death. Its request has failed unless the response was
    /// complete.
    pub fn worker_died(self: &Rc<Self>, number: u32, worker: WorkerId, reason: &str) {
        let attached = self.attached.borrow().get(&number).cloned();
        let Some(attached) = attached else { return };
        let failure = Failure::Died(reason.to_owned());
        self.settle(&attached, &failure, |_, claim| match claim {
            Claim::Taken(_, owner) => owner == worker,
            Claim::Queued(_) => false,
            // No valid worker leaves a slot in this state while its request waits.
            Claim::Free | Claim::Cancelled(_) => true,
        });
        // A claim with an unknown name is that of a worker that was just forked to replace the dead
        // one, or was written by the dead one.
        let is_unknown = |attached: &AttachedInstance, claim| match claim {
            Claim::Taken(_, owner) => !attached.instance.has_worker(owner),
            _ => false,
        };
        let claims = attached.queue.claims_of(&attached.instance, self.number);
        let unknown = claims.iter().filter(|(_, _, claim)| is_unknown(&attached, *claim));
        let unknown: Vec<_> = unknown.map(|(_, key, _)| *key).collect();
        if unknown.is_empty() {
            return;
        }
        let thread = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(START_REPORT_TIMEOUT).await;
            thread.settle(&attached, &failure, |key, claim| {
                unknown.contains(&key) && is_unknown(&attached, claim)
            });
        });
    }

    /// Takes the remaining frames of dead workers from the slots that `is_dead` selects, and fails
    /// their requests.
    fn settle(
        &self,
        attached: &Rc<AttachedInstance>,
        failure: &Failure,
        is_dead: impl Fn(RequestKey, Claim) -> bool,
    ) {
        for (slot, key, claim) in attached.queue.claims_of(&attached.instance, self.number) {
            if !is_dead(key, claim) {
                continue;
            }
            // The turns are limited because a living worker may still write to the slot.
            let _ = (0..MAX_LEFTOVER_TURNS)
                .all(|_| self.drain_slot(attached, slot, FullLog::DropRecord));
            if attached.instance.key(slot) != Some(key) {
                continue; // the last frames were the end of the answer
            }
            if let Some(event) = self.with_entry(key, |entry| entry.pending.unfinished_log()) {
                self.on_event(attached, slot, key, event);
            }
            let times = attached.queue.times(key);
            attached.queue.release(&attached.instance, slot);
            if let Some(times) = times {
                self.with_entry(key, |entry| {
                    self.count_run_time(&entry.context.site, times);
                });
            }
            let context = self.with_entry(key, |entry| {
                entry.is_settled = true;
                if let Failure::Died(reason) = failure {
                    entry.context.note_failure(reason);
                }
                entry.pending.fail(failure.clone());
                let is_told = entry.is_rejected || entry.is_overdue;
                (!is_told).then(|| Arc::clone(&entry.context))
            });
            let lost =
                self.with_entry(key, |entry| (entry.lost_records, Arc::clone(&entry.context)));
            if let Some((records @ 1.., context)) = lost {
                let what = "log records of its worker were dropped: the log rate was exceeded";
                let problem = format_args!("{records} {what}");
                context.log_error(&self.log, &attached.queue.request_lines, problem);
            }
            // The reason was logged already if the worker was rejected or the script overdue.
            if let (Some(Some(context)), Failure::Died(reason)) = (context, failure) {
                let limit = &attached.queue.request_lines;
                context.log_error(&self.log, limit, format_args!("{reason}"));
            }
            self.remove_if_finished(key);
        }
    }
}
