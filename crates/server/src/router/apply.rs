//! Making a configuration the running one: prepare, commit, retire.
//!
//! Sockets are bound and applications have loaded PHP before one swap makes the new snapshot
//! current. Whatever goes wrong before that leaves everything as it was.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use howdah_config::{Config, Defaults};
use howdah_http::spool;
use howdah_php_pool::thread::Ask;
use howdah_sys::log::Level;
use howdah_tls::stored::Certificates;
use howdah_upstream::known::Known;
use howdah_upstream::names::Names;
use howdah_wire::messages::{FromSupervisor, Outcome, ToSupervisor};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::link::{Link, Message};
use super::pools::Pools;
use super::programs::Programs;
use super::sleep_until;
use super::tls::TlsListeners;
use crate::access_log::LogFile;
use crate::listener::Socket;
use crate::packets::{from_memory, to_memory};
use crate::snapshot::{Listener, Snapshot};
use crate::thread;
use crate::thread::{Order, Shared};

/// Length of a listening socket's queue if none is configured; the kernel cuts it to its own
/// limit (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

/// How long a change waits until its applications are ready. A preload script may take a while.
const CHANGE_TIME: Duration = Duration::from_secs(60);

/// How long a start waits for applications until it goes on without them. They serve once they are
/// ready; until then their requests wait.
const START_TIME: Duration = Duration::from_secs(5);

/// What a configuration is applied for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Occasion {
    /// The router starts. An application that cannot run must not keep the others from being served,
    /// as its site may have brought that about.
    Start(Start),
    /// Somebody wants another configuration, with this number: all of it or nothing.
    Change(u32),
    /// Files of the running configuration have changed: all of them count from now on, or none.
    Renewal,
}

/// How a router starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Every application must have loaded PHP, and not only those that shall have workers before
    /// their first request: nobody could correct the configuration.
    pub(super) all_ready: bool,
    /// The server has served before, so that nobody reads why it does not start.
    pub(super) has_served: bool,
}

/// Why a configuration was not applied: one line that says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApplyError {
    /// Something that it needs cannot be had.
    NotApplied(String),
    /// It could not be stored.
    NotStored(String),
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ApplyError::NotApplied(problem) | ApplyError::NotStored(problem)) = self;
        f.write_str(problem)
    }
}

impl From<ApplyError> for Outcome {
    fn from(error: ApplyError) -> Outcome {
        match error {
            ApplyError::NotApplied(problem) => Outcome::NotApplied(problem),
            ApplyError::NotStored(problem) => Outcome::NotStored(problem),
        }
    }
}

/// What is ready to become current, beside the applications, which `Pools` has.
#[derive(Default)]
struct Ready {
    sockets: HashMap<String, OwnedFd>,
    log: Option<Arc<LogFile>>,
    tls: TlsListeners,
    known: Known,
    /// How many threads get connections.
    threads: usize,
    /// That is a new number, so the sockets are handed out anew.
    spread: bool,
}

/// What applying works on.
pub(super) struct Parts<'a> {
    pub(super) link: &'a Link,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) shards: &'a Arc<[thread::Handle]>,
    pub(super) pools: &'a mut Pools,
    /// For listeners that name some; a bundle that they name stays until none does.
    pub(super) certificates: &'a mut Certificates,
    pub(super) programs: &'a Programs,
    /// For servers that are named.
    pub(super) names: &'a mut Names,
    /// What the threads ask for meanwhile.
    pub(super) asked: &'a mut UnboundedReceiver<Ask>,
    /// What holds where a document says nothing.
    pub(super) defaults: Defaults,
}

impl Parts<'_> {
    /// The same for a shorter time.
    fn reborrow(&mut self) -> Parts<'_> {
        Parts {
            link: self.link,
            shared: self.shared,
            shards: self.shards,
            pools: self.pools,
            certificates: self.certificates,
            programs: self.programs,
            names: self.names,
            asked: self.asked,
            defaults: self.defaults,
        }
    }

    /// Applies a configuration of the supervisor's, and reports what came of it.
    pub(super) async fn change(
        mut self,
        generation: u32,
        restart: bool,
        document: Option<OwnedFd>,
    ) -> std::io::Result<()> {
        let config = from_memory(document, u64::MAX).map_err(text).and_then(|document| {
            howdah_config::parse_with(&document, &self.defaults).map_err(|error| error.to_string())
        });
        let mut outcome = match config {
            Ok(config) => {
                let applied = self.reborrow().apply(config, Occasion::Change(generation)).await;
                applied.map_or_else(Outcome::from, |()| Outcome::Done)
            }
            Err(problem) => Outcome::NotApplied(problem),
        };
        if restart && outcome == Outcome::Done {
            for name in self.pools.names() {
                if let Err(problem) = self.reborrow().restart(&name).await {
                    outcome = Outcome::NotRestarted(problem);
                    break;
                }
            }
        }
        self.link.send(&ToSupervisor::Applied { generation, outcome })
    }

    /// Applies a configuration. A changed one is stored before it is current.
    pub(super) async fn apply(
        mut self,
        config: Config,
        occasion: Occasion,
    ) -> Result<(), ApplyError> {
        let generation = match occasion {
            Occasion::Start(_) | Occasion::Renewal => None,
            Occasion::Change(generation) => Some(generation),
        };
        let threads = thread::wanted(&config).min(self.shards.len());
        let spread = threads != self.shared.threads.load(Relaxed);
        let mut ready = Ready { threads, spread, ..Ready::default() };
        let current = self.shared.snapshot.load_full();
        let running = self.pools.generation;
        self.pools.generation = generation.unwrap_or(running);
        let prepared = self.prepare(&current, &config, &mut ready, occasion).await;
        let mut outcome = prepared.map_err(ApplyError::NotApplied);
        if let (Ok(()), Some(generation)) = (&outcome, generation) {
            outcome = self.store(generation).await.map_err(ApplyError::NotStored);
        }
        match outcome {
            Ok(()) => self.commit(current, config, ready).await.map_err(ApplyError::NotApplied),
            Err(problem) => {
                self.pools.generation = running;
                let _ = self.pools.discard(self.link);
                let is_new = |address: &String| !current.listeners.contains_key(address);
                for address in ready.sockets.into_keys().filter(is_new) {
                    let _ = self.link.send(&ToSupervisor::Unbind { address });
                }
                Err(problem)
            }
        }
    }

    /// Has the running configuration take the addresses that names have now. Nothing else of it
    /// changes.
    pub(super) async fn rename(mut self) {
        let current = self.shared.snapshot.load_full();
        let tls = |(name, listener): (&String, &Listener)| {
            listener.tls.as_ref().map(|tls| (name.clone(), Arc::clone(tls)))
        };
        let ready = Ready {
            log: current.access_log.as_ref().map(|log| Arc::clone(log.file())),
            tls: current.listeners.iter().filter_map(tls).collect(),
            known: Known { clients: current.tls_clients.clone(), names: self.names.table() },
            threads: self.shared.threads.load(Relaxed),
            ..Ready::default()
        };
        let config = current.config.clone();
        if let Err(problem) = self.commit(current, config, ready).await {
            let message = format_args!("new addresses of servers are not in use: {problem}");
            self.shared.log.write(Level::Alert, message);
        }
    }

    /// Restarts an application: new workers take over its queue when they are ready. `Err` says
    /// why they are not; then the old ones go on.
    pub(super) async fn restart(mut self, name: &str) -> Result<(), String> {
        if !self.pools.prepare_restart(self.link, name).map_err(text)? {
            return Err(format!("there is no application \"{name}\""));
        }
        let deadline = Instant::now() + CHANGE_TIME;
        loop {
            match self.pools.is_preparing() {
                Ok(true) => {}
                Ok(false) => return self.pools.adopt(self.link).map_err(text),
                Err(problem) => {
                    self.pools.discard(self.link).map_err(text)?;
                    return Err(problem);
                }
            }
            match self.receive_until(Some(deadline)).await? {
                Some((message, descriptors)) => self.meanwhile(message, descriptors)?,
                None => {
                    let problem = self.pools.not_ready(CHANGE_TIME);
                    self.pools.discard(self.link).map_err(text)?;
                    return Err(problem);
                }
            }
        }
    }

    /// Uses a certificate that the server has got by itself, and stores it. `Err` says why it is
    /// not stored; it is in use all the same.
    pub(super) async fn keep_certificate(
        mut self,
        name: String,
        pem: Vec<u8>,
    ) -> Result<(), String> {
        let stored = self.store_certificate(&name, &pem).await;
        self.certificates.insert(name.clone(), pem.into());
        self.renew_stored(&name).await;
        stored
    }

    pub(super) async fn receive(&mut self) -> Result<Message, String> {
        let message = self.receive_until(None).await?;
        message.ok_or_else(|| "the supervisor does not answer".to_owned())
    }

    /// The next message of the supervisor's; `None` if there is none by then. Meanwhile the running
    /// applications get the workers that they need, and scripts that run too long are ended.
    async fn receive_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<Message>, String> {
        loop {
            let due = self.pools.tick(self.link).map_err(text)?;
            tokio::select! {
                message = self.link.receive_new() => {
                    let message = message.map_err(text)?.ok_or("the supervisor has gone")?;
                    if matches!(message.0, FromSupervisor::Quit { .. }) {
                        self.link.postpone(message.0, message.1);
                        return Err("the server is being stopped".to_owned());
                    }
                    return Ok(Some(message));
                }
                Some(ask) = self.asked.recv() => self.pools.on_ask(self.link, ask).map_err(text)?,
                () = sleep_until(due) => {}
                () = sleep_until(deadline) => return Ok(None),
            }
        }
    }

    /// A message that has nothing to do with what is waited for. What the main loop must see comes
    /// to it later.
    pub(super) fn meanwhile(
        &mut self,
        message: FromSupervisor,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), String> {
        if matches!(
            message,
            FromSupervisor::Reopened {}
                | FromSupervisor::LogOpened { .. }
                | FromSupervisor::NameFiles {}
                | FromSupervisor::Ran { .. }
                | FromSupervisor::Control {}
                | FromSupervisor::Apply { .. }
                | FromSupervisor::Certificate { .. }
                | FromSupervisor::CertificateDeleted { .. }
        ) {
            self.link.postpone(message, descriptors);
            return Ok(());
        }
        self.pools.on_message(self.link, message, descriptors).map_err(text)
    }

    /// Sees to the file of the access log: that of the running one if its name is the same.
    /// Returns its name if it must be opened.
    fn open_log(
        &self,
        current: &Snapshot,
        config: &Config,
        ready: &mut Ready,
    ) -> Result<Option<String>, String> {
        let Some(log) = &config.access_log else { return Ok(None) };
        let path = log.path.to_string_lossy().into_owned();
        let running = current.access_log.as_ref().map(|log| log.file());
        if let Some(file) = running.filter(|file| file.path() == path) {
            ready.log = Some(Arc::clone(file));
            return Ok(None);
        }
        self.link.send(&ToSupervisor::OpenLog { path: path.clone() }).map_err(text)?;
        Ok(Some(path))
    }

    async fn prepare(
        &mut self,
        current: &Snapshot,
        config: &Config,
        ready: &mut Ready,
        occasion: Occasion,
    ) -> Result<(), String> {
        self.shared.bounds.check(config)?;
        if let Some(directory) = &config.settings.http.body_temp_path {
            spool::usable(directory).map_err(|error| {
                let trouble = spool::trouble(directory, &error);
                format!("/settings/http/body_temp_path: {trouble}")
            })?;
        }
        ready.tls = self.prepare_tls(current, config).await?;
        ready.known.clients = self.prepare_clients(current, config).await?;
        ready.known.names = self.names.prepare(config).await;
        let mut binding = HashSet::new();
        for listener in &config.listeners {
            if current.listeners.contains_key(&listener.name) && !ready.spread {
                continue;
            }
            let backlog = listener.backlog.unwrap_or(BACKLOG);
            let address = listener.name.clone();
            self.link.send(&ToSupervisor::Bind { address, backlog }).map_err(text)?;
            binding.insert(listener.name.clone());
        }
        for application in &config.applications {
            if self.pools.queue(application).is_none() {
                let must_be_ready = matches!(occasion, Occasion::Start(start) if start.all_ready);
                self.pools.prepare(self.link, application, must_be_ready).map_err(text)?;
            }
        }
        let mut opening = self.open_log(current, config, ready)?;
        let begun = Instant::now();
        loop {
            let (is_preparing, deadline) = match occasion {
                Occasion::Start(start) => {
                    let is_decided = self.pools.go_on_without_failed(start.has_served)?;
                    (!is_decided || self.pools.is_preparing()?, begun + START_TIME)
                }
                Occasion::Change(_) | Occasion::Renewal => {
                    (self.pools.is_preparing()?, begun + CHANGE_TIME)
                }
            };
            if !is_preparing && binding.is_empty() && opening.is_none() {
                return Ok(());
            }
            let Some(message) = self.receive_until(is_preparing.then_some(deadline)).await? else {
                match occasion {
                    Occasion::Start(_) => self.pools.go_on_without_late(),
                    Occasion::Change(_) | Occasion::Renewal => {
                        return Err(self.pools.not_ready(CHANGE_TIME));
                    }
                }
                continue;
            };
            match message {
                (FromSupervisor::Bound { address }, descriptors) => {
                    binding.remove(&address);
                    ready.sockets.extend(descriptors.into_iter().next().map(|fd| (address, fd)));
                }
                (FromSupervisor::BindFailed { message, .. }, _) => return Err(message),
                (FromSupervisor::LogOpened { path, error }, descriptors)
                    if opening.as_deref() == Some(path.as_str()) =>
                {
                    opening = None;
                    let file = descriptors.into_iter().next();
                    let file = file
                        .ok_or_else(|| format!("/access_log: {path} cannot be opened: {error}"))?;
                    ready.log = Some(Arc::new(LogFile::new(&path, file)));
                }
                (other, descriptors) => {
                    self.meanwhile(other, descriptors)?;
                }
            }
        }
    }

    /// Has the supervisor store the configuration that is ready.
    async fn store(&mut self, generation: u32) -> Result<(), String> {
        self.link.send(&ToSupervisor::Prepared { generation }).map_err(text)?;
        loop {
            match self.receive().await? {
                (FromSupervisor::Commit { generation: stored, error }, _)
                    if stored == generation =>
                {
                    return if error.is_empty() { Ok(()) } else { Err(error) };
                }
                (other, descriptors) => self.meanwhile(other, descriptors)?,
            }
        }
    }

    /// Has the supervisor store a certificate.
    async fn store_certificate(&mut self, name: &str, pem: &[u8]) -> Result<(), String> {
        let memory = to_memory(pem).map_err(text)?;
        let store = ToSupervisor::StoreCertificate { name: name.to_owned() };
        self.link.send_with(&store, &[memory.as_fd()]).map_err(text)?;
        loop {
            match self.receive().await? {
                (FromSupervisor::Stored { error }, _) if error.is_empty() => return Ok(()),
                (FromSupervisor::Stored { error }, _) => return Err(error),
                (other, descriptors) => self.meanwhile(other, descriptors)?,
            }
        }
    }

    async fn commit(
        &mut self,
        current: Arc<Snapshot>,
        config: Config,
        ready: Ready,
    ) -> Result<(), String> {
        let pools = &*self.pools;
        let mut snapshot =
            Snapshot::compile(config, ready.log, Some(&current), &ready.known, |application| {
                let queue = pools.queue(application);
                queue.unwrap_or_else(|| unreachable!("every application is prepared or unchanged"))
            });
        for (name, tls) in ready.tls {
            snapshot.listeners.entry(name).and_modify(|listener| listener.tls = Some(tls));
        }
        let snapshot = Arc::new(snapshot);
        let is_gone = |name: &&String| !snapshot.listeners.contains_key(*name);
        let gone: Vec<_> = current.listeners.keys().filter(is_gone).collect();
        for name in &gone {
            told(self.shards, |done| Order::Removing {
                name: name.as_str().into(),
                last: Arc::clone(&current),
                done,
            })
            .await;
        }
        // Requests may be queued from the moment of the swap.
        self.pools.adopt(self.link).map_err(text)?;
        self.shared.snapshot.store(Arc::clone(&snapshot));
        if let Some(first) = self.shards.first() {
            first.order(Order::Watch(snapshot.upstreams.values().cloned().collect()));
        }
        self.shared.threads.store(ready.threads, Relaxed);
        let shards = Arc::clone(self.shards);
        let (serving, others) = shards.split_at(ready.threads.min(shards.len()));
        for (name, fd) in ready.sockets {
            listen(serving, &name, fd).map_err(text)?;
            told(others, |done| Order::Pause { name: name.as_str().into(), done }).await;
        }
        for name in gone {
            self.unlisten(name).await?;
        }
        self.pools.keep_only(&snapshot);
        self.names.keep_only(&snapshot.config);
        Ok(())
    }

    /// Closes a listening socket, everywhere, before this returns: its address is free then.
    async fn unlisten(&mut self, name: &str) -> Result<(), String> {
        // A thread that has accepted a connection may have handed it to another.
        told(self.shards, |done| Order::Pause { name: name.into(), done }).await;
        told(self.shards, |done| Order::Unlisten { name: name.into(), done }).await;
        self.link.send(&ToSupervisor::Unbind { address: name.to_owned() }).map_err(text)?;
        loop {
            match self.receive().await? {
                (FromSupervisor::Unbound { address }, _) if address == name => return Ok(()),
                (other, descriptors) => {
                    self.meanwhile(other, descriptors)?;
                }
            }
        }
    }
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

/// Gives threads an order, and waits until they have carried it out.
async fn told(shards: &[thread::Handle], order: impl Fn(oneshot::Sender<()>) -> Order) {
    let tell = |shard: &thread::Handle| {
        let (done, wait) = oneshot::channel();
        shard.order(order(done));
        wait
    };
    for wait in shards.iter().map(tell).collect::<Vec<_>>() {
        let _ = wait.await;
    }
}

fn listen(shards: &[thread::Handle], name: &str, fd: OwnedFd) -> std::io::Result<()> {
    let socket = Socket::new(name, fd);
    let name: Arc<str> = name.into();
    for shard in shards {
        let socket = socket.try_clone()?;
        shard.order(Order::Listen { name: Arc::clone(&name), socket });
    }
    Ok(())
}
