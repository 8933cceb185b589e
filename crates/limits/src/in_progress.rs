//! State of the requests that a thread has in progress. A connection holds only a number: most have
//! no request, and each byte of a connection counts for all that wait.

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZero;

/// States of requests in progress.
#[derive(Debug)]
pub struct InProgress<T>(RefCell<Numbered<T>>);

/// Number of a state.
pub type Number = NonZero<u32>;

#[derive(Debug)]
struct Numbered<T> {
    last: u32,
    states: HashMap<Number, T>,
}

impl<T> Default for InProgress<T> {
    fn default() -> Self {
        InProgress(RefCell::new(Numbered { last: 0, states: HashMap::new() }))
    }
}

impl<T> InProgress<T> {
    /// Keeps a state until its number is removed.
    pub fn keep(&self, state: T) -> Number {
        let numbered = &mut *self.0.borrow_mut();
        loop {
            numbered.last = numbered.last.wrapping_add(1);
            if let Some(number) = NonZero::new(numbered.last)
                && !numbered.states.contains_key(&number)
            {
                numbered.states.insert(number, state);
                return number;
            }
        }
    }

    /// Removes a state: its request has ended.
    pub fn remove(&self, number: Number) -> Option<T> {
        self.0.borrow_mut().states.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_use_is_not_given_again() {
        let kept = InProgress::default();
        let first = kept.keep("first");
        kept.0.borrow_mut().last = u32::MAX - 1;
        let second = kept.keep("second");
        let third = kept.keep("third");
        assert_eq!([first, second, third].map(NonZero::get), [1, u32::MAX, 2]);
        assert_eq!((kept.remove(first), kept.remove(first)), (Some("first"), None));
        assert_eq!(kept.0.borrow().states.len(), 2);
    }
}
