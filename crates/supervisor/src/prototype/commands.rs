//! Requests to the prototype, and signals to workers.

use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use howdah_sys::{packet, pipe, signals};
use howdah_wire::messages::{FromSupervisor, ToPrototype};
use howdah_wire::queue::WorkerId;
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;

use super::application::{Application, Stage};
use super::pending::{ANSWER_TIMEOUT, MAX_SPAWNS, MAX_TRACES, Request};
use super::workers::{Process, RouterEnds, State};
use crate::usage::MemoryUsage;

/// Maximum number of workers measured at once, which takes a few milliseconds.
const MAX_MEASURED: usize = 64;

impl Application {
    /// Queues another worker. Error: the reason why there can be none.
    pub(crate) fn spawn(&mut self) -> Result<(), String> {
        let worker = self.workers.reserve().ok_or("there are too many workers")?;
        self.to_spawn.push_back(worker);
        Ok(())
    }

    /// Requests queued workers of the prototype, at most [`MAX_SPAWNS`] at once. Returns messages
    /// for the router about those that cannot be started.
    pub(crate) fn request_workers(&mut self, number: u32, now: Instant) -> Vec<FromSupervisor> {
        let mut failures = Vec::new();
        let is_spawn = |request: &Request| matches!(request, Request::Spawn(_));
        while self.stage == Stage::Ready
            && !self.is_dismissed
            && self.pending.count(is_spawn) < MAX_SPAWNS
            && let Some(worker) = self.to_spawn.pop_front()
        {
            match self.request_worker(worker) {
                Ok(()) => self.pending.add(Request::Spawn(worker), now),
                // The prototype has not read the requests before this one.
                Err(error)
                    if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error())
                        && self.pending.oldest().is_some() =>
                {
                    self.to_spawn.push_front(worker);
                    break;
                }
                Err(error) => {
                    self.workers.release(worker);
                    let message = error.to_string();
                    failures.push(FromSupervisor::NotStarted {
                        application: number,
                        is_temporary: false,
                        message,
                    });
                }
            }
        }
        failures
    }

    fn request_worker(&mut self, worker: WorkerId) -> std::io::Result<()> {
        let (socket, theirs) = packet::one_way()?;
        let mut descriptors = vec![theirs];
        let mut outputs = Vec::new();
        if let Some((user, group)) = self.output_owner {
            let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
            for _ in 0..if self.separates_output { 2 } else { 1 } {
                // The supervisor creates the pipe, so that no worker can make reading from it block.
                let (read, write) = pipe::new()?;
                if user.is_some() || group.is_some() {
                    let _ = rustix::fs::fchown(&write, user, group);
                }
                outputs.push(read);
                descriptors.push(write);
            }
        }
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        packet::send(&self.commands, &ToPrototype::Spawn { worker }.encode(), &descriptors)?;
        if let Some(worker) = self.workers.get(worker) {
            worker.state = State::Requested(RouterEnds { socket, outputs });
        }
        Ok(())
    }

    /// Sends a signal to a worker if this incarnation still runs. SIGKILL also ends the processes
    /// that the worker has started; a worker with a pending trace is stopped now, and killed after
    /// the trace.
    pub(crate) fn kill(&mut self, worker: WorkerId, signal: i32, now: Instant) {
        let is_trace =
            |request: &Request| matches!(request, Request::Trace(other, _) if *other == worker);
        let is_traced = self.pending.count(is_trace) > 0;
        let Some(known) = self.workers.get(worker) else { return };
        let State::Running(process) = &mut known.state else {
            known.kill_on_start |= signal == signals::SIGKILL;
            return;
        };
        let is_done = match (&process.handle, signal) {
            _ if process.has_ended => true,
            (Some(handle), signals::SIGKILL) => {
                let stopped = handle.send(signals::SIGSTOP);
                process.kill_at = Some(if is_traced { now + ANSWER_TIMEOUT } else { now });
                stopped != Err(Errno::PERM)
            }
            (Some(handle), signal) => handle.send(signal) != Err(Errno::PERM),
            (None, _) => false,
        };
        if is_done {
            self.kill_if_due(now);
            return;
        }
        process.kill_at = None;
        let _ = self.send(&ToPrototype::Kill { worker, signal: signal as u8 });
        if signal == signals::SIGKILL {
            let _ = self.pending.take(|request| *request == Request::ExitStatus(worker));
            self.pending.add(Request::ExitStatus(worker), now);
        }
    }

    /// Kills workers whose time has come, with the processes that they have started.
    pub(super) fn kill_if_due(&mut self, now: Instant) {
        for (_, process) in self.workers.processes_mut() {
            if process.kill_at.is_some_and(|due| due <= now) {
                process.kill_at = None;
                if let Some(handle) = &process.handle {
                    self.ending_processes.add(process.pid, Rc::clone(handle), now);
                }
            }
        }
    }

    /// Requests a measurement of the workers, unless one is pending.
    pub(crate) fn measure(&mut self, now: Instant) {
        let is_measure = |request: &Request| matches!(request, Request::Measure(_));
        if self.stage != Stage::Ready || self.is_dismissed || self.pending.count(is_measure) > 0 {
            return;
        }
        let chosen = self.choose_measured();
        let workers = chosen.iter().map(|(owner, _)| *owner).collect();
        if self.send(&ToPrototype::Measure { workers }).is_ok() {
            self.pending.add(Request::Measure(chosen), now);
        }
    }

    /// Asks whether files have changed that the application was started from. The answer may take
    /// as long as a disk, so the prototype need not answer in time. Returns false if it cannot be
    /// asked.
    pub(crate) fn check_files(&mut self) -> bool {
        let is_ending = self.is_dismissed || !matches!(self.stage, Stage::Loading | Stage::Ready);
        if !is_ending && !self.checks_files {
            self.checks_files = self.send(&ToPrototype::CheckFiles {}).is_ok();
        }
        self.checks_files && !is_ending
    }

    /// Requests the stack of a worker's script. Error: the reason why that is not possible.
    pub(crate) fn trace(
        &mut self,
        worker: WorkerId,
        number: u32,
        now: Instant,
    ) -> Result<(), String> {
        let is_trace = |request: &Request| matches!(request, Request::Trace(..));
        if self.workers.process(worker).is_none_or(|process| process.has_ended) {
            return Err("its worker has ended".to_owned());
        }
        if self.pending.count(is_trace) >= MAX_TRACES {
            return Err("too many scripts are being traced at once".to_owned());
        }
        let sent = self.send(&ToPrototype::Trace { worker, number });
        sent.map_err(|error| error.to_string())?;
        self.pending.add(Request::Trace(worker, number), now);
        Ok(())
    }

    /// Chooses the workers that are measured next, at most [`MAX_MEASURED`] in turn, and reads
    /// their memory usage.
    pub(super) fn choose_measured(&mut self) -> Vec<(WorkerId, Option<MemoryUsage>)> {
        let running = |process: &Process| !process.has_ended;
        let all: Vec<_> = self.workers.processes().filter(|(_, p)| running(p)).collect();
        let after = all.partition_point(|(owner, _)| owner.index <= self.last_measured);
        let first = if all.len() > MAX_MEASURED { after } else { 0 };
        let chosen: Vec<_> = all
            .iter()
            .cycle()
            .skip(first)
            .take(all.len().min(MAX_MEASURED))
            .map(|(owner, process)| (*owner, MemoryUsage::of(process.pid)))
            .collect();
        self.last_measured = chosen.last().map_or(0, |(owner, _)| owner.index);
        chosen
    }
}
