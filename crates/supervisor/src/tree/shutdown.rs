//! The end of the server.

use std::time::{Duration, Instant};

use howdah_sys::{process, signals};
use howdah_wire::messages::FromSupervisor;

use super::state::{Ending, FAST_SHUTDOWN_TIMEOUT, Shutdown, Tree};
use crate::prototype::{Application, DISMISSAL_TIMEOUT};

/// Time to wait for prototypes after they were killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which ended processes are reaped.
const REAP_INTERVAL: Duration = Duration::from_millis(2);

impl Tree {
    /// Begins to end the server. A fast shutdown does not become graceful again.
    pub(super) fn shut_down(&mut self, is_graceful: bool) {
        let is_fast_already = self.shutdown.as_ref().is_some_and(|begun| !begun.is_graceful);
        if is_fast_already {
            return;
        }
        let deadline = (!is_graceful).then(|| Instant::now() + FAST_SHUTDOWN_TIMEOUT);
        self.shutdown = Some(Shutdown { is_graceful, deadline, refusal: None });
        self.notify_stopping(is_graceful);
        self.router_start = None;
        // The next server may start while this one ends.
        if let Some(file) = &mut self.pid_file {
            file.release();
        }
        self.kill_control();
        self.send_to_router(&FromSupervisor::Quit { graceful: is_graceful }, &[]);
    }

    /// Returns true if the server ends now: the router has ended, or the deadline has passed.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let Some(shutdown) = &self.shutdown else { return false };
        let is_due = shutdown.deadline.is_some_and(|deadline| deadline <= now);
        is_due || self.router.is_none()
    }

    /// Kills the remaining processes and waits for them. Returns how the server ended.
    pub(super) fn finish(&mut self) -> Ending {
        if let Some(router) = self.router.take() {
            let _ = signals::send(router.pid, signals::SIGKILL);
        }
        self.kill_control();
        self.programs.end();
        self.zygotes.end_all();
        // The second call kills them.
        for timeout in [DISMISSAL_TIMEOUT, KILL_TIMEOUT] {
            self.applications.values_mut().for_each(Application::dismiss);
            let deadline = Instant::now() + timeout;
            while !self.applications.is_empty() && Instant::now() < deadline {
                while let Some((pid, _)) = process::reap() {
                    self.remove_ended_application(pid);
                }
                std::thread::sleep(REAP_INTERVAL);
            }
        }
        self.end_orphans_now();
        self.control_groups.tidy();
        match self.shutdown.take().and_then(|shutdown| shutdown.refusal) {
            Some(message) => {
                self.notify_refusal(&message);
                Ending::Refused(message)
            }
            None => Ending::Stopped,
        }
    }

    fn remove_ended_application(&mut self, pid: u32) {
        let Some(id) = self.application_of(pid) else { return };
        self.on_output(id);
        self.applications.remove(&id);
    }
}
