//! Processor time that the directives of a site may take from threads that serve other sites, too.
//!
//! 1. Each run of a request's directives, until it waits or ends, is timed. One that takes long
//!    puts the site under watch: the clock of processor time, unlike that of real time, costs a
//!    system call.
//! 2. Under watch, the processor time of long runs is charged to the site. A debt is paid off at a
//!    fixed rate.
//! 3. After a run that is not short, the next requests of the site run one after the other on all
//!    threads, and other connections are served between them: many runs that are due at once would
//!    delay those by the sum of their times.
//! 4. With a large debt, the requests of the site run one after the other, each once the debt is
//!    small again. Those that would wait too long are refused.
//!
//! The short runs of a request count together: a listing lets others run every millisecond, and
//! many listings would still take all processors. Requests that take less time than a long run are
//! never charged.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Shortest run that is charged. Those of ordinary sites take a part of it. Builds without
/// optimization are slower.
const LONG_RUN: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 2 });

/// Longest run that is short. Most runs of ordinary sites take a tenth of it.
const SHORT_RUN: Duration = Duration::from_micros(if cfg!(debug_assertions) { 5000 } else { 250 });

/// Number of runs that are measured after one that was not short.
const WATCHED_RUNS: u32 = 100;

/// Number of requests that run one after the other after one whose run was not short.
const RUNS_IN_TURN: u32 = 16;

/// Debt up to which requests do not wait.
const MAX_DEBT: Duration = Duration::from_millis(250);

/// Time in which a second of debt is paid off, in seconds: a site may use a quarter of a processor
/// for long runs.
const SECONDS_PER_SECOND: u32 = 4;

/// Longest time that a request waits for the debt of its site.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Most requests of a site that wait for their turn.
const MAX_WAITING: usize = 1024;

/// The same while the debt of the site is large.
const MAX_WAITING_IN_DEBT: usize = 64;

/// The allowance of a site, shared by all threads.
#[derive(Debug)]
pub struct Allowance {
    /// Number of further runs that are measured.
    watched: AtomicU32,
    /// Number of further requests that run one after the other.
    in_turn: AtomicU32,
    has_debt: AtomicBool,
    debt: Mutex<Debt>,
    /// The turn of one request.
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
pub struct Turn {
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
            in_turn: AtomicU32::new(0),
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
        if !has_debt && self.in_turn.load(Ordering::Relaxed) == 0 {
            return Some(Turn { permit: None });
        }
        let max_waiting = if has_debt { MAX_WAITING_IN_DEBT } else { MAX_WAITING };
        // In one step: one that is refused must not count for others, not even for a moment.
        let one_more = |waiting: usize| (waiting < max_waiting).then(|| waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        let waiting = Waiting(&self.waiting);
        let permit = timeout(MAX_WAIT, async {
            // The semaphore is never closed.
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

    /// Notes a run, which is a long one if it has taken `long`; `charged_at` is the time if it was
    /// measured in processor time.
    fn note(&self, charged_at: Option<Instant>, time: Duration, long: Duration) {
        let is_long = time >= long;
        let is_short = !is_long && time < SHORT_RUN;
        if is_short {
            // In one step: another thread may put the site under watch at the same moment.
            let one_less = |count: u32| count.checked_sub(1);
            if charged_at.is_some() {
                let _ = self.watched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            }
            let _ = self.in_turn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            return;
        }
        self.watched.store(WATCHED_RUNS, Ordering::Relaxed);
        // Real time alone tells little of a run that is not long: the thread may have waited for a
        // processor.
        if is_long || charged_at.is_some() {
            self.in_turn.store(RUNS_IN_TURN, Ordering::Relaxed);
        }
        if let Some(now) = charged_at.filter(|_| is_long) {
            self.charge(time, now);
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

/// Counts a waiting request until it continues or is given up.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the processor time that the thread has used.
pub fn processor_time() -> Duration {
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
            allowance.note(Some(now), SHORT_RUN / 2, LONG_RUN);
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
        assert_eq!(allowance.in_turn.load(Ordering::Relaxed), RUNS_IN_TURN);
    }

    #[tokio::test]
    async fn requests_after_a_run_that_is_not_short_have_their_turn_one_after_the_other_without_a_charge()
     {
        let allowance = Allowance::default();
        let now = Instant::now();
        // In real time: the thread may have waited for a processor.
        allowance.note(None, SHORT_RUN, LONG_RUN);
        assert!(!allowance.turn().await.unwrap().has_waited());
        allowance.note(Some(now), SHORT_RUN, LONG_RUN);
        assert_eq!(allowance.wait(now), None);
        let first = allowance.turn().await.unwrap();
        assert!(first.has_waited());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(pin!(allowance.turn()).poll(&mut context).is_pending());
        drop(first);
        for _ in 0..RUNS_IN_TURN {
            allowance.note(Some(now), SHORT_RUN / 2, LONG_RUN);
        }
        assert!(!allowance.turn().await.unwrap().has_waited());
        // Requests beyond the limit are refused, and do not run.
        allowance.note(Some(now), SHORT_RUN, LONG_RUN);
        allowance.waiting.store(MAX_WAITING, Ordering::Relaxed);
        assert!(allowance.turn().await.is_none());
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
        allowance.charge(MAX_DEBT + MILLISECOND, Instant::now());
        allowance.waiting.store(MAX_WAITING_IN_DEBT, Ordering::Relaxed);
        assert!(allowance.turn().await.is_none());
        assert_eq!(allowance.waiting.load(Ordering::Relaxed), MAX_WAITING_IN_DEBT);
    }
}
