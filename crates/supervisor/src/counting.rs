//! Counts the resources of an application where no control group limits them, and decides what is
//! ended.
//!
//! The processes of an application are its prototype and all that descend from it: the prototype
//! adopts those whose parents have ended. All figures are the kernel's. Memory that workers share
//! with the prototype since their fork counts once, so does shared memory of workers such as
//! OPcache's. Shared memory of programs counts for each: they could share it with nobody.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use howdah_sys::process_usage::{ProcessMemory, ProcessUsage};
use howdah_wire::messages::ResourceLimits;

/// Maximum number of processes and threads of one worker that are ended at once without the worker.
const MAX_OF_A_WORKER: u64 = 8;

/// Maximum number of programs that are ended at once.
const MAX_ENDED: usize = 256;

/// Multiple of the limit of processes. If more have been ended in a series of excesses, all processes
/// of the application are ended but the prototype and the template: those that are allowed to stay
/// start others.
const MAX_ENDED_IN_SERIES: u64 = 4;

/// Number of excesses in a series, and its duration, after which all are ended.
const MAX_SERIES: (u32, Duration) = (10, Duration::from_secs(2));

/// Time without an excess after which a series is over.
const CALM: Duration = Duration::from_secs(10);

/// Minimum time over which processor time is measured.
const PROCESSOR_WINDOW: Duration = Duration::from_millis(900);

/// Minimum interval between two lines of the log about the limits of an application.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Minimum interval between two counts while a limit is near.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

/// The processes of an application.
#[derive(Debug, Default)]
pub(crate) struct Family {
    members: Vec<Member>,
    /// The most shared memory that a worker, the template or the prototype uses, in bytes.
    shared: u64,
}

/// A process of an application.
#[derive(Debug)]
struct Member {
    usage: ProcessUsage,
    role: Role,
    /// The child of the prototype that it is, or descends from.
    branch: u32,
    /// The program started by a script that it is, or descends from.
    program: Option<u32>,
    /// Memory that counts, in bytes.
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Prototype,
    Template,
    Worker,
    Program,
}

/// Process ids of the processes of an application that the supervisor knows.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) prototype: u32,
    pub(crate) template: Option<u32>,
    pub(crate) workers: HashSet<u32>,
    /// Processes that are being ended, with all below them.
    pub(crate) ending: HashSet<u32>,
}

/// A process that is ended, with all below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A worker, with its request.
    Worker(u32),
    /// A program that a script has started, or what is left of it.
    Program { pid: u32, started: u64 },
    /// All workers and programs.
    All,
}

/// What is known of an application from one count to the next.
#[derive(Debug, Default)]
pub(crate) struct State {
    memory: Option<(Instant, u64)>,
    tasks: Option<(Instant, u64)>,
    ticks: Option<(Instant, u64)>,
    /// The current series of excesses of processes.
    series: Option<Series>,
    /// Its workers and programs have a lower priority.
    pub(crate) is_lowered: bool,
    /// The last count found a worker, which may have left programs since then, or a program.
    pub(crate) is_active: bool,
    /// The processor time or the number of processes has changed between the last two counts.
    pub(crate) is_busy: bool,
    /// Both of them at the last count.
    last: (u64, u64),
    /// Lines of the log about processes, and about memory.
    lines: [Lines; 2],
}

/// Excesses of processes one after another.
#[derive(Debug)]
struct Series {
    begun: Instant,
    last: Instant,
    count: u32,
    /// Number of processes and threads that were too many, in all.
    ended: u64,
}

/// Lines of the log about one kind of limit.
#[derive(Debug, Default)]
struct Lines {
    /// Time from which on there may be another one.
    next: Option<Instant>,
    /// Number of those that were left out since the last one.
    left_out: u32,
}

/// The result of a count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What is ended.
    pub(crate) ends: Vec<End>,
    /// It is ended for want of memory.
    pub(crate) is_for_memory: bool,
    /// The reason, for the log.
    pub(crate) reason: String,
    /// Maximum time until the next count; `None` if no limit is near.
    pub(crate) soon: Option<Duration>,
    /// Whether its workers and programs have a lower priority from now on; `None` for no change.
    pub(crate) lower: Option<bool>,
}

impl Family {
    /// Takes the processes of an application, without those that are being ended. `all` are its
    /// prototype and the descendants of that, parents before their children.
    pub(crate) fn of(known: &Known, all: Vec<ProcessUsage>) -> Family {
        let mut members: Vec<Member> = Vec::new();
        let mut numbers = HashMap::new();
        for usage in all {
            let pid = usage.pid;
            // One that has ended takes a place until its parent waits for it, as the kernel's limits
            // count, too. The prototype does so at once.
            if usage.has_ended() && [pid, usage.parent].contains(&known.prototype) {
                continue;
            }
            let (role, branch, program) = if pid == known.prototype {
                (Role::Prototype, 0, None)
            } else if known.ending.contains(&pid) {
                continue;
            } else {
                let Some(parent) = numbers.get(&usage.parent).and_then(|n: &usize| members.get(*n))
                else {
                    continue;
                };
                let of_prototype = parent.role == Role::Prototype;
                let role = match () {
                    () if of_prototype && known.workers.contains(&pid) => Role::Worker,
                    () if of_prototype && known.template == Some(pid) => Role::Template,
                    () => Role::Program,
                };
                let program = parent.program.or((role == Role::Program).then_some(pid));
                (role, if of_prototype { pid } else { parent.branch }, program)
            };
            numbers.insert(pid, members.len());
            members.push(Member { usage, role, branch, program, bytes: 0 });
        }
        Family { members, shared: 0 }
    }

    /// Reads the memory of its processes.
    pub(crate) fn measure(&mut self, read: impl Fn(u32) -> Option<ProcessMemory>) {
        let mut base = 0;
        for member in &mut self.members {
            let memory = read(member.usage.pid).unwrap_or_default();
            // The prototype is the first. Forks share its memory until they change it.
            let own = match member.role {
                Role::Prototype => {
                    base = memory.anonymous;
                    memory.anonymous
                }
                Role::Template | Role::Worker => memory.anonymous.saturating_sub(base),
                Role::Program => memory.anonymous.saturating_add(memory.shared),
            };
            member.bytes = own.saturating_add(memory.swapped);
            if member.role != Role::Program {
                self.shared = self.shared.max(memory.shared);
            }
        }
    }

    /// Returns the process ids of workers and programs.
    pub(crate) fn changeable(&self) -> impl Iterator<Item = u32> {
        let all = self.members.iter();
        all.filter(|member| matches!(member.role, Role::Worker | Role::Program))
            .map(|member| member.usage.pid)
    }

    /// Returns the process ids of all.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|member| member.usage.pid)
    }

    fn bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes).fold(self.shared, u64::saturating_add)
    }

    fn tasks(&self) -> u64 {
        self.members.iter().map(|member| u64::from(member.usage.threads)).sum()
    }

    fn ticks(&self) -> u64 {
        self.members.iter().map(|member| member.usage.ticks).fold(0, u64::saturating_add)
    }

    fn end_of(&self, pid: u32) -> Option<End> {
        let member = self.members.iter().find(|member| member.usage.pid == pid)?;
        match member.role {
            Role::Worker => Some(End::Worker(pid)),
            Role::Program => Some(End::Program { pid, started: member.usage.started }),
            Role::Prototype | Role::Template => None,
        }
    }

    /// Returns the worker, or the program that none has, with the most memory, and its bytes.
    fn largest(&self) -> Option<(End, u64)> {
        let mut branches = BTreeMap::<u32, u64>::new();
        for member in &self.members {
            let bytes = branches.entry(member.branch).or_default();
            *bytes = bytes.saturating_add(member.bytes);
        }
        let ends = branches.into_iter().filter_map(|(pid, bytes)| Some((self.end_of(pid)?, bytes)));
        ends.max_by_key(|(_, bytes)| *bytes)
    }

    /// Returns the programs to end until at most `limit` processes and threads are left: those with
    /// the most first, of equal ones the newest. Where these are many of one worker, the worker with
    /// all of its own: it would start others.
    fn surplus(&self, limit: u64) -> Vec<End> {
        let mut programs = BTreeMap::<u32, (u64, u64, u32)>::new();
        for member in &self.members {
            let of_many_threads = || {
                let is_much = u64::from(member.usage.threads) > MAX_OF_A_WORKER;
                (member.role == Role::Worker && is_much).then_some(member.usage.pid)
            };
            let Some(program) = member.program.or_else(of_many_threads) else { continue };
            let entry = programs.entry(program).or_default();
            entry.0 += u64::from(member.usage.threads);
            if member.usage.pid == program {
                (entry.1, entry.2) = (member.usage.started, member.branch);
            }
        }
        let mut programs: Vec<_> = programs.into_iter().collect();
        programs.sort_by_key(|(pid, (tasks, started, _))| {
            (std::cmp::Reverse(*tasks), std::cmp::Reverse(*started), std::cmp::Reverse(*pid))
        });
        let (mut left, mut chosen) = (self.tasks(), Vec::new());
        for (pid, (tasks, _, branch)) in programs.into_iter().take(MAX_ENDED) {
            if left <= limit {
                break;
            }
            left = left.saturating_sub(tasks);
            chosen.push((pid, tasks, branch));
        }
        let mut of_branch = HashMap::<u32, u64>::new();
        chosen
            .iter()
            .for_each(|(_, tasks, branch)| *of_branch.entry(*branch).or_default() += tasks);
        let mut ends = Vec::new();
        for (pid, _, branch) in chosen {
            let is_much = of_branch.get(&branch).is_some_and(|tasks| *tasks > MAX_OF_A_WORKER);
            let end = self.end_of(branch).filter(|_| is_much).or_else(|| self.end_of(pid));
            ends.extend(end.filter(|end| !ends.contains(end)));
        }
        ends
    }
}

impl State {
    /// Compares what a family uses with the limits.
    pub(crate) fn count(
        &mut self,
        family: &Family,
        limits: &ResourceLimits,
        now: Instant,
    ) -> Verdict {
        self.is_active = family.changeable().next().is_some();
        let current = (family.ticks(), family.tasks());
        self.is_busy = current != std::mem::replace(&mut self.last, current);
        let mut verdict = Verdict::default();
        if let Some(limit) = limits.processes.map(u64::from) {
            let used = family.tasks();
            verdict.soon = until(&mut self.tasks, used, limit, now);
            if used > limit {
                verdict.ends = self.ends_of_excess(family, used, limit, now);
                if let [first, others @ ..] = verdict.ends.as_slice() {
                    let more = match others.len() {
                        0 => "is".to_owned(),
                        count => format!("and {count} more are"),
                    };
                    verdict.reason = format!(
                        "it has {used} processes and threads, and isolation/limits/processes \
                         allows {limit}: {first} {more} ended; raise the limit if the site needs \
                         more"
                    );
                }
            }
        }
        if let Some(limit) = limits.memory {
            let used = family.bytes();
            verdict.soon = shorter(verdict.soon, until(&mut self.memory, used, limit, now));
            // Without those that are ended already it may be little enough.
            let is_over = used > limit && verdict.ends.is_empty();
            if let Some((end, bytes)) = family.largest().filter(|_| is_over) {
                let (used, bytes, allowed) = (used >> 20, bytes >> 20, limit >> 20);
                verdict.reason = format!(
                    "its processes use {used} MiB of memory, and isolation/limits/memory allows \
                     {allowed}: {end}, the largest with {bytes} MiB, is ended; raise the limit if \
                     the site needs more"
                );
                (verdict.ends, verdict.is_for_memory) = (vec![end], true);
            }
        }
        if let Some(limit) = limits.cpu {
            verdict.lower = self.change_of_priority(family.ticks(), limit, now);
        }
        if !verdict.ends.is_empty() {
            verdict.soon = Some(MIN_INTERVAL);
        }
        verdict
    }

    /// Returns what is ended of a family with too many processes.
    fn ends_of_excess(&mut self, family: &Family, used: u64, limit: u64, now: Instant) -> Vec<End> {
        let since = |time: Instant| now.saturating_duration_since(time);
        let ends = family.surplus(limit);
        if ends.is_empty() {
            return ends;
        }
        let last = self.series.take().filter(|series| since(series.last) < CALM);
        let before = last.unwrap_or(Series { begun: now, last: now, count: 0, ended: 0 });
        let (max_count, max_duration) = MAX_SERIES;
        let is_long = before.count >= max_count && since(before.begun) >= max_duration;
        if is_long || before.ended > limit.saturating_mul(MAX_ENDED_IN_SERIES) {
            return vec![End::All];
        }
        let ended = before.ended.saturating_add(used.saturating_sub(limit));
        self.series = Some(Series { last: now, count: before.count + 1, ended, ..before });
        ends
    }

    /// Returns whether the priority is low from now on; `None` for no change. `limit` is in
    /// thousandths of a processor.
    fn change_of_priority(&mut self, ticks: u64, limit: u32, now: Instant) -> Option<bool> {
        let (since, before) = *self.ticks.get_or_insert((now, ticks));
        let passed = now.saturating_duration_since(since);
        if passed < PROCESSOR_WINDOW {
            return None;
        }
        self.ticks = Some((now, ticks));
        // Hundredths of a second in milliseconds.
        let used = ticks.saturating_sub(before) as f64 * 10.0 / passed.as_secs_f64();
        let limit = f64::from(limit);
        let is_low = if self.is_lowered { used > limit * 0.9 } else { used > limit };
        (is_low != self.is_lowered).then(|| {
            self.is_lowered = is_low;
            is_low
        })
    }

    /// Returns the number of lines that were left out if another one may be logged.
    pub(crate) fn may_log(&mut self, is_for_memory: bool, now: Instant) -> Option<u32> {
        let lines = &mut self.lines[usize::from(is_for_memory)];
        if lines.next.is_some_and(|next| now < next) {
            lines.left_out = lines.left_out.saturating_add(1);
            return None;
        }
        lines.next = Some(now + LOG_INTERVAL);
        Some(std::mem::take(&mut lines.left_out))
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Worker(pid) => write!(f, "worker {pid}"),
            End::Program { pid, .. } => write!(f, "program {pid}"),
            End::All => f.write_str("each worker and program"),
        }
    }
}

/// Returns half of the time in which a figure reaches its limit if it grows on as since the last
/// count; `None` if it does not grow.
fn until(
    last: &mut Option<(Instant, u64)>,
    used: u64,
    limit: u64,
    now: Instant,
) -> Option<Duration> {
    let (since, before) = last.replace((now, used))?;
    let passed = now.saturating_duration_since(since).as_secs_f64();
    let grown = used.checked_sub(before).filter(|grown| *grown > 0)?;
    let left = limit.saturating_sub(used);
    let seconds = left as f64 / grown as f64 * passed / 2.0;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).max(MIN_INTERVAL))
}

/// Returns the shorter of two times.
pub(crate) fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests;
