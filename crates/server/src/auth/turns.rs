//! Fair shares of the processors among users' files whose password hashes are slow.
//!
//! A check first waits for a permit of its own file and then for one of the server; both waits are
//! in order of arrival. A file has half as many permits as the server, so that in front of the
//! first check of another file there are only those that run already and as many of each other
//! file as it has permits: whoever floods one file with log-ins delays the others, but never has them
//! refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Checks of one file that are computed or wait to be. Requests beyond it are answered with 503.
pub const MAX_CHECKS: usize = 32;

/// Checks that are computed at a time: more than there are processors would only take time from
/// the threads that serve connections.
static ALL: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(parallel_checks())));

/// The share of one users' file.
#[derive(Debug)]
pub struct HashPermits {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
    checks: Arc<AtomicUsize>,
}

/// The right to compute one slow hash.
#[derive(Debug)]
pub struct Turn {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _counted: Counted,
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl HashPermits {
    /// A share of half of `all`, which is so many.
    fn of(all: Arc<Semaphore>, permits: usize) -> Self {
        HashPermits { all, own: Arc::new(Semaphore::new(permits / 2)), checks: Arc::default() }
    }

    /// Waits for a turn; `None` if too many wait already.
    pub async fn next(&self) -> Option<Turn> {
        let counted = Counted(Arc::clone(&self.checks));
        if self.checks.fetch_add(1, Ordering::Relaxed) >= MAX_CHECKS {
            return None;
        }
        // Nobody closes these semaphores.
        let own = Arc::clone(&self.own).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Turn { _all: all, _own: own, _counted: counted })
    }
}

impl Default for HashPermits {
    fn default() -> Self {
        HashPermits::of(Arc::clone(&ALL), parallel_checks())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// At least two, so that half of it is one.
fn parallel_checks() -> usize {
    std::thread::available_parallelism().map_or(2, |processors| processors.get().max(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_of_one_file_leaves_another_its_turn() {
        let all = Arc::new(Semaphore::new(4));
        let [flooded, other] = [(); 2].map(|()| HashPermits::of(Arc::clone(&all), 4));
        let mut running = Vec::new();
        while let Some(turn) = now(flooded.next()).await {
            running.push(turn);
        }
        assert_eq!(running.len(), 2);
        let mut waiting: Vec<_> = std::iter::repeat_with(|| Box::pin(flooded.next()))
            .take(MAX_CHECKS - running.len())
            .collect();
        for check in &mut waiting {
            assert!(now(check.as_mut()).await.is_none(), "it waits");
        }
        let refused = now(async { Some(flooded.next().await) }).await;
        assert!(matches!(refused, Some(None)), "too many wait");
        assert!(now(other.next()).await.is_some(), "another file has its share");
        drop(running);
        assert!(now(waiting.swap_remove(0)).await.is_some(), "who waited first is next");
        drop(waiting);
        assert!(now(flooded.next()).await.is_some(), "who has left is counted no more");
    }

    /// What a future gives at once.
    async fn now<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! { biased; found = future => found, () = std::future::ready(()) => None }
    }
}
