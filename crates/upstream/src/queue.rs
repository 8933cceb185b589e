//! Limits on the number and the time of requests that wait for a server.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::timeout;

/// Reason why a request stops waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueError {
    /// The maximum number of requests is waiting already.
    Full,
    /// The request has waited for the queue's timeout.
    Timeout,
}

impl QueueError {
    /// Returns the reason with the path of the key that changes it; `owner` is the path of the object that
    /// has the key.
    pub fn with_key(self, owner: &str) -> String {
        match self {
            QueueError::Full => format!("the queue is full ({owner}/queue)"),
            QueueError::Timeout => {
                format!(
                    "no connection was free within the queue's time limit ({owner}/queue_timeout)"
                )
            }
        }
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueueError::Full => "the queue is full",
            QueueError::Timeout => "no connection was free within the queue's time limit",
        })
    }
}

/// Counts waiting requests. The awaited future determines the order in which they continue.
#[derive(Debug)]
pub struct Queue {
    waiting: AtomicU32,
    max_waiting: u32,
    timeout: Option<Duration>,
}

/// Counts one request as waiting until it is dropped.
struct Waiting<'q>(&'q Queue);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Queue {
    /// Creates a queue of at most `max_waiting` requests; without a timeout they wait forever.
    pub fn new(max_waiting: u32, timeout: Option<Duration>) -> Self {
        Queue { waiting: AtomicU32::new(0), max_waiting, timeout }
    }

    /// Waits for a future within the queue's limits.
    pub async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, QueueError> {
        if self.waiting.fetch_add(1, Relaxed) >= self.max_waiting {
            self.waiting.fetch_sub(1, Relaxed);
            return Err(QueueError::Full);
        }
        let _waiting = Waiting(self);
        match self.timeout {
            Some(limit) => timeout(limit, future).await.map_err(|_| QueueError::Timeout),
            None => Ok(future.await),
        }
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }
}
