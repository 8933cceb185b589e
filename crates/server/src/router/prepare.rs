//! Prepares a configuration: everything that can fail happens before it becomes the current one.
//!
//! Sockets are bound, applications load PHP, certificates are read, and the access log is opened.
//! The current configuration goes on unchanged meanwhile.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_access_log::{LogFile, LogFiles};
use howdah_config::{Config, Destination};
use howdah_http::spool;
use howdah_sys::log::Level;
use howdah_upstream::names::{NameTable, Names};
use howdah_upstream::servers::resolved::ResolvedServers;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};

use super::control_thread::{ControlThread, text};
use super::disk::DiskError;
use super::tls::TlsListeners;
use crate::geo_databases;
use crate::snapshot::Snapshot;

/// Default length of a listening socket's backlog; the kernel limits it to `net.core.somaxconn`.
const DEFAULT_BACKLOG: u32 = 4096;

/// Maximum time until the applications of a changed configuration are ready. A preload script may
/// take a while.
pub(super) const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time that a start waits for applications. Those that are not ready then serve once they
/// are; until then their requests wait.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason for which a configuration is applied.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trigger {
    /// The router starts. An application that cannot run must not keep the others from being
    /// served: its site may have caused that.
    Start(StartPolicy),
    /// A user changes the configuration; all of the new one is applied, or nothing.
    Change {
        /// Number of the new configuration.
        generation: u32,
    },
    /// Certificate files of the current configuration have changed; all new ones are used, or none.
    CertificateFiles,
}

impl Trigger {
    /// Returns true if a router of this server has served before, and this one starts.
    fn is_restart(self) -> bool {
        matches!(self, Trigger::Start(start) if start.has_served)
    }
}

/// Requirements of a start.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartPolicy {
    /// A single application must have loaded PHP, even if it needs no worker before its first request:
    /// without a control API nobody can correct the configuration.
    pub(super) requires_single: bool,
    /// The server has served before: its start must not fail, as nobody reads the reason at a
    /// terminal.
    pub(super) has_served: bool,
}

/// Resources of a configuration that is ready to become the current one. `Pools` has its
/// applications.
#[derive(Default)]
pub(super) struct Prepared {
    /// Listening sockets by address.
    pub(super) sockets: HashMap<String, OwnedFd>,
    /// Files of the access logs.
    pub(super) logs: LogFiles,
    /// Files of caches, by path.
    pub(super) cache_files: HashMap<String, OwnedFd>,
    pub(super) tls: TlsListeners,
    /// TLS clients, and addresses of servers that are configured by name.
    pub(super) known: ResolvedServers,
    /// Number of threads that accept connections.
    pub(super) threads: usize,
    /// The number of threads changes, so all sockets are handed out anew.
    pub(super) redistribute: bool,
}

/// Answers of the supervisor that are awaited.
struct Awaited {
    /// Addresses of listening sockets.
    sockets: HashSet<String>,
    /// Destinations of access logs, each with the place in the document.
    logs: Vec<(String, Destination)>,
    /// Files of caches, each with the place in the document.
    caches: Vec<(String, String)>,
}

impl Awaited {
    /// Returns the index of the access log with this name.
    fn position(&self, name: &str) -> Option<usize> {
        self.logs.iter().position(|(_, destination)| destination.to_string() == name)
    }

    fn is_empty(&self) -> bool {
        self.sockets.is_empty() && self.logs.is_empty() && self.caches.is_empty()
    }
}

impl ControlThread {
    /// Prepares a configuration. The error is one line with the place in the document, the problem
    /// and what to do.
    pub(super) async fn prepare(
        &mut self,
        current: &Snapshot,
        config: &Config,
        prepared: &mut Prepared,
        trigger: Trigger,
    ) -> Result<(), String> {
        self.check_files(config, trigger).await?;
        self.prepare_databases(config, trigger).await?;
        prepared.tls = self.prepare_tls_listeners(current, config).await?;
        prepared.known.clients = self.prepare_tls_clients(current, config).await?;
        prepared.known.names = self.prepare_names(config).await?;
        let sockets = self.bind(current, config, prepared)?;
        // Several applications load PHP when they are needed; the supervisor checks them at the start.
        let is_single = config.applications.len() == 1;
        for application in &config.applications {
            if self.pools.queue(application).is_none() {
                let is_required =
                    is_single && matches!(trigger, Trigger::Start(start) if start.requires_single);
                self.pools.prepare(application, is_required).map_err(text)?;
            }
        }
        let logs = self.open_access_logs(current, config, prepared)?;
        let caches = self.ask_for_cache_files(current, config)?;
        self.wait_until_prepared(Awaited { sockets, logs, caches }, prepared, trigger).await
    }

    /// Checks that the router can read the files of a configuration, and write temporary ones. After the
    /// server has served once, a drive that does not answer must not keep a router from serving others.
    async fn check_files(&mut self, config: &Config, trigger: Trigger) -> Result<(), String> {
        let (paths, sandbox) = (config.router_paths(), Arc::clone(&self.sandbox));
        let temporary = config.settings.http.body_temp_path.clone();
        if paths.is_empty() && temporary.is_none() {
            return Ok(());
        }
        let checked = self.on_disk(move |progress| {
            sandbox.check(&paths, temporary.as_deref(), progress)?;
            let Some(directory) = temporary else { return Ok(()) };
            progress.begins(format!("/settings/http/body_temp_path: {}", directory.display()));
            spool::check_directory(&directory).map_err(|error| {
                let trouble = spool::directory_error(&directory, &error);
                format!("/settings/http/body_temp_path: {trouble}")
            })
        });
        match checked.await {
            Err(DiskError::NotAnswered(problem)) if trigger.is_restart() => {
                self.shared.log.write(Level::Alert, format_args!("{problem}; it is not checked"));
                Ok(())
            }
            checked => checked.map_err(DiskError::into_text),
        }
    }

    /// Reads databases of addresses. After the server has served once, a database that cannot be read has no
    /// values: a restart of the router must not fail.
    async fn prepare_databases(&mut self, config: &Config, trigger: Trigger) -> Result<(), String> {
        if config.geo_databases.is_empty() {
            return Ok(());
        }
        let databases = config.geo_databases.clone();
        let read = self.on_disk(move |progress| geo_databases::read_new(&databases, progress));
        match read.await.map_err(DiskError::into_text) {
            Err(problem) if trigger.is_restart() => {
                self.shared.log.write(Level::Alert, format_args!("{problem}; it has no values"));
                Ok(())
            }
            result => result,
        }
    }

    /// Looks up the names of servers. Meanwhile the applications get workers: an answer may not come.
    async fn prepare_names(&mut self, config: &Config) -> Result<NameTable, String> {
        let other = Names::new(Arc::clone(&self.shared.log));
        let mut names = std::mem::replace(&mut self.names, other);
        let table = self.meanwhile(names.prepare(config)).await;
        self.names = names;
        table
    }

    /// Asks the supervisor for the sockets of listeners. Returns their addresses.
    fn bind(
        &self,
        current: &Snapshot,
        config: &Config,
        prepared: &Prepared,
    ) -> Result<HashSet<String>, String> {
        let mut awaited = HashSet::new();
        for listener in &config.listeners {
            if current.listeners.contains_key(&listener.name) && !prepared.redistribute {
                continue;
            }
            let backlog = listener.backlog.unwrap_or(DEFAULT_BACKLOG);
            let address = listener.name.clone();
            self.link.send(&ToSupervisor::Bind { address, backlog }).map_err(text)?;
            awaited.insert(listener.name.clone());
        }
        Ok(awaited)
    }

    /// Keeps the files of access logs that the current configuration has too, and asks the supervisor
    /// to open the others. Returns those.
    fn open_access_logs(
        &self,
        current: &Snapshot,
        config: &Config,
        prepared: &mut Prepared,
    ) -> Result<Vec<(String, Destination)>, String> {
        let mut awaited: Vec<(String, Destination)> = Vec::new();
        for (place, log) in config.access_logs() {
            let destination = &log.destination;
            if let Some(file) = current.logs.get(destination) {
                prepared.logs.insert(destination.clone(), Arc::clone(file));
            } else if !awaited.iter().any(|(_, other)| other == destination) {
                let path = destination.to_string();
                self.link.send(&ToSupervisor::OpenLog { path }).map_err(text)?;
                awaited.push((place, destination.clone()));
            }
        }
        Ok(awaited)
    }

    /// Takes the file of an access log. A server that cannot be reached is asked again later; its
    /// absence must not keep a site from being served.
    fn take_log(
        &self,
        (place, destination): (String, Destination),
        error: &str,
        file: Option<OwnedFd>,
        prepared: &mut Prepared,
    ) -> Result<(), String> {
        if file.is_none() {
            let problem = format!("{place}: {destination} cannot be opened: {error}");
            if destination.socket().is_none() {
                return Err(problem);
            }
            let problem = format_args!("{problem}; lines wait until it can be reached");
            self.shared.log.write(Level::Error, problem);
        }
        let file = Arc::new(LogFile::new(&destination, file));
        prepared.logs.insert(destination, file);
        Ok(())
    }

    /// Takes the file of a cache; without one and without an error, another process still uses it.
    fn take_cache_file(
        &self,
        place: String,
        path: String,
        error: &str,
        file: Option<OwnedFd>,
        prepared: &mut Prepared,
        trigger: Trigger,
    ) -> Result<(), String> {
        if !error.is_empty() {
            let problem = format!("{place}: {path} cannot be opened: {error}");
            let Trigger::Start(StartPolicy { has_served: true, .. }) = trigger else {
                return Err(problem);
            };
            let problem = format_args!("{problem}; the cache is in memory only until it can be");
            self.shared.log.write(Level::Error, problem);
        }
        prepared.cache_files.extend(file.map(|file| (path, file)));
        Ok(())
    }

    /// Waits until the applications that must be ready are, and until all answers have come.
    async fn wait_until_prepared(
        &mut self,
        mut awaited: Awaited,
        prepared: &mut Prepared,
        trigger: Trigger,
    ) -> Result<(), String> {
        let started_at = Instant::now();
        let mut start_timeout = START_TIMEOUT;
        loop {
            let (is_preparing, deadline) = match trigger {
                Trigger::Start(start) => {
                    let is_decided = self.pools.waive_failed(start.has_served)?;
                    (!is_decided || self.pools.is_preparing()?, started_at + start_timeout)
                }
                Trigger::Change { .. } | Trigger::CertificateFiles => {
                    (self.pools.is_preparing()?, started_at + CHANGE_TIMEOUT)
                }
            };
            if !is_preparing && awaited.is_empty() {
                return Ok(());
            }
            let Some(message) = self.receive_until(is_preparing.then_some(deadline)).await? else {
                match trigger {
                    Trigger::Start(_) if start_timeout == START_TIMEOUT => {
                        self.pools.waive_late();
                        // For those that must be ready.
                        start_timeout = CHANGE_TIMEOUT;
                    }
                    Trigger::Start(_) | Trigger::Change { .. } | Trigger::CertificateFiles => {
                        return Err(self.pools.not_ready(CHANGE_TIMEOUT));
                    }
                }
                continue;
            };
            match message {
                (FromSupervisor::Bound { address }, descriptors) => {
                    awaited.sockets.remove(&address);
                    prepared.sockets.extend(descriptors.into_iter().next().map(|fd| (address, fd)));
                }
                (FromSupervisor::BindFailed { message, .. }, _) => return Err(message),
                (FromSupervisor::LogOpened { path, error }, descriptors)
                    if awaited.position(&path).is_some() =>
                {
                    if let Some(index) = awaited.position(&path) {
                        let (log, file) =
                            (awaited.logs.swap_remove(index), descriptors.into_iter().next());
                        self.take_log(log, &error, file, prepared)?;
                    }
                }
                (FromSupervisor::CacheOpened { path, error }, descriptors)
                    if awaited.caches.iter().any(|(_, other)| *other == path) =>
                {
                    let at = awaited.caches.iter().position(|(_, other)| *other == path);
                    let (place, _) = awaited.caches.swap_remove(at.unwrap_or(0));
                    let file = descriptors.into_iter().next();
                    self.take_cache_file(place, path, &error, file, prepared, trigger)?;
                }
                (other, descriptors) => self.on_unrelated(other, descriptors)?,
            }
        }
    }
}
