//! From single samples to what sizing goes by.
//!
//! - A worker's cost is the most that one has cost in the last ten to twenty minutes: what has
//!   happened will happen again.
//! - The room for workers is the median of some samples: memory is measured a moment after the
//!   workers were, and scripts take and give back much in a moment.
//! - How much workers wait is learnt only while requests wait for workers, as then a worker is
//!   never idle.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use howdah_wire::messages::Usage;
use howdah_wire::queue::Owner;

use super::{Measured, Share};

/// How long costs are remembered: at least once this, at most twice.
const MEMORY: Duration = Duration::from_secs(600);
/// How many samples the room for workers is the median of.
const ROOMS: usize = 5;
/// Weight of a new sample of how much workers wait.
const WEIGHT: f64 = 0.3;
/// PHP's own `memory_limit` by default, for an application that has none.
const USUAL_LIMIT: u64 = 128 << 20;
/// What a worker takes beyond what `memory_limit` bounds.
const BESIDES: u64 = 12 << 20;

/// What the machine looked like when a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Surroundings {
    /// Processors.
    pub processors: u32,
    /// Bytes of the memory that binds.
    pub total: u64,
    /// Bytes of it that are free or can be freed.
    pub available: u64,
    /// Bytes of these that workers of other applications may still take.
    pub promised: u64,
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
    /// Requests answered since the start.
    pub served: u64,
}

/// What was measured, and remembers.
#[derive(Debug, Clone)]
pub struct Meter {
    surroundings: Surroundings,
    activity: Activity,
    cost: Option<Cost>,
    rooms: VecDeque<u64>,
    last: HashMap<Owner, Usage>,
    last_at: Option<Instant>,
    share: Option<Share>,
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

impl Meter {
    /// Nothing is known but the machine.
    pub fn new(surroundings: Surroundings) -> Self {
        Meter {
            activity: Activity { workers: 0, saturated: false, served: 0 },
            cost: None,
            rooms: VecDeque::from([surroundings.available.saturating_sub(surroundings.promised)]),
            surroundings,
            last: HashMap::new(),
            last_at: None,
            share: None,
            known: 0,
            limit: USUAL_LIMIT,
            base: 0,
            pss: 0,
            private: 0,
        }
    }

    /// For new processes of the same application: what workers cost is a good guess, what there
    /// is room for is not.
    pub fn renewed(&self, surroundings: Surroundings) -> Self {
        let (cost, share, limit) = (self.cost, self.share, self.limit);
        Meter { cost, share, limit, ..Meter::new(surroundings) }
    }

    /// Takes a sample: of each worker what it cost, or of some if they are many.
    pub fn sample(
        &mut self,
        base: u64,
        memory_limit: Option<u64>,
        usages: &[Usage],
        surroundings: Surroundings,
        activity: Activity,
        now: Instant,
    ) {
        self.learn_waiting(usages, activity, now);
        (self.surroundings, self.base) = (surroundings, base);
        self.limit = memory_limit.unwrap_or(USUAL_LIMIT).max(1 << 20);
        let all = |value: fn(&Usage) -> u64| -> u64 {
            let sum = usages.iter().fold(0u64, |sum, usage| sum.saturating_add(value(usage)));
            // Those that were not looked at are like those that were.
            let factor = f64::from(activity.workers) / (usages.len().max(1) as f64);
            if factor > 1.0 { (sum as f64 * factor) as u64 } else { sum }
        };
        (self.pss, self.private) = (all(|usage| usage.pss), all(|usage| usage.private));
        self.learn_cost(usages, activity, now);
        let free = surroundings.available.saturating_sub(surroundings.promised);
        self.rooms.push_back(free.saturating_add(self.private));
        if self.rooms.len() > ROOMS {
            self.rooms.pop_front();
        }
        self.last = usages.iter().map(|usage| (usage.worker, usage.clone())).collect();
        self.last_at = Some(now);
        self.activity = activity;
    }

    fn learn_cost(&mut self, usages: &[Usage], activity: Activity, now: Instant) {
        // A worker that has had no request yet says nothing about one that has.
        let begun = activity.served > 0 || usages.iter().any(|usage| usage.cpu_us > 100_000);
        let Some(peak) = usages.iter().map(|usage| usage.peak).max().filter(|_| begun) else {
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

    fn learn_waiting(&mut self, usages: &[Usage], activity: Activity, now: Instant) {
        let Some(last_at) = self.last_at else { return };
        if !(activity.saturated && self.activity.saturated) {
            return;
        }
        let span = now.saturating_duration_since(last_at).as_micros() as u64;
        let (mut on, mut delayed, mut all) = (0u64, 0u64, 0u64);
        for usage in usages {
            let Some(before) = self.last.get(&usage.worker) else { continue };
            on = on.saturating_add(usage.cpu_us.saturating_sub(before.cpu_us));
            delayed = delayed.saturating_add(usage.delay_us.saturating_sub(before.delay_us));
            all = all.saturating_add(span);
        }
        if all == 0 {
            return;
        }
        let part = |of: u64, all: u64| (of as f64 / all.max(1) as f64).clamp(0.001, 1.0);
        let new = Share {
            on: part(on, all.saturating_sub(delayed)),
            wanted: part(on.saturating_add(delayed), all),
        };
        let known = self.share.unwrap_or(new);
        self.share = Some(Share {
            on: known.on + (new.on - known.on) * WEIGHT,
            wanted: known.wanted + (new.wanted - known.wanted) * WEIGHT,
        });
    }

    /// What sizing goes by.
    pub fn measured(&self) -> Measured {
        let mut rooms: Vec<_> = self.rooms.iter().copied().collect();
        rooms.sort_unstable();
        Measured {
            processors: self.surroundings.processors,
            total: self.surroundings.total,
            room: rooms.get(rooms.len() / 2).copied().unwrap_or(0),
            pressure: self.surroundings.pressure,
            workers: self.activity.workers,
            known: self.known,
            cost: self.cost.map(|cost| cost.now.max(cost.before)),
            worst: self.limit.saturating_add(BESIDES),
            share: self.share,
            idle: self.surroundings.idle,
        }
    }

    /// Bytes that the workers may still take beyond what they have: each its cost.
    pub fn promised(&self, workers: u32) -> u64 {
        let measured = self.measured();
        let each = measured.cost.unwrap_or(measured.worst);
        each.saturating_mul(u64::from(workers)).saturating_sub(self.private)
    }

    /// Bytes that the prototype takes, and that its workers take together, in proportion of what
    /// they share.
    pub fn taken(&self) -> (u64, u64) {
        (self.base, self.pss)
    }

    /// Whether it is not known yet how much workers wait.
    pub fn knows_little(&self) -> bool {
        self.share.is_none()
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

    fn surroundings(available: u64) -> Surroundings {
        Surroundings {
            processors: 2,
            total: 1024 * MIB,
            available,
            promised: 0,
            pressure: None,
            idle: None,
        }
    }

    fn usage(index: u16, private: u64, peak: u64, cpu_us: u64, delay_us: u64) -> Usage {
        let worker = Owner { index, incarnation: 1 };
        Usage { worker, pss: private, private, peak, cpu_us, delay_us }
    }

    fn busy(workers: u32, saturated: bool) -> Activity {
        Activity { workers, saturated, served: 100 }
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
        let activity = Activity { workers: 1, saturated: false, served: 0 };
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
        assert_eq!((measured.cost, measured.worst), (None, 64 * MIB + BESIDES));
        assert_eq!(meter.promised(1), 64 * MIB + BESIDES - MIB, "it may take its whole limit");
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
        assert!((share.on - 0.4).abs() < 0.01 && (share.wanted - 0.7).abs() < 0.01, "{share:?}");
        assert_eq!(second(&mut meter, 301, 500, false), Some(share), "it was idle");
        let other = [usage(7, MIB, MIB, 5, 5)];
        let later = Instant::now() + Duration::from_secs(60);
        meter.sample(0, None, &other, surroundings(0), busy(1, true), later);
        assert_eq!(meter.measured().share, Some(share), "another process");
    }

    #[test]
    fn what_others_may_still_take_is_no_room() {
        let with = Surroundings { promised: 300 * MIB, ..surroundings(500 * MIB) };
        assert_eq!(Meter::new(with).measured().room, 200 * MIB);
        let more = Surroundings { promised: 600 * MIB, ..with };
        assert_eq!(Meter::new(more).measured().room, 0);
    }

    #[test]
    fn new_processes_inherit_what_is_known_of_the_cost_and_not_the_room() {
        let mut meter = Meter::new(surroundings(500 * MIB));
        let usages = [usage(0, 10 * MIB, 40 * MIB, 1, 0)];
        meter.sample(0, None, &usages, surroundings(500 * MIB), busy(1, false), Instant::now());
        let renewed = meter.renewed(surroundings(100 * MIB)).measured();
        assert_eq!((renewed.cost, renewed.room, renewed.known), (Some(40 * MIB), 100 * MIB, 0));
    }
}
