//! The state directory and the log, while they cannot be written to. The router is told, so that
//! the status of the server has them.
//!
//! A log that could not be opened again after log rotation is tried again, too.
//!
//! After a failed write to the state directory, another process tries to write there again and
//! again: the failure is visible before the next change needs the directory.

use howdah_wire::messages::FromSupervisor;

use super::state::Tree;
use crate::file_task::{Origin, Outcome, Task};

/// Number of bytes that must fit into the state directory, beside the document.
const MIN_ROOM: usize = 4096;

/// The state directory and the log, if they cannot be written to.
#[derive(Debug, Default)]
pub(super) struct Unwritable {
    /// Reason why the state directory cannot be written to, and the remedy.
    pub(super) state: Option<String>,
    /// The document that is served was not kept for a start without a valid one.
    pub(super) is_document_lost: bool,
    /// A process tries to write to the state directory.
    pub(super) is_probing: bool,
    /// Reason why the log could not be opened again after log rotation: the former file stays in
    /// use.
    pub(super) former_log: Option<String>,
    /// The log is being opened again without a signal.
    pub(super) is_retrying_log: bool,
    /// The problems of the state directory and of the log that the router knows.
    told: Told,
}

/// The problems of the state directory, of the log, and of opening the log again.
type Told = (Option<String>, Option<String>, Option<String>);

impl Unwritable {
    /// Handles the start of a router, which does not know the problems yet.
    pub(super) fn router_begins(&mut self) {
        self.told = Told::default();
    }

    /// Returns true if the router does not know the current problems. It does afterwards.
    pub(super) fn take_changed(&mut self, log: Option<&str>) -> bool {
        let now = (self.state.clone(), log.map(str::to_owned), self.former_log.clone());
        let is_changed = self.told != now;
        self.told = now;
        is_changed
    }
}

impl Tree {
    /// Takes the outcome of a task that has written to the state directory.
    pub(super) fn state_written(&mut self, task: &Task, outcome: &Outcome) {
        if !task.is_of_state() {
            return;
        }
        if matches!(task, Task::KeepDocument(_)) {
            self.unwritable.is_document_lost = outcome.is_err();
        }
        match (task, outcome) {
            (Task::ProbeState { .. }, outcome) => {
                self.unwritable.is_probing = false;
                let before = self.unwritable.state.take();
                self.unwritable.state = outcome.as_ref().err().cloned();
                // If there was room before, the document is not kept for another reason.
                if before.is_some() && outcome.is_ok() && self.unwritable.is_document_lost {
                    self.keep_document();
                }
                self.tell_unwritable();
            }
            // The task itself may be at fault.
            (_, Err(_)) => self.probe_state(),
            (_, Ok(_)) => {
                self.unwritable.state = None;
                self.tell_unwritable();
            }
        }
    }

    /// Tries again to write where that was not possible.
    pub(super) fn look_at_unwritable(&mut self) {
        if self.unwritable.state.is_some() {
            self.probe_state();
        }
        self.retry_own_log();
        self.tell_unwritable();
    }

    fn probe_state(&mut self) {
        let Some(directory) = self.options.state_directory().cloned() else { return };
        if std::mem::replace(&mut self.unwritable.is_probing, true) {
            return;
        }
        let bytes = self.changes.current.document.len() + MIN_ROOM;
        self.begin_file_task(Task::ProbeState { directory, bytes }, Origin::Supervisor);
    }

    /// Sends the router the problems of the state directory and the log, if they have changed.
    pub(super) fn tell_unwritable(&mut self) {
        let log = self.log.problem();
        if self.router.is_none() || !self.unwritable.take_changed(log.as_deref()) {
            return;
        }
        let directory = self.options.state_directory();
        let directory = directory.map(|path| path.display().to_string()).unwrap_or_default();
        let state = self.unwritable.state.iter().map(|why| (directory.clone(), why.clone()));
        let log = log.map(|why| (self.log.name().to_owned(), why));
        let name = self.log.name();
        let former = self.unwritable.former_log.iter().map(|why| (name.to_owned(), why.clone()));
        let message = FromSupervisor::Unwritable {
            state: state.collect(),
            log: log.into_iter().collect(),
            former_log: former.collect(),
        };
        self.send_to_router(&message, &[]);
    }
}
