//! Signals that end connections: to all connections of a listener on a thread (drain), or to a
//! single one (eviction).
//!
//! A connection has a [`DrainRegistration`]. After [`Drain::start`] it closes when it is idle,
//! otherwise after its current response. The registry has one waker per connection, not per wait,
//! so that waiting for a request has no extra cost.
//!
//! After [`Drain::hand_over`] another server accepts new connections, and there is time: an idle
//! connection waits for one more request, whose response closes it. A client that has just sent a
//! request on an idle connection therefore gets its response.
//!
//! The same time is given before this server itself accepts no more connections: those that are new
//! wait for their first request.
//!
//! The registry also has the [`Phase`] of each connection. When descriptors run short, connections
//! that wait for their client are evicted ([`crate::eviction`]): an evicted connection is woken and
//! closes itself, unless a request has arrived meanwhile.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::{spawn_local, yield_now};
use tokio::time::Instant;

use crate::eviction::{Candidate, Client};

/// Time for the first request of a connection after the drain signal: the connection was accepted,
/// and its request may be on the way.
pub(crate) const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// State of a connection as far as eviction is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A request is being processed. Also the initial phase.
    Busy,
    /// Waits for the rest of a request: handshake, head or body.
    Incomplete,
    /// Waits for the next request, or for the client to close the connection.
    Idle,
    /// Must close itself.
    Evicted,
}

/// Instruction to a waiting connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Keep waiting.
    None,
    /// Close when idle ([`Drain::start`]).
    Drain,
    /// Close, even if a part of a request was received.
    Evict,
}

/// The signal and the registry of the connections that it applies to.
#[derive(Clone, Default)]
pub struct Drain(Rc<Shared>);

#[derive(Default)]
struct Shared {
    started: Cell<bool>,
    handed_over: Cell<Option<HandedOver>>,
    count: Cell<usize>,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<usize>>,
    empty: RefCell<Option<Waker>>,
}

/// Deadlines of connections after [`Drain::hand_over`].
#[derive(Debug, Clone, Copy)]
pub struct HandedOver {
    /// Time until which an idle connection waits for its last request.
    pub idle_until: Instant,
    /// Time until which a tunnel may continue; `None` without a limit.
    pub tunnels_until: Option<Instant>,
    /// This server itself still accepts connections until `idle_until`, when the signal is started
    /// once more.
    pub is_accepting: bool,
}

/// Entry of an open connection.
#[derive(Default)]
struct Slot {
    waker: Option<Waker>,
    client: Client,
    mark: Mark,
}

/// A phase, in the two lowest bits, and the number of phases that began before it on this thread.
#[derive(Clone, Copy, Default)]
struct Mark(u64);

thread_local! {
    static BEGINNINGS: Cell<u64> = const { Cell::new(0) };
}

impl Mark {
    /// Creates a mark for a phase that begins now.
    fn new(phase: Phase) -> Self {
        let now = BEGINNINGS.get();
        BEGINNINGS.set(now + 1);
        Mark(now << 2 | phase as u64)
    }

    fn phase(self) -> Phase {
        match self.0 & 3 {
            0 => Phase::Busy,
            1 => Phase::Incomplete,
            2 => Phase::Idle,
            _ => Phase::Evicted,
        }
    }

    fn since(self) -> u64 {
        self.0 >> 2
    }
}

impl Slot {
    /// Stores the waker of the connection's task.
    fn register(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
    }

    /// Enters a waiting phase, unless the connection is in it already or is evicted.
    fn wait(&mut self, phase: Phase) {
        let now = self.mark.phase();
        if now != phase && now != Phase::Evicted {
            self.mark = Mark::new(phase);
        }
    }
}

impl Drain {
    /// Creates a signal that is not started, with no connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a connection until the result is dropped.
    pub fn register(&self) -> DrainRegistration {
        let slot = self.0.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut slots = self.0.slots.borrow_mut();
            slots.push(Slot::default());
            slots.len() - 1
        });
        self.0.count.set(self.0.count.get() + 1);
        DrainRegistration { shared: Rc::clone(&self.0), slot }
    }

    /// Starts the signal for all connections, including later ones.
    pub fn start(&self) {
        self.0.started.set(true);
        let mut slots = self.0.slots.borrow_mut();
        let wakers: Vec<_> = slots.iter_mut().filter_map(|slot| slot.waker.take()).collect();
        drop(slots);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Starts the signal; another server accepts the connections that come from now on.
    pub fn hand_over(&self, deadlines: HandedOver) {
        self.0.handed_over.set(Some(deadlines));
        self.start();
    }

    /// Waits, after the start, until the idle connections have closed, so that none accepts a
    /// request that is sent later. A connection may have to be polled several times for that: for
    /// the end of its handshake, for the signal, and for a last read of its socket.
    pub async fn idle_closed(&self) {
        for _ in 0..3 {
            yield_now().await; // the runtime polls its sockets
            let _ = spawn_local(async {}).await; // after all tasks that are ready
        }
    }

    /// Lists the connections that may be evicted.
    pub fn waiting(&self) -> Vec<Candidate<usize>> {
        let candidate = |(place, slot): (usize, &Slot)| {
            let is_idle = match slot.mark.phase() {
                Phase::Incomplete => false,
                Phase::Idle => true,
                Phase::Busy | Phase::Evicted => return None,
            };
            Some(Candidate { client: slot.client, is_idle, since: slot.mark.since(), key: place })
        };
        self.0.slots.borrow().iter().enumerate().filter_map(candidate).collect()
    }

    /// Tells a connection to close itself. No effect unless it waits for its client.
    pub fn evict(&self, place: usize) {
        let waker = self.0.slots.borrow_mut().get_mut(place).and_then(|slot| {
            if !matches!(slot.mark.phase(), Phase::Incomplete | Phase::Idle) {
                return None;
            }
            slot.mark = Mark::new(Phase::Evicted);
            slot.waker.take()
        });
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns true if both are the same signal.
    pub fn is_same(&self, other: &Drain) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.0.count.get()
    }

    /// Waits until there are no connections. Of several waiting tasks, only the last one is woken.
    pub async fn all_closed(&self) {
        poll_fn(|cx| {
            if self.connections() == 0 {
                return Poll::Ready(());
            }
            *self.0.empty.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// A connection's registration with a [`Drain`].
pub struct DrainRegistration {
    shared: Rc<Shared>,
    slot: usize,
}

impl DrainRegistration {
    /// Returns true if the signal was started.
    pub fn is_draining(&self) -> bool {
        self.shared.started.get()
    }

    /// Returns the deadlines of [`Drain::hand_over`], if that was the start.
    pub fn handed_over(&self) -> Option<HandedOver> {
        self.shared.handed_over.get()
    }

    /// Returns true if a connection that has had no request waits for its first one although the
    /// signal was started.
    pub fn may_begin(&self) -> bool {
        self.handed_over()
            .is_some_and(|handed| handed.is_accepting && Instant::now() < handed.idle_until)
    }

    /// Returns the signal.
    pub fn signal(&self) -> Drain {
        Drain(Rc::clone(&self.shared))
    }

    /// Returns true if the signal was started. The next signal or eviction wakes the task.
    pub fn poll(&self, cx: &mut Context<'_>) -> bool {
        self.with_slot(|slot| slot.register(cx));
        self.is_draining()
    }

    /// Enters a waiting phase, and returns the signal that ends it at once, or `Signal::None`. The
    /// next signal wakes the task.
    pub fn poll_waiting(&self, phase: Phase, cx: &mut Context<'_>) -> Signal {
        let now = self.with_slot(|slot| {
            slot.register(cx);
            slot.wait(phase);
            slot.mark.phase()
        });
        match now {
            Some(Phase::Evicted) => Signal::Evict,
            _ if self.is_draining() => Signal::Drain,
            _ => Signal::None,
        }
    }

    /// Returns true if the connection is evicted. An eviction wakes the task.
    pub fn poll_evicted(&self, cx: &mut Context<'_>) -> bool {
        let phase = self.with_slot(|slot| {
            slot.register(cx);
            slot.mark.phase()
        });
        phase == Some(Phase::Evicted)
    }

    /// Runs `work` to its end; returns `None` if the connection is evicted before.
    pub async fn unless_evicted<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.poll_evicted(cx) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Registers the client of a new connection, which waits for its first request.
    pub fn accepted_from(&self, client: Client) {
        self.with_slot(|slot| {
            slot.client = client;
            slot.mark = Mark::new(Phase::Incomplete);
        });
    }

    /// Enters a waiting phase.
    pub fn set_phase(&self, phase: Phase) {
        self.with_slot(|slot| slot.wait(phase));
    }

    /// Records that a request is being processed. Revokes an eviction.
    pub fn set_busy(&self) {
        self.with_slot(|slot| slot.mark = Mark::default());
    }

    /// Records that a handler continues with a request whose body was incomplete.
    pub fn resume(&self) {
        self.with_slot(|slot| {
            if slot.mark.phase() == Phase::Incomplete {
                slot.mark = Mark::default();
            }
        });
    }

    fn with_slot<T>(&self, act: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        self.shared.slots.borrow_mut().get_mut(self.slot).map(act)
    }
}

impl Drop for DrainRegistration {
    fn drop(&mut self) {
        self.with_slot(|slot| *slot = Slot::default());
        self.shared.free.borrow_mut().push(self.slot);
        self.shared.count.set(self.shared.count.get() - 1);
        if self.shared.count.get() == 0 {
            let waker = self.shared.empty.borrow_mut().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_few_bytes_here() {
        assert_eq!(size_of::<Slot>(), 32);
    }

    fn places(drain: &Drain) -> Vec<(usize, bool)> {
        drain.waiting().iter().map(|one| (one.key, one.is_idle)).collect()
    }

    #[test]
    fn only_connections_that_wait_for_their_client_may_be_evicted() {
        let (drain, cx) = (Drain::new(), &mut Context::from_waker(Waker::noop()));
        let connections = [drain.register(), drain.register()];
        assert_eq!(places(&drain), [], "nobody has said that they wait");
        connections.iter().for_each(|one| one.accepted_from(Client::default()));
        assert_eq!(places(&drain), [(0, false), (1, false)]);
        connections[0].set_busy();
        assert_eq!(places(&drain), [(1, false)]);
        assert_eq!(connections[0].poll_waiting(Phase::Idle, cx), Signal::None);
        assert_eq!(places(&drain), [(0, true), (1, false)]);
        connections[0].set_busy();
        connections[0].set_phase(Phase::Incomplete);
        assert_eq!(places(&drain), [(0, false), (1, false)], "within a body");
        connections[0].resume();
        let [first, second] = connections;
        drop(second);
        assert_eq!(places(&drain), []);
        drop(first);
        assert_eq!(drain.connections(), 0);
    }

    #[test]
    fn who_waits_longest_is_known_whatever_comes_meanwhile() {
        let (drain, cx) = (Drain::new(), &mut Context::from_waker(Waker::noop()));
        let connections = [drain.register(), drain.register()];
        connections.iter().for_each(|one| one.accepted_from(Client::default()));
        // A part of a head.
        let _ = connections[0].poll_waiting(Phase::Incomplete, cx);
        let since: Vec<_> = drain.waiting().iter().map(|one| one.since).collect();
        assert!(since[0] < since[1], "{since:?}");
        connections[0].set_busy();
        let _ = connections[0].poll_waiting(Phase::Idle, cx);
        let since: Vec<_> = drain.waiting().iter().map(|one| one.since).collect();
        assert!(since[0] > since[1], "{since:?}");
    }

    #[test]
    fn an_evicted_connection_is_told_once_and_may_still_take_a_request() {
        let (drain, cx) = (Drain::new(), &mut Context::from_waker(Waker::noop()));
        let connection = drain.register();
        connection.accepted_from(Client::default());
        drain.evict(0);
        assert_eq!(places(&drain), [], "it is not chosen again");
        connection.resume();
        assert_eq!(connection.poll_waiting(Phase::Incomplete, cx), Signal::Evict);
        assert!(connection.poll_evicted(cx));
        connection.set_busy();
        assert!(!connection.poll_evicted(cx));
        drain.evict(7); // it has ended meanwhile
        drop(connection);
        drain.evict(0);
        let next = drain.register();
        next.accepted_from(Client::default());
        assert!(!next.poll_evicted(cx), "a new connection in an old place");
    }
}
