//! Simulates a machine whose workers use memory and processors like scripts. The number of workers
//! is sized as in the server, and compared with every fixed number. The load is that of recorded
//! days of real sites ([`recorded`](super::recorded)); synthetic loads test the situations that
//! those lack.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use howdah_config::Processes;
use howdah_wire::messages::Usage;
use howdah_wire::queue::WorkerId;

use super::meter::{Activity, MachineState, Meter};
use super::recorded::{HUNDRED_MIB, LoadRecording, WORDPRESS_SITE};
use super::*;
use crate::worker_count::{Pool, PoolLimits, PoolState};

mod sites;

const MIB: f64 = 1048576.0;
/// One step of the simulation.
const STEP: Duration = Duration::from_millis(5);
/// Memory in bytes of supervisor, router, prototype and OPcache.
const OTHERS: f64 = 30.0 * MIB;
const PROCESSORS: f64 = 2.0;
/// Slowdown of all computing workers for each worker beyond the processors, because they evict each
/// other's caches: a little more than measured with WordPress.
const CROWDING: f64 = 0.07;
/// Memory in bytes of a worker before its first request.
const FRESH: f64 = 3.0 * MIB;

/// A kind of script: it computes first, and then waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Script {
    /// Milliseconds on a processor.
    pub cpu: f64,
    /// Milliseconds on a processor of a database on the same machine, for which the worker waits.
    pub database: f64,
    /// Milliseconds of waiting for another machine, or a disk.
    pub wait: f64,
    /// Peak memory in MiB, in the middle of the run time.
    pub peak: f64,
    /// Memory in MiB that the worker keeps afterwards.
    pub kept: f64,
}

impl Script {
    fn all(&self) -> f64 {
        self.cpu + self.database + self.wait
    }
}

const WORDPRESS: Script = Script { cpu: 40.0, database: 0.0, wait: 15.0, peak: 18.0, kept: 10.0 };
const HUNDRED: Script = Script { cpu: 80.0, database: 0.0, wait: 0.0, peak: 106.0, kept: 10.0 };
const WAITS: Script = Script { cpu: 20.0, database: 0.0, wait: 380.0, peak: 12.0, kept: 10.0 };

#[derive(Clone, Copy, Default)]
struct Worker {
    owner: u16,
    /// Remaining and total run time of the request, and its script.
    work: Option<(f64, f64, Script)>,
    /// Unused time of the last step, for the next request.
    spare: f64,
    kept: f64,
    peak: f64,
    cpu: f64,
    delay: f64,
}

impl Worker {
    fn memory(&self) -> f64 {
        match self.work {
            // The peak lasts for a third of the run time.
            Some((left, all, script)) if left < all * 0.66 && left > all * 0.33 => {
                (script.peak * MIB).max(self.kept)
            }
            _ => self.kept,
        }
    }

    fn stage(&self) -> Stage {
        let Some((left, all, script)) = self.work else { return Stage::Waits };
        match left / all * script.all() {
            left if left > script.database + script.wait => Stage::Computes,
            left if left > script.wait => Stage::Database,
            _ => Stage::Waits,
        }
    }
}

/// State of a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// On a processor, or waiting for one.
    Computes,
    /// Waiting for the database, which is on a processor.
    Database,
    /// Waiting for something else.
    Waits,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Outcome {
    served: u64,
    /// Maximum memory in use.
    peak: f64,
    workers: u32,
}

struct Machine<'a> {
    memory: f64,
    clients: &'a Clients<'a>,
}

/// Number of requests that wait or run at `at` seconds, and their kind of script.
type Clients<'a> = dyn Fn(f64) -> (u32, Script) + 'a;

impl Machine<'_> {
    /// Runs for some seconds, with a fixed number of workers or the automatic one.
    fn run(&self, seconds: f64, fixed: Option<u32>) -> Outcome {
        let start = Instant::now();
        let mut now = start;
        let mut meter = Meter::new(self.machine_state(&[], 0.0));
        let (mut pool, mut next_sample) = (Pool::default(), start);
        let (mut workers, mut numbers) = (Vec::<Worker>::new(), 0);
        let mut outcome = Outcome { served: 0, peak: 0.0, workers: 0 };
        let (mut last_request, mut idle, mut steps) = (None, 0.0, 0.0);
        while now < start + Duration::from_secs_f64(seconds) {
            let (clients, script) = (self.clients)((now - start).as_secs_f64());
            self.work(&mut workers, clients, script, &mut outcome);
            let used: f64 = workers.iter().map(Worker::memory).sum();
            outcome.peak = outcome.peak.max(used + OTHERS);
            let busy = workers.iter().filter(|w| w.work.is_some()).count() as u32;
            let on = workers.iter().filter(|w| w.stage() != Stage::Waits).count() as f64;
            (idle, steps) = (idle + (1.0 - on / PROCESSORS).max(0.0), steps + 1.0);
            if clients > 0 {
                last_request = Some(now);
            }
            let waiting = clients.saturating_sub(busy);
            if now >= next_sample && fixed.is_none() {
                let machine_state = self.machine_state(&workers, idle / steps);
                let saturated = waiting > 0;
                let count = workers.len() as u32;
                let activity =
                    Activity { workers: count, saturated, long: 0, served: outcome.served };
                let usages = usages(&mut workers);
                meter.sample(0, Some(128 << 20), &usages, machine_state, activity, now);
                let growing = size(&meter.measured()).limit == LimitingFactor::Measurement
                    || meter.lacks_samples();
                next_sample = now + Duration::from_millis(if growing { 200 } else { 1000 });
                (idle, steps) = (0.0, 0.0);
            }
            let wanted = match fixed {
                Some(count) => PoolLimits::fixed(count),
                None => PoolLimits::of(Processes::Automatic, size(&meter.measured()).workers),
            };
            let running = PoolState {
                workers: workers.len() as u32,
                busy,
                waiting,
                last_request,
                starting: 0,
            };
            let decision = pool.decide(wanted, running, now);
            for _ in 0..decision.spawn {
                numbers += 1;
                workers.push(Worker { owner: numbers, kept: FRESH, ..Worker::default() });
            }
            let retire_above = match fixed {
                Some(count) => count,
                None => size(&meter.measured()).retire_above,
            };
            let shed = (workers.len() as u32).saturating_sub(retire_above).max(decision.retire);
            for _ in 0..shed {
                if let Some(idle) = workers.iter().position(|w| w.work.is_none()) {
                    workers.remove(idle);
                    pool.worker_ended();
                }
            }
            outcome.workers = workers.len() as u32;
            now += STEP;
        }
        outcome
    }

    /// Simulates one step of all workers.
    fn work(&self, workers: &mut [Worker], clients: u32, script: Script, outcome: &mut Outcome) {
        let speed = Speed::of(workers.iter());
        advance(workers, clients, script, speed, &mut outcome.served);
    }

    fn machine_state(&self, workers: &[Worker], idle: f64) -> MachineState {
        let used: f64 = workers.iter().map(Worker::memory).sum();
        MachineState {
            processors: PROCESSORS as u32,
            total: self.memory as u64,
            available: (self.memory - OTHERS - used).max(0.0) as u64,
            reserved_bytes: 0,
            pressure: Some(0.0),
            idle: Some(idle),
            budget: None,
            own_group: None,
        }
    }

    /// Returns the best of all fixed numbers that fit into memory.
    fn best(&self, seconds: f64) -> (u32, Outcome) {
        [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64]
            .into_iter()
            .map(|count| (count, self.run(seconds, Some(count))))
            .filter(|(_, outcome)| outcome.peak <= self.memory)
            .max_by_key(|(count, outcome)| (outcome.served, std::cmp::Reverse(*count)))
            .expect("one worker fits")
    }
}

/// Progress of workers in a step.
#[derive(Debug, Clone, Copy)]
struct Speed {
    /// Share of a processor that a computing worker has.
    computing: f64,
    /// Share of a processor that the database of a worker has.
    database: f64,
}

impl Speed {
    fn of<'a>(workers: impl Iterator<Item = &'a Worker> + Clone) -> Self {
        let count = |what| workers.clone().filter(|w| w.stage() == what).count() as f64;
        let (computing, asking) = (count(Stage::Computes), count(Stage::Database));
        let crowding = 1.0 + CROWDING * (computing - PROCESSORS).clamp(0.0, PROCESSORS);
        // Linux schedules a process that has just woken first: the database has slept.
        let database = (PROCESSORS / asking.max(1.0)).min(1.0);
        let left = (PROCESSORS - asking).max(0.0);
        Speed { computing: (left / computing.max(1.0)).min(1.0) / crowding, database }
    }
}

/// Simulates one step of the workers of an application.
fn advance(workers: &mut [Worker], clients: u32, script: Script, speed: Speed, served: &mut u64) {
    let step = STEP.as_secs_f64() * 1000.0;
    let mut busy = workers.iter().filter(|worker| worker.work.is_some()).count() as u32;
    for (at, worker) in workers.iter_mut().enumerate() {
        if worker.work.is_none() && busy < clients {
            busy += 1;
            // Run times vary.
            let all = script.all() * (0.8 + 0.05 * ((at * 7 + *served as usize) % 9) as f64);
            worker.work = Some((all - std::mem::take(&mut worker.spare), all, script));
        }
        let stage = worker.stage();
        let Some((left, _, script)) = &mut worker.work else { continue };
        let progress = match stage {
            Stage::Computes => step * speed.computing,
            Stage::Database => step * speed.database,
            Stage::Waits => step,
        };
        *left -= progress;
        if stage == Stage::Computes {
            worker.cpu += progress;
            worker.delay += step - progress;
        }
        let (left, keeps) = (*left, script.kept.min(script.peak) * MIB);
        worker.peak = worker.peak.max(worker.memory());
        if left <= 0.0 {
            worker.spare = -left;
            *served += 1;
            worker.work = None;
            worker.kept = worker.kept.max(keeps);
        }
    }
}

fn usages(workers: &mut [Worker]) -> Vec<Usage> {
    let usage = |worker: &mut Worker| {
        let private = worker.memory() as u64;
        let peak = std::mem::take(&mut worker.peak).max(worker.memory()) as u64;
        let (cpu_us, delay_us) = ((worker.cpu * 1000.0) as u64, (worker.delay * 1000.0) as u64);
        let owner = WorkerId { index: worker.owner, incarnation: 0 };
        Usage { worker: owner, pss: private, private, peak, cpu_us, delay_us }
    };
    workers.iter_mut().map(usage).collect()
}

fn good_and_safe(name: &str, mib: f64, seconds: f64, clients: &Clients<'_>) -> Outcome {
    let machine = Machine { memory: mib * MIB, clients };
    let (count, best) = machine.best(seconds);
    let automatic = machine.run(seconds, None);
    let note = format!(
        "{name}, {mib} MiB: {count} workers served {}, automatic sizing {} with {} and {:.0} MiB",
        best.served,
        automatic.served,
        automatic.workers,
        automatic.peak / MIB
    );
    assert!(automatic.peak <= machine.memory, "out of memory: {note}");
    assert!(automatic.served as f64 >= 0.95 * best.served as f64, "{note}");
    automatic
}

/// Checks that sizing follows a recorded day on machines of all sizes.
fn follows_the_recorded_day(name: &str, text: &str) {
    let day = LoadRecording::read(text);
    for mib in [256.0, 512.0, 1024.0] {
        let outcome = good_and_safe(name, mib, day.seconds(), &|at| day.at(at));
        assert_eq!(outcome.workers, 0, "{name}, {mib} MiB: the last quarter of a minute was quiet");
    }
}

#[test]
fn a_recorded_day_of_wordpress_is_served_as_well_as_by_the_best_fixed_number() {
    follows_the_recorded_day("WordPress", WORDPRESS_SITE);
}

#[test]
fn a_recorded_day_of_a_script_of_100_mib_is_served_as_well_as_by_the_best_fixed_number() {
    follows_the_recorded_day("100 MiB", HUNDRED_MIB);
}

#[test]
fn a_crowd_of_wordpress_visitors_is_served_as_well_as_by_the_best_fixed_number() {
    for mib in [256.0, 512.0, 1024.0] {
        good_and_safe("WordPress", mib, 30.0, &|_| (64, WORDPRESS));
    }
}

#[test]
fn scripts_of_a_hundred_mib_are_served_as_well_as_by_the_best_fixed_number() {
    for mib in [256.0, 512.0, 1024.0] {
        let outcome = good_and_safe("100 MiB", mib, 30.0, &|_| (32, HUNDRED));
        assert_eq!(outcome.workers, 2, "{mib}");
    }
}

#[test]
fn scripts_that_wait_get_many_workers() {
    let outcome = good_and_safe("waiting", 1024.0, 90.0, &|_| (100, WAITS));
    assert!(outcome.workers >= 30, "{outcome:?}");
    // If a script that takes its whole limit is half of the memory, room for it has priority.
    let small = Machine { memory: 256.0 * MIB, clients: &|_| (100, WAITS) }.run(30.0, None);
    assert!((5..12).contains(&small.workers), "{small:?}");
}

#[test]
fn a_job_that_takes_much_memory_finds_room_among_light_requests() {
    let mixed = |at: f64| match at {
        // One request at a time at first, as of a cron job.
        at if at % 20.0 < 0.5 => (1, HUNDRED),
        _ => (40, WORDPRESS),
    };
    for mib in [256.0, 512.0, 1024.0] {
        let machine = Machine { memory: mib * MIB, clients: &mixed };
        let outcome = machine.run(120.0, None);
        assert!(outcome.peak <= machine.memory, "{mib}: {:.0}", outcome.peak / MIB);
    }
}

/// Visitors of a shop over a day, every half hour; each lasts a second here.
const SHOP: [u32; 48] = [
    2, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 5, 8, 11, 14, 18, 21, 24, 26, 27, 29, 30, 33, 31, 28,
    26, 25, 24, 24, 26, 29, 33, 38, 44, 51, 58, 63, 66, 61, 52, 40, 29, 19, 11, 6, 3,
];

#[test]
fn a_day_is_followed_up_and_down() {
    let day = |at: f64| (SHOP[(at as usize).min(47)], WORDPRESS);
    good_and_safe("a day", 512.0, 48.0, &day);
    let after = |at: f64| (SHOP.get(at as usize).copied().unwrap_or(0), WORDPRESS);
    let outcome = Machine { memory: 512.0 * MIB, clients: &after }.run(80.0, None);
    assert_eq!(outcome.workers, 0, "nobody came any more");
}

#[test]
fn the_number_is_steady_under_a_steady_load() {
    let machine = Machine { memory: 512.0 * MIB, clients: &|_| (64, WORDPRESS) };
    let seen: HashMap<u32, ()> =
        (10..40).map(|seconds| (machine.run(f64::from(seconds), None).workers, ())).collect();
    assert!(seen.len() <= 2, "{seen:?}");
}
