//! Tasks with files that other processes carry out, so that the event loop waits for no disk.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use howdah_sys::log::Level;
use howdah_wire::messages::{ChangeOutcome, FromSupervisor, ToControl};

use super::state::Tree;
use crate::file_helpers::Done;
use crate::file_task::{Candidate, Origin, Outcome, Task, found_access};

impl Tree {
    /// Begins a task for the router.
    pub(super) fn begin_for_router(&mut self, task: Task) {
        if let Some(router) = &self.router {
            self.begin_file_task(task, Origin::Router(router.pid));
        }
    }

    /// Begins a task for the control process.
    pub(super) fn begin_for_control(&mut self, task: Task) {
        if let Some(pid) = self.control_pid() {
            self.begin_file_task(task, Origin::Control(pid));
        }
    }

    /// Begins a task, whose outcome is taken by [`Tree::file_task_ended`].
    pub(super) fn begin_file_task(&mut self, task: Task, origin: Origin) {
        let is_stream = task
            .file()
            .and_then(Path::to_str)
            .is_some_and(|path| matches!(path, "/dev/stdout" | "/dev/stderr"));
        if is_stream || self.carries_out_file_tasks {
            let outcome = task.carry_out(&self.options);
            return self.file_task_ended(((task, origin), outcome));
        }
        if let Err(errand) = self.file_helpers.add(task, origin) {
            self.file_task_ended((errand, Err("too many files are being opened".to_owned())));
        }
    }

    pub(super) fn advance_file_tasks(&mut self, now: Instant) {
        for failed in self.file_helpers.advance(now, &self.options) {
            self.file_task_ended(failed);
        }
    }

    pub(super) fn on_file_helper(&mut self, pid: u32) {
        if let Some(done) = self.file_helpers.receive(pid, Instant::now()) {
            self.file_task_ended(done);
        }
        self.confirm_unbound();
    }

    /// Handles the end of a process. Returns false if it carried out no tasks.
    pub(super) fn file_helper_ended(&mut self, pid: u32) -> bool {
        let Some(done) = self.file_helpers.ended(pid) else { return false };
        done.into_iter().for_each(|done| self.file_task_ended(done));
        self.confirm_unbound();
        true
    }

    /// Passes the outcome of a task to the process that has asked for it, if that still runs.
    fn file_task_ended(&mut self, ((task, origin), outcome): Done) {
        self.state_written(&task, &outcome);
        // A completed write counts, even if no process waits for its result.
        match &task {
            Task::SaveDocument { generation, .. } => {
                return self.document_saved(*generation, outcome);
            }
            Task::StoreCertificate { name, pem } if outcome.is_ok() => {
                self.certificates.insert(name.clone(), pem.clone());
                // A listener may name it already, and wait for it.
                let is_named = self.changes.current.grants.certificates.contains(name);
                if is_named && matches!(origin, Origin::Control(_)) {
                    self.send_certificate(name.clone());
                }
            }
            Task::DeleteCertificate { name } if outcome.is_ok() => self.certificate_deleted(name),
            _ => {}
        }
        if let Origin::Router(pid) = origin
            && self.replacement.find(pid).is_some()
        {
            self.as_router(pid, |tree| tree.pass_on(task, origin, outcome));
            return;
        }
        self.pass_on(task, origin, outcome);
    }

    fn pass_on(&mut self, task: Task, origin: Origin, outcome: Outcome) {
        let is_current = match origin {
            Origin::Router(pid) => self.router.as_ref().is_some_and(|router| router.pid == pid),
            Origin::Control(pid) => self.control_pid() == Some(pid),
            Origin::Mail(number) => return self.mail_file_read(number, outcome),
            Origin::Telemetry => return self.telemetry_file_read(outcome),
            Origin::Supervisor => true,
        };
        if !is_current {
            return;
        }
        match task {
            Task::OpenLog(path) | Task::ConnectLog(path) => {
                let (file, error) = parts(outcome);
                self.keep_site_log(&path, file.as_ref());
                self.answer_router(&FromSupervisor::LogOpened { path, error }, file);
            }
            Task::OpenCache(path) => {
                let (file, error) = parts(outcome);
                self.answer_router(&FromSupervisor::CacheOpened { path, error }, file);
            }
            Task::ReadTls(_) => {
                let (file, error) = parts(outcome);
                self.answer_router(&FromSupervisor::FileRead { error }, file);
            }
            Task::ReadDocument(_) | Task::CompileDocument { .. } => {
                let (file, error) = parts(outcome);
                let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
                self.send_to_control(&ToControl::DocumentRead { error }, &files);
                self.changes.derived = file.and_then(|file| self.derive_early(file));
            }
            Task::KeepDocument(_) => {
                if let Err(error) = outcome {
                    let line = format_args!(
                        "the document is not kept for a start without a valid one: {error}"
                    );
                    self.log.write(Level::Warn, line);
                }
            }
            Task::SaveDocument { .. } | Task::ProbeState { .. } | Task::ReadSecret(_) => {}
            Task::StoreCertificate { name, .. } if matches!(origin, Origin::Router(_)) => {
                self.managed_stored(name, outcome);
            }
            Task::StoreCertificate { .. } | Task::DeleteCertificate { .. } => {
                let (_, error) = parts(outcome);
                self.send_to_control(&ToControl::Stored { error, is_upgrading: false }, &[]);
            }
            Task::ReopenLog(_) => self.own_log_opened(outcome),
            Task::Preflight(candidate) => self.preflight_ended(*candidate, outcome),
            Task::CheckApplications(checked) => self.applications_checked(&checked, outcome),
            Task::CheckUsers(_) => self.users_checked(outcome),
            Task::FindUsers(_) => {
                let (file, error) = parts(outcome);
                let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
                self.send_to_control(&ToControl::UsersFound { error }, &files);
            }
            Task::LookUpAccess { address, backlog, .. } => {
                self.bind_as(address, backlog, found_access(outcome));
            }
            Task::LookAtTables { .. } => self.tables_looked_at(outcome),
            Task::LoadUsage { month, .. } => self.usage_loaded(&month, outcome),
            Task::SaveUsage { usage, .. } => self.usage_saved(&usage.month, &outcome),
            Task::LoadPauses { .. } => self.pauses_loaded(outcome),
            Task::SavePauses { .. } => self.pauses_saved(&outcome),
        }
    }

    fn answer_router(&self, message: &FromSupervisor, file: Option<OwnedFd>) {
        let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        self.send_to_router(message, &files);
    }

    pub(super) fn preflight_ended(&mut self, candidate: Candidate, outcome: Outcome) {
        let begun = match outcome {
            _ if self.upgrade.is_in_progress() => Err(ChangeOutcome::Upgrading),
            Ok(_) => self.begin_change(candidate).map_err(ChangeOutcome::NotApplied),
            Err(problem) => Err(ChangeOutcome::NotApplied(problem)),
        };
        if let Err(outcome) = begun {
            self.send_to_control(&ToControl::Applied { outcome }, &[]);
        }
    }
}

/// Returns the file, and the error message, which is empty without an error.
fn parts(outcome: Outcome) -> (Option<OwnedFd>, String) {
    match outcome {
        Ok(file) => (file, String::new()),
        Err(error) => (None, error),
    }
}
