//! Admissions of the requests that a thread has in progress. A connection holds only a number: most
//! have no request, and millions of bytes of memory are at stake with many connections.

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZero;

use crate::rules::Admission;

/// Admissions of requests in progress.
#[derive(Debug, Default)]
pub struct InProgress(RefCell<Numbered>);

/// Number of an admission.
pub type Number = NonZero<u32>;

#[derive(Debug, Default)]
struct Numbered {
    last: u32,
    admissions: HashMap<Number, Admission>,
}

impl InProgress {
    /// Keeps an admission until its number is removed.
    pub fn keep(&self, admission: Admission) -> Number {
        let numbered = &mut *self.0.borrow_mut();
        loop {
            numbered.last = numbered.last.wrapping_add(1);
            if let Some(number) = NonZero::new(numbered.last)
                && !numbered.admissions.contains_key(&number)
            {
                numbered.admissions.insert(number, admission);
                return number;
            }
        }
    }

    /// Drops an admission: its requests are no longer in progress.
    pub fn remove(&self, number: Number) {
        // Dropped after the borrow ends.
        let admission = self.0.borrow_mut().admissions.remove(&number);
        drop(admission);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_use_is_not_given_again() {
        let kept = InProgress::default();
        let first = kept.keep(Admission::default());
        kept.0.borrow_mut().last = u32::MAX - 1;
        let second = kept.keep(Admission::default());
        let third = kept.keep(Admission::default());
        assert_eq!([first, second, third].map(NonZero::get), [1, u32::MAX, 2]);
        kept.remove(first);
        kept.remove(first);
        assert_eq!(kept.0.borrow().admissions.len(), 2);
    }
}
