//! Reason why a configuration is applied, and which parts of it may be out.

use std::time::Duration;

/// Maximum time until the applications of a changed configuration are ready. A preload script may
/// take a while.
pub(super) const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time that the report of a start or a reload waits for applications that start, a reload
/// for those that replace running ones, and a change while another one waits. Those that are not
/// ready then serve once they are; until then their requests wait, or fail.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for which a reload waits for a look at its applications: one drive that does not
/// answer is left out after five seconds.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_secs(6);

/// The reason for which a configuration is applied.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trigger {
    /// The router starts. An application that cannot run must not keep the others from being
    /// served: its site may have caused that.
    Start(StartPolicy),
    /// The configuration changes. A new part that cannot run causes the change to be refused, so
    /// that its author knows; parts that could not run before stay out.
    Change {
        /// Number of the new configuration.
        generation: u32,
        /// The document was read again from its source: only parts that cannot run are out.
        is_reload: bool,
    },
    /// Certificate files of the current configuration have changed.
    CertificateFiles,
}

impl Trigger {
    /// Returns true if a router of this server has served before, and this one starts.
    pub(super) fn is_restart(self) -> bool {
        matches!(self, Trigger::Start(start) if start.has_served)
    }

    /// Returns true if a part that cannot run, and is new, is out alone.
    pub(super) fn tolerates_new(self) -> bool {
        match self {
            Trigger::Start(start) => start.has_served || !start.is_strict,
            Trigger::Change { is_reload, .. } => is_reload,
            Trigger::CertificateFiles => true,
        }
    }
}

/// Requirements of a start.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartPolicy {
    /// There is a control API, through which the configuration can be corrected.
    pub(super) has_control: bool,
    /// The start fails if a part of the configuration cannot run.
    pub(super) is_strict: bool,
    /// The server has served before: its start must not fail, as no administrator reads the reason
    /// at a terminal.
    pub(super) has_served: bool,
}
