//! A short busy wait for the response before the thread sleeps. Used only if the whole server has
//! exactly one request, and a processor is available that the worker does not need.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use howdah_sys::spin::{SpinPolicy, has_room};

/// Number of requests in the whole server.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Returns true if the next request will be the only one in the server: its worker may spin for the
/// next request before it sleeps.
pub fn is_server_idle() -> bool {
    REQUESTS.load(Relaxed) == 0 && has_room()
}

/// Number of requests of one thread, and the success of its busy waits.
#[derive(Debug, Default)]
pub(super) struct AnswerSpin {
    /// Number of requests of this thread.
    requests: Cell<u32>,
    /// No busy wait since the last request began.
    is_new: Cell<bool>,
    looks: SpinPolicy,
}

impl AnswerSpin {
    /// Counts a new request.
    pub fn begin_request(&self) {
        REQUESTS.fetch_add(1, Relaxed);
        self.requests.set(self.requests.get() + 1);
        self.is_new.set(true);
    }

    /// Counts the end of a request.
    pub fn end_request(&self) {
        REQUESTS.fetch_sub(1, Relaxed);
        self.requests.set(self.requests.get().saturating_sub(1));
    }

    /// Spins until `is_answered` returns true or a short time is over, if a response is likely in
    /// that time.
    pub fn wait_for(&self, is_answered: impl Fn() -> bool) {
        let is_new = self.is_new.replace(false);
        let is_alone = self.requests.get() == 1 && REQUESTS.load(Relaxed) == 1;
        if is_new && is_alone && has_room() && self.looks.should_spin() {
            self.looks.until(is_answered);
        }
    }
}
