//! When the users of running applications are looked at.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::id::Id;
use crate::file_task::Candidate;
use crate::running_user::{Difference, RunningUser};

/// Interval between two looks at the files of users and groups.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time for which a reload waits for a look.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(5);

/// When users are looked at.
pub(super) struct UserChecks {
    /// Time of the next look at the files.
    pub(super) due: Instant,
    /// The files at the last look.
    pub(super) files: Option<Files>,
    /// The next look is at the users, whether the files have changed or not.
    pub(super) must_look: bool,
    /// The last look has found some.
    pub(super) has_found: bool,
    /// Those of the last look that a restart mends.
    pub(super) changed: Vec<Id>,
    /// A look is in progress, at the applications of the router with this process id.
    pub(super) looks_at: Option<u32>,
    /// Those that it has yet to look at.
    pub(super) unseen: Vec<(u32, RunningUser)>,
    /// Those that it has found so far.
    pub(super) found: Vec<(u32, Difference)>,
    /// A reload that waits for a look.
    pub(super) change: Option<WaitingChange>,
}

/// A reload that waits for a look.
pub(super) struct WaitingChange {
    pub(super) candidate: Candidate,
    /// The control process that has asked for it.
    pub(super) control: u32,
    /// A look has begun since.
    pub(super) is_looked: bool,
    /// Time at which it goes on without an outcome: a directory service may take long for each
    /// user.
    pub(super) deadline: Instant,
}

impl UserChecks {
    /// Starts with a look.
    pub(super) fn new(now: Instant) -> UserChecks {
        UserChecks {
            due: now,
            files: None,
            must_look: false,
            has_found: false,
            changed: Vec::new(),
            looks_at: None,
            unseen: Vec::new(),
            found: Vec::new(),
            change: None,
        }
    }

    /// Returns the time of the next look, if none is in progress, or that at which a reload goes
    /// on.
    pub(super) fn due(&self) -> Option<Instant> {
        let look = self.looks_at.is_none().then_some(self.due);
        look.into_iter().chain(self.change.as_ref().map(|change| change.deadline)).min()
    }

    /// Looks at the users soon, whether the files have changed or not.
    pub(super) fn look_now(&mut self) {
        (self.must_look, self.due) = (true, Instant::now());
    }
}

/// The state of the files of users and of groups. Other sources of users are looked at by a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Files([Option<[i128; 4]>; 2]);

impl Files {
    /// Looks at the files, whose directory is that of the system.
    pub(super) fn now() -> Files {
        Files(["/etc/passwd", "/etc/group"].map(|path| {
            let found = fs::metadata(path).ok()?;
            let changed =
                i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
            let written =
                i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
            Some([found.ino().into(), found.size().into(), changed, written])
        }))
    }
}
