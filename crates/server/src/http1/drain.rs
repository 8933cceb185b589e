//! Letting connections end: a signal to all of one thread.
//!
//! A connection holds a [`Draining`]; after [`Drain::start`] it ends at once if it is idle, else
//! with the response it is working on. A waker is kept per connection and not per wait, so that
//! waiting for a request costs nothing extra.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::task::{spawn_local, yield_now};

/// The signal, and the number of those that heed it.
#[derive(Clone, Default)]
pub struct Drain(Rc<Shared>);

#[derive(Default)]
struct Shared {
    started: Cell<bool>,
    count: Cell<usize>,
    slots: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    empty: RefCell<Option<Waker>>,
}

impl Drain {
    /// Not started, with no connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a connection in, until the result is dropped.
    pub fn connection(&self) -> Draining {
        let slot = self.0.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut slots = self.0.slots.borrow_mut();
            slots.push(None);
            slots.len() - 1
        });
        self.0.count.set(self.0.count.get() + 1);
        Draining { shared: Rc::clone(&self.0), slot }
    }

    /// Lets all connections end, those to come too.
    pub fn start(&self) {
        self.0.started.set(true);
        let wakers: Vec<_> =
            self.0.slots.borrow_mut().iter_mut().filter_map(Option::take).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// After the start: ends when connections that were idle have ended, so that none takes a request
    /// that is sent later. One may have to be woken several times for that: for the end of its
    /// handshake, by the signal, and for a last look for a request.
    pub async fn heard(&self) {
        for _ in 0..3 {
            yield_now().await; // the runtime looks at its sockets
            let _ = spawn_local(async {}).await; // behind all that are awake
        }
    }

    /// Whether this is the same signal.
    pub fn is(&self, other: &Drain) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Number of connections now.
    pub fn connections(&self) -> usize {
        self.0.count.get()
    }

    /// Ends when there are no connections. Only the last of several that wait is told.
    pub async fn emptied(&self) {
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

/// A connection's ear for a [`Drain`].
pub struct Draining {
    shared: Rc<Shared>,
    slot: usize,
}

impl Draining {
    /// Whether the connection is to end.
    pub fn started(&self) -> bool {
        self.shared.started.get()
    }

    /// The signal itself.
    pub(crate) fn signal(&self) -> Drain {
        Drain(Rc::clone(&self.shared))
    }

    /// As [`Draining::started`]; if not, the task is woken when it is.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> bool {
        if self.started() {
            return true;
        }
        if let Some(slot) = self.shared.slots.borrow_mut().get_mut(self.slot) {
            match slot {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *slot = Some(cx.waker().clone()),
            }
        }
        false
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        if let Some(slot) = self.shared.slots.borrow_mut().get_mut(self.slot) {
            *slot = None;
        }
        self.shared.free.borrow_mut().push(self.slot);
        self.shared.count.set(self.shared.count.get() - 1);
        if self.shared.count.get() == 0 {
            let waker = self.shared.empty.borrow_mut().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}
