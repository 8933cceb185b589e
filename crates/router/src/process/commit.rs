//! Makes a prepared configuration the current one with one swap, and retires the parts of the old
//! one that it lacks.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use howdah_access_log::secrets;
use howdah_config::{Config, Http3};
use howdah_http::{mask, memory};
use howdah_pipeline::thread::ThreadCommand;
use howdah_routing::snapshot::Snapshot;
use howdah_upstream::servers::addresses::ResolvedServers;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};

use super::control_thread::{ControlThread, text};
use super::prepare::Prepared;
use super::threads::{listen, send_and_wait};
use crate::http3;

impl ControlThread {
    /// Asks the supervisor to store the prepared configuration.
    pub(super) async fn store(&mut self, generation: u32) -> Result<(), String> {
        self.link.send(&ToSupervisor::Prepared { generation }).map_err(text)?;
        let error = self.receive_answer(|message| match message {
            (FromSupervisor::Commit { generation: stored, error }, _) if stored == generation => {
                Ok(error)
            }
            other => Err(Box::new(other)),
        });
        match error.await? {
            error if error.is_empty() => Ok(()),
            error => Err(error),
        }
    }

    /// Makes a prepared configuration the current one. Requests that began before continue with the
    /// old one.
    pub(super) async fn commit(
        &mut self,
        current: Arc<Snapshot>,
        config: Config,
        prepared: Prepared,
    ) -> Result<(), String> {
        let Prepared { sockets, closed, logs, cache_files, tls, known, threads, .. } = prepared;
        let known = ResolvedServers { dashboard: Some(self.dashboard.clone()), ..known };
        let pools = &self.pools;
        let mut snapshot = Snapshot::compile(config, logs, Some(&current), &known, |application| {
            let queue = pools.queue(application);
            queue.unwrap_or_else(|| unreachable!("every application is prepared or unchanged"))
        });
        for (name, tls) in tls {
            snapshot.listeners.entry(name).and_modify(|listener| listener.tls = Some(tls));
        }
        let snapshot = Arc::new(snapshot);
        let is_removed = |name: &&String| !snapshot.listeners.contains_key(*name);
        let removed: Vec<_> = current.listeners.keys().filter(is_removed).collect();
        // A listener may lose HTTP/3 and stay.
        let with_http3 = current.listeners.iter().filter(|(_, listener)| listener.http3.is_some());
        let without_http3: Vec<_> = with_http3
            .map(|(name, _)| Http3::socket_name(name))
            .filter(|socket| http3::listener_of(&snapshot, socket).is_none())
            .collect();
        for name in &removed {
            send_and_wait(&self.threads, |done| ThreadCommand::AnnounceRemoval {
                name: name.as_str().into(),
                last: Arc::clone(&current),
                done,
            })
            .await;
        }
        // Requests may be queued from the moment of the swap.
        self.pools.adopt().map_err(text)?;
        // Before the first purge of a new store, which other servers must get.
        self.shared.cluster.follow(&snapshot.config.settings, &snapshot.caches);
        mask::hide(secrets(&snapshot.config));
        memory::FILES.set_total(snapshot.config.settings.http.response_temp_size);
        self.shared.snapshot.store(Arc::clone(&snapshot));
        // The telemetry process is told to end once this configuration is in use.
        let has_traces = |snapshot: &Snapshot| snapshot.config.settings.telemetry.is_some();
        if has_traces(&current) && !has_traces(&snapshot) {
            send_and_wait(&self.threads, ThreadCommand::SendSpans).await;
        }
        self.site_logs.follow(&snapshot.config.error_logs).map_err(text)?;
        for (path, file) in cache_files {
            self.open_cache(&path, file);
        }
        if let Some(first) = self.threads.first() {
            let upstreams = snapshot.upstreams.values().cloned().collect();
            first.send(ThreadCommand::CheckHealth(upstreams));
        }
        self.shared.threads.store(threads, Relaxed);
        if let Some(closed) = closed {
            self.closed.replace(closed, Instant::now());
        }
        self.hand_out(&snapshot, sockets, threads).await?;
        for name in without_http3.iter().chain(removed) {
            self.remove_listener(name).await?;
        }
        self.pools.keep_only(&snapshot).map_err(text)?;
        self.names.commit(&snapshot.config);
        Ok(())
    }

    /// Lets the first `threads` threads accept connections from these sockets, and no other ones.
    async fn hand_out(
        &self,
        snapshot: &Snapshot,
        sockets: HashMap<String, OwnedFd>,
        threads: usize,
    ) -> Result<(), String> {
        let (accepting, others) = self.threads.split_at(threads.min(self.threads.len()));
        for (name, fd) in sockets {
            if let Some(listener) = http3::listener_of(snapshot, &name) {
                self.http3.listen(&self.threads, listener, &name, fd).map_err(text)?;
                continue;
            }
            listen(accepting, snapshot, &name, fd).map_err(text)?;
            let pause = |done| ThreadCommand::Pause { name: name.as_str().into(), done };
            send_and_wait(others, pause).await;
        }
        Ok(())
    }

    /// Closes a listening socket in all processes before it returns: its address is free then.
    async fn remove_listener(&mut self, name: &str) -> Result<(), String> {
        // A thread that has accepted a connection may have handed it to another.
        let pause = |done| ThreadCommand::Pause { name: name.into(), done };
        send_and_wait(&self.threads, pause).await;
        let remove = |done| ThreadCommand::RemoveListener { name: name.into(), done };
        send_and_wait(&self.threads, remove).await;
        self.link.send(&ToSupervisor::Unbind { address: name.to_owned() }).map_err(text)?;
        self.receive_answer(|message| match message {
            (FromSupervisor::Unbound { address }, _) if address == name => Ok(()),
            other => Err(Box::new(other)),
        })
        .await
    }
}
