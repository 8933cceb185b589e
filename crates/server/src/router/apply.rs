//! Making a configuration the running one: prepare, commit, retire.
//!
//! Sockets are bound and applications have loaded PHP before one swap makes the new snapshot
//! current. Whatever goes wrong before that leaves everything as it was.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use howdah_config::Config;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};
use rustix::fs::{MemfdFlags, memfd_create};

use super::link::Link;
use super::pools::{Pools, Prepared};
use crate::access_log::LogFile;
use crate::listener::Socket;
use crate::shard::{self, Order, Shared};
use crate::snapshot::Snapshot;

/// Length of a listening socket's queue if none is configured; the kernel cuts it to its own
/// limit (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

/// What is ready to become current.
#[derive(Default)]
struct Ready {
    sockets: HashMap<String, OwnedFd>,
    applications: Vec<Prepared>,
    log: Option<Arc<LogFile>>,
    /// How many threads get connections.
    threads: usize,
    /// That is a new number, so the sockets are handed out anew.
    spread: bool,
}

/// Why a configuration was not applied: one line that says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyError {
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

/// Applies a configuration, and stores `text` for it, if there is one, before it is current.
pub(super) async fn apply(
    link: &Link,
    shared: &Arc<Shared>,
    shards: &Arc<[shard::Handle]>,
    pools: &mut Pools,
    config: Config,
    text: Option<&[u8]>,
) -> Result<(), ApplyError> {
    let threads = shard::wanted(&config).min(shards.len());
    let spread = threads != shared.threads.load(Relaxed);
    let mut ready = Ready { threads, spread, ..Ready::default() };
    let current = shared.snapshot.load_full();
    let mut outcome =
        prepare(link, pools, &current, &config, &mut ready).await.map_err(ApplyError::NotApplied);
    if let (Ok(()), Some(text)) = (&outcome, text) {
        outcome = store(link, pools, text).await.map_err(ApplyError::NotStored);
    }
    match outcome {
        Ok(()) => commit(link, shared, shards, pools, &current, config, ready)
            .map_err(|error| ApplyError::NotApplied(error.to_string())),
        Err(problem) => {
            for prepared in &ready.applications {
                let _ = pools.discard(link, prepared);
            }
            let new = |address: &String| !current.listeners.contains_key(address);
            for address in ready.sockets.into_keys().filter(new) {
                let _ = link.send(&ToSupervisor::Unbind { address });
            }
            Err(problem)
        }
    }
}

/// Has the supervisor store a document.
async fn store(link: &Link, pools: &mut Pools, text: &[u8]) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let mut file = File::from(
        memfd_create("document", MemfdFlags::CLOEXEC).map_err(|error| error.to_string())?,
    );
    file.write_all(text).map_err(io)?;
    link.send_with(&ToSupervisor::Store {}, &[file.as_fd()]).map_err(io)?;
    loop {
        let gone = || "the supervisor has gone".to_owned();
        let (message, descriptors) = link.receive_new().await.map_err(io)?.ok_or_else(gone)?;
        match message {
            FromSupervisor::Stored { error } if error.is_empty() => return Ok(()),
            FromSupervisor::Stored { error } => return Err(error),
            other => meanwhile(link, pools, other, descriptors).map_err(io)?,
        }
    }
}

/// Restarts an application: new workers take over its queue when they are ready. `Err` says why
/// they are not; then the old ones go on.
pub(super) async fn restart(link: &Link, pools: &mut Pools, name: &str) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let prepared = pools.prepare_restart(link, name).map_err(io)?;
    let prepared = prepared.ok_or_else(|| format!("there is no application \"{name}\""))?;
    let number = prepared.instance.number;
    loop {
        let gone = || "the supervisor has gone".to_owned();
        let (message, descriptors) = link.receive_new().await.map_err(io)?.ok_or_else(gone)?;
        match message {
            FromSupervisor::Ready { application, .. } if application == number => {
                return pools.adopt_restart(link, prepared).map_err(io);
            }
            FromSupervisor::Ended { application, message } if application == number => {
                return Err(message);
            }
            other => meanwhile(link, pools, other, descriptors).map_err(io)?,
        }
    }
}

async fn prepare(
    link: &Link,
    pools: &mut Pools,
    current: &Snapshot,
    config: &Config,
    ready: &mut Ready,
) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let mut binding = HashSet::new();
    for listener in &config.listeners {
        if current.listeners.contains_key(&listener.name) && !ready.spread {
            continue;
        }
        let backlog = listener.backlog.unwrap_or(BACKLOG);
        let address = listener.name.clone();
        link.send(&ToSupervisor::Bind { address, backlog }).map_err(io)?;
        binding.insert(listener.name.clone());
    }
    let mut starting = HashMap::new();
    for application in &config.applications {
        if pools.unchanged(application).is_some() {
            continue;
        }
        let prepared = pools.prepare(link, application).map_err(io)?;
        starting.insert(prepared.instance.number, prepared);
    }
    let mut opening = open_log(link, current, config, ready).map_err(io)?;
    while !binding.is_empty() || !starting.is_empty() || opening.is_some() {
        let gone = || "the supervisor has gone".to_owned();
        let (message, descriptors) = link.receive_new().await.map_err(io)?.ok_or_else(gone)?;
        match message {
            FromSupervisor::Bound { address } => {
                binding.remove(&address);
                ready.sockets.extend(descriptors.into_iter().next().map(|fd| (address, fd)));
            }
            FromSupervisor::BindFailed { message, .. } => {
                ready.applications.extend(starting.into_values());
                return Err(message);
            }
            FromSupervisor::Ready { application, .. } if starting.contains_key(&application) => {
                ready.applications.extend(starting.remove(&application));
            }
            FromSupervisor::Ended { application, message }
                if starting.contains_key(&application) =>
            {
                let failed = starting.remove(&application);
                let name = failed.map(|prepared| prepared.config.name).unwrap_or_default();
                ready.applications.extend(starting.into_values());
                return Err(format!("application \"{name}\": {message}"));
            }
            FromSupervisor::LogOpened { path, error }
                if opening.as_deref() == Some(path.as_str()) =>
            {
                opening = None;
                let Some(file) = descriptors.into_iter().next() else {
                    ready.applications.extend(starting.into_values());
                    return Err(format!("/access_log: {path} cannot be opened: {error}"));
                };
                ready.log = Some(Arc::new(LogFile::new(&path, file)));
            }
            quit @ FromSupervisor::Quit { .. } => {
                link.postpone(quit, descriptors);
                ready.applications.extend(starting.into_values());
                return Err("the server is being stopped".to_owned());
            }
            other => meanwhile(link, pools, other, descriptors).map_err(io)?,
        }
    }
    Ok(())
}

/// Sees to the file of the access log: that of the running one if its name is the same. Returns
/// its name if it must be opened.
fn open_log(
    link: &Link,
    current: &Snapshot,
    config: &Config,
    ready: &mut Ready,
) -> std::io::Result<Option<String>> {
    let Some(log) = &config.access_log else { return Ok(None) };
    let path = log.path.to_string_lossy().into_owned();
    let running = current.access_log.as_ref().map(|log| log.file());
    if let Some(file) = running.filter(|file| file.path() == path) {
        ready.log = Some(Arc::clone(file));
        return Ok(None);
    }
    link.send(&ToSupervisor::OpenLog { path: path.clone() })?;
    Ok(Some(path))
}

/// A message that has nothing to do with what is waited for. What the main loop must see comes
/// to it later.
fn meanwhile(
    link: &Link,
    pools: &mut Pools,
    message: FromSupervisor,
    descriptors: Vec<OwnedFd>,
) -> std::io::Result<()> {
    match message {
        FromSupervisor::Quit { .. }
        | FromSupervisor::Reopened {}
        | FromSupervisor::LogOpened { .. } => {
            link.postpone(message, descriptors);
            Ok(())
        }
        message => pools.on_message(link, message, descriptors),
    }
}

fn commit(
    link: &Link,
    shared: &Arc<Shared>,
    shards: &Arc<[shard::Handle]>,
    pools: &mut Pools,
    current: &Arc<Snapshot>,
    config: Config,
    ready: Ready,
) -> std::io::Result<()> {
    let started: HashMap<String, _> = ready
        .applications
        .iter()
        .map(|prepared| (prepared.config.name.clone(), Arc::clone(&prepared.queue)))
        .collect();
    let snapshot = Snapshot::compile(config, ready.log, |application| {
        let queue =
            started.get(&application.name).cloned().or_else(|| pools.unchanged(application));
        queue.unwrap_or_else(|| unreachable!("every application was prepared or is unchanged"))
    });
    // Requests may be queued from the moment of the swap, so the new applications come first;
    // those that they replace take what is queued until then.
    for prepared in ready.applications {
        pools.adopt(prepared);
    }
    let names: Vec<_> = snapshot.applications.keys().cloned().collect();
    shared.snapshot.store(Arc::new(snapshot));
    shared.threads.store(ready.threads, Relaxed);
    let (serving, others) = shards.split_at(ready.threads.min(shards.len()));
    for (name, fd) in ready.sockets {
        listen(serving, &name, fd)?;
        unlisten(others, &name);
    }
    let kept = shared.snapshot.load();
    for gone in current.listeners.keys().filter(|name| !kept.listeners.contains_key(*name)) {
        unlisten(shards, gone);
        link.send(&ToSupervisor::Unbind { address: gone.clone() })?;
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    pools.keep_only(&names, &Arc::downgrade(current));
    Ok(())
}

fn listen(shards: &[shard::Handle], name: &str, fd: OwnedFd) -> std::io::Result<()> {
    let socket = Socket::new(name, fd);
    let name: Arc<str> = name.into();
    for shard in shards {
        let socket = socket.try_clone()?;
        shard.order(Order::Listen { name: Arc::clone(&name), socket });
    }
    Ok(())
}

fn unlisten(shards: &[shard::Handle], name: &str) {
    for shard in shards {
        shard.order(Order::Unlisten { name: name.into() });
    }
}
