//! Ends processes of an application that uses more than its limits, see
//! [`counting`](crate::counting).

use std::rc::Rc;
use std::time::Instant;

use howdah_sys::pidfd::PidFd;
use howdah_sys::process_usage::ProcessUsage;
use howdah_sys::signals;
use howdah_wire::messages::Exit;
use howdah_wire::queue::WorkerId;

use super::application::Application;
use crate::counting::{End, Known};

impl Application {
    /// Returns true if limits of the application are counted, and it may have processes that can
    /// be ended.
    pub(crate) fn is_counted(&self) -> bool {
        !self.plan.is_exact() && (!self.is_idle() || self.counting.is_active)
    }

    /// Returns the processes that are known.
    pub(crate) fn known(&self) -> Known {
        Known {
            prototype: self.pid,
            template: self.template,
            workers: self.workers.processes().map(|(_, process)| process.pid).collect(),
            ending: self.ending_processes.pids().collect(),
        }
    }

    /// Returns true if all workers and programs are being ended.
    pub(crate) fn is_ending_all(&self) -> bool {
        self.ending_processes.pids().any(|pid| pid == self.pid)
    }

    /// Ends processes with all below them, or all. The first step is taken at once: meanwhile they
    /// could start others.
    pub(crate) fn end_counted(&mut self, ends: &[End], now: Instant) {
        ends.iter().for_each(|end| self.begin_to_end(*end, now));
        self.ending_processes.step_if_due(now);
    }

    fn begin_to_end(&mut self, end: End, now: Instant) {
        match end {
            End::Worker(pid) => {
                let mut all = self.workers.processes();
                let Some((worker, _)) = all.find(|(_, process)| process.pid == pid) else { return };
                drop(all);
                self.over_limit.insert(worker);
                self.kill(worker, signals::SIGKILL, now);
            }
            End::Program { pid, started } => {
                let Ok(process) = PidFd::open(pid) else { return };
                // The process of the descriptor had this id while the time was read, or has ended.
                if ProcessUsage::of(pid).is_some_and(|usage| usage.started == started) {
                    self.ending_processes.add(pid, Rc::new(process), now);
                }
            }
            End::All => {
                let Ok(prototype) = PidFd::open(self.pid) else { return };
                self.over_limit.extend(self.workers.processes().map(|(worker, _)| worker));
                let spare = self.template.into_iter().collect();
                self.ending_processes.add_descendants(self.pid, Rc::new(prototype), spare, now);
            }
        }
    }

    /// Returns how a worker ended.
    pub(crate) fn exit_of_worker(&mut self, worker: WorkerId, exit: Exit) -> Exit {
        let is_over = self.over_limit.remove(&worker) && exit == Exit::Signal(9);
        if is_over { Exit::OverLimit } else { exit }
    }
}
