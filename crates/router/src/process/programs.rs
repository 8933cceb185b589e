//! Programs of the user that the supervisor runs for certificate renewal.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use howdah_acme::Run;
use howdah_wire::messages::ToSupervisor;
use tokio::sync::oneshot;

use super::link::Link;

/// Running programs, each with the channel for its result.
#[derive(Debug, Default)]
pub(super) struct Programs {
    running: RefCell<HashMap<u32, oneshot::Sender<Result<(), String>>>>,
    last_number: Cell<u32>,
}

impl Programs {
    /// Asks the supervisor to run a program. The result is sent to `done`.
    pub(super) fn run(&self, link: &Link, run: Run, done: oneshot::Sender<Result<(), String>>) {
        let number = self.last_number.get().wrapping_add(1);
        self.last_number.set(number);
        let Run { program, arguments, environment, timeout_ms } = run;
        let message = ToSupervisor::Run { number, program, arguments, environment, timeout_ms };
        match link.send(&message) {
            Ok(()) => drop(self.running.borrow_mut().insert(number, done)),
            Err(error) => drop(done.send(Err(error.to_string()))),
        }
    }

    /// Takes the result of a program; `error` is empty if it has succeeded.
    pub(super) fn ended(&self, number: u32, error: String) {
        if let Some(done) = self.running.borrow_mut().remove(&number) {
            let _ = done.send(if error.is_empty() { Ok(()) } else { Err(error) });
        }
    }
}
