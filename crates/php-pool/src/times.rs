//! Times of a request.

/// Waiting and run time of a request, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Time before a worker took the request.
    pub waited: u64,
    /// Time since a worker took the request.
    pub ran: u64,
}
