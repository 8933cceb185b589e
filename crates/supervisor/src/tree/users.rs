//! Users of running applications. That one was deleted or has another id is found when the files of
//! users change, and by a reload. The router gets the applications whose processes still run as
//! they were. A reload restarts those that can run as the user is now.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use howdah_wire::messages::{FromSupervisor, Restart};

use super::id::Id;
use super::state::Tree;
use crate::file_task::{Candidate, MAX_USERS, Origin, Outcome, Task, stale_users};
use crate::running_user::{Difference, RunningUser};

/// Interval between two looks at the files of users and groups.
const INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time for which a reload waits for a look.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Times of the looks at users.
pub(super) struct UserChecks {
    /// Time of the next look at the files.
    pub(super) due: Instant,
    /// The files at the last look.
    pub(super) files: Option<Files>,
    /// The next look is at the users, whether the files have changed or not.
    pub(super) must_look: bool,
    /// The last look has found some.
    pub(super) has_found: bool,
    /// Applications of the last look that a restart mends.
    pub(super) changed: Vec<Id>,
    /// A look is in progress, at the applications of the router with this process id.
    pub(super) looks_at: Option<u32>,
    /// Applications that the look has yet to reach.
    pub(super) unseen: Vec<(u32, RunningUser)>,
    /// Differences that the look has found so far.
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
    /// Time at which it continues without an outcome: a directory service may take long for each
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

    /// Returns the time of the next look, if none is in progress, or that at which a reload
    /// continues.
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

impl Tree {
    /// Looks at the users of applications if it is time.
    pub(super) fn check_users_if_due(&mut self, now: Instant) {
        if let Some(late) = self.users.change.take_if(|change| change.deadline <= now) {
            self.go_on(late);
        }
        let is_wanted = self.has_served && (self.has_users() || self.users.change.is_some());
        if !is_wanted || self.users.looks_at.is_some() || self.users.due > now {
            return;
        }
        self.users.due = now + INTERVAL;
        let files = Files::now();
        if self.users.files.replace(files) != Some(files) {
            self.users.must_look = true;
            self.application_checks.begin_soon();
        }
        let must_look = std::mem::take(&mut self.users.must_look);
        if !must_look && !self.users.has_found {
            return;
        }
        if let Some(change) = &mut self.users.change {
            change.is_looked = true;
        }
        let Some(router) = self.router.as_ref().map(|router| router.pid) else {
            return self.users_checked(Ok(None));
        };
        self.users.looks_at = Some(router);
        self.users.found.clear();
        let of_router = self.applications.iter().filter(|(id, _)| id.router == router);
        self.users.unseen =
            of_router.filter_map(|(id, app)| Some((id.number, app.user.clone()?))).collect();
        self.look_at_next_users();
    }

    fn look_at_next_users(&mut self) {
        let unseen = &mut self.users.unseen;
        let some = unseen.split_off(unseen.len().saturating_sub(MAX_USERS));
        if some.is_empty() {
            self.users_checked(Ok(None))
        } else {
            self.begin_file_task(Task::CheckUsers(some), Origin::Supervisor)
        }
    }

    /// Returns true if any application names a user or a group.
    pub(super) fn has_users(&self) -> bool {
        let mut specs = self.changes.current.grants.applications.values();
        specs.any(|spec| spec.user.is_some() || spec.group.is_some())
    }

    /// Returns the task that looks up the users that applications name.
    pub(super) fn find_users(&self) -> Task {
        let specs = self.changes.current.grants.applications.values();
        Task::FindUsers(specs.filter_map(|spec| spec.user.clone()).collect())
    }

    /// Begins a change that was checked. A reload first looks at the users of applications, so that
    /// its outcome names those that have changed.
    pub(super) fn begin_checked(&mut self, candidate: Candidate) -> Result<(), String> {
        let is_reload = matches!(candidate.restart, Restart::Changed | Restart::All);
        match self.control_pid() {
            Some(control) if is_reload && self.has_users() => {
                let deadline = Instant::now() + MAX_WAIT;
                let change = WaitingChange { candidate, control, is_looked: false, deadline };
                self.users.change = Some(change);
                self.users.look_now();
                self.check_users_if_due(Instant::now());
                Ok(())
            }
            _ => self.begin_change(candidate),
        }
    }

    /// Tells the router which applications run as another user than they would now, and continues
    /// with a reload.
    pub(super) fn users_checked(&mut self, outcome: Outcome) {
        // Another router has numbers of its own.
        let router = self.router.as_ref().map(|router| router.pid);
        let is_current = router.is_some() && router == self.users.looks_at;
        // Without an answer, for example of a directory service, the users are unknown.
        match stale_users(outcome).filter(|_| is_current) {
            Some(found) => {
                self.users.found.extend(found);
                if !self.users.unseen.is_empty() {
                    return self.look_at_next_users();
                }
                self.users.looks_at = None;
                self.tell_stale_users();
            }
            None => self.users.looks_at = None,
        }
        if let Some(waited) = self.users.change.take_if(|change| change.is_looked) {
            self.go_on(waited);
        } else if self.users.change.is_some() {
            self.users.look_now(); // it has come during the look
        }
    }

    /// Continues with a reload that has waited for a look.
    fn go_on(&mut self, change: WaitingChange) {
        if self.control_pid() == Some(change.control) {
            self.preflight_ended(change.candidate, Ok(None));
        }
    }

    /// Tells the router which applications the look has found.
    fn tell_stale_users(&mut self) {
        let found = std::mem::take(&mut self.users.found);
        let can_restart = found.iter().filter(|(_, difference)| difference.can_restart);
        self.users.changed = can_restart.map(|(number, _)| self.id(*number)).collect();
        let had_found = std::mem::replace(&mut self.users.has_found, !found.is_empty());
        if !had_found && !self.users.has_found {
            return;
        }
        let mut found = found.into_iter().map(|(number, found)| (number, found.problem)).peekable();
        loop {
            let some = found.by_ref().take(MAX_USERS).collect();
            let is_last = found.peek().is_none();
            self.send_to_router(&FromSupervisor::StaleUsers { is_last, found: some }, &[]);
            if is_last {
                return;
            }
        }
    }
}
