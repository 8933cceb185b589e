//! Restarts of single applications. They run beside changes: an application may take a minute to
//! start, or never do.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::Api;
use crate::refusal::Refusal;
use crate::reply::{Done, Reply};

/// Time for which the next restart waits for the one before.
const TURN: Duration = Duration::from_secs(1);

impl Api {
    /// Restarts an application, and waits for the outcome.
    pub(super) async fn restart(&self, name: String) -> Reply {
        if !self.store.borrow().has_application(&name) {
            return Refusal::NoSuchApplication { name }.into();
        }
        // One application at a time, as each restart doubles the memory of its application; but not
        // behind a slow one.
        let turn = self.restarting.lock().await;
        let mut outcome = pin!(self.router.restart(name));
        let result = match timeout(TURN, &mut outcome).await {
            Ok(result) => result,
            Err(_) => {
                drop(turn);
                outcome.await
            }
        };
        match result {
            Ok(()) => Done::Restarted.into(),
            Err(detail) => Refusal::NotRestarted { detail }.into(),
        }
    }
}
