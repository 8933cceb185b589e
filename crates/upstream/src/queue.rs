//! Limits on the number and the time of requests that wait for a server.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
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
    /// Returns the reason with the path of the key that changes it; `owner` is the path of the
    /// object that has the key.
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
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

impl Queue {
    /// Creates a queue of at most `max_waiting` requests; without a timeout they wait forever.
    pub fn new(max_waiting: u32, timeout: Option<Duration>) -> Self {
        Queue { waiting: AtomicU32::new(0), max_waiting, timeout }
    }

    /// Waits for a future within the queue's limits.
    pub async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, QueueError> {
        // In one step: requests that are refused must not count for others, not even for a moment.
        let one_more = |waiting: u32| (waiting < self.max_waiting).then(|| waiting + 1);
        if self.waiting.fetch_update(SeqCst, SeqCst, one_more).is_err() {
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
        self.waiting.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::sync::atomic::AtomicBool;
    use std::task::{Context, Poll, Waker};
    use std::thread;

    use super::*;

    #[test]
    fn a_request_that_is_refused_does_not_count_as_waiting_meanwhile() {
        let (queue, is_over) = (Queue::new(0, None), AtomicBool::new(false));
        let counted = thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200_000 {
                    let mut refused = pin!(queue.wait(ready(())));
                    let polled = refused.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    assert_eq!(polled, Poll::Ready(Err(QueueError::Full)));
                }
                is_over.store(true, SeqCst);
            });
            let mut counted = 0;
            while !is_over.load(SeqCst) {
                counted += queue.waiting();
            }
            counted
        });
        assert_eq!(counted, 0);
    }

    #[test]
    fn a_request_that_leaves_makes_room_in_the_queue() {
        let queue = Queue::new(1, None);
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Box::pin(queue.wait(pending::<()>()));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let mut other = pin!(queue.wait(pending::<()>()));
        assert_eq!(other.as_mut().poll(&mut context), Poll::Ready(Err(QueueError::Full)));
        drop(waiting);
        assert_eq!(queue.waiting(), 0);
        assert!(pin!(queue.wait(pending::<()>())).poll(&mut context).is_pending());
    }
}
