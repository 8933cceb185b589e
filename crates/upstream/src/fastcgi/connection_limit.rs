//! Limit on the connections of an application to its FastCGI servers, across all threads.

use std::sync::Arc;

use howdah_config::FastCgiLimits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::queue::{Queue, QueueError};

/// Maximum number of connections of an application, and the queue of requests that wait for one.
#[derive(Debug)]
pub struct ConnectionLimit {
    limits: FastCgiLimits,
    max: Option<usize>,
    free: Option<Arc<Semaphore>>,
    /// Limits on waiting for a connection.
    pub queue: Queue,
}

/// Permission to have a connection, until it is dropped.
#[derive(Debug)]
pub struct ConnectionPermit(
    #[expect(dead_code, reason = "held until it is dropped")] Option<OwnedSemaphorePermit>,
);

impl ConnectionLimit {
    /// Allows `max` connections; any number for `None`.
    pub fn new(limits: &FastCgiLimits, max: Option<usize>) -> Self {
        let free = max.map(|max| Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))));
        let queue = Queue::new(limits.queue, limits.queue_timeout);
        ConnectionLimit { limits: limits.clone(), max, free, queue }
    }

    /// Returns true if both have the same settings.
    pub fn has_settings_of(&self, other: &ConnectionLimit) -> bool {
        (&self.limits, self.max) == (&other.limits, other.max)
    }

    /// Waits until a connection is allowed, first come, first served.
    pub async fn acquire(&self) -> Result<ConnectionPermit, QueueError> {
        let Some(free) = &self.free else { return Ok(ConnectionPermit(None)) };
        if let Ok(permit) = Arc::clone(free).try_acquire_owned() {
            return Ok(ConnectionPermit(Some(permit)));
        }
        let permit = self.queue.wait(Arc::clone(free).acquire_owned()).await?;
        // The semaphore is never closed.
        permit.map(|permit| ConnectionPermit(Some(permit))).map_err(|_| QueueError::Timeout)
    }
}
