//! The processes of a job: which are started, asked to end and killed at a time.
//!
//! A job has a slot for each of its processes. Orders are given once; their owner reports what has
//! become of them with [`JobState::ended`]. A timer has as many slots as it has had runs at the same
//! time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant, SystemTime};

use crate::timer::Times;
use crate::zone::Zone;
use crate::{Job, MAX_PROCESSES, Now, Restart, Timer};

/// Minimum time between two starts in a slot.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Delay after the first failure; it doubles with each further one, up to [`MAX_DELAY`].
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Maximum delay after a failure.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Time within which the store must say whether this server runs a timer.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval of questions about that.
const CLAIM_INTERVAL: Duration = Duration::from_secs(5);

/// Run time after which a failure is the first one again.
const HEALTHY: Duration = Duration::from_secs(60);

/// The processes of a job.
#[derive(Debug)]
pub struct JobState {
    job: Job,
    slots: Vec<Slot>,
    runs: Option<Runs>,
    counts: Counts,
    is_ending: bool,
    is_paused: bool,
    /// Runs at the times of a timer are claimed before they start.
    is_shared: bool,
}

/// The reason why a job cannot be run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRun {
    /// It is being ended.
    Ends,
    /// It runs all the time, and is paused.
    Paused,
    /// All of its processes run already.
    Runs,
}

/// The state of a job as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// A process runs.
    Running,
    /// It is paused, and no process runs.
    Paused,
    /// A process starts by itself later.
    Waiting,
    /// No process starts by itself: the last one has ended, and `restart` asks for no other.
    Over,
}

/// What has become of the runs of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that were started, or could not be.
    pub started: u64,
    /// Runs that have failed: an end with another status than 0 or by a signal that was not asked
    /// for, a run that was not over in time, one that could not be started.
    pub failed: u64,
    /// Runs of a timer that were left out, because another one was not over, or because the store
    /// did not say which server runs it.
    pub left_out: u64,
    /// Start of the last run.
    pub last_start: Option<SystemTime>,
    /// Duration of the last run that has ended.
    pub last_duration: Option<Duration>,
}

/// What must be done with the process of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Start the command in this slot.
    Start(usize),
    /// Send the job's stop signal to the process in this slot.
    Stop(usize),
    /// Kill the process in this slot, with all that it has started.
    Kill(usize),
    /// Say that the process in this slot has run for longer than it may. [`Order::Stop`] follows.
    ReportLate(usize),
    /// Say that a run was left out, the first one since the last start.
    ReportLeftOut,
    /// Ask the store whether this server runs the timer at this time, in seconds since 1970;
    /// answered with [`JobState::claimed`]. It is asked again while there is no answer.
    Claim(u64),
    /// Say that a run was left out because there was no answer, the first one since the last start.
    ReportUnclaimed,
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// What follows.
    pub next: Next,
    /// It was asked to end.
    pub was_asked: bool,
    /// It has failed, as [`Counts::failed`] says.
    pub has_failed: bool,
}

/// What follows the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another start after this time.
    Start(Duration),
    /// No further process in this slot by itself.
    Nothing,
}

/// The runs of a timer.
#[derive(Debug)]
struct Runs {
    timer: Timer,
    times: Times,
    /// The next run, if it is due.
    due: Option<Due>,
    /// A number by chance, which delays are made of.
    seed: u64,
    /// What was last said about runs that were left out since the last start.
    said: Option<Order>,
}

/// A run of a timer that is due.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// Its start.
    at: Instant,
    /// Its time by the timer in seconds since 1970; `None`: it was asked for.
    time: Option<u64>,
    claim: Claim,
}

/// Whether this server may run a timer that several servers have.
#[derive(Debug, Clone, Copy)]
enum Claim {
    Open,
    Asked { again: Instant, until: Instant },
    Granted,
}

#[derive(Debug)]
struct Slot {
    phase: Phase,
    /// Number of failures one after the other.
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Starts at this time.
    Due(Instant),
    Running {
        since: Instant,
        stop: Stop,
        /// Has run for longer than the timer's `timeout`.
        is_late: bool,
    },
    /// Has no process, and starts none by itself.
    Idle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// The stop signal is due.
    Asked,
    /// The stop signal was sent; the process is killed at this time.
    Until(Instant),
    Killed,
}

impl JobState {
    /// Creates the state of a job whose processes are due now, or at the times of its timer in
    /// `zone`. `seed` is a number by chance.
    pub fn new(job: Job, zone: Zone, seed: u64, now: Now) -> JobState {
        let runs = job.timer.clone().map(|timer| {
            let times = Times::new(&timer.schedule, zone, now);
            Runs { timer, times, due: None, seed, said: None }
        });
        let phase = if runs.is_some() { Phase::Idle } else { Phase::Due(now.monotonic) };
        let slots = (0..job.processes).map(|_| Slot { phase, failures: 0 }).collect();
        let counts = Counts::default();
        JobState { job, slots, runs, counts, is_ending: false, is_paused: false, is_shared: false }
    }

    /// Sets whether several servers have the job: a run at a time of its timer must then be claimed,
    /// if the timer is shared.
    pub fn share(&mut self, has_others: bool) {
        self.is_shared = has_others && self.runs.as_ref().is_some_and(|runs| runs.timer.shared);
    }

    /// Takes the answer to [`Order::Claim`]: whether this server runs the timer at this time.
    /// Returns true if it will; the answer may have come too late.
    pub fn claimed(&mut self, time: u64, is_granted: bool) -> bool {
        let Some(runs) = &mut self.runs else { return false };
        match &mut runs.due {
            Some(Due { time: Some(asked), claim: claim @ Claim::Asked { .. }, .. })
                if *asked == time && is_granted =>
            {
                *claim = Claim::Granted;
                true
            }
            Some(Due { time: Some(asked), claim: Claim::Asked { .. }, .. }) if *asked == time => {
                runs.due = None;
                false
            }
            _ => false,
        }
    }

    /// Returns the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns what has become of its runs.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the time of the next run of a timer, without the delay by chance.
    pub fn next_run(&self, now: Now) -> Option<SystemTime> {
        self.runs.as_ref().filter(|_| !self.is_ending && !self.is_paused)?.times.next(now)
    }

    /// Returns the state of the job as a whole.
    pub fn activity(&self) -> Activity {
        let has = |is_in: fn(&Phase) -> bool| self.slots.iter().any(|slot| is_in(&slot.phase));
        match self.is_paused {
            _ if has(|phase| matches!(phase, Phase::Running { .. })) => Activity::Running,
            true => Activity::Paused,
            false if self.runs.is_some() || has(|phase| matches!(phase, Phase::Due(_))) => {
                Activity::Waiting
            }
            false => Activity::Over,
        }
    }

    /// Starts a run of a timer now, or the processes that wait or have ended.
    pub fn run(&mut self, now: Instant) -> Result<(), NotRun> {
        if self.is_ending {
            return Err(NotRun::Ends);
        }
        if let Some(runs) = &mut self.runs {
            let has_room = runs.timer.overlap && self.slots.len() < MAX_PROCESSES as usize
                || self.slots.iter().any(|slot| slot.phase == Phase::Idle);
            if !has_room {
                return Err(NotRun::Runs);
            }
            runs.due = Some(Due { at: now, time: None, claim: Claim::Granted });
            return Ok(());
        }
        if self.is_paused {
            return Err(NotRun::Paused);
        }
        let mut result = Err(NotRun::Runs);
        for slot in &mut self.slots {
            if !matches!(slot.phase, Phase::Running { .. }) {
                slot.phase = Phase::Due(now);
                result = Ok(());
            }
        }
        result
    }

    /// Pauses the job: no process starts by itself. Those that run are asked to end, but for runs of
    /// a timer, which go on to their end.
    pub fn pause(&mut self) {
        self.is_paused = true;
        if let Some(runs) = &mut self.runs {
            runs.due = None;
            return;
        }
        self.stop_all();
    }

    /// Ends a pause. Times that have passed are not made up for.
    pub fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_paused) && self.runs.is_none() && !self.is_ending {
            for slot in self.slots.iter_mut().filter(|slot| slot.phase == Phase::Idle) {
                slot.phase = Phase::Due(now);
            }
        }
    }

    /// Returns true if the job is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns true if the job was told to end.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns true if the job was told to end, and no process is left.
    pub fn is_over(&self) -> bool {
        self.is_ending && self.slots.iter().all(|slot| slot.phase == Phase::Idle)
    }

    /// Ends the job: its processes are asked to end, and none is started.
    pub fn end(&mut self) {
        self.is_ending = true;
        self.stop_all();
    }

    fn stop_all(&mut self) {
        for slot in &mut self.slots {
            match &mut slot.phase {
                Phase::Due(_) => slot.phase = Phase::Idle,
                Phase::Running { stop: stop @ Stop::No, .. } => *stop = Stop::Asked,
                _ => {}
            }
        }
    }

    /// Has the processes that were asked to end killed now.
    pub fn hurry(&mut self, now: Instant) {
        for slot in &mut self.slots {
            if let Phase::Running { stop: stop @ (Stop::Asked | Stop::Until(_)), .. } =
                &mut slot.phase
            {
                *stop = Stop::Until(now);
            }
        }
    }

    /// Asks the process of a slot to end; another follows it, at the next time of a timer. Returns
    /// false if it was asked before.
    pub fn replace(&mut self, slot: usize) -> bool {
        match self.slots.get_mut(slot) {
            Some(Slot { phase: Phase::Running { stop: stop @ Stop::No, .. }, .. }) => {
                *stop = Stop::Asked;
                true
            }
            _ => false,
        }
    }

    /// Returns what is due, each once.
    pub fn orders(&mut self, now: Now) -> Vec<Order> {
        let mut orders = Vec::new();
        self.let_times_pass(now, &mut orders);
        let Now { monotonic: now, wall } = now;
        let stop_timeout = self.job.stop_timeout;
        let timeout = self.runs.as_ref().and_then(|runs| runs.timer.timeout);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Phase::Running { since, stop: stop @ Stop::No, is_late } = &mut slot.phase
                && timeout.is_some_and(|timeout| *since + timeout <= now)
            {
                (*stop, *is_late) = (Stop::Asked, true);
                orders.push(Order::ReportLate(index));
            }
            match &mut slot.phase {
                Phase::Due(at) if *at <= now => {
                    slot.phase = Phase::Running { since: now, stop: Stop::No, is_late: false };
                    self.counts.started += 1;
                    self.counts.last_start = Some(wall);
                    if let Some(runs) = &mut self.runs {
                        runs.said = None;
                    }
                    orders.push(Order::Start(index));
                }
                Phase::Running { stop: stop @ Stop::Asked, .. } => {
                    *stop = Stop::Until(now + stop_timeout);
                    orders.push(Order::Stop(index));
                }
                Phase::Running { stop, .. } if matches!(*stop, Stop::Until(at) if at <= now) => {
                    *stop = Stop::Killed;
                    orders.push(Order::Kill(index));
                }
                _ => {}
            }
        }
        orders
    }

    /// Makes a slot due if a run of the timer is.
    fn let_times_pass(&mut self, now: Now, orders: &mut Vec<Order>) {
        let Some(runs) = self.runs.as_mut().filter(|_| !self.is_ending) else { return };
        let passed = runs.times.pass(now).filter(|_| !self.is_paused);
        if let Some(time) = passed {
            let is_asked = runs.due.is_some_and(|due| matches!(due.claim, Claim::Asked { .. }));
            if runs.due.is_some() {
                self.counts.left_out += 1;
            }
            if is_asked {
                runs.say(Order::ReportUnclaimed, orders);
            }
            // The store may answer about this time, when it has not about the one before.
            if is_asked || runs.due.is_none() {
                let claim = if self.is_shared { Claim::Open } else { Claim::Granted };
                let at = now.monotonic + runs.delay(self.counts.started);
                runs.due = Some(Due { at, time: Some(time), claim });
            }
        }
        let Some(due) = runs.due.as_mut().filter(|due| due.at <= now.monotonic) else { return };
        let max = if runs.timer.overlap { MAX_PROCESSES as usize } else { 1 };
        let free = self.slots.iter().position(|slot| slot.phase == Phase::Idle);
        if let (Some(time), true) = (due.time, free.is_some() || self.slots.len() < max) {
            let now = now.monotonic;
            let ask = |until| Claim::Asked { again: now + CLAIM_INTERVAL, until };
            match due.claim {
                Claim::Granted => {}
                Claim::Asked { until, .. } if until <= now => {
                    runs.due = None;
                    self.counts.left_out += 1;
                    return runs.say(Order::ReportUnclaimed, orders);
                }
                Claim::Asked { again, .. } if again > now => return,
                Claim::Asked { until, .. } => {
                    due.claim = ask(until);
                    return orders.push(Order::Claim(time));
                }
                Claim::Open => {
                    due.claim = ask(now + CLAIM_TIMEOUT);
                    return orders.push(Order::Claim(time));
                }
            }
        }
        runs.due = None;
        match free {
            Some(index) => self.slots[index].phase = Phase::Due(now.monotonic),
            None if self.slots.len() < max => {
                self.slots.push(Slot { phase: Phase::Due(now.monotonic), failures: 0 });
            }
            None => {
                self.counts.left_out += 1;
                runs.say(Order::ReportLeftOut, orders);
            }
        }
    }

    /// Returns the time of the next order; `None` if none follows by itself.
    pub fn due(&self, now: Now) -> Option<Instant> {
        let runs = self.runs.as_ref().filter(|_| !self.is_ending);
        let timeout = runs.and_then(|runs| runs.timer.timeout);
        let due = self.slots.iter().filter_map(|slot| match slot.phase {
            Phase::Due(at) | Phase::Running { stop: Stop::Until(at), .. } => Some(at),
            Phase::Running { stop: Stop::Asked, .. } => Some(now.monotonic),
            Phase::Running { stop: Stop::No, since, .. } => Some(since + timeout?),
            _ => None,
        });
        let times = runs.map(|runs| runs.times.due(now));
        let run = runs.and_then(|runs| runs.due).map(|due| match due.claim {
            Claim::Asked { again, until } => again.min(until),
            Claim::Open | Claim::Granted => due.at,
        });
        due.chain(times).chain(run).min()
    }

    /// Records the end of the process of a slot, or that it could not be started.
    pub fn ended(&mut self, slot: usize, is_success: bool, now: Instant) -> End {
        let (restart, is_ending, is_timer) =
            (self.job.restart, self.is_ending, self.runs.is_some());
        let nothing = End { next: Next::Nothing, was_asked: false, has_failed: false };
        let Some(slot) = self.slots.get_mut(slot) else { return nothing };
        let Phase::Running { since, stop, is_late } = slot.phase else { return nothing };
        let was_asked = stop != Stop::No;
        let has_failed = if was_asked { is_late } else { !is_success };
        let ran = now.saturating_duration_since(since);
        self.counts.failed += u64::from(has_failed);
        self.counts.last_duration = Some(ran);
        let is_again = match restart {
            _ if is_ending || is_timer || self.is_paused => false,
            _ if was_asked => true,
            Restart::Always => true,
            Restart::OnFailure => !is_success,
            Restart::Never => false,
        };
        if !is_again {
            slot.phase = Phase::Idle;
            return End { next: Next::Nothing, was_asked, has_failed };
        }
        slot.failures = match has_failed {
            false => 0,
            true if ran >= HEALTHY => 1,
            true => slot.failures.saturating_add(1),
        };
        let delay = match slot.failures {
            0 => MIN_INTERVAL.saturating_sub(ran),
            count => FIRST_DELAY.saturating_mul(1 << (count - 1).min(10)).min(MAX_DELAY),
        };
        slot.phase = Phase::Due(now + delay);
        End { next: Next::Start(delay), was_asked, has_failed }
    }
}

impl Runs {
    /// Says why a run was left out, once until the next start.
    fn say(&mut self, report: Order, orders: &mut Vec<Order>) {
        if self.said.replace(report) != Some(report) {
            orders.push(report);
        }
    }

    /// Returns a delay up to `jitter`, by chance.
    fn delay(&self, run: u64) -> Duration {
        let max = u64::try_from(self.timer.jitter.as_millis()).unwrap_or(u64::MAX);
        let mut hasher = DefaultHasher::new();
        (self.seed, run).hash(&mut hasher);
        Duration::from_millis(hasher.finish() % max.saturating_add(1))
    }
}

#[cfg(test)]
mod tests;
