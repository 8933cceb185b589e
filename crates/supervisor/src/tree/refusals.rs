//! Requests of the router that the configuration does not allow: reported, at a limited rate.

use std::fmt::Display;
use std::time::{Duration, Instant};

use howdah_sys::log::{Level, Log};

/// Number of refusals reported in the current period; limited, so that a router cannot fill the
/// log.
#[derive(Debug)]
pub(super) struct Refusals {
    period_start: Instant,
    reported: u32,
}

/// Maximum number of refusals that are reported within [`REFUSALS_PERIOD`].
const MAX_REFUSALS: u32 = 20;

const REFUSALS_PERIOD: Duration = Duration::from_secs(1);

impl Default for Refusals {
    fn default() -> Self {
        Refusals { period_start: Instant::now(), reported: 0 }
    }
}

impl Refusals {
    /// Reports that the router requested `subject`. Returns the error message for the router.
    pub(super) fn report(&mut self, subject: impl Display, log: &Log, now: Instant) -> String {
        if now.saturating_duration_since(self.period_start) >= REFUSALS_PERIOD {
            *self = Refusals { period_start: now, reported: 0 };
        }
        if self.reported < MAX_REFUSALS {
            self.reported += 1;
            let line = format_args!(
                "the router asked for {subject}, which the configuration does not allow"
            );
            log.write(Level::Alert, line);
        }
        format!("{subject} is not allowed by the configuration")
    }
}
