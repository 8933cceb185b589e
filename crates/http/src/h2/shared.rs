//! State that the streams of a connection share.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::blocks::Flaws;
use super::budget::Budget;
use super::output::Output;
use super::phase::ConnectionPhase;
use super::turns::Turns;
use crate::memory::Owner;
use crate::message::ConnectionInfo;

/// State of a connection for its streams.
pub(super) struct Shared {
    pub info: Arc<ConnectionInfo>,
    pub turns: Rc<Turns>,
    pub budget: Rc<Budget>,
    pub phase: ConnectionPhase,
    pub flaws: Rc<Flaws>,
    pub output: Output,
    /// Number of requests that count as the first of the connection.
    pub first_requests: Cell<usize>,
    /// The owner of memory that belongs to no request.
    pub owner: Owner,
}
