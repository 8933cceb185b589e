//! Programs of the user's that the supervisor runs, and who waits for their end.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use howdah_acme::Run;
use howdah_wire::messages::ToSupervisor;
use tokio::sync::oneshot;

use super::link::Link;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Programs {
    waiting: RefCell<HashMap<u32, oneshot::Sender<Result<(), String>>>>,
    last: Cell<u32>,
}

impl Programs {
    /// Has a program run; `done` is told when it has ended.
    pub(super) fn run(&self, link: &Link, run: Run, done: oneshot::Sender<Result<(), String>>) {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        let Run { program, arguments, environment, timeout_ms } = run;
        let message = ToSupervisor::Run { number, program, arguments, environment, timeout_ms };
        match link.send(&message) {
            Ok(()) => drop(self.waiting.borrow_mut().insert(number, done)),
            Err(error) => drop(done.send(Err(error.to_string()))),
        }
    }

    /// A program has ended; empty if it has done its work.
    pub(super) fn ended(&self, number: u32, error: String) {
        if let Some(done) = self.waiting.borrow_mut().remove(&number) {
            let _ = done.send(if error.is_empty() { Ok(()) } else { Err(error) });
        }
    }
}
