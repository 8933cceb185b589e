//! The dashboard process: serves the page of the server to clients of the action `dashboard`, while
//! the document has this action.
//!
//! Its only source is the router, which it may ask and not order. It has no way to the control
//! process, and the supervisor reads nothing from it: an attacker who has taken over the router
//! gains no right by taking over this process, and the other way round.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Instant;

use howdah_sys::log::Level;
use howdah_sys::{packet, signals};
use howdah_wire::messages::{Exit, FromSupervisor, ToDashboard};

use super::state::Tree;
use crate::backoff::Backoff;
use crate::unprivileged::{self, Kind};

/// The dashboard process, if it runs, and its listening socket.
#[derive(Debug)]
pub(super) struct DashboardState {
    /// Name of the abstract socket. Nobody can guess it, so nobody else has it before this process.
    name: String,
    /// The socket, from the first need on. It stays open, as its name is known from then on.
    listener: Option<UnixListener>,
    process: Option<DashboardProcess>,
    /// Processes that were told to end.
    ending: Vec<u32>,
    backoff: Backoff,
    /// Earliest time of the next start.
    start_after: Option<Instant>,
}

#[derive(Debug)]
struct DashboardProcess {
    pid: u32,
    socket: OwnedFd,
    started: Instant,
    /// Process id of the router that answers its questions.
    router: u32,
}

impl Default for DashboardState {
    fn default() -> Self {
        // The standard library seeds each with random bytes of the kernel.
        let random = || RandomState::new().hash_one(0_u8);
        DashboardState {
            name: format!("howdah-dashboard-{:016x}{:016x}", random(), random()),
            listener: None,
            process: None,
            ending: Vec::new(),
            backoff: Backoff::default(),
            start_after: None,
        }
    }
}

impl DashboardState {
    /// Returns the name of the abstract socket.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process ids of dashboard processes.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        let running = self.process.as_ref().map(|process| process.pid);
        running.into_iter().chain(self.ending.iter().copied())
    }

    /// Passes the log that was opened again to the process.
    pub(super) fn log_reopened(&self, log: BorrowedFd<'_>) {
        if let Some(process) = &self.process {
            let _ = packet::send(&process.socket, &ToDashboard::Reopened {}.encode(), &[log]);
        }
    }

    /// Ends the process. Its socket is closed, and no message waits in it that matters.
    fn end(&mut self) {
        if let Some(process) = self.process.take() {
            let _ = signals::send(process.pid, signals::SIGKILL);
            self.ending.push(process.pid);
        }
        self.start_after = None;
    }
}

impl Tree {
    /// Starts and ends the dashboard process, as the document wants it, and connects it to the
    /// router that serves.
    pub(super) fn advance_dashboard(&mut self, now: Instant) {
        let is_wanted = self.changes.current.grants.has_dashboard;
        if !is_wanted || self.shutdown.is_some() {
            self.dashboard.end();
            return;
        }
        let Some(router) = self.router.as_ref().filter(|_| self.has_served) else { return };
        let router = router.pid;
        match &self.dashboard.process {
            Some(process) if process.router == router => {}
            Some(_) => self.connect_dashboard(router),
            None if self.dashboard.start_after.is_some_and(|after| after > now) => {}
            None => {
                if let Err(error) = self.start_dashboard(router, now) {
                    let problem = format_args!("cannot start the dashboard process: {error}");
                    self.log.write(Level::Alert, problem);
                    let state = &mut self.dashboard;
                    state.start_after = Some(state.backoff.next_start(now, now));
                }
            }
        }
    }

    /// Returns the time of the next call of [`Tree::advance_dashboard`]; `None` if none is needed.
    pub(super) fn dashboard_due(&self) -> Option<Instant> {
        let is_wanted = self.changes.current.grants.has_dashboard && self.shutdown.is_none();
        let can_start = self.router.is_some() && self.has_served;
        let state = &self.dashboard;
        state.start_after.filter(|_| is_wanted && can_start && state.process.is_none())
    }

    fn start_dashboard(&mut self, router: u32, now: Instant) -> io::Result<()> {
        if self.dashboard.listener.is_none() {
            let address = SocketAddr::from_abstract_name(&self.dashboard.name)?;
            self.dashboard.listener = Some(UnixListener::bind_addr(&address)?);
        }
        let Some(listener) = &self.dashboard.listener else { return Ok(()) };
        let (asked, asks) = packet::pair()?;
        let (pid, socket) = unprivileged::start(Kind::Dashboard, &self.options, &self.log)?;
        let user = self.options.user.as_ref().map(|user| user.uid);
        let own = rustix::process::geteuid().as_raw();
        let hello = ToDashboard::Hello {
            token: self.options.dashboard_token.clone(),
            router_user: self.options.private_user.or(user).unwrap_or(own),
            sandbox: self.options.sandbox,
        };
        packet::send(&socket, &hello.encode(), &[listener.as_fd(), asks.as_fd()])?;
        self.dashboard.process = Some(DashboardProcess { pid, socket, started: now, router });
        self.send_to_router(&FromSupervisor::Control { only_reads: true }, &[asked.as_fd()]);
        if self.options.dashboard_token.is_none() {
            let line = "the document has the action \"dashboard\", and nobody can log in: the \
                        server was started without --dashboard-token-file";
            self.log.write(Level::Warn, line);
        }
        Ok(())
    }

    /// Connects the process to another router. Ends it if that fails; another one is started.
    fn connect_dashboard(&mut self, router: u32) {
        let Some(process) = &mut self.dashboard.process else { return };
        process.router = router;
        let connected = packet::pair().and_then(|(asked, asks)| {
            let replaced = ToDashboard::RouterReplaced {}.encode();
            packet::send(&process.socket, &replaced, &[asks.as_fd()])?;
            Ok(asked)
        });
        match connected {
            Ok(asked) => {
                let asks = FromSupervisor::Control { only_reads: true };
                self.send_to_router(&asks, &[asked.as_fd()]);
            }
            // It has ended, or does not read. Its end is handled when it is reaped.
            Err(_) => drop(signals::send(process.pid, signals::SIGKILL)),
        }
    }

    /// Handles the end of a process. Returns false if it was not a dashboard process.
    pub(super) fn dashboard_process_ended(&mut self, pid: u32, exit: Exit) -> bool {
        let state = &mut self.dashboard;
        if let Some(at) = state.ending.iter().position(|ending| *ending == pid) {
            state.ending.swap_remove(at);
            return true;
        }
        let Some(process) = state.process.take_if(|process| process.pid == pid) else {
            return false;
        };
        state.start_after = Some(state.backoff.next_start(process.started, Instant::now()));
        let line = format_args!("dashboard process {pid} {exit}; another is started");
        self.log.write(Level::Alert, line);
        true
    }
}
