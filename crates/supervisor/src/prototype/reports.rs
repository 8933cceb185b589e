//! Reports of a prototype, checked as untrusted input.
//!
//! The order is fixed: `Ready` or `Failed` once, then one answer to each request (see
//! [`pending`](super::pending)). Any other report is a [`Violation`], after which the prototype is
//! killed. Each part of a message for the router is either the router's own (numbers, descriptors),
//! confirmed by the kernel (processes, figures), or text of limited length.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use howdah_sys::pipe::Received;
use howdah_sys::signals;
use howdah_wire::messages::{FromPrototype, FromSupervisor, Problem, Stack, Usage};
use howdah_wire::queue::WorkerId;

use super::application::{Application, Stage};
use super::pending::{ANSWER_TIMEOUT, Request};
use super::workers::{Lookup, Process, State, look_up};
use crate::output::Output;
use crate::usage;

/// Maximum length of a text for the log and for the control API, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// Maximum length of PHP's version, in bytes.
const MAX_VERSION: usize = 64;

/// A report that violates the protocol, described for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// The result of [`Application::next_report`].
#[derive(Debug)]
pub(crate) enum Report {
    /// There is no report.
    Empty,
    /// A report that does not concern the router.
    Internal,
    /// A message for the router and its descriptors.
    ForRouter(FromSupervisor, Vec<OwnedFd>),
    /// The prototype has ended or closed its pipe.
    Closed,
}

impl Application {
    /// Takes the next report. `number` is the router's number for the application.
    pub(crate) fn next_report(&mut self, number: u32, now: Instant) -> Result<Report, Violation> {
        if self.stage == Stage::Killed {
            return Ok(Report::Empty);
        }
        let message = match self.reader.receive(&self.reports) {
            Ok(Received::Message(message)) => message,
            Ok(Received::Empty) => return Ok(Report::Empty),
            Ok(Received::Closed) => return Ok(Report::Closed),
            Err(_) => return Err(Violation("a message that is too long")),
        };
        let message =
            FromPrototype::decode(&message).map_err(|_| Violation("a malformed message"))?;
        self.on_report(number, message, now)
    }

    /// Checks a report that answers no request; `out_of_order` is the problem of one before
    /// `Ready`.
    fn check_unrequested(
        &mut self,
        out_of_order: &'static str,
        now: Instant,
    ) -> Result<(), Violation> {
        if self.stage != Stage::Ready {
            return Err(Violation(out_of_order));
        }
        if !self.unrequested.allow(now) {
            return Err(Violation("too many reports without a request"));
        }
        Ok(())
    }

    fn on_report(
        &mut self,
        application: u32,
        message: FromPrototype,
        now: Instant,
    ) -> Result<Report, Violation> {
        let mut descriptors = Vec::new();
        let for_router = match message {
            FromPrototype::Ready { version, is_exposed, sends_messages } => {
                if self.stage != Stage::Loading || version.len() > MAX_VERSION {
                    return Err(Violation("`Ready` out of order"));
                }
                self.stage = Stage::Ready;
                drop(self.output.as_mut().and_then(Output::end_start));
                let (shares_start, is_counted) = (self.shares_start, !self.plan.is_exact());
                FromSupervisor::Ready {
                    application,
                    version,
                    is_exposed,
                    sends_messages,
                    shares_start,
                    is_counted,
                }
            }
            FromPrototype::Failed { problem } => {
                if self.stage != Stage::Loading {
                    return Err(Violation("`Failed` out of order"));
                }
                self.stage = Stage::Failed;
                self.end_within(ANSWER_TIMEOUT, now);
                let Problem { kind, key, message } = problem;
                let (key, message) = (shortened(key), shortened(message));
                self.failure = Some(Problem { kind, key, message });
                return Ok(Report::Internal);
            }
            FromPrototype::Booted { boot_us, template, without } => {
                self.check_unrequested("`Booted` out of order", now)?;
                self.template = template.and_then(|named| self.own_child(named));
                FromSupervisor::Booted {
                    application,
                    boot_us,
                    has_template: template.is_some(),
                    without: shortened(without),
                }
            }
            FromPrototype::Changed { path } => {
                self.check_unrequested("`Changed` out of order", now)?;
                FromSupervisor::Changed { application, path: shortened(path) }
            }
            FromPrototype::Fallback { problem } => {
                self.check_unrequested("`Fallback` out of order", now)?;
                self.template = None;
                FromSupervisor::Fallback { application, problem: problem.map(shortened) }
            }
            FromPrototype::Started { worker, pid } => {
                let pid = self.on_started(worker, pid, &mut descriptors, now)?;
                FromSupervisor::Started { application, worker, pid }
            }
            FromPrototype::NotStarted { worker, is_temporary, message } => {
                self.close(Request::Spawn(worker))?;
                self.workers.release(worker);
                let message = shortened(message);
                FromSupervisor::NotStarted { application, is_temporary, message }
            }
            FromPrototype::Died { worker, pid: _, status, was_idle } => {
                let pid = self.on_worker_reaped(worker)?;
                FromSupervisor::Died { application, worker, pid, status, was_idle }
            }
            FromPrototype::Traced { number, stack } => {
                self.on_traced(number, now)?;
                FromSupervisor::Traced { application, number, stack: bounded(stack) }
            }
            FromPrototype::FilesChecked { changed } => {
                if !std::mem::take(&mut self.checks_files) {
                    return Err(Violation("changed files that it was not asked for"));
                }
                FromSupervisor::FilesChecked { application, changed: changed.map(shortened) }
            }
            FromPrototype::Measured { base, memory_limit, workers } => {
                let workers = self.on_measured(workers)?;
                let base = usage::of_prototype(self.pid, base);
                FromSupervisor::Measured { application, base, memory_limit, workers }
            }
            // Only dry runs send these reports.
            FromPrototype::Noticed { .. } | FromPrototype::Settings { .. } => {
                return Err(Violation("a report of a check out of order"));
            }
        };
        Ok(Report::ForRouter(for_router, descriptors))
    }

    /// Returns the process id of a child of the prototype that the prototype has named; `None` if
    /// the kernel does not confirm that it is one.
    fn own_child(&self, named: u32) -> Option<u32> {
        match look_up(self.pid, named, self.has_pid_namespace) {
            Lookup::Child(pid, _) => Some(pid),
            _ => None,
        }
    }

    /// Removes the pending request that a report answers.
    fn close(&mut self, request: Request) -> Result<(), Violation> {
        let closed = self.pending.take(|pending| *pending == request);
        closed.map(|_| ()).ok_or(Violation("a worker that was not requested"))
    }

    /// Handles the report that a worker was forked. Returns its process id and adds the descriptors
    /// for the router.
    fn on_started(
        &mut self,
        owner: WorkerId,
        named: u32,
        descriptors: &mut Vec<OwnedFd>,
        now: Instant,
    ) -> Result<u32, Violation> {
        self.close(Request::Spawn(owner))?;
        let (pid, handle) = match look_up(self.pid, named, self.has_pid_namespace) {
            Lookup::Child(pid, handle) => (pid, Some(handle.into())),
            Lookup::Ended => (0, None),
            Lookup::NotAChild => return Err(Violation("a worker that is not its child")),
            // The process id is only logged: no signal is sent to it.
            Lookup::Unknown => (named, None),
        };
        if pid != 0 && self.workers.processes().any(|(_, other)| other.pid == pid) {
            return Err(Violation("one process as two workers"));
        }
        let has_ended = pid == 0;
        let process = Process { pid, handle, has_ended, kill_at: None };
        let worker = self.workers.get(owner).ok_or(Violation("a worker that was not requested"))?;
        if let State::Requested(ends) =
            std::mem::replace(&mut worker.state, State::Running(process))
        {
            descriptors.push(ends.socket);
            descriptors.extend(ends.outputs);
        }
        let kill_on_start = worker.kill_on_start;
        if has_ended {
            self.pending.add(Request::ExitStatus(owner), now);
        } else if kill_on_start {
            self.kill(owner, signals::SIGKILL, now);
        }
        Ok(pid)
    }

    fn on_traced(&mut self, number: u32, now: Instant) -> Result<(), Violation> {
        let is_it =
            |pending: &Request| matches!(pending, Request::Trace(_, sent) if *sent == number);
        let Some(Request::Trace(owner, _)) = self.pending.take(is_it) else {
            return Err(Violation("a trace that was not requested"));
        };
        let is_trace =
            |pending: &Request| matches!(pending, Request::Trace(other, _) if *other == owner);
        if self.pending.count(is_trace) == 0
            && let Some(process) = self.workers.process(owner)
        {
            process.kill_at = process.kill_at.map(|_| now); // its kill was postponed for the trace
        }
        Ok(())
    }

    /// Handles a measurement. Returns the figures of the measured workers that still run, limited
    /// by those of the kernel.
    fn on_measured(&mut self, reported: Vec<Usage>) -> Result<Vec<Usage>, Violation> {
        let measured = self.pending.take(|pending| matches!(pending, Request::Measure(_)));
        let Some(Request::Measure(requested)) = measured else {
            return Err(Violation("a measurement that was not requested"));
        };
        let count = reported.len();
        let reported: HashMap<WorkerId, Usage> =
            reported.into_iter().map(|usage| (usage.worker, usage)).collect();
        let are_requested =
            reported.keys().all(|owner| requested.iter().any(|(requested, _)| requested == owner));
        if count != reported.len() || !are_requested {
            return Err(Violation("a measurement of other workers than requested"));
        }
        let mut measured = Vec::with_capacity(requested.len());
        for (owner, before) in requested {
            let Some(process) = self.workers.process(owner) else { continue };
            let usage = usage::of_worker(owner, process.pid, reported.get(&owner), before);
            // A process that is alive now had this process id during the whole measurement.
            if !process.has_ended && !process.handle.as_ref().is_some_and(|h| h.has_ended()) {
                measured.push(usage);
            }
        }
        Ok(measured)
    }

    /// Returns true if there are reports that have not been processed.
    pub(super) fn has_unread(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut pipe = [PollFd::from_borrowed_fd(self.reports.as_fd(), PollFlags::IN)];
        self.reader.has_read() || poll(&mut pipe, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

/// Limits the error of a stack to the length that a message to the router has room for.
fn bounded(stack: Stack) -> Stack {
    stack.map_err(shortened)
}
