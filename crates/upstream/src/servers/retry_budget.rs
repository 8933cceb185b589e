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
        let balance = self.0.load(Relaxed);
        if balance < MAX_BALANCE {
            self.0.store(balance + 1, Relaxed); // a lost update of another thread does not matter
        }
    }

    /// Takes the cost of a retry. Returns false if the balance is too low.
    pub fn withdraw(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |balance| balance.checked_sub(RETRY_COST)).is_ok()
    }
}

#[cfg(test)]
mod tests {
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
}
