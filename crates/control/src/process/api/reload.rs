//! Reloads: by the control API, on a signal, and because files of the configuration have changed.

use std::sync::Arc;

use howdah_config::include;
use howdah_sys::clock;
use howdah_sys::log::Level;
use howdah_wire::messages::{FromControl, Restart};

use super::{Api, on_helper_thread, problem};
use crate::path::Path;
use crate::print::with_members;
use crate::refusal::Refusal;
use crate::reply::{Done, Reply};

/// Maximum length in bytes of the reason why a document is refused, in the status.
const MAX_REASON: usize = 8 << 10;

impl Api {
    /// Reloads on a request. With `restart`, all applications are restarted.
    pub(super) async fn carry_out_reload(&self, restart: bool) -> Reply {
        let restart = if restart { Restart::All } else { Restart::Changed };
        match self.reload(false, restart).await {
            Ok(()) => self.reloaded().await,
            Err(refusal) => refusal.into(),
        }
    }

    /// Reads the configuration again from its source at the start of the server, applies it, and
    /// restarts applications. With `tables`, reads only the tables in files.
    pub(super) async fn reload(&self, tables: bool, restart: Restart) -> Result<(), Refusal> {
        let outcome = self.read_and_apply(tables, restart).await;
        if !tables {
            self.source_read(&outcome);
        }
        outcome
    }

    async fn read_and_apply(&self, tables: bool, restart: Restart) -> Result<(), Refusal> {
        let read = self.supervisor.read_document(tables).await;
        let text = read.map_err(|detail| Refusal::NotRead { detail })?;
        let (store, origin) = (Arc::clone(&self.store.borrow()), Arc::clone(&self.origin));
        let read = move || {
            let prepared = store.read(text, &origin)?;
            let sites = if tables { None } else { include::sent(prepared.store.document()) };
            Ok((prepared, sites.map(|document| document.to_string().into_bytes())))
        };
        let (mut prepared, sites) = on_helper_thread(read).await?;
        if let Some(document) = sites {
            prepared = self.compile(document).await?;
        }
        self.apply(prepared, restart).await
    }

    /// Records whether the document at its source is refused.
    fn source_read(&self, outcome: &Result<(), Refusal>) {
        let error = match outcome {
            Ok(()) | Err(Refusal::NotRestarted { .. }) => String::new(),
            Err(Refusal::Upgrading) => return,
            Err(refusal) => {
                let reply = Reply::from(refusal.clone());
                let mut reason = problem(&reply).unwrap_or_default().to_owned();
                reason.truncate(reason.floor_char_boundary(MAX_REASON));
                reason
            }
        };
        let since = self.refused.borrow().as_ref().map(|(since, _)| *since);
        let since = since.unwrap_or_else(clock::wall_seconds);
        self.refused.replace((!error.is_empty()).then(|| (since, error.clone())));
        let _ = self.supervisor.tell(&FromControl::SourceRead { error });
    }

    /// Returns the response to a reload, with the parts that are out.
    pub(super) async fn reloaded(&self) -> Reply {
        let reply = Reply::from(Done::Reloaded);
        // The reload is done: without the status, it is told without it.
        let Ok(Some(out)) = self.router_status(&["out"]).await else { return reply };
        let text = with_members(reply.body().to_string().into(), [("out", out)]);
        Reply::part(&text, &Path::default()).ok().flatten().unwrap_or(reply)
    }

    /// Reloads on a signal: like [`Api::reload`], with the outcome in the log.
    pub async fn reload_and_log(&self) {
        let (_changing, log, origin) = (self.turn().await, &self.log, &self.origin);
        match self.reload(false, Restart::Changed).await {
            Ok(()) => log.write(Level::Notice, format_args!("{origin} was read again")),
            Err(refusal) => {
                let consequence = match refusal {
                    Refusal::NotRestarted { .. } => {
                        "was read again, but not all applications could be restarted"
                    }
                    _ => "is not taken over, the old configuration runs",
                };
                let reply = Reply::from(refusal);
                let problem = problem(&reply).unwrap_or_default();
                log.write(Level::Alert, format_args!("{origin} {consequence}: {problem}"));
            }
        }
    }

    /// Reads tables in files that have changed, with the outcome in the log.
    pub async fn reload_tables_and_log(&self) {
        let (_changing, log) = (self.turn().await, &self.log);
        match self.reload(true, Restart::NothingAfterReading).await {
            Ok(()) => {
                log.write(Level::Notice, "changed files of the configuration were read again")
            }
            Err(refusal) => {
                let reply = Reply::from(refusal);
                let problem = problem(&reply).unwrap_or_default();
                let line = format_args!(
                    "changed files of the configuration are not taken over, the old content stays \
                     in use: {problem}"
                );
                log.write(Level::Alert, line);
            }
        }
    }
}
