//! Router threads that have a response of this worker and sleep for a moment. While more requests
//! are waiting, one call wakes a thread for several responses. That saves system calls and, above
//! all, switches: a thread that is woken takes the processor from a worker.
//!
//! The delay is limited by the thread, which wakes by itself within a few milliseconds: it has
//! promised that when it went to sleep ([`Wake::MayWait`](howdah_wire::stream::Wake::MayWait)). A
//! worker that has no other request wakes the threads at once.

use std::cell::Cell;

/// Maximum number of responses for which one call wakes a thread.
const MAX_RESPONSES: u32 = 16;

/// The sleeping threads.
#[derive(Debug, Default)]
pub struct OwedWakes {
    /// A bit for each thread.
    threads: Cell<u64>,
    responses: Cell<u32>,
}

impl OwedWakes {
    /// Adds a thread. Returns false if it has to be woken at once.
    pub fn add(&self, thread: u64) -> bool {
        let Some(bit) = u32::try_from(thread).ok().and_then(|thread| 1u64.checked_shl(thread))
        else {
            return false;
        };
        self.threads.set(self.threads.get() | bit);
        self.responses.set(self.responses.get() + 1);
        true
    }

    /// Returns true if the threads must be woken before another request.
    pub fn are_many(&self) -> bool {
        self.responses.get() >= MAX_RESPONSES
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
    fn several_responses_share_a_wake() {
        let owed = OwedWakes::default();
        assert!(!owed.are_many());
        for number in 1..MAX_RESPONSES {
            assert!(owed.add(u64::from(number % 2)));
            assert!(!owed.are_many());
        }
        assert!(owed.add(5));
        assert!(owed.are_many());
        assert_eq!(owed.take().collect::<Vec<_>>(), [0, 1, 5]);
        assert!(!owed.are_many(), "none is left");
        assert!(!owed.add(64), "there is no bit for it");
        assert_eq!(owed.take().count(), 0);
    }
}
