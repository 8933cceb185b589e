//! Requests in progress for one response: the first leads, the others wait for its result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

/// The requests in progress of a store, by key.
#[derive(Debug, Default)]
pub struct Flights(Mutex<HashMap<Box<[u8]>, watch::Receiver<Landing>>>);

/// State of a request in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// The result is not known yet.
    Pending,
    /// The response is stored.
    Stored,
    /// The origin has failed, and a stored response was sent instead. Waiting requests get a stored
    /// response too, so that a failing origin is not asked by all of them at once.
    Failed,
    /// The response is private or missing. Waiting requests are sent to the origin.
    NotShared,
}

/// The role of a request.
#[derive(Debug)]
pub enum Role {
    /// The first.
    Leader(Leader),
    /// Another one, that can wait.
    Follower(Follower),
}

/// The first request for a response. Dropping it without a result lets the others continue.
#[derive(Debug)]
pub struct Leader {
    flights: Arc<Flights>,
    key: Box<[u8]>,
    landing: watch::Sender<Landing>,
}

/// A request that waits for another.
#[derive(Debug)]
pub struct Follower(watch::Receiver<Landing>);

impl Flights {
    /// Returns the role of a request with this key.
    pub fn join(self: &Arc<Self>, key: &[u8]) -> Role {
        let mut flights = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(landing) = flights.get(key) {
            return Role::Follower(Follower(landing.clone()));
        }
        let (sender, receiver) = watch::channel(Landing::Pending);
        flights.insert(key.into(), receiver);
        Role::Leader(Leader { flights: Arc::clone(self), key: key.into(), landing: sender })
    }

    /// Detaches the request in progress with this key: later ones do not wait for it.
    pub fn detach(&self, key: &[u8]) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(key);
    }

    /// Returns the number of requests in progress.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Leader {
    /// Ends the flight.
    pub fn land(self, landing: Landing) {
        self.end(landing);
    }

    /// Returns true if the flight was not detached by an invalidation.
    pub fn is_current(&self) -> bool {
        let flights = self.flights.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        flights.get(&self.key).is_some_and(|known| known.same_channel(&self.landing.subscribe()))
    }

    fn end(&self, landing: Landing) {
        let own = self.landing.subscribe();
        let mut flights = self.flights.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if flights.get(&self.key).is_some_and(|known| known.same_channel(&own)) {
            flights.remove(&self.key);
        }
        drop(flights);
        let is_pending = *self.landing.borrow() == Landing::Pending;
        if is_pending {
            self.landing.send_replace(landing);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.end(Landing::NotShared);
    }
}

impl Follower {
    /// Waits for the result of the leader.
    pub async fn wait(mut self) -> Landing {
        match self.0.wait_for(|landing| *landing != Landing::Pending).await {
            Ok(landing) => *landing,
            Err(_) => Landing::NotShared, // the leader is gone
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(follower: Follower) -> Landing {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(follower.wait())
    }

    fn lead(flights: &Arc<Flights>) -> Leader {
        match flights.join(b"a") {
            Role::Leader(leader) => leader,
            Role::Follower(_) => panic!("there is a leader already"),
        }
    }

    fn follow(flights: &Arc<Flights>) -> Follower {
        match flights.join(b"a") {
            Role::Follower(follower) => follower,
            Role::Leader(_) => panic!("there is no leader"),
        }
    }

    #[test]
    fn the_first_request_leads_and_the_others_learn_its_result() {
        let flights = Arc::default();
        let leader = lead(&flights);
        let (one, other) = (follow(&flights), follow(&flights));
        assert!(matches!(flights.join(b"b"), Role::Leader(_)));
        leader.land(Landing::Stored);
        assert_eq!((wait(one), wait(other)), (Landing::Stored, Landing::Stored));
        assert!(flights.is_empty());
        lead(&flights).land(Landing::NotShared);
    }

    #[test]
    fn a_leader_that_fails_leaves_nobody_waiting() {
        let flights = Arc::default();
        let leader = lead(&flights);
        let follower = follow(&flights);
        drop(leader);
        assert_eq!(wait(follower), Landing::NotShared);
        assert!(flights.is_empty());
    }

    #[test]
    fn a_detached_leader_knows_and_ends_no_later_flight() {
        let flights: Arc<Flights> = Arc::default();
        let leader = lead(&flights);
        assert!(leader.is_current());
        let old = follow(&flights);
        flights.detach(b"a");
        assert!(!leader.is_current());
        let next = lead(&flights);
        leader.land(Landing::NotShared);
        assert_eq!(wait(old), Landing::NotShared);
        assert!(next.is_current() && flights.len() == 1);
    }
}
