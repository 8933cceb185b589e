//! Looks at the applications of the running document from time to time: whether those that load PHP
//! with their first request could start is known before, from their user, their program and their
//! directories, and those that run may lose their document roots. The router gets the troubled
//! ones.
//!
//! A change of the configuration waits for a look. If there are many applications, that look is at
//! those that the change has brought and at the troubled ones; the others have their turn when it is
//! time for all.

use std::collections::BTreeSet;
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

/// Number of applications that are looked at whatever the reason of a look is: it takes a fraction of
/// a millisecond for each.
const MAX_AT_ONCE: usize = 100;

/// Times of the looks at the applications.
#[derive(Debug, Default)]
pub(super) struct ApplicationChecks {
    due: Option<Instant>,
    /// Time of the next look at all applications.
    due_for_all: Option<Instant>,
    /// Applications that are new or different since the last look.
    changed: BTreeSet<String>,
    /// Those that the last look has found.
    troubled: BTreeSet<String>,
    /// Number of the configuration of the last look.
    generation: u32,
    /// Number of the configuration of which the router was told last.
    told: Option<u32>,
    /// A look is in progress.
    is_running: bool,
    /// Applications whose directories do not answer.
    hung: Hung,
}

impl ApplicationChecks {
    /// Returns the time of the next look; `None` if none is due, or one is in progress.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_running)
    }

    /// Looks at all applications soon: users or the router have changed.
    pub(super) fn begin_soon(&mut self) {
        self.due = Some(Instant::now());
        self.due_for_all = self.due;
    }

    /// Looks soon at the applications that a change has brought.
    pub(super) fn begin_with(&mut self, changed: Vec<String>) {
        self.due = Some(Instant::now());
        self.changed.extend(changed);
    }

    /// Returns true if a look that begins now is also at an application, one of `count`.
    fn must_look_at(&self, name: &str, count: usize, now: Instant) -> bool {
        let is_for_all = count <= MAX_AT_ONCE || self.due_for_all.is_some_and(|due| due <= now);
        let has_reason = is_for_all || self.changed.contains(name) || self.troubled.contains(name);
        has_reason && !self.hung.is_left_out(name, now)
    }

    /// Begins a look at applications of this configuration.
    fn begin(&mut self, generation: u32, now: Instant) {
        self.due = None;
        self.due_for_all = self.due_for_all.filter(|due| *due > now);
        self.changed.clear();
        self.generation = generation;
    }

    /// Ends a look. The next one at all applications is `interval` from now at the latest; there is
    /// none without applications.
    fn end(&mut self, now: Instant, interval: Option<Duration>) {
        self.is_running = false;
        let latest = interval.map(|interval| now + interval);
        self.due_for_all = self.due_for_all.into_iter().chain(latest).min();
        // The configuration may have changed meanwhile.
        self.due = self.due.into_iter().chain(self.due_for_all).min();
    }
}

impl Tree {
    /// Looks at the applications if it is time.
    pub(super) fn check_applications_if_due(&mut self, now: Instant) {
        if self.application_checks.due().is_none_or(|due| due > now) {
            return;
        }
        let checks = &self.application_checks;
        let all = &self.changes.current.grants.applications;
        let mut checked: Vec<_> = all
            .values()
            .filter(|spec| checks.must_look_at(&spec.name, all.len(), now))
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
        let key = |app: &CheckedApplication| {
            (checks.hung.is_known(&app.spec.name), app.spec.name.clone())
        };
        checked.sort_by_cached_key(key);
        self.application_checks.begin(self.changes.current.generation, now);
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
        let mut troubled = match outcome {
            Ok(None) => Troubled::new(),
            Ok(Some(file)) => read(file),
            Err(error) => {
                // A directory that does not answer must not hide the others. A look that could not
                // begin is repeated later.
                let is_known = checks.hung.add(checked, &error, &mount_points(), now);
                checks.is_running = false;
                checks.due = Some(if is_known { now } else { now + TROUBLED_INTERVAL });
                checks.due_for_all = checks.due;
                return;
            }
        };
        let is_changed = |(_, problem): &mut (String, Problem)| problem.key == CHANGED;
        let changed: Vec<_> = troubled.extract_if(.., is_changed).collect();
        let known = &self.changes.current.grants.applications;
        troubled.extend(checks.hung.answered(checked, |name| known.contains_key(name)));
        let is_calm = troubled.is_empty() && checked.iter().all(|app| app.starting.is_none());
        let interval = if is_calm { INTERVAL } else { TROUBLED_INTERVAL };
        checks.end(now, (!known.is_empty()).then_some(interval));
        let names = troubled.iter().map(|(name, _)| name.clone()).collect();
        let was_troubled = !std::mem::replace(&mut checks.troubled, names).is_empty();
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

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = MAX_AT_ONCE + 1;

    fn later(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[test]
    fn a_change_is_followed_by_a_look_at_what_it_has_brought_and_later_at_all() {
        let mut checks = ApplicationChecks::default();
        checks.begin_soon();
        let now = later(1);
        assert!(checks.due().is_some_and(|due| due <= now));
        assert!(checks.must_look_at("old", MANY, now), "the first look is at all");
        checks.begin(1, now);
        checks.troubled.insert("troubled".to_owned());
        checks.end(now, Some(INTERVAL));
        checks.begin_with(vec!["new".to_owned()]);
        assert!(checks.due().is_some_and(|due| due <= now));
        for (name, is_looked_at) in [("new", true), ("troubled", true), ("old", false)] {
            assert_eq!(checks.must_look_at(name, MANY, now), is_looked_at, "{name}");
            assert!(checks.must_look_at(name, MAX_AT_ONCE, now), "of few, each is looked at");
        }
        // Changes one after the other keep nobody from its turn.
        for second in 1..INTERVAL.as_secs() {
            let now = now + Duration::from_secs(second);
            assert!(!checks.must_look_at("old", MANY, now));
            checks.begin(2, now);
            checks.end(now, Some(INTERVAL));
            checks.begin_with(Vec::new());
        }
        assert!(checks.must_look_at("old", MANY, now + INTERVAL));
    }

    #[test]
    fn a_change_during_a_look_is_followed_by_another_look() {
        let (mut checks, now) = (ApplicationChecks::default(), later(1));
        checks.begin_soon();
        checks.begin(1, now);
        checks.is_running = true;
        checks.begin_with(vec!["new".to_owned()]);
        assert_eq!(checks.due(), None);
        checks.end(now, Some(INTERVAL));
        assert!(checks.due().is_some_and(|due| due <= now));
        assert!(checks.must_look_at("new", MANY, now) && !checks.must_look_at("old", MANY, now));
    }

    #[test]
    fn nothing_is_due_once_all_applications_are_gone() {
        let (mut checks, now) = (ApplicationChecks::default(), later(1));
        checks.begin_soon();
        checks.begin(1, now);
        checks.end(now, None);
        assert_eq!(checks.due(), None);
        checks.begin_with(vec!["new".to_owned()]);
        checks.begin(2, now);
        checks.end(now, Some(INTERVAL));
        assert_eq!(checks.due(), Some(now + INTERVAL), "all of them are due then");
    }
}
