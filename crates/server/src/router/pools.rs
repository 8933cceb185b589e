//! Applications that run, and how many workers each has.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use howdah_config::{self as config, Processes};
use howdah_sys::log::Level;
use howdah_wire::messages::{ApplicationSpec, Exit, FromSupervisor, ToSupervisor};
use howdah_wire::queue::Owner;
use howdah_wire::region::Geometry;

use super::command::ApplicationReport;
use super::link::Link;
use crate::php::application::{Instance, Load, Queue, Worker};
use crate::php::pool::{Pool, Running, Wanted};
use crate::php::thread::Ask;
use crate::shard::{self, Order, Shared};
use crate::snapshot::Snapshot;

/// Most workers of an application whose number of processes is not configured, and bytes of
/// memory that each of them is expected to take.
const AUTOMATIC_MOST: u64 = 32;
const AUTOMATIC_MEMORY: u64 = 48 << 20;

/// How long workers of a removed application may take to finish.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// How often to look whether an application that leaves has requests left.
const LEAVING_LOOK: Duration = Duration::from_millis(50);

/// A prototype that has been ready for so long is replaced at once if it dies.
const LONG_LIFE: Duration = Duration::from_secs(1);

/// Pause before an application whose prototype died sooner, or never was ready, is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// All applications.
#[derive(Debug)]
pub(super) struct Pools {
    shared: Arc<Shared>,
    shards: Arc<[shard::Handle]>,
    applications: HashMap<Arc<str>, PooledApplication>,
    /// Applications that are configured no more, or otherwise, and have requests left.
    leaving: Vec<PooledApplication>,
    /// Instances that take no more requests and finish what their workers have.
    retired: HashMap<u32, (Arc<str>, Arc<Instance>)>,
    next_number: u32,
}

/// An application that runs.
#[derive(Debug)]
pub(super) struct PooledApplication {
    config: config::Application,
    queue: Arc<Queue>,
    instance: Option<Arc<Instance>>,
    /// When PHP was loaded; `None` while it is not.
    ready_since: Option<Instant>,
    pool: Pool,
    starting: u32,
    started: HashMap<Owner, Instant>,
    restart_at: Option<Instant>,
    /// The last reason for which it could not run; logged once.
    failure: Option<String>,
    /// The last configuration that has this application, once there is a newer one: requests
    /// that began under it may still be on their way here.
    last_snapshot: Option<Weak<Snapshot>>,
}

/// An instance that has been started and may become ready.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) config: config::Application,
    pub(super) queue: Arc<Queue>,
    pub(super) instance: Arc<Instance>,
}

impl Pools {
    /// No application yet.
    pub(super) fn new(shared: Arc<Shared>, shards: Arc<[shard::Handle]>) -> Self {
        Pools {
            shared,
            shards,
            applications: HashMap::new(),
            leaving: Vec::new(),
            retired: HashMap::new(),
            next_number: 0,
        }
    }

    /// Writes to the log.
    pub(super) fn log(&self, level: Level, message: impl std::fmt::Display) {
        self.shared.log.write(level, message);
    }

    // -- starting and stopping applications --

    /// The queue of the application that runs with the same settings, if there is one.
    pub(super) fn unchanged(&self, config: &config::Application) -> Option<Arc<Queue>> {
        let running = self.applications.get(config.name.as_str())?;
        (running.config == *config).then(|| Arc::clone(&running.queue))
    }

    /// Starts an instance for an application that is to run.
    pub(super) fn prepare(
        &mut self,
        link: &Link,
        config: &config::Application,
    ) -> std::io::Result<Prepared> {
        let queue = Arc::new(Queue::new(config.limits.queue as usize));
        let instance = self.start_instance(link, config)?;
        Ok(Prepared { config: config.clone(), queue, instance })
    }

    /// Starts another instance of a running application; `None` if there is none of this name.
    pub(super) fn prepare_restart(
        &mut self,
        link: &Link,
        name: &str,
    ) -> std::io::Result<Option<Prepared>> {
        let Some(running) = self.applications.get(name) else { return Ok(None) };
        let (config, queue) = (running.config.clone(), Arc::clone(&running.queue));
        let instance = self.start_instance(link, &config)?;
        Ok(Some(Prepared { config, queue, instance }))
    }

    fn start_instance(
        &mut self,
        link: &Link,
        config: &config::Application,
    ) -> std::io::Result<Arc<Instance>> {
        self.next_number += 1;
        let number = self.next_number;
        let geometry = Geometry::for_pool(wanted(config).max, self.shards.len() as u32);
        let (instance, memory) = Instance::create(number, geometry)?;
        let mut descriptors = vec![memory.as_fd()];
        descriptors.extend(instance.eventfds().iter().map(AsFd::as_fd));
        let start = ToSupervisor::Start { application: number, spec: spec(config, geometry) };
        link.send_with(&start, &descriptors)?;
        Ok(Arc::new(instance))
    }

    /// A prepared application is not wanted after all.
    pub(super) fn discard(&self, link: &Link, prepared: &Prepared) -> std::io::Result<()> {
        link.send(&ToSupervisor::Stop { application: prepared.instance.number, grace_ms: 0 })
    }

    /// A prepared application, which is ready, runs from now on.
    pub(super) fn adopt(&mut self, prepared: Prepared) {
        let name: Arc<str> = prepared.config.name.as_str().into();
        self.attach(&prepared.instance, &prepared.queue);
        prepared.queue.serve_from(Some(Arc::clone(&prepared.instance)));
        let running = PooledApplication {
            config: prepared.config,
            queue: prepared.queue,
            instance: Some(prepared.instance),
            ready_since: Some(Instant::now()),
            pool: Pool::default(),
            starting: 0,
            started: HashMap::new(),
            restart_at: None,
            failure: None,
            last_snapshot: None,
        };
        self.leaving.extend(self.applications.insert(name, running));
    }

    /// A prepared restart, which is ready, takes over the queue; the old instance finishes what
    /// its workers have.
    pub(super) fn adopt_restart(&mut self, link: &Link, prepared: Prepared) -> std::io::Result<()> {
        self.attach(&prepared.instance, &prepared.queue);
        let old = prepared.queue.serve_from(Some(Arc::clone(&prepared.instance)));
        if let Some(app) = self.applications.get_mut(prepared.config.name.as_str()) {
            app.instance = Some(prepared.instance);
            app.ready_since = Some(Instant::now());
            app.starting = 0;
            app.restart_at = None;
            app.failure = None;
        }
        match old {
            Some(old) => self.retire(link, &prepared.config.name, old),
            None => Ok(()),
        }
    }

    /// Only the applications of these names are configured; the others leave. Those that leave
    /// stay for as long as a request that began under `last` may come.
    pub(super) fn keep_only(&mut self, names: &[&str], last: &Weak<Snapshot>) {
        let gone: Vec<_> =
            self.applications.keys().filter(|name| !names.contains(&&***name)).cloned().collect();
        let gone = gone.iter().filter_map(|name| self.applications.remove(name));
        self.leaving.extend(gone);
        for app in &mut self.leaving {
            app.last_snapshot.get_or_insert_with(|| last.clone());
        }
    }

    fn retire(&mut self, link: &Link, name: &str, instance: Arc<Instance>) -> std::io::Result<()> {
        instance.close();
        let grace_ms = GRACE.as_millis() as u64;
        link.send(&ToSupervisor::Stop { application: instance.number, grace_ms })?;
        self.retired.insert(instance.number, (name.into(), instance));
        Ok(())
    }

    fn attach(&self, instance: &Arc<Instance>, queue: &Arc<Queue>) {
        for shard in self.shards.iter() {
            let (instance, queue) = (Arc::clone(instance), Arc::clone(queue));
            shard.order(Order::Attach { instance, queue });
        }
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
            FromSupervisor::Ready { application, .. } => self.on_ready(application),
            FromSupervisor::Ended { application, message } => self.on_ended(application, &message),
            FromSupervisor::Started { application, worker, pid } => {
                self.on_started(application, worker, pid, descriptors);
            }
            FromSupervisor::NotStarted { application, message } => {
                self.on_not_started(application, &message);
            }
            FromSupervisor::Died { application, worker, pid, status } => {
                self.on_died(application, worker, pid, status);
            }
            _ => {}
        }
        let _ = link;
        Ok(())
    }

    fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        let running = self.applications.values().chain(&self.leaving);
        let running = running.filter_map(|app| app.instance.as_ref());
        running.chain(self.retired.values().map(|(_, instance)| instance))
    }

    /// The server ends and no request comes any more: all workers leave when they are idle.
    pub(super) fn close(&self) {
        self.instances().for_each(|instance| instance.close());
    }

    /// Whether any worker runs.
    pub(super) fn has_workers(&self) -> bool {
        self.instances().any(|instance| instance.worker_count() > 0)
    }

    /// Takes a request of a router thread.
    pub(super) fn on_ask(&mut self, link: &Link, ask: Ask) -> std::io::Result<()> {
        match ask {
            Ask::Kill { instance, worker } => {
                let signal = howdah_sys::signals::SIGKILL as u8;
                link.send(&ToSupervisor::Kill { application: instance, worker, signal })
            }
            Ask::Crowded { .. } => Ok(()), // looked at in `tick`, which follows
        }
    }

    fn by_number(&mut self, number: u32) -> Option<&mut PooledApplication> {
        self.applications
            .values_mut()
            .chain(&mut self.leaving)
            .find(|app| app.instance.as_ref().is_some_and(|instance| instance.number == number))
    }

    fn on_ready(&mut self, number: u32) {
        let Some(app) = self.by_number(number) else { return };
        app.ready_since = Some(Instant::now());
        app.failure = None;
        let (instance, queue) = (app.instance.clone(), Arc::clone(&app.queue));
        if let Some(instance) = &instance {
            self.attach(instance, &queue);
        }
        queue.serve_from(instance);
    }

    fn on_ended(&mut self, number: u32, message: &str) {
        let reason = || message.to_owned();
        // Before the threads settle what the instance had in hand: a request that went to it
        // after that would never be heard of again.
        if let Some(app) = self.by_number(number) {
            app.queue.serve_from(None);
        }
        for shard in self.shards.iter() {
            shard.order(Order::Detach { instance: number, reason: reason() });
        }
        if self.retired.remove(&number).is_some() {
            return;
        }
        let log = Arc::clone(&self.shared.log);
        let Some(app) = self.by_number(number) else { return };
        let now = Instant::now();
        let lived = app.ready_since.take().map_or(Duration::ZERO, |since| now - since);
        app.instance = None;
        app.starting = 0;
        app.started.clear();
        if app.failure.as_deref() != Some(message) {
            let name = &app.config.name;
            log.write(Level::Alert, format_args!("\"{name}\" application: {message}"));
            app.failure = Some(reason());
        }
        if lived >= LONG_LIFE {
            app.restart_at = Some(now);
            return; // what waits, and what comes, waits for the next one
        }
        app.restart_at = Some(now + RESTART_PAUSE);
        let keys: Arc<[_]> = app.queue.stop(message).into();
        for shard in self.shards.iter() {
            shard.order(Order::Fail { keys: Arc::clone(&keys), reason: reason() });
        }
    }

    fn on_started(&mut self, number: u32, worker: Owner, pid: u32, descriptors: Vec<OwnedFd>) {
        let (log, shards) = (Arc::clone(&self.shared.log), Arc::clone(&self.shards));
        let Some(app) = self.by_number(number) else { return };
        let (Some(socket), Some(instance)) = (descriptors.into_iter().next(), &app.instance) else {
            return;
        };
        let _ = rustix::fs::fcntl_setfl(&socket, rustix::fs::OFlags::NONBLOCK);
        instance.add_worker(worker, Worker { pid, socket });
        for shard in shards.iter() {
            shard.order(Order::WorkerStarted { instance: number, worker });
        }
        app.starting = app.starting.saturating_sub(1);
        app.started.insert(worker, Instant::now());
        let name = &app.config.name;
        log.write_as(pid, Level::Info, format_args!("\"{name}\" application started"));
    }

    fn on_not_started(&mut self, number: u32, message: &str) {
        let log = Arc::clone(&self.shared.log);
        let Some(app) = self.by_number(number) else { return };
        app.starting = app.starting.saturating_sub(1);
        app.pool.died(Duration::ZERO, Instant::now());
        if app.failure.as_deref() != Some(message) {
            let name = &app.config.name;
            log.write(
                Level::Alert,
                format_args!("\"{name}\" application: no worker could be started: {message}"),
            );
            app.failure = Some(message.to_owned());
        }
    }

    fn on_died(&mut self, number: u32, worker: Owner, pid: u32, status: Exit) {
        // A worker that died of a request is replaced at once; one that dies without ever having
        // had one will do so again.
        let taken = self.instance(number).is_some_and(|instance| instance.has_request(worker));
        self.tell_death(number, worker, pid, status);
        let Some(app) = self.by_number(number) else { return };
        if let Some(instance) = &app.instance {
            instance.remove_worker(worker);
        }
        let now = Instant::now();
        let lived = app.started.remove(&worker).map_or(Duration::ZERO, |at| now - at);
        if taken {
            app.pool.served();
        } else if status != Exit::Status(0) {
            app.pool.died(lived, now);
        }
    }

    fn tell_death(&self, number: u32, worker: Owner, pid: u32, status: Exit) {
        let name = self.name_of(number);
        match status {
            Exit::Status(0) => {}
            status => self.log(Level::Error, format_args!("\"{name}\" worker {pid} {status}")),
        }
        let instance = self
            .retired
            .get(&number)
            .map(|(_, instance)| Arc::clone(instance))
            .or_else(|| self.instance(number));
        if let Some(instance) = instance {
            instance.remove_worker(worker);
        }
        let how: Arc<str> = format!("worker {pid} {status}").into();
        for shard in self.shards.iter() {
            let how = Arc::clone(&how);
            shard.order(Order::WorkerDied { instance: number, worker, how });
        }
    }

    fn instance(&self, number: u32) -> Option<Arc<Instance>> {
        let running = self.applications.values().chain(&self.leaving);
        let mut instances = running.filter_map(|app| app.instance.as_ref());
        instances.find(|instance| instance.number == number).cloned()
    }

    fn name_of(&self, number: u32) -> Arc<str> {
        let running =
            self.applications.values().chain(&self.leaving).find(|app| {
                app.instance.as_ref().is_some_and(|instance| instance.number == number)
            });
        running
            .map(|app| app.config.name.as_str().into())
            .or_else(|| self.retired.get(&number).map(|(name, _)| Arc::clone(name)))
            .unwrap_or_else(|| "".into())
    }

    /// What each application does, by name.
    pub(super) fn report(&self) -> Vec<ApplicationReport> {
        let mut reports: Vec<_> = self
            .applications
            .values()
            .map(|app| {
                let load = app.queue.load();
                let running =
                    app.instance.as_ref().map_or(0, |instance| instance.worker_count() as u64);
                let in_slots = u64::from(load.in_slots);
                ApplicationReport {
                    name: app.config.name.clone(),
                    running,
                    starting: u64::from(app.starting),
                    idle: running.saturating_sub(in_slots),
                    active: in_slots + u64::from(load.waiting),
                }
            })
            .collect();
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        reports
    }

    // -- keeping the number of workers --

    /// Starts and retires workers; returns when to look again even if nothing happens.
    pub(super) fn tick(&mut self, link: &Link) -> std::io::Result<Option<Instant>> {
        let now = Instant::now();
        let mut again = None;
        let names: Vec<_> = self.applications.keys().cloned().collect();
        for name in names {
            let Some(mut app) = self.applications.remove(&name) else { continue };
            let due = self.tick_one(link, &mut app, now);
            self.applications.insert(name, app);
            again = [again, due?].into_iter().flatten().min();
        }
        for mut app in std::mem::take(&mut self.leaving) {
            if app.has_nothing_left() {
                app.queue.serve_from(None);
                if let Some(instance) = app.instance.take() {
                    self.retire(link, &app.config.name, instance)?;
                }
                continue;
            }
            let due = self.tick_one(link, &mut app, now)?;
            let look = Some(now + LEAVING_LOOK);
            again = [again, due, look].into_iter().flatten().min();
            self.leaving.push(app);
        }
        Ok(again)
    }

    fn tick_one(
        &mut self,
        link: &Link,
        app: &mut PooledApplication,
        now: Instant,
    ) -> std::io::Result<Option<Instant>> {
        if let Some(restart) = app.restart_at {
            if restart > now {
                return Ok(Some(restart));
            }
            app.restart_at = None;
            // It serves once it is ready.
            app.instance = Some(self.start_instance(link, &app.config)?);
            return Ok(None);
        }
        let (Some(_), Some(instance)) = (app.ready_since, &app.instance) else { return Ok(None) };
        let load = app.queue.load();
        let workers = instance.worker_count() as u32;
        let busy = load.in_slots.min(workers);
        let running = Running {
            workers,
            starting: app.starting,
            busy,
            waiting: load.waiting + (load.in_slots - busy),
        };
        let decision = app.pool.decide(wanted(&app.config), running, now);
        for _ in 0..decision.spawn {
            link.send(&ToSupervisor::Spawn { application: instance.number })?;
        }
        app.starting += decision.spawn;
        if decision.retire > 0 {
            instance.retire(decision.retire);
        }
        // Threads report when more workers are wanted; that fewer would do is found by looking.
        let dynamic = matches!(app.config.processes, Processes::Dynamic { .. });
        let look = (dynamic && workers > 0).then(|| now + Duration::from_millis(200));
        Ok([decision.again, look].into_iter().flatten().min())
    }
}

impl PooledApplication {
    /// Whether no request is there, and none can come any more.
    fn has_nothing_left(&self) -> bool {
        let can_come = self.last_snapshot.as_ref().is_some_and(|last| last.strong_count() > 0);
        !can_come && self.queue.load() == Load::default()
    }
}

/// What the configuration asks for.
fn wanted(config: &config::Application) -> Wanted {
    match config.processes {
        Processes::Static(count) => Wanted::fixed(count),
        Processes::Dynamic { max, spare, idle_timeout } => Wanted { max, spare, idle_timeout },
        Processes::Automatic => Wanted::fixed(automatic()),
    }
}

/// Workers for the processors and the memory of this machine: scripts wait for databases and
/// disks, so several for a processor, as long as they fit half of the memory.
fn automatic() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib << 10)
    });
    let by_memory = memory.unwrap_or(1 << 30) / 2 / AUTOMATIC_MEMORY;
    (processors * 4).min(by_memory).clamp(2, AUTOMATIC_MOST) as u32
}

fn spec(config: &config::Application, geometry: Geometry) -> ApplicationSpec {
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| path.to_string_lossy().into_owned())
    };
    ApplicationSpec {
        name: config.name.clone(),
        php_version: config.version.to_string(),
        user: config.user.clone(),
        group: config.group.clone(),
        working_directory: path(&config.working_directory),
        environment: config.environment.clone(),
        ini_file: path(&config.options.file),
        ini_admin: config.options.admin.clone(),
        ini_user: config.options.user.clone(),
        stdout: path(&config.stdout),
        stderr: path(&config.stderr),
        requests: config.limits.requests.map_or(0, u64::from),
        geometry,
    }
}
