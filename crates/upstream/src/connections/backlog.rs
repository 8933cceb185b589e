//! Connections to FastCGI servers whose backlog may be full.
//!
//! PHP-FPM accepts as many connections as it has processes. The kernel holds a few more in the
//! backlog of the socket and refuses further ones. Requests that the backlog has no room for wait
//! here, first come, first served.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use howdah_config::Address;
use howdah_dns::stream::Stream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::queue::Queue;

/// Interval between two tries while the backlog is full: a fraction of the run time of a script.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Requests of one thread that wait for room in a backlog: a mutex for each server, which the
/// first of them holds.
#[derive(Debug, Default)]
pub struct BacklogQueues(RefCell<HashMap<Address, Rc<Mutex<()>>>>);

impl BacklogQueues {
    /// Connects to a server as soon as its backlog has room. `limits` bounds the wait for that.
    pub async fn connect(
        &self,
        address: &Address,
        connect_timeout: Duration,
        limits: &Queue,
    ) -> Result<Stream, Failure> {
        let queue = self.0.borrow().get(address).map(Rc::clone);
        if queue.is_none_or(|queue| queue.try_lock().is_ok()) {
            match timeout(connect_timeout, Stream::try_connect(address)).await {
                Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(connected) => return connected.map_err(Failure::Connect),
                Err(_) => return Err(Failure::ConnectTimeout),
            }
        }
        let queue = Rc::clone(self.0.borrow_mut().entry(address.clone()).or_default());
        limits.wait(connect_in_turn(&queue, address)).await?.map_err(Failure::Connect)
    }
}

/// Waits for its turn, then tries until the backlog has room.
async fn connect_in_turn(queue: &Mutex<()>, address: &Address) -> io::Result<Stream> {
    let _turn = queue.lock().await;
    loop {
        match Stream::try_connect(address).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            connected => return connected,
        }
    }
}
