//! From single samples to what sizing goes by.
//!
//! - A worker's cost is the most that one has cost in the last ten to twenty minutes: what has
//!   happened will happen again.
//! - The room for workers is the median of the last samples: memory is measured a moment after the
//!   workers were, and scripts take and give back much in a moment.
//! - How much workers wait is learnt only while requests wait for workers, as then a worker is
//!   never idle.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use howdah_wire::messages::Usage;
use howdah_wire::queue::WorkerId;

use super::{Measured, ProcessorShare};

/// How long costs are remembered: at least once this, at most twice.
const MEMORY: Duration = Duration::from_secs(600);
/// How many samples the room for workers is the median of.
const MEDIAN_SAMPLES: usize = 5;
/// How much workers wait is the mean of about so many seconds of load.
const WAIT_MEAN_SECONDS: f64 = 3.0;
/// PHP's own `memory_limit` by default, for an application that has none.
const USUAL_LIMIT: u64 = 128 << 20;
/// Memory of a worker in bytes beyond what `memory_limit` bounds.
const OVERHEAD_BYTES: u64 = 12 << 20;

/// What the machine looked like when a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineState {
    /// Processors.
    pub processors: u32,
    /// Bytes of the memory that binds.
    pub total: u64,
    /// Bytes of it that are free or can be freed.
    pub available: u64,
    /// Bytes of these that workers of other applications may still take.
    pub reserved_bytes: u64,
    /// Percent of the time that something waited for memory.
    pub pressure: Option<f64>,
    /// Share of the processors' time that was idle.
    pub idle: Option<f64>,
}

/// What the application did when a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Workers that run.
    pub workers: u32,
    /// Requests wait although all workers have one.
    pub saturated: bool,
    /// Requests that have run for [`LONG`](super::LONG_REQUEST_TIME).
    pub long: u32,
    /// Requests answered since the start.
    pub served: u64,
}

/// What was measured, and remembers.
#[derive(Debug, Clone)]
pub struct Meter {
    surroundings: MachineState,
    activity: Activity,
    cost: Option<Cost>,
    /// Of the last samples: room for workers, and requests that had run for long.
    lately: VecDeque<(u64, u32)>,
    last: HashMap<WorkerId, Usage>,
    last_at: Option<Instant>,
    load: Option<Load>,
    known: u32,
    limit: u64,
    /// Bytes of the prototype, and of all its workers, by their share in what they share.
    base: u64,
    pss: u64,
    private: u64,
}

/// The most that a worker has cost, in this span of time and in the one before.
#[derive(Debug, Clone, Copy)]
struct Cost {
    since: Instant,
    now: u64,
    before: u64,
}

/// Seconds while requests waited, the later ones counting for more.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// Of workers: on a processor, waiting for one, and all.
    on: f64,
    delayed: f64,
    all: f64,
    /// Of the processors: idle, and all for which that is known.
    idle: f64,
    known: f64,
}

impl Load {
    fn share(self) -> ProcessorShare {
        let part = |of: f64, all: f64| (of / all.max(1e-6)).clamp(0.001, 1.0);
        ProcessorShare {
            running: part(self.on, self.all - self.delayed),
            runnable: part(self.on + self.delayed, self.all),
        }
    }

    fn idle(self) -> Option<f64> {
        (self.known > 0.0).then(|| (self.idle / self.known).clamp(0.0, 1.0))
    }
}

impl Meter {
    /// Nothing is known but the machine.
    pub fn new(surroundings: MachineState) -> Self {
        let room = surroundings.available.saturating_sub(surroundings.reserved_bytes);
        Meter {
            activity: Activity { workers: 0, saturated: false, long: 0, served: 0 },
            cost: None,
            lately: VecDeque::from([(room, 0)]),
            surroundings,
            last: HashMap::new(),
            last_at: None,
            load: None,
            known: 0,
            limit: USUAL_LIMIT,
            base: 0,
            pss: 0,
            private: 0,
        }
    }

    /// For new processes of the same application: what workers cost is a good guess, what there
    /// is room for is not.
    pub fn for_new_instance(&self, surroundings: MachineState) -> Self {
        let (cost, load, limit) = (self.cost, self.load, self.limit);
        Meter { cost, load, limit, ..Meter::new(surroundings) }
    }

    /// Takes a sample: of each worker what it cost, or of some if they are many.
    pub fn sample(
        &mut self,
        base: u64,
        memory_limit: Option<u64>,
        usages: &[Usage],
        surroundings: MachineState,
        activity: Activity,
        now: Instant,
    ) {
        self.learn_waiting(usages, surroundings.idle, activity, now);
        (self.surroundings, self.base) = (surroundings, base);
        // A script cannot allocate more than there is, whatever PHP would let it.
        self.limit = memory_limit.unwrap_or(USUAL_LIMIT).min(surroundings.total).max(1 << 20);
        let all = |value: fn(&Usage) -> u64| -> u64 {
            let sum = usages.iter().fold(0u64, |sum, usage| sum.saturating_add(value(usage)));
            // Those that were not looked at are like those that were.
            let factor = f64::from(activity.workers) / (usages.len().max(1) as f64);
            if factor > 1.0 { (sum as f64 * factor) as u64 } else { sum }
        };
        (self.pss, self.private) = (all(|usage| usage.pss), all(|usage| usage.private));
        self.learn_cost(usages, activity, now);
        let free = surroundings.available.saturating_sub(surroundings.reserved_bytes);
        self.lately.push_back((free.saturating_add(self.private), activity.long));
        if self.lately.len() > MEDIAN_SAMPLES {
            self.lately.pop_front();
        }
        self.last = usages.iter().map(|usage| (usage.worker, usage.clone())).collect();
        self.last_at = Some(now);
        self.activity = activity;
    }

    fn learn_cost(&mut self, usages: &[Usage], activity: Activity, now: Instant) {
        // A worker that has had no request yet says nothing about one that has.
        let has_worked = activity.served > 0 || usages.iter().any(|usage| usage.cpu_us > 100_000);
        let Some(peak) = usages.iter().map(|usage| usage.peak).max().filter(|_| has_worked) else {
            return;
        };
        let worked = |usage: &&Usage| {
            self.last.get(&usage.worker).is_some_and(|before| usage.cpu_us > before.cpu_us)
        };
        self.known = usages.iter().filter(worked).count() as u32;
        let cost = self.cost.get_or_insert(Cost { since: now, now: 0, before: 0 });
        if now.saturating_duration_since(cost.since) >= MEMORY {
            *cost = Cost { since: now, now: 0, before: cost.now };
        }
        cost.now = cost.now.max(peak);
    }

    fn learn_waiting(
        &mut self,
        usages: &[Usage],
        idle: Option<f64>,
        activity: Activity,
        now: Instant,
    ) {
        let Some(last_at) = self.last_at else { return };
        if !(activity.saturated && self.activity.saturated) {
            return;
        }
        let span = now.saturating_duration_since(last_at).as_secs_f64();
        let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e6;
        let mut new = Load::default();
        for usage in usages {
            let Some(before) = self.last.get(&usage.worker) else { continue };
            new.on += seconds(usage.cpu_us, before.cpu_us);
            new.delayed += seconds(usage.delay_us, before.delay_us);
            new.all += span;
        }
        if new.all == 0.0 {
            return;
        }
        (new.idle, new.known) = idle.map_or((0.0, 0.0), |idle| (idle * span, span));
        let known = self.load.unwrap_or_default();
        let fades = (-span / WAIT_MEAN_SECONDS).exp();
        let mean = |known: f64, new: f64| known * fades + new;
        self.load = Some(Load {
            on: mean(known.on, new.on),
            delayed: mean(known.delayed, new.delayed),
            all: mean(known.all, new.all),
            idle: mean(known.idle, new.idle),
            known: mean(known.known, new.known),
        });
    }

    /// What sizing goes by.
    pub fn measured(&self) -> Measured {
        let mut rooms: Vec<_> = self.lately.iter().map(|(room, _)| *room).collect();
        rooms.sort_unstable();
        Measured {
            processors: self.surroundings.processors,
            total: self.surroundings.total,
            room: rooms.get(rooms.len() / 2).copied().unwrap_or(0),
            pressure: self.surroundings.pressure,
            workers: self.activity.workers,
            measured_workers: self.known,
            long_requests: self.lately.iter().map(|(_, long)| *long).max().unwrap_or(0),
            cost: self.cost.map(|cost| cost.now.max(cost.before)),
            max_worker_bytes: self.limit.saturating_add(OVERHEAD_BYTES),
            share: self.load.map(Load::share),
            idle: self.load.and_then(Load::idle).or(self.surroundings.idle),
        }
    }

    /// Bytes that the workers may still take beyond what they have: each its cost. As long as that has
    /// not been measured it is what PHP lets a script allocate, and no more than it does by default:
    /// an application's own word keeps no memory from the others.
    pub fn reserved_bytes(&self, workers: u32) -> u64 {
        let measured = self.measured();
        let each =
            measured.cost.unwrap_or(measured.max_worker_bytes.min(USUAL_LIMIT + OVERHEAD_BYTES));
        each.saturating_mul(u64::from(workers)).saturating_sub(self.private)
    }

    /// Bytes that the prototype takes, and that its workers take together, in proportion of what
    /// they share.
    pub fn memory_usage(&self) -> (u64, u64) {
        (self.base, self.pss)
    }

    /// Whether it is not known yet how much workers wait.
    pub fn lacks_samples(&self) -> bool {
        self.load.is_none()
    }

    /// When the last sample was taken.
    pub fn last(&self) -> Option<Instant> {
        self.last_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn surroundings(available: u64) -> MachineState {
        MachineState {
            processors: 2,
            total: 1024 * MIB,
            available,
            reserved_bytes: 0,
            pressure: None,
            idle: None,
        }
    }

    fn usage(index: u16, private: u64, peak: u64, cpu_us: u64, delay_us: u64) -> Usage {
        let worker = WorkerId { index, incarnation: 1 };
        Usage { worker, pss: private, private, peak, cpu_us, delay_us }
    }

    fn busy(workers: u32, saturated: bool) -> Activity {
        Activity { workers, saturated, long: 0, served: 100 }
    }

    #[test]
    fn a_peak_is_remembered_for_ten_to_twenty_minutes() {
        let start = Instant::now();
        let mut meter = Meter::new(surroundings(500 * MIB));
        let mut cost_after = |minutes: u64, peak: u64| {
            let now = start + Duration::from_secs(minutes * 60);
            let usages = [usage(0, 10 * MIB, peak * MIB, 1, 0)];
            meter.sample(0, None, &usages, surroundings(500 * MIB), busy(1, false), now);
            meter.measured().cost.map(|cost| cost / MIB)
        };
        assert_eq!(cost_after(0, 20), Some(20));
        assert_eq!(cost_after(1, 100), Some(100));
        assert_eq!(cost_after(2, 20), Some(100));
        assert_eq!(cost_after(11, 20), Some(100));
        assert_eq!(cost_after(22, 20), Some(20));
    }

    #[test]
    fn workers_that_have_had_no_request_say_nothing_about_the_cost() {
        let mut meter = Meter::new(surroundings(500 * MIB));
        let activity = Activity { workers: 1, saturated: false, long: 0, served: 0 };
        let usages = [usage(0, MIB, MIB, 10, 0)];
        meter.sample(
            MIB,
            Some(64 * MIB),
            &usages,
            surroundings(500 * MIB),
            activity,
            Instant::now(),
        );
        let measured = meter.measured();
        assert_eq!((measured.cost, measured.max_worker_bytes), (None, 64 * MIB + OVERHEAD_BYTES));
        assert_eq!(
            meter.reserved_bytes(1),
            64 * MIB + OVERHEAD_BYTES - MIB,
            "it may take its whole limit"
        );
    }

    #[test]
    fn a_limit_beyond_all_memory_keeps_none_from_other_applications() {
        let mut meter = Meter::new(surroundings(500 * MIB));
        let activity = Activity { workers: 2, saturated: false, long: 0, served: 0 };
        let (usages, now) = ([usage(0, 0, 0, 10, 0)], Instant::now());
        for limit in [Some(1 << 50), Some(u64::MAX), None] {
            meter.sample(MIB, limit, &usages, surroundings(500 * MIB), activity, now);
            assert_eq!(meter.reserved_bytes(2), 2 * (USUAL_LIMIT + OVERHEAD_BYTES), "{limit:?}");
            assert!(meter.measured().max_worker_bytes <= 1024 * MIB + OVERHEAD_BYTES);
        }
    }

    #[test]
    fn a_moment_in_which_scripts_take_much_changes_no_room() {
        let (mut now, mut meter) = (Instant::now(), Meter::new(surroundings(500 * MIB)));
        for available in [480, 490, 90, 485, 488] {
            now += Duration::from_secs(1);
            let usages = [usage(0, 10 * MIB, 10 * MIB, 1, 0)];
            meter.sample(0, None, &usages, surroundings(available * MIB), busy(1, false), now);
        }
        assert_eq!(meter.measured().room, 495 * MIB);
    }

    #[test]
    fn the_share_of_a_processor_is_learnt_only_while_requests_wait() {
        let (mut now, mut meter) = (Instant::now(), Meter::new(surroundings(500 * MIB)));
        let mut second = |meter: &mut Meter, cpu: u64, delay: u64, saturated| {
            now += Duration::from_secs(1);
            let usages = [usage(0, MIB, MIB, cpu * 1000, delay * 1000)];
            meter.sample(0, None, &usages, surroundings(500 * MIB), busy(1, saturated), now);
            meter.measured().share
        };
        assert_eq!(second(&mut meter, 100, 0, true), None, "from when on is not known");
        let share = second(&mut meter, 300, 500, true).expect("a second under load");
        assert!(
            (share.running - 0.4).abs() < 0.01 && (share.runnable - 0.7).abs() < 0.01,
            "{share:?}"
        );
        assert_eq!(second(&mut meter, 301, 500, false), Some(share), "it was idle");
        let other = [usage(7, MIB, MIB, 5, 5)];
        let later = Instant::now() + Duration::from_secs(60);
        meter.sample(0, None, &other, surroundings(0), busy(1, true), later);
        assert_eq!(meter.measured().share, Some(share), "another process");
    }

    #[test]
    fn requests_that_run_for_long_count_until_some_samples_have_none() {
        let (start, mut meter) = (Instant::now(), Meter::new(surroundings(500 * MIB)));
        let mut seen = Vec::new();
        for (second, long) in [0, 1, 3, 0, 0, 1, 0, 0, 0, 0, 0].into_iter().enumerate() {
            let now = start + Duration::from_secs(second as u64);
            let activity = Activity { long, ..busy(4, true) };
            meter.sample(0, None, &[], surroundings(500 * MIB), activity, now);
            seen.push(meter.measured().long_requests);
        }
        assert_eq!(seen, [0, 1, 3, 3, 3, 3, 3, 1, 1, 1, 0]);
    }

    #[test]
    fn what_others_may_still_take_is_no_room() {
        let with = MachineState { reserved_bytes: 300 * MIB, ..surroundings(500 * MIB) };
        assert_eq!(Meter::new(with).measured().room, 200 * MIB);
        let more = MachineState { reserved_bytes: 600 * MIB, ..with };
        assert_eq!(Meter::new(more).measured().room, 0);
    }

    #[test]
    fn new_processes_inherit_what_is_known_of_the_cost_and_not_the_room() {
        let mut meter = Meter::new(surroundings(500 * MIB));
        let usages = [usage(0, 10 * MIB, 40 * MIB, 1, 0)];
        meter.sample(0, None, &usages, surroundings(500 * MIB), busy(1, false), Instant::now());
        let renewed = meter.for_new_instance(surroundings(100 * MIB)).measured();
        assert_eq!(
            (renewed.cost, renewed.room, renewed.measured_workers),
            (Some(40 * MIB), 100 * MIB, 0)
        );
    }
}
