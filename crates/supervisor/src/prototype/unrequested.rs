//! Limit on the reports of a prototype that answer no request of the supervisor.
//!
//! The number of pending requests limits the others. These come from events of a script: it has
//! started in a template, or its files have changed.

use std::time::{Duration, Instant};

/// Number of reports that may come at once.
const BURST: u32 = 100;

/// Interval in which one more may come.
const INTERVAL: Duration = Duration::from_millis(50);

/// Rate of the reports of one prototype (a generic cell rate algorithm).
#[derive(Debug, Default)]
pub(super) struct UnrequestedReports {
    /// Time at which the reports so far fit the rate.
    paid: Option<Instant>,
}

impl UnrequestedReports {
    /// Counts a report. Returns false if there are too many.
    pub(super) fn allow(&mut self, now: Instant) -> bool {
        let paid = self.paid.map_or(now, |paid| paid.max(now));
        if paid >= now + BURST * INTERVAL {
            return false;
        }
        self.paid = Some(paid + INTERVAL);
        true
    }
}
