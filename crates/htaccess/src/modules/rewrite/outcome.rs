//! Result of rewriting.

/// Result of the rules for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No rule changed the URL: the request continues.
    Declined,
    /// Rules applied, but the path is unchanged. The request continues; the query may have changed.
    Unchanged,
    /// The request continues as a new request for a path and its query, inside the server.
    Internal(Vec<u8>),
    /// The answer is a redirect; `headers_out` has its `Location`.
    External(u16),
    /// The answer is a status.
    Status(u16),
}
