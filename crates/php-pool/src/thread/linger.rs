//! A short look for the answer before the thread sleeps, where there is one request in the whole
//! server, and a processor that the worker does not need.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use howdah_sys::look::{Looks, has_room};

/// Requests in the whole server.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Whether a request that has not begun will be the only one in the server, and the next one may
/// be looked for before its worker sleeps.
pub fn is_quiet() -> bool {
    REQUESTS.load(Relaxed) == 0 && has_room()
}

/// What a thread has seen of it.
#[derive(Debug, Default)]
pub(super) struct Linger {
    /// Requests of this thread.
    requests: Cell<u32>,
    /// No look has been taken for the last one yet.
    is_new: Cell<bool>,
    looks: Looks,
}

impl Linger {
    /// A request begins.
    pub fn begin(&self) {
        REQUESTS.fetch_add(1, Relaxed);
        self.requests.set(self.requests.get() + 1);
        self.is_new.set(true);
    }

    /// It is over.
    pub fn end(&self) {
        REQUESTS.fetch_sub(1, Relaxed);
        self.requests.set(self.requests.get().saturating_sub(1));
    }

    /// Looks for an answer, if it is likely to come in a moment.
    pub fn until(&self, answered: impl Fn() -> bool) {
        let is_new = self.is_new.replace(false);
        let is_alone = self.requests.get() == 1 && REQUESTS.load(Relaxed) == 1;
        if is_new && is_alone && has_room() && self.looks.are_due() {
            self.looks.until(answered);
        }
    }
}
