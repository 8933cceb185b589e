//! Counts the resources of applications whose limits no control group keeps, and ends what exceeds
//! them. Without such applications, or while they have no workers and no programs, nothing is
//! counted.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::process_usage::{self, ProcessMemory};
use howdah_sys::scheduling::Raised;
use howdah_wire::messages::ApplicationSpec;

use super::id::Id;
use super::state::Tree;
use crate::counting::{Family, Verdict, shorter};

/// Interval between two counts; longer while there are many processes.
const INTERVAL: Duration = Duration::from_millis(200);

/// The same while an application computes or starts processes: a fork bomb has as many as it can
/// have after some 50 ms.
const BUSY_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum interval.
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// Part of the time of this process that counts may take, as a divisor: 2 %.
const PART: u32 = 50;

/// The same while a limit is near.
const NEAR_PART: u32 = 3;

/// Time after an application was near a limit during which this process keeps its high priority.
const URGENT: Duration = Duration::from_secs(1);

/// Nice value of an application that computes more than its share.
const LOW_PRIORITY: i32 = 19;

/// Processes that a user can have beyond twice the limits of its applications, such as its own.
const MORE_PROCESSES: u64 = 32;

/// When resources are counted.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// Time of the next count; `None` if there is nothing to count.
    pub(super) due: Option<Instant>,
    /// An application exceeds a limit, or soon will: processes that start others are ended before
    /// they can, only if this process comes before them. Each of their sessions may have the same
    /// part of the processors otherwise.
    urgent: Option<Urgent>,
}

#[derive(Debug)]
struct Urgent {
    until: Instant,
    /// `None` if this process may not raise its priority.
    _priority: Option<Raised>,
}

impl Counting {
    /// Takes whether an application is near a limit.
    fn set_urgent(&mut self, is_near: bool, now: Instant) {
        match &mut self.urgent {
            Some(urgent) if is_near => urgent.until = now + URGENT,
            None if is_near => {
                self.urgent = Some(Urgent { until: now + URGENT, _priority: Raised::new().ok() });
            }
            Some(urgent) if urgent.until <= now => self.urgent = None,
            _ => {}
        }
    }
}

impl Tree {
    /// An application has a new worker.
    pub(super) fn count_soon(&mut self, id: Id, now: Instant) {
        let is_counted = self.applications.get(&id).is_some_and(|app| !app.plan.is_exact());
        if is_counted {
            let due = now + BUSY_INTERVAL;
            self.counting.due = Some(self.counting.due.map_or(due, |known| known.min(due)));
        }
    }

    /// Counts what applications use, if it is time.
    pub(super) fn count_if_due(&mut self, now: Instant) {
        if self.counting.due.is_none_or(|due| due > now) {
            return;
        }
        self.counting.due = None;
        let counted = self.applications.iter().filter(|(_, app)| app.is_counted());
        let counted: Vec<_> = counted.map(|(id, _)| *id).collect();
        if counted.is_empty() {
            self.counting.urgent = None;
            return;
        }
        let mut is_busy = false;
        let mut soon = None;
        for id in counted {
            soon = shorter(soon, self.count(id, now));
            is_busy |= self.applications.get(&id).is_some_and(|app| app.counting.is_busy);
        }
        let (ended, took) = (Instant::now(), now.elapsed());
        self.counting.set_urgent(soon.is_some_and(|soon| soon < INTERVAL), ended);
        let min = if is_busy { BUSY_INTERVAL } else { INTERVAL };
        let usual = (took * PART).clamp(min, MAX_INTERVAL);
        let next = soon.map_or(usual, |soon| soon.max(took * NEAR_PART).min(usual));
        self.counting.due = Some(ended + next);
    }

    /// Counts what an application uses, and ends what exceeds its limits. Returns the maximum time
    /// until the next count.
    fn count(&mut self, id: Id, now: Instant) -> Option<Duration> {
        let app = self.applications.get_mut(&id)?;
        if app.is_ending_all() {
            return Some(INTERVAL);
        }
        // Without a descriptor the processes cannot be listed; the next count is as good.
        let all = process_usage::tree(app.pid).ok()?;
        let mut family = Family::of(&app.known(), all);
        let limits = app.plan.counted.clone();
        if limits.memory.is_some() {
            family.measure(ProcessMemory::of);
        }
        let Verdict { ends, is_for_memory, reason, soon, lower } =
            app.counting.count(&family, &limits, now);
        app.end_counted(&ends, Instant::now());
        if !ends.is_empty()
            && let Some(unsaid) = app.counting.may_log(is_for_memory, now)
        {
            let more = match unsaid {
                0 => String::new(),
                count => format!(" ({count} such lines were left out)"),
            };
            let name = &app.name;
            self.log.write(Level::Alert, format_args!("application \"{name}\": {reason}{more}"));
        }
        let app = self.applications.get_mut(&id)?;
        if lower.is_some() || app.counting.is_lowered {
            let usual = app.priority().unwrap_or_else(process_usage::own_priority);
            let nice = if app.counting.is_lowered { LOW_PRIORITY } else { usual };
            for pid in family.changeable() {
                // Without root, a lower priority stays until the process ends.
                let _ = process_usage::set_priority(pid, nice);
            }
        }
        if lower == Some(true) {
            let (name, limit) = (&app.name, f64::from(limits.cpu.unwrap_or(0)) / 1000.0);
            let line = format_args!(
                "application \"{name}\": it uses more processors than isolation/limits/cpu allows \
                 ({limit}): others come first until it uses less"
            );
            self.log.write(Level::Info, line);
        }
        soon
    }

    /// Gives the prototype of an application, other processes of it, and what these start, the
    /// limits of the kernel that belong to those that are counted.
    pub(super) fn guard(&self, id: Id, also: impl Iterator<Item = u32>) {
        let Some(app) = self.applications.get(&id) else { return };
        let Some(spec) = app.spec() else { return };
        let guards = app.plan.guards(spec, self.processes_of_user(spec));
        for pid in also.chain([app.pid]) {
            // Without CAP_SYS_RESOURCE a limit stays; the count keeps the new one all the same.
            for (resource, limit) in &guards {
                let _ = process_usage::limit(pid, *resource, *limit);
            }
        }
    }

    /// Returns the maximum number of processes of the user of an application; `None` if others than
    /// its applications, or those without a limit, may have any number.
    pub(super) fn processes_of_user(&self, spec: &ApplicationSpec) -> Option<u64> {
        let is_shared = |user: &str| {
            user == "root" || self.options.user.as_ref().is_some_and(|own| own.name == user)
        };
        let user = spec.user.as_deref().filter(|user| !is_shared(user))?;
        if spec.isolation.user_namespace {
            return None; // it counts for itself there
        }
        let all = self.changes.current.grants.applications.values();
        let others = all.filter(|other| other.name != spec.name);
        let of_user = others.filter(|other| other.user.as_deref() == Some(user));
        let sum = of_user
            .map(|other| other.isolation.limits.as_ref()?.processes)
            .try_fold(u64::from(spec.isolation.limits.as_ref()?.processes?), |sum, limit| {
                Some(sum.saturating_add(u64::from(limit?)))
            })?;
        Some(sum.saturating_mul(2).saturating_add(MORE_PROCESSES))
    }

    /// Gives running applications the limits of the configuration that has become the current one,
    /// if nothing else of them has changed.
    pub(super) fn change_resources(&mut self) {
        let mut changed = Vec::new();
        for (id, app) in &mut self.applications {
            let Some(new) = self.changes.current.grants.applications.get(&app.name) else {
                continue;
            };
            if app.take_resources(new) {
                changed.push(*id);
            }
        }
        for id in changed {
            let Some(app) = self.applications.get(&id) else { continue };
            if let Some(group) = &app.plan.group
                && let Err(error) = self.control_groups.change(group, &app.plan.settings)
            {
                let name = &app.name;
                let line = format_args!(
                    "application \"{name}\": isolation: its former limits hold, as control group \
                     {group} cannot be changed: {error}"
                );
                self.log.write(Level::Alert, line);
            }
            if !app.plan.is_exact() {
                let all = process_usage::tree(app.pid).unwrap_or_default();
                let family = Family::of(&app.known(), all);
                self.guard(id, family.all());
                self.count_soon(id, Instant::now());
            }
        }
        // The maximum number of processes of a user depends on all of its applications.
        let counted =
            self.applications.iter().filter(|(_, app)| app.plan.counted.processes.is_some());
        let counted: Vec<_> = counted.map(|(id, app)| (*id, app.known())).collect();
        for (id, known) in counted {
            self.guard(id, known.workers.into_iter().chain(known.template));
        }
    }
}
