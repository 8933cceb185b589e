//! The memory that a request takes while it is answered, in addition to its response: its state,
//! its head and the bytes of each response that are not counted. It counts until the request ends,
//! even if its connection has ended before.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::shared::Shared;
use crate::memory::{Charge, FIRST_STREAMS, Owner, STREAMS};

/// Number of requests of one connection that are answered regardless of the memory of other
/// clients.
pub(crate) const FREE_STREAMS: usize = 4;

/// Memory of a request in bytes: its state, its head, and the bytes of each response that are not
/// counted.
const STREAM_BYTES: usize = 32 * 1024;

/// The memory of one request.
pub(crate) struct StreamMemory {
    shared: Rc<Shared>,
    charge: RefCell<Option<Charge>>,
    /// There was none for an owner.
    is_refused: Cell<bool>,
    /// The request is one of the first of its connection; each connection may have a few.
    is_first: bool,
}

impl StreamMemory {
    /// Creates the memory of a request, which counts for no owner yet.
    pub fn new(shared: &Rc<Shared>) -> StreamMemory {
        let first = shared.first_requests.get();
        let is_first = first < FREE_STREAMS;
        shared.first_requests.set(first + usize::from(is_first));
        let shared = Rc::clone(shared);
        StreamMemory { shared, charge: RefCell::default(), is_refused: Cell::default(), is_first }
    }

    /// Returns the state of the connection.
    pub fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    /// Counts it for the connection, while its owner is not known. Returns false if there is none
    /// left.
    pub fn count_early(&self) -> bool {
        self.count(self.shared.owner.clone())
    }

    /// Counts it for this owner. Returns false if there is none left.
    pub fn count(&self, owner: Owner) -> bool {
        let (budget, owner) =
            if self.is_first { (&FIRST_STREAMS, owner.client_first()) } else { (&STREAMS, owner) };
        let mut counted = self.charge.borrow_mut();
        if counted.as_ref().is_some_and(|charge| *charge.owner() == owner) {
            return true;
        }
        let mut charge = Charge::new(budget, owner);
        *counted = None; // it is not counted twice for the client
        let fits = charge.hold(STREAM_BYTES);
        *counted = fits.then_some(charge);
        self.is_refused.set(!fits);
        fits
    }

    /// Returns true if it counts for an owner. A request that was answered before its owner was
    /// known counts for the connection.
    pub fn is_admitted(&self) -> bool {
        let is_counted = self.charge.borrow().is_some();
        is_counted || (!self.is_refused.get() && self.count_early())
    }
}

impl Drop for StreamMemory {
    fn drop(&mut self) {
        let first = &self.shared.first_requests;
        first.set(first.get() - usize::from(self.is_first));
    }
}
