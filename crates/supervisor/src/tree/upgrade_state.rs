//! The state of an upgrade, on both of its sides.

use std::time::Instant;

use crate::handover::{Predecessor, Successor};

/// The upgrade that is in progress, if there is one.
#[derive(Default)]
pub(super) struct Upgrade {
    /// This server is being replaced.
    pub(super) stage: Stage,
    /// This server replaces another one, which still runs.
    pub(super) predecessor: Option<Predecessor>,
    /// This server does not own the PID file and the control socket yet: its predecessor does.
    pub(super) is_standby: bool,
    /// An upgrade begins as soon as the server that this one has replaced has ended; at this time
    /// it is refused.
    pub(super) waits_until: Option<Instant>,
    /// Signals that the new server must get when it has taken over, and this one if it does not.
    pub(super) postponed: Vec<i32>,
}

/// The stage of the replacement of this server.
#[derive(Default)]
pub(super) enum Stage {
    #[default]
    None,
    /// Waits until no certificate is being ordered, at most until this time.
    HoldingRenewals(Instant),
    /// The new server starts, or takes over.
    Starting(Successor),
    /// The new server has taken over; this one finishes its requests.
    Replaced {
        successor: Successor,
        /// Time until which the control process may send its last responses.
        control_until: Instant,
        /// The new server has been told to end, so this one must not serve again.
        is_final: bool,
    },
}

impl Upgrade {
    /// Returns true if this server is being replaced: changes must wait.
    pub(super) fn is_in_progress(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }

    /// Returns true if a new server has taken over.
    pub(super) fn is_replaced(&self) -> bool {
        matches!(self.stage, Stage::Replaced { .. })
    }

    /// Returns the new server, if it runs.
    pub(super) fn successor(&self) -> Option<&Successor> {
        match &self.stage {
            Stage::Starting(successor) | Stage::Replaced { successor, .. } => Some(successor),
            Stage::None | Stage::HoldingRenewals(_) => None,
        }
    }

    /// Returns the new server, if it runs.
    pub(super) fn successor_mut(&mut self) -> Option<&mut Successor> {
        match &mut self.stage {
            Stage::Starting(successor) | Stage::Replaced { successor, .. } => Some(successor),
            Stage::None | Stage::HoldingRenewals(_) => None,
        }
    }

    /// Returns the next deadline.
    pub(super) fn due(&self) -> Option<Instant> {
        let of_stage = match &self.stage {
            Stage::None => None,
            Stage::HoldingRenewals(deadline) => Some(*deadline),
            Stage::Starting(successor) => successor.due(),
            Stage::Replaced { control_until, .. } => Some(*control_until),
        };
        [of_stage, self.waits_until].into_iter().flatten().min()
    }
}
