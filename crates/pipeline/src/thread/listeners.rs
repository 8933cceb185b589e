//! The listeners of a router thread: which of them it accepts connections from, and how their
//! connections are asked to end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use howdah_http::drain::{Drain, DrainRegistration};
use howdah_routing::snapshot::Snapshot;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Listeners of one thread, by their names.
#[derive(Default)]
pub struct Listeners {
    configured: RefCell<HashMap<Arc<str>, Listener>>,
    removed: RefCell<HashMap<Arc<str>, Removed>>,
    /// Connections of listeners that this thread does not know.
    unknown: Drain,
}

#[derive(Default)]
struct Listener {
    /// `None` if only other threads accept its connections.
    accepting: Option<Accepting>,
    drain: Drain,
}

/// A removed listener with open connections.
struct Removed {
    last: Arc<Snapshot>,
    drain: Drain,
}

/// A task that accepts connections until it is stopped.
pub struct Accepting {
    task: JoinHandle<()>,
    stop: Rc<Notify>,
}

impl Accepting {
    /// Tells the task to stop.
    pub fn notify(&self) {
        self.stop.notify_one();
    }

    /// Accepts no more connections; the socket is closed when this returns.
    pub async fn stop(self) {
        self.stop.notify_one();
        let _ = self.task.await;
    }
}

impl Listeners {
    /// Adds a listener. `spawn` spawns the task that accepts its connections until it is notified;
    /// it is not called if there is one already.
    pub fn listen(&self, name: Arc<str>, spawn: impl FnOnce(Rc<Notify>) -> JoinHandle<()>) {
        let mut configured = self.configured.borrow_mut();
        configured.entry(name).or_default().accepting.get_or_insert_with(|| {
            let stop = Rc::new(Notify::new());
            Accepting { task: spawn(Rc::clone(&stop)), stop }
        });
    }

    /// Accepts no more connections of a listener; its socket is closed when this returns.
    pub async fn pause(&self, name: &str) {
        let accepting =
            self.configured.borrow_mut().get_mut(name).and_then(|found| found.accepting.take());
        if let Some(accepting) = accepting {
            accepting.stop().await;
        }
    }

    /// Keeps the last snapshot with this listener for its open connections.
    pub fn announce_removal(&self, name: Arc<str>, last: Arc<Snapshot>) {
        if let Some(listener) = self.configured.borrow().get(&name) {
            let removed = Removed { last, drain: listener.drain.clone() };
            self.removed.borrow_mut().insert(name, removed);
        }
    }

    /// Removes a listener and asks its connections to end. Returns their signal.
    pub fn remove(&self, name: &str) -> Drain {
        let listener = self.configured.borrow_mut().remove(name);
        let drain = listener.map(|listener| listener.drain).unwrap_or_default();
        drain.start();
        drain
    }

    /// Drops the snapshot of a removed listener whose last connection has ended.
    pub fn forget(&self, name: &str, drain: &Drain) {
        let mut removed = self.removed.borrow_mut();
        // A listener of this name may have come and gone once more.
        if removed.get(name).is_some_and(|found| found.drain.is_same(drain)) {
            removed.remove(name);
        }
    }

    /// Removes all listeners. Returns the signals of all connections, and the tasks that still
    /// accept others.
    pub fn close(&self) -> (Vec<Drain>, Vec<Accepting>) {
        let drains = self.drains();
        let configured = self.configured.take();
        (drains, configured.into_values().filter_map(|listener| listener.accepting).collect())
    }

    /// Returns the signals of all connections of this thread.
    pub fn drains(&self) -> Vec<Drain> {
        let mut drains = vec![self.unknown.clone()];
        drains.extend(self.configured.borrow().values().map(|listener| listener.drain.clone()));
        drains.extend(self.removed.borrow().values().map(|removed| removed.drain.clone()));
        drains
    }

    /// Counts in a connection of this listener. Returns the signal that asks it to end.
    pub fn connection(&self, name: &str) -> DrainRegistration {
        if let Some(listener) = self.configured.borrow().get(name) {
            return listener.drain.register();
        }
        let removed = self.removed.borrow();
        removed.get(name).map_or(&self.unknown, |removed| &removed.drain).register()
    }

    /// Returns the last snapshot with a listener that has been removed.
    pub fn last_snapshot(&self, name: &str) -> Option<Arc<Snapshot>> {
        self.removed.borrow().get(name).map(|removed| Arc::clone(&removed.last))
    }
}
