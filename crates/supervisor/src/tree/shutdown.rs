//! The end of the server.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::{process, signals};
use howdah_wire::messages::{FromSupervisor, HAND_OVER_TIMEOUT};

use super::state::{Ending, FAST_SHUTDOWN_TIMEOUT, Shutdown, Tree};
use crate::prototype::{Application, DISMISSAL_TIMEOUT};

/// Time to wait for prototypes after they were killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Time after `settings.shutdown_timeout` at which the router is killed. It ends by itself before,
/// unless it hangs or an attacker has taken it over.
const DRAIN_MARGIN: Duration = Duration::from_secs(10);

/// Interval at which ended processes are reaped.
const REAP_INTERVAL: Duration = Duration::from_millis(2);

impl Tree {
    /// Begins the time before a graceful end in which clients learn of it. Returns false if the end
    /// itself must begin: without such a time, or when it is ended by a second signal.
    fn leave(&mut self) -> bool {
        let delay = self.changes.current.grants.shutdown_delay;
        let serves = self.has_served && self.router.is_some() && !self.upgrade.is_replaced();
        if delay.is_zero() || !serves || self.leaving.is_some() || self.shutdown.is_some() {
            return false;
        }
        let Some(until) = Instant::now().checked_add(delay) else { return false };
        self.end_upgrade(true);
        self.leaving = Some(until);
        self.notify_stopping(true);
        let seconds = delay.as_secs_f64();
        let line = format_args!(
            "told to end: connections are accepted for {seconds} s more (settings/shutdown_delay)"
        );
        self.log.write(Level::Notice, line);
        let milliseconds = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.send_to_router(&FromSupervisor::Leaving { milliseconds }, &[]);
        true
    }

    /// Begins the graceful end when clients have had the time to learn of it.
    pub(super) fn end_leaving(&mut self, now: Instant) {
        if self.leaving.is_some_and(|until| until <= now) {
            self.shut_down(true);
        }
    }

    /// Begins to end the server. A fast shutdown does not become graceful again.
    pub(super) fn shut_down(&mut self, is_graceful: bool) {
        if is_graceful && self.leave() {
            return;
        }
        self.leaving = None;
        let is_fast_already = self.shutdown.as_ref().is_some_and(|begun| !begun.is_graceful);
        if is_fast_already || is_graceful && self.upgrade.is_replaced() {
            return;
        }
        self.end_upgrade(is_graceful);
        let deadline = if is_graceful {
            self.drain_deadline(false)
        } else {
            Some(Instant::now() + FAST_SHUTDOWN_TIMEOUT)
        };
        self.shutdown = Some(Shutdown { is_graceful, deadline, refusal: None });
        self.notify_stopping(is_graceful);
        if is_graceful {
            self.log_graceful_end();
        }
        self.router_start = None;
        self.end_other_routers(is_graceful);
        // The next server may start while this one ends.
        if let Some(file) = &mut self.pid_file {
            file.release();
        }
        self.kill_control();
        let quit = FromSupervisor::Quit { graceful: is_graceful, is_replaced: false };
        self.send_to_router(&quit, &[]);
        // As with nginx, new clients are refused at once. Otherwise they would wait for the end of
        // all requests, and the next server could not listen.
        self.close_sockets();
    }

    /// Logs that a graceful end waits for the requests in progress.
    fn log_graceful_end(&self) {
        let limit = match self.changes.current.grants.shutdown_timeout {
            Some(limit) => {
                format!(", within {} s (settings/shutdown_timeout)", limit.as_secs_f64())
            }
            None => String::new(),
        };
        let line = format_args!("told to end: requests in progress finish first{limit}");
        self.log.write(Level::Notice, line);
    }

    /// Returns the time at which a router is killed that was told to finish its requests.
    /// `is_replaced`: another server has taken over.
    pub(super) fn drain_deadline(&self, is_replaced: bool) -> Option<Instant> {
        let configured = self.changes.current.grants.shutdown_timeout;
        let timeout = configured.or_else(|| is_replaced.then_some(HAND_OVER_TIMEOUT))?;
        Instant::now().checked_add(timeout)?.checked_add(DRAIN_MARGIN)
    }

    /// Returns true if the server ends now: the router has ended, or the deadline has passed.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let Some(shutdown) = &self.shutdown else { return false };
        let is_due = shutdown.deadline.is_some_and(|deadline| deadline <= now);
        let is_finished = self.router.is_none()
            && self.replacement.others.is_empty()
            && !self.waits_for_predecessor(shutdown);
        let ends = (is_due || is_finished) && !self.waits_for_control(now);
        if ends && !self.jobs.are_over() {
            self.kill_router(); // it has had its time
            return false;
        }
        ends
    }

    /// Returns the time at which the router has had its time; `None` if it is over and jobs are not.
    pub(super) fn shutdown_due(&self, now: Instant) -> Option<Instant> {
        let deadline = self.shutdown.as_ref()?.deadline?;
        (deadline > now || self.jobs.are_over()).then_some(deadline)
    }

    /// Returns true if the server that this one has replaced still finishes requests: a service
    /// manager takes the end of this process for that of the server, and kills the remaining
    /// processes.
    pub(super) fn waits_for_predecessor(&self, shutdown: &Shutdown) -> bool {
        shutdown.is_graceful && !self.upgrade.is_standby && self.upgrade.predecessor.is_some()
    }

    /// Kills the router; its end is handled when it is reaped.
    pub(super) fn kill_router(&self) {
        if let Some(router) = &self.router {
            let _ = signals::send(router.pid, signals::SIGKILL);
        }
    }

    /// Kills the remaining processes and waits for them. Returns how the server ended.
    pub(super) fn finish(&mut self) -> Ending {
        self.finish_usage();
        let is_graceful = self.shutdown.as_ref().is_some_and(|shutdown| shutdown.is_graceful);
        let router = self.router.take();
        let mut killed: Vec<_> = router.iter().map(|router| router.pid).collect();
        killed.extend(
            self.control_pid().into_iter().chain(self.programs.pids()).chain(self.zygotes.pids()),
        );
        for pid in self.mail.pids().chain(self.dashboard.pids()) {
            killed.push(pid);
            let _ = signals::send(pid, signals::SIGKILL);
        }
        let telemetry = self.finish_telemetry();
        killed.extend(&telemetry);
        if let Some(router) = router {
            if is_graceful {
                let line = "the router is killed: it has not ended with settings/shutdown_timeout";
                self.log.write(Level::Alert, line);
            }
            let _ = signals::send(router.pid, signals::SIGKILL);
        }
        for pid in self.replacement.pids() {
            killed.push(pid);
            let _ = signals::send(pid, signals::SIGKILL);
        }
        self.kill_control();
        self.programs.end();
        self.file_helpers.kill();
        self.zygotes.end_all();
        // The second call kills them.
        for timeout in [DISMISSAL_TIMEOUT, KILL_TIMEOUT] {
            self.applications.values_mut().for_each(Application::dismiss);
            if timeout == KILL_TIMEOUT {
                for pid in &telemetry {
                    let _ = signals::send(*pid, signals::SIGKILL);
                }
            }
            let deadline = Instant::now() + timeout;
            while !(self.applications.is_empty() && killed.is_empty()) && Instant::now() < deadline
            {
                while let Some((pid, _)) = process::reap() {
                    killed.retain(|other| *other != pid);
                    self.remove_ended_application(pid);
                }
                std::thread::sleep(REAP_INTERVAL);
            }
        }
        self.end_orphans_now();
        self.control_groups.tidy();
        match self.shutdown.take().and_then(|shutdown| shutdown.refusal) {
            Some(reason) => {
                self.notify_refusal(&reason);
                Ending::Refused { reason, is_taken: self.sockets.is_taken() }
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
