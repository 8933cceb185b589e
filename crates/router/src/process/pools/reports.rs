//! Handles reports of the supervisor about prototypes and workers, and requests of router threads.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::howdah_config as config;
use howdah_php_pool::automatic_sizing;
use howdah_php_pool::automatic_sizing::application::Measurement;
use howdah_php_pool::automatic_sizing::meter::Activity;
use howdah_php_pool::output::{self, OutputOwner};
use howdah_php_pool::queue::Php;
use howdah_php_pool::queue::{Queue, Worker};
use howdah_php_pool::thread::ControlRequest;
use howdah_php_pool::worker_count::WorkerStage;
use howdah_pipeline::thread::ThreadCommand;
use howdah_questions::WorkerStatus;
use howdah_sys::log::{Level, OfApplication};
use howdah_sys::signals::SIGKILL;
use howdah_wire::messages::{Exit, FromSupervisor, Problem, ProblemKind, ToSupervisor};
use howdah_wire::queue::WorkerId;

use super::application::PooledApplication;
use super::restarts::LONG_LIFE;
use super::{FALLS_BACK, Pools};

/// Returns the name of a worker in the log. One that ends at once has no process id: the supervisor
/// could not look it up in time.
pub(super) fn named(pid: u32) -> String {
    if pid == 0 { "worker process".to_owned() } else { format!("worker process {pid}") }
}

impl Pools {
    /// Handles a message about an application; ignores all others.
    pub(in crate::process) fn on_message(
        &mut self,
        message: FromSupervisor,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        match message {
            FromSupervisor::Ready {
                application,
                version,
                is_exposed,
                sends_messages,
                shares_start,
                is_counted,
            } => {
                if let Some(app) = self.by_number(application) {
                    (app.shares_start, app.is_counted) = (shares_start, is_counted);
                }
                self.on_ready(application, Php { version, is_exposed, sends_messages })?;
            }
            FromSupervisor::Booted { application, boot_us, has_template, without } => {
                self.on_booted(application, boot_us, has_template, &without);
            }
            FromSupervisor::Changed { application, path } => {
                self.want_restart(application, format!("{path} has changed"));
            }
            FromSupervisor::Fallback { application, problem } => {
                self.on_fallback(application, problem);
            }
            FromSupervisor::Troubled { generation, applications } => {
                self.looked_at = Some(generation);
                let found = applications.into_iter().map(|(name, problem)| {
                    let problem = self.placed(&name, problem);
                    (name, problem)
                });
                let found: Vec<_> = found.collect();
                self.on_troubled(&found);
            }
            FromSupervisor::StaleUsers { is_last, found } => {
                self.stale_users.extend(found);
                if is_last {
                    let mut found = std::mem::take(&mut self.stale_users);
                    for app in &mut self.applications {
                        app.stale_user = app.number().and_then(|number| found.remove(&number));
                    }
                }
            }
            FromSupervisor::FilesChecked { application, changed } => {
                self.file_checks.answered(application, changed);
            }
            FromSupervisor::Ended { application, problem } => {
                let name = self.by_number(application).map(|app| app.config.name.clone());
                let problem = match name {
                    Some(name) => self.placed(&name, problem),
                    None => problem,
                };
                self.on_ended(application, problem)
            }
            FromSupervisor::Started { application, worker, pid } => {
                self.on_started(application, worker, pid, descriptors);
            }
            FromSupervisor::NotStarted { application, is_temporary, message } => {
                self.on_not_started(application, is_temporary, &message);
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

    /// Handles a request of a router thread.
    pub(in crate::process) fn on_thread_request(
        &mut self,
        request: ControlRequest,
    ) -> io::Result<()> {
        match request {
            ControlRequest::Kill { instance, worker } => self.kill(instance, worker),
            ControlRequest::Overdue(slow) => {
                let (instance, worker) = (slow.instance, slow.worker);
                self.overdue.insert((instance, worker));
                self.traces.trace_overdue(slow)?;
                self.kill(instance, worker)
            }
            ControlRequest::Restart { instance } => {
                self.want_restart(instance, "its script has called opcache_reset()".to_owned());
                Ok(())
            }
            ControlRequest::CheckWorkers => Ok(()), // `tick`, which follows, checks the load
        }
    }

    pub(super) fn kill(&self, application: u32, worker: WorkerId) -> io::Result<()> {
        self.link.send(&ToSupervisor::Kill { application, worker, signal: SIGKILL as u8 })
    }

    fn on_ready(&mut self, number: u32, php: Php) -> io::Result<()> {
        let is_preparing = self.is_preparing_instance(number);
        let link = Rc::clone(&self.link);
        let config = match self.by_number(number) {
            Some(app) => Arc::clone(&app.config),
            None => return Ok(()),
        };
        self.presume_php(&config, &php);
        let Some(app) = self.by_number(number) else { return Ok(()) };
        app.ready_since = Some(Instant::now());
        app.starting_since = None;
        if std::mem::take(&mut app.is_overdue) {
            app.queue.resume();
        }
        app.queue.set_php(php.clone());
        (app.failure, app.foreseen) = (None, None);
        app.sizing.requested(Instant::now());
        link.send(&ToSupervisor::Measure { application: number })?;
        if !is_preparing {
            app.queue.set_instance(app.instance.clone());
            // An application that was adopted before its first start still gets its initial
            // workers.
            if !std::mem::take(&mut app.is_waived) {
                return Ok(());
            }
        }
        app.starting = app.initial();
        for _ in 0..app.starting {
            link.send(&ToSupervisor::Spawn { application: number })?;
        }
        Ok(())
    }

    /// Tells applications that have not started PHP which one they will have: that of another one with
    /// the same version and settings. Their status pages name it.
    fn presume_php(&self, of: &config::Application, php: &Php) {
        let has_same = |app: &&PooledApplication| {
            app.config.version == of.version && app.config.options == of.options
        };
        for app in self.all().filter(has_same) {
            if app.queue.php_version().is_none() {
                app.queue.set_php(php.clone());
            }
        }
    }

    /// Returns the problem of an application of a site with the file and the key of the site in
    /// place of the key of the application.
    fn placed(&self, name: &str, problem: Problem) -> Problem {
        let Problem { kind, key, message } = problem;
        let is_of_part = !key.is_empty();
        let found =
            is_of_part.then(|| self.places.of_application(name, &format!("/{key}"), &message));
        match found.flatten() {
            Some((place, message)) => Problem { kind, key: place, message },
            None => Problem { kind, key, message },
        }
    }

    /// Takes the applications that could not start, or run without their document roots. One that
    /// must not start yet is no reason for an alert if only its directory is missing.
    fn on_troubled(&mut self, found: &[(String, Problem)]) {
        let log = Arc::clone(&self.shared.log);
        for app in &mut self.applications {
            let name = &app.config.name;
            let problem = found.iter().find(|(found, _)| found == name).map(|(_, problem)| problem);
            // Of one that continues unchanged, the look was at another configuration.
            let problem = problem.filter(|_| app.kept.is_none() || app.ready_since.is_none());
            match problem.filter(|problem| app.foreseen.as_ref() != Some(problem)) {
                Some(problem) if app.ready_since.is_some() => {
                    let until = match problem.kind {
                        ProblemKind::NoRoot => {
                            "its scripts are not found until then; mount it, or put it back"
                        }
                        ProblemKind::Own if problem.key.starts_with("isolation/cgroup/") => {
                            "its former limits hold until then"
                        }
                        ProblemKind::Own | ProblemKind::Other => "its requests may wait until then",
                    };
                    log.write(Level::Alert, format_args!("{}; {until}", app.cannot_run(problem)));
                }
                Some(problem) if app.failure.is_none() && app.instance.is_none() => {
                    let is_early = problem.kind == ProblemKind::NoRoot;
                    let level = if is_early { Level::Notice } else { Level::Alert };
                    let line = format_args!("\"{name}\" application cannot run: {problem}");
                    log.write(level, line);
                }
                _ => {}
            }
            if problem.is_none() && app.foreseen.is_some() && app.failure.is_some() {
                app.restart_at.get_or_insert_with(Instant::now);
            }
            app.foreseen = problem.cloned();
        }
    }

    fn on_booted(&mut self, number: u32, boot_us: u64, has_template: bool, without: &str) {
        let log = Arc::clone(&self.shared.log);
        let Some(app) = self.by_number(number) else { return };
        app.boot = Some(WorkerStatus {
            generation: number,
            boot_ms: boot_us / 1000,
            template: has_template,
            ..WorkerStatus::default()
        });
        let (name, ms) = (&app.config.name, boot_us / 1000);
        let started = format_args!("\"{name}\" worker script has started in {ms} ms");
        if has_template {
            log.write(
                Level::Info,
                format_args!(
                    "{started}; workers are forked from \
            it"
                ),
            )
        } else {
            log.write(
                Level::Notice,
                format_args!(
                    "{started}; each worker starts it, as workers would share what it has left \
                     open: {without}"
                ),
            )
        }
    }

    /// `problem`: why the worker script does not work; `None` if it works again.
    fn on_fallback(&mut self, number: u32, problem: Option<String>) {
        let Some(problem) = problem else {
            return self.want_restart(number, "its worker script works again".to_owned());
        };
        let log = Arc::clone(&self.shared.log);
        let Some(app) = self.by_number(number) else { return };
        let name = &app.config.name;
        log.write(Level::Alert, format_args!("application \"{name}\": {FALLS_BACK}: {problem}"));
        let before = app.boot.take().unwrap_or_default();
        let fallback = Some(problem);
        app.boot = Some(WorkerStatus { generation: number, template: false, fallback, ..before });
    }

    /// Restarts the application of an instance soon, if it is in use. `reason` is for the log.
    fn want_restart(&mut self, number: u32, reason: String) {
        let mut current = self.applications.iter();
        let Some(app) = current.find(|app| app.number() == Some(number)) else { return };
        let name = app.config.name.clone();
        self.wanted_restarts.add(name, reason);
    }

    fn on_ended(&mut self, number: u32, problem: Problem) {
        self.traces.on_gone(number, None);
        self.file_checks.answered(number, None);
        if let Some(instance) = self.instance(number) {
            instance.remove_workers();
        }
        let is_preparing = self.is_preparing_instance(number);
        // Before the threads settle the requests of the instance: a request sent to it later would
        // never be answered.
        if let Some(app) = self.by_number(number).filter(|_| !is_preparing) {
            app.queue.set_instance(None);
        }
        self.threads
            .send(|| ThreadCommand::Detach { instance: number, reason: problem.to_string() });
        self.overdue.retain(|(instance, _)| *instance != number);
        if self.retired.remove(number) {
            return;
        }
        let (log, threads) = (Arc::clone(&self.shared.log), self.threads.clone());
        let Some(app) = self.by_number(number) else { return };
        let now = Instant::now();
        let ready_for = app.ready_since.take().map(|since| now - since);
        // The supervisor only knows that it was told to end it.
        let overdue = std::mem::take(&mut app.is_overdue).then(|| app.failure.clone()).flatten();
        let problem = overdue.unwrap_or(problem);
        let message = problem.to_string();
        app.starting_since = None;
        app.instance = None;
        app.starting = 0;
        app.started.clear();
        let is_known = app.failure.as_ref() == Some(&problem);
        app.failure = Some(problem);
        if is_preparing && app.is_awaited() {
            return; // the change or restart that waits for it fails with the message
        }
        let name = &app.config.name;
        let about = OfApplication(name);
        let about = log.about(&about);
        match ready_for {
            _ if is_known => {}
            None => about.write_to_both(Level::Alert, app.is_out(&message)),
            Some(_) => {
                let line = format_args!("\"{name}\" application: {message}");
                about.write_to_both(Level::Alert, line);
            }
        }
        if ready_for.is_some() {
            app.queue.ends.count_restart(true);
        }
        let pause = app.restarts.ended(ready_for);
        app.restart_at = Some(now + pause);
        if !pause.is_zero() {
            app.suspend(&message, &threads); // otherwise requests wait for the next instance
        }
    }

    fn on_started(&mut self, number: u32, worker: WorkerId, pid: u32, descriptors: Vec<OwnedFd>) {
        let (log, threads) = (Arc::clone(&self.shared.log), self.threads.clone());
        let mut descriptors = descriptors.into_iter();
        let Some(socket) = descriptors.next() else { return };
        // A worker of an instance that has been retired meanwhile may have taken a request already,
        // and needs the socket for it.
        let (name, queue, instance) = match self.by_number(number) {
            Some(app) => {
                let Some(instance) = app.instance.clone() else { return };
                (app.config.name.clone(), Arc::clone(&app.queue), instance)
            }
            None => match self.retired.get(number) {
                Some((name, queue, instance)) => {
                    (name.to_owned(), Arc::clone(queue), Arc::clone(instance))
                }
                None => return,
            },
        };
        if instance.has_worker(worker) {
            // The first socket stays in use until the worker ends.
            log.write(Level::Alert, format_args!("\"{name}\" {} started twice", named(pid)));
            return;
        }
        let owner = OutputOwner {
            application: name.as_str().into(),
            pid,
            worker,
            queue,
            instance: Arc::downgrade(&instance),
            log: Arc::clone(&log),
        };
        let (pipe, stdout) = (descriptors.next(), descriptors.next());
        let output = pipe.and_then(|pipe| output::watch(pipe, stdout, owner).ok());
        instance.add_worker(worker, Worker::new(pid, socket, output));
        threads.send(|| ThreadCommand::WorkerStarted { instance: number, worker });
        let Some(app) = self.by_number(number) else { return };
        app.starting = app.starting.saturating_sub(1);
        app.started.insert(worker, Instant::now());
        app.queue.fill_slots();
        if app.logs_starts {
            let line = format_args!("\"{name}\" application started");
            log.about(&OfApplication(&name)).write_as(pid, Level::Info, line);
        }
        app.logs_starts |= app.starting == 0;
    }

    fn on_not_started(&mut self, number: u32, is_temporary: bool, message: &str) {
        let is_preparing = self.is_preparing_instance(number);
        let (log, threads) = (Arc::clone(&self.shared.log), self.threads.clone());
        let Some(app) = self.by_number(number) else { return };
        app.starting = app.starting.saturating_sub(1);
        app.pool.worker_died(WorkerStage::Starting, Duration::ZERO, Instant::now());
        let message = format!("no worker could be started: {message}");
        if !is_temporary && !is_preparing {
            app.suspend_broken(&message, &threads);
        }
        let failure = Some(Problem::of(&message));
        if app.failure != failure {
            let name = &app.config.name;
            let level = if is_temporary { Level::Warn } else { Level::Alert };
            let line = format_args!("\"{name}\" application: {message}");
            log.about(&OfApplication(name)).write_to_both(level, line);
            app.failure = failure;
        }
    }

    fn on_died(&mut self, number: u32, worker: WorkerId, pid: u32, status: Exit, was_idle: bool) {
        let has_served = self.instance(number).is_some_and(|found| found.has_served(worker));
        self.traces.on_gone(number, Some(worker));
        self.remove_worker(number, worker, pid, status);
        let is_preparing = self.is_preparing_instance(number);
        let (log, threads) = (Arc::clone(&self.shared.log), self.threads.clone());
        let has_failed = status != Exit::Status(0);
        let is_late = self.overdue.remove(&(number, worker));
        if has_failed && let Some(queue) = self.queue_of(number) {
            queue.ends.count(status, is_late, Instant::now());
        }
        if has_failed && let Some(name) = self.retired.name(number) {
            let line = format_args!("\"{name}\" {} {status}", named(pid));
            log.about(&OfApplication(name)).write_to_both(Level::Error, line);
        }
        let Some(app) = self.by_number(number) else { return };
        let now = Instant::now();
        app.pool.worker_ended();
        let lived = app.started.remove(&worker).map_or(Duration::ZERO, |at| now - at);
        let is_early = has_failed && !has_served && lived < LONG_LIFE;
        let failure = is_early
            .then(|| Problem::of(format_args!("a worker {status} before it had a request")));
        let is_known = is_early && app.failure == failure;
        if has_served || has_failed {
            let progress = match (has_served, was_idle) {
                (true, _) => WorkerStage::Served,
                (false, true) => WorkerStage::Ready,
                (false, false) => WorkerStage::Starting,
            };
            app.pool.worker_died(progress, lived, now);
        }
        if let Some(failure) = failure.as_ref().filter(|_| !is_preparing) {
            app.suspend_broken(&failure.to_string(), &threads);
        }
        if is_preparing || is_early || has_served || !has_failed {
            app.failure = failure;
        }
        // In place of PHP-FPM, whose log has them.
        if !has_failed && app.config.takes_fastcgi {
            let name = &app.config.name;
            let line = format_args!("\"{name}\" {} {status}", named(pid));
            log.about(&OfApplication(name)).write_as(pid, Level::Info, line);
        }
        if has_failed && !is_known {
            let name = &app.config.name;
            let Some(left_out) = app.end_lines.next(now) else { return };
            let more = match left_out {
                _ if is_early => {
                    " before it had a request; further such ends are not logged".to_owned()
                }
                0 => String::new(),
                many => format!("; {many} earlier ends of its workers were not logged"),
            };
            // The journal counts alerts apart from errors, of which sites can write many.
            let is_crash = matches!(status, Exit::Signal(_)) && !is_late;
            let level = if is_crash { Level::Alert } else { Level::Error };
            let line = format_args!("\"{name}\" {} {status}{more}", named(pid));
            log.about(&OfApplication(name)).write_to_both(level, line);
        }
    }

    /// Returns the queue of an instance, also of a retired one.
    fn queue_of(&mut self, number: u32) -> Option<Arc<Queue>> {
        if let Some(app) = self.by_number(number) {
            return Some(Arc::clone(&app.queue));
        }
        self.retired.get(number).map(|(_, queue, _)| Arc::clone(queue))
    }

    fn remove_worker(&self, number: u32, worker: WorkerId, pid: u32, status: Exit) {
        let details = self.instance(number).map(|instance| instance.remove_worker(worker));
        // The record about its request has them.
        let details = details.filter(|_| status != Exit::Status(0)).unwrap_or_default();
        let how: Arc<str> = format!("{} {status}{details}", named(pid)).into();
        let died = || ThreadCommand::WorkerDied { instance: number, worker, how: Arc::clone(&how) };
        self.threads.send(died);
    }

    fn on_measured(&mut self, number: u32, measurement: &Measurement) {
        let Some(app) = self.by_number(number) else { return };
        let (isolation, bytes) = (app.config.isolation.clone(), measurement.bytes(app.workers()));
        let machine_state = self.machine_state(number, bytes, &isolation);
        let Some(app) = self.by_number(number) else { return };
        let (load, running) = app.load(app.queue.load());
        let activity = Activity {
            workers: running.workers,
            saturated: running.waiting > 0,
            long: app.queue.count_running_longer_than(automatic_sizing::LONG_REQUEST_TIME),
            served: load.served,
        };
        app.sizing.on_measured(measurement, machine_state, activity, Instant::now());
        self.divide_memory(Instant::now());
        let Some(app) = self.by_number(number) else { return };
        if let Some(instance) = &app.instance {
            instance.shed(app.sizing.excess(running.workers));
        }
    }
}
