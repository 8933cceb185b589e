//! Requests that wait for another server to have room: so many, and for so long.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::timeout;

/// Why a request waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Too many wait already.
    QueueFull,
    /// It has waited as long as it may.
    WaitedTooLong,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::QueueFull => "the queue is full",
            Refused::WaitedTooLong => "no connection was free within the queue's time limit",
        })
    }
}

/// Counts those who wait; the order is that of what they wait for.
#[derive(Debug)]
pub struct Queue {
    waiting: AtomicU32,
    most: u32,
    patience: Option<Duration>,
}

/// A request that waits.
struct Waiting<'q>(&'q Queue);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Queue {
    /// For `most` requests, each for as long as `patience` says.
    pub fn new(most: u32, patience: Option<Duration>) -> Self {
        Queue { waiting: AtomicU32::new(0), most, patience }
    }

    /// Waits for something, if not too many wait and not for too long.
    pub async fn wait<T>(&self, what: impl Future<Output = T>) -> Result<T, Refused> {
        if self.waiting.fetch_add(1, Relaxed) >= self.most {
            self.waiting.fetch_sub(1, Relaxed);
            return Err(Refused::QueueFull);
        }
        let _waiting = Waiting(self);
        match self.patience {
            Some(patience) => timeout(patience, what).await.map_err(|_| Refused::WaitedTooLong),
            None => Ok(what.await),
        }
    }

    /// Requests that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }
}
