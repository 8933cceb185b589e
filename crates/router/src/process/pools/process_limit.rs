//! `settings.max_processes`: the workers of all applications together.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;

use super::Pools;
use super::application::PooledApplication;

/// Time for which idle workers end at once after a request has waited for a worker in vain.
const CONTENTION_TIME: Duration = Duration::from_secs(1);

/// Pause between two records about the limit.
const NOTE_PAUSE: Duration = Duration::from_secs(10);

/// The limit, and who needs more.
#[derive(Debug, Default)]
pub(super) struct ProcessLimit {
    max: Option<u32>,
    /// Time at which requests last waited because of the limit.
    contended_at: Option<Instant>,
    noted_at: Option<Instant>,
    /// No worker was started since the last record.
    is_noted: bool,
}

impl ProcessLimit {
    /// Returns true if idle workers are to end because requests wait elsewhere.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        self.contended_at.is_some_and(|at| now.saturating_duration_since(at) < CONTENTION_TIME)
    }
}

impl Pools {
    /// Sets the maximum number of workers of all applications. Returns the former one.
    pub(in crate::process) fn set_max_processes(&mut self, max: Option<u32>) -> Option<u32> {
        std::mem::replace(&mut self.process_limit.max, max)
    }

    /// Returns how many of `count` workers of an application may start, beside those that it has;
    /// `waits`: requests wait for them. It is not among the applications now.
    pub(super) fn permitted(
        &mut self,
        app: &PooledApplication,
        count: u32,
        waits: bool,
        now: Instant,
    ) -> u32 {
        let Some(max) = self.process_limit.max else { return count };
        let others: u32 = self.all().map(PooledApplication::claimed_workers).sum();
        let own = app.workers() + app.starting;
        let permitted = count.min(max.saturating_sub(others.saturating_add(own)));
        let limit = &mut self.process_limit;
        if permitted < count {
            if waits {
                limit.contended_at = Some(now);
            }
            let pause = limit.noted_at.map(|at| now.saturating_duration_since(at));
            if !limit.is_noted && pause.is_none_or(|pause| pause >= NOTE_PAUSE) {
                (limit.noted_at, limit.is_noted) = (Some(now), true);
                let name = &app.config.name;
                let line = format_args!(
                    "settings/max_processes allows no more than {max} PHP processes, and \
                     application \"{name}\" needs another"
                );
                self.log(Level::Warn, line);
            }
        } else {
            limit.is_noted = false;
        }
        permitted
    }
}
