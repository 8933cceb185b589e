//! What a prototype says, judged as if a script had said it.
//!
//! The order is fixed: `Ready` or `Failed` once, then one answer to each question (see
//! [`questions`](super::questions)). Whatever else comes is a [`Violation`], after which nothing more
//! is heard from this prototype. What is passed on to the router is either the router's own (numbers,
//! descriptors), confirmed by the kernel (processes, figures), or text of bounded length.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use howdah_sys::pipe::Received;
use howdah_sys::signals;
use howdah_wire::messages::{FromPrototype, FromSupervisor, Problem, Stack, Usage};
use howdah_wire::queue::Owner;

use super::questions::{ANSWER_TIME, Question};
use super::workers::{Process, State, Verdict, look_up};
use super::{Application, Stage};
use crate::usage::{self, Figures};

/// Longest text for the log and for the control API, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// Longest version of PHP, in bytes.
const MAX_VERSION: usize = 64;

/// A report that breaks the protocol: what it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// The result of [`Application::next_report`].
#[derive(Debug)]
pub(crate) enum Report {
    /// No report is there.
    Empty,
    /// A report that does not concern the router.
    Internal,
    /// A message for the router, with its descriptors.
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
        let message = FromPrototype::decode(&message).map_err(|_| Violation("nonsense"))?;
        self.on_report(number, message, now)
    }

    fn on_report(
        &mut self,
        application: u32,
        message: FromPrototype,
        now: Instant,
    ) -> Result<Report, Violation> {
        let mut descriptors = Vec::new();
        let told = match message {
            FromPrototype::Ready { version } => {
                if self.stage != Stage::Loading || version.len() > MAX_VERSION {
                    return Err(Violation("`Ready` out of order"));
                }
                self.stage = Stage::Ready;
                FromSupervisor::Ready { application, version }
            }
            FromPrototype::Failed { problem } => {
                if self.stage != Stage::Loading {
                    return Err(Violation("`Failed` out of order"));
                }
                self.stage = Stage::Failed;
                self.end_within(ANSWER_TIME, now);
                let Problem { key, message } = problem;
                self.failure = Some(Problem { key: shortened(key), message: shortened(message) });
                return Ok(Report::Internal);
            }
            FromPrototype::Started { worker, pid } => {
                let pid = self.on_started(worker, pid, &mut descriptors, now)?;
                FromSupervisor::Started { application, worker, pid }
            }
            FromPrototype::NotStarted { worker, message } => {
                self.close(Question::Spawn(worker))?;
                self.workers.release(worker);
                FromSupervisor::NotStarted { application, message: shortened(message) }
            }
            FromPrototype::Died { worker, pid: _, status, was_idle } => {
                let pid = self.on_died(worker)?;
                FromSupervisor::Died { application, worker, pid, status, was_idle }
            }
            FromPrototype::Traced { number, stack } => {
                self.on_traced(number, now)?;
                FromSupervisor::Traced { application, number, stack: bounded(stack) }
            }
            FromPrototype::Measured { base, memory_limit, workers } => {
                let workers = self.on_measured(workers)?;
                let base = usage::of_prototype(self.pid, base);
                FromSupervisor::Measured { application, base, memory_limit, workers }
            }
            // That is part of an answer to `Check`.
            FromPrototype::Noticed { .. } => {
                return Err(Violation("`Noticed` out of order"));
            }
        };
        Ok(Report::ForRouter(told, descriptors))
    }

    /// Takes an answer that repeats its question.
    fn close(&mut self, question: Question) -> Result<(), Violation> {
        let closed = self.questions.answered(|open| *open == question);
        closed.map(|_| ()).ok_or(Violation("a worker that it was not asked for"))
    }

    /// A worker has been forked. Returns its process id, and adds what the router gets of it.
    fn on_started(
        &mut self,
        owner: Owner,
        named: u32,
        descriptors: &mut Vec<OwnedFd>,
        now: Instant,
    ) -> Result<u32, Violation> {
        self.close(Question::Spawn(owner))?;
        let (pid, handle) = match look_up(self.pid, named, self.hides_processes) {
            Verdict::Child(pid, handle) => (pid, Some(handle.into())),
            Verdict::Ended => (0, None),
            Verdict::Stranger => return Err(Violation("a worker that is not its child")),
            // The log may call it so; nothing is done to it.
            Verdict::Unknown => (named, None),
        };
        if pid != 0 && self.workers.processes().any(|(_, other)| other.pid == pid) {
            return Err(Violation("one process as two workers"));
        }
        let has_ended = pid == 0;
        let process = Process { pid, handle, has_ended, kill_at: None };
        let worker =
            self.workers.get(owner).ok_or(Violation("a worker that it was not asked for"))?;
        if let State::Asked(ends) = std::mem::replace(&mut worker.state, State::Started(process)) {
            descriptors.push(ends.socket);
            descriptors.extend(ends.output);
        }
        let is_doomed = worker.is_doomed;
        if has_ended {
            self.questions.ask(Question::Death(owner), now);
        } else if is_doomed {
            self.kill(owner, signals::SIGKILL, now);
        }
        Ok(pid)
    }

    /// A worker has been reaped. Returns its process id.
    fn on_died(&mut self, owner: Owner) -> Result<u32, Violation> {
        let process = self.workers.process(owner);
        let process = process.ok_or(Violation("the death of a worker that does not run"))?;
        if process.handle.as_ref().is_some_and(|handle| !handle.has_ended()) {
            return Err(Violation("the death of a worker that is alive"));
        }
        let pid = process.pid;
        self.workers.release(owner);
        let _ = self.questions.answered(|open| *open == Question::Death(owner));
        Ok(pid)
    }

    fn on_traced(&mut self, number: u32, now: Instant) -> Result<(), Violation> {
        let asked = |open: &Question| matches!(open, Question::Trace(_, asked) if *asked == number);
        let Some(Question::Trace(owner, _)) = self.questions.answered(asked) else {
            return Err(Violation("a trace that it was not asked for"));
        };
        let traces = |open: &Question| matches!(open, Question::Trace(other, _) if *other == owner);
        if self.questions.count(traces) == 0
            && let Some(process) = self.workers.process(owner)
        {
            process.kill_at = process.kill_at.map(|_| now); // it has waited for that
        }
        Ok(())
    }

    /// Takes figures. Returns them as far as the kernel bears them out, for all that run of the
    /// workers that were asked about.
    fn on_measured(&mut self, said: Vec<Usage>) -> Result<Vec<Usage>, Violation> {
        let asked = self.questions.answered(|open| matches!(open, Question::Measure(_)));
        let Some(Question::Measure(asked)) = asked else {
            return Err(Violation("figures that it was not asked for"));
        };
        let count = said.len();
        let said: HashMap<Owner, Usage> =
            said.into_iter().map(|usage| (usage.worker, usage)).collect();
        let are_asked = said.keys().all(|owner| asked.iter().any(|(asked, _)| asked == owner));
        if count != said.len() || !are_asked {
            return Err(Violation("figures of other workers than asked for"));
        }
        let mut measured = Vec::with_capacity(asked.len());
        for (owner, before) in asked {
            let Some(process) = self.workers.process(owner) else { continue };
            let usage = usage::of_worker(owner, process.pid, said.get(&owner), before);
            // Its id was its own all the time if it is alive now.
            if !process.has_ended && !process.handle.as_ref().is_some_and(|h| h.has_ended()) {
                measured.push(usage);
            }
        }
        Ok(measured)
    }

    /// Chooses the workers that are measured next, not all at once if they are many, and looks at
    /// them.
    pub(super) fn choose_measured(&mut self) -> Vec<(Owner, Option<Figures>)> {
        let running = |process: &Process| !process.has_ended;
        let all: Vec<_> = self.workers.processes().filter(|(_, p)| running(p)).collect();
        let after = all.partition_point(|(owner, _)| owner.index <= self.measured_last);
        let first = if all.len() > MEASURED_AT_ONCE { after } else { 0 };
        let chosen: Vec<_> = all
            .iter()
            .cycle()
            .skip(first)
            .take(all.len().min(MEASURED_AT_ONCE))
            .map(|(owner, process)| (*owner, Figures::of(process.pid)))
            .collect();
        self.measured_last = chosen.last().map_or(0, |(owner, _)| owner.index);
        chosen
    }

    /// Returns true if something is there that has not been heard.
    pub(super) fn has_unread(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut pipe = [PollFd::from_borrowed_fd(self.reports.as_fd(), PollFlags::IN)];
        self.reader.has_read() || poll(&mut pipe, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// Most workers that are looked at in one measurement: it takes a few milliseconds.
const MEASURED_AT_ONCE: usize = 64;

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

/// A stack that fits a message to the router, whatever it is made of.
fn bounded(stack: Stack) -> Stack {
    stack.map_err(shortened)
}
