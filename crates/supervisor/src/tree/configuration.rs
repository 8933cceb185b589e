//! Changes the configuration.
//!
//! 1. The control process sends a document ([`Tree::apply`]); its grants are derived here.
//! 2. The router prepares it, and may request the resources that it names.
//! 3. When all is ready, the document is stored and becomes current ([`Tree::commit`]).
//! 4. The router carries it out and reports the outcome ([`Tree::applied`]).
//!
//! The first configuration does not come from a control process: the router serves it or refuses
//! it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use howdah_jobs::Job;
use howdah_sys::clock;
use howdah_sys::log::Level;
use howdah_sys::memory::{release_free_memory, release_start_memory};
use howdah_wire::messages::{ApplicationSpec, ChangeOutcome, FromSupervisor, Restart, ToControl};

use super::state::{FAST_SHUTDOWN_TIMEOUT, Shutdown, Tree};
use crate::changes::DerivedGrants;
use crate::file_task::{Candidate, Origin, Outcome, Task};
use crate::grants::Grants;
use crate::memory::{memory_file, read_memory_file};
use crate::store;

impl Tree {
    /// Tells the router to apply a configuration. The error is for the administrator.
    pub(super) fn apply(&mut self, restart: Restart, files: Vec<OwnedFd>) -> Result<(), String> {
        let document =
            read_memory_file(files, store::MAX_DOCUMENT).map_err(|error| error.to_string())?;
        let derived = self.changes.derived.take();
        let grants = match derived.filter(|derived| derived.document == document) {
            Some(derived) => derived.grants,
            None => self.derive(&document)?,
        };
        // In a document that is read again, only the parts that cannot run are out.
        let applications = match restart {
            Restart::Nothing => self.changed_applications(&grants),
            _ if !self.options.strict => Vec::new(),
            _ => self.changed_applications(&grants),
        };
        let jobs = if applications.is_empty() && restart != Restart::Nothing && !self.options.strict
        {
            Vec::new()
        } else {
            self.changed_jobs(&grants)
        };
        let is_checked = applications.is_empty() && jobs.is_empty();
        let candidate = Candidate { document, grants, restart, applications, jobs };
        if is_checked {
            self.begin_checked(candidate)?
        } else {
            self.begin_for_control(Task::Preflight(Box::new(candidate)))
        }
        Ok(())
    }

    fn derive(&self, document: &[u8]) -> Result<Grants, String> {
        match &self.options.grants {
            Some(derive) => derive(document),
            None => Err("the server cannot apply another configuration".to_owned()),
        }
    }

    /// Derives the grants of a document that the control process reads meanwhile, and will probably
    /// send to be applied.
    pub(super) fn derive_early(&self, file: OwnedFd) -> Option<DerivedGrants> {
        let document = read_memory_file(vec![file], store::MAX_DOCUMENT).ok()?;
        let grants = self.derive(&document).ok()?;
        Some(DerivedGrants { document, grants })
    }

    /// Tells the router to apply a configuration whose applications could run.
    pub(super) fn begin_change(&mut self, candidate: Candidate) -> Result<(), String> {
        let Candidate { document, grants, restart, .. } = candidate;
        if self.router.is_none() {
            return Err("the router is being started; try again".to_owned());
        }
        let memory = memory_file("document", &document).map_err(|error| error.to_string())?;
        let missing: Vec<_> = {
            let has = |name: &str| {
                self.router.as_ref().is_some_and(|router| router.certificates.contains(name))
            };
            let is_missing = |name: &&str| grants.has_certificate(name) && !has(name);
            self.certificates.names().filter(is_missing).map(str::to_owned).collect()
        };
        self.postpone_replacement();
        let generation = self.changes.begin(document, grants);
        self.sockets.forget_prepared();
        let generation = generation.ok_or("another configuration is being applied; try again")?;
        for name in missing {
            self.send_certificate(name);
        }
        self.send_to_router(&FromSupervisor::Apply { generation, restart }, &[memory.as_fd()]);
        if self.changes.is_hurried {
            self.send_to_router(&FromSupervisor::Hurry {}, &[]);
        }
        Ok(())
    }

    /// Another change waits for the one that is being made, or looked at before that.
    pub(super) fn hurry(&mut self) {
        self.changes.is_hurried = true;
        if self.changes.is_changing() {
            self.send_to_router(&FromSupervisor::Hurry {}, &[]);
        }
    }

    /// Returns the applications that a configuration adds or changes, each as it is now.
    fn changed_applications(
        &self,
        grants: &Grants,
    ) -> Vec<(ApplicationSpec, Option<ApplicationSpec>)> {
        let current = &self.changes.current.grants.applications;
        let changed = grants.applications.values().filter_map(|spec| {
            let before = current.get(&spec.name);
            (before != Some(spec)).then(|| (spec.clone(), before.cloned()))
        });
        let mut changed: Vec<_> = changed.collect();
        changed.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        changed
    }

    /// Returns the jobs that a configuration adds or changes, each with its application.
    fn changed_jobs(&self, grants: &Grants) -> Vec<(ApplicationSpec, Job)> {
        let current = &self.changes.current.grants.jobs;
        let all = grants.jobs.iter().filter_map(|(name, jobs)| {
            let known = current.get(name).map_or(&[][..], Vec::as_slice);
            let new = jobs.iter().filter(move |job| !known.contains(job));
            Some((grants.applications.get(name)?, new))
        });
        all.flat_map(|(spec, jobs)| jobs.map(|job| (spec.clone(), job.clone()))).collect()
    }

    /// Sends a stored certificate bundle to the router.
    pub(super) fn send_certificate(&mut self, name: String) {
        let pem = self.certificates.get(&name).unwrap_or_default();
        let Ok(pem) = memory_file("certificate", pem) else { return };
        let message = FromSupervisor::Certificate { name: name.clone() };
        self.send_to_router(&message, &[pem.as_fd()]);
        if let Some(router) = &mut self.router {
            router.certificates.insert(name);
        }
    }

    /// Stores a configuration that the router has prepared; then it becomes the current one.
    pub(super) fn commit(&mut self, generation: u32) {
        let Some(document) = self.changes.begin_saving(generation) else {
            self.refuse("a configuration that is not being applied");
            return;
        };
        if self.options.state.is_none() {
            return self.document_saved(generation, Ok(None));
        }
        let task = Task::SaveDocument { generation, document: document.to_vec() };
        self.begin_file_task(task, Origin::Supervisor);
    }

    /// Makes a configuration that was stored the current one. If the router has ended meanwhile,
    /// the next one begins with it.
    pub(super) fn document_saved(&mut self, generation: u32, outcome: Outcome) {
        self.changes.end_saving();
        let error = outcome.err().unwrap_or_default();
        if error.is_empty() {
            let changed = self.changes.commit(Instant::now());
            // Before the router serves other clients there than until now.
            for problem in self.sockets.commit() {
                self.log.write(Level::Alert, problem);
            }
            self.change_resources();
            self.keep_document();
            self.store_http3_secret();
            self.application_checks.begin_with(changed);
            self.prepare_zygotes();
            self.follow_site_logs();
            self.jobs.look();
        }
        if self.router.is_some() {
            self.send_to_router(&FromSupervisor::Commit { generation, error }, &[])
        } else {
            self.changes.abandon()
        }
    }

    /// Passes the outcome of a change to the control process.
    pub(super) fn applied(&mut self, generation: u32, outcome: ChangeOutcome) {
        if self.changes.end(generation) {
            // The grants were derived from a document of many values.
            release_free_memory();
            self.send_to_control(&ToControl::Applied { outcome }, &[])
        } else {
            self.refuse("a configuration that is not being applied");
        }
    }

    /// Handles the report that the router serves its configuration.
    pub(super) fn router_serves(&mut self) {
        if self.shutdown.is_some() {
            return; // it was told to end meanwhile, and its sockets are closed
        }
        if !self.has_served && !self.report_ready() {
            self.log_start();
        }
        if !self.has_served {
            for message in self.sockets.settle_inherited() {
                self.log.write(Level::Warn, message);
            }
        }
        // The server that this one replaces has kept the same document.
        if !self.has_served && self.upgrade.predecessor.is_none() {
            self.keep_document();
        }
        self.has_served = true;
        self.service_manager.router_serves(Instant::now());
        // A router that was taken over could report this again and again.
        let first =
            self.router.as_mut().is_some_and(|one| !std::mem::replace(&mut one.serves, true));
        if first {
            self.application_checks.begin_soon();
            self.users.look_now();
            self.unwritable.router_begins();
            release_start_memory();
            release_free_memory();
        }
    }

    /// Keeps the current document for a start without a valid one. A failure costs only that.
    pub(super) fn keep_document(&mut self) {
        if self.options.last_document.is_some() {
            let document = self.changes.current.document.clone();
            self.begin_file_task(Task::KeepDocument(document), Origin::Supervisor);
        }
    }

    /// Handles the result of a reload. `error`: why the document at its source is refused.
    pub(super) fn source_read(&mut self, error: String) {
        self.document_state.source_read(error, clock::wall_seconds());
    }

    /// Logs the start, and reports it to the process that has started the server.
    pub(super) fn log_start(&mut self) {
        let line = self.start_line();
        self.log.write(Level::Notice, format_args!("{line}"));
        if let Some(on_serving) = self.options.on_serving.take() {
            on_serving(self.is_applied());
        }
        self.notify_ready();
    }

    /// Handles the report that the first configuration cannot be run: the server ends. Refused once
    /// a router has served.
    pub(super) fn refuse_first_configuration(&mut self, message: String) {
        if self.has_served {
            self.refuse("the end of the server");
            return;
        }
        self.refuse_to_serve(message);
    }

    /// Ends the server, as it cannot serve.
    pub(super) fn refuse_to_serve(&mut self, message: String) {
        let deadline = Some(Instant::now() + FAST_SHUTDOWN_TIMEOUT);
        self.shutdown = Some(Shutdown { is_graceful: false, deadline, refusal: Some(message) });
    }

    /// Handles the report that the router has finished its requests: a shutdown need not wait any
    /// longer.
    pub(super) fn router_finished(&mut self) {
        match self.shutdown.take() {
            Some(shutdown) if self.waits_for_predecessor(&shutdown) => {
                self.shutdown = Some(Shutdown { deadline: None, ..shutdown });
                self.kill_router();
            }
            Some(Shutdown { refusal, .. }) => {
                let deadline = Some(Instant::now());
                self.shutdown = Some(Shutdown { is_graceful: false, deadline, refusal });
            }
            None => drop(self.refuse("the end of the server")),
        }
    }

    /// Returns false if the configuration has listeners and none is open.
    fn is_applied(&self) -> bool {
        let wanted = &self.changes.current.grants.listeners;
        wanted.is_empty()
            || self.sockets.addresses().iter().any(|address| wanted.contains_key(*address))
    }

    /// Returns the line for the log at the start.
    fn start_line(&self) -> String {
        let applications = self.changes.current.grants.applications.values();
        let php = applications.filter_map(|spec| self.options.php_for(&spec.php_version));
        let php: BTreeSet<_> = php.map(|program| format!("PHP {}", program.version)).collect();
        let control = self.options.control.as_deref();
        let mut listeners = self.sockets.addresses();
        listeners.retain(|address| !self.options.is_own_address(address));
        let listeners = match listeners.as_slice() {
            [] => "no listeners".to_owned(),
            [one] => format!("listener {one}"),
            all => format!("listeners {}", all.join(" ")),
        };
        let mut parts = vec![concat!("howdah ", env!("CARGO_PKG_VERSION")).to_owned()];
        parts.extend(php);
        parts.push(listeners);
        parts.extend(control.map(|control| format!("control {control}")));
        parts.push(format!("pid {}", std::process::id()));
        let predecessor = self.upgrade.predecessor.as_ref();
        parts.extend(predecessor.map(|old| format!("replaces pid {}", old.pid())));
        format!("started: {}", parts.join(", "))
    }
}
