//! Keeping each application at the number of workers that it needs.

use std::path::Path;
use std::time::{Duration, Instant};

use howdah_php_pool::sizing;
use howdah_php_pool::sizing::meter::{Activity, Surroundings};
use howdah_php_pool::status::manager;
use howdah_sys::log::Level;
use howdah_wire::messages::ToSupervisor;

use super::{GRACE, PooledApplication, Pools};
use crate::router::link::Link;
use crate::router::sizing::Measurement;

/// How often to look whether an application that leaves has requests left.
const LEAVING_LOOK: Duration = Duration::from_millis(50);

/// How often to look whether there are more workers than needed, and whether all is well.
const LOOK: Duration = Duration::from_millis(200);

impl Pools {
    /// The machine as the application of this number finds it, in its control group if it has
    /// one: others may still take memory.
    pub(super) fn look(&mut self, number: u32, group: Option<&Path>) -> Surroundings {
        let others = self.all().filter(|app| app.number() != Some(number));
        let promised = others.map(|app| app.sizing.promised(app.workers()));
        let promised = promised.fold(0u64, u64::saturating_add);
        Surroundings { promised, ..self.machine.look(group) }
    }

    pub(super) fn on_measured(&mut self, number: u32, measurement: &Measurement) {
        let group = self.by_number(number).and_then(|app| app.config.isolation.cgroup.clone());
        let surroundings = self.look(number, group.as_deref());
        let Some(app) = self.by_number(number) else { return };
        let (load, running) = app.load(app.queue.load());
        let activity = Activity {
            workers: running.workers,
            saturated: running.waiting > 0,
            long: app.queue.longer_than(sizing::LONG),
            served: load.served,
        };
        app.sizing.on_measured(measurement, surroundings, activity, Instant::now());
        if let Some(instance) = &app.instance {
            instance.shed(app.sizing.too_many(running.workers));
        }
    }

    /// Starts and retires workers; returns when to look again even if nothing happens.
    pub(in crate::router) fn tick(&mut self, link: &Link) -> std::io::Result<Option<Instant>> {
        let now = Instant::now();
        let mut again = self.end_retired(link, now)?;
        // One at a time, as each looks at what the others may still take.
        for _ in 0..self.applications.len() {
            let mut app = self.applications.remove(0);
            let slow = self.look_for_slow(link, &mut app, now);
            let due = self.tick_one(link, &mut app, now);
            self.applications.push(app);
            again = [again, due?, slow?].into_iter().flatten().min();
        }
        for mut app in std::mem::take(&mut self.leaving) {
            if app.has_nothing_left() {
                app.queue.serve_from(None);
                if let Some(instance) = app.instance.take() {
                    self.retire(link, app.config.name, instance, GRACE)?;
                    again = Some(now);
                }
                continue;
            }
            let due = self.tick_one(link, &mut app, now)?;
            let slow = self.look_for_slow(link, &mut app, now)?;
            again = [again, due, slow, Some(now + LEAVING_LOOK)].into_iter().flatten().min();
            self.leaving.push(app);
        }
        Ok(again)
    }

    fn look_for_slow(
        &mut self,
        link: &Link,
        app: &mut PooledApplication,
        now: Instant,
    ) -> std::io::Result<Option<Instant>> {
        if app.slow_look.is_none_or(|due| due <= now) {
            app.slow_look = self.traces.look(link, &app.config, &app.queue, now)?;
        }
        Ok(app.slow_look)
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
            app.queue.resume();
            if app.awaited {
                self.start(link, app)?;
            }
        }
        if app.instance.is_none() && app.queue.load().waiting > 0 {
            self.start(link, app)?; // it serves once it is ready
        }
        let (Some(_), Some(instance)) = (app.ready_since, &app.instance) else { return Ok(None) };
        if app.damaged {
            return Ok(None); // its end is on the way
        }
        if let Some(what) = app.queue.damage() {
            // No request can be lost by it that its workers could not have lost anyway.
            app.damaged = true;
            let name = &app.config.name;
            let message = "has damaged the memory that its workers share";
            self.log(Level::Alert, format_args!("\"{name}\" application {message}: {what}"));
            let stop = ToSupervisor::Stop { application: instance.number, grace_ms: 0 };
            link.send(&stop)?;
            return Ok(None);
        }
        let (load, running) = app.load(app.queue.take_load());
        let mut measure = app.sizing.due(&load, &running, now);
        if measure.take_if(|due| *due <= now).is_some() {
            app.sizing.asked(now);
            link.send(&ToSupervisor::Measure { application: instance.number })?;
        }
        if running.workers == 0 && running.waiting > 0 && app.sizing.is_stale(now) {
            let group = app.config.isolation.cgroup.as_deref();
            app.sizing.refresh(self.look(instance.number, group));
        }
        let wanted = app.sizing.wanted();
        app.queue.set_most(wanted.max, manager(&app.config.processes));
        let decision = app.pool.decide(wanted, running, now);
        for _ in 0..decision.spawn {
            link.send(&ToSupervisor::Spawn { application: instance.number })?;
        }
        app.starting += decision.spawn;
        if decision.retire > 0 {
            instance.retire(decision.retire);
        }
        // Threads report when more workers are wanted; that fewer would do, or that requests are
        // lost in a damaged queue, is found by looking.
        let look = running.workers > wanted.spare || load.in_slots > 0;
        let look = look.then(|| now + LOOK);
        Ok([decision.again, measure, look].into_iter().flatten().min())
    }
}
