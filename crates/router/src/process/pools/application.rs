//! One application: its queue, its current instance and the state of its workers.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use ::howdah_config as config;
use howdah_php_pool::automatic_sizing::application::Sizing;
use howdah_php_pool::queue::{Busy, Instance, Load, Queue};
use howdah_php_pool::status::PoolStatus;
use howdah_php_pool::worker_count::{Pool, PoolState};
use howdah_pipeline::thread::ThreadCommand;
use howdah_questions::{
    ActiveRequests, ApplicationMemory, ApplicationStatus, LimitsStatus, Named, OpcacheMemory,
    OpcacheStatus, PhpActivity, PhpStatus, ProcessUse, Processes, WorkerStatus,
};
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log_rate::LogRate;
use howdah_sys::process_usage::ProcessUses;
use howdah_wire::frame::OpcacheUsage;
use howdah_wire::messages::Problem;
use howdah_wire::queue::WorkerId;

use super::end_lines::EndLines;
use super::kept::Kept;
use super::notes::Notes;
use super::restarts::{LONG_LIFE, Restarts};
use crate::process::threads::Threads;

/// An application that runs or is being prepared.
#[derive(Debug)]
pub(super) struct PooledApplication {
    pub(super) config: Arc<config::Application>,
    pub(super) sizing: Sizing,
    pub(super) queue: Arc<Queue>,
    /// The current prototype and its workers.
    pub(super) instance: Option<Arc<Instance>>,
    /// Process id of the prototype, once a worker has been listed.
    pub(super) prototype: Option<u32>,
    /// Time at which PHP was loaded; `None` before.
    pub(super) ready_since: Option<Instant>,
    /// The current instance shares the start of PHP with other applications.
    pub(super) shares_start: bool,
    /// The supervisor counts what the current instance uses, as no control group limits it.
    pub(super) is_counted: bool,
    /// The last start of the worker script of a resident application.
    pub(super) boot: Option<WorkerStatus>,
    /// Limit on the lines about workers that have failed.
    pub(super) end_lines: EndLines,
    /// Maximum number of workers that start with the prototype, by `settings.max_processes`.
    pub(super) max_initial: u32,
    /// What was last logged in place of PHP-FPM.
    pub(super) notes: Notes,
    /// Time since which the prototype has had no worker and no request; `None` if it has.
    pub(super) unused_since: Option<Instant>,
    /// Must be able to serve before it is adopted. Other applications load PHP with their first
    /// request.
    pub(super) must_be_ready: bool,
    /// Is adopted although it must be ready and is not.
    pub(super) is_waived: bool,
    /// Was adopted before it was ready, and has neither been ready nor failed since.
    pub(super) is_early: bool,
    /// Is a new instance of a running application, which starts beside changes of the
    /// configuration.
    pub(super) is_restart: bool,
    /// The start of the instance, until it is ready or is stopped because it takes too long.
    pub(super) starting_since: Option<Instant>,
    /// Requests fail because it has been starting for so long.
    pub(super) is_overdue: bool,
    pub(super) pool: Pool,
    /// Workers that were asked for and have not started yet.
    pub(super) starting: u32,
    /// Starts of workers are logged: the first workers run, or the server has started before.
    pub(super) logs_starts: bool,
    /// Start times of the workers.
    pub(super) started: HashMap<WorkerId, Instant>,
    /// Time of the next start after a failure.
    pub(super) restart_at: Option<Instant>,
    pub(super) restarts: Restarts,
    /// Something about it has changed since [`Pools::tick`](super::Pools::tick) has looked at it.
    pub(super) has_changed: bool,
    /// Time at which it must be looked at, if nothing changes before.
    pub(super) due: Option<Instant>,
    /// Time of the next check for slow requests.
    pub(super) slow_check_at: Option<Instant>,
    /// Workers that take no requests.
    pub(super) absent: HashMap<WorkerId, Absence>,
    /// Time of the last check for workers that take no requests.
    pub(super) absence_checked: Option<Instant>,
    /// The instance is being ended because a worker has damaged the shared memory.
    pub(super) is_damaged: bool,
    /// The last failure; logged once.
    pub(super) failure: Option<Problem>,
    /// Reason why its processes are not those of its files, or may not be, and the remedy.
    pub(super) not_replaced: Option<String>,
    /// A reload has changed it to one that cannot run; it continues unchanged.
    pub(super) kept: Option<Box<Kept>>,
    /// Reason why it could not start, or its problem while it runs, found by the supervisor without
    /// a start.
    pub(super) foreseen: Option<Problem>,
    /// Was started without a request, to learn whether it can run again.
    pub(super) is_trial: bool,
    /// Reason why the processes of its instance run as another user than new ones would.
    pub(super) stale_user: Option<String>,
    /// Number of the last configuration with this application unchanged.
    pub(super) generation: u32,
    /// All configurations with this application. While one is in use, a request that began under it
    /// (an upload, for example) may still come.
    pub(super) snapshots: Vec<Weak<Snapshot>>,
}

/// A worker that takes no requests.
#[derive(Debug)]
pub(super) struct Absence {
    /// Number of its requests so far.
    pub requests: u64,
    /// Number of checks that have found it so. Time in which the whole machine stood still does not
    /// count.
    pub checks: u32,
    /// The worker was asleep and has been called.
    pub was_called: bool,
}

impl PooledApplication {
    /// Takes the limits of all processes together, which may have changed while they run.
    pub(super) fn take_resources(&mut self, new: &config::Application) {
        if self.config.isolation != new.isolation {
            Arc::make_mut(&mut self.config).isolation.clone_from(&new.isolation);
        }
        self.sizing.limit_to(self.config.max_workers());
    }

    /// Creates an application without an instance. It must be able to serve before it is adopted if
    /// `is_required`, or if it is configured to have workers before its first request.
    pub(super) fn new(
        config: Arc<config::Application>,
        queue: Arc<Queue>,
        sizing: Sizing,
        generation: u32,
        is_required: bool,
    ) -> Self {
        PooledApplication {
            queue,
            instance: None,
            prototype: None,
            ready_since: None,
            shares_start: false,
            is_counted: false,
            boot: None,
            end_lines: EndLines::default(),
            max_initial: u32::MAX,
            notes: Notes::default(),
            unused_since: None,
            must_be_ready: is_required || sizing.wanted().initial() > 0,
            is_waived: false,
            is_early: false,
            is_restart: false,
            starting_since: None,
            is_overdue: false,
            sizing,
            pool: Pool::default(),
            starting: 0,
            logs_starts: false,
            started: HashMap::new(),
            restart_at: None,
            restarts: Restarts::default(),
            has_changed: true,
            due: None,
            slow_check_at: None,
            absent: HashMap::new(),
            absence_checked: None,
            is_damaged: false,
            failure: None,
            not_replaced: None,
            kept: None,
            foreseen: None,
            stale_user: None,
            is_trial: false,
            snapshots: Vec::new(),
            generation,
            config,
        }
    }

    /// Returns true if it must be looked at: something has changed, its time has come, or a router
    /// thread has asked for it.
    pub(super) fn must_be_looked_at(&self, now: Instant) -> bool {
        self.has_changed || self.due.is_some_and(|due| due <= now) || self.queue.has_asked()
    }

    /// Returns the number of the current instance.
    pub(super) fn number(&self) -> Option<u32> {
        self.instance.as_ref().map(|instance| instance.number)
    }

    /// Takes a new instance, which has not loaded PHP yet.
    pub(super) fn set_instance(&mut self, instance: Arc<Instance>) {
        self.instance = Some(instance);
        self.prototype = None;
        self.ready_since = None;
        self.is_trial = false;
        self.starting_since = Some(Instant::now());
        self.is_overdue = false;
        self.boot = None;
        self.unused_since = None;
        self.pool.reset_retirements();
        self.starting = 0;
        self.started.clear();
        self.absent.clear();
        self.restart_at = None;
        self.is_damaged = false;
        self.stale_user = None;
        self.not_replaced = None;
        self.queue.take_load();
    }

    /// Returns true if its adoption must wait for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.must_be_ready && !self.is_waived
    }

    /// Returns true if its adoption must wait for it, and it cannot serve yet.
    pub(super) fn is_late(&self) -> bool {
        self.is_awaited() && !self.has_started()
    }

    /// Returns true if it can serve, with the workers that it has from the start.
    pub(super) fn has_started(&self) -> bool {
        self.ready_since.is_some() && (self.started.len() as u32) >= self.initial()
    }

    /// Fails all queued and new requests until the next start.
    pub(super) fn suspend(&mut self, reason: &str, threads: &Threads) {
        let keys: Arc<[_]> = self.queue.stop(reason).into();
        threads.send(|| ThreadCommand::Fail { keys: Arc::clone(&keys), reason: reason.to_owned() });
    }

    /// Does the same if its worker script does not work: no worker is left, and several starts have
    /// failed. The script would fail for each request that waits, too.
    pub(super) fn suspend_broken(&mut self, reason: &str, threads: &Threads) {
        let has_none = self.starting == 0 && self.workers() == 0;
        if has_none
            && self.config.worker.is_some()
            && let Some(pause) = self.pool.not_before()
        {
            self.restart_at = Some(pause);
            self.suspend(reason, threads);
        }
    }

    /// Returns the reason for which it does not run or its workers end; `None` if a worker has
    /// lived for [`LONG_LIFE`].
    pub(super) fn problem(&self) -> Option<String> {
        let is_well = self.started.values().any(|started| started.elapsed() >= LONG_LIFE);
        self.failure.as_ref().filter(|_| !is_well).map(ToString::to_string)
    }

    /// Returns the reason why its requests fail, and will until its next start or until a directory
    /// is back; `None` if they are served.
    pub(super) fn out_because(&self) -> Option<&Problem> {
        let (failure, foreseen) = (self.failure.as_ref(), self.foreseen.as_ref());
        match self.ready_since {
            None if self.restarts.is_pausing() || self.is_overdue => failure,
            None if self.instance.is_none() => failure.or(foreseen),
            None => None,
            Some(_) if self.has_no_worker() => failure.or(foreseen),
            Some(_) => foreseen,
        }
    }

    /// Returns true if it has failed, so that a start must show when it can run again. A problem
    /// that the supervisor sees without a start needs none.
    pub(super) fn needs_trial(&self) -> bool {
        self.instance.is_none() && self.failure.is_some() && self.foreseen.is_none()
    }

    /// Returns true if its workers have failed to start, and there is none.
    pub(super) fn has_no_worker(&self) -> bool {
        self.workers() == 0 && self.failure.is_some() && self.pool.not_before().is_some()
    }

    /// Returns the reason why its processes are not those of its files; `None` if they are.
    pub(super) fn is_former_because(&self) -> Option<&String> {
        let kept = self.kept.as_ref().map(|kept| &kept.reason);
        kept.or(self.not_replaced.as_ref()).filter(|_| self.instance.is_some())
    }

    /// Returns the worker script's problem while another script answers instead.
    pub(super) fn falls_back_because(&self) -> Option<&String> {
        self.boot.as_ref().and_then(|boot| boot.fallback.as_ref())
    }

    /// Returns the reason why requests wait for long: all processes have been busy with others for
    /// longer than `limits/slow`. `None` if none waits, or if no request is slow.
    pub(super) fn busy_because(&self) -> Option<String> {
        let limits = &self.config.limits;
        let Busy { processes, time, waiting } = self.queue.busy(limits.slow?)?;
        let (seconds, log) = (time.as_secs(), limits.slow_log.as_deref());
        let log = log.map(|path| path.display().to_string());
        let processes = match processes {
            1 => "its process has".to_owned(),
            all => format!("all {all} processes have"),
        };
        let requests = if waiting == 1 { "request waits" } else { "requests wait" };
        let log = log.as_deref().unwrap_or("the log");
        Some(format!(
            "{processes} been busy for {seconds} s, and {waiting} {requests}; {log} has the \
             stacks of its scripts"
        ))
    }

    /// Returns the number of workers that start with the prototype.
    pub(super) fn initial(&self) -> u32 {
        self.sizing.wanted().initial().min(self.max_initial)
    }

    /// Returns the number of its workers, with those that start now or with the prototype.
    pub(super) fn claimed_workers(&self) -> u32 {
        let first = if self.starting_since.is_some() { self.initial() } else { 0 };
        (self.workers() + self.starting).max(first)
    }

    /// Returns the number of running workers.
    pub(super) fn workers(&self) -> u32 {
        self.instance.as_ref().map_or(0, |instance| instance.worker_count())
    }

    /// Returns the memory of its prototype and of its workers in bytes, as last measured.
    pub(super) fn memory_usage(&self) -> (u64, u64) {
        self.instance.as_ref().map_or((0, 0), |_| self.sizing.memory_usage(self.workers()))
    }

    /// Returns the load of the queue and the state of its workers.
    pub(super) fn load(&self, load: Load) -> (Load, PoolState) {
        let workers = self.workers();
        let running = PoolState {
            workers,
            starting: self.starting,
            busy: load.peak.min(workers),
            waiting: load.waiting + load.in_slots.saturating_sub(workers),
            last_request: load.last_request,
        };
        (load, running)
    }

    /// Returns true if its last request has ended.
    pub(super) fn is_finished(&self) -> bool {
        let can_come = self.snapshots.iter().any(|snapshot| snapshot.strong_count() > 0);
        let load = self.queue.load();
        !can_come && load.in_slots == 0 && load.waiting == 0
    }

    /// Returns the limits of all its processes together.
    fn limits(&self) -> Option<LimitsStatus> {
        let isolation = &self.config.isolation;
        let group = isolation.cgroup.as_ref();
        let own = isolation.limits.as_ref();
        let limits = LimitsStatus {
            memory: group.and_then(|one| one.memory_max).or_else(|| own?.memory),
            cpu: group.and_then(|one| one.cpu_max).or_else(|| own?.cpu).map(|n| f64::from(n) / 1e3),
            processes: group.and_then(|one| one.pids_max).or_else(|| own?.processes),
            approximate: self.ready_since.map(|_| self.is_counted),
        };
        let has_any = limits.memory.is_some() || limits.cpu.is_some() || limits.processes.is_some();
        has_any.then_some(limits)
    }

    /// Returns its state for the control API.
    pub(super) fn report(&self) -> (ApplicationStatus, PhpStatus) {
        let load = self.queue.load();
        let running = u64::from(self.workers());
        let active = u64::from(load.in_slots) + u64::from(load.waiting);
        // A prototype that loads PHP for waiting requests counts as a starting worker.
        let is_loading = self.ready_since.is_none() && active > 0;
        let (prototype, processes) = self.memory_usage();
        let status = self.queue.status(false);
        let state = match (&self.instance, self.ready_since) {
            (_, Some(_)) => "loaded",
            (Some(_), None) => "loading",
            (None, None) => "unloaded",
        };
        let start = if self.shares_start { "shared" } else { "own" };
        let retired = status.retired.iter();
        let retired = retired.map(|(reason, count)| (reason.name().to_owned(), *count)).collect();
        let application = ApplicationStatus {
            processes: Processes {
                running,
                starting: u64::from(self.starting.max(u32::from(is_loading))),
                idle: running.saturating_sub(u64::from(load.in_slots)),
            },
            requests: ActiveRequests { active },
            problem: self.problem(),
        };
        let php = PhpStatus {
            state: state.into(),
            memory: ApplicationMemory { prototype, processes },
            start: self.ready_since.map(|_| start.into()),
            given_up: status.given_up,
            limits: self.limits(),
            worker: self.boot.clone().map(|worker| WorkerStatus { retired, ..worker }),
            opcache: status.opcache.map(opcache),
            activity: self.activity(&status),
            processes: self.process_use(),
        };
        (application, php)
    }

    /// Takes what its processes use. Its prototype is the parent of its workers, and has all
    /// processes below it that scripts start, whose parents have ended or not.
    pub(super) fn take_use(&mut self, processes: &ProcessUses) {
        let workers = self.instance.as_ref().map(|instance| instance.pids()).unwrap_or_default();
        let parent = workers.into_iter().find_map(|worker| processes.parent(worker));
        self.prototype = parent.or(self.prototype).filter(|_| self.instance.is_some());
        let used = self.prototype.and_then(|root| Some((root, processes.of_tree(root)?)));
        match used {
            Some((root, used)) => self.queue.process_use.measured(root, used),
            None => self.queue.process_use.ended(),
        }
    }

    fn process_use(&self) -> ProcessUse {
        let used = self.queue.process_use.sum();
        let has_template = self.boot.as_ref().is_some_and(|boot| boot.template);
        let own =
            1 + u64::from(self.workers()) + u64::from(self.starting) + u64::from(has_template);
        ProcessUse {
            all: used.processes,
            programs: used.processes.saturating_sub(own),
            runnable: used.runnable,
            cpu_us: used.cpu_us,
            private: used.private,
        }
    }

    fn activity(&self, status: &PoolStatus) -> PhpActivity {
        let retired = status.retired.iter();
        let mut ends: Named<u64> =
            retired.map(|(reason, count)| (reason.name().to_owned(), *count)).collect();
        ends.extend(self.queue.ends.counts());
        let left_out = [&self.queue.log_rate, &self.queue.request_lines].map(LogRate::all_left_out);
        PhpActivity {
            accepted: status.accepted,
            slow: status.slow,
            timed_out: self.queue.ends.timed_out(),
            exhausted: status.max_children_reached,
            cpu_us: status.cpu_time,
            memory_peak: status.memory_peak,
            longest_us: status.longest_run,
            log_bytes: self.queue.log_rate.all_bytes(),
            dropped_lines: left_out.iter().sum(),
            ends,
            failed_last_minute: self.queue.ends.last_minute(Instant::now()),
            restarts: self.queue.ends.restarts(),
        }
    }
}

fn opcache(usage: OpcacheUsage) -> OpcacheStatus {
    let OpcacheUsage { is_enabled, used, free, wasted, scripts, hits, misses, restarts } = usage;
    let memory = OpcacheMemory { used, free, wasted };
    OpcacheStatus { enabled: is_enabled, memory, scripts, hits, misses, restarts }
}
