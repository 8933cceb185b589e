//! Signals of the administrator, and children that have ended.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use howdah_sys::log::Level;
use howdah_sys::{process, signals};
use howdah_wire::messages::{Exit, FromSupervisor, ToControl};

use super::state::Tree;
use crate::file_task::{Origin, Outcome, Task};
use crate::options::LogTarget;

impl Tree {
    pub(super) fn on_signals(&mut self, signals: &OwnedFd) {
        while let Some(signal) = signals::next(signals) {
            self.on_signal(signal);
        }
    }

    pub(super) fn on_signal(&mut self, signal: i32) {
        match signal {
            signals::SIGCHLD => self.reap(),
            signals::SIGQUIT => self.shut_down(true),
            signals::SIGTERM | signals::SIGINT => {
                self.hurry_jobs();
                self.shut_down(false);
            }
            signals::SIGUSR1 => {
                self.postpone_signal(signal);
                self.reopen_logs();
            }
            signals::SIGUSR2 => self.upgrade(),
            signals::SIGHUP if self.postpone_signal(signal) => {}
            signals::SIGHUP => self.reload(),
            _ => {}
        }
    }

    /// Reaps all children that have ended, and handles each by its kind.
    pub(super) fn reap(&mut self) {
        let mut has_orphans = false;
        while let Some((pid, change)) = process::next_change() {
            let exit = match change {
                process::Change::Ended(process::Exit::Status(status)) => Exit::Status(status),
                process::Change::Ended(process::Exit::Signal(signal)) => Exit::Signal(signal),
                process::Change::Stopped | process::Change::Continued => {
                    let is_stopped = change == process::Change::Stopped;
                    self.child_stopped(pid, is_stopped, Instant::now());
                    continue;
                }
            };
            if self.router.as_ref().is_some_and(|router| router.pid == pid) {
                self.router_ended(exit);
            } else if self.other_router_ended(pid, exit) {
                has_orphans = true;
            } else if self.control.has_pid(pid) {
                self.control_ended(exit);
            } else if self.mail_process_ended(pid, exit)
                || self.telemetry_process_ended(pid, exit)
                || self.dashboard_process_ended(pid, exit)
            {
                // They had no children.
            } else if self.upgrade.successor().is_some_and(|successor| successor.pid == pid) {
                self.successor_ended(exit);
                has_orphans = true;
            } else if self.job_ended(pid, exit) {
                has_orphans = true;
            } else if let Some(id) = self.application_of(pid) {
                self.prototype_ended(id, exit);
            } else if let Some(((router, number), error)) = self.programs.ended(pid, exit) {
                if self.router.as_ref().is_some_and(|current| current.pid == router) {
                    self.send_to_router(&FromSupervisor::Ran { number, error }, &[]);
                }
            } else if !self.file_helper_ended(pid) && !self.zygote_ended(pid, exit) {
                has_orphans = true;
            }
        }
        // An orphan that has ended may have children, which are orphans now.
        if has_orphans {
            self.end_orphans();
        }
    }

    /// Reopens the server's log if it is a file, and then the access logs and the slow logs.
    fn reopen_logs(&mut self) {
        match &self.options.log {
            LogTarget::File(path) => {
                self.begin_file_task(Task::ReopenLog(path.clone()), Origin::Supervisor);
            }
            LogTarget::StandardError | LogTarget::Journal => self.reopen_router_logs(),
        }
    }

    /// Opens the server's log if it could not be opened after a signal.
    pub(super) fn retry_own_log(&mut self) {
        if let LogTarget::File(path) = &self.options.log
            && self.unwritable.former_log.is_some()
            && !self.unwritable.is_retrying_log
        {
            self.unwritable.is_retrying_log = true;
            self.begin_file_task(Task::ReopenLog(path.clone()), Origin::Supervisor);
        }
    }

    /// Takes the server's log that was opened again. If it cannot be opened, the old one stays in
    /// use, which the router tells, and it is tried again; the others are reopened all the same,
    /// after a signal.
    pub(super) fn own_log_opened(&mut self, outcome: Outcome) {
        let is_retry = std::mem::take(&mut self.unwritable.is_retrying_log);
        let is_opened = outcome.is_ok();
        self.unwritable.former_log = outcome.as_ref().err().cloned();
        if let Ok(Some(file)) = outcome {
            self.log.reopen(file);
        }
        if is_opened || !is_retry {
            self.reopen_router_logs();
        }
        self.tell_unwritable();
    }

    /// Tells the router to reopen the access logs and the slow logs.
    fn reopen_router_logs(&self) {
        match self.log.handle() {
            Ok(handle) => {
                self.send_to_router(&FromSupervisor::Reopened {}, &[handle.as_fd()]);
                self.send_to_control(&ToControl::Reopened {}, &[handle.as_fd()]);
                self.telemetry.log_reopened(handle.as_fd());
                self.dashboard.log_reopened(handle.as_fd());
            }
            Err(error) => {
                self.log.write(
                    Level::Alert,
                    format_args!("cannot open the logs of the router again: {error}"),
                );
            }
        }
    }
}
