//! State of a connection for its streams.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::cost;
use super::error::{Code, ConnectionError};
use super::frames::Frame;
use super::transport::Transport;
use crate::message::ConnectionInfo;
use crate::streams::Shared;

/// A connection.
pub(super) struct Connection<T> {
    pub transport: T,
    pub shared: Rc<Shared>,
    /// Id of the first request that was not accepted.
    pub next_id: Cell<u64>,
    info: RefCell<Arc<ConnectionInfo>>,
    /// The error for which it was closed.
    error: Cell<Option<ConnectionError>>,
}

impl<T: Transport> Connection<T> {
    pub fn new(transport: T, shared: Rc<Shared>, info: Arc<ConnectionInfo>) -> Rc<Self> {
        let (info, error) = (RefCell::new(info), Cell::new(None));
        Rc::new(Connection { transport, shared, next_id: Cell::new(0), info, error })
    }

    /// Returns facts about the connection. After a change of the client's address, they are those of
    /// the new one.
    pub fn info(&self) -> Arc<ConnectionInfo> {
        let mut info = self.info.borrow_mut();
        let remote = self.transport.remote();
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
        if info.peer != Some(remote) {
            *info = Arc::new(ConnectionInfo { peer: Some(remote), ..(**info).clone() });
        }
        Arc::clone(&info)
    }

    /// Closes the connection, because the client has made a mistake or misbehaves. The first reason
    /// counts.
    pub fn fail(&self, error: ConnectionError) {
        if self.error.get().is_none() {
            self.error.set(Some(error));
            self.transport.close(error.code.number(), error.reason);
        }
    }

    /// Closes the connection without an error.
    pub fn close(&self) {
        self.transport.close(Code::NoError.number(), "");
    }

    /// Returns the error for which the connection was closed.
    pub fn error(&self) -> Option<ConnectionError> {
        self.error.get()
    }

    /// Subtracts the cost of a frame from the budget.
    pub fn spend(&self, frame: Frame) {
        cost::spend_frame(&self.shared.budget, frame);
    }
}
