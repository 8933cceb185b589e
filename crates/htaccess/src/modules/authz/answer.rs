//! Answers of requirements, and the facts about the client that they need.

use std::net::IpAddr;

use crate::query::Found;

/// Answer of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The request may continue.
    Granted,
    /// The request is refused.
    Denied,
    /// The request is refused unless a user is known.
    DeniedNoUser,
    /// The requirement does not concern the request.
    Neutral,
    /// The answer is 500.
    Error,
}

/// Results of look-ups that take time, for a whole evaluation.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// Names of the client's address that resolve to it again.
    pub hosts: Vec<Vec<u8>>,
    pub addresses: Addresses,
    /// Groups of the user in lower case; `None` if they are not known.
    pub groups: Option<Found>,
}

/// Addresses by name, as they were looked up for `Require forward-dns`.
pub(super) type Addresses = Vec<(Vec<u8>, Vec<IpAddr>)>;
