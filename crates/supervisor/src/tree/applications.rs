//! What the supervisor does for applications: starts and ends their prototypes, passes on what
//! they report, and ends what they leave.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use howdah_sys::log::Level;
use howdah_sys::packet::{self, Received};
use howdah_sys::{family, process, signals};
use howdah_wire::messages::{ApplicationSpec, Exit, FromPrototype, FromSupervisor, MAX_MESSAGE};

use super::{DISMISSAL, Id, Tree};
use crate::control_groups::ControlGroups;
use crate::prototype::{Application, Unknown};

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

    pub(super) fn on_prototype(&mut self, id: Id, buffer: &mut [u8]) {
        for _ in 0..32 {
            let Some(application) = self.applications.get_mut(&id) else { return };
            let (length, mut descriptors) = match packet::receive(&application.socket, buffer) {
                Ok(Received::Packet(length, descriptors)) => (length, descriptors),
                Ok(Received::Empty) => return,
                _ => {
                    let _ = signals::send(application.pid, signals::SIGKILL);
                    self.reap();
                    return;
                }
            };
            let told = match FromPrototype::decode(&buffer[..length]) {
                Ok(FromPrototype::Ready { version }) => {
                    application.ready = true;
                    Ok(FromSupervisor::Ready { application: id.number, version })
                }
                Ok(FromPrototype::Failed { problem }) => {
                    application.failure = Some(problem);
                    continue;
                }
                Ok(FromPrototype::Started { worker, pid }) => {
                    application.worker_started(worker, pid).map(|(pid, output)| {
                        descriptors.truncate(1);
                        descriptors.extend(output);
                        FromSupervisor::Started { application: id.number, worker, pid }
                    })
                }
                Ok(FromPrototype::NotStarted { worker, message }) => application
                    .worker_ended(worker)
                    .map(|_| FromSupervisor::NotStarted { application: id.number, message }),
                Ok(FromPrototype::Died { worker, pid, status }) => {
                    let counter = application.out_of_memory.as_deref();
                    let status = why(status, counter, &mut self.control_groups);
                    application.worker_ended(worker).map(|known| FromSupervisor::Died {
                        application: id.number,
                        worker,
                        pid: known.unwrap_or(pid),
                        status,
                    })
                }
                Ok(FromPrototype::Traced { number, stack }) => {
                    Ok(FromSupervisor::Traced { application: id.number, number, stack })
                }
                Ok(FromPrototype::Measured { base, memory_limit, workers }) => {
                    // Its workers' deaths have come before this; what is counted besides is of
                    // others.
                    if let Some(counter) = &application.out_of_memory {
                        self.control_groups.caught_up(counter);
                    }
                    let application = id.number;
                    Ok(FromSupervisor::Measured { application, base, memory_limit, workers })
                }
                // That is an answer to `Check`.
                Ok(FromPrototype::Noticed { .. }) | Err(_) => Err(Unknown),
            };
            let told = match told {
                Ok(told) => told,
                Err(Unknown) => {
                    let name = &application.name;
                    self.log.write(
                        Level::Alert,
                        format_args!("\"{name}\" prototype sent nonsense and is ended"),
                    );
                    let _ = signals::send(application.pid, signals::SIGKILL);
                    return;
                }
            };
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            self.tell_of(id, &told, &descriptors);
        }
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
        let mut buffer = vec![0; MAX_MESSAGE];
        self.on_prototype(id, &mut buffer);
        self.on_output(id);
        let Some(application) = self.applications.remove(&id) else { return };
        let exit = why(exit, application.out_of_memory.as_deref(), &mut self.control_groups);
        self.end_orphans();
        self.control_groups.tidy();
        let failure = application.failure.map(|problem| problem.to_string());
        let message = failure.unwrap_or_else(|| format!("its prototype {exit}"));
        self.tell_of(id, &FromSupervisor::Ended { application: id.number, message }, &[]);
    }

    /// Ends what a prototype that was killed has left: its workers end with it, but not what they
    /// have started. As the first process of a container this one also gets children that are
    /// none of the server's; those may gain privileges, an application's may not.
    pub(super) fn end_orphans(&self) {
        let own = std::process::id();
        let router = self.router.as_ref().map(|router| router.pid);
        let mut spare: Vec<_> = self.applications.values().map(|known| known.pid).collect();
        spare.extend(router);
        spare.extend(self.control_pid());
        spare.extend(self.programs.pids());
        if own == 1 {
            let strangers = family::children(own).into_iter();
            spare.extend(strangers.filter(|pid| !process::has_no_new_privileges(*pid)));
        }
        family::kill_descendants(own, &spare);
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
