//! How many requests may be sent a second time: a fifth of all, so that an upstream in trouble does
//! not get several times the requests that it had.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What one retry costs.
const RETRY: u32 = 5;
/// What is saved at most: a hundred retries beyond the fifth.
const MOST: u32 = 100 * RETRY;

/// Each request saves one, each retry costs five.
#[derive(Debug)]
pub struct Budget(AtomicU32);

impl Default for Budget {
    /// Full.
    fn default() -> Self {
        Budget(AtomicU32::new(MOST))
    }
}

impl Budget {
    /// A request came.
    pub fn save(&self) {
        let saved = self.0.load(Relaxed);
        if saved < MOST {
            self.0.store(saved + 1, Relaxed); // a lost update of another thread does not matter
        }
    }

    /// Whether a request may be sent again.
    pub fn spend(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |saved| saved.checked_sub(RETRY)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_all_requests_may_be_sent_again() {
        let budget = Budget::default();
        let reserve = (0..1000).filter(|_| budget.spend()).count();
        assert_eq!(reserve, 100);
        let mut again = 0;
        for _ in 0..1000 {
            budget.save();
            again += usize::from(budget.spend());
        }
        assert_eq!(again, 200);
    }
}
