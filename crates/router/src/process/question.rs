//! Questions to the control thread, which are answered also while a change waits for a slow disk or
//! application.

use tokio::sync::oneshot;

use super::out::OutPart;
use super::report::{PoolsReport, Tuning};

/// A question and the channel for its answer. The configuration is not changed.
#[derive(Debug)]
pub(super) enum Question {
    /// Report on all applications, and on the parts that are out.
    Report { done: oneshot::Sender<(PoolsReport, Vec<OutPart>)> },
    /// Explain the number of an application's workers.
    Tune { name: String, done: oneshot::Sender<Option<Tuning>> },
    /// Restart an application.
    Restart { name: String, done: oneshot::Sender<Result<(), String>> },
}
