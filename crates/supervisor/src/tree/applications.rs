//! Applications: carries out the router's requests for them, starts and ends their prototypes,
//! passes on their reports, and ends their orphaned processes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::pidfd::PidFd;
use howdah_sys::{process, process_tree, signals};
use howdah_wire::messages::{ApplicationSpec, Exit, FromSupervisor, Problem};
use howdah_wire::queue::WorkerId;
use howdah_wire::region::Geometry;

use super::id::Id;
use super::state::Tree;
use super::zygotes::StartKind;
use crate::control_groups::ControlGroups;
use crate::output::Output;
use crate::prototype::{Application, DISMISSAL_TIMEOUT, NotForked, Report, Violation};
use crate::zygote::ForkFailure;

/// Maximum number of instances of one application that run at the same time. A restart starts a new
/// one while the old ones finish their requests.
const MAX_INSTANCES: usize = 64;

/// Maximum number of reports of one prototype in one turn of the event loop, so that every
/// prototype has a turn.
const MAX_REPORTS_PER_TURN: usize = 32;

/// Error for a request about an application that has no prototype.
const NOT_RUNNING: &str = "it does not run";

impl Tree {
    // -- requests of the router --

    pub(super) fn start_named(
        &mut self,
        number: u32,
        name: &str,
        generation: u32,
        geometry: Geometry,
        descriptors: Vec<OwnedFd>,
    ) {
        let known = self.changes.application(name, generation, Instant::now()).cloned();
        let id = self.id(number);
        let is_new = !self.applications.contains_key(&id) && self.zygotes.waiting(id).is_none();
        let problem = match known.filter(|_| is_new) {
            Some(mut spec) => {
                let instances = self.applications.values().filter(|app| app.name == spec.name);
                let instances = instances.count() + self.zygotes.waiting_instances(&spec.name);
                if instances < MAX_INSTANCES {
                    let mut running = self.applications.values();
                    if running.any(|app| app.is_ready() && app.has_spec(&spec)) {
                        self.jobs.restart(&spec); // it replaces one that is as it was
                    }
                    spec.geometry = geometry;
                    return self.start_application(number, spec, descriptors);
                }
                let text = "instances of it have not finished their requests";
                Problem::of(format_args!("{MAX_INSTANCES} {text}"))
            }
            None => Problem::of(self.refuse(format_args!("the application \"{name}\""))),
        };
        self.send_to_router(&FromSupervisor::Ended { application: number, problem }, &[]);
    }

    /// Starts the prototype of an application, now or once a zygote has loaded PHP.
    pub(super) fn start_application(
        &mut self,
        number: u32,
        spec: ApplicationSpec,
        descriptors: Vec<OwnedFd>,
    ) {
        let id = self.id(number);
        let kind = self.start_kind(&spec, Instant::now());
        let processes = self.processes_of_user(&spec);
        let (options, groups) = (&self.options, &mut self.control_groups);
        let zygote = match kind {
            StartKind::Wait(start) => return self.wait_for_zygote(start, id, spec, descriptors),
            StartKind::Fork(start) => self.zygotes.zygote(&start).map(|zygote| (start, zygote)),
            StartKind::Execute => None,
        };
        let started = match zygote {
            None => Application::start(options, &spec, processes, &descriptors, groups),
            Some((start, zygote)) => {
                match Application::fork(options, &spec, processes, &descriptors, groups, zygote) {
                    Err(NotForked::Zygote(ForkFailure::Outdated)) => {
                        self.renew_zygote(&start);
                        return self.start_application(number, spec, descriptors);
                    }
                    Err(NotForked::Zygote(ForkFailure::Broken(reason))) => {
                        self.give_up_zygote(&start, &reason);
                        return self.start_application(number, spec, descriptors);
                    }
                    Err(NotForked::Zygote(ForkFailure::Refused(message))) => {
                        Err(Problem::of(message))
                    }
                    Err(NotForked::Application(problem)) => Err(problem),
                    Ok(application) => Ok(application),
                }
            }
        };
        match started {
            Ok(mut application) => {
                if let Some(output) = &mut application.output {
                    output.begin_start(self.failed_starts.take(&application.name, Instant::now()));
                }
                self.applications.insert(id, application);
            }
            Err(problem) => {
                self.send_to_router(&FromSupervisor::Ended { application: number, problem }, &[]);
            }
        }
    }

    pub(super) fn spawn_worker(&mut self, application: u32) {
        let id = self.id(application);
        if let Some(waiting) = self.zygotes.waiting(id) {
            waiting.workers = waiting.workers.saturating_add(1);
            return;
        }
        let spawned = match self.applications.get_mut(&id) {
            Some(found) => found.spawn(),
            None => Err(NOT_RUNNING.to_owned()),
        };
        self.count_soon(id, Instant::now());
        if let Err(message) = spawned {
            let is_temporary = false;
            let failure = FromSupervisor::NotStarted { application, is_temporary, message };
            self.send_to_router(&failure, &[]);
        }
    }

    pub(super) fn kill_worker(&mut self, application: u32, worker: WorkerId, signal: u8) {
        if let Some(found) = self.applications.get_mut(&self.id(application)) {
            found.kill(worker, signal.into(), Instant::now());
        }
    }

    pub(super) fn trace_worker(&mut self, application: u32, worker: WorkerId, number: u32) {
        let requested = match self.applications.get_mut(&self.id(application)) {
            Some(found) => found.trace(worker, number, Instant::now()),
            None => Err(NOT_RUNNING.to_owned()),
        };
        if let Err(error) = requested {
            let stack = Err(error);
            self.send_to_router(&FromSupervisor::Traced { application, number, stack }, &[]);
        }
    }

    pub(super) fn check_files(&mut self, application: u32) {
        if self.users.changed.contains(&self.id(application)) {
            let changed = Some("the ids of its user".to_owned());
            return self
                .send_to_router(&FromSupervisor::FilesChecked { application, changed }, &[]);
        }
        let is_asked = match self.applications.get_mut(&self.id(application)) {
            Some(found) => found.check_files(),
            None => false, // it waits for PHP, or its end has been reported
        };
        if !is_asked {
            let checked = FromSupervisor::FilesChecked { application, changed: None };
            self.send_to_router(&checked, &[]);
        }
    }

    pub(super) fn measure_workers(&mut self, application: u32) {
        if let Some(found) = self.applications.get_mut(&self.id(application)) {
            found.measure(Instant::now());
        }
    }

    pub(super) fn stop_application(&mut self, application: u32, grace: Duration) {
        let id = self.id(application);
        if self.stop_waiting(application) {
            return;
        }
        if let Some(found) = self.applications.get_mut(&id) {
            found.end_within(grace, Instant::now());
        }
    }

    pub(super) fn unload_application(&mut self, application: u32) {
        let id = self.id(application);
        if self.stop_waiting(application) {
            return;
        }
        if let Some(found) = self.applications.get_mut(&id) {
            found.unload(Instant::now());
        }
    }

    // -- events --

    /// Sends a message about an application to the router, if it is the one that started the
    /// application.
    fn send_about(&mut self, id: Id, message: &FromSupervisor, descriptors: &[BorrowedFd<'_>]) {
        self.as_router(id.router, |tree| tree.send_to_router(message, descriptors));
    }

    /// Ends prototypes whose deadline has passed, stopping ones without workers, and unused ones
    /// without any process.
    pub(super) fn stop_applications_if_due(&mut self, now: Instant) {
        for application in self.applications.values_mut() {
            application.unload_if_alone(now);
            let Some(deadline) = application.deadline else { continue };
            if deadline <= now || application.is_idle() {
                application.dismiss();
                // Its workers die with it; SIGCHLD reports the end.
                application.deadline = Some(now + DISMISSAL_TIMEOUT);
            }
        }
    }

    /// Reads the reports of a prototype and passes them to the router.
    pub(super) fn on_prototype(&mut self, id: Id) {
        for _ in 0..MAX_REPORTS_PER_TURN {
            let Some(application) = self.applications.get_mut(&id) else { return };
            let (mut message, descriptors) =
                match application.next_report(id.number, Instant::now()) {
                    Ok(Report::ForRouter(message, descriptors)) => (message, descriptors),
                    Ok(Report::Internal) => continue,
                    Ok(Report::Empty) => return,
                    Ok(Report::Closed) => {
                        application.has_ended_unexpectedly =
                            application.is_ready() && application.deadline.is_none();
                        application.terminate(None);
                        self.reap();
                        return;
                    }
                    Err(Violation(report)) => {
                        let name = &application.name;
                        self.log.write(
                            Level::Alert,
                            format_args!("\"{name}\" prototype is killed: it reported {report}"),
                        );
                        application.terminate(Some(&format!("it reported {report}")));
                        return;
                    }
                };
            if let FromSupervisor::Died { worker, status, .. } = &mut message {
                *status = application.exit_of_worker(*worker, *status);
            }
            match (&mut message, application.out_of_memory.as_deref()) {
                (FromSupervisor::Died { status, .. }, counter) => {
                    *status = exit_of(*status, counter, &mut self.control_groups);
                }
                // The deaths of its workers have been reported before, so further kills that the
                // kernel has counted are of other processes.
                (FromSupervisor::Measured { .. }, Some(counter)) => {
                    self.control_groups.caught_up(counter);
                }
                _ => {}
            }
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            self.send_about(id, &message, &descriptors);
        }
    }

    /// Handles a readable worker descriptor: the process has ended.
    pub(super) fn on_worker_end(&mut self, id: Id, worker: WorkerId) {
        if let Some(application) = self.applications.get_mut(&id) {
            application.worker_ended(worker, Instant::now());
        }
    }

    /// Records that a signal has stopped or continued a child.
    pub(super) fn prototype_stopped(&mut self, pid: u32, is_stopped: bool) {
        let id = self.application_of(pid);
        if let Some(application) = id.and_then(|id| self.applications.get_mut(&id)) {
            application.set_stopped(is_stopped, Instant::now());
        }
    }

    /// Starts workers, kills those that are due, and kills prototypes that do not answer.
    pub(super) fn run_due_in_applications(&mut self, now: Instant) {
        let was_ending = self.orphans.due().is_some();
        self.orphans.step_if_due(now);
        if was_ending && self.orphans.due().is_none() {
            self.control_groups.tidy();
        }
        // No workers are started while the router does not keep up: each causes further messages.
        let keeps_up = self.router.as_ref().is_some_and(|router| router.outbox.borrow().is_empty());
        let (mut failures, mut killed) = (Vec::new(), Vec::new());
        for (id, application) in &mut self.applications {
            if let Some(reason) = application.step(now) {
                let name = &application.name;
                killed.push((application.pid, format!("\"{name}\" prototype: {reason}")));
                self.log
                    .write(Level::Alert, format_args!("\"{name}\" prototype is killed: {reason}"));
                application.terminate(Some(reason));
            }
            if keeps_up {
                let failed = application.request_workers(id.number, now);
                failures.extend(failed.into_iter().map(|failure| (*id, failure)));
            }
        }
        failures.iter().for_each(|(id, failure)| self.send_about(*id, failure, &[]));
        killed.into_iter().for_each(|(pid, reason)| self.note_replaced(pid, reason));
    }

    /// Kills a prototype that reports faster than the router reads.
    pub(super) fn kill_prototype(&self, id: Id) {
        let Some(application) = self.applications.get(&id) else { return };
        let name = &application.name;
        self.log.write(
            Level::Alert,
            format_args!("\"{name}\" prototype is killed: it reports faster than the router reads"),
        );
        let _ = signals::send(application.pid, signals::SIGKILL);
    }

    pub(super) fn prototype_ended(&mut self, id: Id, exit: Exit) {
        self.on_prototype(id);
        self.on_output(id);
        self.start_has_failed(id);
        let Some(application) = self.applications.remove(&id) else { return };
        let exit = exit_of(exit, application.out_of_memory.as_deref(), &mut self.control_groups);
        application.kill_workers();
        self.end_control_group(application.plan.group.as_deref());
        self.end_orphans();
        self.control_groups.tidy();
        if application.has_ended_unexpectedly && self.shutdown.is_none() {
            let (pid, name) = (application.pid, &application.name);
            self.note_replaced(pid, format!("\"{name}\" prototype: it {exit}"));
        }
        let failure = application.failure;
        let problem = failure.unwrap_or_else(|| Problem::of(format_args!("its prototype {exit}")));
        self.send_about(id, &FromSupervisor::Ended { application: id.number, problem }, &[]);
    }

    /// Kills all processes in the control group of an application that has ended.
    fn end_control_group(&self, group: Option<&str>) {
        let others = self.applications.values().filter_map(|other| other.plan.group.as_deref());
        let others = others.chain(self.jobs.control_groups());
        if let Some(group) = group {
            self.control_groups.kill(group, others);
        }
    }

    /// Begins to end the orphans of a killed prototype: its workers end with it, but not the
    /// processes that they have started.
    pub(super) fn end_orphans(&mut self) {
        let (own, expected, now) = (std::process::id(), self.expected_children(), Instant::now());
        let orphans = process_tree::children(own).into_iter().filter(|pid| !expected.contains(pid));
        for orphan in orphans {
            if let Ok(handle) = PidFd::open(orphan) {
                self.orphans.add(orphan, Rc::new(handle), now);
            } else {
                process_tree::kill(orphan);
            }
        }
    }

    /// Ends the same processes as [`Tree::end_orphans`] and waits until they have ended.
    pub(super) fn end_orphans_now(&self) {
        process_tree::kill_descendants(std::process::id(), &self.expected_children());
    }

    /// Returns the process ids of children that are no orphans of an application. As the first
    /// process of a container, this one also adopts processes that are not the server's; those may
    /// gain privileges, an application's may not.
    fn expected_children(&self) -> Vec<u32> {
        let own = std::process::id();
        let router = self.router.as_ref().map(|router| router.pid);
        let mut expected: Vec<_> =
            self.applications.values().map(|application| application.pid).collect();
        expected.extend(router.into_iter().chain(self.control_pid()).chain(self.programs.pids()));
        expected.extend(self.replacement.pids());
        expected.extend(self.mail.pids().chain(self.telemetry.pids()).chain(self.dashboard.pids()));
        expected.extend(self.zygotes.pids());
        expected.extend(self.file_helpers.pids());
        expected.extend(self.jobs.pids());
        expected.extend(self.upgrade.successor().map(|successor| successor.pid));
        if own == 1 {
            let children = process_tree::children(own).into_iter();
            expected.extend(children.filter(|pid| !process::has_no_new_privileges(*pid)));
        }
        expected
    }

    /// Logs the output of an application.
    pub(super) fn on_output(&mut self, id: Id) {
        let Some(application) = self.applications.get_mut(&id) else { return };
        let Some(output) = &mut application.output else { return };
        if !output.drain(&application.name, &self.log) {
            self.start_has_failed(id);
            if let Some(application) = self.applications.get_mut(&id) {
                application.output = None;
            }
        }
    }

    /// Stores the output of an application's start if it has failed.
    fn start_has_failed(&mut self, id: Id) {
        let Some(application) = self.applications.get_mut(&id) else { return };
        if let Some(lines) = application.output.as_mut().and_then(Output::end_start) {
            self.failed_starts.add(&application.name, lines, Instant::now());
        }
    }
}

/// Returns how a process of an application ended. Signal 9 may have been sent by the kernel when
/// memory ran out.
pub(super) fn exit_of(exit: Exit, counter: Option<&Path>, groups: &mut ControlGroups) -> Exit {
    match counter {
        Some(counter) if exit == Exit::Signal(9) && groups.has_killed(counter) => Exit::OutOfMemory,
        _ => exit,
    }
}
