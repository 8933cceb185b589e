//! The fallback of an application whose worker script does not work.
//!
//! 1. Workers are forked from the prototype and run a script for each request. Those that wait for
//!    a template are the first. Workers in which the worker script runs continue.
//! 2. The worker script is tried again in templates, with the pauses of any boot that fails.
//! 3. When it has booted, the application is started again: its new workers take over from those
//!    that run a script for each request, and no request is lost. The template that has shown it is
//!    not used: its workers would be mixed with the others.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use howdah_wire::queue::WorkerId;

use super::{Event, Kind, MAX_PAUSE, Origin};
use crate::refusal::Refusal;

/// Time that the worker script may take to boot again before workers are forked from the prototype
/// instead. A script that never asks for a request must not delay requests until it is ended.
const PATIENCE: Duration = Duration::from_secs(5);

impl Origin {
    /// Returns true if the application's other scripts may run instead of the worker script.
    pub(super) fn has_fallback(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.has_fallback)
    }

    /// Lets workers run a script for each request from now on, if they do not do so already.
    pub(super) fn fall_back(&mut self, problem: String, events: &mut Vec<Event>) {
        self.has_been_ready = true;
        if !std::mem::replace(&mut self.has_fallen_back, true) {
            events.push(Event::FellBack { problem });
        }
    }

    /// Takes the workers that no template has been asked for.
    pub fn take_requests(&mut self) -> Vec<(WorkerId, Vec<OwnedFd>)> {
        let requests = self.requests.extract_if(.., |request| !request.is_sent);
        let requests = requests.filter(|request| !request.is_refused);
        requests.map(|request| (request.worker, request.descriptors)).collect()
    }

    /// Returns the time at which [`Origin::check_fallback`] has something to do.
    pub(super) fn fallback_due(&self) -> Option<Instant> {
        match &self.kind {
            Kind::Template(None) if self.has_fallen_back => {
                self.pause.as_ref().map(|(end, _)| *end)
            }
            Kind::Template(Some(template)) => {
                let may_fall_back =
                    self.has_fallback() && self.has_been_ready && !self.has_fallen_back;
                (may_fall_back && !template.has_booted).then(|| template.started + PATIENCE)
            }
            _ => None,
        }
    }

    /// Tries the worker script again when its time has come. Does not wait longer for one that
    /// takes long.
    pub(super) fn check_fallback(&mut self, now: Instant, events: &mut Vec<Event>) {
        if self.fallback_due().is_none_or(|due| due > now) {
            return;
        }
        match self.kind {
            Kind::Template(None) => events.push(Event::Boot),
            _ => {
                let seconds = PATIENCE.as_secs();
                let problem = format!("it has not started again within {seconds} seconds");
                self.fall_back(problem, events);
            }
        }
    }

    /// Handles a boot of the worker script that has succeeded while workers run another script.
    pub(super) fn works_again(&mut self, events: &mut Vec<Event>) {
        if let Kind::Template(Some(template)) = &self.kind {
            template.kill();
        }
        self.kind = Kind::Template(None);
        self.failures = 0;
        // The application is started again. If that fails, the worker script is tried again.
        let refusal = Refusal::temporary("its worker script works again");
        self.pause = Some((Instant::now() + MAX_PAUSE, refusal));
        events.push(Event::WorksAgain);
    }

    /// Handles the end of a worker that could not boot the worker script.
    pub fn worker_not_booted(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        if matches!(self.kind, Kind::BootingWorkers) && self.has_fallback() {
            self.fail(
                "a worker could not start it; the log has the reason".to_owned().into(),
                &mut events,
            );
        }
        events
    }

    /// Handles that no template could be forked.
    pub fn not_begun(&mut self, problem: String) -> Vec<Event> {
        let mut events = Vec::new();
        self.fail(problem.into(), &mut events);
        events
    }
}
