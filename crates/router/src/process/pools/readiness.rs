//! Decides whether the prepared applications can serve before their configuration is in use.

use std::path::Path;
use std::time::{Duration, Instant};

use ::howdah_config as config;
use howdah_sys::log::Level;
use howdah_wire::messages::{Problem, ProblemKind};

use super::Pools;
use super::application::PooledApplication;
use super::tick::START_PATIENCE;
use crate::process::trigger::START_TIMEOUT;

impl Pools {
    /// Returns true while prepared applications must be waited for. Error: the reason why one
    /// cannot run.
    pub(in crate::process) fn is_preparing(&self) -> Result<bool, String> {
        must_be_waited_for(self.changed()).map_err(|app| app.cannot_run_now())
    }

    /// The same for the new instance of one application, which must be ready after `limit` if
    /// `is_late`.
    pub(super) fn is_restarting(
        &self,
        name: &str,
        is_late: bool,
        limit: Duration,
    ) -> Result<bool, String> {
        let restart = || self.restarts().filter(|app| app.config.name == name);
        match must_be_waited_for(restart()) {
            Ok(true) if is_late => {
                Err(restart().map(|app| app.has_not_started_for(limit)).collect())
            }
            Ok(is_waiting) => Ok(is_waiting),
            Err(app) => Err(app.failed_because()),
        }
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
    pub(in crate::process) fn not_ready(&self, time: Duration) -> String {
        let late: Vec<_> = self.changed().filter(|app| app.is_late()).collect();
        let names: Vec<_> = late.iter().map(|app| format!("\"{}\"", app.config.name)).collect();
        let scripts = match late.as_slice() {
            [app] => start_scripts(&app.config),
            _ => Vec::new(),
        };
        let (names, seconds) = (names.join(", "), time.as_secs());
        format!("application {names} is not ready after {seconds} s: {}", waits_for(&scripts))
    }

    /// Lets applications that cannot run be adopted with the others; they are started again later.
    /// Returns false if it is not known yet whether another one can serve. Error: the reason why
    /// none of those that the router must not serve without can run, or none of several with one
    /// version of PHP; or why none of those that must be ready can, unless the server continues
    /// `even_without_all`.
    pub(in crate::process) fn waive_failed(
        &mut self,
        even_without_all: bool,
    ) -> Result<bool, String> {
        let is_failed = |app: &PooledApplication| app.failure.is_some();
        let required = || self.changed().filter(|app| self.requires(app));
        if let Some(first) = required().next().filter(|_| required().all(is_failed)) {
            return Err(first.cannot_run_now());
        }
        if !self.is_php_known()? {
            return Ok(false);
        }
        let must_be_ready = || self.changed().filter(|app| app.must_be_ready);
        if !even_without_all
            && let Some(first) = must_be_ready().find(|app| is_failed(app))
            && must_be_ready().all(is_failed)
        {
            return Err(first.cannot_run_now());
        }
        let is_known = |app: &PooledApplication| !app.is_late() && !is_failed(app);
        let has_failed = must_be_ready().any(is_failed);
        if !even_without_all && has_failed && !self.changed().any(is_known) {
            return Ok(false);
        }
        self.waive(|_| true);
        Ok(true)
    }

    /// Returns the other prepared applications with the same version of PHP, except those whose own
    /// part of the document is wrong.
    fn with_php_of<'a>(
        &'a self,
        app: &'a PooledApplication,
    ) -> impl Iterator<Item = &'a PooledApplication> {
        self.changed().filter(|other| {
            other.config.version == app.config.version
                && other.config.name != app.config.name
                && !other.is_mistaken()
        })
    }

    /// Returns false if applications that the router must not serve without have failed and it is
    /// not known yet whether PHP or they themselves are the reason: where PHP has started for
    /// another one with the same version, its start is in order. Error: the reason why it has
    /// started for none of several.
    fn is_php_known(&self) -> Result<bool, String> {
        let required = || self.changed().filter(|app| self.requires(app));
        for app in required().filter(|app| app.lacks_php()) {
            let mut others = self.with_php_of(app).filter(|other| self.requires(other));
            let Some(other) = others.next() else { continue }; // it has this version for itself
            let mut others = std::iter::once(other).chain(others);
            // The first that has not failed tells: it has started, or starts.
            match others.find(|other| !other.lacks_php()) {
                Some(other) if other.ready_since.is_some() => {}
                Some(_) => return Ok(false),
                None => return Err(app.cannot_run_now()),
            }
        }
        Ok(true)
    }

    /// Lets new applications be adopted although their document roots do not exist: deployments
    /// make them later.
    pub(in crate::process) fn waive_missing_roots(&mut self) {
        self.waive(|failure| failure.kind == ProblemKind::NoRoot);
    }

    /// Lets applications that have failed be adopted. `is_waived` gets the failure of each.
    fn waive(&mut self, is_waived: impl Fn(&Problem) -> bool) {
        let now = Instant::now();
        let (threads, log) = (&self.threads, &self.shared.log);
        let running = &self.applications;
        let changed = self.preparing.iter_mut().filter(|app| !app.is_restart);
        for app in changed.filter(|app| app.is_awaited()) {
            let Some(failure) = app.failure.as_ref().filter(|failure| is_waived(failure)) else {
                continue;
            };
            let failure = failure.to_string();
            // The parts that are out have a line about one that continues unchanged.
            if !running.iter().any(|former| former.can_go_on_for(app)) {
                log.write(Level::Alert, app.is_out(&failure));
            }
            app.is_waived = true;
            if app.instance.is_none() {
                let pause = app.restarts.ended(None);
                app.restart_at = Some(now + pause);
                app.suspend(&failure, threads);
            }
        }
    }

    /// Lets applications be adopted while they start, unless running ones of the same name serve
    /// meanwhile: their requests wait, and no others do.
    pub(in crate::process) fn waive_new(&mut self) {
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
    pub(in crate::process) fn are_starting(&mut self) -> bool {
        let mut are_starting = false;
        for app in self.applications.iter_mut().filter(|app| app.is_early) {
            app.is_early = app.failure.is_none() && !app.has_started();
            are_starting |= app.is_early;
        }
        are_starting
    }

    /// Lets applications that are not ready yet be adopted, except those that the router must not
    /// serve without. They serve when they are ready; until then their requests wait.
    pub(in crate::process) fn waive_late(&mut self) {
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

    /// Lets applications that hang be adopted, if others have started: each has had
    /// [`START_PATIENCE`], and for [`START_TIMEOUT`] no other has started. Of several with one
    /// version of PHP, one must have started. Returns the time at which the next one counts as
    /// hanging.
    pub(in crate::process) fn waive_hanging(&mut self, now: Instant) -> Option<Instant> {
        let starts =
            self.changed().flat_map(|app| app.ready_since.iter().chain(app.started.values()));
        let last = *starts.max()?;
        let has_php = |app: &PooledApplication| {
            let mut others = self.with_php_of(app).peekable();
            others.peek().is_none() || others.chain([app]).any(|one| one.ready_since.is_some())
        };
        let late = self.changed().filter(|app| app.is_late() && app.failure.is_none());
        let due: Vec<_> = late
            .filter(|app| has_php(app))
            .map(|app| {
                let since = app.starting_since.map(|since| since + START_PATIENCE);
                (app.number(), since.into_iter().chain([last + START_TIMEOUT]).max())
            })
            .collect();
        for app in self.preparing.iter_mut().filter(|app| !app.is_restart) {
            let is_due = |(number, due): &(_, Option<Instant>)| {
                *number == app.number() && due.is_none_or(|due| due <= now)
            };
            // The log and the status name it as soon as it is adopted.
            app.is_waived |= due.iter().any(is_due);
        }
        due.into_iter().filter_map(|(_, due)| due).filter(|due| *due > now).min()
    }

    /// Lets applications that have not started within `time` count as failed.
    pub(in crate::process) fn fail_late(&mut self, time: Duration) {
        let changed = self.preparing.iter_mut().filter(|app| !app.is_restart);
        for app in changed.filter(|app| app.is_late() && app.failure.is_none()) {
            app.failure = Some(Problem::of(app.has_not_started_for(time)));
        }
    }

    /// Returns true if the router must not serve without this application.
    fn requires(&self, app: &PooledApplication) -> bool {
        self.required.contains(&app.config.name)
    }
}

impl PooledApplication {
    /// Returns true if it cannot run because of its own part of the document, or an object that
    /// this part names, such as a user, and not because of PHP.
    fn is_mistaken(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.kind != ProblemKind::Other)
    }

    /// Returns the reason for which it does not run that has not started within `time`.
    pub(super) fn has_not_started_for(&self, time: Duration) -> String {
        let scripts = start_scripts(&self.config);
        format!("it has not started for {} s: {}", time.as_secs(), waits_for(&scripts))
    }

    /// Returns the message about one that has failed.
    fn cannot_run_now(&self) -> String {
        self.cannot_run(self.failed_because())
    }

    /// Returns true if PHP has not started, and its part of the document is not the reason.
    fn lacks_php(&self) -> bool {
        self.failure.is_some() && self.ready_since.is_none() && !self.is_mistaken()
    }

    /// Returns why it has failed.
    fn failed_because(&self) -> String {
        self.failure.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the message about one that cannot run.
    pub(super) fn cannot_run(&self, why: impl std::fmt::Display) -> String {
        format!("application \"{}\": {why}", self.config.name)
    }

    /// Returns the line of the log about one that cannot run while the others are served.
    pub(super) fn is_out(&self, why: &str) -> String {
        let consequence = "its requests get 503 until it can run; the others are served";
        format!("{}; {consequence}", self.cannot_run(why))
    }
}

/// Error: one that has failed.
fn must_be_waited_for<'a>(
    applications: impl Iterator<Item = &'a PooledApplication>,
) -> Result<bool, &'a PooledApplication> {
    let mut is_waiting = false;
    for app in applications.filter(|app| app.is_awaited()) {
        if app.failure.is_some() {
            return Err(app);
        }
        is_waiting |= app.is_late();
    }
    Ok(is_waiting)
}

/// Returns the scripts that run while the application starts, as far as the document names them.
fn start_scripts(config: &config::Application) -> Vec<String> {
    let set = config.options.admin.iter().chain(&config.options.user);
    let preload = set.filter(|(name, path)| name == "opcache.preload" && !path.is_empty());
    let mut scripts: Vec<_> =
        preload.take(1).map(|(_, path)| format!("the preload script {path}")).collect();
    if let Some(worker) = &config.worker {
        let root = config.targets.first().map(|target| target.root.as_path());
        let path = root.unwrap_or(Path::new("")).join(&worker.script);
        scripts.push(format!("the worker script {}", path.display()));
    }
    scripts
}

/// Describes the possible reasons why an application takes long to start.
fn waits_for(scripts: &[String]) -> String {
    let scripts = match scripts {
        [] => "a preload script".to_owned(),
        scripts => scripts.join(" or "),
    };
    format!(
        "PHP, its extensions or {scripts} take that long, or wait for a drive or another server"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_scripts_of_the_start_are_named_by_their_paths() {
        let application = |more: serde_json::Value| {
            let mut app = json!({"type": "php", "root": "/srv/a", "script": "index.php"});
            for (name, value) in more.as_object().unwrap() {
                app[name] = value.clone();
            }
            let document = json!({"listeners": {}, "applications": {"a": app}}).to_string();
            howdah_config::parse(document.as_bytes()).unwrap().applications.remove(0)
        };
        let names = |more| waits_for(&start_scripts(&application(more)));
        assert!(names(json!({})).contains("extensions or a preload script take"));
        let worker = json!({"worker": {"script": "w.php"}});
        assert!(names(worker).contains("extensions or the worker script /srv/a/w.php take"));
        let both = json!({
            "worker": {"script": "/srv/w.php"},
            "options": {"admin": {"opcache.preload": "/srv/p.php"}},
        });
        assert!(names(both).contains("the preload script /srv/p.php or the worker script /srv/"));
    }
}
