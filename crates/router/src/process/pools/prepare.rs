//! Prepares applications: starts their prototypes before their configuration is the current one.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::howdah_config as config;
use howdah_php_pool::automatic_sizing::application::Sizing;
use howdah_php_pool::queue::{Instance, Queue};
use howdah_php_pool::status::manager;
use howdah_pipeline::thread::ThreadCommand;
use howdah_wire::messages::ToSupervisor;
use howdah_wire::region::Geometry;

use super::Pools;
use super::application::PooledApplication;

impl Pools {
    /// Starts to prepare an application. It must be ready before it is adopted if `is_required`, or
    /// if it is configured to have workers before its first request.
    pub(in crate::process) fn prepare(
        &mut self,
        config: &Arc<config::Application>,
        is_required: bool,
    ) -> io::Result<()> {
        let queue = {
            let limits = &config.limits;
            let is_fair = limits.fair != config::Fairness::Arrival;
            Arc::new(Queue::new(limits.queue as usize, is_fair, limits.patience))
        };
        let machine_state = self.machine_state(0, 0, &config.isolation);
        let mut sizing = Sizing::new(config.processes, machine_state);
        sizing.limit_to(config.max_workers());
        let is_required = is_required || self.required.contains(&config.name);
        let (config, generation) = (Arc::clone(config), self.generation);
        self.add(PooledApplication::new(config, queue, sizing, generation, is_required))
    }

    /// Returns false if an application has no instance because it could not be started, or
    /// continues unchanged.
    pub(in crate::process) fn can_restart(&self, name: &str) -> bool {
        let found = self.applications.iter().find(|app| app.config.name == name);
        found.is_none_or(|app| {
            app.kept.is_none() && (app.instance.is_some() || app.failure.is_none())
        })
    }

    /// Starts to prepare a new instance of a running application. Returns false if the application
    /// does not exist.
    pub(in crate::process) fn prepare_restart(&mut self, name: &str) -> io::Result<bool> {
        let Some(index) = self.applications.iter().position(|app| app.config.name == name) else {
            return Ok(false);
        };
        if self.restarts().any(|app| app.config.name == name) {
            return Ok(true);
        }
        let running = &self.applications[index];
        if running.kept.is_some() && running.instance.is_some() {
            return Ok(false); // it could not start as it was
        }
        if running.instance.is_none() {
            // Nothing else tells the supervisor that the files of its jobs have changed.
            self.link.send(&ToSupervisor::RestartJobs { application: name.to_owned() })?;
        }
        let running = &self.applications[index];
        if running.instance.is_none() && running.failure.is_none() && running.initial() == 0 {
            return Ok(true); // its next request loads it
        }
        let (config, queue) = (Arc::clone(&running.config), Arc::clone(&running.queue));
        let generation = running.generation;
        let machine_state = self.machine_state(0, 0, &config.isolation);
        let sizing = self.applications[index].sizing.renewed(machine_state);
        let app = PooledApplication::new(config, queue, sizing, generation, true);
        self.add(PooledApplication { is_restart: true, ..app })?;
        Ok(true)
    }

    fn add(&mut self, mut app: PooledApplication) -> io::Result<()> {
        app.queue.set_max_workers(app.sizing.wanted().max, manager(&app.config.processes));
        app.logs_starts = self.is_started;
        if app.must_be_ready {
            app.max_initial = self.permitted(&app, app.initial(), false, Instant::now());
            self.start(&mut app)?;
        }
        self.preparing.push(app);
        Ok(())
    }

    /// Starts a new instance of an application.
    pub(super) fn start(&mut self, app: &mut PooledApplication) -> io::Result<()> {
        self.last_instance += 1;
        let number = self.last_instance;
        let geometry = Geometry::for_pool(app.sizing.max_workers(), self.threads.len() as u32);
        let (instance, memory) = Instance::create(number, geometry)?;
        let mut descriptors = vec![memory.as_fd()];
        descriptors.extend(instance.eventfds().iter().map(AsFd::as_fd));
        let (name, generation) = (app.config.name.clone(), app.generation);
        let start = ToSupervisor::Start { application: number, name, generation, geometry };
        self.link.send_with(&start, &descriptors)?;
        let instance = Arc::new(instance);
        self.threads.send(|| ThreadCommand::Attach {
            instance: Arc::clone(&instance),
            queue: Arc::clone(&app.queue),
        });
        app.set_instance(instance);
        Ok(())
    }

    /// Drops all prepared applications; the change that needs them has failed.
    pub(in crate::process) fn discard(&mut self) -> io::Result<()> {
        let prepared = self.preparing.extract_if(.., |app| !app.is_restart).collect();
        self.discard_these(prepared)
    }

    /// Ends the new instance of one application.
    pub(super) fn discard_restarted(&mut self, name: &str) -> io::Result<()> {
        self.discard_restarts(|app| app.config.name == name)
    }

    /// Ends the new instances of running applications that `is_discarded` chooses.
    pub(super) fn discard_restarts(
        &mut self,
        is_discarded: impl Fn(&PooledApplication) -> bool,
    ) -> io::Result<()> {
        let is_chosen = |app: &mut PooledApplication| app.is_restart && is_discarded(app);
        let prepared = self.preparing.extract_if(.., is_chosen).collect();
        self.discard_these(prepared)
    }

    fn discard_these(&mut self, prepared: Vec<PooledApplication>) -> io::Result<()> {
        for app in prepared {
            if let Some(instance) = app.instance {
                self.retire(app.config.name.clone(), app.queue, instance, Duration::ZERO)?;
            }
        }
        Ok(())
    }
}
