//! State that the streams of a connection share.

use std::cell::Cell;
use std::rc::Rc;

use super::budget::Budget;
use super::phase::ConnectionPhase;
use super::turns::Turns;
use crate::memory::Owner;

/// State of a connection for its streams.
pub(crate) struct Shared {
    pub turns: Rc<Turns>,
    pub budget: Rc<Budget>,
    pub phase: ConnectionPhase,
    /// Number of requests that count as the first of the connection.
    pub first_requests: Cell<usize>,
    /// The owner of memory that belongs to no request.
    pub owner: Owner,
}
