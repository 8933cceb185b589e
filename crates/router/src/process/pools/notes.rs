//! Records about too few workers, of applications in the place of PHP-FPM: its log has lines about
//! them.

use std::time::{Duration, Instant};

use howdah_php_pool::worker_count::{Decision, PoolState};
use howdah_sys::log::{Level, OfApplication};

use super::Pools;
use super::application::PooledApplication;

/// Pause between two records about the maximum number of workers.
const EXHAUSTION_PAUSE: Duration = Duration::from_secs(10);

/// Interval between two looks at the idle workers, and between two records about starts: PHP-FPM's
/// maintenance interval.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What was last logged about an application.
#[derive(Debug, Default)]
pub(super) struct Notes {
    exhausted_at: Option<Instant>,
    /// No worker was started since the last record about their maximum number.
    has_not_grown: bool,
    looked_at: Option<Instant>,
    surged_at: Option<Instant>,
}

/// Returns true, and remembers the time, if none was remembered within `pause`.
fn is_due(last: &mut Option<Instant>, pause: Duration, now: Instant) -> bool {
    let is_due = last.is_none_or(|at| now.saturating_duration_since(at) >= pause);
    if is_due {
        *last = Some(now);
    }
    is_due
}

impl Pools {
    /// Logs that there are as many workers as there may be, and too few of them are idle.
    pub(super) fn note_exhaustion(&self, app: &mut PooledApplication, now: Instant) {
        let spare = app.sizing.wanted().spare;
        let spare = is_due(&mut app.notes.looked_at, LOOK_INTERVAL, now).then_some(spare);
        let Some(workers) = app.queue.take_exhaustion(spare) else { return };
        let notes = &mut app.notes;
        if notes.has_not_grown || !is_due(&mut notes.exhausted_at, EXHAUSTION_PAUSE, now) {
            return;
        }
        notes.has_not_grown = true;
        let name = &app.config.name;
        let line = format_args!(
            "\"{name}\" application: requests wait for its {workers} workers, or soon will; \
             processes/max allows no more"
        );
        self.shared.log.about(&OfApplication(name)).write(Level::Info, line);
    }

    /// Logs that several starts of workers in a row were too few.
    pub(super) fn note_growth(
        &self,
        app: &mut PooledApplication,
        decision: Decision,
        running: PoolState,
        now: Instant,
    ) {
        let notes = &mut app.notes;
        notes.has_not_grown &= decision.spawn == 0;
        let Some(surge) = decision.surge.filter(|_| app.sizing.wanted().spare > 0) else { return };
        if !is_due(&mut notes.surged_at, LOOK_INTERVAL, now) {
            return;
        }
        let name = &app.config.name;
        let idle = running.workers.saturating_sub(running.busy);
        let total = running.workers;
        let line = format_args!(
            "\"{name}\" application: requests come faster than workers start: {surge} more at \
             once, {idle} idle, {total} in all; more of processes/start and spare would be ready"
        );
        self.shared.log.about(&OfApplication(name)).write(Level::Info, line);
    }
}
