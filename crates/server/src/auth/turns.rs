//! Fair shares of the processors among users' files whose password hashes are slow.
//!
//! A check first waits for a permit of its own file and then for one of the server; both waits are
//! in order of arrival. A file has half as many permits as the server, so the first check of
//! another file waits only for checks that run already, and for those of other files that hold
//! permits of their own file: a flood of log-ins for one file delays those for others, but never
//! causes their refusal.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of checks of one file that run or wait. Further requests are answered with 503.
pub const MAX_CHECKS: usize = 32;

/// Permits for checks that run at a time: one for each processor, as more would take time from the
/// router threads.
static ALL: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(parallel_checks())));

/// Permits of one users' file.
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
    /// Creates the permits of one file: half of `permits`, the number of `all`.
    fn of(all: Arc<Semaphore>, permits: usize) -> Self {
        HashPermits { all, own: Arc::new(Semaphore::new(permits / 2)), checks: Arc::default() }
    }

    /// Waits for a permit; `None` if [`MAX_CHECKS`] checks of the file run or wait already.
    pub async fn next(&self) -> Option<Turn> {
        // In one step: one that is refused must not count for others, not even for a moment.
        let one_more = |checks: usize| (checks < MAX_CHECKS).then(|| checks + 1);
        self.checks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        let counted = Counted(Arc::clone(&self.checks));
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

/// Returns the number of processors, at least 2, so that half of it is at least 1.
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

    #[test]
    fn a_check_that_is_refused_does_not_count_meanwhile() {
        let permits = HashPermits::of(Arc::new(Semaphore::new(4)), 4);
        permits.checks.store(MAX_CHECKS, Ordering::Relaxed);
        let refused = || {
            let mut next = std::pin::pin!(permits.next());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(matches!(next.as_mut().poll(&mut context), std::task::Poll::Ready(None)));
        };
        std::thread::scope(|scope| {
            let flood = scope.spawn(|| (0..3_000_000).for_each(|_| refused()));
            while !flood.is_finished() {
                assert_eq!(permits.checks.load(Ordering::Relaxed), MAX_CHECKS);
            }
        });
    }

    /// Returns the result of a future if it is ready at once.
    async fn now<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! { biased; found = future => found, () = std::future::ready(()) => None }
    }
}
