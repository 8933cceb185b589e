//! The state of the control process.

use std::time::Instant;

use crate::backoff::Backoff;
use crate::control::Control;

/// The control process, if it runs, and the reasons to start one.
#[derive(Default)]
pub(super) struct ControlState {
    pub(super) process: Option<Control>,
    /// It has closed its socket, so it ends, or is killed at this time.
    pub(super) closing: Option<Instant>,
    /// It was killed by this process.
    pub(super) is_killed: bool,
    /// Time of the next look whether the control socket has its file.
    pub(super) file_due: Option<Instant>,
    /// Why the control socket could not be opened anew.
    pub(super) file_problem: Option<String>,
    /// A connection waits at the control socket.
    pub(super) is_wanted: bool,
    /// Number of attempts to read the configuration again; `None` if no reload is requested.
    pub(super) reload_attempts: Option<u32>,
    /// The reload is only of tables in files.
    pub(super) reloads_tables: bool,
    pub(super) backoff: Backoff,
    /// Earliest time of the next start.
    pub(super) start_after: Option<Instant>,
}

impl ControlState {
    /// Returns true if the control process runs and has this process id.
    pub(super) fn has_pid(&self, pid: u32) -> bool {
        self.process.as_ref().is_some_and(|process| process.pid == pid)
    }
}
