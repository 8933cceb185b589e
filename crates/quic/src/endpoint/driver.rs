//! The driver of an endpoint: one task, which reads, lets the library work, and sends.
//!
//! Each turn takes what has arrived, ends what is due, and then looks at the connections that have
//! something to do: those that got a datagram, whose timer is over, or whose streams were read or
//! written. What several streams have written is sent together.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Endpoint, EndpointEvent, Incoming, Transmit, VarInt,
};
use tokio::time::{Sleep, sleep_until};

use super::connection::{Connection, State};
use super::{NewConnections, STOPPING, Shared, count, ecn};
use crate::datagram::{Arrivals, Datagram, MAX_DATAGRAM};
use crate::errors::Closed;
use crate::guard::guarded;
use crate::half_open::{Admission, HalfOpen};
use crate::options::Options;
use crate::paths::Paths;
use crate::socket::{MAX_SENT, SEND_PAUSE};
use crate::timers::Timers;

/// Batches that are read in one turn, before others of the thread have theirs.
const MAX_BATCHES: usize = 4;

/// Datagrams from other threads that are taken in one turn.
const MAX_ARRIVALS: usize = 64;

/// Connections that are looked at in one turn.
const MAX_CONNECTIONS: usize = 64;

/// Messages that one connection sends in one turn.
const MAX_MESSAGES: usize = 4;

/// The library's endpoint and its connections.
pub(crate) struct Core {
    library: Endpoint,
    new: NewConnections,
    /// By the numbers of their handles.
    connections: Vec<Option<Rc<State>>>,
    timers: Timers,
    pub(crate) half_open: HalfOpen,
    /// Number of connections that are not closed.
    open: usize,
    next_serial: u64,
    /// Memory for the next message.
    buffer: Vec<u8>,
}

impl Core {
    pub(crate) fn new(library: Endpoint, new: NewConnections) -> Core {
        Core {
            library,
            new,
            connections: Vec::new(),
            timers: Timers::default(),
            half_open: HalfOpen::default(),
            open: 0,
            next_serial: 0,
            buffer: Vec::new(),
        }
    }

    /// Returns the number of connections that are not closed.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    fn get(&self, handle: ConnectionHandle) -> Option<Rc<State>> {
        self.connections.get(handle.0)?.clone()
    }
}

/// Drives an endpoint until it is dropped and what closes its connections is sent.
pub(crate) async fn run(shared: Rc<Shared>, mut arrivals: Arrivals) {
    let mut timer = Box::pin(sleep_until(Instant::now().into()));
    poll_fn(|cx| shared.poll(&mut arrivals, timer.as_mut(), cx)).await;
}

impl Shared {
    /// Does the work of one turn. Ready at the end of the endpoint.
    fn poll(
        self: &Rc<Self>,
        arrivals: &mut Arrivals,
        timer: Pin<&mut Sleep>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        self.is_running.set(true);
        let turn = self.take_turn(arrivals, timer, cx);
        self.is_running.set(false);
        if turn.is_pending() {
            self.driver.set(Some(cx.waker().clone()));
        }
        turn
    }

    fn take_turn(
        self: &Rc<Self>,
        arrivals: &mut Arrivals,
        mut timer: Pin<&mut Sleep>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            let now = Instant::now();
            if self.is_over.get() {
                self.close_all(now);
            }
            let mut has_more = self.receive(arrivals, now, cx);
            self.on_timeouts(now);
            // Nobody waits for it before.
            let proofs_until = self.proofs_until.get().filter(|_| self.is_stopped());
            if proofs_until.is_some_and(|until| until <= now) {
                self.proofs_until.take();
                self.wake_acceptor();
            }
            let is_blocked = self.socket.is_blocked() && !self.socket.retry();
            if !is_blocked {
                has_more |= self.look_at_connections(now);
            }
            if self.core.borrow().open == 0
                && let Some(waker) = self.idle.take()
            {
                waker.wake();
            }
            if self.is_over.get() && !has_more && !is_blocked {
                return Poll::Ready(());
            }
            if has_more {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let core = self.core.borrow();
            let due = core.timers.next().into_iter().chain(core.half_open.next());
            let due = due.chain(proofs_until.filter(|until| *until > now));
            let Some(due) = due.chain(is_blocked.then(|| now + SEND_PAUSE)).min() else {
                return Poll::Pending;
            };
            drop(core);
            if timer.deadline() != due.into() {
                timer.as_mut().reset(due.into());
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Takes what has arrived. Returns true if there may be more.
    fn receive(
        self: &Rc<Self>,
        arrivals: &mut Arrivals,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> bool {
        let mut taken = 0;
        while taken < MAX_ARRIVALS
            && let Poll::Ready(Some(datagram)) = arrivals.0.poll_recv(cx)
        {
            count(&self.counters.received);
            self.handle(datagram, now);
            taken += 1;
        }
        for _ in 0..MAX_BATCHES {
            let received = self.socket.poll_receive(cx, |meta, bytes| {
                if meta.stride == 0 {
                    return; // an empty datagram
                }
                let (remote, local) = (meta.addr, meta.dst_ip);
                let mut bytes = BytesMut::from(bytes);
                while !bytes.is_empty() {
                    let data = bytes.split_to(meta.stride.min(bytes.len()));
                    let ecn = meta.ecn.map(|ecn| ecn as u8);
                    self.route(Datagram { remote, local, ecn, data }, now);
                }
            });
            if received.is_pending() {
                return taken == MAX_ARRIVALS;
            }
        }
        true
    }

    /// Handles a datagram here, or passes it to the thread or the process that has its connection. A
    /// longer one than clients may send is lost.
    fn route(self: &Rc<Self>, datagram: Datagram, now: Instant) {
        if datagram.data.len() > MAX_DATAGRAM.into() {
            return;
        }
        let here = match self.keys.target(&datagram.data) {
            Some(target) => (self.route)(target, datagram),
            None => Some(datagram),
        };
        match here {
            Some(datagram) => {
                count(&self.counters.received);
                self.handle(datagram, now);
            }
            None => count(&self.counters.forwarded),
        }
    }

    /// Lets the library handle a datagram.
    fn handle(self: &Rc<Self>, datagram: Datagram, now: Instant) {
        let Datagram { remote, local, ecn: bits, data } = datagram;
        let length = data.len() as u64;
        let core = &mut *self.core.borrow_mut();
        let mut buffer = std::mem::take(&mut core.buffer);
        buffer.clear();
        let (library, ecn) = (&mut core.library, ecn(bits));
        let event = guarded(|| library.handle(now, remote, local, ecn, data, &mut buffer));
        match event {
            None => count(&self.counters.panics),
            Some(None) => {}
            Some(Some(DatagramEvent::Response(transmit))) => buffer = self.send(transmit, buffer),
            Some(Some(DatagramEvent::NewConnection(incoming))) => {
                buffer = self.admit(core, incoming, length, now, buffer);
            }
            Some(Some(DatagramEvent::ConnectionEvent(handle, event))) => {
                if let Some(state) = core.get(handle) {
                    state.paths.borrow_mut().count_received(remote, length);
                    self.with(core, &state, |library| library.handle_event(event));
                    self.follow(&state);
                    state.touch();
                }
            }
        }
        core.buffer = buffer;
    }

    /// Sends a message that is of no connection, unless others wait: the sender repeats its question.
    fn send(&self, transmit: Transmit, buffer: Vec<u8>) -> Vec<u8> {
        if self.socket.is_blocked() { buffer } else { self.socket.send(transmit, buffer) }
    }

    /// Decides on a new client. Returns the buffer.
    fn admit(
        self: &Rc<Self>,
        core: &mut Core,
        incoming: Incoming,
        length: u64,
        now: Instant,
        mut buffer: Vec<u8>,
    ) -> Vec<u8> {
        let (remote, is_proven) = (incoming.remote_address(), incoming.remote_address_validated());
        // A client that proves its address has begun before the endpoint was stopped.
        let is_admitted = is_proven || !self.is_stopped();
        let options = if is_admitted { (self.options)() } else { None };
        let config = options.as_ref().and_then(|options| core.new.library(options).ok());
        let (options, config, admission) = match options.zip(config) {
            Some((options, config)) => {
                let admission = core.half_open.admit(remote, is_proven, options.retry);
                (options, Some(config), admission)
            }
            None => (Options::default(), None, Admission::Ignore),
        };
        let library = &mut core.library;
        match admission {
            Admission::Ignore => {
                count(&self.counters.ignored);
                let _ = guarded(|| library.ignore(incoming));
            }
            Admission::Retry => {
                count(&self.counters.retried);
                self.proofs_until.set(Some(now + STOPPING));
                let retried = guarded(|| library.retry(incoming, &mut buffer));
                match retried {
                    Some(Ok(transmit)) => buffer = self.send(transmit, buffer),
                    // It has a token, which does not prove its address.
                    Some(Err(error)) => {
                        let _ = guarded(|| library.ignore(error.into_incoming()));
                    }
                    None => count(&self.counters.panics),
                }
            }
            Admission::Accept => {
                let accepted =
                    || library.accept(incoming, now, &mut buffer, config).map_err(Box::new);
                match guarded(accepted) {
                    Some(Ok((handle, connection))) => {
                        let paths = Paths::new(remote, length, is_proven);
                        let deadline = now + options.handshake_timeout;
                        let deadline =
                            self.stops_at.get().map_or(deadline, |end| end.min(deadline));
                        self.add(core, handle, connection, paths, deadline);
                    }
                    Some(Err(error)) => {
                        count(&self.counters.failed);
                        if let Some(transmit) = error.response {
                            buffer = self.send(transmit, buffer);
                        }
                    }
                    None => count(&self.counters.panics),
                }
            }
        }
        buffer
    }

    /// Adds a connection whose handshake has begun.
    fn add(
        self: &Rc<Self>,
        core: &mut Core,
        handle: ConnectionHandle,
        connection: quinn_proto::Connection,
        paths: Paths,
        deadline: Instant,
    ) {
        let serial = core.next_serial;
        core.next_serial += 1;
        core.open += 1;
        if core.connections.len() <= handle.0 {
            core.connections.resize(handle.0 + 1, None);
        }
        let state = State::new(connection, handle, serial, paths, self);
        core.half_open.add(state.proven, deadline, handle.0, serial);
        core.connections[handle.0] = Some(Rc::clone(&state));
        state.touch();
    }

    /// Calls the library for a connection. One that makes it panic is removed.
    fn with<T>(
        &self,
        core: &mut Core,
        state: &Rc<State>,
        call: impl FnOnce(&mut quinn_proto::Connection) -> T,
    ) -> Option<T> {
        let called = guarded(|| call(&mut state.library.borrow_mut()));
        if called.is_none() {
            count(&self.counters.panics);
            state.end(Closed::Failed);
            self.remove(core, state);
        }
        called
    }

    /// Forgets a connection, after its end or a panic.
    fn remove(&self, core: &mut Core, state: &Rc<State>) {
        let slot = core.connections.get_mut(state.handle.0);
        let Some(slot) =
            slot.filter(|slot| slot.as_ref().is_some_and(|one| Rc::ptr_eq(one, state)))
        else {
            return;
        };
        *slot = None;
        core.timers.remove(state.handle.0);
        state.end(Closed::Failed);
        self.count_end(core, state);
        let library = &mut core.library;
        let _ = guarded(|| library.handle_event(state.handle, EndpointEvent::drained()));
    }

    /// Counts a connection that has ended as closed, once.
    fn count_end(&self, core: &mut Core, state: &State) {
        if state.is_counted.replace(false) {
            core.open -= 1;
        }
        if state.is_half_open.replace(false) {
            count(&self.counters.failed);
            core.half_open.remove(state.proven);
            self.wake_acceptor();
        }
    }

    /// Takes over the address that the library uses for a connection.
    fn follow(&self, state: &State) {
        let library = state.library.borrow();
        if !library.is_handshaking() {
            let mut paths = state.paths.borrow_mut();
            paths.follow(library.remote_address(), || library.stats());
        }
    }

    fn on_timeouts(self: &Rc<Self>, now: Instant) {
        let core = &mut *self.core.borrow_mut();
        while let Some(number) = core.timers.take_due(now) {
            if let Some(state) = core.get(ConnectionHandle(number)) {
                self.with(core, &state, |library| library.handle_timeout(now));
                self.follow(&state);
                state.touch();
            }
        }
        while let Some((number, serial)) = core.half_open.take_due(now) {
            let state = core.get(ConnectionHandle(number)).filter(|one| one.serial == serial);
            if let Some(state) = state.filter(|state| state.is_half_open.get()) {
                self.with(core, &state, |library| {
                    library.close(now, VarInt::from_u32(0), [][..].into())
                });
                state.end(Closed::TimedOut);
                state.touch();
            }
        }
    }

    /// Closes all connections, at the end of the endpoint.
    fn close_all(&self, now: Instant) {
        let core = &mut *self.core.borrow_mut();
        let states: Vec<_> = core.connections.iter().flatten().cloned().collect();
        for state in states.into_iter().filter(|state| state.closed.borrow().is_none()) {
            self.with(core, &state, |library| {
                library.close(now, VarInt::from_u32(0), [][..].into())
            });
            state.end(Closed::Locally);
            state.touch();
        }
    }

    /// Looks at connections that have something to do. Returns true if there are more.
    fn look_at_connections(self: &Rc<Self>, now: Instant) -> bool {
        for _ in 0..MAX_CONNECTIONS {
            let Some(state) = self.dirty.borrow_mut().pop_front() else { return false };
            state.is_dirty.set(false);
            if self.look_at(&state, now) {
                state.touch();
            }
            if self.socket.is_blocked() {
                return false;
            }
        }
        !self.dirty.borrow().is_empty()
    }

    /// Lets a connection tell its events and send. Returns true if it has more to send.
    fn look_at(self: &Rc<Self>, state: &Rc<State>, now: Instant) -> bool {
        let core = &mut *self.core.borrow_mut();
        if core.get(state.handle).is_none_or(|known| !Rc::ptr_eq(&known, state)) {
            return false;
        }
        if *state.closed.borrow() == Some(Closed::Failed) {
            self.remove(core, state);
            return false;
        }
        self.take_events(core, state);
        let has_more = self.transmit(core, state, now);
        // What was sent may have caused some.
        self.take_events(core, state);
        if core.connections.get(state.handle.0).is_some_and(Option::is_some) {
            let deadline = self.with(core, state, |library| library.poll_timeout()).flatten();
            core.timers.set(state.handle.0, deadline);
        }
        has_more
    }

    fn take_events(self: &Rc<Self>, core: &mut Core, state: &Rc<State>) {
        while let Some(event) =
            self.with(core, state, |library| library.poll_endpoint_events()).flatten()
        {
            if event.is_drained() {
                self.remove(core, state);
                return;
            }
            let library = &mut core.library;
            match guarded(|| library.handle_event(state.handle, event)) {
                Some(Some(answer)) => {
                    self.with(core, state, |library| library.handle_event(answer));
                }
                Some(None) => {}
                None => count(&self.counters.panics),
            }
        }
        while let Some(event) = self.with(core, state, |library| library.poll()).flatten() {
            if matches!(event, quinn_proto::Event::Connected) {
                self.complete(core, state);
            }
            state.on_event(event);
        }
        if state.closed.borrow().is_some() {
            self.count_end(core, state);
        }
    }

    /// The handshake of a connection is complete.
    fn complete(self: &Rc<Self>, core: &mut Core, state: &Rc<State>) {
        if state.is_half_open.replace(false) {
            core.half_open.remove(state.proven);
            state.paths.borrow_mut().prove();
            self.accepted.borrow_mut().push_back(Connection(Rc::clone(state)));
            self.wake_acceptor();
        }
    }

    /// Sends what a connection has to send. Returns true if there is more.
    fn transmit(&self, core: &mut Core, state: &Rc<State>, now: Instant) -> bool {
        for _ in 0..MAX_MESSAGES {
            let mut buffer = std::mem::take(&mut core.buffer);
            buffer.clear();
            let message = self
                .with(core, state, |library| next_message(self, state, library, now, &mut buffer));
            let Some(Some((transmit, is_allowed))) = message else {
                core.buffer = buffer;
                return false;
            };
            core.buffer = if is_allowed { self.socket.send(transmit, buffer) } else { buffer };
            if self.socket.is_blocked() {
                return true;
            }
        }
        true
    }
}

/// Returns the next message of a connection, and whether it may be sent.
fn next_message(
    shared: &Shared,
    state: &State,
    library: &mut quinn_proto::Connection,
    now: Instant,
    buffer: &mut Vec<u8>,
) -> Option<(Transmit, bool)> {
    state.adapt_send_window(library);
    let mtu = library.current_mtu();
    let max = shared.socket.segments().min(MAX_SENT / usize::from(mtu.max(1))).max(1);
    let mut paths = state.paths.borrow_mut();
    let datagrams = paths.datagrams(max, mtu);
    if datagrams == 0 {
        return None;
    }
    let before = paths.is_unproven().then(|| library.stats());
    let transmit = library.poll_transmit(now, datagrams, buffer)?;
    let is_allowed = paths.count_sent(transmit.destination, transmit.size as u64);
    if let Some(before) = before.filter(|_| transmit.destination == library.remote_address())
        && !state.is_half_open.get()
        && !library.is_closed()
    {
        paths.learn(&before, &library.stats());
    }
    Some((transmit, is_allowed))
}
