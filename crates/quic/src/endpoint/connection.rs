//! A connection whose handshake is complete, for the task that serves it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{ConnectionHandle, Dir, Event, StreamEvent, StreamId, VarInt};

use super::stream::{Recv, Send};
use super::{SEND_WINDOW, Shared, count};
use crate::errors::Closed;
use crate::guard::guarded;
use crate::paths::Paths;
use crate::tls::Handshake;

/// Bytes that are written and not acknowledged, at most: those of 40 ms with 1 Gbit/s.
const MAX_SEND_WINDOW: u64 = 4 << 20;

/// A connection. Copies are the same connection; it goes on when all are dropped.
#[derive(Clone)]
pub struct Connection(pub(crate) Rc<State>);

/// State of a connection that the driver, the connection and its streams share.
pub(crate) struct State {
    pub(crate) library: RefCell<quinn_proto::Connection>,
    pub(crate) handle: ConnectionHandle,
    /// Distinguishes the connections that have had this handle.
    pub(crate) serial: u64,
    pub(crate) paths: RefCell<Paths>,
    /// Address that the handshake began from, if the client had proved it.
    pub(crate) proven: Option<SocketAddr>,
    /// The connection is counted as open.
    pub(crate) is_counted: Cell<bool>,
    /// The handshake is not complete.
    pub(crate) is_half_open: Cell<bool>,
    /// The connection is in the driver's list.
    pub(crate) is_dirty: Cell<bool>,
    pub(crate) closed: RefCell<Option<Closed>>,
    pub(crate) wakers: RefCell<Wakers>,
    /// Number of finished streams that the peer has not acknowledged whole.
    pub(crate) unacknowledged: Cell<usize>,
    /// The window for sending, as the library knows it.
    send_window: Cell<u64>,
    shared: Weak<Shared>,
    local: SocketAddr,
}

/// Tasks that wait for something to happen.
#[derive(Default)]
pub(crate) struct Wakers {
    accept: [Option<Waker>; 2],
    open: Option<Waker>,
    acknowledged: Option<Waker>,
    closed: Vec<Waker>,
    pub(crate) readers: HashMap<StreamId, Waker>,
    pub(crate) writers: HashMap<StreamId, Waker>,
    pub(crate) stopped: HashMap<StreamId, Waker>,
}

impl State {
    pub(crate) fn new(
        library: quinn_proto::Connection,
        handle: ConnectionHandle,
        serial: u64,
        paths: Paths,
        shared: &Rc<Shared>,
    ) -> Rc<State> {
        let mut local = shared.socket.local();
        if let Some(ip) = library.local_ip() {
            local.set_ip(ip);
        }
        Rc::new(State {
            library: RefCell::new(library),
            handle,
            serial,
            proven: (!paths.is_unproven()).then(|| paths.known()),
            paths: RefCell::new(paths),
            is_counted: Cell::new(true),
            is_half_open: Cell::new(true),
            is_dirty: Cell::new(false),
            closed: RefCell::new(None),
            wakers: RefCell::default(),
            unacknowledged: Cell::new(0),
            send_window: Cell::new(SEND_WINDOW),
            shared: Rc::downgrade(shared),
            local,
        })
    }

    /// Lets the driver look at this connection in its next turn.
    pub(crate) fn touch(self: &Rc<Self>) {
        if self.is_dirty.replace(true) {
            return;
        }
        if let Some(shared) = self.shared.upgrade() {
            shared.dirty.borrow_mut().push_back(Rc::clone(self));
            shared.wake();
        }
    }

    /// Calls the library for a stream or the connection. Error: the connection has ended.
    pub(crate) fn call<T>(
        self: &Rc<Self>,
        call: impl FnOnce(&mut quinn_proto::Connection) -> T,
    ) -> Result<T, Closed> {
        if let Some(closed) = &*self.closed.borrow() {
            return Err(closed.clone());
        }
        guarded(|| call(&mut self.library.borrow_mut())).ok_or_else(|| {
            if let Some(shared) = self.shared.upgrade() {
                count(&shared.counters.panics);
            }
            self.end(Closed::Failed);
            self.touch();
            Closed::Failed
        })
    }

    /// Records the end of the connection and wakes all tasks that wait for something.
    pub(crate) fn end(&self, reason: Closed) {
        self.closed.borrow_mut().get_or_insert(reason);
        let Wakers { accept, open, acknowledged, closed, readers, writers, stopped } =
            self.wakers.take();
        let streams = [readers, writers, stopped].into_iter().flat_map(HashMap::into_values);
        let others = accept.into_iter().flatten().chain(open).chain(acknowledged).chain(closed);
        others.chain(streams).for_each(Waker::wake);
    }

    /// Tells tasks of an event.
    pub(crate) fn on_event(&self, event: Event) {
        let mut wakers = self.wakers.borrow_mut();
        let waker = match event {
            Event::ConnectionLost { reason } => {
                drop(wakers);
                return self.end(reason.into());
            }
            Event::Stream(StreamEvent::Opened { dir }) => wakers.accept[dir as usize].take(),
            Event::Stream(StreamEvent::Readable { id }) => wakers.readers.remove(&id),
            Event::Stream(StreamEvent::Writable { id }) => wakers.writers.remove(&id),
            Event::Stream(StreamEvent::Stopped { id, .. }) => {
                wakers.writers.remove(&id).into_iter().for_each(Waker::wake);
                wakers.stopped.remove(&id)
            }
            Event::Stream(StreamEvent::Available { dir: Dir::Uni }) => wakers.open.take(),
            Event::Stream(StreamEvent::Finished { .. }) => {
                self.unacknowledged.set(self.unacknowledged.get().saturating_sub(1));
                wakers.acknowledged.take()
            }
            Event::Stream(StreamEvent::Available { .. })
            | Event::Connected
            | Event::HandshakeDataReady
            | Event::DatagramReceived
            | Event::DatagramsUnblocked => None,
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Adapts the window for sending to the path: a slow reader must not hold much memory, and a
    /// fast one far away needs much.
    pub(crate) fn adapt_send_window(&self, library: &mut quinn_proto::Connection) {
        let window = (2 * library.congestion_state().window()).clamp(SEND_WINDOW, MAX_SEND_WINDOW);
        let before = self.send_window.get();
        if window > before || window < before / 2 {
            library.set_send_window(window);
            self.send_window.set(window);
        }
    }
}

impl Connection {
    /// Returns the address of the peer that is proven; a new one only after it has been.
    pub fn remote(&self) -> SocketAddr {
        self.0.paths.borrow().known()
    }

    /// Returns the address that the peer has connected to.
    pub fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// Returns the facts about the handshake; `None` if the connection has failed.
    pub fn handshake(&self) -> Option<Handshake> {
        let data =
            guarded(|| self.0.library.borrow().crypto_session().handshake_data()).flatten()?;
        data.downcast().ok().map(|handshake| *handshake)
    }

    /// Returns the next stream in both directions that the peer has opened.
    pub async fn accept_bi(&self) -> Result<(Send, Recv), Closed> {
        poll_fn(|cx| self.poll_accept_bi(cx)).await
    }

    /// As [`Connection::accept_bi`]. One task may wait.
    pub fn poll_accept_bi(&self, cx: &mut Context<'_>) -> Poll<Result<(Send, Recv), Closed>> {
        self.poll_accept(Dir::Bi, cx)
            .map_ok(|id| (Send::new(Rc::clone(&self.0), id), Recv::new(Rc::clone(&self.0), id)))
    }

    /// Returns the next stream in one direction that the peer has opened.
    pub async fn accept_uni(&self) -> Result<Recv, Closed> {
        poll_fn(|cx| self.poll_accept_uni(cx)).await
    }

    /// As [`Connection::accept_uni`]. One task may wait.
    pub fn poll_accept_uni(&self, cx: &mut Context<'_>) -> Poll<Result<Recv, Closed>> {
        self.poll_accept(Dir::Uni, cx).map_ok(|id| Recv::new(Rc::clone(&self.0), id))
    }

    fn poll_accept(&self, dir: Dir, cx: &mut Context<'_>) -> Poll<Result<StreamId, Closed>> {
        match self.0.call(|library| library.streams().accept(dir)) {
            Ok(Some(id)) => {
                self.0.touch();
                Poll::Ready(Ok(id))
            }
            Ok(None) => {
                self.0.wakers.borrow_mut().accept[dir as usize] = Some(cx.waker().clone());
                Poll::Pending
            }
            Err(closed) => Poll::Ready(Err(closed)),
        }
    }

    /// Opens a stream in one direction, once the peer permits another one.
    pub async fn open_uni(&self) -> Result<Send, Closed> {
        poll_fn(|cx| self.poll_open_uni(cx)).await
    }

    /// As [`Connection::open_uni`]. One task may wait.
    pub fn poll_open_uni(&self, cx: &mut Context<'_>) -> Poll<Result<Send, Closed>> {
        match self.0.call(|library| library.streams().open(Dir::Uni)) {
            Ok(Some(id)) => Poll::Ready(Ok(Send::new(Rc::clone(&self.0), id))),
            Ok(None) => {
                self.0.wakers.borrow_mut().open = Some(cx.waker().clone());
                Poll::Pending
            }
            Err(closed) => Poll::Ready(Err(closed)),
        }
    }

    /// Waits until the peer has acknowledged all that was written to finished streams, or the connection
    /// has ended: to close it loses nothing then. One task may wait.
    pub fn poll_acknowledged(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.unacknowledged.get() == 0 || self.0.closed.borrow().is_some() {
            return Poll::Ready(());
        }
        self.0.wakers.borrow_mut().acknowledged = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns the smoothed time of a round trip.
    pub fn rtt(&self) -> Duration {
        self.0.call(|library| library.rtt()).unwrap_or_default()
    }

    /// Closes the connection with a code of the application's protocol. All its streams end.
    pub fn close(&self, code: u64, reason: &[u8]) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let reason = Bytes::copy_from_slice(reason);
        if self.0.call(|library| library.close(Instant::now(), code, reason)).is_ok() {
            self.0.end(Closed::Locally);
            self.0.touch();
        }
    }

    /// Returns the reason for which the connection has ended, if it has.
    pub fn ended(&self) -> Option<Closed> {
        self.0.closed.borrow().clone()
    }

    /// Waits for the end of the connection.
    pub async fn closed(&self) -> Closed {
        poll_fn(|cx| self.poll_closed(cx)).await
    }

    /// As [`Connection::closed`].
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<Closed> {
        if let Some(closed) = &*self.0.closed.borrow() {
            return Poll::Ready(closed.clone());
        }
        let mut wakers = self.0.wakers.borrow_mut();
        if !wakers.closed.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.closed.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
