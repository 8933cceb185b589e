//! The processes of the server, as the kernel lists them: read only while somebody asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_sys::process_usage::ProcessUses;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// Minimum interval between two readings.
const MIN_INTERVAL: Duration = Duration::from_millis(900);

/// Share of the time that reading takes at most, on a machine with very many processes: one tenth.
const REST: u32 = 9;

/// The list that was read last.
#[derive(Debug, Default)]
pub(super) struct ProcessLists(Mutex<Option<Reading>>);

#[derive(Debug)]
struct Reading {
    list: Arc<ProcessUses>,
    ended_at: Instant,
    took: Duration,
}

impl ProcessLists {
    /// Returns the descendants of the supervisor, as read a moment ago. All who ask meanwhile wait
    /// for the same reading, which a helper thread does.
    pub(super) async fn list(&self) -> Arc<ProcessUses> {
        let mut last = self.0.lock().await;
        if let Some(Reading { list, ended_at, took }) = &*last
            && ended_at.elapsed() < MIN_INTERVAL.max(*took * REST)
        {
            return Arc::clone(list);
        }
        let begun_at = Instant::now();
        let list = Arc::new(spawn_blocking(read).await.unwrap_or_default());
        let took = begun_at.elapsed();
        *last = Some(Reading { list: Arc::clone(&list), ended_at: Instant::now(), took });
        list
    }
}

fn read() -> ProcessUses {
    let supervisor = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
    ProcessUses::below(supervisor)
}
