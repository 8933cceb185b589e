//! The processes of a job: which are started, asked to end and killed at a time.
//!
//! A job has a slot for each of its processes. Orders are given once; their owner reports what has
//! become of them with [`JobState::ended`].

use std::time::{Duration, Instant};

use crate::{Job, Restart};

/// Minimum time between two starts in a slot.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Delay after the first failure; it doubles with each further one, up to [`MAX_DELAY`].
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Maximum delay after a failure.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Run time after which a failure is the first one again.
const HEALTHY: Duration = Duration::from_secs(60);

/// The processes of a job.
#[derive(Debug)]
pub struct JobState {
    job: Job,
    slots: Vec<Slot>,
    is_ending: bool,
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
}

/// What follows the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another start after this time.
    Start(Duration),
    /// No further process in this slot.
    Nothing,
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
    },
    /// Starts no more.
    Over,
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
    /// Creates the state of a job whose processes are due at `now`.
    pub fn new(job: Job, now: Instant) -> JobState {
        let slot = || Slot { phase: Phase::Due(now), failures: 0 };
        let slots = (0..job.processes).map(|_| slot()).collect();
        JobState { job, slots, is_ending: false }
    }

    /// Returns the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns true if the job was told to end.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns true if the job was told to end, and no process is left.
    pub fn is_over(&self) -> bool {
        self.is_ending && self.slots.iter().all(|slot| slot.phase == Phase::Over)
    }

    /// Ends the job: its processes are asked to end, and none is started.
    pub fn end(&mut self) {
        self.is_ending = true;
        for slot in &mut self.slots {
            match &mut slot.phase {
                Phase::Due(_) => slot.phase = Phase::Over,
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

    /// Asks the process of a slot to end; another follows it. Returns false if it was asked before.
    pub fn replace(&mut self, slot: usize) -> bool {
        match self.slots.get_mut(slot) {
            Some(Slot { phase: Phase::Running { stop: stop @ Stop::No, .. }, .. }) => {
                *stop = Stop::Asked;
                true
            }
            _ => false,
        }
    }

    /// Returns true if the process of a slot was asked to end.
    pub fn was_asked(&self, slot: usize) -> bool {
        let phase = self.slots.get(slot).map(|slot| slot.phase);
        matches!(phase, Some(Phase::Running { stop, .. }) if stop != Stop::No)
    }

    /// Returns what is due, each once.
    pub fn orders(&mut self, now: Instant) -> Vec<Order> {
        let stop_timeout = self.job.stop_timeout;
        let mut orders = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            match &mut slot.phase {
                Phase::Due(at) if *at <= now => {
                    slot.phase = Phase::Running { since: now, stop: Stop::No };
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

    /// Returns the time of the next order; `None` if none follows by itself.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let due = self.slots.iter().filter_map(|slot| match slot.phase {
            Phase::Due(at) | Phase::Running { stop: Stop::Until(at), .. } => Some(at),
            Phase::Running { stop: Stop::Asked, .. } => Some(now),
            _ => None,
        });
        due.min()
    }

    /// Records the end of the process of a slot, or that it could not be started.
    pub fn ended(&mut self, slot: usize, is_success: bool, now: Instant) -> Next {
        let (restart, is_ending) = (self.job.restart, self.is_ending);
        let Some(slot) = self.slots.get_mut(slot) else { return Next::Nothing };
        let Phase::Running { since, stop } = slot.phase else { return Next::Nothing };
        let was_replaced = stop != Stop::No;
        let is_again = match restart {
            _ if is_ending => false,
            _ if was_replaced => true,
            Restart::Always => true,
            Restart::OnFailure => !is_success,
            Restart::Never => false,
        };
        if !is_again {
            slot.phase = Phase::Over;
            return Next::Nothing;
        }
        let ran = now.saturating_duration_since(since);
        slot.failures = match is_success || was_replaced {
            true => 0,
            false if ran >= HEALTHY => 1,
            false => slot.failures.saturating_add(1),
        };
        let delay = match slot.failures {
            0 => MIN_INTERVAL.saturating_sub(ran),
            count => FIRST_DELAY.saturating_mul(1 << (count - 1).min(10)).min(MAX_DELAY),
        };
        slot.phase = Phase::Due(now + delay);
        Next::Start(delay)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::StopSignal;

    fn job(restart: Restart, processes: u32) -> Job {
        Job {
            name: "queue".to_owned(),
            command: vec!["true".to_owned()],
            processes,
            restart,
            memory: None,
            stop_signal: StopSignal::Term,
            stop_timeout: Duration::from_secs(10),
            working_directory: None,
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn failures_are_followed_by_longer_delays_up_to_a_minute_until_one_has_run_for_that_long() {
        let mut now = Instant::now();
        let mut state = JobState::new(job(Restart::Always, 1), now);
        let mut delays = Vec::new();
        for ran in [0, 0, 0, 0, 0, 0, 0, 0, 60, 0] {
            assert_eq!(state.orders(now), [Order::Start(0)]);
            now += seconds(ran);
            let Next::Start(delay) = state.ended(0, false, now) else { panic!() };
            delays.push(delay.as_secs());
            now += delay;
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60, 1, 2]);
    }

    #[test]
    fn a_command_that_ends_well_starts_again_at_most_once_a_second() {
        let now = Instant::now();
        let mut state = JobState::new(job(Restart::Always, 1), now);
        state.orders(now);
        let ended = now + Duration::from_millis(300);
        assert_eq!(state.ended(0, true, ended), Next::Start(Duration::from_millis(700)));
        assert_eq!(state.orders(ended), []);
        assert_eq!(state.orders(now + seconds(1)), [Order::Start(0)]);
        assert_eq!(state.ended(0, true, now + seconds(5)), Next::Start(Duration::ZERO));
    }

    #[test]
    fn the_document_says_after_which_ends_a_command_starts_again() {
        for (restart, is_success, is_again) in [
            (Restart::Always, true, true),
            (Restart::OnFailure, true, false),
            (Restart::OnFailure, false, true),
            (Restart::Never, false, false),
        ] {
            let now = Instant::now();
            let mut state = JobState::new(job(restart, 1), now);
            state.orders(now);
            let next = state.ended(0, is_success, now);
            assert_eq!(matches!(next, Next::Start(_)), is_again, "{restart:?}");
            assert_eq!(state.due(now).is_some(), is_again);
        }
    }

    #[test]
    fn a_job_that_ends_is_asked_first_and_killed_at_its_timeout() {
        let now = Instant::now();
        let mut state = JobState::new(job(Restart::Always, 2), now);
        assert_eq!(state.orders(now), [Order::Start(0), Order::Start(1)]);
        state.end();
        assert_eq!(state.due(now), Some(now));
        assert_eq!(state.orders(now), [Order::Stop(0), Order::Stop(1)]);
        assert_eq!(state.ended(1, true, now + seconds(1)), Next::Nothing);
        assert_eq!(state.due(now), Some(now + seconds(10)));
        assert!(state.orders(now + seconds(9)).is_empty() && !state.is_over());
        assert_eq!(state.orders(now + seconds(10)), [Order::Kill(0)]);
        assert_eq!((state.orders(now + seconds(99)), state.due(now)), (Vec::new(), None));
        state.ended(0, false, now + seconds(11));
        assert!(state.is_over());
    }

    #[test]
    fn a_hurried_end_kills_at_once() {
        let now = Instant::now();
        let mut state = JobState::new(job(Restart::Always, 1), now);
        state.orders(now);
        state.hurry(now);
        assert_eq!(state.orders(now), [], "it was not asked to end");
        state.end();
        state.hurry(now);
        assert_eq!(state.orders(now), [Order::Kill(0)]);
    }

    #[test]
    fn a_process_that_is_replaced_has_not_failed() {
        let now = Instant::now();
        let mut state = JobState::new(job(Restart::Never, 1), now);
        state.orders(now);
        assert!(state.replace(0) && !state.replace(0));
        assert_eq!(state.orders(now), [Order::Stop(0)]);
        assert_eq!(state.ended(0, false, now + seconds(2)), Next::Start(Duration::ZERO));
    }

    proptest! {
        /// Whatever happens in whatever order, no slot has two processes, none is killed that was
        /// not asked to end for `stop_timeout`, and an ended job comes to its end.
        #[test]
        fn no_slot_has_two_processes_and_each_job_can_end(
            steps in proptest::collection::vec((0u8..6, 0usize..4, 0u64..40_000), 1..200)
        ) {
            let mut now = Instant::now();
            let mut state = JobState::new(job(Restart::Always, 3), now);
            // For each slot with a process, the time at which it was asked to end.
            let mut running: [Option<Option<Instant>>; 4] = [None; 4];
            let mut is_ending = false;
            type Running = [Option<Option<Instant>>; 4];
            let carry_out = |state: &mut JobState, running: &mut Running, now, is_ending: bool| {
                for order in state.orders(now) {
                    match order {
                        Order::Start(slot) => {
                            assert!(!is_ending && running[slot].is_none());
                            running[slot] = Some(None);
                        }
                        Order::Stop(slot) => {
                            assert_eq!(running[slot], Some(None));
                            running[slot] = Some(Some(now));
                        }
                        Order::Kill(slot) => {
                            let Some(Some(asked)) = running[slot] else { panic!() };
                            assert!(now >= asked + seconds(10));
                        }
                    }
                }
            };
            for (what, slot, passed) in steps {
                now += Duration::from_millis(passed);
                match what {
                    0 | 1 if running[slot].is_some() => {
                        running[slot] = None;
                        state.ended(slot, what == 0, now);
                    }
                    2 => drop(state.replace(slot)),
                    3 if passed < 1000 => {
                        is_ending = true;
                        state.end();
                    }
                    _ => {}
                }
                carry_out(&mut state, &mut running, now, is_ending);
                let due = state.due(now);
                prop_assert!(due.is_none_or(|due| due > now), "what is due was ordered");
            }
            state.end();
            carry_out(&mut state, &mut running, now, true);
            now += seconds(10);
            let killed = state.orders(now);
            for (slot, process) in running.iter().enumerate() {
                if process.is_some() {
                    state.ended(slot, false, now);
                }
            }
            prop_assert!(state.is_over(), "{killed:?}");
        }
    }
}
