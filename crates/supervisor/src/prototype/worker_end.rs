//! The end of a worker.
//!
//! 1. The kernel reports it through the worker's descriptor (pidfd): the worker counts as ended at
//!    once.
//! 2. The prototype, its parent, reaps it and reports its exit status. A report about a worker that
//!    still runs is a violation, after which the prototype is killed.

use std::time::Instant;

use howdah_wire::queue::WorkerId;

use super::application::Application;
use super::pending::Request;
use super::reports::Violation;

impl Application {
    /// Records that the kernel has reported the end of a worker, and expects the prototype's report
    /// of its exit status.
    pub(crate) fn worker_ended(&mut self, worker: WorkerId, now: Instant) {
        if let Some(process) = self.workers.process(worker) {
            process.has_ended = true;
            self.pending.add(Request::ExitStatus(worker), now);
        }
    }

    /// Takes the prototype's report that it has reaped a worker. Returns the worker's process id.
    pub(super) fn on_worker_reaped(&mut self, owner: WorkerId) -> Result<u32, Violation> {
        let process = self.workers.process(owner);
        let process = process.ok_or(Violation("the death of a worker that does not run"))?;
        if process.handle.as_ref().is_some_and(|handle| !handle.has_ended()) {
            return Err(Violation("the death of a worker that is alive"));
        }
        let pid = process.pid;
        self.workers.release(owner);
        let _ = self.pending.take(|pending| *pending == Request::ExitStatus(owner));
        Ok(pid)
    }
}
