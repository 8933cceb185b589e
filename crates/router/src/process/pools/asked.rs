//! Restarts that somebody waits for. They run beside changes of the configuration and beside each
//! other: one application that does not start holds nothing else up.

use std::time::Instant;

use tokio::sync::oneshot;

/// A restart in progress, and who waits for its outcome.
#[derive(Debug)]
pub(super) struct AskedRestart {
    /// Name of the application.
    pub(super) name: String,
    /// Time at which it has failed.
    pub(super) deadline: Instant,
    /// Those who wait.
    pub(super) waiting: Vec<oneshot::Sender<Result<(), String>>>,
}
