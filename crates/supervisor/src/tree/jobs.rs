//! Jobs: commands of applications that run beside their pages.
//!
//! - Each process of a job is a child of this one, with the rights of a script of its application
//!   ([`job_launch`](crate::job_launch)). Which one starts and ends when is decided by
//!   [`JobState`].
//! - A process adopts what its descendants leave behind, and all of them are killed when it has
//!   ended: this process adopts them then, and they are orphans.
//! - A job whose command or application changes ends, and starts again when all of its processes
//!   have ended: no two versions of it run at the same time.
//! - Of two servers in an upgrade, the one that has been replaced ends its jobs, and the other one
//!   waits for that.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use howdah_jobs::state::{JobState, Next, Order};
use howdah_jobs::{Job, Now, StopSignal};
use howdah_sys::log::{Level, OfApplication};
use howdah_sys::pidfd::PidFd;
use howdah_sys::process_usage;
use howdah_sys::signals;
use howdah_wire::messages::{ApplicationSpec, Exit, Problem};
use rustix::process::{Pid, Signal, kill_process_group};

use super::applications::exit_of;
use super::job_pauses::Pauses;
use super::job_reports::LastLines;
use super::shared_runs::SharedRun;
use super::state::Tree;
use crate::job_launch::{JobLaunch, time_zone};
use crate::output::Output;
use crate::resources::Plan;

/// Interval at which the memory of processes is measured.
const MEMORY_INTERVAL: Duration = Duration::from_secs(2);

/// Time beyond the longest `stop_timeout` within which the server that this one has replaced has
/// ended its jobs.
const PREDECESSOR_MARGIN: Duration = Duration::from_secs(3);

/// Maximum length of the reason why a command could not be executed, in bytes.
const MAX_REASON_BYTES: usize = 4096;

/// The jobs of all applications.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    entries: Vec<Entry>,
    /// The jobs of the configuration, or whether they may run, may have changed.
    is_due: bool,
    /// They may run.
    may_run: bool,
    /// Time from which on this server is the one whose jobs run.
    owns_since: Option<Instant>,
    /// Time of the next measurement.
    next_measurement: Option<Instant>,
    pub(super) pauses: Pauses,
}

/// A job that runs, or ends.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) application: String,
    spec: ApplicationSpec,
    pub(super) state: JobState,
    /// Its processes by their slots.
    processes: BTreeMap<usize, Process>,
    /// Its last lines, also about its ends.
    pub(super) last_lines: LastLines,
    /// The last end in words.
    pub(super) last_end: Option<String>,
    /// The run that no other server of the cluster may join.
    pub(super) shared_run: Option<SharedRun>,
}

#[derive(Debug)]
struct Process {
    pid: u32,
    /// The pipe with the reason why the command could not be executed.
    failure: OwnedFd,
    handle: Option<Rc<PidFd>>,
    output: Option<Output>,
    group: Option<String>,
    /// Counter of out-of-memory kills of its control group.
    out_of_memory: Option<PathBuf>,
}

impl Entry {
    /// Returns the process ids.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.values().map(|process| process.pid)
    }
}

impl Process {
    /// Returns the reason why the command could not be executed, if the process has ended for that.
    fn failure(&self) -> Option<String> {
        let mut buffer = [0; MAX_REASON_BYTES];
        let length = rustix::io::read(&self.failure, &mut buffer).ok()?;
        let reason = String::from_utf8_lossy(buffer.get(..length)?).into_owned();
        (!reason.is_empty()).then_some(reason)
    }
}

impl Jobs {
    /// The jobs of the configuration may have changed.
    pub(super) fn look(&mut self) {
        self.is_due = true;
    }

    /// Returns true if no process of a job is left.
    pub(super) fn are_over(&self) -> bool {
        self.entries.iter().all(|entry| entry.processes.is_empty())
    }

    /// Returns the process ids.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes().map(|process| process.pid)
    }

    /// Returns the control groups.
    pub(super) fn control_groups(&self) -> impl Iterator<Item = &str> {
        self.processes().filter_map(|process| process.group.as_deref())
    }

    /// Returns the output of each process.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (u32, &Output)> {
        self.processes().filter_map(|process| Some((process.pid, process.output.as_ref()?)))
    }

    /// Replaces the processes of an application that is being restarted: its files have changed. A
    /// run of a timer goes on to its end.
    pub(super) fn restart(&mut self, application: &ApplicationSpec) {
        let is_concerned =
            |entry: &&mut Entry| entry.spec == *application && entry.state.job().timer.is_none();
        for entry in self.entries.iter_mut().filter(is_concerned) {
            for slot in entry.processes.keys() {
                entry.state.replace(*slot);
            }
        }
    }

    /// As [`Jobs::restart`], for an application without a prototype.
    pub(super) fn restart_named(&mut self, application: &str) {
        let spec = self.entries.iter().find(|entry| entry.application == application);
        if let Some(spec) = spec.map(|entry| entry.spec.clone()) {
            self.restart(&spec);
        }
    }

    /// Returns the jobs.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns a job that does not end, or else one that does.
    pub(super) fn entry(&mut self, application: &str, job: &str) -> Option<&mut Entry> {
        let named =
            |entry: &&mut Entry| entry.application == application && entry.state.job().name == job;
        self.entries.iter_mut().filter(named).min_by_key(|entry| entry.state.is_ending())
    }

    /// Returns all jobs, to change them.
    pub(super) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.entries.iter().flat_map(|entry| entry.processes.values())
    }

    fn find(&mut self, pid: u32) -> Option<(&mut Entry, usize)> {
        self.entries.iter_mut().find_map(|entry| {
            let found = entry.processes.iter().find(|(_, process)| process.pid == pid);
            let slot = *found?.0;
            Some((entry, slot))
        })
    }

    /// Ends the jobs that the configuration does not have any more, or not in this way, and begins
    /// those that are new. One that is new under the name of one that ends waits for its end.
    /// Returns the timers that cannot begin, with the reasons.
    fn follow(
        &mut self,
        wanted: &[(&str, &ApplicationSpec, &Job)],
        now: Now,
    ) -> Vec<(String, String, Problem)> {
        self.is_due = false;
        for entry in &mut self.entries {
            let is_same = |(application, spec, job): &(&str, &ApplicationSpec, &Job)| {
                entry.application == *application
                    && entry.state.job() == *job
                    && entry.spec == **spec
            };
            if !wanted.iter().any(is_same) {
                entry.state.end();
            }
        }
        let mut problems = Vec::new();
        for (application, spec, job) in wanted {
            let is_known = |entry: &Entry| {
                entry.application == *application && entry.state.job().name == job.name
            };
            if self.entries.iter().any(is_known) {
                continue;
            }
            let application = (*application).to_owned();
            let zone = match time_zone(job) {
                Ok(zone) => zone,
                Err(problem) => {
                    problems.push((application, job.name.clone(), problem));
                    continue;
                }
            };
            let seed = RandomState::new().hash_one(&application);
            let mut state = JobState::new((*job).clone(), zone, seed, now);
            if self.pauses.has(&application, &job.name) {
                state.pause();
            }
            self.entries.push(Entry {
                application,
                spec: (*spec).clone(),
                state,
                processes: BTreeMap::new(),
                last_lines: LastLines::default(),
                last_end: None,
                shared_run: None,
            });
        }
        problems
    }
}

impl Tree {
    /// Starts, stops and kills the processes of jobs that are due.
    pub(super) fn advance_jobs(&mut self, now: Instant) {
        let times = both(now);
        let may_run = self.may_run_jobs(now);
        self.jobs.is_due |= self.jobs.may_run != may_run;
        self.jobs.may_run = may_run;
        if self.jobs.is_due {
            let grants = &self.changes.current.grants;
            let all = grants.jobs.iter().filter(|_| may_run);
            let wanted: Vec<_> = all
                .filter_map(|(name, jobs)| Some((name, grants.applications.get(name)?, jobs)))
                .flat_map(|(name, spec, jobs)| {
                    jobs.iter().map(move |job| (name.as_str(), spec, job))
                })
                .collect();
            for (application, name, problem) in self.jobs.follow(&wanted, times) {
                self.log.about(&OfApplication(&application)).write(
                    Level::Error,
                    format_args!("\"{application}\" job \"{name}\": it does not run: {problem}"),
                );
            }
        }
        self.measure_jobs(now);
        self.hold_shared_runs(now);
        let shares_timers = self.changes.current.grants.shares_timers;
        for index in 0..self.jobs.entries.len() {
            let orders = match self.jobs.entries.get_mut(index) {
                Some(entry) => {
                    entry.state.share(shares_timers);
                    entry.state.orders(times)
                }
                None => Vec::new(),
            };
            for order in orders {
                match order {
                    Order::Start(slot) => self.start_job(index, slot, now),
                    Order::Stop(slot) => self.stop_job(index, slot),
                    Order::Kill(slot) => self.kill_job(index, slot, now),
                    Order::ReportLate(slot) => self.report_late(index, slot),
                    Order::ReportLeftOut => self.report_left_out(index),
                    Order::Claim(time) => self.claim_run(index, time),
                    Order::ReportUnclaimed => self.report_unclaimed(index),
                }
            }
        }
        let count = self.jobs.entries.len();
        self.jobs.entries.retain(|entry| !entry.state.is_over());
        self.jobs.is_due |= self.jobs.entries.len() < count;
    }

    /// Returns the time of the next step with jobs.
    pub(super) fn jobs_due(&self, now: Instant) -> Option<Instant> {
        let jobs = &self.jobs;
        let times = both(now);
        let of_states = jobs.entries.iter().filter_map(|entry| entry.state.due(times));
        let waits = self.jobs_wait_until(now).filter(|until| *until > now).into_iter();
        let held = jobs.shared_runs_due();
        let others = waits.chain(jobs.next_measurement).chain(held);
        of_states.chain(jobs.is_due.then_some(now)).chain(others).min()
    }

    /// Returns true if jobs may run now.
    fn may_run_jobs(&mut self, now: Instant) -> bool {
        let is_owner = self.has_served
            && self.shutdown.is_none()
            && !self.upgrade.is_standby
            && !self.upgrade.is_replaced();
        if !is_owner {
            self.jobs.owns_since = None;
            self.jobs.pauses.forget();
            return false;
        }
        self.jobs.owns_since.get_or_insert(now);
        self.jobs_wait_until(now).is_none_or(|until| until <= now) && self.pauses_are_known()
    }

    /// Returns the time until which jobs wait for the end of those of the server that this one has
    /// replaced; `None` if they need not.
    fn jobs_wait_until(&self, now: Instant) -> Option<Instant> {
        self.upgrade.predecessor.as_ref()?;
        let all = self.changes.current.grants.jobs.values().flatten();
        let longest = all.map(|job| job.stop_timeout).max()?;
        Some(self.jobs.owns_since.unwrap_or(now) + longest + PREDECESSOR_MARGIN)
    }

    /// Has jobs that end when the server does killed now, if the administrator asks again.
    pub(super) fn hurry_jobs(&mut self) {
        if self.shutdown.as_ref().is_some_and(|shutdown| !shutdown.is_graceful) {
            let now = Instant::now();
            self.jobs.entries.iter_mut().for_each(|entry| entry.state.hurry(now));
        }
    }

    fn start_job(&mut self, index: usize, slot: usize, now: Instant) {
        let Some(entry) = self.jobs.entries.get(index) else { return };
        let processes = self.processes_of_user(&entry.spec);
        let job = entry.state.job();
        let mut plan = Plan::of(&entry.spec);
        let guarded = plan.guarded(&entry.spec, processes);
        let started = JobLaunch::new(&self.options, &guarded, job).and_then(|launch| {
            let unstartable = |error: std::io::Error| Problem::of(error);
            let (output, writer) = Output::of_job(&job.name).map_err(unstartable)?;
            let groups = &mut self.control_groups;
            let (pid, failure) = launch.start(writer, &mut plan, groups).map_err(unstartable)?;
            Ok((pid, failure, output))
        });
        let (application, name) = (entry.application.clone(), job.name.clone());
        let Some(entry) = self.jobs.entries.get_mut(index) else { return };
        match started {
            Ok((pid, failure, output)) => {
                let process = Process {
                    pid,
                    failure,
                    handle: PidFd::open(pid).ok().map(Rc::new),
                    output: Some(output),
                    out_of_memory: plan.group.as_ref().and_then(|_| self.control_groups.watch(pid)),
                    group: plan.group,
                };
                entry.processes.insert(slot, process);
                if entry.state.job().memory.is_some() {
                    self.jobs.next_measurement.get_or_insert(now + MEMORY_INTERVAL);
                }
            }
            Err(problem) => {
                let next = entry.state.ended(slot, false, now).next;
                let event = format!("it cannot be started: {problem}");
                entry.keep_end(&event);
                let shared_run = entry.shared_run.take();
                self.log.about(&OfApplication(&application)).write(
                    Level::Error,
                    format_args!("\"{application}\" job \"{name}\": {event}{}", shown(next)),
                );
                self.end_shared_run(&application, &name, shared_run);
            }
        }
    }

    /// Sends the stop signal to the process group of a job's process, which leads it.
    fn stop_job(&self, index: usize, slot: usize) {
        let Some(entry) = self.jobs.entries.get(index) else { return };
        let Some(process) = entry.processes.get(&slot) else { return };
        let signal = match entry.state.job().stop_signal {
            StopSignal::Hup => Signal::HUP,
            StopSignal::Int => Signal::INT,
            StopSignal::Kill => Signal::KILL,
            StopSignal::Quit => Signal::QUIT,
            StopSignal::Term => Signal::TERM,
            StopSignal::Usr1 => Signal::USR1,
            StopSignal::Usr2 => Signal::USR2,
        };
        // It is not reaped yet, so no other group has its id.
        let group = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let sent = kill_process_group(group, signal);
            // It does not lead a group yet: it has just been forked.
            if let (Err(_), Some(handle)) = (sent, &process.handle) {
                let _ = handle.send(signal.as_raw());
            }
            // One that is stopped does not see the signal otherwise.
            let _ = kill_process_group(group, Signal::CONT);
        }
    }

    /// Kills the process of a job with all that it has started.
    fn kill_job(&mut self, index: usize, slot: usize, now: Instant) {
        let Some(entry) = self.jobs.entries.get(index) else { return };
        let Some(process) = entry.processes.get(&slot) else { return };
        let (application, job) = (&entry.application, entry.state.job());
        self.log.about(&OfApplication(application)).write(
            Level::Warn,
            format_args!(
                "\"{application}\" job \"{}\": process {} is killed: it has not ended within its \
                 stop_timeout of {} s",
                job.name,
                process.pid,
                job.stop_timeout.as_secs()
            ),
        );
        match &process.handle {
            Some(handle) => self.orphans.add(process.pid, Rc::clone(handle), now),
            None => drop(signals::send(process.pid, signals::SIGKILL)),
        }
    }

    fn report_late(&self, index: usize, slot: usize) {
        let Some(entry) = self.jobs.entries.get(index) else { return };
        let (application, job) = (&entry.application, entry.state.job());
        let pid = entry.processes.get(&slot).map_or(0, |process| process.pid);
        let timeout = job.timer.as_ref().and_then(|timer| timer.timeout).unwrap_or_default();
        self.log.about(&OfApplication(application)).write(
            Level::Warn,
            format_args!(
                "\"{application}\" job \"{}\": process {pid} is asked to end: it has run for its \
                 timeout of {} s",
                job.name,
                timeout.as_secs()
            ),
        );
    }

    fn report_left_out(&self, index: usize) {
        let Some(entry) = self.jobs.entries.get(index) else { return };
        let (application, job) = (&entry.application, entry.state.job());
        let is_limited = job.timer.as_ref().is_some_and(|timer| timer.overlap);
        let reason = if is_limited {
            format!("{} runs go on", entry.processes.len())
        } else {
            "the run before goes on; \"overlap\" would allow both".to_owned()
        };
        self.log.about(&OfApplication(application)).write(
            Level::Warn,
            format_args!("\"{application}\" job \"{}\": a run is left out: {reason}", job.name),
        );
    }

    /// Replaces processes that use more memory than their jobs may.
    fn measure_jobs(&mut self, now: Instant) {
        if self.jobs.next_measurement.is_none_or(|next| next > now) {
            return;
        }
        let mut is_measured = false;
        for entry in &mut self.jobs.entries {
            let Some(limit) = entry.state.job().memory else { continue };
            for (slot, process) in &entry.processes {
                is_measured = true;
                let all = process_usage::tree(process.pid).unwrap_or_default();
                let used: u64 = all.iter().map(|one| process_usage::private_memory(one.pid)).sum();
                if used > limit && entry.state.replace(*slot) {
                    let (application, name) = (&entry.application, &entry.state.job().name);
                    self.log.about(&OfApplication(application)).write(
                        Level::Warn,
                        format_args!(
                            "\"{application}\" job \"{name}\": process {} uses {} MiB, more than \
                             \"memory\" allows, and is replaced",
                            process.pid,
                            used >> 20
                        ),
                    );
                }
            }
        }
        self.jobs.next_measurement = is_measured.then(|| now + MEMORY_INTERVAL);
    }

    /// Logs output of a process of a job.
    pub(super) fn on_job_output(&mut self, pid: u32) {
        let Some((entry, slot)) = self.jobs.find(pid) else { return };
        let Some(process) = entry.processes.get_mut(&slot) else { return };
        if let Some(output) = &mut process.output {
            let is_open = output.drain(&entry.application, &self.log);
            output.take_lines().for_each(|line| entry.last_lines.push(line));
            if !is_open {
                process.output = None;
            }
        }
    }

    /// Records the end of a child that is a process of a job. Returns false if it is none.
    pub(super) fn job_ended(&mut self, pid: u32, exit: Exit) -> bool {
        self.on_job_output(pid);
        let Some((entry, slot)) = self.jobs.find(pid) else { return false };
        let Some(process) = entry.processes.remove(&slot) else { return false };
        let counter = process.out_of_memory.as_deref();
        let exit = exit_of(exit, counter, &mut self.control_groups);
        let is_success = exit == Exit::Status(0);
        let end = entry.state.ended(slot, is_success, Instant::now());
        let level = if end.has_failed { Level::Error } else { Level::Info };
        let (application, name) = (&entry.application, &entry.state.job().name);
        let event = match process.failure() {
            Some(reason) => format!("it cannot be started: {reason}"),
            None if end.was_asked => format!("process {pid} {exit}, as it was asked to"),
            None => format!("process {pid} {exit}"),
        };
        self.log.about(&OfApplication(application)).write(
            level,
            format_args!("\"{application}\" job \"{name}\": {event}{}", shown(end.next)),
        );
        let (application, name) = (application.clone(), name.clone());
        entry.keep_end(&event);
        let shared_run = entry.shared_run.take();
        self.end_shared_run(&application, &name, shared_run);
        true
    }
}

/// Returns the text for what follows the end of a process.
fn shown(next: Next) -> String {
    match next {
        Next::Start(delay) if delay >= Duration::from_secs(1) => {
            format!("; it starts again in {} s", delay.as_secs())
        }
        Next::Start(_) => "; it starts again".to_owned(),
        Next::Nothing => String::new(),
    }
}

/// Returns a time by both clocks.
pub(super) fn both(monotonic: Instant) -> Now {
    Now { monotonic, wall: SystemTime::now() }
}
