//! Work that may wait for a disk, while a configuration is prepared.
//!
//! The control thread must not wait for a network drive that does not answer: the supervisor would
//! replace the router. A helper thread does, and the change is refused if it makes no progress.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::control_thread::ControlThread;
use crate::disk_progress::{DiskProgress, TIMEOUT};

/// Interval at which progress is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Reason for which work has no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DiskError {
    /// The cache's file has failed.
    Failed(String),
    /// The disk does not answer.
    NotAnswered(String),
}

impl DiskError {
    /// Returns the message.
    pub(super) fn into_text(self) -> String {
        match self {
            DiskError::Failed(problem) | DiskError::NotAnswered(problem) => problem,
        }
    }
}

impl ControlThread {
    /// Runs a function on a helper thread. Meanwhile the supervisor gets answers, and the
    /// applications get workers. A helper thread that still waits for a disk is left behind.
    pub(super) async fn on_disk<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&DiskProgress) -> Result<T, String> + Send + 'static,
    ) -> Result<T, DiskError> {
        let progress = DiskProgress::default();
        let seen = progress.clone();
        let mut working = tokio::task::spawn_blocking(move || work(&progress));
        let done = async {
            loop {
                if let Ok(done) = timeout(CHECK_INTERVAL, &mut working).await {
                    let done = done.map_err(|error| DiskError::Failed(error.to_string()))?;
                    return done.map_err(DiskError::Failed);
                }
                if let Some(place) = seen.late(Instant::now()) {
                    let seconds = TIMEOUT.as_secs();
                    return Err(DiskError::NotAnswered(format!(
                        "{place}: its file system has not answered for {seconds} s; see to the \
                         disk or network drive"
                    )));
                }
            }
        };
        self.meanwhile(done).await.map_err(DiskError::Failed)?
    }
}
