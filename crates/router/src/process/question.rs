//! Questions to the control thread, which are answered also while a change waits for a slow disk or
//! application.

use std::sync::Arc;

use howdah_pipeline::probes::ReadinessRequest;
use howdah_questions::{SlowScript, Status, Tuning};
use howdah_sys::process_usage::ProcessUses;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

/// A question and the channel for its answer. The configuration is not changed.
#[derive(Debug)]
pub(super) enum Question {
    /// The applications and the parts that are out; the rest of the status is left empty.
    Report { processes: Arc<ProcessUses>, done: oneshot::Sender<Status> },
    /// The reason why visitors cannot be served, if there is one.
    Readiness { done: oneshot::Sender<Option<String>> },
    /// Explain the number of an application's workers.
    Tune { name: String, done: oneshot::Sender<Option<Tuning>> },
    /// The last slow scripts of a site or application, or of all; only those of `applications`.
    SlowScripts {
        name: Option<String>,
        applications: Option<Vec<String>>,
        done: oneshot::Sender<Vec<SlowScript>>,
    },
    /// Restart an application.
    Restart { name: String, done: oneshot::Sender<Result<(), String>> },
}

/// Asks the questions of probes until the process ends.
pub(super) fn forward(
    mut probes: UnboundedReceiver<ReadinessRequest>,
    questions: UnboundedSender<Question>,
) {
    spawn_local(async move {
        while let Some(done) = probes.recv().await {
            let _ = questions.send(Question::Readiness { done });
        }
    });
}
