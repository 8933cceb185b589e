//! How many workers one application is to have: as configured, or as measured.
//!
//! Measurements are asked for here and taken by the prototype. While the number waits for one they
//! come five times a second, otherwise once a second, for a configured number every ten seconds
//! (they are shown then, and tell the others what memory is left), and without requests never.

use std::time::{Duration, Instant};

use howdah_config::Processes;
use howdah_php_pool::pool::{Running, Wanted};
use howdah_php_pool::queue::Load;
use howdah_php_pool::sizing::meter::{Activity, Meter, Surroundings};
use howdah_php_pool::sizing::{self, Decision, Limit};
use howdah_wire::messages::Usage;

use super::command::Tuning;

const WHILE_GROWING: Duration = Duration::from_millis(200);
const UNDER_LOAD: Duration = Duration::from_secs(1);
const CONFIGURED: Duration = Duration::from_secs(10);

/// A measurement that has not come by then is not going to.
const LOST: Duration = Duration::from_secs(5);

/// What was measured longer ago says nothing about the memory that is free now.
const STALE: Duration = Duration::from_secs(10);

/// How many workers an application is to have.
#[derive(Debug)]
pub(super) struct Sizing {
    processes: Processes,
    meter: Meter,
    decision: Decision,
    /// When a measurement was asked for that has not come.
    asked: Option<Instant>,
    /// Requests that were over at the last measurement.
    served: u64,
}

impl Sizing {
    /// For an application that starts.
    pub(super) fn new(processes: Processes, surroundings: Surroundings) -> Self {
        Sizing::with(processes, Meter::new(surroundings))
    }

    /// For new processes of this application, with what is known of it.
    pub(super) fn renewed(&self, surroundings: Surroundings) -> Self {
        Sizing::with(self.processes, self.meter.renewed(surroundings))
    }

    fn with(processes: Processes, meter: Meter) -> Self {
        let decision = sizing::size(&meter.measured());
        Sizing { processes, meter, decision, asked: None, served: 0 }
    }

    /// What the pool goes by.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted::of(self.processes, self.decision.workers)
    }

    /// Most workers that there can ever be.
    pub(super) fn most(&self) -> u32 {
        Wanted::of(self.processes, sizing::MOST).max
    }

    fn is_automatic(&self) -> bool {
        self.processes == Processes::Automatic
    }

    /// How many workers are too many and shall end before their next request.
    pub(super) fn too_many(&self, workers: u32) -> u32 {
        if self.is_automatic() { workers.saturating_sub(self.decision.tolerated) } else { 0 }
    }

    /// Bytes that its workers may still take.
    pub(super) fn promised(&self, workers: u32) -> u64 {
        self.meter.promised(workers)
    }

    /// When to measure next; `None` as long as nothing happens.
    pub(super) fn due(&self, load: &Load, running: &Running, now: Instant) -> Option<Instant> {
        if let Some(asked) = self.asked.filter(|asked| *asked + LOST > now) {
            return Some(asked + LOST);
        }
        let nothing_new = load.served == self.served && running.waiting == 0 && running.busy == 0;
        if running.workers == 0 || nothing_new {
            return None;
        }
        let Some(last) = self.meter.last() else { return Some(now) };
        let to_learn = self.decision.limit == Limit::Measurement || self.meter.knows_little();
        let grows = running.waiting > 0 && to_learn;
        let pause = match self.is_automatic() {
            true if grows => WHILE_GROWING,
            true => UNDER_LOAD,
            false => CONFIGURED,
        };
        Some(last + pause)
    }

    /// A measurement was asked for.
    pub(super) fn asked(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// Whether the first workers are about to start and what is known of the memory is old.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        let last = self.meter.last();
        self.is_automatic() && last.is_some_and(|last| now.saturating_duration_since(last) > STALE)
    }

    /// Looks at the memory anew, before the first workers start.
    pub(super) fn refresh(&mut self, surroundings: Surroundings) {
        self.meter = self.meter.renewed(surroundings);
        self.decision = sizing::size(&self.meter.measured());
    }

    /// A measurement has come.
    pub(super) fn on_measured(
        &mut self,
        measurement: &Measurement,
        surroundings: Surroundings,
        activity: Activity,
        now: Instant,
    ) {
        let Measurement { base, memory_limit, workers } = measurement;
        self.asked = None;
        self.served = activity.served;
        self.meter.sample(*base, *memory_limit, workers, surroundings, activity, now);
        self.decision = sizing::size(&self.meter.measured());
    }

    /// For whoever asks why.
    pub(super) fn explain(&self, running: u32) -> Tuning {
        let (measured, (prototype, workers)) = (self.meter.measured(), self.meter.taken());
        let Sizing { processes, decision, .. } = *self;
        Tuning { problem: None, processes, running, measured, decision, prototype, workers }
    }
}

/// What the prototype has measured.
#[derive(Debug)]
pub(super) struct Measurement {
    /// Bytes that the prototype takes.
    pub(super) base: u64,
    /// Bytes that PHP lets a script allocate.
    pub(super) memory_limit: Option<u64>,
    /// The workers, or some of them.
    pub(super) workers: Vec<Usage>,
}
