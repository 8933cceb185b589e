//! Notices directories of the configuration that have appeared where the router may not read: its
//! rights were fixed at its start. The supervisor replaces it then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::RouterPath;
use howdah_wire::messages::ToSupervisor;
use tokio::task::{JoinHandle, spawn_blocking};

use super::control_thread::ControlThread;

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// The looks at the files of the current configuration.
#[derive(Debug, Default)]
pub(super) struct AppearanceWatch {
    /// Paths that the router may not be permitted to read, and the number of their configuration.
    candidates: Arc<[RouterPath]>,
    generation: Option<u32>,
    due: Option<Instant>,
    look: Option<JoinHandle<Option<String>>>,
    /// A replacement was asked for.
    is_reported: bool,
}

impl ControlThread {
    /// Looks, if due, for directories that have appeared and that the router may not read. Returns
    /// the time of the next look; `None` if no path needs one.
    pub(super) async fn look_for_appearances(
        &mut self,
        watch: &mut AppearanceWatch,
        now: Instant,
    ) -> std::io::Result<Option<Instant>> {
        if watch.generation != Some(self.pools.generation) {
            let snapshot = self.shared.snapshot.load();
            let paths = snapshot.config.router_paths();
            watch.candidates = self.sandbox.out_of_reach(paths).into();
            watch.generation = Some(self.pools.generation);
            watch.due = Some(now);
            watch.is_reported = false;
            watch.look = None;
        }
        if watch.candidates.is_empty() || watch.is_reported {
            return Ok(None);
        }
        if watch.due.is_some_and(|due| due > now) {
            return Ok(watch.due);
        }
        watch.due = Some(now + INTERVAL);
        match &mut watch.look {
            // Its drive does not answer.
            Some(look) if !look.is_finished() => return Ok(watch.due),
            Some(look) => {
                let found = look.await.ok().flatten();
                watch.look = None;
                // Links are followed once for each configuration.
                watch.candidates = self.sandbox.out_of_reach_by_name(&watch.candidates).into();
                if let Some(reason) = found {
                    watch.is_reported = true;
                    self.link.send(&ToSupervisor::Renew { reason })?;
                    return Ok(None);
                }
            }
            None => {}
        }
        let (sandbox, candidates) = (Arc::clone(&self.sandbox), Arc::clone(&watch.candidates));
        watch.look = Some(spawn_blocking(move || sandbox.appeared(&candidates)));
        // The result is looked at soon.
        watch.due = Some(now + Duration::from_millis(200));
        Ok(watch.due)
    }
}
