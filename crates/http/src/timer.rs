//! Time limits at the cost of one timer per connection.
//!
//! A deadline moves with every request, but a timer that goes off too early is cheaper than one
//! that is set anew each time: it is only moved forward when it goes off, and back when a nearer
//! deadline comes up.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of a connection.
#[derive(Debug, Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Ready once `deadline` has passed; else the task is woken at that time or earlier.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

/// How fast a client moves bytes while we wait for it. Knows nothing of clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    moved: u64,
    waited: Duration,
}

impl Pace {
    /// How long to wait now: `timeout`, or less if the client has been slower than `min_rate`
    /// bytes per second for longer than `grace`.
    pub fn patience(&self, timeout: Duration, min_rate: u64, grace: Duration) -> Duration {
        if min_rate == 0 {
            return timeout;
        }
        let earned = Duration::from_secs(self.moved / min_rate);
        timeout.min(grace.saturating_add(earned).saturating_sub(self.waited))
    }

    /// The client took or gave `bytes`.
    pub fn moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes as u64);
    }

    /// We waited for it that long.
    pub fn waited(&mut self, time: Duration) {
        self.waited = self.waited.saturating_add(time);
    }
}

/// When somebody's patience ends. A time limit beyond what the clock can tell is none.
pub fn after(now: Instant, patience: Duration) -> Instant {
    now.checked_add(patience).unwrap_or_else(|| now + Duration::from_secs(86400 * 365))
}

/// A wait for the client that is going on: when it began and when it ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wait(Option<(Instant, Instant)>);

impl Wait {
    /// The deadline; the wait begins now if it has not begun.
    pub fn deadline(&mut self, patience: impl FnOnce() -> Duration) -> Instant {
        let begin = || {
            let now = Instant::now();
            (now, after(now, patience()))
        };
        self.0.get_or_insert_with(begin).1
    }

    /// The client moved `bytes`: the wait, if there was one, is over.
    pub fn over(&mut self, pace: &mut Pace, bytes: usize) {
        pace.moved(bytes);
        if let Some((begun, _)) = self.0.take() {
            pace.waited(begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_client_above_the_rate_has_the_whole_timeout_each_time() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            assert_eq!(pace.patience(S(30), 500, S(20)).min(S(20)), S(20));
            pace.waited(S(10));
            pace.moved(10_000);
        }
    }

    #[test]
    fn a_client_that_moves_a_byte_now_and_then_runs_out_of_patience() {
        let mut pace = Pace::default();
        let mut total = S(0);
        while !pace.patience(S(5), 500, S(20)).is_zero() {
            pace.waited(S(4));
            pace.moved(1);
            total += S(4);
        }
        assert_eq!(total, S(20));
    }

    #[test]
    fn no_rate_means_the_timeout_alone() {
        let mut pace = Pace::default();
        pace.waited(S(100_000));
        assert_eq!(pace.patience(S(5), 0, S(20)), S(5));
    }
}
