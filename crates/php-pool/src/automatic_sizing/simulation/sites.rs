//! Simulates several applications on one machine, which share its memory.

use super::super::shares::{RecentDemand, divide};
use super::super::shortage::CONTENDED_IDLE_TIMEOUT;
use super::*;

/// Memory in bytes of a prototype.
const PROTOTYPE: f64 = 2.0 * MIB;

/// Waits nearly all the time, so that only memory limits the number of workers.
const POLLS: Script = Script { cpu: 8.0, database: 0.0, wait: 142.0, peak: 12.0, kept: 10.0 };

/// An application and its visitors.
struct Site {
    clients: Box<Clients<'static>>,
    /// Number of workers; automatic if `None`.
    fixed: Option<u32>,
    meter: Meter,
    pool: Pool,
    workers: Vec<Worker>,
    started: u16,
    served: u64,
    demand: RecentDemand,
    next_sample: f64,
    last_request: Option<Instant>,
    /// Time in seconds during which requests waited and there was no worker.
    without_worker: f64,
}

impl Site {
    fn new(clients: impl Fn(f64) -> (u32, Script) + 'static) -> Self {
        let unknown = MachineState {
            processors: PROCESSORS as u32,
            total: 0,
            available: 0,
            reserved_bytes: 0,
            pressure: None,
            idle: None,
            budget: None,
            own_group: None,
        };
        Site {
            clients: Box::new(clients),
            fixed: None,
            meter: Meter::new(unknown),
            pool: Pool::default(),
            workers: Vec::new(),
            started: 0,
            served: 0,
            demand: RecentDemand::default(),
            next_sample: 0.0,
            last_request: None,
            without_worker: 0.0,
        }
    }

    fn fixed(count: u32, clients: impl Fn(f64) -> (u32, Script) + 'static) -> Self {
        Site { fixed: Some(count), ..Site::new(clients) }
    }

    fn count(&self) -> u32 {
        self.workers.len() as u32
    }

    fn busy(&self) -> u32 {
        self.workers.iter().filter(|worker| worker.work.is_some()).count() as u32
    }

    fn memory(&self) -> f64 {
        self.workers.iter().map(Worker::memory).sum()
    }
}

/// A machine with several sites.
struct Sites {
    memory: f64,
    budget: Option<u64>,
    sites: Vec<Site>,
    start: Instant,
    /// Seconds since the start.
    now: f64,
    /// Maximum memory of prototypes and workers.
    peak: f64,
    contended_until: f64,
    /// Idle share of the processors: the sum of the last steps and their number, and the mean of
    /// the steps before.
    idle: (f64, f64),
    last_idle: f64,
}

impl Sites {
    fn new(mib: f64, sites: Vec<Site>) -> Self {
        Sites {
            memory: mib * MIB,
            budget: None,
            sites,
            start: Instant::now(),
            now: 0.0,
            peak: 0.0,
            contended_until: 0.0,
            idle: (0.0, 0.0),
            last_idle: 1.0,
        }
    }

    /// Returns the number of workers of each site.
    fn counts(&self) -> Vec<u32> {
        self.sites.iter().map(Site::count).collect()
    }

    fn used(&self) -> f64 {
        self.sites.iter().map(|site| site.memory() + PROTOTYPE).sum()
    }

    fn run(&mut self, seconds: f64) {
        let end = self.now + seconds;
        while self.now < end {
            let now = self.start + Duration::from_secs_f64(self.now);
            let all = self.sites.iter().flat_map(|site| &site.workers);
            let on = all.clone().filter(|w| w.stage() != Stage::Waits).count() as f64;
            let speed = Speed::of(all);
            self.idle = (self.idle.0 + (1.0 - on / PROCESSORS).max(0.0), self.idle.1 + 1.0);
            if self.idle.1 >= 40.0 {
                self.last_idle = self.idle.0 / self.idle.1;
                self.idle = (0.0, 0.0);
            }
            for site in &mut self.sites {
                let (clients, script) = (site.clients)(self.now);
                advance(&mut site.workers, clients, script, speed, &mut site.served);
                site.demand.add(clients, now);
                if clients > 0 {
                    site.last_request = Some(now);
                    if site.workers.is_empty() {
                        site.without_worker += STEP.as_secs_f64();
                    }
                }
            }
            self.peak = self.peak.max(self.used());
            for index in 0..self.sites.len() {
                let site = &self.sites[index];
                let is_used = (site.clients)(self.now).0 > 0 || site.busy() > 0;
                if self.now >= site.next_sample && is_used && site.count() > 0 {
                    self.measure(index, now);
                }
                self.adjust(index, now);
            }
            self.now += STEP.as_secs_f64();
        }
    }

    fn state(&self, index: usize) -> MachineState {
        let others = self.sites.iter().enumerate().filter(|(other, _)| *other != index);
        let reserved_bytes = others.map(|(_, site)| site.meter.reserved_bytes(site.count())).sum();
        let state = MachineState {
            processors: PROCESSORS as u32,
            total: self.memory as u64,
            available: (self.memory - OTHERS - self.used()).max(0.0) as u64,
            reserved_bytes,
            pressure: Some(0.0),
            idle: Some(self.last_idle),
            budget: self.budget,
            own_group: None,
        };
        state.within_budget(self.used() as u64)
    }

    fn measure(&mut self, index: usize, now: Instant) {
        let state = self.state(index);
        let site = &mut self.sites[index];
        let clients = (site.clients)(self.now).0;
        let saturated = clients > site.busy();
        let activity = Activity { workers: site.count(), saturated, long: 0, served: site.served };
        let usages = usages(&mut site.workers);
        site.meter.sample(PROTOTYPE as u64, Some(128 << 20), &usages, state, activity, now);
        let growing = size(&site.meter.measured()).limit == LimitingFactor::Measurement
            || site.meter.lacks_samples();
        site.next_sample = self.now + if growing { 0.2 } else { 1.0 };
        let claims: Vec<_> = self
            .sites
            .iter()
            .map(|site| {
                let by_processors = size(&site.meter.measured()).by_processors;
                let demand = site.demand.at(now).min(site.fixed.unwrap_or(by_processors));
                site.meter.claim(site.fixed.is_none(), site.count(), demand)
            })
            .collect();
        let division = divide(&claims, state.total, state.available);
        if division.is_contended {
            self.contended_until = self.now + 2.0;
        }
        for (site, share) in self.sites.iter_mut().zip(division.shares) {
            site.meter.set_share(share);
        }
    }

    fn adjust(&mut self, index: usize, now: Instant) {
        let is_contended = self.now < self.contended_until;
        if self.sites[index].count() == 0 {
            let state = self.state(index);
            let site = &mut self.sites[index];
            site.meter = site.meter.for_new_instance(state);
        }
        let site = &mut self.sites[index];
        let decision = size(&site.meter.measured());
        let mut wanted = match site.fixed {
            Some(count) => PoolLimits::fixed(count),
            None => PoolLimits::of(Processes::Automatic, decision.workers),
        };
        if is_contended {
            wanted = wanted.released_after(CONTENDED_IDLE_TIMEOUT);
        }
        let busy = site.busy();
        let running = PoolState {
            workers: site.count(),
            busy,
            waiting: (site.clients)(self.now).0.saturating_sub(busy),
            last_request: site.last_request,
            starting: 0,
        };
        let change = site.pool.decide(wanted, running, now);
        for _ in 0..change.spawn {
            site.started += 1;
            let owner = site.started;
            site.workers.push(Worker { owner, kept: FRESH, ..Worker::default() });
        }
        let excess = match site.fixed {
            Some(_) => 0,
            None => site.count().saturating_sub(decision.retire_above),
        };
        for _ in 0..excess.max(change.retire) {
            if let Some(idle) = site.workers.iter().position(|w| w.work.is_none()) {
                site.workers.remove(idle);
                site.pool.worker_ended();
            }
        }
    }
}

fn always(clients: u32, script: Script) -> impl Fn(f64) -> (u32, Script) {
    move |_| (clients, script)
}

#[test]
fn a_flood_on_one_site_leaves_another_the_workers_of_its_visitors() {
    for visitors in [1, 2, 3] {
        let flood = Site::new(always(200, POLLS));
        let quiet = Site::new(move |at| (if at < 30.0 { 0 } else { visitors }, POLLS));
        let mut machine = Sites::new(400.0, vec![flood, quiet]);
        machine.run(30.0);
        assert!(machine.counts()[0] > 12, "{:?}", machine.counts());
        machine.run(10.0);
        assert_eq!(machine.counts()[1], visitors, "{:?}", machine.counts());
        assert!(machine.sites[1].without_worker < 0.1, "it got one at once");
        assert!(machine.peak + OTHERS <= machine.memory, "{}", machine.peak / MIB);
    }
}

#[test]
fn floods_of_two_sites_share_the_memory_alike_whichever_came_first() {
    let first = Site::new(always(200, POLLS));
    let second = Site::new(|at| (if at < 30.0 { 0 } else { 200 }, POLLS));
    let mut machine = Sites::new(400.0, vec![first, second]);
    machine.run(30.0);
    let alone = machine.counts()[0];
    machine.run(30.0);
    let counts = machine.counts();
    assert!(counts[0].abs_diff(counts[1]) <= 2, "{counts:?}");
    assert!(counts[0] + counts[1] + 3 >= alone, "the memory is used: {alone}, {counts:?}");
    assert!(machine.peak + OTHERS <= machine.memory, "{}", machine.peak / MIB);
}

#[test]
fn the_share_of_a_site_without_requests_goes_to_those_with_waiting_ones() {
    let first = Site::new(always(200, POLLS));
    let second = Site::new(|at| (if at < 30.0 { 200 } else { 0 }, POLLS));
    let mut machine = Sites::new(400.0, vec![first, second]);
    machine.run(30.0);
    let shared = machine.counts();
    machine.run(12.0);
    let counts = machine.counts();
    assert_eq!(counts[1], 0, "before the idle timeout of 15 s");
    assert!(counts[0] + 3 >= shared[0] + shared[1], "{shared:?} {counts:?}");
}

#[test]
fn a_configured_number_is_kept_and_automatic_ones_take_the_rest() {
    let configured = Site::fixed(10, always(20, POLLS));
    let mut machine = Sites::new(400.0, vec![configured, Site::new(always(200, POLLS))]);
    machine.run(40.0);
    let counts = machine.counts();
    assert_eq!(counts[0], 10);
    assert!(counts[1] >= 8, "{counts:?}");
    assert!(machine.peak + OTHERS <= machine.memory, "{}", machine.peak / MIB);
}

#[test]
fn a_budget_is_kept_on_a_machine_with_more_memory() {
    let sites = vec![
        Site::new(always(200, WAITS)),
        Site::new(always(100, WORDPRESS)),
        Site::new(|at| (u32::from(at % 3.0 < 0.5), HUNDRED)),
    ];
    let mut machine = Sites { budget: Some(400 << 20), ..Sites::new(4096.0, sites) };
    machine.run(60.0);
    assert!(machine.peak <= 400.0 * MIB, "{}", machine.peak / MIB);
    let counts = machine.counts();
    assert!(counts[0] >= 5 && counts[1] >= 2, "{counts:?}");
    assert!(machine.sites[2].without_worker < 1.0, "{}", machine.sites[2].without_worker);
}

#[test]
fn a_hundred_rarely_visited_sites_fit_into_a_small_machine() {
    // Each site has a visitor for a quarter of a second every ten seconds.
    let site = |number: usize| {
        let offset = number as f64 * 0.1;
        Site::new(move |at| (u32::from((at + offset) % 10.0 < 0.25), WORDPRESS))
    };
    let mut machine = Sites::new(512.0, (0..100).map(site).collect());
    machine.run(40.0);
    assert!(machine.peak + OTHERS <= machine.memory, "{}", machine.peak / MIB);
    let slowest = machine.sites.iter().map(|site| site.without_worker).fold(0.0, f64::max);
    assert!(slowest < 0.5, "a request waited {slowest} s for its first worker");
    assert!(machine.sites.iter().all(|site| site.served >= 4));
}

#[test]
fn shares_are_steady_under_a_steady_load() {
    let sites = vec![Site::new(always(100, POLLS)), Site::new(always(100, POLLS))];
    let mut machine = Sites::new(400.0, sites);
    machine.run(30.0);
    let (mut least, mut most) = (machine.counts(), machine.counts());
    for _ in 0..20 {
        machine.run(1.0);
        let counts = machine.counts();
        for (index, count) in counts.into_iter().enumerate() {
            least[index] = least[index].min(count);
            most[index] = most[index].max(count);
        }
    }
    for (least, most) in least.into_iter().zip(most) {
        assert!(most - least <= 2, "{least} to {most}");
    }
}
