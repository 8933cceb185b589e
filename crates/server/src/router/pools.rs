//! Applications that run, and how many workers each has.
//!
//! An application is prepared (its prototype loads PHP, its first workers start), then adopted
//! when its configuration becomes the running one, and leaves when a newer configuration does not
//! have it any more: it goes on until no request that began under the old one can come.

mod keep;
mod prepare;
mod restarts;
mod retired;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ::howdah_config as config;
use howdah_php_pool::output::{self, Whose};
use howdah_php_pool::pool::{Pool, Progress, Running};
use howdah_php_pool::queue::{Instance, Load, Queue, Worker};
use howdah_php_pool::status::manager;
use howdah_php_pool::thread::Ask;
use howdah_sys::log::Level;
use howdah_wire::messages::{Exit, FromSupervisor, ToSupervisor};
use howdah_wire::queue::Owner;
use howdah_wire::region::Geometry;

use self::restarts::{LONG_LIFE, Restarts};
use self::retired::Retired;
use super::command::{ApplicationReport, Tuning};
use super::link::Link;
use super::machine::Machine;
use super::sizing::{Measurement, Sizing};
use super::traces::Traces;
use crate::snapshot::Snapshot;
use crate::thread;
use crate::thread::{Order, Shared};

/// How long workers of a removed application may take to finish.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// All applications.
#[derive(Debug)]
pub(super) struct Pools {
    shared: Arc<Shared>,
    shards: Arc<[thread::Handle]>,
    preparing: Vec<PooledApplication>,
    applications: Vec<PooledApplication>,
    leaving: Vec<PooledApplication>,
    /// Instances that take no more requests and finish what their workers have.
    retired: HashMap<u32, Retired>,
    next_number: u32,
    machine: Machine,
    /// Number of the configuration that runs, or that is being applied.
    pub(super) generation: u32,
    /// Requests that are slow, and what is being found out about them.
    pub(super) traces: Traces,
}

/// An application that runs, or is going to.
#[derive(Debug)]
struct PooledApplication {
    config: config::Application,
    sizing: Sizing,
    queue: Arc<Queue>,
    instance: Option<Arc<Instance>>,
    /// When PHP was loaded; `None` while it is not.
    ready_since: Option<Instant>,
    /// Must be able to serve before it is adopted; the others load PHP with their first request.
    awaited: bool,
    /// It is adopted although it cannot serve.
    is_excused: bool,
    pool: Pool,
    starting: u32,
    /// The first workers have started: that further ones start is worth a line in the log.
    has_started: bool,
    started: HashMap<Owner, Instant>,
    restart_at: Option<Instant>,
    restarts: Restarts,
    /// When to look for slow requests.
    slow_look: Option<Instant>,
    /// It is being ended because a worker has damaged what they share.
    damaged: bool,
    /// The last reason for which it could not run; logged once.
    failure: Option<String>,
    /// Number of the last configuration that has this application as it is.
    generation: u32,
    /// Every configuration that has this application: a request that began under one of them, an
    /// upload that takes its time, may still come.
    snapshots: Vec<Weak<Snapshot>>,
}

impl Pools {
    /// No application yet.
    pub(super) fn new(shared: Arc<Shared>, shards: Arc<[thread::Handle]>) -> Self {
        Pools {
            traces: Traces::new(Arc::clone(&shared.log)),
            shared,
            shards,
            preparing: Vec::new(),
            applications: Vec::new(),
            generation: 0,
            leaving: Vec::new(),
            retired: HashMap::new(),
            next_number: 0,
            machine: Machine::default(),
        }
    }

    /// Writes to the log.
    pub(super) fn log(&self, level: Level, message: impl std::fmt::Display) {
        self.shared.log.write(level, message);
    }

    // -- preparing, adopting, leaving --

    /// The queue of the application that runs with the same settings, or of the one that is being
    /// prepared.
    pub(super) fn queue(&self, config: &config::Application) -> Option<Arc<Queue>> {
        let mut all = self.preparing.iter().chain(&self.applications);
        all.find(|app| app.config == *config).map(|app| Arc::clone(&app.queue))
    }

    /// Names of the applications that run.
    pub(super) fn names(&self) -> Vec<String> {
        self.applications.iter().map(|app| app.config.name.clone()).collect()
    }

    /// Starts to prepare an application. It is waited for if `always`, or if it shall have
    /// workers before its first request.
    pub(super) fn prepare(
        &mut self,
        link: &Link,
        config: &config::Application,
        always: bool,
    ) -> std::io::Result<()> {
        let queue = Arc::new(Queue::new(config.limits.queue as usize));
        let sizing =
            Sizing::new(config.processes, self.look(0, config.isolation.cgroup.as_deref()));
        self.prepare_with(link, config.clone(), queue, sizing, self.generation, always)
    }

    /// Starts to prepare another instance of a running application; `false` if there is none.
    pub(super) fn prepare_restart(&mut self, link: &Link, name: &str) -> std::io::Result<bool> {
        let Some(index) = self.applications.iter().position(|app| app.config.name == name) else {
            return Ok(false);
        };
        let running = &self.applications[index];
        let (config, queue) = (running.config.clone(), Arc::clone(&running.queue));
        let generation = running.generation;
        let surroundings = self.look(0, config.isolation.cgroup.as_deref());
        let sizing = self.applications[index].sizing.renewed(surroundings);
        self.prepare_with(link, config, queue, sizing, generation, true)?;
        Ok(true)
    }

    fn prepare_with(
        &mut self,
        link: &Link,
        config: config::Application,
        queue: Arc<Queue>,
        sizing: Sizing,
        generation: u32,
        always: bool,
    ) -> std::io::Result<()> {
        let wanted = sizing.wanted();
        queue.set_most(wanted.max, manager(&config.processes));
        let mut app = PooledApplication {
            queue,
            instance: None,
            ready_since: None,
            awaited: always || wanted.initial() > 0,
            is_excused: false,
            sizing,
            pool: Pool::default(),
            starting: 0,
            has_started: false,
            started: HashMap::new(),
            restart_at: None,
            restarts: Restarts::default(),
            slow_look: None,
            damaged: false,
            failure: None,
            snapshots: Vec::new(),
            generation,
            config,
        };
        if app.awaited {
            self.start(link, &mut app)?;
        }
        self.preparing.push(app);
        Ok(())
    }

    fn start(&mut self, link: &Link, app: &mut PooledApplication) -> std::io::Result<()> {
        self.next_number += 1;
        let number = self.next_number;
        let geometry = Geometry::for_pool(app.sizing.most(), self.shards.len() as u32);
        let (instance, memory) = Instance::create(number, geometry)?;
        let mut descriptors = vec![memory.as_fd()];
        descriptors.extend(instance.eventfds().iter().map(AsFd::as_fd));
        let (name, generation) = (app.config.name.clone(), app.generation);
        let start = ToSupervisor::Start { application: number, name, generation, geometry };
        link.send_with(&start, &descriptors)?;
        let instance = Arc::new(instance);
        for shard in self.shards.iter() {
            let (instance, queue) = (Arc::clone(&instance), Arc::clone(&app.queue));
            shard.order(Order::Attach { instance, queue });
        }
        app.instance = Some(instance);
        app.ready_since = None;
        app.starting = 0;
        app.started.clear();
        app.restart_at = None;
        app.damaged = false;
        app.queue.take_load();
        Ok(())
    }

    /// What was prepared is not wanted after all.
    pub(super) fn discard(&mut self, link: &Link) -> std::io::Result<()> {
        for app in std::mem::take(&mut self.preparing) {
            if let Some(instance) = app.instance {
                self.retire(link, app.config.name, instance, Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// What was prepared runs from now on. An application of the same name and queue is a restart:
    /// the old instance finishes what its workers have. Any other one of the same name leaves.
    pub(super) fn adopt(&mut self, link: &Link) -> std::io::Result<()> {
        for mut app in std::mem::take(&mut self.preparing) {
            let same_name =
                self.applications.iter().position(|old| old.config.name == app.config.name);
            let old = same_name.map(|index| self.applications.swap_remove(index));
            if let (Some(_), Some(instance)) = (app.ready_since, &app.instance) {
                app.queue.serve_from(Some(Arc::clone(instance)));
            }
            match old {
                Some(old) if Arc::ptr_eq(&old.queue, &app.queue) => {
                    app.snapshots = old.snapshots;
                    if let Some(instance) = old.instance {
                        self.retire(link, old.config.name, instance, GRACE)?;
                    }
                }
                old => self.leaving.extend(old),
            }
            self.applications.push(app);
        }
        Ok(())
    }

    /// Only the applications of this snapshot are configured; the others leave when no request of
    /// theirs can come any more.
    pub(super) fn keep_only(&mut self, snapshot: &Arc<Snapshot>) {
        for mut app in std::mem::take(&mut self.applications) {
            if snapshot.applications.contains_key(app.config.name.as_str()) {
                app.snapshots.retain(|snapshot| snapshot.strong_count() > 0);
                app.snapshots.push(Arc::downgrade(snapshot));
                app.generation = self.generation;
                self.applications.push(app);
            } else {
                self.leaving.push(app);
            }
        }
    }

    fn retire(
        &mut self,
        link: &Link,
        name: String,
        instance: Arc<Instance>,
        grace: Duration,
    ) -> std::io::Result<()> {
        instance.close();
        let grace_ms = grace.as_millis() as u64;
        link.send(&ToSupervisor::Stop { application: instance.number, grace_ms })?;
        self.retired.insert(instance.number, Retired::new(name, instance));
        Ok(())
    }

    // -- what the supervisor and the threads report --

    /// Takes a message that is not for `apply`.
    pub(super) fn on_message(
        &mut self,
        link: &Link,
        message: FromSupervisor,
        descriptors: Vec<OwnedFd>,
    ) -> std::io::Result<()> {
        match message {
            FromSupervisor::Ready { application, .. } => self.on_ready(link, application)?,
            FromSupervisor::Ended { application, message } => self.on_ended(application, &message),
            FromSupervisor::Started { application, worker, pid } => {
                self.on_started(application, worker, pid, descriptors);
            }
            FromSupervisor::NotStarted { application, message } => {
                self.on_not_started(application, &message);
            }
            FromSupervisor::Died { application, worker, pid, status, was_idle } => {
                self.on_died(application, worker, pid, status, was_idle);
            }
            FromSupervisor::Measured { application, base, memory_limit, workers } => {
                self.on_measured(application, &Measurement { base, memory_limit, workers });
            }
            FromSupervisor::Traced { application, number, stack } => {
                self.traces.on_traced(application, number, &stack);
            }
            _ => {}
        }
        Ok(())
    }

    fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        let running = self.all().filter_map(|app| app.instance.as_ref());
        running.chain(self.retired.values().map(|retired| &retired.instance))
    }

    /// The server ends and no request comes any more: all workers leave when they are idle.
    pub(super) fn close(&self) {
        self.instances().for_each(|instance| instance.close());
    }

    /// Takes a request of a router thread.
    pub(super) fn on_ask(&mut self, link: &Link, ask: Ask) -> std::io::Result<()> {
        let signal = howdah_sys::signals::SIGKILL as u8;
        match ask {
            Ask::Kill { instance, worker } => {
                link.send(&ToSupervisor::Kill { application: instance, worker, signal })
            }
            Ask::Overdue(slow) => {
                let (application, worker) = (slow.instance, slow.worker);
                self.traces.overdue(link, slow)?;
                link.send(&ToSupervisor::Kill { application, worker, signal })
            }
            Ask::Crowded => Ok(()), // looked at in `tick`, which follows
        }
    }

    fn all(&self) -> impl Iterator<Item = &PooledApplication> {
        self.applications.iter().chain(&self.preparing).chain(&self.leaving)
    }

    fn by_number(&mut self, number: u32) -> Option<&mut PooledApplication> {
        let all = self.applications.iter_mut().chain(&mut self.preparing).chain(&mut self.leaving);
        all.into_iter().find(|app| app.number() == Some(number))
    }

    fn on_ready(&mut self, link: &Link, number: u32) -> std::io::Result<()> {
        let preparing = self.preparing.iter().any(|app| app.number() == Some(number));
        let Some(app) = self.by_number(number) else { return Ok(()) };
        app.ready_since = Some(Instant::now());
        app.failure = None;
        app.sizing.asked(Instant::now());
        link.send(&ToSupervisor::Measure { application: number })?;
        if !preparing {
            app.queue.serve_from(app.instance.clone());
            return Ok(());
        }
        app.starting = app.initial();
        for _ in 0..app.starting {
            link.send(&ToSupervisor::Spawn { application: number })?;
        }
        Ok(())
    }

    fn on_ended(&mut self, number: u32, message: &str) {
        self.traces.on_gone(number, None);
        if let Some(instance) = self.instance(number) {
            instance.remove_workers();
        }
        let preparing = self.preparing.iter().any(|app| app.number() == Some(number));
        // Before the threads settle what the instance had in hand: a request that went to it
        // after that would never be heard of again.
        if let Some(app) = self.by_number(number).filter(|_| !preparing) {
            app.queue.serve_from(None);
        }
        for shard in self.shards.iter() {
            shard.order(Order::Detach { instance: number, reason: message.to_owned() });
        }
        if self.retired.remove(&number).is_some() {
            return;
        }
        let (log, shards) = (Arc::clone(&self.shared.log), Arc::clone(&self.shards));
        let Some(app) = self.by_number(number) else { return };
        let now = Instant::now();
        let ready_for = app.ready_since.take().map(|since| now - since);
        app.instance = None;
        app.starting = 0;
        app.started.clear();
        let failure = Some(message.to_owned());
        let known = std::mem::replace(&mut app.failure, failure.clone()) == failure;
        if preparing && app.awaited && !app.is_excused {
            return; // whoever waits for it is told
        }
        if !known {
            let name = &app.config.name;
            log.write(Level::Alert, format_args!("\"{name}\" application: {message}"));
        }
        let pause = app.restarts.ended(ready_for);
        app.restart_at = Some(now + pause);
        if pause.is_zero() {
            return; // what waits, and what comes, waits for the next one
        }
        app.stop_for_a_while(message, &shards);
    }

    fn on_started(&mut self, number: u32, worker: Owner, pid: u32, descriptors: Vec<OwnedFd>) {
        let (log, shards) = (Arc::clone(&self.shared.log), Arc::clone(&self.shards));
        let Some(app) = self.by_number(number) else { return };
        let mut descriptors = descriptors.into_iter();
        let (Some(socket), Some(instance)) = (descriptors.next(), &app.instance) else {
            return;
        };
        if instance.has_worker(worker) {
            // Whoever has the socket that a worker began with has it until the worker ends.
            let name = &app.config.name;
            log.write(Level::Alert, format_args!("\"{name}\" worker {pid} started twice"));
            return;
        }
        let whose = Whose {
            application: app.config.name.as_str().into(),
            pid,
            worker,
            queue: Arc::clone(&app.queue),
            instance: Arc::downgrade(instance),
            log: Arc::clone(&log),
        };
        let output = descriptors.next().and_then(|pipe| output::watch(pipe, whose).ok());
        instance.add_worker(worker, Worker::new(pid, socket, output));
        for shard in shards.iter() {
            shard.order(Order::WorkerStarted { instance: number, worker });
        }
        app.starting = app.starting.saturating_sub(1);
        app.started.insert(worker, Instant::now());
        app.queue.feed();
        if app.has_started {
            let name = &app.config.name;
            log.write_as(pid, Level::Info, format_args!("\"{name}\" application started"));
        }
        app.has_started |= app.starting == 0;
    }

    fn on_not_started(&mut self, number: u32, message: &str) {
        let log = Arc::clone(&self.shared.log);
        let Some(app) = self.by_number(number) else { return };
        app.starting = app.starting.saturating_sub(1);
        app.pool.died(Progress::Starting, Duration::ZERO, Instant::now());
        let message = format!("no worker could be started: {message}");
        if app.failure.as_ref() != Some(&message) {
            let name = &app.config.name;
            log.write(Level::Alert, format_args!("\"{name}\" application: {message}"));
            app.failure = Some(message);
        }
    }

    fn on_died(&mut self, number: u32, worker: Owner, pid: u32, status: Exit, was_idle: bool) {
        let served = self.instance(number).is_some_and(|instance| instance.has_served(worker));
        self.traces.on_gone(number, Some(worker));
        self.tell_death(number, worker, pid, status);
        let preparing = self.preparing.iter().any(|app| app.number() == Some(number));
        let log = Arc::clone(&self.shared.log);
        let failed = status != Exit::Status(0);
        if failed && let Some(Retired { name, .. }) = self.retired.get(&number) {
            log.write(Level::Error, format_args!("\"{name}\" worker {pid} {status}"));
        }
        let Some(app) = self.by_number(number) else { return };
        let now = Instant::now();
        let lived = app.started.remove(&worker).map_or(Duration::ZERO, |at| now - at);
        let early = failed && !served && lived < LONG_LIFE;
        let failure = early.then(|| format!("a worker {status} before it had a request"));
        let known = early && app.failure == failure;
        if served || failed {
            let progress = match (served, was_idle) {
                (true, _) => Progress::Served,
                (false, true) => Progress::Ready,
                (false, false) => Progress::Starting,
            };
            app.pool.died(progress, lived, now);
        }
        if preparing || early || served || !failed {
            app.failure = failure;
        }
        if failed && !known {
            let name = &app.config.name;
            let more =
                if early { " before it had a request; others may follow untold" } else { "" };
            log.write(Level::Error, format_args!("\"{name}\" worker {pid} {status}{more}"));
        }
    }

    fn tell_death(&self, number: u32, worker: Owner, pid: u32, status: Exit) {
        if let Some(instance) = self.instance(number) {
            instance.remove_worker(worker);
        }
        let how: Arc<str> = format!("worker {pid} {status}").into();
        for shard in self.shards.iter() {
            let how = Arc::clone(&how);
            shard.order(Order::WorkerDied { instance: number, worker, how });
        }
    }

    fn instance(&self, number: u32) -> Option<Arc<Instance>> {
        let running = self.all().find(|app| app.number() == Some(number));
        running
            .and_then(|app| app.instance.clone())
            .or_else(|| self.retired.get(&number).map(|retired| Arc::clone(&retired.instance)))
    }

    /// What each application does, by name.
    pub(super) fn report(&self) -> Vec<ApplicationReport> {
        let mut reports: Vec<_> = self.applications.iter().map(PooledApplication::report).collect();
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        reports
    }

    /// How the number of an application's workers came about.
    pub(super) fn tuning(&self, name: &str) -> Option<Tuning> {
        let app = self.applications.iter().find(|app| app.config.name == name)?;
        Some(Tuning { problem: app.problem(), ..app.sizing.explain(app.workers()) })
    }
}

impl PooledApplication {
    fn number(&self) -> Option<u32> {
        self.instance.as_ref().map(|instance| instance.number)
    }

    /// Whether it is to serve before it is adopted, and does not yet.
    fn is_late(&self) -> bool {
        let is_ready = self.ready_since.is_some() && (self.started.len() as u32) >= self.initial();
        self.awaited && !self.is_excused && !is_ready
    }

    /// It cannot run now: its requests fail until the next try.
    fn stop_for_a_while(&mut self, why: &str, shards: &[thread::Handle]) {
        let keys: Arc<[_]> = self.queue.stop(why).into();
        for shard in shards {
            shard.order(Order::Fail { keys: Arc::clone(&keys), reason: why.to_owned() });
        }
    }

    /// Why it does not run, or why its workers end; not when there is one that has lived for a while.
    fn problem(&self) -> Option<String> {
        let well = self.started.values().any(|started| started.elapsed() >= LONG_LIFE);
        self.failure.clone().filter(|_| !well)
    }

    fn initial(&self) -> u32 {
        self.sizing.wanted().initial()
    }

    fn workers(&self) -> u32 {
        self.instance.as_ref().map_or(0, |instance| instance.worker_count())
    }

    /// What there is to do, and who does it.
    fn load(&self, load: Load) -> (Load, Running) {
        let workers = self.workers();
        let running = Running {
            workers,
            starting: self.starting,
            busy: load.peak.min(workers),
            waiting: load.waiting + load.in_slots.saturating_sub(workers),
            last_request: load.last_request,
        };
        (load, running)
    }

    /// Whether no request is there, and none can come any more.
    fn has_nothing_left(&self) -> bool {
        let can_come = self.snapshots.iter().any(|snapshot| snapshot.strong_count() > 0);
        let load = self.queue.load();
        !can_come && load.in_slots == 0 && load.waiting == 0
    }

    fn report(&self) -> ApplicationReport {
        let load = self.queue.load();
        let running = self.instance.as_ref().map_or(0, |i| u64::from(i.worker_count()));
        let active = u64::from(load.in_slots) + u64::from(load.waiting);
        // A prototype that is loading PHP for requests that wait is on the way to a worker.
        let loading = self.ready_since.is_none() && active > 0;
        ApplicationReport {
            name: self.config.name.clone(),
            running,
            starting: u64::from(self.starting.max(u32::from(loading))),
            idle: running.saturating_sub(u64::from(load.in_slots)),
            active,
            problem: self.problem(),
        }
    }
}
