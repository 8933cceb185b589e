//! Connections to the control API: how many there are, and whose is closed for a new one.
//!
//! Over TCP and on abstract sockets everybody may connect, so a connection counts as nobody's until a
//! request on it has carried the token. When places are short, the oldest of those is closed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Connections that are served at once; more wait until one of them ends.
const PLACES: usize = 64;

/// How long a connection keeps its place in any case, so that one of many that come at once has the
/// time to show the token.
const GRACE: Duration = Duration::from_millis(100);

/// All connections, the oldest first.
#[derive(Debug, Default)]
pub struct Connections {
    list: RefCell<Vec<Rc<State>>>,
    ended: Notify,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub struct Place {
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
    /// Waits until there is room for a new connection. If none of the others has ended by then, the
    /// oldest that is not trusted is closed.
    pub async fn room(&self) {
        loop {
            let ended = self.ended.notified();
            let oldest = {
                let list = self.list.borrow();
                if list.len() < PLACES {
                    return;
                }
                list.iter().find(|state| !state.is_trusted.get()).map(Rc::clone)
            };
            let Some(oldest) = oldest.filter(|oldest| !oldest.is_closed.get()) else {
                ended.await;
                continue;
            };
            let waited = timeout_at(oldest.since + GRACE, ended).await;
            if waited.is_err() && !oldest.is_trusted.get() {
                oldest.is_closed.set(true);
                oldest.closed.notify_one();
            }
        }
    }

    /// Takes a place for a new connection.
    pub fn enter(self: &Rc<Self>, is_trusted: bool) -> Place {
        let state = Rc::new(State {
            since: Instant::now(),
            is_trusted: Cell::new(is_trusted),
            is_closed: Cell::new(false),
            closed: Notify::new(),
        });
        self.list.borrow_mut().push(Rc::clone(&state));
        Place { connections: Rc::clone(self), state }
    }
}

impl Place {
    /// From now on the connection keeps its place until it ends.
    pub fn trust(&self) {
        self.state.is_trusted.set(true);
    }

    /// Whether nobody may take the place.
    pub fn is_trusted(&self) -> bool {
        self.state.is_trusted.get()
    }

    /// Does the work of the connection to its end, or until the connection is closed for another one. What
    /// a trusted connection does is never left unfinished.
    pub async fn hold(&self, work: impl Future<Output = ()>) {
        // Whether it is closed is asked first each time, so that the work does not go on after that.
        tokio::select! {
            biased;
            () = self.state.closed.notified() => {}
            () = work => {}
        }
    }
}

impl Drop for Place {
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

    fn run(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        LocalSet::new().block_on(&runtime, work);
    }

    /// A connection that does nothing; ends when it is closed for another one.
    fn idle(place: Rc<Place>) -> tokio::task::JoinHandle<()> {
        spawn_local(async move { place.hold(pending()).await })
    }

    #[test]
    fn the_oldest_connection_that_is_not_trusted_is_closed_for_a_new_one() {
        run(async {
            let connections = Rc::new(Connections::default());
            let mut tasks = Vec::new();
            for number in 0..PLACES {
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
            let connections = Rc::new(Connections::default());
            let mut places: Vec<_> = (0..PLACES).map(|_| connections.enter(false)).collect();
            places.iter().for_each(Place::trust);
            let late = timeout_at(Instant::now() + 2 * GRACE, connections.room()).await;
            assert!(late.is_err());
            let first = places.pop().unwrap();
            first.hold(ready(())).await;
            drop(first);
            connections.room().await;
        });
    }
}
