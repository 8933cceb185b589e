//! Watches prototypes and ends them.

use std::time::{Duration, Instant};

use howdah_sys::{process_tree, signals};
use howdah_wire::messages::Problem;

use super::application::{Application, Stage};
use super::pending::{ANSWER_TIMEOUT, SLOW_ANSWER_TIMEOUT};

/// Time within which a dismissed prototype must end its workers.
pub(crate) const DISMISSAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval at which it is checked whether an application can be unloaded.
const UNLOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which a prototype that has not answered in time is checked.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Reason for the end of a process that was stopped.
pub(crate) const STOPPED: &str = "it was stopped by a signal";

impl Application {
    /// Returns the time of the next call of [`Application::step`]; `None` if none is needed.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let kills = self.workers.processes().filter_map(|(_, process)| process.kill_at);
        let unanswered = if self.must_answer() {
            self.pending.oldest().into_iter().chain(self.stopped_since).min()
        } else {
            None
        };
        let check = unanswered.map(|since| (since + ANSWER_TIMEOUT).max(now + CHECK_INTERVAL));
        let deadlines = self.deadline.into_iter().chain(self.unload_check);
        deadlines.chain(kills).chain(check).chain(self.ending_processes.due()).min()
    }

    /// Records that a signal has stopped or continued the prototype.
    pub(crate) fn set_stopped(&mut self, is_stopped: bool, now: Instant) {
        self.stopped_since = is_stopped.then_some(self.stopped_since.unwrap_or(now));
    }

    /// Returns true if the prototype must answer in time: false if it ends anyway.
    fn must_answer(&self) -> bool {
        !self.is_dismissed && matches!(self.stage, Stage::Loading | Stage::Ready)
    }

    /// Kills workers that are due. Returns the reason if the prototype must be killed.
    pub(crate) fn step(&mut self, now: Instant) -> Option<&'static str> {
        self.kill_if_due(now);
        self.ending_processes.step_if_due(now);
        if !self.must_answer() {
            return None;
        }
        let has_passed = |since: Option<Instant>, time| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= time)
        };
        if has_passed(self.stopped_since, ANSWER_TIMEOUT) {
            return Some(STOPPED);
        }
        // This process may not have run for a while, so answers may be waiting.
        if !has_passed(self.pending.oldest(), ANSWER_TIMEOUT) || self.has_unread() {
            return None;
        }
        if has_passed(self.pending.oldest(), SLOW_ANSWER_TIMEOUT) {
            return Some("it has not answered for ten seconds");
        }
        // A prototype that waits for a processor, a disk or its debugger is slow; one that sleeps
        // will not answer.
        match process_tree::state_of(self.pid) {
            Some(b'R' | b'D' | b't') => None,
            Some(b'T') => Some(STOPPED),
            _ => Some("it does not answer"),
        }
    }

    /// Kills the prototype and ignores its further reports. SIGCHLD reports its end.
    pub(crate) fn terminate(&mut self, reason: Option<&str>) {
        self.stage = Stage::Killed;
        if let Some(reason) = reason {
            self.failure = Some(Problem::of(format_args!("its prototype was killed: {reason}")));
        }
        let _ = signals::send(self.pid, signals::SIGKILL);
    }

    /// Sets the deadline for the end of the application, unless there is an earlier one.
    pub(crate) fn end_within(&mut self, grace: Duration, now: Instant) {
        let deadline = now.checked_add(grace);
        self.deadline = self.deadline.into_iter().chain(deadline).min();
    }

    /// Ends the application as soon as its prototype has no child.
    pub(crate) fn unload(&mut self, now: Instant) {
        self.unload_check = Some(now);
    }

    /// Ends an application that is to be unloaded, unless a program that its scripts have started
    /// is left, which would end with the prototype. Checked once a second.
    pub(super) fn unload_if_due(&mut self, now: Instant, has_children: impl FnOnce(u32) -> bool) {
        if self.unload_check.is_none_or(|check| check > now) {
            return;
        }
        let is_alone = self.is_idle() && !has_children(self.pid);
        self.unload_check = (!is_alone).then(|| now + UNLOAD_INTERVAL);
        if is_alone {
            self.end_within(Duration::ZERO, now);
        }
    }

    /// Calls [`Application::unload_if_due`] with the children that the kernel knows.
    pub(crate) fn unload_if_alone(&mut self, now: Instant) {
        let template = self.template;
        let is_other = |child: &u32| Some(*child) != template;
        self.unload_if_due(now, |pid| process_tree::children(pid).iter().any(is_other));
    }

    /// Kills the workers of a prototype that has ended.
    pub(crate) fn kill_workers(&self) {
        for handle in self.workers.processes().filter_map(|(_, process)| process.handle.as_ref()) {
            let _ = handle.send(signals::SIGKILL);
        }
    }

    /// Tells the prototype to end with its workers and to remove their temporary files. The second
    /// call kills it.
    pub(crate) fn dismiss(&mut self) {
        let sent = rustix::net::shutdown(&self.commands, rustix::net::Shutdown::Write);
        if self.is_dismissed || sent.is_err() {
            let _ = signals::send(self.pid, signals::SIGKILL);
        }
        self.is_dismissed = true;
    }
}
