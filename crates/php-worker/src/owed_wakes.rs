//! Router threads that have a response of this worker and sleep for a moment. While requests are short
//! and more are waiting, one call wakes a thread for several responses. That saves system calls and
//! switches between router and worker.
//!
//! If the next request turns out to take long, the thread wakes by itself: it has promised that when it
//! went to sleep ([`Wake::MayWait`](howdah_wire::stream::Wake::MayWait)).

use std::cell::Cell;

/// Maximum number of responses for which one call wakes a thread.
const MAX_RESPONSES: u32 = 16;

/// Maximum time that a response waits while the worker is between requests, and maximum duration of a
/// request after which responses wait at all, in microseconds.
const MAX_DELAY_US: u64 = 200;

/// The sleeping threads, and since when their responses wait.
#[derive(Debug, Default)]
pub struct OwedWakes {
    /// A bit for each thread.
    threads: Cell<u64>,
    responses: Cell<u32>,
    first_us: Cell<u64>,
    /// Start of the current request.
    started_us: Cell<u64>,
}

impl OwedWakes {
    /// Adds a thread. Returns false if it has to be woken at once.
    pub fn add(&self, thread: u64) -> bool {
        let Some(bit) = u32::try_from(thread).ok().and_then(|thread| 1u64.checked_shl(thread))
        else {
            return false;
        };
        if self.threads.get() == 0 {
            self.first_us.set(self.started_us.get());
        }
        self.threads.set(self.threads.get() | bit);
        self.responses.set(self.responses.get() + 1);
        true
    }

    /// Notes the start of a request. Returns true if the threads must be woken before it.
    pub fn begin_request(&self, now_us: u64) -> bool {
        self.started_us.set(now_us);
        let delay_us = now_us.saturating_sub(self.first_us.get());
        self.threads.get() != 0
            && (self.responses.get() >= MAX_RESPONSES || delay_us > MAX_DELAY_US)
    }

    /// Takes the threads to wake.
    pub fn take(&self) -> impl Iterator<Item = u64> + use<> {
        self.responses.set(0);
        let threads = self.threads.take();
        (0..u64::from(u64::BITS)).filter(move |thread| threads & 1 << thread != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_requests_share_a_wake_and_none_waits_long() {
        let owed = OwedWakes::default();
        assert!(!owed.begin_request(1000));
        for number in 1..MAX_RESPONSES {
            assert!(owed.add(u64::from(number % 2)));
            assert!(!owed.begin_request(1000 + u64::from(number)));
        }
        assert!(owed.add(5));
        assert!(owed.begin_request(1020), "there are enough");
        assert_eq!(owed.take().collect::<Vec<_>>(), [0, 1, 5]);
        assert!(!owed.begin_request(5000), "none is left");
        assert!(owed.add(0));
        assert!(owed.begin_request(5000 + MAX_DELAY_US + 1), "a slow request");
        assert_eq!(owed.take().collect::<Vec<_>>(), [0]);
        assert!(!owed.add(64), "there is no bit for it");
        assert_eq!(owed.take().count(), 0);
    }
}
