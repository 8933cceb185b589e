//! Idle connections to a FastCGI server.
//!
//! PHP-FPM's processes serve one connection each, and a process waits on a kept connection for as
//! long as it is open. So all threads share the kept ones: a thread that kept its own would hold
//! processes that another thread's requests wait for.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::connections::stream::{Parked, Stream};

/// How often idle connections are looked at.
const SWEEP: Duration = Duration::from_secs(1);

/// The idle connections to a server.
#[derive(Debug, Default)]
pub struct Kept {
    idle: Mutex<Vec<Idle>>,
    /// A task looks after them.
    sweeping: AtomicBool,
}

#[derive(Debug)]
struct Idle {
    parked: Parked,
    until: Instant,
}

impl Kept {
    /// An idle connection, if there is one.
    pub fn take(&self) -> Option<Stream> {
        loop {
            // The last one that was used is the least likely to be closed just now.
            let idle = self.idle().pop()?;
            if idle.is_usable()
                && let Ok(stream) = idle.parked.resume()
            {
                return Some(stream);
            }
        }
    }

    /// Keeps a connection on which an answer has ended for some time, if there are fewer than
    /// `most`.
    pub fn keep(self: &Arc<Self>, stream: Stream, most: usize, time: Duration) {
        let Ok(parked) = Parked::new(stream) else { return };
        {
            let mut idle = self.idle();
            if idle.len() >= most {
                return;
            }
            idle.push(Idle { parked, until: Instant::now() + time });
        }
        if !self.sweeping.swap(true, Relaxed) {
            spawn_local(sweep(Arc::downgrade(self)));
        }
    }

    /// Closes what cannot be used. Whether to look again.
    fn sweep(&self) -> bool {
        let mut idle = self.idle();
        idle.retain(Idle::is_usable);
        self.sweeping.store(!idle.is_empty(), Relaxed); // while nobody can add one
        !idle.is_empty()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn is_usable(&self) -> bool {
        Instant::now() < self.until && self.parked.is_quiet()
    }
}

/// Lets go of what the server has closed, for as long as there are idle connections.
async fn sweep(kept: Weak<Kept>) {
    loop {
        sleep(SWEEP).await;
        let Some(kept) = kept.upgrade() else { return };
        if !kept.sweep() {
            return;
        }
    }
}
