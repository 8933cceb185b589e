//! Making a configuration the running one: prepare, commit, retire.
//!
//! Sockets are bound and applications have loaded PHP before one swap makes the new snapshot
//! current. Whatever goes wrong before that leaves everything as it was.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use howdah_config::Config;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};

use super::link::Link;
use super::pools::{Pools, Prepared};
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
}

/// Applies a configuration. The error is one line that says what is wrong and what to do.
pub(super) async fn apply(
    link: &Link,
    shared: &Arc<Shared>,
    shards: &Arc<[shard::Handle]>,
    pools: &mut Pools,
    config: Config,
) -> Result<(), String> {
    let mut ready = Ready::default();
    let current = shared.snapshot.load_full();
    match prepare(link, pools, &current, &config, &mut ready).await {
        Ok(()) => commit(link, shared, shards, pools, &current, config, ready)
            .map_err(|error| error.to_string()),
        Err(problem) => {
            for prepared in &ready.applications {
                let _ = pools.discard(link, prepared);
            }
            for address in ready.sockets.into_keys() {
                let _ = link.send(&ToSupervisor::Unbind { address });
            }
            Err(problem)
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
        if current.listeners.contains_key(&listener.name) {
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
    while !binding.is_empty() || !starting.is_empty() {
        let gone = || "the supervisor has gone".to_owned();
        let (message, descriptors) = link.receive().await.map_err(io)?.ok_or_else(gone)?;
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
            FromSupervisor::Quit { .. } => return Err("the server is being stopped".to_owned()),
            other => pools.on_message(link, other, descriptors).map_err(io)?,
        }
    }
    Ok(())
}

fn commit(
    link: &Link,
    shared: &Arc<Shared>,
    shards: &Arc<[shard::Handle]>,
    pools: &mut Pools,
    current: &Snapshot,
    config: Config,
    ready: Ready,
) -> std::io::Result<()> {
    let started: HashMap<String, _> = ready
        .applications
        .iter()
        .map(|prepared| (prepared.config.name.clone(), Arc::clone(&prepared.queue)))
        .collect();
    let snapshot = Snapshot::compile(config, |application| {
        let queue =
            started.get(&application.name).cloned().or_else(|| pools.unchanged(application));
        queue.unwrap_or_else(|| unreachable!("every application was prepared or is unchanged"))
    });
    // Requests may be queued from the moment of the swap, so the new applications come first;
    // those that they replace take what is queued until then.
    for prepared in ready.applications {
        pools.adopt(link, prepared)?;
    }
    let names: Vec<_> = snapshot.applications.keys().cloned().collect();
    shared.snapshot.store(Arc::new(snapshot));
    for (name, fd) in ready.sockets {
        listen(shards, &name, fd)?;
    }
    let kept = shared.snapshot.load();
    for gone in current.listeners.keys().filter(|name| !kept.listeners.contains_key(*name)) {
        for shard in shards.iter() {
            shard.order(Order::Unlisten { name: gone.as_str().into() });
        }
        link.send(&ToSupervisor::Unbind { address: gone.clone() })?;
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    pools.keep_only(link, &names)
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
