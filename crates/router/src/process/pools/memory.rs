//! Divides the memory among the applications.

use std::path::Path;
use std::time::{Duration, Instant};

use ::howdah_config as config;
use howdah_php_pool::automatic_sizing::meter::MachineState;
use howdah_php_pool::automatic_sizing::shares::divide;
use howdah_questions::MemoryStatus;

use super::Pools;
use super::application::PooledApplication;

/// Minimum interval between two divisions.
const DIVISION_INTERVAL: Duration = Duration::from_millis(100);

impl Pools {
    /// Returns the processors and the memory for instance `number`, which uses `own_bytes`, within
    /// the limits of its application. Memory that other applications may still take is reserved.
    pub(super) fn machine_state(
        &mut self,
        number: u32,
        own_bytes: u64,
        isolation: &config::Isolation,
    ) -> MachineState {
        let group = isolation.group();
        let reserved = |is_in_group: &dyn Fn(Option<&Path>) -> bool| {
            let others = self.all().filter(|app| app.number() != Some(number));
            let others = others.filter(|app| is_in_group(app.config.isolation.group()));
            let reserved = others.map(|app| app.sizing.promised(app.workers()));
            reserved.fold(0u64, u64::saturating_add)
        };
        let (by_all, in_group) = (reserved(&|_| true), reserved(&|other| other == group));
        let used = self.used_bytes(|app| app.number() != Some(number)).saturating_add(own_bytes);
        let whole = self.machine.state(None).within_budget(used);
        let whole = MachineState { reserved_bytes: by_all, ..whole };
        let Some(group) = group else { return whole };
        let in_own = self.machine.state(Some(group));
        let within = whole.tighter(MachineState { reserved_bytes: in_group, ..in_own });
        // Without control groups the limit holds all the same.
        let limit = isolation.limits.as_ref().and_then(|limits| limits.memory);
        limit.map_or(within, |total| {
            let available = total.saturating_sub(own_bytes);
            within.tighter(MachineState { total, available, reserved_bytes: in_group, ..within })
        })
    }

    /// Divides the memory, unless that was done a moment ago.
    pub(super) fn divide_memory(&mut self, now: Instant) {
        if self.divided_at.is_some_and(|at| now - at < DIVISION_INTERVAL) {
            return;
        }
        self.divided_at = Some(now);
        let used = self.used_bytes(|_| true);
        let state = self.machine.state(None).within_budget(used);
        let MachineState { total, available, budget, .. } = state;
        let claims: Vec<_> =
            self.all().map(|app| app.sizing.claim(app.workers() + app.starting, now)).collect();
        let division = divide(&claims, total, available);
        let is_used_up = budget.is_some_and(|budget| budget <= used);
        self.memory_shortage.divided(division.is_contended, is_used_up, now);
        let all = self.applications.iter_mut().chain(&mut self.preparing).chain(&mut self.leaving);
        for (app, share) in all.zip(division.shares) {
            app.sizing.set_share(share);
        }
    }

    /// Returns the memory of all PHP processes.
    pub(super) fn memory_report(&mut self) -> MemoryStatus {
        let used = self.used_bytes(|_| true);
        MemoryStatus { budget: self.machine.state(None).budget, used }
    }

    /// Returns the memory of the prototypes and workers of some applications in bytes, as last
    /// measured.
    fn used_bytes(&self, is_counted: impl Fn(&PooledApplication) -> bool) -> u64 {
        let counted = self.all().filter(|app| is_counted(app));
        counted.map(|app| app.memory_usage()).fold(0, |sum, (prototype, workers)| {
            sum.saturating_add(prototype).saturating_add(workers)
        })
    }
}
