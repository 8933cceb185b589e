//! Restarts applications after a configuration was read again.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_wire::messages::Restart;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::control_thread::{ControlThread, text};
use super::trigger::CHANGE_TIMEOUT;

/// Maximum time to look at the files that applications were started from.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which the next restart of a reload waits for the one before.
const TURN: Duration = Duration::from_secs(1);

/// Time for which a reload waits for restarts that take longer: a busy machine needs seconds for
/// one.
const PATIENCE: Duration = Duration::from_secs(10);

impl ControlThread {
    /// Restarts applications after a change of the configuration. Those that continue unchanged are
    /// among the parts that the status names. Error: the server stops.
    pub(super) async fn restart_after_change(&mut self, restart: Restart) -> Result<(), String> {
        let mut due = match restart {
            Restart::Nothing | Restart::NothingAfterReading => Vec::new(),
            Restart::All => self.pools.names().into_iter().map(|name| (name, None)).collect(),
            Restart::Changed => self.changed_applications().await?,
        };
        if restart == Restart::Changed {
            let is_new = |name: &String| due.iter().all(|(other, _)| other != name);
            let more: Vec<_> = self.pools.not_replaced().into_iter().filter(is_new).collect();
            due.extend(more.into_iter().map(|name| (name, None)));
        }
        // An application that cannot run is tried again anyway, and must not keep others from new
        // files.
        let due: Vec<_> =
            due.into_iter().filter(|(name, _)| self.pools.can_restart(name)).collect();
        self.pools.end_overdue().map_err(text)?;
        // One after the other, as each doubles the memory of its application; but not behind a slow
        // one.
        let (mut late, mut last) = (Vec::new(), Instant::now());
        for (name, file) in due {
            let (done, mut outcome) = oneshot::channel();
            last = Instant::now();
            self.pools.ask_for_restart(&name, done, last, CHANGE_TIMEOUT).map_err(text)?;
            match self.restarted(&mut outcome, last + TURN).await? {
                Some(result) => self.has_restarted(&name, file, result),
                None => late.push((name, file, outcome)),
            }
        }
        for (name, file, mut outcome) in late {
            match self.restarted(&mut outcome, last + PATIENCE).await? {
                Some(result) => self.has_restarted(&name, file, result),
                None => {
                    let (seconds, limit) = (PATIENCE.as_secs(), CHANGE_TIMEOUT.as_secs());
                    let reason = format!(
                        "it continues unchanged: its new processes are not ready after \
                         {seconds} s; they take over once they are, within {limit} s"
                    );
                    self.pools.goes_on(&name, reason);
                }
            }
        }
        Ok(())
    }

    /// Logs that an application was restarted because of a changed file.
    fn has_restarted(&self, name: &str, file: Option<String>, result: Result<(), String>) {
        // The parts that are out have a line about one that has failed.
        if let (Ok(()), Some(file)) = (result, file) {
            self.shared.log.write(
                Level::Notice,
                format_args!("\"{name}\" application was restarted: changed: {file}"),
            );
        }
    }

    /// Returns the applications of which files have changed, each with a file. Records those whose
    /// files cannot be looked at.
    async fn changed_applications(&mut self) -> Result<Vec<(String, Option<String>)>, String> {
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
        for name in unknown {
            let reason = format!(
                "it continues unchanged: its files (php.ini, the preload or worker script) could \
                 not be looked at within {seconds} s; once their drive works, run: howdah restart \
                 {name}"
            );
            self.pools.goes_on(&name, reason);
        }
        Ok(changed.into_iter().map(|(name, file)| (name, Some(file))).collect())
    }

    /// Waits for the outcome of a restart; `None` if there is none at the deadline.
    async fn restarted(
        &mut self,
        outcome: &mut oneshot::Receiver<Result<(), String>>,
        deadline: Instant,
    ) -> Result<Option<Result<(), String>>, String> {
        loop {
            self.advance_restarts().map_err(text)?;
            match outcome.try_recv() {
                Ok(result) => return Ok(Some(result)),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Closed) => return Err("the server is being stopped".to_owned()),
            }
            match self.receive_until(Some(deadline)).await? {
                Some((message, descriptors)) => self.on_unrelated(message, descriptors)?,
                None => return Ok(outcome.try_recv().ok()),
            }
        }
    }
}
