//! Begins and ends restarts whose outcome is awaited.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Pools;
use super::asked::AskedRestart;

impl Pools {
    /// Begins to replace all workers of an application. `done` gets the outcome; with an error, the
    /// former workers continue. A restart in progress begins anew: the obstacle for which it waits
    /// may have been removed.
    pub(in crate::process) fn ask_for_restart(
        &mut self,
        name: &str,
        done: oneshot::Sender<Result<(), String>>,
        now: Instant,
        limit: Duration,
    ) -> io::Result<()> {
        self.discard_restarted(name)?;
        if !self.prepare_restart(name)? {
            let found = self.applications.iter().find(|app| app.config.name == name);
            let why = found.and_then(|app| Some(app.cannot_run(app.is_former_because()?)));
            let why = why.unwrap_or_else(|| format!("there is no application \"{name}\""));
            let _ = done.send(Err(why));
            return Ok(());
        }
        let deadline = now + limit;
        match self.asked_restarts.iter_mut().find(|asked| asked.name == name) {
            Some(asked) => {
                asked.deadline = deadline;
                asked.waiting.push(done);
            }
            None => self.asked_restarts.push(AskedRestart {
                name: name.to_owned(),
                deadline,
                waiting: vec![done],
            }),
        }
        Ok(())
    }

    /// Ends the restarts that are ready or have failed, and sends their outcomes. Returns the
    /// outcomes whose clients have left.
    pub(in crate::process) fn advance_asked_restarts(
        &mut self,
        now: Instant,
        limit: Duration,
    ) -> io::Result<Vec<(String, Result<(), String>)>> {
        let mut unheard = Vec::new();
        for mut asked in std::mem::take(&mut self.asked_restarts) {
            let Some(result) = self.end_restart(&asked.name, asked.deadline <= now, limit)? else {
                self.asked_restarts.push(asked);
                continue;
            };
            asked.waiting.retain(|done| !done.is_closed());
            if asked.waiting.is_empty() {
                unheard.push((asked.name, result));
                continue;
            }
            for done in asked.waiting {
                let _ = done.send(result.clone());
            }
        }
        Ok(unheard)
    }

    /// Returns the time at which the next one has failed.
    pub(super) fn asked_restart_due(&self) -> Option<Instant> {
        self.asked_restarts.iter().map(|asked| asked.deadline).min()
    }
}
