//! The time that a request may take from its thread.
//!
//! A match has a limit of its own ([`regex`](crate::regex)), but a file may have a thousand patterns that stay
//! just below it, rounds that repeat them, and a sub-request for each file of a large directory. All of this
//! runs on a thread that serves others. The time of a request is therefore counted while it runs, not while it
//! waits, and matches and sub-requests fail once it is spent.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::{Duration, Instant};

/// Time that a request may run. The slowest of ordinary sites need less than a hundredth.
pub const MAX_TIME: Duration = Duration::from_millis(500);

thread_local! {
    /// When the time of the request that runs is spent; `None` outside of requests.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs a future with a limit on the time that it runs.
pub async fn limited<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut rest = MAX_TIME;
    poll_fn(move |context| {
        let start = Instant::now();
        let outer = DEADLINE.replace(Some(start + rest));
        let polled = future.as_mut().poll(context);
        DEADLINE.set(outer);
        rest = rest.saturating_sub(start.elapsed());
        polled
    })
    .await
}

/// Returns true if the request that runs has no time left.
#[inline]
pub fn is_spent() -> bool {
    DEADLINE.get().is_some_and(|deadline| Instant::now() >= deadline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::now;

    #[test]
    fn outside_of_requests_no_time_is_spent() {
        assert!(!is_spent());
        now(limited(async {
            assert!(!is_spent());
            std::thread::sleep(MAX_TIME);
            assert!(is_spent());
            now(limited(async { assert!(!is_spent()) }));
        }));
        assert!(!is_spent());
    }
}
