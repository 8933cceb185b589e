//! Panics of the library are caught: a datagram must not end the process that serves all sites.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call of the library; `None` if it has panicked. The state that it has changed is dropped by
/// the caller, or is that of the endpoint, whose maps stay usable: a call changes each of them whole.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught() {
        assert_eq!(guarded(|| 1), Some(1));
        assert_eq!(guarded(|| panic!("expected by the test")), None::<()>);
    }
}
