//! Restarts whose outcome is awaited. They run beside changes of the configuration and beside each
//! other: an application that does not start delays no other one.

use std::time::Instant;

use tokio::sync::oneshot;

/// A restart in progress, and the receivers of its outcome.
#[derive(Debug)]
pub(super) struct AskedRestart {
    /// Name of the application.
    pub(super) name: String,
    /// Time at which it has failed.
    pub(super) deadline: Instant,
    /// The receivers of the outcome.
    pub(super) waiting: Vec<oneshot::Sender<Result<(), String>>>,
}
