//! Idle connections to a FastCGI server.
//!
//! PHP-FPM's processes serve one connection each, and a process waits on a kept connection for as
//! long as it is open. So all threads share the kept ones: a thread that kept its own would hold
//! processes that another thread's requests wait for.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use howdah_config::Timeouts;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use super::site::Site;
use crate::proxy::transport::{Parked, Stream};

/// How often idle connections are looked at.
const SWEEP: Duration = Duration::from_secs(1);

/// The idle connections of a site, for each of its servers.
#[derive(Debug)]
pub struct Kept {
    servers: Box<[Mutex<Vec<Idle>>]>,
    /// Connections to each server.
    most: usize,
    time: Duration,
    /// A task looks after them.
    sweeping: AtomicBool,
}

#[derive(Debug)]
struct Idle {
    parked: Parked,
    since: Instant,
}

impl Kept {
    /// None yet; at most so many to each of `servers` servers.
    pub fn new(servers: usize, most: usize, timeouts: &Timeouts) -> Self {
        let servers = (0..servers).map(|_| Mutex::default()).collect();
        Kept { servers, most, time: timeouts.idle, sweeping: AtomicBool::new(false) }
    }

    /// An idle connection to a server, if there is one.
    pub fn take(&self, server: usize) -> Option<Stream> {
        let server = self.servers.get(server)?;
        loop {
            // The last one that was used is the least likely to be closed just now.
            let idle = server.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if self.is_usable(&idle)
                && let Ok(stream) = idle.parked.resume()
            {
                return Some(stream);
            }
        }
    }

    fn is_usable(&self, idle: &Idle) -> bool {
        idle.since.elapsed() < self.time && idle.parked.is_quiet()
    }

    /// Closes what cannot be used. Whether some are left.
    fn sweep(&self) -> bool {
        let mut left = false;
        for server in &self.servers {
            let mut idle = server.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|idle| self.is_usable(idle));
            left |= !idle.is_empty();
        }
        left
    }
}

impl Site {
    /// Keeps a connection to a server on which an answer has ended, if there is room.
    pub fn keep(self: &Arc<Self>, server: usize, stream: Stream) {
        let kept = &self.kept;
        let Some(list) = kept.servers.get(server) else { return };
        let Ok(parked) = Parked::new(stream) else { return };
        {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            if list.len() >= kept.most {
                return;
            }
            list.push(Idle { parked, since: Instant::now() });
        }
        if !kept.sweeping.swap(true, Relaxed) {
            spawn_local(sweep(Arc::downgrade(self)));
        }
    }
}

/// Lets go of what servers have closed, for as long as there are idle connections.
async fn sweep(site: Weak<Site>) {
    loop {
        sleep(SWEEP).await;
        let Some(site) = site.upgrade() else { return };
        if !site.kept.sweep() {
            site.kept.sweeping.store(false, Relaxed);
            return;
        }
    }
}
