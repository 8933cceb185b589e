//! Times of a request.

/// Waiting and run time of a request, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Time at which the request was queued, on the monotonic clock.
    pub queued: u64,
    /// Time before a worker took the request.
    pub waited: u64,
    /// Time since a worker took the request.
    pub ran: u64,
}
