//! Results of operations on a queue.

use std::sync::Arc;
use std::time::Instant;

use howdah_http::error_status::RequestError;
use howdah_wire::queue::WorkerId;

use super::instance::Instance;

/// Reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueError {
    /// The queue is at its limit.
    QueueFull,
    /// The queue is overloaded, and the request has waited longer than clients do.
    Overloaded,
    /// No worker was free within the maximum waiting time.
    QueueTimeout,
    /// The application cannot run, for this reason.
    Stopped(String),
}

impl From<&QueueError> for RequestError {
    fn from(error: &QueueError) -> Self {
        match error {
            QueueError::QueueFull | QueueError::Overloaded | QueueError::QueueTimeout => {
                RequestError::Overloaded
            }
            QueueError::Stopped(_) => RequestError::NotRunning,
        }
    }
}

/// State of a request when it was withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withdrawal {
    /// No worker had it, and none will take it.
    NotStarted,
    /// This worker of this instance has it.
    Running(Arc<Instance>, WorkerId),
    /// The request had ended.
    Ended,
}

/// Load of an application; the number of workers depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of requests in slots: next in turn or running.
    pub in_slots: u32,
    /// Number of requests in the queue.
    pub waiting: u32,
    /// Maximum of `in_slots` since the last call of [`Queue::take_load`].
    pub peak: u32,
    /// Time of the end of the last request.
    pub last_request: Option<Instant>,
    /// Number of requests that have ended since the start.
    pub served: u64,
}
