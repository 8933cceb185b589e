//! Time limits with one timer per connection.
//!
//! Deadlines change with every request. To set the timer each time would cost more than a timer
//! that fires too early: it is moved to a later deadline only when it fires, and to an earlier one
//! at once.

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
    /// Returns `Ready` once `deadline` has passed; otherwise the task is woken at that time or
    /// earlier.
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

/// Average speed of a client, over the time in which the server waited for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Throughput {
    bytes: u64,
    waited: Duration,
}

impl Throughput {
    /// Returns the maximum duration of the next wait: `timeout`, or less if the client was slower
    /// than `min_rate` bytes per second (0: no limit) for longer than `grace`.
    pub fn remaining(&self, timeout: Duration, min_rate: u64, grace: Duration) -> Duration {
        if min_rate == 0 {
            return timeout;
        }
        let earned = Duration::from_secs(self.bytes / min_rate);
        timeout.min(grace.saturating_add(earned).saturating_sub(self.waited))
    }

    /// Records bytes that the client sent or took.
    pub fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Records a wait for the client.
    pub fn add_wait(&mut self, time: Duration) {
        self.waited = self.waited.saturating_add(time);
    }
}

/// Returns the end of a timeout; in a year if the clock cannot represent it.
pub fn after(now: Instant, timeout: Duration) -> Instant {
    now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(86400 * 365))
}

/// Returns true if a client that has taken so many bytes from the buffers of the kernel in `time`
/// is not too slow.
pub fn is_progress(taken: usize, time: Duration, min_rate: u64) -> bool {
    let least = min_rate.saturating_mul(time.as_secs()).max(1);
    taken as u64 >= least
}

/// The deadline of a wait for the client, until the client makes progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgressDeadline(Option<(Instant, Instant)>);

impl ProgressDeadline {
    /// Returns the deadline. The first call after progress begins the wait and calls `timeout`.
    pub fn get(&mut self, timeout: impl FnOnce() -> Duration) -> Instant {
        let begin = || {
            let now = Instant::now();
            (now, after(now, timeout()))
        };
        self.0.get_or_insert_with(begin).1
    }

    /// Returns true while the wait lasts.
    pub fn is_waiting(&self) -> bool {
        self.0.is_some()
    }

    /// Records that the client sent or took `bytes`, and ends the wait.
    pub fn progress(&mut self, throughput: &mut Throughput, bytes: usize) {
        throughput.add_bytes(bytes);
        if let Some((started_at, _)) = self.0.take() {
            throughput.add_wait(started_at.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_client_above_the_rate_has_the_whole_timeout_each_time() {
        let mut throughput = Throughput::default();
        for _ in 0..100 {
            assert_eq!(throughput.remaining(S(30), 500, S(20)).min(S(20)), S(20));
            throughput.add_wait(S(10));
            throughput.add_bytes(10_000);
        }
    }

    #[test]
    fn a_client_that_moves_a_byte_now_and_then_runs_out_of_time() {
        let mut throughput = Throughput::default();
        let mut total = S(0);
        while !throughput.remaining(S(5), 500, S(20)).is_zero() {
            throughput.add_wait(S(4));
            throughput.add_bytes(1);
            total += S(4);
        }
        assert_eq!(total, S(20));
    }

    #[test]
    fn a_client_at_the_minimum_rate_makes_progress() {
        assert!(is_progress(15_000, S(30), 500) && !is_progress(14_999, S(30), 500));
        assert!(is_progress(1, S(30), 0) && !is_progress(0, S(30), 0));
        assert!(!is_progress(0, S(0), 500) && !is_progress(usize::MAX >> 1, S(u64::MAX), u64::MAX));
    }

    #[test]
    fn without_a_rate_only_the_timeout_applies() {
        let mut throughput = Throughput::default();
        throughput.add_wait(S(100_000));
        assert_eq!(throughput.remaining(S(5), 0, S(20)), S(5));
    }
}
