//! Applications that load PHP with their first request: whether they could run is known before, from their
//! user, their program and their directories. The router gets those that could not.

use std::time::{Duration, Instant};

use howdah_wire::messages::FromSupervisor;

use super::state::Tree;
use crate::file_task::{Origin, Outcome, Task, unstartable};

/// Interval between two looks while an application could not run.
const INTERVAL: Duration = Duration::from_secs(4);

impl Tree {
    /// Looks at the applications without a process if it is time.
    pub(super) fn check_unloaded_if_due(&mut self, now: Instant) {
        if self.unloaded.due().is_none_or(|due| due > now) {
            return;
        }
        self.unloaded.due = None;
        let is_running = |name: &str| self.applications.values().any(|app| app.name == name);
        let mut specs: Vec<_> =
            self.changes.current.grants.applications.values().cloned().collect();
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        specs.retain(|spec| !is_running(&spec.name));
        if specs.is_empty() {
            return self.unloaded_checked(Ok(None));
        }
        self.unloaded.is_running = true;
        self.begin_file_task(Task::CheckUnloaded(specs), Origin::Supervisor);
    }

    /// Tells the router which applications could not run, and looks again later if there are any.
    pub(super) fn unloaded_checked(&mut self, outcome: Outcome) {
        self.unloaded.is_running = false;
        let found = outcome.err().map(|problems| unstartable(&problems)).unwrap_or_default();
        if !found.is_empty() {
            self.unloaded.due = Some(Instant::now() + INTERVAL);
        }
        let had_found = std::mem::replace(&mut self.unloaded.has_found, !found.is_empty());
        if found.is_empty() && !had_found {
            return;
        }
        let (without_root, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| found.lacks_root);
        let named = |found: Vec<crate::file_task::Unstartable>| {
            found.into_iter().map(|found| (found.name, found.problem)).collect()
        };
        let (without_root, others) = (named(without_root), named(others));
        self.send_to_router(&FromSupervisor::Unstartable { without_root, others }, &[]);
    }
}
