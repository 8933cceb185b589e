//! Who may have a connection, and who waits for one.
//!
//! PHP-FPM takes as many connections as it has processes; the kernel holds a few more in the
//! socket's backlog, and refuses what is beyond. So requests wait here in two places, in both
//! first come, first served: at the [`Gate`] of their site while `connections` of it are busy, and
//! in the [`Lines`] of their thread while the backlog of the server is full.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_config::{Address, FastCgiLimits};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::connections::stream::Stream;
use crate::fastcgi::site::Site;
use crate::proxy::Failure;
use crate::queue::{Queue, Refused};

/// How long to wait before the next try while the backlog of a unix socket is full: a fraction of
/// what a script takes.
const BACKLOG_PAUSE: Duration = Duration::from_millis(1);

/// How many requests of a site may be at its servers, of all threads together.
#[derive(Debug)]
pub struct Gate {
    limits: FastCgiLimits,
    most: Option<usize>,
    free: Option<Arc<Semaphore>>,
    queue: Queue,
}

/// The right to have a connection; for as long as it lives.
#[derive(Debug)]
pub struct Ticket(
    #[expect(dead_code, reason = "held until it is dropped")] Option<OwnedSemaphorePermit>,
);

impl Gate {
    /// For `most` connections, or any number; all are free.
    pub fn new(limits: &FastCgiLimits, most: Option<usize>) -> Self {
        let free = most.map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        let queue = Queue::new(limits.queue, limits.queue_timeout);
        Gate { limits: limits.clone(), most, free, queue }
    }

    /// Whether another one has the same bounds.
    pub fn is_like(&self, other: &Gate) -> bool {
        (&self.limits, self.most) == (&other.limits, other.most)
    }

    /// Waits until a connection may be made.
    pub async fn enter(&self) -> Result<Ticket, Refused> {
        let Some(free) = &self.free else { return Ok(Ticket(None)) };
        if let Ok(permit) = Arc::clone(free).try_acquire_owned() {
            return Ok(Ticket(Some(permit)));
        }
        let permit = self.queue.wait(Arc::clone(free).acquire_owned()).await?;
        // The semaphore is never closed.
        permit.map(|permit| Ticket(Some(permit))).map_err(|_| Refused::WaitedTooLong)
    }
}

/// One line of requests for each server whose backlog is full, on one thread.
#[derive(Debug, Default)]
pub struct Lines(RefCell<HashMap<Address, Rc<Mutex<()>>>>);

impl Lines {
    /// Connects to a server, as soon as there is room in its backlog.
    pub async fn connect(&self, address: &Address, site: &Site) -> Result<Stream, Failure> {
        let line = self.0.borrow().get(address).map(Rc::clone);
        if line.is_none_or(|line| line.try_lock().is_ok()) {
            match timeout(site.timeouts.connect, Stream::try_connect(address)).await {
                Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(connected) => return connected.map_err(Failure::Connect),
                Err(_) => return Err(Failure::ConnectTimeout),
            }
        }
        let line = Rc::clone(self.0.borrow_mut().entry(address.clone()).or_default());
        site.gate.queue.wait(stand_in_line(&line, address)).await?.map_err(Failure::Connect)
    }
}

/// Tries again and again once it is our turn.
async fn stand_in_line(line: &Mutex<()>, address: &Address) -> io::Result<Stream> {
    let _turn = line.lock().await;
    loop {
        match Stream::try_connect(address).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(BACKLOG_PAUSE).await;
            }
            connected => return connected,
        }
    }
}
