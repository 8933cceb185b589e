//! HTTP/2 connections of one thread, which requests share.
//!
//! A connection carries several requests at once, up to the number that its server allows. It is
//! closed when it has carried none for some time. Threads do not share connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::connections::connection::Connection;
use crate::connections::idle_pool::PoolKey;
use crate::failure::Failure;

/// Maximum number of requests at once on a connection.
const MAX_STREAMS: usize = 100;
/// Bytes of one response that the server may send before they are used.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Bytes of all responses of a connection: responses of slow clients must not block others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * (MAX_STREAMS as u32 + 28);
/// Maximum number of bytes of a response's fields.
const MAX_HEADER_LIST_SIZE: u32 = 64 * 1024;
/// Maximum number of bytes of a request that wait for room in its window.
const SEND_BUFFER_SIZE: usize = 64 * 1024;

/// Connections by server.
#[derive(Debug, Default)]
pub struct Http2Pool(RefCell<HashMap<PoolKey, Vec<Http2Connection>>>);

/// A connection that requests share.
#[derive(Debug, Clone)]
pub struct Http2Connection {
    sender: SendRequest<Bytes>,
    state: Rc<State>,
}

#[derive(Debug)]
struct State {
    is_closed: Cell<bool>,
    active: Cell<usize>,
    /// Time of the end of the last request.
    used_at: Cell<Instant>,
    idle_timeout: Duration,
}

/// A request on a connection; counted until it is dropped.
#[derive(Debug)]
pub struct Http2Slot {
    /// Handle for the request.
    pub sender: SendRequest<Bytes>,
    state: Rc<State>,
}

impl Http2Pool {
    /// Takes a slot on a connection that has room for another request.
    pub fn take(&self, key: &PoolKey) -> Option<Http2Slot> {
        let mut pool = self.0.borrow_mut();
        pool.get_mut(key)?
            .iter()
            .find(|connection| connection.has_room())
            .map(Http2Connection::slot)
    }

    /// Keeps a new connection for further requests.
    pub fn put(&self, key: &PoolKey, connection: Http2Connection) {
        self.0.borrow_mut().entry(key.clone()).or_default().push(connection);
    }

    /// Closes connections that cannot or need not be used. Returns true if any are left.
    pub fn close_unusable(&self) -> bool {
        let mut pool = self.0.borrow_mut();
        pool.retain(|_, list| {
            list.retain(Http2Connection::is_wanted);
            !list.is_empty()
        });
        !pool.is_empty()
    }
}

impl Http2Connection {
    /// Begins to speak HTTP/2 on a new connection.
    pub async fn begin(stream: Connection, idle_timeout: Duration) -> Result<Self, Failure> {
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADER_LIST_SIZE)
            .max_send_buffer_size(SEND_BUFFER_SIZE)
            .handshake(stream)
            .await
            .map_err(|error| Failure::NotSent(error.to_string()))?;
        let state = Rc::new(State {
            is_closed: Cell::new(false),
            active: Cell::new(0),
            used_at: Cell::new(Instant::now()),
            idle_timeout,
        });
        let shared = Rc::clone(&state);
        spawn_local(async move {
            // Its requests learn the error, too.
            let _ = connection.await;
            shared.is_closed.set(true);
        });
        Ok(Http2Connection { sender, state })
    }

    /// Takes a slot.
    pub fn slot(&self) -> Http2Slot {
        self.state.active.set(self.state.active.get() + 1);
        Http2Slot { sender: self.sender.clone(), state: Rc::clone(&self.state) }
    }

    fn has_room(&self) -> bool {
        let max = self.sender.current_max_send_streams().min(MAX_STREAMS);
        !self.state.is_closed.get() && self.state.active.get() < max
    }

    fn is_wanted(&self) -> bool {
        let State { is_closed, active, used_at, idle_timeout } = &*self.state;
        !is_closed.get() && (active.get() > 0 || used_at.get().elapsed() < *idle_timeout)
    }
}

impl Drop for Http2Slot {
    fn drop(&mut self) {
        self.state.active.set(self.state.active.get().saturating_sub(1));
        self.state.used_at.set(Instant::now());
    }
}
