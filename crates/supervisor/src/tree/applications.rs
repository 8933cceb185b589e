//! What the supervisor does for applications: starts and ends their prototypes, passes on what
//! they report, and ends what they leave.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use howdah_sys::log::Level;
use howdah_sys::pidfd::PidFd;
use howdah_sys::{family, process, signals};
use howdah_wire::messages::{ApplicationSpec, Exit, FromSupervisor};
use howdah_wire::queue::Owner;

use super::{DISMISSAL, Id, Tree};
use crate::control_groups::ControlGroups;
use crate::prototype::{Application, Report, Violation};

impl Tree {
    /// The application to which the router that runs has given a number.
    pub(super) fn id(&self, number: u32) -> Id {
        Id { router: self.router.as_ref().map_or(0, |router| router.pid), number }
    }

    /// Tells the router about an application, if it is the one that has started it.
    pub(super) fn tell_of(&self, id: Id, message: &FromSupervisor, descriptors: &[BorrowedFd<'_>]) {
        if id == self.id(id.number) {
            self.tell_router(message, descriptors);
        }
    }

    pub(super) fn start_application(
        &mut self,
        number: u32,
        spec: &ApplicationSpec,
        descriptors: &[OwnedFd],
    ) {
        match Application::start(&self.options, spec, descriptors, &mut self.control_groups) {
            Ok(application) => {
                self.applications.insert(self.id(number), application);
            }
            Err(message) => {
                self.tell_router(&FromSupervisor::Ended { application: number, message }, &[]);
            }
        }
    }

    /// Ends prototypes whose time is over, and those that were told to stop and are idle.
    pub(super) fn stop_applications_if_due(&mut self, now: Instant) {
        for application in self.applications.values_mut() {
            let Some(deadline) = application.deadline else { continue };
            if deadline <= now || application.is_idle() {
                application.dismiss();
                // Its workers die with it; SIGCHLD reports the end.
                application.deadline = Some(now + DISMISSAL);
            }
        }
    }

    pub(super) fn on_prototype(&mut self, id: Id) {
        // A bounded number, so that all are heard in turn.
        for _ in 0..32 {
            let Some(application) = self.applications.get_mut(&id) else { return };
            let (mut told, descriptors) = match application.next_report(id.number, Instant::now()) {
                Ok(Report::ForRouter(told, descriptors)) => (told, descriptors),
                Ok(Report::Internal) => continue,
                Ok(Report::Empty) => return,
                Ok(Report::Closed) => {
                    application.terminate(None);
                    self.reap();
                    return;
                }
                Err(Violation(what)) => {
                    let name = &application.name;
                    self.log.write(
                        Level::Alert,
                        format_args!("\"{name}\" prototype is killed: it reported {what}"),
                    );
                    application.terminate(Some(&format!("it reported {what}")));
                    return;
                }
            };
            match (&mut told, application.out_of_memory.as_deref()) {
                (FromSupervisor::Died { status, .. }, counter) => {
                    *status = why(*status, counter, &mut self.control_groups);
                }
                // Its workers' deaths have come before this; what is counted besides is of others.
                (FromSupervisor::Measured { .. }, Some(counter)) => {
                    self.control_groups.caught_up(counter);
                }
                _ => {}
            }
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            self.tell_of(id, &told, &descriptors);
        }
    }

    /// The kernel tells that a worker has ended.
    pub(super) fn on_death(&mut self, id: Id, worker: Owner) {
        if let Some(application) = self.applications.get_mut(&id) {
            application.worker_ended(worker, Instant::now());
        }
    }

    /// A signal has stopped a child, or made it go on.
    pub(super) fn prototype_stopped(&mut self, pid: u32, is_stopped: bool) {
        let id = self.application_of(pid);
        if let Some(application) = id.and_then(|id| self.applications.get_mut(&id)) {
            application.set_stopped(is_stopped, Instant::now());
        }
    }

    /// Starts workers, kills those whose time has come, and prototypes that do not answer.
    pub(super) fn run_due_in_applications(&mut self, now: Instant) {
        let was_ending = self.orphans.due().is_some();
        self.orphans.step_if_due(now);
        if was_ending && self.orphans.due().is_none() {
            self.control_groups.tidy();
        }
        // While the router does not keep up there is no use in more that it must hear of.
        let keeps_up = self.router.as_ref().is_some_and(|router| router.outbox.borrow().is_empty());
        let mut failures = Vec::new();
        for (id, application) in &mut self.applications {
            if let Some(reason) = application.step(now) {
                let name = &application.name;
                self.log
                    .write(Level::Alert, format_args!("\"{name}\" prototype is killed: {reason}"));
                application.terminate(Some(reason));
            }
            if keeps_up {
                let failed = application.ask_for_workers(id.number, now);
                failures.extend(failed.into_iter().map(|failure| (*id, failure)));
            }
        }
        failures.iter().for_each(|(id, failure)| self.tell_of(*id, failure, &[]));
    }

    /// Kills a prototype that has too much to say.
    pub(super) fn kill_prototype(&self, id: Id) {
        let Some(application) = self.applications.get(&id) else { return };
        let name = &application.name;
        self.log.write(
            Level::Alert,
            format_args!("\"{name}\" prototype is killed: it reports more than the router reads"),
        );
        let _ = signals::send(application.pid, signals::SIGKILL);
    }

    pub(super) fn prototype_ended(&mut self, id: Id, exit: Exit) {
        self.on_prototype(id);
        self.on_output(id);
        let Some(application) = self.applications.remove(&id) else { return };
        let exit = why(exit, application.out_of_memory.as_deref(), &mut self.control_groups);
        application.kill_workers();
        self.end_control_group(application.control_group.as_deref());
        self.end_orphans();
        self.control_groups.tidy();
        let failure = application.failure.map(|problem| problem.to_string());
        let message = failure.unwrap_or_else(|| format!("its prototype {exit}"));
        self.tell_of(id, &FromSupervisor::Ended { application: id.number, message }, &[]);
    }

    /// Kills all that is left in the control group of an application that has ended.
    fn end_control_group(&self, group: Option<&str>) {
        let others = self.applications.values().filter_map(|other| other.control_group.as_deref());
        if let Some(group) = group {
            self.control_groups.kill(group, others);
        }
    }

    /// Begins to end what a prototype that was killed has left: its workers end with it, but not what
    /// they have started.
    pub(super) fn end_orphans(&mut self) {
        let (own, spare, now) = (std::process::id(), self.spare(), Instant::now());
        let orphans = family::children(own).into_iter().filter(|pid| !spare.contains(pid));
        for orphan in orphans {
            if let Ok(handle) = PidFd::open(orphan) {
                self.orphans.add(orphan, Rc::new(handle), now);
            } else {
                family::kill(orphan);
            }
        }
    }

    /// As [`Tree::end_orphans`], and waits until they have ended.
    pub(super) fn end_orphans_now(&self) {
        family::kill_descendants(std::process::id(), &self.spare());
    }

    /// Children that are no orphans of an application. As the first process of a container this one
    /// also gets children that are none of the server's; those may gain privileges, an application's
    /// may not.
    fn spare(&self) -> Vec<u32> {
        let own = std::process::id();
        let router = self.router.as_ref().map(|router| router.pid);
        let mut spare: Vec<_> = self.applications.values().map(|known| known.pid).collect();
        spare.extend(router.into_iter().chain(self.control_pid()).chain(self.programs.pids()));
        if own == 1 {
            let strangers = family::children(own).into_iter();
            spare.extend(strangers.filter(|pid| !process::has_no_new_privileges(*pid)));
        }
        spare
    }

    pub(super) fn on_output(&mut self, id: Id) {
        let Some(application) = self.applications.get_mut(&id) else { return };
        let Some(output) = &mut application.output else { return };
        if !output.drain(&application.name, &self.log) {
            application.output = None;
        }
    }
}

/// How a process of an application ended: signal 9 may have been the kernel's.
fn why(exit: Exit, counter: Option<&Path>, groups: &mut ControlGroups) -> Exit {
    match counter {
        Some(counter) if exit == Exit::Signal(9) && groups.has_killed(counter) => Exit::OutOfMemory,
        _ => exit,
    }
}
