//! The phase of a connection: it may be evicted while none of its streams has a complete request.

use std::cell::{Cell, RefCell};
use std::task::Context;

use crate::drain::{Drain, DrainRegistration, Phase};

/// The drain signal of a connection, and its phase, which follows from its streams.
pub(crate) struct ConnectionPhase {
    signal: Drain,
    /// `None` once the connection has ended; handlers may still run.
    drain: RefCell<Option<DrainRegistration>>,
    /// Number of requests being answered.
    requests: Cell<usize>,
    /// Number of requests whose handlers wait for more of the body.
    bodies: Cell<usize>,
    /// True after the first request.
    has_begun: Cell<bool>,
}

impl ConnectionPhase {
    /// Creates the phase of a connection that has had no request.
    pub fn new(drain: DrainRegistration) -> Self {
        ConnectionPhase {
            signal: drain.signal(),
            drain: RefCell::new(Some(drain)),
            requests: Cell::new(0),
            bodies: Cell::new(0),
            has_begun: Cell::new(false),
        }
    }

    /// Returns the drain signal, for tunnels.
    pub fn signal(&self) -> &Drain {
        &self.signal
    }

    /// Returns true if the connection must end when it has no requests. The signal wakes the task.
    pub fn poll_draining(&self, cx: &mut Context<'_>) -> bool {
        let has_begun = self.has_begun.get();
        let drain = self.drain.borrow();
        drain.as_ref().is_none_or(|drain| drain.poll(cx) && (has_begun || !drain.may_begin()))
    }

    /// Returns true if the connection is evicted. An eviction wakes the task.
    pub fn poll_evicted(&self, cx: &mut Context<'_>) -> bool {
        self.drain.borrow().as_ref().is_none_or(|drain| drain.poll_evicted(cx))
    }

    /// Unregisters the connection.
    pub fn end(&self) {
        self.drain.take();
    }

    /// Records that requests were received.
    pub fn begin(&self) {
        self.has_begun.set(true);
        self.with_drain(DrainRegistration::set_busy);
    }

    /// Records that the connection waits for frames while `requests` are being answered. It is busy
    /// if the client does not read the output (`is_blocked`).
    pub fn wait(&self, requests: usize, is_blocked: bool) {
        self.requests.set(requests);
        match requests {
            _ if is_blocked => {}
            0 if self.has_begun.get() => self.with_drain(|drain| drain.set_phase(Phase::Idle)),
            _ => self.settle(),
        }
    }

    /// Records that a handler begins or ends a wait for more of a body.
    pub fn body(&self, waits: bool) {
        let bodies = self.bodies.get();
        if waits {
            self.bodies.set(bodies + 1);
            self.settle();
        } else {
            self.bodies.set(bodies.saturating_sub(1));
            self.with_drain(DrainRegistration::resume);
        }
    }

    fn settle(&self) {
        if self.requests.get() == self.bodies.get() {
            self.with_drain(|drain| drain.set_phase(Phase::Incomplete));
        }
    }

    fn with_drain(&self, act: impl FnOnce(&DrainRegistration)) {
        if let Some(drain) = &*self.drain.borrow() {
            act(drain);
        }
    }
}
