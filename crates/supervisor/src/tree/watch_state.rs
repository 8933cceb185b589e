//! The state of processes that are watched: whether they are stopped or answer, and which was
//! replaced last.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::liveness::Liveness;

/// Time after which a stopped process is killed. A shell stops and continues all processes of the
/// server together.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The processes that are watched.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Stopped processes, each with the time at which that was noticed.
    pub(super) stopped: HashMap<u32, Instant>,
    pub(super) control: Liveness,
    /// Time of the next ping of the control process; `None` if none runs.
    pub(super) next_ping: Option<Instant>,
    pub(super) last_ping: u32,
    /// The process that was replaced last.
    pub(super) replaced: Option<Replaced>,
}

/// A process that was replaced.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) pid: u32,
    /// Seconds since 1970.
    pub(super) at: u64,
    /// Its kind and number, and why.
    pub(super) reason: String,
}

impl Watch {
    /// Returns the time of the next step.
    pub(super) fn due(&self) -> Option<Instant> {
        let stopped = self.stopped.values().map(|since| *since + STOP_TIMEOUT);
        stopped.chain(self.next_ping).chain(self.control.due()).min()
    }
}
