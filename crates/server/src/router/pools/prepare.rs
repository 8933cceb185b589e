//! Whether the applications of a configuration can serve before it is in use.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;

use super::{PooledApplication, Pools};

impl Pools {
    /// Whether applications are prepared that must be waited for; `Err` says why one cannot run.
    pub(in crate::router) fn is_preparing(&self) -> Result<bool, String> {
        let mut waiting = false;
        for app in self.preparing.iter().filter(|app| app.awaited && !app.is_excused) {
            if let Some(failure) = &app.failure {
                return Err(app.cannot_run(failure));
            }
            waiting |= app.is_late();
        }
        Ok(waiting)
    }

    /// What to say if applications are not ready after so long.
    pub(in crate::router) fn not_ready(&self, time: Duration) -> String {
        let late = self.preparing.iter().filter(|app| app.is_late());
        let names: Vec<_> = late.map(|app| format!("\"{}\"", app.config.name)).collect();
        format!(
            "application {} is not ready after {} s: PHP, its extensions or a preload script \
             take that long",
            names.join(", "),
            time.as_secs()
        )
    }

    /// Has applications that cannot run adopted with the others; they are tried again later. `false`
    /// if it is not known yet whether another one can serve. `Err` if none of those that must can,
    /// unless the server goes on `even_without_all`.
    pub(in crate::router) fn go_on_without_failed(
        &mut self,
        even_without_all: bool,
    ) -> Result<bool, String> {
        let is_failed = |app: &PooledApplication| app.failure.is_some();
        let mut awaited = self.preparing.iter().filter(|app| app.awaited);
        if !even_without_all
            && let Some(first) = self.preparing.iter().find(|app| app.awaited && is_failed(app))
            && awaited.all(is_failed)
        {
            let failure = first.failure.as_deref().unwrap_or_default();
            return Err(first.cannot_run(failure));
        }
        let is_known = |app: &PooledApplication| !app.is_late() && !is_failed(app);
        let has_failed = self.preparing.iter().any(|app| app.awaited && is_failed(app));
        if !even_without_all && has_failed && !self.preparing.iter().any(is_known) {
            return Ok(false);
        }
        let now = Instant::now();
        let (shards, log) = (self.shards.clone(), &self.shared.log);
        for app in self.preparing.iter_mut().filter(|app| app.awaited && !app.is_excused) {
            let Some(failure) = app.failure.clone() else { continue };
            let what = app.cannot_run(&failure);
            log.write(Level::Alert, format_args!("{what}; the others are served"));
            app.is_excused = true;
            if app.instance.is_none() {
                let pause = app.restarts.ended(None);
                app.restart_at = Some(now + pause);
                app.stop_for_a_while(&failure, &shards);
            }
        }
        Ok(true)
    }

    /// Has applications adopted that are not ready yet. They serve when they are; until then their
    /// requests wait.
    pub(in crate::router) fn go_on_without_late(&mut self) {
        for app in self.preparing.iter_mut().filter(|app| app.is_late()) {
            let name = &app.config.name;
            let what =
                format_args!("\"{name}\" application is not ready yet; the others are served");
            self.shared.log.write(Level::Alert, what);
            app.is_excused = true;
        }
    }
}

impl PooledApplication {
    fn cannot_run(&self, why: &str) -> String {
        format!("application \"{}\": {why}", self.config.name)
    }
}
