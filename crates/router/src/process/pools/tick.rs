//! Keeps each application at the number of workers that it needs.

use std::io;
use std::time::{Duration, Instant};

use howdah_php_pool::status::manager;
use howdah_sys::log::Level;
use howdah_wire::messages::{Problem, ToSupervisor};

use super::application::{Absence, PooledApplication};
use super::reports::named;
use super::{Pools, REMOVAL_GRACE};
use crate::process::trigger::CHANGE_TIMEOUT;

/// Interval between two checks whether a leaving application has requests left.
const LEAVING_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Time for which requests wait for an application that starts.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(10);

/// Interval between two checks for superfluous workers and for damage.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Time in microseconds after which a request that no worker has taken is neglected if one sleeps.
const MAX_NEGLECT_US: u64 = 50_000;

/// Maximum time for which a worker without a request may take none while requests wait. A healthy
/// worker takes one within microseconds, or within a second on a busy machine.
const IDLE_WORKER_TIMEOUT: Duration = Duration::from_secs(5);

impl Pools {
    /// Starts and retires workers. Returns the time of the next call, unless an event comes first;
    /// `None` if none is needed.
    ///
    /// Looks at once at the applications that an event was about, and at all of them within
    /// [`CHECK_INTERVAL`], as they depend on each other: with very many, a look at each after every
    /// event would take all the time of the control thread.
    pub(in crate::process) fn tick(&mut self) -> io::Result<Option<Instant>> {
        let now = Instant::now();
        let mut next = self.retired.end_idle(&self.link, now)?;
        let due_for_all = self.all_looked_at.map(|at| at + CHECK_INTERVAL);
        let is_whole = due_for_all.is_none_or(|due| due <= now);
        if is_whole {
            self.all_looked_at = Some(now);
            self.awake = self.applications.iter().filter(|app| app.instance.is_some()).count();
            self.choose_unused(now);
        }
        let is_due = |app: &PooledApplication| is_whole || app.must_be_looked_at(now);
        let due: Vec<_> = (0..self.applications.len())
            .filter(|at| self.applications.get(*at).is_some_and(is_due))
            .collect();
        // One application at a time, as each takes the possible growth of the others into account.
        for at in due {
            // Swapped with the last one and back, as moving all others would take long.
            let Some(mut app) = self.applications.swap_remove_back(at) else { break };
            let looked = self.look_at(&mut app, now);
            self.applications.push_back(app);
            self.applications.swap(at, self.applications.len() - 1);
            looked?;
        }
        if !is_whole {
            next = next.into_iter().chain(due_for_all).min();
        }
        next = next.into_iter().chain(self.applications.iter().filter_map(|app| app.due)).min();
        for mut app in std::mem::take(&mut self.leaving) {
            if app.is_finished() {
                app.queue.set_instance(None);
                if let Some(instance) = app.instance.take() {
                    self.retire(app.config.name.clone(), app.queue, instance, REMOVAL_GRACE)?;
                    next = Some(now);
                }
                continue;
            }
            let due = self.tick_application(&mut app, now)?;
            let slow = self.check_for_slow(&mut app, now)?;
            let check = Some(now + LEAVING_CHECK_INTERVAL);
            next = [next, due, slow, check].into_iter().flatten().min();
            self.leaving.push(app);
        }
        Ok(next)
    }

    fn look_at(&mut self, app: &mut PooledApplication, now: Instant) -> io::Result<()> {
        app.has_changed = false;
        let slow = self.check_for_slow(app, now)?;
        let due = self.tick_application(app, now)?;
        app.due = [due, slow].into_iter().flatten().min();
        Ok(())
    }

    fn check_for_slow(
        &mut self,
        app: &mut PooledApplication,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        if app.slow_check_at.is_none_or(|due| due <= now) {
            app.slow_check_at = self.traces.trace_slow(&app.config, &app.queue, now)?;
        }
        Ok(app.slow_check_at)
    }

    fn tick_application(
        &mut self,
        app: &mut PooledApplication,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        if let Some(restart) = app.restart_at {
            if restart > now {
                return Ok(Some(restart));
            }
            app.restart_at = None;
            app.queue.resume();
            let needs_trial = app.needs_trial();
            if needs_trial || app.must_be_ready && app.instance.is_none() {
                self.start(app)?;
                app.is_trial = needs_trial && !app.must_be_ready;
            }
        }
        // `take_load`, as threads ask for a check once until then: if the only request is withdrawn
        // before this check, the next one must be able to ask again.
        if app.instance.is_none() && app.queue.take_load().waiting > 0 {
            self.start(app)?; // it serves once it is ready
        }
        if app.ready_since.is_none() {
            return self.check_start(app, now);
        }
        if app.is_damaged || self.end_if_damaged(app)? {
            return Ok(None); // a report of the supervisor comes next
        }
        // In place of PHP-FPM, whose log has this.
        if app.config.takes_fastcgi {
            self.note_exhaustion(app, now);
        }
        self.adjust_workers(app, now)
    }

    /// Lets the requests of an application fail that does not start, and ends its instance if that
    /// does not help: another start begins after a pause. Returns the time of the next call.
    fn check_start(
        &mut self,
        app: &mut PooledApplication,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        let (Some(since), Some(number)) = (app.starting_since, app.number()) else {
            return Ok(None); // a report of the supervisor comes next
        };
        let (overdue, end) = (since + START_PATIENCE, since + CHANGE_TIMEOUT);
        if now < overdue {
            return Ok(Some(overdue));
        }
        if !app.is_overdue {
            let reason = app.has_not_started_for(START_PATIENCE);
            let name = &app.config.name;
            let line = "its requests get 503 until it has; the others are served";
            self.log(Level::Alert, format_args!("application \"{name}\": {reason}; {line}"));
            app.is_overdue = true;
            app.suspend(&reason, &self.threads);
            app.failure = Some(Problem::of(reason));
        }
        if now < end {
            return Ok(Some(end));
        }
        app.starting_since = None;
        self.link.send(&ToSupervisor::Stop { application: number, grace_ms: 0 })?;
        Ok(None)
    }

    /// Ends the instances that do not start, so that they start anew: the obstacle for which they
    /// wait may have been removed.
    pub(in crate::process) fn end_overdue(&mut self) -> io::Result<()> {
        for app in self.applications.iter_mut().filter(|app| app.is_overdue) {
            if let (Some(number), Some(_)) = (app.number(), app.starting_since.take()) {
                self.link.send(&ToSupervisor::Stop { application: number, grace_ms: 0 })?;
            }
        }
        Ok(())
    }

    /// Ends workers that take no request although requests wait: a process has been stopped or held
    /// up, or the script of a resident application has not asked for its next request within
    /// `limits.timeout` after a response.
    fn end_absent(&self, app: &mut PooledApplication, now: Instant) -> io::Result<()> {
        if app.absence_checked.is_some_and(|checked| now < checked + CHECK_INTERVAL) {
            return Ok(());
        }
        app.absence_checked = Some(now);
        let Some(instance) = &app.instance else { return Ok(()) };
        let is_resident = app.config.worker.is_some();
        let found = app.queue.unavailable_workers(is_resident);
        app.absent.retain(|worker, absence| {
            let is_absent = if absence.was_called || !is_resident {
                !instance.region.is_asleep(*worker) && !instance.has_request(*worker)
            } else {
                found.iter().any(|(other, ..)| other == worker)
            };
            is_absent && instance.requests_of(*worker) == Some(absence.requests)
        });
        let new = |was_called, requests| Absence { requests, checks: 0, was_called };
        for (worker, _, requests) in found {
            if !is_resident && instance.region.is_asleep(worker) {
                continue; // it has not been called
            }
            app.absent.entry(worker).or_insert_with(|| new(false, requests));
        }
        if app.queue.is_neglected(MAX_NEGLECT_US) {
            for worker in instance.call_all() {
                let requests = instance.requests_of(worker).unwrap_or(0);
                app.absent.insert(worker, new(true, requests));
            }
        }
        let checks = |time: Duration| {
            u32::try_from(time.as_millis() / CHECK_INTERVAL.as_millis()).unwrap_or(u32::MAX)
        };
        for (worker, absence) in &mut app.absent {
            absence.checks += 1;
            let (limit, reason) = match app.config.limits.timeout {
                _ if absence.was_called || !is_resident => (
                    IDLE_WORKER_TIMEOUT,
                    "it has not taken another request for 5 seconds".to_owned(),
                ),
                Some(timeout) => {
                    let key = app.config.limit_key("timeout");
                    let reason = format!(
                        "its script has not asked for another request within {key} after its last \
                         response"
                    );
                    (timeout, reason)
                }
                None => continue,
            };
            if absence.checks <= checks(limit) || instance.has_request(*worker) {
                continue;
            }
            absence.checks = 0;
            let (name, pid) = (&app.config.name, instance.pid(*worker).unwrap_or(0));
            let message = format_args!(
                "\"{name}\" application: {} is ended: {reason}, and requests wait",
                named(pid)
            );
            self.log(Level::Warn, message);
            self.kill(instance.number, *worker)?;
        }
        Ok(())
    }

    /// Ends the instance of an application whose shared memory is damaged. Returns false if it is
    /// not.
    fn end_if_damaged(&self, app: &mut PooledApplication) -> io::Result<bool> {
        let Some(instance) = &app.instance else { return Ok(false) };
        let Some(damage) = app.queue.damage() else { return Ok(false) };
        // Ending the instance loses only requests that its damaged workers could lose as well.
        app.is_damaged = true;
        let name = &app.config.name;
        let message = "has damaged the memory that its workers share";
        self.log(Level::Alert, format_args!("\"{name}\" application {message}: {damage}"));
        let stop = ToSupervisor::Stop { application: instance.number, grace_ms: 0 };
        self.link.send(&stop)?;
        Ok(true)
    }

    /// Measures an application, and starts or retires workers. Returns the time of the next call.
    fn adjust_workers(
        &mut self,
        app: &mut PooledApplication,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        let Some(instance) = &app.instance else { return Ok(None) };
        let (load, running) = app.load(app.queue.take_load());
        app.sizing.on_load(&running, now);
        let mut measure = app.sizing.due(&load, &running, self.awake, now);
        if measure.take_if(|due| *due <= now).is_some() {
            app.sizing.requested(now);
            self.link.send(&ToSupervisor::Measure { application: instance.number })?;
        }
        if running.workers == 0 && running.waiting > 0 && app.sizing.is_stale(now) {
            let (prototype, _) = app.memory_usage();
            let isolation = &app.config.isolation;
            app.sizing.refresh(self.machine_state(instance.number, prototype, isolation));
        }
        let mut wanted = app.sizing.wanted();
        let has_surplus = running.workers > wanted.spare;
        let Pools { memory_shortage, machine, .. } = self;
        if has_surplus
            && let Some(timeout) = memory_shortage.release_timeout(now, || machine.state(None))
        {
            wanted = wanted.released_after(timeout);
        }
        if has_surplus && self.process_limit.is_contended(now) {
            wanted = wanted.released_after(Duration::ZERO);
        }
        if app.has_no_worker() {
            wanted.spare = wanted.spare.max(1); // shows when workers can start again
        }
        app.queue.set_max_workers(wanted.max, manager(&app.config.processes));
        let mut decision = app.pool.decide(wanted, running, now);
        if decision.spawn > 0 {
            let permitted = self.permitted(app, decision.spawn, running.waiting > 0, now);
            if permitted < decision.spawn {
                (decision.spawn, decision.next_check) = (permitted, Some(now + CHECK_INTERVAL));
            }
        }
        if decision.spawn > 0 {
            instance.cancel_retirement();
        }
        for _ in 0..decision.spawn {
            self.link.send(&ToSupervisor::Spawn { application: instance.number })?;
        }
        app.starting += decision.spawn;
        if decision.retire > 0 {
            instance.retire(decision.retire);
        }
        if app.config.takes_fastcgi {
            self.note_growth(app, decision, running, now);
        }
        // Threads report when more workers are wanted, or none takes a request. Superfluous
        // workers, and requests that are lost in a damaged queue, are found by a check.
        self.end_absent(app, now)?;
        let needs_check = has_surplus || load.in_slots > 0 || !app.absent.is_empty();
        let check = needs_check.then(|| now + CHECK_INTERVAL);
        let unload = self.unload_if_unused(app, running, now)?;
        Ok([decision.next_check, measure, check, unload].into_iter().flatten().min())
    }
}
