//! Requests that the prototype has not answered yet.
//!
//! Every report of a prototype that has loaded PHP is an answer, to a request or to the end of a
//! worker. A report without a request violates the protocol, and the number of pending requests
//! limits the number of reports.

use std::time::{Duration, Instant};

use howdah_wire::queue::WorkerId;

use crate::usage::MemoryUsage;

/// Time within which a prototype must answer, unless it waits for a processor or a disk.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Time within which a prototype that waits for a processor or a disk must answer.
pub(crate) const SLOW_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of workers that are requested at once.
pub(crate) const MAX_SPAWNS: usize = 16;

/// Maximum number of traces that are requested at once.
pub(crate) const MAX_TRACES: usize = 64;

/// A request that a prototype must answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Start a worker.
    Spawn(WorkerId),
    /// Report the stack of this worker's script; with the router's number for the request.
    Trace(WorkerId, u32),
    /// Measure these workers; with the memory usage of each when the request was sent.
    Measure(Vec<(WorkerId, Option<MemoryUsage>)>),
    /// Report the exit status of this worker.
    ExitStatus(WorkerId),
}

/// Pending requests, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests(Vec<(Request, Instant)>);

impl PendingRequests {
    /// Adds a request that has been sent.
    pub(crate) fn add(&mut self, request: Request, now: Instant) {
        self.0.push((request, now));
    }

    /// Removes and returns the first matching request; `None` if there is none.
    pub(crate) fn take(&mut self, matches: impl Fn(&Request) -> bool) -> Option<Request> {
        let index = self.0.iter().position(|(request, _)| matches(request))?;
        Some(self.0.remove(index).0)
    }

    /// Returns the number of matching requests.
    pub(crate) fn count(&self, matches: impl Fn(&Request) -> bool) -> usize {
        self.0.iter().filter(|(request, _)| matches(request)).count()
    }

    /// Returns the time at which the oldest request was sent.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.0.first().map(|(_, sent)| *sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: WorkerId = WorkerId { index: 3, incarnation: 1 };

    #[test]
    fn each_request_is_answered_once() {
        let (mut pending, now) = (PendingRequests::default(), Instant::now());
        pending.add(Request::Spawn(WORKER), now);
        pending.add(Request::ExitStatus(WORKER), now + ANSWER_TIMEOUT);
        let spawn = |request: &Request| *request == Request::Spawn(WORKER);
        assert_eq!((pending.count(spawn), pending.oldest()), (1, Some(now)));
        assert_eq!(pending.take(spawn), Some(Request::Spawn(WORKER)));
        assert_eq!(pending.take(spawn), None);
        assert_eq!(pending.oldest(), Some(now + ANSWER_TIMEOUT));
    }
}
