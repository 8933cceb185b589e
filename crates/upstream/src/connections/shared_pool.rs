//! Idle connections to a FastCGI server, shared by all threads.
//!
//! Each process of PHP-FPM serves one connection, even while it is idle. With a pool for each
//! thread, idle connections of one thread would occupy processes that requests of another thread
//! wait for.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use howdah_dns::stream::{Parked, Stream};

/// Interval at which unusable connections are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Idle connections to one server.
#[derive(Debug, Default)]
pub struct SharedPool {
    idle: Mutex<Vec<Idle>>,
    /// A task closes unusable connections.
    is_sweeping: AtomicBool,
}

#[derive(Debug)]
struct Idle {
    parked: Parked,
    expires: Instant,
}

impl SharedPool {
    /// Takes an idle connection, if there is a usable one.
    pub fn take(&self) -> Option<Stream> {
        loop {
            // The server is least likely to close the connection that was used last.
            let idle = self.idle().pop()?;
            if idle.is_usable()
                && let Ok(stream) = idle.parked.resume()
            {
                return Some(stream);
            }
        }
    }

    /// Keeps a connection whose response is complete for at most `time`, if there are fewer than
    /// `max`; otherwise closes it.
    pub fn put(self: &Arc<Self>, stream: Stream, max: usize, time: Duration) {
        let Ok(parked) = Parked::new(stream) else { return };
        {
            let mut idle = self.idle();
            if idle.len() >= max {
                return;
            }
            idle.push(Idle { parked, expires: Instant::now() + time });
        }
        if !self.is_sweeping.swap(true, Relaxed) {
            spawn_local(sweep(Arc::downgrade(self)));
        }
    }

    /// Closes connections that cannot be used. Returns true if any are left.
    fn close_unusable(&self) -> bool {
        let mut idle = self.idle();
        idle.retain(Idle::is_usable);
        // Before the lock is released, so that `put` starts a new task if this one ends.
        self.is_sweeping.store(!idle.is_empty(), Relaxed);
        !idle.is_empty()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn is_usable(&self) -> bool {
        Instant::now() < self.expires && self.parked.is_quiet()
    }
}

/// Closes unusable connections until the pool is empty or gone.
async fn sweep(pool: Weak<SharedPool>) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.close_unusable() {
            return;
        }
    }
}
