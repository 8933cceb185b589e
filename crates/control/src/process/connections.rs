//! Limits the connections to the control API, and to the page of `howdah dashboard`.
//!
//! Any process can connect over TCP and to abstract sockets, so a connection is untrusted until a
//! request on it has carried the token, or has shown that its user has logged in. If all slots are
//! taken, the oldest untrusted connection is closed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Minimum lifetime of a connection, so that each of many concurrent clients can send the token.
const MIN_LIFETIME: Duration = Duration::from_millis(100);

/// All connections, oldest first.
#[derive(Debug)]
pub struct Connections {
    /// Maximum number of connections that are served; further ones wait.
    max: usize,
    list: RefCell<Vec<Rc<State>>>,
    ended: Notify,
}

/// The slot of a connection. Dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Rc<Connections>,
    state: Rc<State>,
}

#[derive(Debug)]
struct State {
    since: Instant,
    is_trusted: Cell<bool>,
    is_closed: Cell<bool>,
    closed: Notify,
}

impl Connections {
    /// Starts without connections; there are at most `max`.
    pub fn new(max: usize) -> Connections {
        Connections { max, list: RefCell::default(), ended: Notify::new() }
    }

    /// Waits for a free slot. If no connection ends in time, the oldest untrusted one is closed.
    pub async fn room(&self) {
        loop {
            let ended = self.ended.notified();
            let oldest = {
                let list = self.list.borrow();
                if list.len() < self.max {
                    return;
                }
                list.iter().find(|state| !state.is_trusted.get()).map(Rc::clone)
            };
            let Some(oldest) = oldest.filter(|oldest| !oldest.is_closed.get()) else {
                ended.await;
                continue;
            };
            let waited = timeout_at(oldest.since + MIN_LIFETIME, ended).await;
            if waited.is_err() && !oldest.is_trusted.get() {
                oldest.is_closed.set(true);
                oldest.closed.notify_one();
            }
        }
    }

    /// Takes a slot for a new connection.
    pub fn enter(self: &Rc<Self>, is_trusted: bool) -> ConnectionSlot {
        let state = Rc::new(State {
            since: Instant::now(),
            is_trusted: Cell::new(is_trusted),
            is_closed: Cell::new(false),
            closed: Notify::new(),
        });
        self.list.borrow_mut().push(Rc::clone(&state));
        ConnectionSlot { connections: Rc::clone(self), state }
    }
}

impl ConnectionSlot {
    /// Marks the connection as trusted: it keeps its slot until it ends.
    pub fn trust(&self) {
        self.state.is_trusted.set(true);
    }

    /// Returns true if the connection is trusted.
    pub fn is_trusted(&self) -> bool {
        self.state.is_trusted.get()
    }

    /// Runs the work of the connection until it ends, or until an untrusted connection is closed.
    /// The work of a trusted connection always completes.
    pub async fn run_unless_closed(&self, work: impl Future<Output = ()>) {
        // Biased: the work does not continue after the connection is closed.
        tokio::select! {
            biased;
            () = self.state.closed.notified() => {}
            () = work => {}
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.list.borrow_mut().retain(|state| !Rc::ptr_eq(state, &self.state));
        self.connections.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    const MAX_CONNECTIONS: usize = 64;

    fn run(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        LocalSet::new().block_on(&runtime, work);
    }

    /// Spawns an idle connection, which ends when it is closed for another one.
    fn idle(place: Rc<ConnectionSlot>) -> tokio::task::JoinHandle<()> {
        spawn_local(async move { place.run_unless_closed(pending()).await })
    }

    #[test]
    fn the_oldest_connection_that_is_not_trusted_is_closed_for_a_new_one() {
        run(async {
            let connections = Rc::new(Connections::new(MAX_CONNECTIONS));
            let mut tasks = Vec::new();
            for number in 0..MAX_CONNECTIONS {
                connections.room().await;
                tasks.push(idle(Rc::new(connections.enter(number < 2))));
            }
            connections.room().await;
            let ended: Vec<_> = tasks.iter().map(tokio::task::JoinHandle::is_finished).collect();
            assert_eq!(ended.iter().position(|ended| *ended), Some(2));
            assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
        });
    }

    #[test]
    fn a_new_connection_waits_for_trusted_ones() {
        run(async {
            let connections = Rc::new(Connections::new(MAX_CONNECTIONS));
            let mut places: Vec<_> =
                (0..MAX_CONNECTIONS).map(|_| connections.enter(false)).collect();
            places.iter().for_each(ConnectionSlot::trust);
            let late = timeout_at(Instant::now() + 2 * MIN_LIFETIME, connections.room()).await;
            assert!(late.is_err());
            let first = places.pop().unwrap();
            first.run_unless_closed(ready(())).await;
            drop(first);
            connections.room().await;
        });
    }
}
