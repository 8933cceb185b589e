//! Replaces the router without a lost connection: the rights of the running one to read were fixed
//! at its start.
//!
//! 1. The router reports that a directory of the configuration has appeared which it may not read.
//! 2. Another router starts beside it, with copies of the same listening sockets and applications
//!    of its own.
//! 3. When it serves, it is the current one. The former one accepts no more connections, finishes
//!    its requests, and ends.
//!
//! If the next router ends before it serves, the current one continues. A former router can only
//! keep its own applications going.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::packet::{self, Received};
use howdah_sys::signals;
use howdah_wire::messages::{Exit, FromSupervisor, ToControl, ToSupervisor};

use super::state::Tree;
use crate::router::{self, Limits, Resources, Router, Stage};
use crate::router_link;

/// Maximum time until the next router serves.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum number of messages of one router in one turn of the event loop.
const MAX_MESSAGES_PER_TURN: usize = 32;

/// Minimum time between two replacements: a router that was taken over could ask for them all the
/// time.
const INTERVAL: Duration = Duration::from_secs(5);

/// Pause after an attempt that has failed.
const PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of routers that finish their requests.
const MAX_FORMER: usize = 4;

/// The part of a router beside the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The router does not serve yet.
    Next,
    /// The router finishes its requests.
    Former,
    /// The router is the current one, while a message of another is handled.
    SetAside,
}

/// A router beside the current one.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) router: Router,
    pub(super) role: Role,
    /// Time at which it is killed.
    pub(super) deadline: Option<Instant>,
    /// The socket between the next router and the current one: the ends of both.
    link: Option<(OwnedFd, OwnedFd)>,
}

/// The state of replacements of the router.
#[derive(Debug, Default)]
pub(super) struct Replacement {
    /// Reason why the router is to be replaced.
    wanted: Option<String>,
    /// Time before which it is not.
    not_before: Option<Instant>,
    pub(super) others: Vec<Other>,
}

impl Replacement {
    /// Records that the router is to be replaced.
    pub(super) fn want(&mut self, reason: String) {
        self.wanted.get_or_insert(reason);
    }

    /// Takes the reason for a replacement that is due.
    pub(super) fn begin(&mut self, now: Instant) -> Option<String> {
        let former = self.others.iter().filter(|other| other.role == Role::Former).count();
        if self.next().is_some()
            || former >= MAX_FORMER
            || self.not_before.is_some_and(|time| now < time)
        {
            return None;
        }
        let reason = self.wanted.take()?;
        self.not_before = Some(now + INTERVAL);
        Some(reason)
    }

    /// Records that the next router has failed: there is another attempt later.
    pub(super) fn try_again(&mut self, now: Instant) {
        self.not_before = Some(now + PAUSE);
        self.want("another attempt".to_owned());
    }

    /// Returns the time of the next step.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let wanted = self.wanted.as_ref().and(self.not_before).filter(|time| *time > now);
        let deadlines = self.others.iter().filter_map(|other| other.deadline);
        wanted.into_iter().chain(deadlines).min()
    }

    /// Returns the next router.
    pub(super) fn next(&self) -> Option<&Other> {
        self.others.iter().find(|other| other.role == Role::Next)
    }

    /// Returns the router with this process id.
    pub(super) fn find(&self, pid: u32) -> Option<&Other> {
        self.others.iter().find(|other| other.router.pid == pid)
    }

    /// Takes the router with this process id out.
    pub(super) fn remove(&mut self, pid: u32) -> Option<Other> {
        let at = self.others.iter().position(|other| other.router.pid == pid)?;
        Some(self.others.remove(at))
    }

    /// Returns the process ids of all.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.others.iter().map(|other| other.router.pid)
    }
}

impl Tree {
    /// Handles the report of the router that it may not read a path of the configuration.
    pub(super) fn want_replacement(&mut self, reason: &str) {
        let reason = reason.chars().filter(|c| !c.is_control()).take(400).collect();
        self.replacement.want(reason);
    }

    /// Starts the next router if it is time, and ends those that take too long.
    pub(super) fn replace_router_if_due(&mut self, now: Instant) {
        for other in &mut self.replacement.others {
            if other.deadline.take_if(|deadline| *deadline <= now).is_some() {
                let _ = signals::send(other.router.pid, signals::SIGKILL);
            }
        }
        let is_quiet = self.has_served
            && self.shutdown.is_none()
            && self.router.is_some()
            && !self.changes.is_changing()
            && !self.upgrade.is_in_progress()
            && !self.upgrade.is_standby;
        if !is_quiet {
            return;
        }
        let Some(reason) = self.replacement.begin(now) else { return };
        self.log.write(Level::Notice, format_args!("the router is replaced: {reason}"));
        let stage = Stage { can_be_corrected: self.can_be_corrected, has_served: true };
        // The applications that run must run there, too, and no certificate is ordered twice.
        let limits = Limits { required: self.running_applications(), holds_renewals: true };
        let started = router_link::pair().and_then(|link| {
            let resources = self.router_resources();
            let resources = Resources { former_router: Some(link.0.as_fd()), ..resources };
            Ok((router::start(&resources, stage, limits, now)?, link))
        });
        match started {
            Ok((router, link)) => {
                let (role, deadline) = (Role::Next, Some(now + START_TIMEOUT));
                self.replacement.others.push(Other { router, role, deadline, link: Some(link) });
            }
            Err(error) => {
                let line =
                    format_args!("cannot start another router: {error}; the old one continues");
                self.log.write(Level::Alert, line);
            }
        }
    }

    /// Gives up the next router, as the configuration changes: it would begin with the old one.
    pub(super) fn postpone_replacement(&mut self) {
        if self.give_up_next() {
            self.replacement.want("the configuration has changed meanwhile".to_owned());
        }
    }

    /// Ends the next router. Returns false if there is none.
    pub(super) fn give_up_next(&mut self) -> bool {
        let others = &mut self.replacement.others;
        let Some(next) = others.iter_mut().find(|other| other.role == Role::Next) else {
            return false;
        };
        next.role = Role::Former;
        let _ = signals::send(next.router.pid, signals::SIGKILL);
        true
    }

    /// Lets `act` deal with another router as if it were the current one. `None` if the router does
    /// not exist.
    pub(super) fn as_router<T>(&mut self, pid: u32, act: impl FnOnce(&mut Tree) -> T) -> Option<T> {
        if self.router.as_ref().is_some_and(|router| router.pid == pid) {
            return Some(act(self));
        }
        let Other { router, role, deadline, link } = self.replacement.remove(pid)?;
        let aside = self.router.replace(router);
        let aside_pid = aside.as_ref().map(|router| router.pid);
        self.replacement.others.extend(aside.map(|router| Other {
            router,
            role: Role::SetAside,
            deadline: None,
            link: None,
        }));
        let done = act(self);
        let aside = aside_pid.and_then(|pid| self.replacement.remove(pid));
        let router = std::mem::replace(&mut self.router, aside.map(|other| other.router));
        let other = router.map(|router| Other { router, role, deadline, link });
        self.replacement.others.extend(other);
        Some(done)
    }

    /// Reads messages of a router beside the current one.
    pub(super) fn on_other_router(&mut self, pid: u32, buffer: &mut [u8]) {
        for _ in 0..MAX_MESSAGES_PER_TURN {
            let Some(Other { router, role, .. }) = self.replacement.find(pid) else { return };
            let role = *role;
            if router.outbox.borrow().is_full() {
                return;
            }
            let (length, descriptors) = match packet::receive(&router.socket, buffer) {
                Ok(Received::Packet(length, descriptors)) => (length, descriptors),
                Ok(Received::Empty) => return,
                Ok(Received::Closed) | Err(_) => {
                    // SIGCHLD reports its end; the signal only makes sure that it ends.
                    let _ = signals::send(pid, signals::SIGKILL);
                    return;
                }
            };
            match ToSupervisor::decode(&buffer[..length]) {
                Ok(ToSupervisor::Serving {}) if role == Role::Next => return self.promote(pid),
                Ok(ToSupervisor::Finished {}) => {
                    let _ = signals::send(pid, signals::SIGKILL);
                    return;
                }
                Ok(message) if is_permitted(&message, role) => {
                    self.as_router(pid, |tree| tree.on_router_message(message, descriptors));
                }
                _ => {} // it does not count any more, or not yet
            }
        }
    }

    /// Makes the next router the current one.
    fn promote(&mut self, pid: u32) {
        let Some(Other { router, link, .. }) = self.replacement.remove(pid) else { return };
        let former = self.router.replace(router);
        let (new_end, former_end) = link.unzip();
        self.former_router = new_end;
        self.service_manager.router_serves(Instant::now());
        self.send_to_router(&FromSupervisor::ReleaseRenewals {}, &[]);
        self.application_checks.begin_soon();
        self.users.look_now();
        self.connect_control();
        if let Some(former) = former {
            let (pid, deadline) = (former.pid, self.drain_deadline(true));
            let other = Other { router: former, role: Role::Former, deadline, link: None };
            self.replacement.others.push(other);
            let quit = FromSupervisor::Quit { graceful: true, is_replaced: true };
            let link: Vec<_> = former_end.iter().map(AsFd::as_fd).collect();
            self.as_router(pid, |tree| tree.send_to_router(&quit, &link));
            let line =
                format_args!("router process {pid} finishes its requests; another one serves");
            self.log.write(Level::Notice, line);
        }
    }

    /// Connects the control process, if it runs, to the current router.
    fn connect_control(&self) {
        if self.control.process.is_none() {
            return;
        }
        if let Ok((router, control)) = packet::pair() {
            let asks = FromSupervisor::Control { only_reads: false };
            self.send_to_router(&asks, &[router.as_fd()]);
            self.send_to_control(&ToControl::RouterReplaced {}, &[control.as_fd()]);
        }
    }

    /// Handles the end of a router beside the current one. Returns false if the process was none.
    pub(super) fn other_router_ended(&mut self, pid: u32, exit: Exit) -> bool {
        let Some(other) = self.replacement.remove(pid) else { return false };
        self.end_applications_of(pid);
        if other.role == Role::Next && self.shutdown.is_none() {
            self.replacement.try_again(Instant::now());
            let line = format_args!(
                "the next router, process {pid}, {exit} before it served; the old one continues"
            );
            self.log.write(Level::Alert, line);
        }
        true
    }

    /// Ends the applications of a router that has ended: the memory that their workers write to has
    /// no reader any more.
    pub(super) fn end_applications_of(&mut self, pid: u32) {
        for (id, application) in &mut self.applications {
            if id.router == pid {
                application.deadline = Some(Instant::now());
            }
        }
    }

    /// Tells the routers beside the current one that the server ends: the next one is not needed,
    /// and a former one ends at once if the others do.
    pub(super) fn end_other_routers(&self, is_graceful: bool) {
        for other in &self.replacement.others {
            if other.role == Role::Next || !is_graceful {
                let _ = signals::send(other.router.pid, signals::SIGKILL);
            }
        }
    }

    /// Makes the next router the current one although it does not serve yet: the current one has
    /// ended. Returns false if there is none.
    pub(super) fn succeed_with_next(&mut self) -> bool {
        let Some(pid) = self.replacement.next().map(|next| next.router.pid) else { return false };
        let Some(Other { router, .. }) = self.replacement.remove(pid) else { return false };
        self.router = Some(router);
        self.send_to_router(&FromSupervisor::ReleaseRenewals {}, &[]);
        true
    }
}

/// Returns true for a message that a router beside the current one may send.
fn is_permitted(message: &ToSupervisor, role: Role) -> bool {
    use ToSupervisor as Message;
    match message {
        Message::Start { .. }
        | Message::Spawn { .. }
        | Message::Kill { .. }
        | Message::Trace { .. }
        | Message::Measure { .. }
        | Message::CheckFiles { .. }
        | Message::Stop { .. }
        | Message::Unload { .. }
        | Message::OpenLog { .. }
        | Message::Used { .. }
        | Message::ReadUsage { .. }
        | Message::OpenNameFiles {} => true,
        Message::Bind { .. } | Message::OpenCache { .. } | Message::ReadFile { .. } => {
            role == Role::Next
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_that_asks_all_the_time_is_replaced_now_and_then() {
        let (mut state, now) = (Replacement::default(), Instant::now());
        assert_eq!(state.begin(now), None);
        state.want("a".to_owned());
        state.want("b".to_owned());
        assert_eq!(state.begin(now).as_deref(), Some("a"));
        state.want("c".to_owned());
        assert_eq!((state.begin(now), state.due(now)), (None, Some(now + INTERVAL)));
        assert_eq!(state.begin(now + INTERVAL).as_deref(), Some("c"));
        assert_eq!(state.begin(now + INTERVAL * 2), None);
    }
}
