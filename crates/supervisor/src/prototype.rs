//! Applications: a prototype each, which has loaded PHP and forks the workers.
//!
//! A prototype has the user of its scripts. It cannot be traced by them, but it may be stopped, or
//! taken over from within; so it decides about nothing here: sockets are made by the supervisor,
//! workers are killed by the supervisor, their deaths are told by the kernel, and a prototype that
//! owes an answer for too long is killed with all that is below it.

mod questions;
mod reports;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_sys::family::{self, Endings};
use howdah_sys::{packet, pipe, signals};
use howdah_wire::messages::{ApplicationSpec, FromSupervisor, MAX_REPORT, Problem, ToPrototype};
use howdah_wire::queue::Owner;
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;

use self::questions::{ANSWER_TIME, MAX_SPAWNS, MAX_TRACES, Question, Questions, SLOW_ANSWER_TIME};
use self::workers::{Ends, State, Workers};
use crate::control_groups::ControlGroups;
use crate::identity::Identity;
use crate::launch::New;
use crate::options::Options;
use crate::output::Output;

pub(crate) use self::reports::{Report, Violation};

/// Between two looks at what a prototype does that owes an answer.
const LOOK: Duration = Duration::from_millis(100);

/// An application's prototype and what is known of its workers.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// It has a process namespace of its own.
    hides_processes: bool,
    /// Where the prototype is told what to do.
    commands: OwnedFd,
    /// What it says comes here.
    reports: OwnedFd,
    reader: pipe::Reader,
    pub(crate) output: Option<Output>,
    stage: Stage,
    /// When it must be gone; set once it was told to stop.
    pub(crate) deadline: Option<Instant>,
    /// It was told to end at once.
    is_dismissed: bool,
    /// Why it cannot run, as the prototype said, or why it was killed.
    pub(crate) failure: Option<Problem>,
    workers: Workers,
    /// Workers that the prototype is still to be asked for.
    to_spawn: VecDeque<Owner>,
    questions: Questions,
    /// The last worker that was measured.
    measured_last: u16,
    /// Since when a signal has stopped the prototype.
    stopped_since: Option<Instant>,
    /// Workers that are being killed, with what they have started.
    endings: Endings,
    /// Its control group.
    pub(crate) control_group: Option<String>,
    /// Where the kernel counts whom it kills for want of memory.
    pub(crate) out_of_memory: Option<PathBuf>,
    /// Who shall be able to open the pipes of its workers' output: `/dev/stderr` is such a way.
    /// `None` if both outputs are files and there are no pipes.
    output_of: Option<(Option<u32>, Option<u32>)>,
}

/// How far a prototype is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It loads PHP.
    Loading,
    /// It can start workers.
    Ready,
    /// It has said why it cannot run, and ends.
    Failed,
    /// It has been killed; what it says is not heard any more.
    Killed,
}

impl Application {
    /// Starts a prototype. The error is for the log and the control API.
    pub(crate) fn start(
        options: &Options,
        spec: &ApplicationSpec,
        descriptors: &[OwnedFd],
        groups: &mut ControlGroups,
    ) -> Result<Self, String> {
        let Requirements { executable, identity } =
            requirements(options, spec).map_err(|problem| problem.to_string())?;
        let start = || -> std::io::Result<Self> {
            let (output, writer) = Output::new()?;
            let (commands, socket) = packet::one_way()?;
            let (reports, reporting) = pipe::new()?;
            let new = New {
                spec,
                identity: &identity,
                executable,
                socket,
                reports: reporting,
                output: writer,
                only_looks: false,
            };
            let pid = new.start(groups)?;
            let hello =
                ToPrototype::Hello { spec: spec.clone(), tmp: options.tmp.display().to_string() };
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match packet::send(&commands, &hello.encode(), &descriptors) {
                // It has ended already; why, it has reported.
                Ok(()) | Err(Errno::PIPE) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(Application {
                hides_processes: spec.isolation.pid_namespace,
                output: Some(output),
                control_group: spec.isolation.cgroup.clone(),
                out_of_memory: groups.watch(pid),
                output_of: (spec.stdout.is_none() || spec.stderr.is_none())
                    .then(|| identity.outside()),
                ..Application::new(spec.name.clone(), pid, commands, reports)
            })
        };
        start().map_err(|error| format!("cannot start a process: {error}"))
    }

    /// Of a process that has been started.
    fn new(name: String, pid: u32, commands: OwnedFd, reports: OwnedFd) -> Self {
        Application {
            name,
            pid,
            hides_processes: false,
            commands,
            reports,
            reader: pipe::Reader::new(MAX_REPORT),
            output: None,
            stage: Stage::Loading,
            deadline: None,
            is_dismissed: false,
            failure: None,
            workers: Workers::default(),
            to_spawn: VecDeque::new(),
            questions: Questions::default(),
            measured_last: 0,
            stopped_since: None,
            endings: Endings::default(),
            control_group: None,
            out_of_memory: None,
            output_of: None,
        }
    }

    // -- what to wait for --

    /// Becomes readable when the prototype says something; `None` if it is not heard any more.
    pub(crate) fn reports(&self) -> Option<BorrowedFd<'_>> {
        (self.stage != Stage::Killed).then(|| self.reports.as_fd())
    }

    /// Returns true if there is something to hear that was read already.
    pub(crate) fn has_read(&self) -> bool {
        self.stage != Stage::Killed && self.reader.has_read()
    }

    /// Descriptors that become readable when workers end.
    pub(crate) fn deaths(&self) -> impl Iterator<Item = (Owner, BorrowedFd<'_>)> {
        let running = self.workers.processes().filter(|(_, process)| !process.has_ended);
        running.filter_map(|(owner, process)| Some((owner, process.handle.as_ref()?.as_fd())))
    }

    /// When [`Application::step`] has something to do.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let kills = self.workers.processes().filter_map(|(_, process)| process.kill_at);
        let judged = match self.is_judged() {
            true => self.questions.oldest().into_iter().chain(self.stopped_since).min(),
            false => None,
        };
        let judged = judged.map(|since| (since + ANSWER_TIME).max(now + LOOK));
        self.deadline.into_iter().chain(kills).chain(judged).chain(self.endings.due()).min()
    }

    // -- workers --

    /// Wants another worker. `Err` says why there can be none.
    pub(crate) fn spawn(&mut self) -> Result<(), String> {
        let worker = self.workers.reserve().ok_or("there are too many workers")?;
        self.to_spawn.push_back(worker);
        Ok(())
    }

    /// Asks the prototype for the workers that are wanted, as many at once as it may be asked for.
    /// Returns what the router must know of those that cannot be had.
    pub(crate) fn ask_for_workers(&mut self, number: u32, now: Instant) -> Vec<FromSupervisor> {
        let mut failures = Vec::new();
        let spawns = |question: &Question| matches!(question, Question::Spawn(_));
        while self.stage == Stage::Ready
            && !self.is_dismissed
            && self.questions.count(spawns) < MAX_SPAWNS
            && let Some(worker) = self.to_spawn.pop_front()
        {
            match self.ask_for(worker) {
                Ok(()) => self.questions.ask(Question::Spawn(worker), now),
                // It has not read the questions before this one.
                Err(error)
                    if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error())
                        && self.questions.oldest().is_some() =>
                {
                    self.to_spawn.push_front(worker);
                    break;
                }
                Err(error) => {
                    self.workers.release(worker);
                    let message = error.to_string();
                    failures.push(FromSupervisor::NotStarted { application: number, message });
                }
            }
        }
        failures
    }

    fn ask_for(&mut self, worker: Owner) -> std::io::Result<()> {
        let (socket, theirs) = packet::one_way()?;
        let mut descriptors = vec![theirs];
        let mut output = None;
        if let Some((user, group)) = self.output_of {
            // Made here, so that no worker can ever make reading it block.
            let (read, write) = pipe::new()?;
            let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
            if user.is_some() || group.is_some() {
                let _ = rustix::fs::fchown(&write, user, group);
            }
            output = Some(read);
            descriptors.push(write);
        }
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        packet::send(&self.commands, &ToPrototype::Spawn { worker }.encode(), &descriptors)?;
        if let Some(worker) = self.workers.get(worker) {
            worker.state = State::Asked(Ends { socket, output });
        }
        Ok(())
    }

    /// Sends a signal to a worker if it is still this one. SIGKILL ends what it has started too; a
    /// worker whose script is being looked for is stopped, and killed afterwards.
    pub(crate) fn kill(&mut self, worker: Owner, signal: i32, now: Instant) {
        let traces =
            |open: &Question| matches!(open, Question::Trace(other, _) if *other == worker);
        let is_traced = self.questions.count(traces) > 0;
        let Some(known) = self.workers.get(worker) else { return };
        let State::Started(process) = &mut known.state else {
            known.is_doomed |= signal == signals::SIGKILL;
            return;
        };
        let by_itself = match (&process.handle, signal) {
            _ if process.has_ended => true,
            (Some(handle), signals::SIGKILL) => {
                let stopped = handle.send(signals::SIGSTOP);
                process.kill_at = Some(if is_traced { now + ANSWER_TIME } else { now });
                stopped != Err(Errno::PERM)
            }
            (Some(handle), signal) => handle.send(signal) != Err(Errno::PERM),
            (None, _) => false,
        };
        if by_itself {
            self.kill_if_due(now);
            return;
        }
        process.kill_at = None;
        let _ = self.tell(&ToPrototype::Kill { worker, signal: signal as u8 });
        if signal == signals::SIGKILL {
            let _ = self.questions.answered(|open| *open == Question::Death(worker));
            self.questions.ask(Question::Death(worker), now);
        }
    }

    fn kill_if_due(&mut self, now: Instant) {
        for (_, process) in self.workers.processes_mut() {
            if process.kill_at.is_some_and(|due| due <= now) {
                process.kill_at = None;
                if let Some(handle) = &process.handle {
                    self.endings.add(process.pid, Rc::clone(handle), now);
                }
            }
        }
    }

    /// The kernel has told a worker's end: its prototype is to say how it ended.
    pub(crate) fn worker_ended(&mut self, worker: Owner, now: Instant) {
        if let Some(process) = self.workers.process(worker) {
            process.has_ended = true;
            self.questions.ask(Question::Death(worker), now);
        }
    }

    /// Asks what its workers cost, unless that has been asked and is not answered.
    pub(crate) fn measure(&mut self, now: Instant) {
        let measures = |question: &Question| matches!(question, Question::Measure(_));
        if self.stage != Stage::Ready || self.is_dismissed || self.questions.count(measures) > 0 {
            return;
        }
        let chosen = self.choose_measured();
        let workers = chosen.iter().map(|(owner, _)| *owner).collect();
        if self.tell(&ToPrototype::Measure { workers }).is_ok() {
            self.questions.ask(Question::Measure(chosen), now);
        }
    }

    /// Asks where a worker's script is; `Err` says why that cannot be asked.
    pub(crate) fn trace(&mut self, worker: Owner, number: u32, now: Instant) -> Result<(), String> {
        let traces = |question: &Question| matches!(question, Question::Trace(..));
        if self.workers.process(worker).is_none_or(|process| process.has_ended) {
            return Err("its worker has ended".to_owned());
        }
        if self.questions.count(traces) >= MAX_TRACES {
            return Err("too many scripts are looked for at once".to_owned());
        }
        let told = self.tell(&ToPrototype::Trace { worker, number });
        told.map_err(|error| error.to_string())?;
        self.questions.ask(Question::Trace(worker, number), now);
        Ok(())
    }

    /// Returns true if all workers have left.
    pub(crate) fn is_idle(&self) -> bool {
        self.workers.is_empty()
    }

    // -- the prototype --

    /// A signal has stopped the prototype, or made it go on.
    pub(crate) fn set_stopped(&mut self, is_stopped: bool, now: Instant) {
        self.stopped_since = is_stopped.then_some(self.stopped_since.unwrap_or(now));
    }

    /// Whether it is to answer: not when it is about to end anyway.
    fn is_judged(&self) -> bool {
        !self.is_dismissed && matches!(self.stage, Stage::Loading | Stage::Ready)
    }

    /// Does what is due. Returns why the prototype must be killed, if it must.
    pub(crate) fn step(&mut self, now: Instant) -> Option<&'static str> {
        self.kill_if_due(now);
        self.endings.step_if_due(now);
        if !self.is_judged() {
            return None;
        }
        let longer = |since: Option<Instant>, time| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= time)
        };
        if longer(self.stopped_since, ANSWER_TIME) {
            return Some("it was stopped by a signal");
        }
        // Where this process was kept from running, answers may lie here.
        if !longer(self.questions.oldest(), ANSWER_TIME) || self.has_unread() {
            return None;
        }
        if longer(self.questions.oldest(), SLOW_ANSWER_TIME) {
            return Some("it has not answered for ten seconds");
        }
        // One that waits for a processor, a disk or its debugger is slow; one that sleeps is not
        // going to answer.
        let is_slow = matches!(family::state_of(self.pid), Some(b'R' | b'D' | b't'));
        (!is_slow).then_some("it does not answer")
    }

    /// Kills the prototype and hears nothing more from it. SIGCHLD reports its end.
    pub(crate) fn terminate(&mut self, reason: Option<&str>) {
        self.stage = Stage::Killed;
        if let Some(reason) = reason {
            self.failure = Some(Problem::of(format_args!("its prototype was killed: {reason}")));
        }
        let _ = signals::send(self.pid, signals::SIGKILL);
    }

    /// It must be gone after this time, or earlier if that was said before.
    pub(crate) fn end_within(&mut self, grace: Duration, now: Instant) {
        let deadline = now.checked_add(grace);
        self.deadline = self.deadline.into_iter().chain(deadline).min();
    }

    /// Kills what is left of its workers: the prototype has ended.
    pub(crate) fn kill_workers(&self) {
        for handle in self.workers.processes().filter_map(|(_, process)| process.handle.as_ref()) {
            let _ = handle.send(signals::SIGKILL);
        }
    }

    /// Ends it: with its workers, and with what they leave removed. The second time it is killed.
    pub(crate) fn dismiss(&mut self) {
        let told = rustix::net::shutdown(&self.commands, rustix::net::Shutdown::Write);
        if self.is_dismissed || told.is_err() {
            let _ = signals::send(self.pid, signals::SIGKILL);
        }
        self.is_dismissed = true;
    }

    fn tell(&self, message: &ToPrototype) -> std::io::Result<()> {
        Ok(packet::send(&self.commands, &message.encode(), &[])?)
    }
}

/// What a prototype is started with.
pub(crate) struct Requirements {
    pub(crate) executable: File,
    pub(crate) identity: Identity,
}

/// Looks for what an application needs.
pub(crate) fn requirements(
    options: &Options,
    spec: &ApplicationSpec,
) -> Result<Requirements, Problem> {
    let program = options.php_for(&spec.php_version);
    let program = program.ok_or_else(|| Problem::at("type", missing(options, spec)))?;
    let executable = File::open(&program.path).map_err(|error| {
        Problem::of(format_args!("cannot open {}: {error}", program.path.display()))
    })?;
    let identity = Identity::of(spec, options.user.as_ref(), options.private_user)?;
    Ok(Requirements { executable, identity })
}

fn missing(options: &Options, spec: &ApplicationSpec) -> String {
    let wanted = match spec.php_version.as_str() {
        "" => "PHP".to_owned(),
        version => format!("PHP {version}"),
    };
    let have: Vec<_> = options.php.iter().map(|program| program.version.as_str()).collect();
    if have.is_empty() {
        format!(
            "{wanted} is not available: no howdah-php program could be run beside howdah; \
             install the package libphp8.2-embed"
        )
    } else {
        format!("{wanted} is not available; there is PHP {}", have.join(", "))
    }
}
