//! Pauses of jobs. They hold until the job is resumed, and are kept in the state directory if there
//! is one: a server begins no job before it knows which ones are paused.

use howdah_sys::log::Level;
use howdah_wire::messages::JobOrder;

use super::state::Tree;
use crate::file_task::{Origin, Outcome, Task};
use crate::memory::read_memory_file;
use crate::pauses_file::{self, PausedJobs};

/// The paused jobs.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    jobs: PausedJobs,
    knowledge: Knowledge,
    /// They have changed since they were stored last.
    is_changed: bool,
    /// They are being stored.
    is_saving: bool,
}

/// Whether the stored pauses have been read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    #[default]
    Unread,
    Reading,
    Read,
}

impl Pauses {
    /// Returns true if a job is paused.
    pub(super) fn has(&self, application: &str, job: &str) -> bool {
        self.jobs.get(application).is_some_and(|jobs| jobs.contains(job))
    }

    /// Keeps an order to a job, also for one that takes its place. Returns true if that changes
    /// something.
    pub(super) fn keep(&mut self, application: &str, job: &str, order: JobOrder) -> bool {
        let is_new = match order {
            JobOrder::Pause => {
                self.jobs.entry(application.to_owned()).or_default().insert(job.to_owned())
            }
            JobOrder::Resume => {
                let jobs = self.jobs.get_mut(application);
                let was_paused = jobs.is_some_and(|jobs| jobs.remove(job));
                self.jobs.retain(|_, jobs| !jobs.is_empty());
                was_paused
            }
            JobOrder::Run => false,
        };
        self.is_changed |= is_new;
        is_new
    }

    /// Another server may change them from now on.
    pub(super) fn forget(&mut self) {
        self.knowledge = Knowledge::Unread;
    }

    /// Returns true if they are being stored.
    pub(super) fn are_saved(&self) -> bool {
        self.is_saving
    }
}

impl Tree {
    /// Returns true if it is known which jobs are paused. Otherwise that is being found out.
    pub(super) fn pauses_are_known(&mut self) -> bool {
        if self.changes.current.grants.jobs.is_empty() {
            return true;
        }
        match (self.jobs.pauses.knowledge, self.options.state_directory()) {
            (Knowledge::Read, _) | (_, None) => true,
            (Knowledge::Reading, _) => false,
            (Knowledge::Unread, Some(directory)) => {
                let task = Task::LoadPauses { directory: directory.clone() };
                self.jobs.pauses.knowledge = Knowledge::Reading;
                self.begin_file_task(task, Origin::Supervisor);
                self.jobs.pauses.knowledge == Knowledge::Read
            }
        }
    }

    /// Takes the stored pauses.
    pub(super) fn pauses_loaded(&mut self, outcome: Outcome) {
        let read = |file| read_memory_file(vec![file], u64::MAX).map_err(|error| error.to_string());
        let parsed = outcome.and_then(|file| {
            let text = file.map(read).transpose()?;
            text.map(|text| pauses_file::parse(&text)).transpose()
        });
        let pauses = &mut self.jobs.pauses;
        pauses.knowledge = Knowledge::Read;
        match parsed {
            // What was ordered meanwhile is newer.
            Ok(_) if pauses.is_changed || pauses.is_saving => {}
            Ok(stored) => pauses.jobs = stored.unwrap_or_default(),
            Err(error) => {
                let line = format_args!("no job is paused: {error}; pause them again");
                self.log.write(Level::Alert, line);
            }
        }
        self.jobs.look();
    }

    /// Stores the pauses, if they have changed and are not being stored.
    pub(super) fn save_pauses(&mut self) {
        let pauses = &mut self.jobs.pauses;
        let Some(directory) = self.options.state_directory().cloned() else { return };
        if pauses.is_changed && !pauses.is_saving {
            (pauses.is_changed, pauses.is_saving) = (false, true);
            let task = Task::SavePauses { directory, paused: pauses.jobs.clone() };
            self.begin_file_task(task, Origin::Supervisor);
        }
    }

    /// Takes the outcome of storing the pauses.
    pub(super) fn pauses_saved(&mut self, outcome: &Outcome) {
        self.jobs.pauses.is_saving = false;
        if let Err(error) = outcome {
            let line = format_args!(
                "the pauses of jobs cannot be stored, and end with the server: {error}"
            );
            self.log.write(Level::Alert, line);
        }
        self.save_pauses();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_holds_until_the_job_is_resumed() {
        let mut pauses = Pauses::default();
        assert!(!pauses.keep("shop", "queue", JobOrder::Resume) && !pauses.is_changed);
        assert!(pauses.keep("shop", "queue", JobOrder::Pause) && pauses.is_changed);
        assert!(!pauses.keep("shop", "queue", JobOrder::Pause), "it is paused already");
        assert!(!pauses.keep("shop", "queue", JobOrder::Run));
        assert!(pauses.has("shop", "queue") && !pauses.has("shop", "mail"));
        assert!(pauses.keep("shop", "queue", JobOrder::Resume));
        assert!(!pauses.has("shop", "queue") && pauses.jobs.is_empty());
    }
}
