//! When the applications are looked at.

use std::time::Instant;

use crate::application_checks::Hung;

/// When the applications are looked at.
#[derive(Debug, Default)]
pub(super) struct ApplicationChecks {
    pub(super) due: Option<Instant>,
    /// The last look has found some.
    pub(super) has_found: bool,
    /// Number of the configuration of the last look.
    pub(super) generation: u32,
    /// Number of the configuration of which the router was told last.
    pub(super) told: Option<u32>,
    /// A look is in progress.
    pub(super) is_running: bool,
    /// Those whose directories do not answer.
    pub(super) hung: Hung,
}

impl ApplicationChecks {
    /// Returns the time of the next look; `None` if none is due, or one is in progress.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_running)
    }

    /// Looks again soon: the configuration or the router has changed.
    pub(super) fn begin_soon(&mut self) {
        self.due = Some(Instant::now());
    }
}
