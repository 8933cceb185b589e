//! Applies a configuration: prepare, store, commit.
//!
//! A failure before the commit leaves the configuration unchanged.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use howdah_config::Config;
use howdah_config::include::SitePlaces;
use howdah_routing::snapshot::Listener;
use howdah_sys::log::Level;
use howdah_sys::memory::release_free_memory;
use howdah_sys::packets::from_memory;
use howdah_upstream::servers::addresses::ResolvedServers;
use howdah_wire::messages::{ChangeOutcome, Restart, ToSupervisor};
use serde_json::Value;

use super::control_thread::{ControlThread, text};
use super::pools::Wanted;
use super::prepare::Prepared;
use super::threads::thread_count;
use super::trigger::{CHANGE_TIMEOUT, Trigger};
use crate::http3;

/// Reason for which a configuration was not applied: one line with the problem and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApplyError {
    /// A resource that the configuration needs is not available.
    NotApplied(String),
    /// The supervisor could not store it.
    NotStored(String),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ApplyError::NotApplied(problem) | ApplyError::NotStored(problem)) = self;
        f.write_str(problem)
    }
}

impl From<ApplyError> for ChangeOutcome {
    fn from(error: ApplyError) -> ChangeOutcome {
        match error {
            ApplyError::NotApplied(problem) => ChangeOutcome::NotApplied(problem),
            ApplyError::NotStored(problem) => ChangeOutcome::NotStored(problem),
        }
    }
}

impl ControlThread {
    /// Applies a configuration that the supervisor passes, restarts applications that it has not
    /// started anew, and reports the outcome.
    pub(super) async fn change(
        &mut self,
        generation: u32,
        restart: Restart,
        document: Option<OwnedFd>,
    ) -> std::io::Result<()> {
        self.is_hurried = false;
        let config = from_memory(document, u64::MAX).map_err(text).and_then(|document| {
            howdah_config::parse_with(&document, &self.defaults).map_err(|error| error.to_string())
        });
        let mut outcome = match config {
            Ok(config) => {
                // A change through the API is refused with the reason if a part cannot run; a
                // document that is read again is applied without that part.
                let is_reload = restart != Restart::Nothing && !self.is_strict;
                let applied = self.apply(config, Trigger::Change { generation, is_reload }).await;
                applied.map_or_else(ChangeOutcome::from, |()| ChangeOutcome::Done)
            }
            Err(problem) => ChangeOutcome::NotApplied(problem),
        };
        if outcome == ChangeOutcome::Done {
            let _ = self.wait_for_starts().await; // if it fails, the restarts do, too
            let restarted = self.restart_after_change(restart).await;
            if matches!(restart, Restart::Changed | Restart::All) {
                // if it fails, so does the next message
                let _ = self.wait_for_look(generation).await;
            }
            if let Err(problem) = restarted {
                outcome = ChangeOutcome::NotRestarted(problem);
            }
        }
        release_free_memory();
        self.link.send(&ToSupervisor::Applied { generation, outcome })
    }

    /// Applies a configuration. A changed one is stored before it becomes the current one.
    pub(super) async fn apply(
        &mut self,
        mut config: Config,
        trigger: Trigger,
    ) -> Result<(), ApplyError> {
        let former_places = match trigger {
            // The configuration is the current one, whose document is gone.
            Trigger::CertificateFiles => None,
            Trigger::Start(_) | Trigger::Change { .. } => {
                let places = SitePlaces::of(&config.document);
                Some(std::mem::replace(&mut self.pools.places, places))
            }
        };
        // Requests need the typed form only, and the tree of values is larger.
        (config.document, config.included) = (Value::Null, Vec::new());
        let generation = match trigger {
            Trigger::Start(_) | Trigger::CertificateFiles => None,
            Trigger::Change { generation, .. } => Some(generation),
        };
        let threads = thread_count(&config).min(self.threads.len());
        let redistribute = threads != self.shared.threads.load(Relaxed);
        let mut prepared = Prepared { threads, redistribute, ..Prepared::default() };
        let current = self.shared.snapshot.load_full();
        let running = self.pools.generation;
        self.pools.generation = generation.unwrap_or(running);
        let budget = self.pools.set_budget(config.settings.memory);
        let max_processes = self.pools.set_max_processes(config.settings.max_processes);
        let result = self.prepare(&current, &config, &mut prepared, trigger).await;
        let explained = |problem: String| self.pools.places.explain_line(&problem);
        let mut result = result.map_err(|problem| ApplyError::NotApplied(explained(problem)));
        if let (Ok(()), Some(generation)) = (&result, generation) {
            result = self.store(generation).await.map_err(ApplyError::NotStored);
        }
        match result {
            Ok(()) => {
                let kept = self.pools.keep_former(&mut config).map_err(text);
                kept.map_err(ApplyError::NotApplied)?;
                if !matches!(trigger, Trigger::CertificateFiles) {
                    self.applied_at = Some(SystemTime::now());
                }
                self.commit(current, config, prepared).await.map_err(ApplyError::NotApplied)
            }
            Err(problem) => {
                self.pools.generation = running;
                self.pools.set_budget(budget);
                self.pools.set_max_processes(max_processes);
                if let Some(places) = former_places {
                    self.pools.places = places;
                }
                let _ = self.pools.discard();
                self.names.discard(&current.config);
                let is_new = |address: &String| {
                    let is_known = current.listeners.contains_key(address)
                        || http3::listener_of(&current, address).is_some();
                    !is_known || self.closed.contains(address)
                };
                for address in prepared.sockets.into_keys().filter(is_new) {
                    let _ = self.link.send(&ToSupervisor::Unbind { address });
                }
                Err(problem)
            }
        }
    }

    /// Updates the addresses of servers that are configured by name in the current configuration.
    pub(super) async fn refresh_addresses(&mut self) {
        let current = self.shared.snapshot.load_full();
        let tls = |(name, listener): (&String, &Listener)| {
            listener.tls.as_ref().map(|tls| (name.clone(), Arc::clone(tls)))
        };
        let prepared = Prepared {
            logs: current.logs.clone(),
            tls: current.listeners.iter().filter_map(tls).collect(),
            known: ResolvedServers {
                clients: current.tls_clients.clone(),
                names: self.names.table(),
                ..ResolvedServers::default()
            },
            threads: self.shared.threads.load(Relaxed),
            ..Prepared::default()
        };
        let config = current.config.clone();
        if let Err(problem) = self.commit(current, config, prepared).await {
            let message = format_args!(
                "new addresses of servers cannot be used: {problem}; the old ones stay in use"
            );
            self.shared.log.write(Level::Alert, message);
        }
    }

    /// Continues with the restarts of applications.
    pub(super) fn advance_restarts(&mut self) -> io::Result<()> {
        let now = std::time::Instant::now();
        let log = Arc::clone(&self.shared.log);
        for (name, result) in self.pools.advance_asked_restarts(now, CHANGE_TIMEOUT)? {
            match result {
                Ok(()) => log.write(
                    Level::Notice,
                    format_args!(
                        "\"{name}\" application was restarted; the command no longer waited for it"
                    ),
                ),
                Err(problem) => log.write(
                    Level::Alert,
                    format_args!("\"{name}\" application could not be restarted: {problem}"),
                ),
            }
        }
        for (Wanted { name, reason }, result) in
            self.pools.advance_wanted_restarts(now, CHANGE_TIMEOUT)?
        {
            match result {
                Ok(()) => log.write(
                    Level::Notice,
                    format_args!("\"{name}\" application was restarted: {reason}"),
                ),
                Err(problem) => log.write(
                    Level::Alert,
                    format_args!(
                        "\"{name}\" application could not be restarted although {reason}: {problem}"
                    ),
                ),
            }
        }
        Ok(())
    }
}
