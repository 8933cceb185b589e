//! Reason why a worker that was requested is not started.

use howdah_wire::messages::FromPrototype;
use howdah_wire::queue::WorkerId;

/// Reason why a worker is not started.
#[derive(Clone)]
pub struct Refusal {
    /// The reason, for the log.
    pub message: String,
    is_temporary: bool,
}

impl Refusal {
    /// A reason that passes by itself: the next request for a worker may succeed.
    pub fn temporary(message: &str) -> Self {
        Refusal { message: message.to_owned(), is_temporary: true }
    }

    /// Returns true if the reason passes by itself.
    pub fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Returns the report for the supervisor.
    pub fn report(self, worker: WorkerId) -> FromPrototype {
        let Refusal { message, is_temporary } = self;
        FromPrototype::NotStarted { worker, is_temporary, message }
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Refusal { message, is_temporary: false }
    }
}
