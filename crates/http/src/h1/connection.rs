//! The state of a connection, to which the other files add the steps of its life.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tokio::time::Instant;

use super::transport::{Io, Transport};
use super::upgrade::Upgrade;
use crate::drain::DrainRegistration;
use crate::message::ConnectionInfo;

/// A connection with its handler.
pub(super) struct Connection<I, H> {
    pub transport: RefCell<Transport<I>>,
    pub info: Arc<ConnectionInfo>,
    pub handler: H,
    pub drain: DrainRegistration,
    /// Arrival of the first byte of a head that did not arrive in one piece.
    pub started_at: Cell<Option<Instant>>,
    /// The tunnel that the connection becomes after status 101.
    pub upgrade: Cell<Option<Box<Upgrade>>>,
}

/// The next step of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for a request.
    Wait,
    /// Answer the input: a request head, or bytes that cannot become one.
    Answer,
    /// Run the tunnel.
    Tunnel,
    /// Answer 408: the head did not arrive in time.
    HeadTimeout,
    /// Answer 408: no request came.
    IdleTimeout,
    /// Report an incomplete head: the client has disconnected.
    Incomplete,
    /// Close.
    Close,
    /// Close after the client had time to read the response: it may still be sending.
    Linger,
}

impl<I: Io, H> Connection<I, H> {
    pub fn new(io: I, info: Arc<ConnectionInfo>, handler: H, drain: DrainRegistration) -> Self {
        Connection {
            transport: RefCell::new(Transport::new(io)),
            info,
            handler,
            drain,
            started_at: Cell::new(None),
            upgrade: Cell::new(None),
        }
    }
}
