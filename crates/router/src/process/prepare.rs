//! Prepares a configuration: everything that can fail happens before it becomes the current one.
//!
//! Sockets are bound, applications load PHP, certificates are read, and the access log is opened.
//! The current configuration continues unchanged meanwhile.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_access_log::{LogFile, LogFiles};
use howdah_config::{Config, Destination, Http3, Listener};
use howdah_dns::{self as names, NameTable, Names};
use howdah_http::spool;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Level;
use howdah_upstream::servers::addresses::ResolvedServers;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};

use super::control_thread::{ControlThread, text};
use super::disk::DiskError;
use super::listeners::backlog;
use super::tls::TlsListeners;
use super::trigger::{CHANGE_TIMEOUT, START_TIMEOUT, StartPolicy, Trigger};
use crate::geo_databases;

/// Default length of a listening socket's backlog; the kernel limits it to `net.core.somaxconn`.
pub(super) const DEFAULT_BACKLOG: u32 = 4096;

/// Time for which a start tries to listen on an address that another program has: those of a killed
/// server are in use until its last process has ended. Listeners that are open do not wait as long.
const BIND_TIMEOUT: Duration = Duration::from_secs(2);
const BIND_TIMEOUT_BESIDE_OTHERS: Duration = Duration::from_millis(400);

/// Interval between these attempts.
const BIND_INTERVAL: Duration = Duration::from_millis(50);

/// Resources of a configuration that is ready to become the current one. `Pools` has its
/// applications.
#[derive(Default)]
pub(super) struct Prepared {
    /// Listening sockets by address.
    pub(super) sockets: HashMap<String, OwnedFd>,
    /// Listeners that cannot be opened, with the reasons; `None` if listeners were not looked at.
    pub(super) closed: Option<BTreeMap<String, String>>,
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
    /// and the remedy.
    pub(super) async fn prepare(
        &mut self,
        current: &Snapshot,
        config: &Config,
        prepared: &mut Prepared,
        trigger: Trigger,
    ) -> Result<(), String> {
        self.check_files(config, trigger).await?;
        self.prepare_databases(config, trigger).await?;
        prepared.tls = self.prepare_tls_listeners(current, config, trigger).await?;
        prepared.known.clients = self.prepare_tls_clients(current, config, trigger).await?;
        prepared.known.names = self.prepare_names(config, trigger).await?;
        let sockets = self.bind(current, config, prepared)?;
        // Several applications load PHP when they are needed; the supervisor checks them at the
        // start.
        let is_single = config.applications.len() == 1;
        for application in &config.applications {
            let is_reload = matches!(trigger, Trigger::Change { is_reload: true, .. });
            let is_served = self.pools.queue(application).is_some()
                || !is_reload && self.pools.is_kept(application);
            if !is_served {
                // Without a control API, a mistake is reported at the start. A reload must not end
                // one that serves for one that cannot.
                let is_required = match trigger {
                    Trigger::Start(start) => is_single && !start.has_control,
                    _ => is_reload && self.pools.is_serving(&application.name),
                };
                self.pools.prepare(application, is_required).map_err(text)?;
            }
        }
        let logs = self.open_access_logs(current, config, prepared)?;
        let caches = self.ask_for_cache_files(current, config)?;
        self.site_logs.prepare(&config.error_logs).map_err(text)?;
        prepared.closed = Some(BTreeMap::new());
        let awaited = Awaited { sockets, logs, caches };
        let result = self.wait_until_prepared(awaited, config, prepared, trigger).await;
        if result.is_err() {
            self.site_logs.follow(&current.config.error_logs).map_err(text)?;
        }
        result?;
        // No listener could be reached, and no administrator would notice.
        let closed = prepared.closed.iter().flatten();
        let is_closed =
            |name: &str| prepared.closed.as_ref().is_some_and(|closed| closed.contains_key(name));
        match trigger {
            Trigger::Start(StartPolicy { has_control: false, has_served: false, .. })
                if { config.listeners.iter() }.all(|listener| is_closed(&listener.name)) =>
            {
                closed.map(|(_, reason)| reason.clone()).next().map_or(Ok(()), Err)
            }
            _ => Ok(()),
        }
    }

    /// Checks that the router can write temporary files. After the server has served once, a drive
    /// that does not answer must not keep a router from serving others.
    async fn check_files(&mut self, config: &Config, trigger: Trigger) -> Result<(), String> {
        let sandbox = Arc::clone(&self.sandbox);
        let Some(temporary) = config.settings.http.body_temp_path.clone() else { return Ok(()) };
        let checked = self.on_disk(move |progress| {
            sandbox.check(Some(&temporary), progress)?;
            progress.begins(format!("/settings/http/body_temp_path: {}", temporary.display()));
            spool::check_directory(&temporary).map_err(|error| {
                let trouble = spool::directory_error(&temporary, &error);
                format!("/settings/http/body_temp_path: {trouble}")
            })
        });
        match checked.await {
            Err(DiskError::NotAnswered(problem)) if trigger.is_restart() => {
                self.shared.log.write(Level::Alert, format_args!("{problem}; it is not checked"));
                Ok(())
            }
            Err(error) if trigger.is_restart() => {
                let problem = error.into_text();
                self.shared.log.write(Level::Alert, format_args!("{problem}; the rest is served"));
                Ok(())
            }
            checked => checked.map_err(DiskError::into_text),
        }
    }

    /// Reads databases of addresses. Without one, requests whose routes or limits need it are
    /// refused.
    async fn prepare_databases(&mut self, config: &Config, trigger: Trigger) -> Result<(), String> {
        if config.geo_databases.is_empty() {
            return Ok(());
        }
        let databases = config.geo_databases.clone();
        let read = self.on_disk(move |progress| Ok(geo_databases::read_new(&databases, progress)));
        let problems = match read.await {
            Ok(problems) => problems,
            // The disk does not answer; those that were read have values.
            Err(problem) => {
                let problem = problem.into_text();
                let unread = config.geo_databases.iter();
                let unread = unread.filter(|(_, database)| database.stamp().is_none());
                unread.map(|(_, database)| (database.file.clone(), problem.clone())).collect()
            }
        };
        for (file, problem) in problems {
            let is_known = self.unread.contains_key(&file);
            if !is_known && !trigger.tolerates_new() {
                return Err(problem);
            }
            if !is_known {
                self.shared.log.write(
                    Level::Alert,
                    format_args!("{problem}; requests whose routes or limits need it get 503"),
                );
            }
            self.unread.insert(file, problem);
        }
        Ok(())
    }

    /// Looks up the names of servers. Meanwhile the applications get workers: an answer may not
    /// come.
    async fn prepare_names(
        &mut self,
        config: &Config,
        trigger: Trigger,
    ) -> Result<NameTable, String> {
        let limit = match trigger {
            Trigger::Start(_) => names::START_LOOK_UP_TIMEOUT,
            Trigger::Change { .. } | Trigger::CertificateFiles => names::CHANGE_LOOK_UP_TIMEOUT,
        };
        let other = Names::new(Arc::clone(&self.shared.log));
        let mut names = std::mem::replace(&mut self.names, other);
        let table = self.meanwhile(names.prepare(config, limit)).await;
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
            let before = current.config.listeners.iter().find(|old| old.name == listener.name);
            let is_same = |before: &Listener| {
                before.socket == listener.socket
                    && before.session.is_some() == listener.session.is_some()
            };
            let is_open = before.is_some_and(is_same) && !self.closed.contains(&listener.name);
            let udp = Http3::socket_name(&listener.name);
            let had_http3 = before.is_some_and(|before| before.http3.is_some());
            if listener.http3.is_some() && (!had_http3 || self.closed.contains(&udp)) {
                let bind = ToSupervisor::Bind { address: udp.clone(), backlog: 0 };
                self.link.send(&bind).map_err(text)?;
                awaited.insert(udp);
            }
            // Who may connect to its socket is changed by the supervisor.
            if is_open && !prepared.redistribute {
                continue;
            }
            let backlog = listener.backlog.unwrap_or(DEFAULT_BACKLOG);
            let address = listener.name.clone();
            self.link.send(&ToSupervisor::Bind { address, backlog }).map_err(text)?;
            awaited.insert(listener.name.clone());
        }
        Ok(awaited)
    }

    /// Keeps the files of access logs that the current configuration has too, and asks the
    /// supervisor to open the others. Returns those.
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
        trigger: Trigger,
    ) -> Result<(), String> {
        let file = match file {
            Some(file) => LogFile::new(&destination, Some(file)),
            None => {
                let problem = format!("{place}: {destination} cannot be opened: {error}");
                let problem = self.pools.places.explain_line(&problem);
                let is_server = destination.socket().is_some();
                if !is_server && !trigger.tolerates_new() {
                    return Err(problem);
                }
                if is_server {
                    let problem = format_args!("{problem}; lines wait until it can be reached");
                    self.shared.log.write(Level::Error, problem);
                }
                // The same reason as of later attempts: another one would be logged again.
                LogFile::unopened(&destination, error.to_owned())
            }
        };
        prepared.logs.insert(destination, Arc::new(file));
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
            if !trigger.tolerates_new() {
                return Err(problem);
            }
            let problem = format_args!("{problem}; the cache is in memory only until it can be");
            self.shared.log.write(Level::Error, problem);
        }
        prepared.cache_files.extend(file.map(|file| (path, file)));
        Ok(())
    }

    /// Asks again for the sockets of addresses that another program has had.
    fn bind_taken(
        &self,
        awaited: &Awaited,
        config: &Config,
        prepared: &Prepared,
    ) -> Result<(), String> {
        let closed = prepared.closed.iter().flatten().map(|(address, _)| address);
        for address in closed.filter(|address| awaited.sockets.contains(*address)) {
            let (address, backlog) = (address.clone(), backlog(config, address));
            self.link.send(&ToSupervisor::Bind { address, backlog }).map_err(text)?;
        }
        Ok(())
    }

    /// Waits until the applications that others must wait for are ready, and until all answers have
    /// come.
    async fn wait_until_prepared(
        &mut self,
        mut awaited: Awaited,
        config: &Config,
        prepared: &mut Prepared,
        trigger: Trigger,
    ) -> Result<(), String> {
        let started_at = Instant::now();
        let (mut start_timeout, mut has_failed_late) = (START_TIMEOUT, false);
        let mut bind_again = None;
        loop {
            let mut hanging_at = None;
            let (is_preparing, deadline) = match trigger {
                Trigger::Start(_) => {
                    let is_decided = self.pools.waive_failed(trigger.tolerates_new())?;
                    // In an upgrade, the former server continues meanwhile.
                    if trigger.tolerates_new() && self.pools.required.is_empty() {
                        self.pools.waive_new();
                    } else if trigger.tolerates_new() {
                        hanging_at = self.pools.waive_hanging(Instant::now());
                    }
                    (!is_decided || self.pools.is_preparing()?, started_at + start_timeout)
                }
                Trigger::Change { is_reload: true, .. } => {
                    self.pools.waive_failed(true)?;
                    self.pools.waive_new();
                    (self.pools.is_preparing()?, started_at + START_TIMEOUT)
                }
                Trigger::Change { .. } | Trigger::CertificateFiles => {
                    self.pools.waive_missing_roots();
                    let limit = if self.is_hurried { START_TIMEOUT } else { CHANGE_TIMEOUT };
                    (self.pools.is_preparing()?, started_at + limit)
                }
            };
            if !is_preparing && awaited.is_empty() && !self.site_logs.is_preparing() {
                return Ok(());
            }
            let now = Instant::now();
            if bind_again.is_some_and(|due| due <= now) {
                bind_again = None;
                self.bind_taken(&awaited, config, prepared)?;
            }
            let due = is_preparing.then_some(deadline).into_iter();
            let due = due.chain(hanging_at).chain(bind_again).min();
            let Some(message) = self.receive_until(due).await? else {
                if !is_preparing || Instant::now() < deadline {
                    continue;
                }
                match trigger {
                    Trigger::Start(_) if start_timeout == START_TIMEOUT => {
                        self.pools.waive_late();
                        // For those that must be ready.
                        start_timeout = CHANGE_TIMEOUT;
                    }
                    // PHP may hang, or the script of one application.
                    Trigger::Start(_) if !has_failed_late => {
                        self.pools.fail_late(CHANGE_TIMEOUT);
                        has_failed_late = true;
                    }
                    Trigger::Change { is_reload: true, .. } => self.pools.waive_late(),
                    Trigger::Start(_) | Trigger::Change { .. } | Trigger::CertificateFiles => {
                        return Err(if self.is_hurried {
                            let problem = self.pools.not_ready(START_TIMEOUT);
                            format!("{problem}; it had no more time, as another change waits")
                        } else {
                            self.pools.not_ready(CHANGE_TIMEOUT)
                        });
                    }
                }
                continue;
            };
            match message {
                (FromSupervisor::Bound { address }, descriptors)
                    if awaited.sockets.contains(&address) =>
                {
                    awaited.sockets.remove(&address);
                    prepared.closed.iter_mut().for_each(|closed| drop(closed.remove(&address)));
                    prepared.sockets.extend(descriptors.into_iter().next().map(|fd| (address, fd)));
                }
                (FromSupervisor::BindFailed { address, message, is_taken }, _)
                    if awaited.sockets.contains(&address) =>
                {
                    let is_known = self.closed.contains(&address);
                    if !is_known && matches!(trigger, Trigger::Change { is_reload: false, .. }) {
                        return Err(message);
                    }
                    let is_first = !trigger.is_restart() && matches!(trigger, Trigger::Start(_));
                    let timeout = if prepared.sockets.is_empty() || !trigger.tolerates_new() {
                        BIND_TIMEOUT
                    } else {
                        BIND_TIMEOUT_BESIDE_OTHERS
                    };
                    if is_first && is_taken && started_at.elapsed() < timeout {
                        bind_again.get_or_insert(Instant::now() + BIND_INTERVAL);
                    } else if trigger.tolerates_new() || is_known {
                        awaited.sockets.remove(&address);
                    } else {
                        return Err(message);
                    }
                    prepared.closed.iter_mut().for_each(|closed| {
                        closed.insert(address.clone(), message.clone());
                    });
                }
                (FromSupervisor::LogOpened { path, error }, descriptors)
                    if awaited.position(&path).is_some() =>
                {
                    if let Some(index) = awaited.position(&path) {
                        let (log, file) =
                            (awaited.logs.swap_remove(index), descriptors.into_iter().next());
                        self.take_log(log, &error, file, prepared, trigger)?;
                    }
                }
                (FromSupervisor::LogOpened { path, error }, descriptors)
                    if self.site_logs.awaits(&path) =>
                {
                    let file = descriptors.into_iter().next();
                    self.site_logs.on_log_opened(&path, &error, file);
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
