//! Result of rewriting.

/// What rules make of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No rule changed the URL: the request goes on.
    Declined,
    /// Rules applied, but the path is what it was. The request goes on; the query may have changed.
    Unchanged,
    /// The request goes on as a new request for a path and its query, inside the server.
    Internal(Vec<u8>),
    /// The answer is a redirect; `headers_out` has its `Location`.
    External(u16),
    /// The answer is a status.
    Status(u16),
}
