//! Budget of requests that are sent again: a fifth of all requests, so that retries do not multiply
//! the load of a failing upstream.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Cost of a retry, in requests.
const RETRY_COST: u32 = 5;
/// Maximum balance: a hundred retries.
const MAX_BALANCE: u32 = 100 * RETRY_COST;

/// Balance to which each request adds 1, and from which each retry takes [`RETRY_COST`].
#[derive(Debug)]
pub struct RetryBudget(AtomicU32);

impl Default for RetryBudget {
    /// Starts with the maximum balance.
    fn default() -> Self {
        RetryBudget(AtomicU32::new(MAX_BALANCE))
    }
}

impl RetryBudget {
    /// Adds a request.
    pub fn deposit(&self) {
        // Usually full: then threads do not contend for it.
        if self.0.load(Relaxed) < MAX_BALANCE {
            self.add(1);
        }
    }

    /// Gives the cost of a retry back that was not made.
    pub fn give_back(&self) {
        self.add(RETRY_COST);
    }

    /// Adds in one step: otherwise this could undo a withdrawal by another thread.
    fn add(&self, amount: u32) {
        let added = |balance: u32| Some(balance.saturating_add(amount).min(MAX_BALANCE));
        let _ = self.0.fetch_update(Relaxed, Relaxed, added);
    }

    /// Takes the cost of a retry. Returns false if the balance is too low.
    pub fn withdraw(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |balance| balance.checked_sub(RETRY_COST)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_fifth_of_all_requests_may_be_sent_again() {
        let budget = RetryBudget::default();
        let reserve = (0..1000).filter(|_| budget.withdraw()).count();
        assert_eq!(reserve, 100);
        let mut again = 0;
        for _ in 0..1000 {
            budget.deposit();
            again += usize::from(budget.withdraw());
        }
        assert_eq!(again, 200);
    }

    #[test]
    fn a_request_of_one_thread_undoes_no_retry_of_another() {
        let budget = RetryBudget::default();
        let (threads, each) = (4, 100_000);
        let requests = || {
            let again = (0..each).filter(|_| {
                budget.deposit();
                budget.withdraw()
            });
            again.count()
        };
        let again: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(requests)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let may_be = 100 + threads * each / RETRY_COST as usize;
        assert!(again <= may_be, "{again} retries, {may_be} are allowed");
    }

    #[test]
    fn the_cost_of_a_retry_that_is_not_made_comes_back() {
        let budget = RetryBudget::default();
        for _ in 0..1000 {
            assert!(budget.withdraw());
            budget.give_back();
        }
        budget.give_back();
        assert_eq!((0..1000).filter(|_| budget.withdraw()).count(), 100);
    }
}
