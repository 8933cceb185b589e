//! Files of caches: the supervisor opens them. One that another process still uses, as the server
//! before an upgrade does until its last request has ended, is asked for again.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_cache::store::Store;
use howdah_config::Config;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Level;
use howdah_wire::messages::ToSupervisor;

use super::control_thread::{ControlThread, text};

/// Interval at which files that are in use are asked for.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time in which everything must be written when the server ends. Otherwise the file is useless
/// after a restart of the machine.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

impl ControlThread {
    /// Asks the supervisor for the files of the stores that a configuration adds. Returns their
    /// places in the document and their paths.
    pub(super) fn ask_for_cache_files(
        &self,
        current: &Snapshot,
        config: &Config,
    ) -> Result<Vec<(String, String)>, String> {
        let mut asked = Vec::new();
        for (place, store) in config.cache_files() {
            let is_running =
                |running: &Arc<Store>| *running.config() == store && running.disk().is_some();
            if current.caches.get(&store.name).is_some_and(is_running) {
                continue;
            }
            let Some(path) = path_of(&store) else { continue };
            self.link.send(&ToSupervisor::OpenCache { path: path.clone() }).map_err(text)?;
            asked.push((place, path));
        }
        Ok(asked)
    }

    /// Gives a file to its store in the current configuration.
    pub(super) fn open_cache(&self, path: &str, file: OwnedFd) {
        let snapshot = self.shared.snapshot.load();
        let stores = snapshot.caches.values();
        let mut named = stores.filter(|store| path_of(store.config()).as_deref() == Some(path));
        let Some(store) = named.next() else { return };
        if let Err(error) = store.open_disk(File::from(file)) {
            let problem = format_args!("the file of a cache, {path}, cannot be used: {error}");
            self.shared.log.write(Level::Error, problem);
        }
    }

    /// Takes a file that was asked for again.
    pub(super) fn on_cache_opened(&self, path: &str, error: &str, file: Option<OwnedFd>) {
        match file {
            Some(file) => self.open_cache(path, file),
            None if error.is_empty() => {}
            None => {
                let snapshot = self.shared.snapshot.load();
                let mut stores = snapshot.caches.values();
                let store = stores.find(|store| path_of(store.config()).as_deref() == Some(path));
                if let Some(disk) = store.and_then(|store| store.disk()) {
                    disk.cannot_be_opened(error);
                }
            }
        }
    }

    /// Asks for files that stores do not have yet. Returns the time of the next check.
    pub(super) fn reopen_caches(&self, now: Instant) -> io::Result<Option<Instant>> {
        let snapshot = self.shared.snapshot.load();
        let mut next = None;
        for store in snapshot.caches.values() {
            if store.disk().is_none_or(|disk| disk.is_open()) {
                continue;
            }
            next = Some(now + INTERVAL);
            if let Some(path) = path_of(store.config()) {
                self.link.send(&ToSupervisor::OpenCache { path })?;
            }
        }
        Ok(next)
    }

    /// Ends the use of all files.
    pub(super) async fn close_caches(&self) {
        let stores: Vec<_> = self.shared.snapshot.load().caches.values().cloned().collect();
        let close = move || {
            let deadline = Instant::now() + CLOSE_TIMEOUT;
            for disk in stores.iter().filter_map(|store| store.disk()) {
                disk.close(deadline.saturating_duration_since(Instant::now()));
            }
        };
        let _ = tokio::task::spawn_blocking(close).await;
    }
}

fn path_of(store: &howdah_config::CacheStore) -> Option<String> {
    store.file().map(|path| path.to_string_lossy().into_owned())
}
