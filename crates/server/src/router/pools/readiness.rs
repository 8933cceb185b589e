//! Decides whether the prepared applications can serve before their configuration is in use.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;

use super::Pools;
use super::application::PooledApplication;

impl Pools {
    /// Returns true while prepared applications must be waited for. Error: the reason why one
    /// cannot run.
    pub(in crate::router) fn is_preparing(&self) -> Result<bool, String> {
        must_be_waited_for(self.changed())
    }

    /// The same for the new instance of one application.
    pub(super) fn is_restarting(&self, name: &str) -> Result<bool, String> {
        must_be_waited_for(self.restarts().filter(|app| app.config.name == name))
    }

    /// Returns the prepared applications of a configuration that is being applied.
    fn changed(&self) -> impl Iterator<Item = &PooledApplication> {
        self.preparing.iter().filter(|app| !app.is_restart)
    }

    /// Returns the new instances of running applications that are not adopted yet.
    pub(super) fn restarts(&self) -> impl Iterator<Item = &PooledApplication> {
        self.preparing.iter().filter(|app| app.is_restart)
    }

    /// Returns the message about applications that are not ready after `time`.
    pub(in crate::router) fn not_ready(&self, time: Duration) -> String {
        let late = self.changed().filter(|app| app.is_late());
        let names: Vec<_> = late.map(|app| format!("\"{}\"", app.config.name)).collect();
        are_not_ready(&names.join(", "), time)
    }

    /// The same about the new instance of one application.
    pub(super) fn not_restarted(&self, name: &str, time: Duration) -> String {
        are_not_ready(&format!("\"{name}\""), time)
    }

    /// Lets applications that cannot run be adopted with the others; they are started again later.
    /// Returns false if it is not known yet whether another one can serve. Error: the reason why none of those
    /// that the router must not serve without can run, or one of them although its part of the document is
    /// right; or why none of those that must be ready can, unless the server goes on `even_without_all`.
    pub(in crate::router) fn waive_failed(
        &mut self,
        even_without_all: bool,
    ) -> Result<bool, String> {
        let is_failed = |app: &PooledApplication| app.failure.is_some();
        let required = || self.changed().filter(|app| self.requires(app));
        let is_refused = required().all(is_failed);
        if let Some(app) =
            required().find(|app| is_failed(app) && (is_refused || !app.is_mistaken()))
        {
            return Err(app.cannot_run(app.failure.as_deref().unwrap_or_default()));
        }
        let must_be_ready = || self.changed().filter(|app| app.must_be_ready);
        if !even_without_all
            && let Some(first) = must_be_ready().find(|app| is_failed(app))
            && must_be_ready().all(is_failed)
        {
            let failure = first.failure.as_deref().unwrap_or_default();
            return Err(first.cannot_run(failure));
        }
        let is_known = |app: &PooledApplication| !app.is_late() && !is_failed(app);
        let has_failed = must_be_ready().any(is_failed);
        if !even_without_all && has_failed && !self.changed().any(is_known) {
            return Ok(false);
        }
        self.waive(|_, _| true);
        Ok(true)
    }

    /// Lets new applications be adopted although their document roots do not exist: deployments make them
    /// later.
    pub(in crate::router) fn waive_missing_roots(&mut self) {
        self.waive(has_no_root);
    }

    /// Lets applications that have failed be adopted. `is_waived` gets each with the reason.
    fn waive(&mut self, is_waived: impl Fn(&PooledApplication, &str) -> bool) {
        let now = Instant::now();
        let (threads, log) = (&self.threads, &self.shared.log);
        let changed = self.preparing.iter_mut().filter(|app| !app.is_restart);
        for app in changed.filter(|app| app.is_awaited()) {
            let Some(failure) = app.failure.clone().filter(|why| is_waived(app, why)) else {
                continue;
            };
            log.write(Level::Alert, app.is_out(&failure));
            app.is_waived = true;
            if app.instance.is_none() {
                let pause = app.restarts.ended(None);
                app.restart_at = Some(now + pause);
                app.suspend(&failure, threads);
            }
        }
    }

    /// Lets applications be adopted while they start, unless running ones of the same name serve meanwhile:
    /// their requests wait, and no others do.
    pub(in crate::router) fn waive_new(&mut self) {
        let Pools { preparing, applications, .. } = self;
        let is_running = |name: &str| {
            let mut running = applications.iter().filter(|app| app.instance.is_some());
            running.any(|app| app.config.name == name)
        };
        let changed = preparing.iter_mut().filter(|app| !app.is_restart && app.failure.is_none());
        for app in changed.filter(|app| app.is_late() && !is_running(&app.config.name)) {
            app.is_waived = true;
            app.is_early = true;
        }
    }

    /// Returns true while an application has been adopted before it was ready, and still starts.
    pub(in crate::router) fn are_starting(&mut self) -> bool {
        let mut are_starting = false;
        for app in self.applications.iter_mut().filter(|app| app.is_early) {
            app.is_early = app.failure.is_none() && !app.has_started();
            are_starting |= app.is_early;
        }
        are_starting
    }

    /// Lets applications that are not ready yet be adopted, except those that the router must not
    /// serve without. They serve when they are ready; until then their requests wait.
    pub(in crate::router) fn waive_late(&mut self) {
        let required = std::mem::take(&mut self.required);
        let is_required = |app: &PooledApplication| required.contains(&app.config.name);
        let changed = self.preparing.iter_mut().filter(|app| !app.is_restart);
        for app in changed.filter(|app| app.is_late() && !is_required(app)) {
            let name = &app.config.name;
            let message =
                format_args!("\"{name}\" application is not ready yet; the others are served");
            self.shared.log.write(Level::Alert, message);
            app.is_waived = true;
        }
        self.required = required;
    }

    /// Returns true if the router must not serve without this application.
    fn requires(&self, app: &PooledApplication) -> bool {
        self.required.contains(&app.config.name)
    }
}

impl PooledApplication {
    /// Returns true if it cannot run because of its own part of the document or what that names, such as a user,
    /// and not because of PHP.
    fn is_mistaken(&self) -> bool {
        let key = self.failure.as_deref().and_then(|failure| failure.split_once(": "));
        let first = key.and_then(|(key, _)| key.split('/').next()).unwrap_or_default();
        OWN_KEYS.contains(&first)
    }

    fn cannot_run(&self, why: &str) -> String {
        format!("application \"{}\": {why}", self.config.name)
    }

    /// Returns the line of the log about one that cannot run while the others are served.
    pub(super) fn is_out(&self, why: &str) -> String {
        let consequence = "its requests get 503 until it can run; the others are served";
        format!("{}; {consequence}", self.cannot_run(why))
    }
}

/// Keys of an application, or their first parts, that name what only it uses.
const OWN_KEYS: [&str; 12] = [
    "user",
    "group",
    "root",
    "targets",
    "working_directory",
    "stdout",
    "stderr",
    "options",
    "environment",
    "worker",
    "isolation",
    "rlimits",
];

/// Returns true if an application cannot run because a document root does not exist.
fn has_no_root(app: &PooledApplication, failure: &str) -> bool {
    app.config.targets.iter().any(|target| {
        let root = target.root.display();
        let beginnings = [
            format!("{}: {root} cannot be used", target.key("root")),
            format!("{}: {root} is not a directory", target.key("root")),
        ];
        beginnings.iter().any(|beginning| failure.starts_with(beginning.as_str()))
    })
}

fn must_be_waited_for<'a>(
    applications: impl Iterator<Item = &'a PooledApplication>,
) -> Result<bool, String> {
    let mut is_waiting = false;
    for app in applications.filter(|app| app.is_awaited()) {
        if let Some(failure) = &app.failure {
            return Err(app.cannot_run(failure));
        }
        is_waiting |= app.is_late();
    }
    Ok(is_waiting)
}

fn are_not_ready(names: &str, time: Duration) -> String {
    format!("application {names} is not ready after {} s: {WAITS_FOR}", time.as_secs())
}

/// Returns the reason for which an application fails that has not started within `time`.
pub(super) fn has_not_started(time: Duration) -> String {
    format!("it has not started for {} s: {WAITS_FOR}", time.as_secs())
}

const WAITS_FOR: &str = "PHP, its extensions or a preload script take that long, or wait for a drive \
                         or another server";
