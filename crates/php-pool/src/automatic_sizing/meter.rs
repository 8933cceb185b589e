//! Condenses samples into the numbers that sizing uses.
//!
//! - The cost of a worker is the maximum of the last ten to twenty minutes: peaks repeat.
//! - The room for workers is the median of the last samples: memory is measured slightly later than
//!   the workers, and scripts allocate and free much in a short time.
//! - The waiting time of workers is measured only while requests wait for workers, because then no
//!   worker is idle.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use howdah_wire::messages::Usage;
use howdah_wire::queue::WorkerId;

use super::shares::MemoryClaim;
use super::{Measured, ProcessorShare};

/// Time for which costs are remembered: at least this, at most twice as long.
const MEMORY: Duration = Duration::from_secs(600);
/// Number of samples for the median of the room for workers.
const MEDIAN_SAMPLES: usize = 5;
/// Time constant in seconds of the moving average of the workers' processor share.
const WAIT_MEAN_SECONDS: f64 = 3.0;
/// PHP's default `memory_limit` in bytes, for an application without a setting.
const USUAL_LIMIT: u64 = 128 << 20;
/// Memory of a worker in bytes in addition to `memory_limit`.
const OVERHEAD_BYTES: u64 = 12 << 20;

/// Processors and memory of the machine at the time of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineState {
    /// Number of processors.
    pub processors: u32,
    /// Size in bytes of the memory that limits: the machine's or the control group's.
    pub total: u64,
    /// Bytes of it that are free or can be freed.
    pub available: u64,
    /// Bytes of these that workers of other applications may still allocate.
    pub reserved_bytes: u64,
    /// Time in percent during which a process waited for memory (PSI); `None` if unknown.
    pub pressure: Option<f64>,
    /// Idle share of the processors' time (0 to 1); `None` if unknown.
    pub idle: Option<f64>,
    /// Maximum memory of all PHP processes in bytes, from the configuration.
    pub budget: Option<u64>,
    /// Size in bytes of the memory of the application's own control group; `None` without one.
    pub own_group: Option<u64>,
}

impl MachineState {
    /// Returns the state within the [budget](MachineState::budget), of which PHP processes use
    /// `used` bytes.
    pub fn within_budget(self, used: u64) -> Self {
        let left = |budget: u64| budget.saturating_sub(used);
        match self.budget.filter(|budget| left(*budget) < self.available) {
            Some(budget) => MachineState { total: budget, available: left(budget), ..self },
            None => self,
        }
    }

    /// Returns the state with less memory for further workers: this one, or that of the
    /// application's own control group.
    pub fn tighter(self, group: MachineState) -> Self {
        let (own_group, budget) = (Some(group.total), self.budget);
        let tighter = if group.free() < self.free() { group } else { self };
        MachineState { own_group, budget, ..tighter }
    }

    /// Returns the bytes that workers of this application may take.
    fn free(&self) -> u64 {
        self.available.saturating_sub(self.reserved_bytes)
    }
}

/// Load of the application at the time of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Number of running workers.
    pub workers: u32,
    /// Requests wait although all workers have one.
    pub saturated: bool,
    /// Number of requests that have run for [`LONG`](super::LONG_REQUEST_TIME).
    pub long: u32,
    /// Number of requests answered since the start.
    pub served: u64,
}

/// Collects samples, and keeps maxima and averages of them.
#[derive(Debug, Clone)]
pub struct Meter {
    machine_state: MachineState,
    activity: Activity,
    cost: Option<Cost>,
    /// Last samples: room for workers in bytes, and number of long requests.
    lately: VecDeque<(u64, u32)>,
    /// Share of the memory for workers, in bytes.
    share_bytes: Option<u64>,
    last: HashMap<WorkerId, Usage>,
    last_at: Option<Instant>,
    load: Option<Load>,
    known: u32,
    limit: u64,
    /// Memory in bytes of the prototype and of all its workers; shared pages count in proportion
    /// (PSS).
    base: u64,
    pss: u64,
    private: u64,
}

/// Maximum cost of a worker in bytes, in the current period and in the one before.
#[derive(Debug, Clone, Copy)]
struct Cost {
    since: Instant,
    now: u64,
    before: u64,
}

/// Sums in seconds over the time in which requests waited; old samples fade.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// Time of workers: on a processor, waiting for one, and in total.
    on: f64,
    delayed: f64,
    all: f64,
    /// Time of processors: idle, and in total as far as it is known.
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
    /// Creates a meter that knows only the machine.
    pub fn new(machine_state: MachineState) -> Self {
        Meter {
            activity: Activity { workers: 0, saturated: false, long: 0, served: 0 },
            cost: None,
            lately: VecDeque::from([(machine_state.free(), 0)]),
            share_bytes: None,
            machine_state,
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

    /// Returns the meter of new processes of the same application: the cost of workers stays a good
    /// estimate, the room does not.
    pub fn for_new_instance(&self, machine_state: MachineState) -> Self {
        let (cost, load, limit) = (self.cost, self.load, self.limit);
        Meter { cost, load, limit, ..Meter::new(machine_state) }
    }

    /// Takes a sample. `usages` has all workers, or some of them if there are many.
    pub fn sample(
        &mut self,
        base: u64,
        memory_limit: Option<u64>,
        usages: &[Usage],
        machine_state: MachineState,
        activity: Activity,
        now: Instant,
    ) {
        self.learn_waiting(usages, machine_state.idle, activity, now);
        (self.machine_state, self.base) = (machine_state, base);
        // A script cannot allocate more than the whole memory, regardless of its limit.
        self.limit = memory_limit.unwrap_or(USUAL_LIMIT).min(machine_state.total).max(1 << 20);
        let all = |value: fn(&Usage) -> u64| -> u64 {
            let sum = usages.iter().fold(0u64, |sum, usage| sum.saturating_add(value(usage)));
            // Workers that were not measured count like the measured ones.
            let factor = f64::from(activity.workers) / (usages.len().max(1) as f64);
            if factor > 1.0 { (sum as f64 * factor) as u64 } else { sum }
        };
        (self.pss, self.private) = (all(|usage| usage.pss), all(|usage| usage.private));
        self.learn_cost(usages, activity, now);
        let room = machine_state.free().saturating_add(self.private);
        self.lately.push_back((room, activity.long));
        if self.lately.len() > MEDIAN_SAMPLES {
            self.lately.pop_front();
        }
        self.last = usages.iter().map(|usage| (usage.worker, usage.clone())).collect();
        self.last_at = Some(now);
        self.activity = activity;
    }

    fn learn_cost(&mut self, usages: &[Usage], activity: Activity, now: Instant) {
        // The cost of a worker without any request is no estimate for the others.
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

    /// Returns the numbers for sizing.
    pub fn measured(&self) -> Measured {
        let mut rooms: Vec<_> = self.lately.iter().map(|(room, _)| *room).collect();
        rooms.sort_unstable();
        Measured {
            processors: self.machine_state.processors,
            total: self.machine_state.total,
            room: rooms.get(rooms.len() / 2).copied().unwrap_or(0),
            share_bytes: self.share_bytes,
            pressure: self.machine_state.pressure,
            workers: self.activity.workers,
            measured_workers: self.known,
            long_requests: self.lately.iter().map(|(_, long)| *long).max().unwrap_or(0),
            cost: self.cost(),
            max_worker_bytes: self.limit.saturating_add(OVERHEAD_BYTES),
            share: self.load.map(Load::share),
            idle: self.load.and_then(Load::idle).or(self.machine_state.idle),
        }
    }

    /// Returns the bytes by which `workers` workers may still grow: the measured cost of each minus
    /// their current use. Before the first measurement the cost is the application's
    /// `memory_limit`, but at most PHP's default: a large setting alone takes no memory from other
    /// applications.
    pub fn reserved_bytes(&self, workers: u32) -> u64 {
        let each = self.cost().unwrap_or(self.usual_worker_bytes());
        each.saturating_mul(u64::from(workers))
            .saturating_sub(self.of_workers(self.private, workers))
    }

    /// Returns the claim of an application with `workers` workers, whose requests need `demand`
    /// workers if the processors permit.
    pub fn claim(&self, is_automatic: bool, workers: u32, demand: u32) -> MemoryClaim {
        MemoryClaim {
            is_automatic,
            cost: self.cost(),
            max_worker_bytes: self.usual_worker_bytes(),
            workers,
            private: self.of_workers(self.private, workers),
            demand,
            max_bytes: self.machine_state.own_group.unwrap_or(u64::MAX),
        }
    }

    /// Sets the share of the memory.
    pub fn set_share(&mut self, share_bytes: Option<u64>) {
        self.share_bytes = share_bytes;
    }

    /// Returns the maximum recent cost of a worker in bytes.
    fn cost(&self) -> Option<u64> {
        self.cost.map(|cost| cost.now.max(cost.before))
    }

    /// Returns the maximum size of a worker in bytes, but at most with PHP's default
    /// `memory_limit`: a large setting alone takes no memory from other applications.
    fn usual_worker_bytes(&self) -> u64 {
        self.limit.min(USUAL_LIMIT).saturating_add(OVERHEAD_BYTES)
    }

    /// Returns the part of a measured sum that `workers` workers have: some have ended since.
    fn of_workers(&self, sum: u64, workers: u32) -> u64 {
        let measured = u64::from(self.activity.workers.max(1));
        let part = u128::from(sum) * u128::from(u64::from(workers).min(measured));
        u64::try_from(part / u128::from(measured)).unwrap_or(u64::MAX)
    }

    /// Returns the memory in bytes of the prototype, and of `workers` workers; shared pages count
    /// in proportion (PSS).
    pub fn memory_usage(&self, workers: u32) -> (u64, u64) {
        (self.base, self.of_workers(self.pss, workers))
    }

    /// Returns true if the waiting time of workers has not been measured yet.
    pub fn lacks_samples(&self) -> bool {
        self.load.is_none()
    }

    /// Returns the time of the last sample.
    pub fn last(&self) -> Option<Instant> {
        self.last_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn machine_state(available: u64) -> MachineState {
        MachineState {
            processors: 2,
            total: 1024 * MIB,
            available,
            reserved_bytes: 0,
            pressure: None,
            idle: None,
            budget: None,
            own_group: None,
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
        let mut meter = Meter::new(machine_state(500 * MIB));
        let mut cost_after = |minutes: u64, peak: u64| {
            let now = start + Duration::from_secs(minutes * 60);
            let usages = [usage(0, 10 * MIB, peak * MIB, 1, 0)];
            meter.sample(0, None, &usages, machine_state(500 * MIB), busy(1, false), now);
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
        let mut meter = Meter::new(machine_state(500 * MIB));
        let activity = Activity { workers: 1, saturated: false, long: 0, served: 0 };
        let usages = [usage(0, MIB, MIB, 10, 0)];
        meter.sample(
            MIB,
            Some(64 * MIB),
            &usages,
            machine_state(500 * MIB),
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
        let mut meter = Meter::new(machine_state(500 * MIB));
        let activity = Activity { workers: 2, saturated: false, long: 0, served: 0 };
        let (usages, now) = ([usage(0, 0, 0, 10, 0)], Instant::now());
        for limit in [Some(1 << 50), Some(u64::MAX), None] {
            meter.sample(MIB, limit, &usages, machine_state(500 * MIB), activity, now);
            assert_eq!(meter.reserved_bytes(2), 2 * (USUAL_LIMIT + OVERHEAD_BYTES), "{limit:?}");
            assert!(meter.measured().max_worker_bytes <= 1024 * MIB + OVERHEAD_BYTES);
        }
    }

    #[test]
    fn a_moment_in_which_scripts_take_much_changes_no_room() {
        let (mut now, mut meter) = (Instant::now(), Meter::new(machine_state(500 * MIB)));
        for available in [480, 490, 90, 485, 488] {
            now += Duration::from_secs(1);
            let usages = [usage(0, 10 * MIB, 10 * MIB, 1, 0)];
            meter.sample(0, None, &usages, machine_state(available * MIB), busy(1, false), now);
        }
        assert_eq!(meter.measured().room, 495 * MIB);
    }

    #[test]
    fn the_share_of_a_processor_is_learnt_only_while_requests_wait() {
        let (mut now, mut meter) = (Instant::now(), Meter::new(machine_state(500 * MIB)));
        let mut second = |meter: &mut Meter, cpu: u64, delay: u64, saturated| {
            now += Duration::from_secs(1);
            let usages = [usage(0, MIB, MIB, cpu * 1000, delay * 1000)];
            meter.sample(0, None, &usages, machine_state(500 * MIB), busy(1, saturated), now);
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
        meter.sample(0, None, &other, machine_state(0), busy(1, true), later);
        assert_eq!(meter.measured().share, Some(share), "another process");
    }

    #[test]
    fn requests_that_run_for_long_count_until_some_samples_have_none() {
        let (start, mut meter) = (Instant::now(), Meter::new(machine_state(500 * MIB)));
        let mut seen = Vec::new();
        for (second, long) in [0, 1, 3, 0, 0, 1, 0, 0, 0, 0, 0].into_iter().enumerate() {
            let now = start + Duration::from_secs(second as u64);
            let activity = Activity { long, ..busy(4, true) };
            meter.sample(0, None, &[], machine_state(500 * MIB), activity, now);
            seen.push(meter.measured().long_requests);
        }
        assert_eq!(seen, [0, 1, 3, 3, 3, 3, 3, 1, 1, 1, 0]);
    }

    #[test]
    fn what_others_may_still_take_is_no_room() {
        let with = MachineState { reserved_bytes: 300 * MIB, ..machine_state(500 * MIB) };
        assert_eq!(Meter::new(with).measured().room, 200 * MIB);
        let more = MachineState { reserved_bytes: 600 * MIB, ..with };
        assert_eq!(Meter::new(more).measured().room, 0);
    }

    #[test]
    fn a_budget_limits_the_memory_if_less_of_it_is_left() {
        let with = |budget| MachineState { budget, ..machine_state(500 * MIB) };
        let left = |budget, used| {
            let state = with(budget).within_budget(used);
            (state.total / MIB, state.available / MIB)
        };
        assert_eq!(left(None, 100 * MIB), (1024, 500));
        assert_eq!(left(Some(300 * MIB), 100 * MIB), (300, 200));
        assert_eq!(left(Some(300 * MIB), 400 * MIB), (300, 0));
        assert_eq!(left(Some(800 * MIB), 100 * MIB), (1024, 500), "the machine has less");
    }

    #[test]
    fn an_own_control_group_limits_an_application_by_itself() {
        let promised = MachineState { reserved_bytes: 300 * MIB, ..machine_state(500 * MIB) };
        let group = MachineState { total: 256 * MIB, ..machine_state(150 * MIB) };
        let free = |state: MachineState| (state.total / MIB, state.free() / MIB);
        assert_eq!(free(promised.tighter(group)), (256, 150));
        let wide = MachineState { total: 900 * MIB, ..machine_state(800 * MIB) };
        assert_eq!(free(promised.tighter(wide)), (1024, 200));
        let meter = Meter::new(promised.tighter(wide));
        assert_eq!(meter.claim(true, 1, 1).max_bytes, 900 * MIB);
    }

    #[test]
    fn workers_that_have_ended_use_no_memory() {
        let mut meter = Meter::new(machine_state(500 * MIB));
        let usages = [usage(0, 10 * MIB, 20 * MIB, 1, 0), usage(1, 30 * MIB, 40 * MIB, 1, 0)];
        let (state, now) = (machine_state(500 * MIB), Instant::now());
        meter.sample(5 * MIB, None, &usages, state, busy(2, false), now);
        let usage = |workers| meter.memory_usage(workers);
        assert_eq!([0, 1, 2, 3].map(usage).map(|(_, all)| all / MIB), [0, 20, 40, 40]);
        assert_eq!(usage(0).0, 5 * MIB);
        assert_eq!(meter.reserved_bytes(1), 20 * MIB, "one of 40 MiB, which has 20");
    }

    #[test]
    fn new_processes_inherit_what_is_known_of_the_cost_and_not_the_room() {
        let mut meter = Meter::new(machine_state(500 * MIB));
        let usages = [usage(0, 10 * MIB, 40 * MIB, 1, 0)];
        meter.sample(0, None, &usages, machine_state(500 * MIB), busy(1, false), Instant::now());
        let renewed = meter.for_new_instance(machine_state(100 * MIB)).measured();
        assert_eq!(
            (renewed.cost, renewed.room, renewed.measured_workers),
            (Some(40 * MIB), 100 * MIB, 0)
        );
    }
}
