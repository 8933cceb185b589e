//! The router's process and its socket: starts and restarts the router, reads its messages and
//! sends it messages.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use howdah_sys::log::Level;
use howdah_sys::packet::{self, Received};
use howdah_sys::signals;
use howdah_wire::messages::{Exit, FromSupervisor, ToSupervisor};

use super::id::Id;
use super::state::{Shutdown, Tree};
use crate::outbox::{Outbox, SendError};
use crate::router::{self, Limits, Resources, Router, Stage};

/// Maximum number of router messages in one turn of the event loop, so that prototypes have a turn
/// too.
const MAX_MESSAGES_PER_TURN: usize = 32;

impl Tree {
    pub(super) fn start_router_if_due(&mut self, now: Instant) {
        // A document that is being stored is the one that the next router begins with.
        if self.shutdown.is_some()
            || self.router_start.is_none_or(|due| due > now)
            || self.changes.is_saving()
        {
            return;
        }
        self.router_start = None;
        let stage = Stage {
            can_be_corrected: self.can_be_corrected && !self.upgrade.is_standby,
            has_served: self.has_served,
        };
        self.store_http3_secret();
        let upgrade = Limits {
            required: self.required_applications(),
            holds_renewals: self.holds_renewals(),
        };
        match router::start(&self.router_resources(), stage, upgrade, now) {
            Ok(router) => self.router = Some(router),
            Err(error) => {
                self.log.write(Level::Alert, format_args!("cannot start the router: {error}"));
                self.router_start = Some(self.router_backoff.next_start(now, now));
            }
        }
    }

    /// Stores the secret of HTTP/3 if the running configuration has that.
    pub(super) fn store_http3_secret(&mut self) {
        let state = self.options.state_directory().cloned();
        let document = &self.changes.current.document;
        if let Err(error) = self.http3_secret.store_for(document, state.as_deref()) {
            let problem = format_args!(
                "cannot store the key of HTTP/3: {error}; after a restart of the server, browsers \
                 wait for up to 30 s before they connect again"
            );
            self.log.write(Level::Alert, problem);
        }
    }

    /// Returns the resources that a router begins with.
    pub(super) fn router_resources(&self) -> Resources<'_> {
        Resources {
            options: &self.options,
            current: &self.changes.current,
            certificates: &self.certificates,
            telemetry: self.telemetry.of_routers(),
            http3_secret: self.http3_secret.expose(),
            former_router: self.former_router.as_ref().map(AsFd::as_fd),
            dashboard: self.dashboard.name(),
            log: &self.log,
        }
    }

    pub(super) fn router_ended(&mut self, exit: Exit) {
        let Some(router) = self.router.take() else { return };
        self.service_manager.router_ended();
        // The control process waits for answers of this router. During an upgrade, in which changes
        // are refused, it ends by itself once its client knows the outcome.
        if !self.upgrade.is_in_progress() {
            self.kill_control();
        }
        self.router_of_upgrade_ended();
        self.changes.abandon();
        self.unbound.clear();
        self.end_applications_of(router.pid);
        if self.shutdown.is_some() {
            return;
        }
        if !self.has_served {
            let refusal = Some(format!("the router {exit} before it served; see the log"));
            self.shutdown = Some(Shutdown { is_graceful: false, deadline: None, refusal });
            return;
        }
        self.log_router_end(router.pid, exit);
        if self.succeed_with_next() {
            return;
        }
        self.router_start = Some(self.router_backoff.next_start(router.started, Instant::now()));
    }

    fn log_router_end(&mut self, pid: u32, exit: Exit) {
        self.note_replaced(pid, format!("router process {pid}: it {exit}"));
        match exit {
            Exit::Signal(signal) => {
                let hint = match i32::from(signal) {
                    signals::SIGSYS => " (SIGSYS: a system call that its sandbox forbids)",
                    _ => "",
                };
                let event = format_args!("router process {pid} exited on signal {signal}{hint}");
                self.log.write(Level::Alert, format_args!("{event}; another is started"));
            }
            exit => self.log.write(
                Level::Alert,
                format_args!("router process {pid} {exit}; another is started"),
            ),
        }
    }

    /// Reads messages of the router, as long as it reads the messages for it.
    pub(super) fn on_router(&mut self, buffer: &mut [u8]) {
        for _ in 0..MAX_MESSAGES_PER_TURN {
            let Some(router) = &self.router else { return };
            if router.outbox.borrow().is_full() {
                return;
            }
            let (length, descriptors) = match packet::receive(&router.socket, buffer) {
                Ok(Received::Packet(length, descriptors)) => (length, descriptors),
                Ok(Received::Empty) => return,
                Ok(Received::Closed) => {
                    // SIGCHLD reports its end; the signal only makes sure that it ends.
                    let _ = signals::send(router.pid, signals::SIGKILL);
                    self.reap();
                    return;
                }
                Err(error) => {
                    self.log.write(
                        Level::Alert,
                        format_args!("cannot read a message of the router: {error}"),
                    );
                    return;
                }
            };
            match ToSupervisor::decode(&buffer[..length]) {
                Ok(message) => self.on_router_message(message, descriptors),
                Err(_) => self.log.write(Level::Alert, "the router sent a malformed message"),
            }
        }
    }

    /// Sends a message to the router, if one runs. Kills it if that fails.
    pub(super) fn send_to_router(&self, message: &FromSupervisor, descriptors: &[BorrowedFd<'_>]) {
        let Some(router) = &self.router else { return };
        let mut outbox = router.outbox.borrow_mut();
        match outbox.send(router.socket.as_fd(), message, descriptors, Instant::now()) {
            Ok(()) => {}
            Err(SendError::OverLimit(number)) => {
                self.kill_prototype(Id { router: router.pid, number });
            }
            Err(SendError::Broken(error)) => {
                self.log.write(
                    Level::Alert,
                    format_args!("router is killed: cannot send it a message: {error}"),
                );
                let _ = signals::send(router.pid, signals::SIGKILL);
            }
        }
    }

    /// Sends queued messages to the router. Kills a router that does not read for too long.
    pub(super) fn flush_outbox(&mut self, now: Instant) {
        let others = self.replacement.others.iter().map(|other| &other.router);
        for router in self.router.iter().chain(others) {
            self.flush_outbox_of(router, now);
        }
    }

    fn flush_outbox_of(&self, router: &Router, now: Instant) {
        let mut outbox = router.outbox.borrow_mut();
        let sent = outbox.flush(router.socket.as_fd(), now);
        if sent.is_ok() && !outbox.is_stuck(now) {
            return;
        }
        *outbox = Outbox::default();
        let reason = sent.err().map_or("it does not read".to_owned(), |error| error.to_string());
        self.log.write(
            Level::Alert,
            format_args!("router is killed: cannot send it a message: {reason}"),
        );
        let _ = signals::send(router.pid, signals::SIGKILL);
    }
}
