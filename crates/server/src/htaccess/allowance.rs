//! Processor time that the directives of a site may take from threads that serve other sites, too.
//!
//! 1. Each run of a request's directives, until it waits or ends, is timed. One that takes long puts the site under
//!    watch: the clock of processor time, unlike that of real time, costs a system call.
//! 2. Under watch, the processor time of long runs is charged to the site. A debt is paid off at a fixed rate.
//! 3. After a long run, the next requests of the site run one after the other, and other connections of the thread are
//!    served between them: many long runs that are due at once would hold those up for all of their time.
//! 4. With a large debt, the requests of the site run one after the other, each once the debt is small again. Those
//!    that would wait too long are refused.
//!
//! The short runs of a request count together: a listing lets others run every millisecond, and many listings would still
//! take all processors. Requests that take less time than a long run are never charged.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Shortest run that is charged. Those of ordinary sites take a part of it. Builds without optimization are slower.
const LONG_RUN: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 2 });

/// Number of runs that are measured after a long one.
const WATCHED_RUNS: u32 = 100;

/// Debt up to which requests do not wait.
const MAX_DEBT: Duration = Duration::from_millis(250);

/// Time in which a second of debt is paid off, in seconds: a site may use a quarter of a processor for long runs.
const SECONDS_PER_SECOND: u32 = 4;

/// Longest time that a request waits for the debt of its site.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Most requests of a site that wait.
const MAX_WAITING: usize = 64;

/// The allowance of a site, shared by all threads.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Number of further runs that are measured.
    watched: AtomicU32,
    /// The last run was a long one.
    was_long: AtomicBool,
    has_debt: AtomicBool,
    debt: Mutex<Debt>,
    /// The turn of one request while the debt is large.
    turn: Arc<Semaphore>,
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Debt {
    amount: Duration,
    /// Time of `amount`.
    at: Instant,
}

/// The right to run.
#[derive(Debug)]
pub(super) struct Turn {
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Returns true if the request may have waited.
    pub fn has_waited(&self) -> bool {
        self.permit.is_some()
    }
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance {
            watched: AtomicU32::new(0),
            was_long: AtomicBool::new(false),
            has_debt: AtomicBool::new(false),
            debt: Mutex::new(Debt { amount: Duration::ZERO, at: Instant::now() }),
            turn: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        }
    }
}

impl Allowance {
    /// Waits until a request may run, which ends with the turn; `None` if that would take too long.
    pub async fn turn(&self) -> Option<Turn> {
        let has_debt = self.wait(Instant::now()).is_some();
        let is_free = !has_debt && !self.was_long.load(Ordering::Relaxed);
        if is_free || (!has_debt && self.waiting.load(Ordering::Relaxed) >= MAX_WAITING) {
            return Some(Turn { permit: None });
        }
        // In one step: one that is refused must not count for others, not even for a moment.
        let one_more = |waiting: usize| (waiting < MAX_WAITING).then(|| waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        let waiting = Waiting(&self.waiting);
        let permit = timeout(MAX_WAIT, async {
            // Nobody closes the semaphore.
            let permit = Arc::clone(&self.turn).acquire_owned().await.ok()?;
            while let Some(rest) = self.wait(Instant::now()) {
                sleep(rest).await;
            }
            // Other connections of the thread are polled between long runs.
            tokio::task::yield_now().await;
            Some(permit)
        });
        let permit = permit.await.ok().flatten()?;
        drop(waiting);
        Some(Turn { permit: Some(permit) })
    }

    /// Charges each long run of a future, and all runs after they have taken as long together.
    pub async fn metered<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut rest = LONG_RUN;
        poll_fn(|context| {
            let polled = self.timed(|| future.as_mut().poll(context), rest);
            rest = rest.saturating_sub(polled.1);
            polled.0
        })
        .await
    }

    /// Charges a function if it runs long.
    pub fn run<T>(&self, run: impl FnOnce() -> T) -> T {
        self.timed(run, LONG_RUN).0
    }

    /// Charges a function that runs for at least `long`. Also returns the time that it has taken.
    fn timed<T>(&self, run: impl FnOnce() -> T, long: Duration) -> (T, Duration) {
        if self.watched.load(Ordering::Relaxed) == 0 {
            let start = Instant::now();
            let result = run();
            let time = start.elapsed();
            self.note(None, time, long);
            return (result, time);
        }
        let start = processor_time();
        let result = run();
        let time = processor_time().saturating_sub(start);
        self.note(Some(Instant::now()), time, long);
        (result, time)
    }

    /// Notes a run, which is a long one if it has taken `long`; `charged_at` is the time if it was measured in processor
    /// time.
    fn note(&self, charged_at: Option<Instant>, time: Duration, long: Duration) {
        let is_long = time >= long;
        self.was_long.store(is_long, Ordering::Relaxed);
        if is_long {
            self.watched.store(WATCHED_RUNS, Ordering::Relaxed);
            if let Some(now) = charged_at {
                self.charge(time, now);
            }
        } else if charged_at.is_some() {
            // In one step: another thread may put the site under watch at the same moment.
            let one_less = |watched: u32| watched.checked_sub(1);
            let _ = self.watched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        }
    }

    /// Charges processor time that a run, if it was a long one, has taken on another thread.
    pub fn charge_other(&self, time: Duration) {
        if time >= LONG_RUN {
            self.charge(time, Instant::now());
        }
    }

    fn charge(&self, time: Duration, now: Instant) {
        let mut debt = self.debt.lock().unwrap_or_else(PoisonError::into_inner);
        debt.pay(now);
        debt.amount += time;
        self.has_debt.store(true, Ordering::Relaxed);
    }

    /// Returns how long the debt stays too large; `None` if it is not.
    fn wait(&self, now: Instant) -> Option<Duration> {
        if !self.has_debt.load(Ordering::Relaxed) {
            return None;
        }
        let mut debt = self.debt.lock().unwrap_or_else(PoisonError::into_inner);
        debt.pay(now);
        if debt.amount.is_zero() {
            self.has_debt.store(false, Ordering::Relaxed);
        }
        let excess = debt.amount.checked_sub(MAX_DEBT).filter(|excess| !excess.is_zero())?;
        // A timer has steps of a millisecond.
        Some(excess * SECONDS_PER_SECOND + Duration::from_millis(1))
    }
}

impl Debt {
    fn pay(&mut self, now: Instant) {
        let paid = now.saturating_duration_since(self.at) / SECONDS_PER_SECOND;
        self.amount = self.amount.saturating_sub(paid);
        self.at = self.at.max(now);
    }
}

/// Counts a waiting request until it goes on or is given up.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the processor time that the thread has used.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn only_long_runs_of_a_watched_site_are_charged() {
        let allowance = Allowance::default();
        let now = Instant::now();
        // In real time: the thread may have waited for a processor.
        allowance.note(None, MAX_DEBT * 2, LONG_RUN);
        assert_eq!(allowance.wait(now), None);
        assert_eq!(allowance.watched.load(Ordering::Relaxed), WATCHED_RUNS);
        for _ in 0..WATCHED_RUNS {
            allowance.note(Some(now), LONG_RUN - MILLISECOND, LONG_RUN);
        }
        assert_eq!(allowance.watched.load(Ordering::Relaxed), 0);
        assert_eq!(allowance.wait(now), None);
        allowance.note(Some(now), MAX_DEBT + MILLISECOND, LONG_RUN);
        assert_eq!(allowance.wait(now), Some(MILLISECOND * SECONDS_PER_SECOND + MILLISECOND));
    }

    #[tokio::test]
    async fn the_short_runs_of_a_request_count_together() {
        let allowance = Allowance::default();
        allowance.watched.store(WATCHED_RUNS, Ordering::Relaxed);
        let mut runs = 0;
        let listing = poll_fn(|context| {
            let start = processor_time();
            while processor_time() - start < LONG_RUN / 4 {}
            runs += 1;
            context.waker().wake_by_ref();
            if runs < 8 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        });
        allowance.metered(listing).await;
        assert!(allowance.has_debt.load(Ordering::Relaxed));
        assert!(allowance.debt.lock().unwrap().amount > Duration::ZERO);
        assert!(allowance.was_long.load(Ordering::Relaxed));
    }

    #[test]
    fn each_short_run_counts_once_whatever_other_threads_do_at_the_same_time() {
        const RUNS: u32 = 100_000;
        let allowance = Allowance::default();
        allowance.watched.store(2 * RUNS + 7, Ordering::Relaxed);
        let short_run = |_| allowance.note(Some(Instant::now()), Duration::ZERO, LONG_RUN);
        let short_runs = || (0..RUNS).for_each(short_run);
        std::thread::scope(|scope| {
            scope.spawn(short_runs);
            scope.spawn(short_runs);
        });
        assert_eq!(allowance.watched.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_debt_is_paid_off_with_time() {
        let allowance = Allowance::default();
        let now = Instant::now();
        for _ in 0..30 {
            allowance.charge(MAX_DEBT / 10, now);
        }
        let rest = allowance.wait(now).unwrap();
        assert!(allowance.wait(now + rest / 2).is_some());
        assert!(allowance.wait(now + rest).is_none());
        assert!(allowance.has_debt.load(Ordering::Relaxed));
        assert!(allowance.wait(now + MAX_DEBT * 3 * SECONDS_PER_SECOND).is_none());
        assert!(!allowance.has_debt.load(Ordering::Relaxed));
        // The clocks of two threads may be read in another order.
        allowance.charge(MAX_DEBT * 2, now);
        assert!(allowance.wait(now).is_some());
    }

    #[tokio::test]
    async fn requests_of_a_site_in_debt_have_their_turn_one_after_the_other() {
        let allowance = Allowance::default();
        assert!(!allowance.turn().await.unwrap().has_waited());
        allowance.charge(MAX_DEBT + MILLISECOND, Instant::now());
        let first = allowance.turn().await.unwrap();
        assert!(first.has_waited());
        allowance.charge(MAX_DEBT, Instant::now());
        let mut second = pin!(allowance.turn());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(allowance.waiting.load(Ordering::Relaxed), 1);
        // The debt takes longer than a request waits.
        allowance.charge(MAX_WAIT, Instant::now());
        assert!(second.await.is_none());
        assert_eq!(allowance.waiting.load(Ordering::Relaxed), 0);
        allowance.waiting.store(MAX_WAITING, Ordering::Relaxed);
        assert!(allowance.turn().await.is_none());
        assert_eq!(allowance.waiting.load(Ordering::Relaxed), MAX_WAITING);
    }
}
