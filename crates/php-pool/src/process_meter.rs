//! What the processes of an application use, as the kernel lists them: also those of a request that
//! has not ended, and programs that scripts have started.

use std::sync::{Mutex, PoisonError};

use howdah_sys::process_usage::TreeUse;

/// Adds up measurements of an application's prototypes, one after the other.
#[derive(Debug, Default)]
pub struct ProcessMeter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The prototype that was measured last.
    root: u32,
    last: TreeUse,
    cpu_us: u64,
}

impl ProcessMeter {
    /// Takes what a prototype and its descendants use. A new prototype counts since its start.
    pub fn measured(&self, root: u32, used: TreeUse) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if state.root == root { state.last.cpu_us } else { 0 };
        state.cpu_us = state.cpu_us.saturating_add(used.cpu_us.saturating_sub(before));
        (state.root, state.last) = (root, used);
    }

    /// Takes that it has no prototype.
    pub fn ended(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.root, state.last) = (0, TreeUse::default());
    }

    /// Returns the last measurement, with the processor time of all prototypes.
    pub fn sum(&self) -> TreeUse {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        TreeUse { cpu_us: state.cpu_us, ..state.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_only_grows() {
        let meter = ProcessMeter::default();
        let measured = |root, cpu_us| {
            meter.measured(root, TreeUse { processes: 3, runnable: 1, cpu_us, private: 7 });
            meter.sum().cpu_us
        };
        assert_eq!((measured(5, 100), measured(5, 150)), (100, 150));
        assert_eq!(measured(5, 90), 150, "a program has ended for which nobody waited");
        assert_eq!(measured(5, 95), 155);
        meter.ended();
        assert_eq!(meter.sum(), TreeUse { cpu_us: 155, ..TreeUse::default() });
        assert_eq!(measured(5, 30), 185, "another process with the same id");
        assert_eq!(measured(9, 10), 195);
        assert_eq!(meter.sum().processes, 3);
    }
}
