//! Fair shares of the processors among users' files whose password hashes are slow, and among the
//! clients of a file.
//!
//! A check first waits for the other checks of its client, then for a permit of its file, and then
//! for one of the server; all waits are in order of arrival. A client thus has one place among the
//! checks that wait for a file: wrong passwords of one client delay others by one check, and never
//! cause their refusal. A file has half as many permits as the server, so the first check of
//! another file waits only for checks that run already, and for those of other files that hold
//! permits of their own file.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use howdah_http::client::network;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of checks of one client that run or wait. Further requests are answered with 503.
pub const MAX_CHECKS: usize = 128;

/// Maximum number of checks of one file that run or wait, of all clients.
const MAX_CHECKS_OF_FILE: usize = 1024;

/// Permits for checks that run at a time: one for each processor, as more would take time from the
/// router threads.
static ALL: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(parallel_checks())));

/// Permits for searches of files.
static FILES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_SEARCHES)));

/// Number of searches of files that run at a time. A search may wait for a network drive.
const MAX_SEARCHES: usize = 8;

/// Permits of one users' file, or of one site.
#[derive(Debug)]
pub struct Permits {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
    clients: Arc<Mutex<Clients>>,
}

/// The right to compute one slow hash, or to search a file.
#[derive(Debug)]
pub struct Turn {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _client: OwnedSemaphorePermit,
    _counted: Counted,
}

/// Clients with checks that run or wait.
#[derive(Debug, Default)]
struct Clients {
    known: HashMap<Option<IpAddr>, Client>,
    checks: usize,
}

#[derive(Debug)]
struct Client {
    turn: Arc<Semaphore>,
    checks: usize,
}

#[derive(Debug)]
struct Counted {
    clients: Arc<Mutex<Clients>>,
    client: Option<IpAddr>,
}

impl Permits {
    /// Creates `own` permits beside those of `all`.
    fn of(all: Arc<Semaphore>, own: usize) -> Self {
        Permits { all, own: Arc::new(Semaphore::new(own)), clients: Arc::default() }
    }

    /// Creates the permits of a site to search files: one at a time.
    pub fn for_files() -> Self {
        Permits::of(Arc::clone(&FILES), 1)
    }

    /// Waits for a permit for a request of a client (`None` on a unix socket); `None` if too many
    /// checks of the client or of the file run or wait already.
    pub async fn next(&self, client: Option<IpAddr>) -> Option<Turn> {
        let client = client.map(network);
        let (counted, turn) = self.count(client)?;
        // These semaphores are never closed.
        let of_client = turn.acquire_owned().await.ok()?;
        let own = Arc::clone(&self.own).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Turn { _all: all, _own: own, _client: of_client, _counted: counted })
    }

    fn count(&self, client: Option<IpAddr>) -> Option<(Counted, Arc<Semaphore>)> {
        let mut clients = lock(&self.clients);
        if clients.checks >= MAX_CHECKS_OF_FILE {
            return None;
        }
        let new = || Client { turn: Arc::new(Semaphore::new(1)), checks: 0 };
        let known = clients.known.entry(client).or_insert_with(new);
        if known.checks >= MAX_CHECKS {
            return None;
        }
        known.checks += 1;
        let turn = Arc::clone(&known.turn);
        clients.checks += 1;
        Some((Counted { clients: Arc::clone(&self.clients), client }, turn))
    }
}

impl Default for Permits {
    fn default() -> Self {
        Permits::of(Arc::clone(&ALL), parallel_checks() / 2)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut clients = lock(&self.clients);
        clients.checks -= 1;
        let Some(known) = clients.known.get_mut(&self.client) else { return };
        known.checks -= 1;
        if known.checks == 0 {
            clients.known.remove(&self.client);
        }
    }
}

fn lock(clients: &Mutex<Clients>) -> MutexGuard<'_, Clients> {
    // No code that can panic leaves the numbers half changed.
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of processors, at least 2, so that half of it is at least 1.
fn parallel_checks() -> usize {
    // The standard library reads several files each time, and each site asks.
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| {
        std::thread::available_parallelism().map_or(2, |processors| processors.get().max(2))
    });
    *PROCESSORS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> Option<IpAddr> {
        Some([127, 0, 0, last].into())
    }

    #[tokio::test]
    async fn a_flood_of_one_client_leaves_others_their_turn() {
        let all = Arc::new(Semaphore::new(4));
        let [flooded, other] = [(); 2].map(|()| Permits::of(Arc::clone(&all), 2));
        let running = now(flooded.next(client(1))).await;
        assert!(running.is_some());
        let mut waiting: Vec<_> = std::iter::repeat_with(|| Box::pin(flooded.next(client(1))))
            .take(MAX_CHECKS - 1)
            .collect();
        for check in &mut waiting {
            assert!(now(check.as_mut()).await.is_none(), "it waits");
        }
        let refused = now(async { Some(flooded.next(client(1)).await) }).await;
        assert!(matches!(refused, Some(None)), "too many wait");
        let second = now(flooded.next(client(2))).await;
        assert!(second.is_some(), "another client has its share");
        let mut third = Box::pin(flooded.next(client(3)));
        assert!(now(third.as_mut()).await.is_none(), "the file has no more permits");
        assert!(now(other.next(client(1))).await.is_some(), "another file has its share");
        drop(second);
        assert!(now(third).await.is_some(), "it is the next, not one of the flood");
        drop(running);
        assert!(now(waiting.swap_remove(0)).await.is_some(), "who waited first is next");
        drop(waiting);
        assert!(now(flooded.next(client(1))).await.is_some(), "who has left is counted no more");
        assert!(lock(&flooded.clients).known.is_empty());
    }

    #[tokio::test]
    async fn all_clients_of_a_file_have_a_limited_number_of_checks() {
        let permits = Permits::of(Arc::new(Semaphore::new(4)), 2);
        let mut checks: Vec<_> = (0..MAX_CHECKS_OF_FILE)
            .map(|n| Box::pin(permits.next(Some([10, 0, (n >> 8) as u8, n as u8].into()))))
            .collect();
        let mut running = Vec::new();
        for check in &mut checks {
            running.extend(now(check.as_mut()).await);
        }
        assert_eq!(running.len(), 2);
        assert!(matches!(now(async { Some(permits.next(client(1)).await) }).await, Some(None)));
    }

    /// Returns the result of a future if it is ready at once.
    async fn now<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! { biased; found = future => found, () = std::future::ready(()) => None }
    }
}
