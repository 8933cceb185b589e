//! Number of workers of one application: as configured, or as measured.
//!
//! The prototype measures on request. The interval depends on the use of the measurements:
//! [`GROWTH_INTERVAL`] while the number of workers waits for one, [`LOAD_INTERVAL`] otherwise,
//! [`CONFIGURED_INTERVAL`] for a configured number (they are shown, and give other applications the
//! memory that is left). Of many applications, one is measured every [`MIN_SPACING`], unless the
//! number of its workers waits for it. An application without requests is not measured.

use std::time::{Duration, Instant};

use howdah_config::Processes;
use howdah_wire::messages::Usage;

use super::meter::{Activity, MachineState, Meter};
use super::shares::{MemoryClaim, RecentDemand};
use super::{Decision, LimitingFactor, MAX_WORKERS, Measured, size};
use crate::queue::Load;
use crate::worker_count::{PoolLimits, PoolState};

/// Interval between measurements while requests wait and the memory of a worker is not known well.
const GROWTH_INTERVAL: Duration = Duration::from_millis(200);

/// Interval between measurements under load.
const LOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between measurements if the number of workers is configured.
const CONFIGURED_INTERVAL: Duration = Duration::from_secs(10);

/// Minimum time between the measurements of two applications: of many, each is measured less often.
/// A measurement takes about a millisecond of processor time.
const MIN_SPACING: Duration = Duration::from_millis(50);

/// Time after which a requested measurement is taken for lost.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Age from which on a measurement is too old to tell the memory that is free now.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Determines the number of workers of an application.
#[derive(Debug)]
pub struct Sizing {
    processes: Processes,
    /// Maximum number of workers that the application may have; `None` without a limit.
    most: Option<u32>,
    meter: Meter,
    decision: Decision,
    /// Number of workers that its requests needed lately.
    demand: RecentDemand,
    /// Time of the request for a measurement that has not come yet.
    requested_at: Option<Instant>,
    /// Number of finished requests at the last measurement.
    served: u64,
}

impl Sizing {
    /// Creates the sizing of an application that starts.
    pub fn new(processes: Processes, machine_state: MachineState) -> Self {
        Sizing::with(processes, Meter::new(machine_state))
    }

    /// Creates the sizing of new processes of this application, with its measurements.
    pub fn renewed(&self, machine_state: MachineState) -> Self {
        let sizing = Sizing::with(self.processes, self.meter.for_new_instance(machine_state));
        Sizing { most: self.most, ..sizing }
    }

    /// Limits an automatic number of workers.
    pub fn limit_to(&mut self, most: Option<u32>) {
        self.most = most;
    }

    fn with(processes: Processes, meter: Meter) -> Self {
        let decision = size(&meter.measured());
        Sizing {
            processes,
            most: None,
            meter,
            decision,
            demand: RecentDemand::default(),
            requested_at: None,
            served: 0,
        }
    }

    /// Returns the numbers of workers that the pool aims at.
    pub fn wanted(&self) -> PoolLimits {
        let workers = self.decision.workers;
        PoolLimits::of(self.processes, self.most.map_or(workers, |most| workers.min(most)))
    }

    /// Returns the maximum number of workers that this application can ever have.
    pub fn max_workers(&self) -> u32 {
        PoolLimits::of(self.processes, MAX_WORKERS).max
    }

    fn is_automatic(&self) -> bool {
        self.processes == Processes::Automatic
    }

    /// Returns how many workers must end before their next request.
    pub fn excess(&self, workers: u32) -> u32 {
        if self.is_automatic() { workers.saturating_sub(self.decision.retire_above) } else { 0 }
    }

    /// Returns the memory in bytes that its workers may still take.
    pub fn promised(&self, workers: u32) -> u64 {
        self.meter.reserved_bytes(workers)
    }

    /// Takes the current load.
    pub fn on_load(&mut self, running: &PoolState, now: Instant) {
        self.demand.add(running.busy.saturating_add(running.waiting), now);
    }

    /// Returns the memory of the prototype and of its workers in bytes, as last measured.
    pub fn memory_usage(&self, workers: u32) -> (u64, u64) {
        self.meter.memory_usage(workers)
    }

    /// Returns the claim of its workers, and of those that its requests need, to memory.
    pub fn claim(&self, workers: u32, now: Instant) -> MemoryClaim {
        let useful = PoolLimits::of(self.processes, self.decision.by_processors).max;
        self.meter.claim(self.is_automatic(), workers, self.demand.at(now).min(useful))
    }

    /// Sets its share of the memory.
    pub fn set_share(&mut self, share_bytes: Option<u64>) {
        self.meter.set_share(share_bytes);
        self.decision = size(&self.meter.measured());
    }

    /// Returns the time of the next measurement; `None` while the application is idle.
    /// `applications`: the number of those that are measured in turn.
    pub fn due(
        &self,
        load: &Load,
        running: &PoolState,
        applications: usize,
        now: Instant,
    ) -> Option<Instant> {
        if let Some(requested) =
            self.requested_at.filter(|requested| *requested + MEASUREMENT_TIMEOUT > now)
        {
            return Some(requested + MEASUREMENT_TIMEOUT);
        }
        let is_unchanged = load.served == self.served && running.waiting == 0 && running.busy == 0;
        if running.workers == 0 || is_unchanged {
            return None;
        }
        let Some(last) = self.meter.last() else { return Some(now) };
        let can_learn =
            self.decision.limit == LimitingFactor::Measurement || self.meter.lacks_samples();
        let is_growing = running.waiting > 0 && can_learn;
        let interval = match self.is_automatic() {
            true if is_growing => return Some(last + GROWTH_INTERVAL),
            true => LOAD_INTERVAL,
            false => CONFIGURED_INTERVAL,
        };
        let turn = MIN_SPACING * u32::try_from(applications).unwrap_or(u32::MAX);
        Some(last + interval.max(turn))
    }

    /// Records the request for a measurement.
    pub fn requested(&mut self, now: Instant) {
        self.requested_at = Some(now);
    }

    /// Returns true if the last measurement is too old to size the first workers by.
    pub fn is_stale(&self, now: Instant) -> bool {
        let last = self.meter.last();
        self.is_automatic()
            && last.is_some_and(|last| now.saturating_duration_since(last) > MAX_AGE)
    }

    /// Updates the free memory before the first workers start.
    pub fn refresh(&mut self, machine_state: MachineState) {
        self.meter = self.meter.for_new_instance(machine_state);
        self.decision = size(&self.meter.measured());
    }

    /// Takes a measurement.
    pub fn on_measured(
        &mut self,
        measurement: &Measurement,
        machine_state: MachineState,
        activity: Activity,
        now: Instant,
    ) {
        let Measurement { base, memory_limit, workers } = measurement;
        self.requested_at = None;
        self.served = activity.served;
        self.meter.sample(*base, *memory_limit, workers, machine_state, activity, now);
        self.decision = size(&self.meter.measured());
    }

    /// Returns the measurements and the number of workers derived from them.
    pub fn explain(&self) -> (Measured, Decision) {
        (self.meter.measured(), self.decision)
    }
}

/// A measurement by the prototype.
#[derive(Debug)]
pub struct Measurement {
    /// Memory of the prototype in bytes.
    pub base: u64,
    /// PHP's `memory_limit` in bytes; `None` without one.
    pub memory_limit: Option<u64>,
    /// Usage of the workers, or of some of them.
    pub workers: Vec<Usage>,
}

impl Measurement {
    /// Returns the memory in bytes of the prototype and of `workers` workers. Those that were not
    /// measured count like the measured ones.
    pub fn bytes(&self, workers: u32) -> u64 {
        let measured = self.workers.iter().fold(0u64, |sum, usage| sum.saturating_add(usage.pss));
        let each = measured / (self.workers.len().max(1) as u64);
        let others = u64::from(workers).saturating_sub(self.workers.len() as u64);
        self.base.saturating_add(measured).saturating_add(each.saturating_mul(others))
    }
}

#[cfg(test)]
mod tests {
    use howdah_config::DynamicProcesses;
    use howdah_wire::queue::WorkerId;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn machine_state() -> MachineState {
        MachineState {
            processors: 2,
            total: 4096 * MIB,
            available: 4000 * MIB,
            reserved_bytes: 0,
            pressure: None,
            idle: None,
            budget: None,
            own_group: None,
        }
    }

    fn usage(index: u16) -> Usage {
        let worker = WorkerId { index, incarnation: 1 };
        let (pss, peak) = (12 * MIB, 20 * MIB);
        Usage { worker, pss, private: 10 * MIB, peak, cpu_us: 1, delay_us: 0 }
    }

    #[test]
    fn of_many_applications_each_is_measured_less_often() {
        let now = Instant::now();
        let mut sizing = Sizing::new(Processes::Automatic, machine_state());
        let workers = (0..8).map(usage).collect();
        let measured = Measurement { base: 8 * MIB, memory_limit: None, workers };
        for step in 0..40 {
            let activity = Activity { workers: 8, saturated: false, long: 0, served: step };
            sizing.on_measured(&measured, machine_state(), activity, now);
        }
        let load = Load { served: 100, ..Load::default() };
        let running = PoolState { workers: 8, busy: 8, ..PoolState::default() };
        let due = |applications| sizing.due(&load, &running, applications, now).map(|at| at - now);
        assert_eq!(due(1), Some(LOAD_INTERVAL));
        assert_eq!(due(20), Some(LOAD_INTERVAL));
        assert_eq!(due(500), Some(25 * LOAD_INTERVAL));
    }

    #[test]
    fn requests_claim_the_workers_that_are_of_use() {
        let now = Instant::now();
        let state = |busy, waiting| PoolState { busy, waiting, ..PoolState::default() };
        let demand = |processes, busy, waiting| {
            let mut sizing = Sizing::new(processes, machine_state());
            let mut times = (0..80).map(|step| now + Duration::from_millis(step * 100));
            times.clone().for_each(|at| sizing.on_load(&state(busy, waiting), at));
            sizing.claim(1, times.next_back().unwrap_or(now)).demand
        };
        let three = Processes::Dynamic(DynamicProcesses { max: 3, ..DynamicProcesses::default() });
        for (processes, busy, waiting, expected) in [
            (Processes::Automatic, 1, 0, 1),
            (Processes::Automatic, 2, 500, 2),
            (three, 2, 0, 2),
            (three, 3, 500, 3),
            (Processes::Static(8), 1, 1, 2),
        ] {
            assert_eq!(demand(processes, busy, waiting), expected, "{processes:?} {busy}");
        }
    }

    #[test]
    fn a_share_limits_automatic_numbers_only() {
        for (processes, expected) in [(Processes::Automatic, 1), (Processes::Static(8), 8)] {
            let mut sizing = Sizing::new(processes, machine_state());
            assert!(sizing.wanted().max > 1);
            sizing.set_share(Some(MIB));
            assert_eq!(sizing.wanted().max, expected);
            assert_eq!(sizing.excess(10), if processes == Processes::Automatic { 9 } else { 0 });
        }
    }

    #[test]
    fn workers_that_were_not_measured_count_like_the_measured_ones() {
        let workers = vec![usage(0), usage(1)];
        let measurement = Measurement { base: 5 * MIB, memory_limit: None, workers };
        assert_eq!([1, 2, 4].map(|count| measurement.bytes(count) / MIB), [29, 29, 53]);
        let none = Measurement { workers: Vec::new(), ..measurement };
        assert_eq!(none.bytes(3), 5 * MIB);
    }
}
