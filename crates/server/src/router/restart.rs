//! Restarts applications: on a request, and after a configuration was read again.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_wire::messages::Restart;

use super::control_thread::{ControlThread, text};
use super::prepare::CHANGE_TIMEOUT;

/// Maximum time to look at the files that applications were started from.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

impl ControlThread {
    /// Restarts applications after a change of the configuration. Returns the problems.
    pub(super) async fn restart_after_change(&mut self, restart: Restart) -> Vec<String> {
        let mut problems = Vec::new();
        let due = match restart {
            Restart::Nothing | Restart::NothingAfterReading => Vec::new(),
            Restart::All => self.pools.names().into_iter().map(|name| (name, None)).collect(),
            Restart::Changed => match self.changed_applications(&mut problems).await {
                Ok(changed) => changed,
                Err(problem) => return vec![problem],
            },
        };
        for (name, reason) in due {
            // One that cannot run is tried again anyway, and must not keep others from new files.
            if self.pools.is_failing(&name) {
                continue;
            }
            match (self.restart(&name).await, reason) {
                (Ok(()), Some(file)) => self.shared.log.write(
                    Level::Notice,
                    format_args!("\"{name}\" application was restarted: changed: {file}"),
                ),
                (Ok(()), None) => {}
                (Err(problem), _) => problems.push(problem),
            }
        }
        problems
    }

    /// Returns the applications of which files have changed, each with a file. Adds those whose files
    /// cannot be looked at to the problems.
    async fn changed_applications(
        &mut self,
        problems: &mut Vec<String>,
    ) -> Result<Vec<(String, Option<String>)>, String> {
        self.pools.begin_file_checks().map_err(text)?;
        let deadline = Instant::now() + CHECK_TIMEOUT;
        while self.pools.are_files_checked() {
            match self.receive_until(Some(deadline)).await? {
                Some((message, descriptors)) => self.on_unrelated(message, descriptors)?,
                None => break,
            }
        }
        let (changed, unknown) = self.pools.end_file_checks();
        let seconds = CHECK_TIMEOUT.as_secs();
        problems.extend(unknown.into_iter().map(|name| {
            format!(
                "application \"{name}\" goes on as it was: its files (php.ini, the preload or worker \
                 script) could not be looked at within {seconds} s; once their drive works, run: howdah \
                 restart {name}"
            )
        }));
        Ok(changed.into_iter().map(|(name, file)| (name, Some(file))).collect())
    }

    /// Restarts an application: new workers take over its queue when they are ready. Error: the
    /// reason why they are not; then the old workers go on.
    pub(super) async fn restart(&mut self, name: &str) -> Result<(), String> {
        if !self.pools.prepare_restart(name).map_err(text)? {
            return Err(format!("there is no application \"{name}\""));
        }
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        loop {
            match self.pools.is_preparing() {
                Ok(true) => {}
                Ok(false) => return self.pools.adopt().map_err(text),
                Err(problem) => {
                    self.pools.discard().map_err(text)?;
                    return Err(problem);
                }
            }
            match self.receive_until(Some(deadline)).await? {
                Some((message, descriptors)) => self.on_unrelated(message, descriptors)?,
                None => {
                    let problem = self.pools.not_ready(CHANGE_TIMEOUT);
                    self.pools.discard().map_err(text)?;
                    return Err(problem);
                }
            }
        }
    }
}
