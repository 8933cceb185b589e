//! Looks at the applications of the running document from time to time: whether those that load PHP
//! with their first request could start is known before, from their user, their program and their
//! directories, and those that run may lose their document roots. The router gets the troubled
//! ones.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_wire::messages::Problem;

use super::state::Tree;
use crate::application_checks::{
    CHANGED, CheckedApplication, Hung, Troubled, message, mount_points, read,
};
use crate::file_task::{Origin, Outcome, Task};

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_secs(10);

/// Interval while an application is troubled.
const TROUBLED_INTERVAL: Duration = Duration::from_secs(4);

/// Times of the looks at the applications.
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
    /// Applications whose directories do not answer.
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

impl Tree {
    /// Looks at the applications if it is time.
    pub(super) fn check_applications_if_due(&mut self, now: Instant) {
        if self.application_checks.due().is_none_or(|due| due > now) {
            return;
        }
        self.application_checks.due = None;
        let all = self.changes.current.grants.applications.values();
        let hung = &self.application_checks.hung;
        let mut checked: Vec<_> = all
            .filter(|spec| !hung.is_left_out(&spec.name, now))
            .map(|spec| {
                let mut running = self.applications.values();
                // An application of a former configuration may finish requests.
                let running = running.find(|app| app.is_ready() && app.has_spec(spec));
                let prototype = running.map(|app| app.pid);
                let mut starting = self.applications.values();
                let starting = starting
                    .find(|app| prototype.is_none() && app.name == spec.name && app.is_loading())
                    .map(|app| (app.pid, app.started));
                CheckedApplication { spec: spec.clone(), prototype, starting }
            })
            .collect();
        // Applications that may hang again come last.
        let key = |app: &CheckedApplication| (hung.is_known(&app.spec.name), app.spec.name.clone());
        checked.sort_by_cached_key(key);
        self.application_checks.generation = self.changes.current.generation;
        if checked.is_empty() {
            return self.applications_checked(&checked, Ok(None));
        }
        self.application_checks.is_running = true;
        self.begin_file_task(Task::CheckApplications(checked), Origin::Supervisor);
    }

    /// Tells the router which applications are troubled, and looks again later.
    pub(super) fn applications_checked(
        &mut self,
        checked: &[CheckedApplication],
        outcome: Outcome,
    ) {
        let now = Instant::now();
        let checks = &mut self.application_checks;
        checks.is_running = false;
        let mut troubled = match outcome {
            Ok(None) => Troubled::new(),
            Ok(Some(file)) => read(file),
            Err(error) => {
                // A directory that does not answer must not hide the others. A look that could not
                // begin is repeated later.
                let is_known = checks.hung.add(checked, &error, &mount_points(), now);
                checks.due = Some(if is_known { now } else { now + TROUBLED_INTERVAL });
                return;
            }
        };
        let is_changed = |(_, problem): &mut (String, Problem)| problem.key == CHANGED;
        let changed: Vec<_> = troubled.extract_if(.., is_changed).collect();
        let known = &self.changes.current.grants.applications;
        troubled.extend(checks.hung.answered(checked, |name| known.contains_key(name)));
        let is_calm = troubled.is_empty() && checked.iter().all(|app| app.starting.is_none());
        let interval = if is_calm { INTERVAL } else { TROUBLED_INTERVAL };
        let next = (!known.is_empty()).then(|| now + interval);
        // The configuration may have changed meanwhile.
        checks.due = checks.due.into_iter().chain(next).min();
        let was_troubled = std::mem::replace(&mut checks.has_found, !troubled.is_empty());
        // A reload waits for the look at its configuration.
        let generation = checks.generation;
        let is_new = checks.told.replace(generation) != Some(generation);
        if !troubled.is_empty() || was_troubled || is_new {
            self.send_to_router(&message(generation, troubled), &[]);
        }
        for (name, Problem { message: file, .. }) in changed {
            let mut checked = checked.iter().filter(|app| app.spec.name == name);
            if let Some((pid, _)) = checked.find_map(|app| app.starting) {
                self.end_outdated_start(pid, &file);
            }
        }
    }

    /// Ends a start that may wait for the former content of a file. The router begins another.
    fn end_outdated_start(&mut self, pid: u32, file: &str) {
        let mut applications = self.applications.values_mut();
        let Some(app) = applications.find(|app| app.pid == pid && app.is_loading()) else { return };
        let name = &app.name;
        let line = format_args!(
            "\"{name}\" application: its start is ended, and begins again: {file} has changed \
             meanwhile"
        );
        self.log.write(Level::Notice, line);
        app.terminate(Some(&format!("{file} has changed since its start began")));
    }
}
