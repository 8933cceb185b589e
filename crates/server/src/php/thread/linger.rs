//! A short look for the answer before the thread sleeps.
//!
//! With one visitor at a time, each request puts the thread to sleep and has the worker wake it, which
//! takes longer than a short script. So if there is one request in the whole server, and a processor
//! that the worker does not need, the thread looks for its answer for a moment. If that was in vain it
//! does without for some requests, for twice as many each time: long scripts cost next to nothing.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long to look: about what it takes to wake a worker on a processor that sleeps, and a short script.
const MOMENT: Duration = Duration::from_micros(150);

/// The most requests that are let pass after a look in vain.
const MOST_PAUSE: u32 = 256;

/// Requests in the whole server.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Whether the worker can run while this thread looks.
static HAS_ROOM: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1));

/// What a thread has seen of it.
#[derive(Debug)]
pub(super) struct Linger {
    /// Requests of all threads.
    all: &'static AtomicU32,
    /// Requests of this thread.
    requests: Cell<u32>,
    /// No look has been taken for the last one yet.
    is_new: Cell<bool>,
    /// Requests to let pass, and how many it will be the next time.
    pause: Cell<u32>,
    next_pause: Cell<u32>,
}

impl Default for Linger {
    fn default() -> Self {
        Linger::among(&REQUESTS)
    }
}

impl Linger {
    fn among(all: &'static AtomicU32) -> Self {
        let (requests, pause, next_pause) = Default::default();
        Linger { all, requests, is_new: Cell::new(false), pause, next_pause }
    }

    /// A request begins.
    pub fn begin(&self) {
        self.all.fetch_add(1, Relaxed);
        self.requests.set(self.requests.get() + 1);
        self.is_new.set(true);
    }

    /// It is over.
    pub fn end(&self) {
        self.all.fetch_sub(1, Relaxed);
        self.requests.set(self.requests.get().saturating_sub(1));
    }

    /// Looks for an answer, if it is likely to come in a moment.
    pub fn until(&self, answered: impl Fn() -> bool) {
        if !self.is_new.replace(false) || self.requests.get() != 1 || self.all.load(Relaxed) != 1 {
            return;
        }
        if let Some(left) = self.pause.get().checked_sub(1) {
            return self.pause.set(left);
        }
        if *HAS_ROOM && self.look(answered) {
            self.next_pause.set(1);
        } else {
            self.pause.set(self.next_pause.get());
            self.next_pause.set((self.next_pause.get() * 2).clamp(1, MOST_PAUSE));
        }
    }

    fn look(&self, answered: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        loop {
            for _ in 0..16 {
                if answered() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if begun.elapsed() > MOMENT {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a request that is never answered in time is looked for.
    fn looks(linger: &Linger) -> bool {
        let looked = Cell::new(false);
        linger.begin();
        linger.until(|| {
            looked.set(true);
            false
        });
        let first = looked.replace(false);
        linger.until(|| panic!("once is enough"));
        linger.end();
        first
    }

    #[test]
    fn a_look_in_vain_is_repeated_less_and_less_often() {
        if !*HAS_ROOM {
            return;
        }
        static ALL: AtomicU32 = AtomicU32::new(0);
        let linger = Linger::among(&ALL);
        let pattern: Vec<bool> = (0..8).map(|_| looks(&linger)).collect();
        assert_eq!(pattern, [true, true, false, true, false, false, true, false]);
        // An answer in time makes up for all of it.
        while linger.pause.get() > 0 {
            looks(&linger);
        }
        linger.begin();
        linger.until(|| true);
        linger.end();
        assert!(looks(&linger));
    }
}
