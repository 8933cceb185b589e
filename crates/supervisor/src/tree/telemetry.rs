//! Telemetry: runs the process that sends the spans and metrics of routers, while the document wants
//! it.
//!
//! Routers and the process share two packet sockets, whose ends are kept here: neither notices when
//! the other is replaced, and the process has no socket on which a router could be reached.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::log::{Level, Log};
use howdah_sys::{packet, shm, signals};
use howdah_wire::lost_spans::LostSpans;
use howdah_wire::messages::{Exit, TelemetryRoute, ToTelemetry};

use super::state::Tree;
use crate::backoff::Backoff;
use crate::file_task::{Origin, Outcome, Task};
use crate::options::Options;
use crate::unprivileged::{self, Kind};

/// Time within which a process that is not wanted any more must have sent its last spans.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The telemetry process, if it runs, and the sockets between it and routers.
#[derive(Debug, Default)]
pub(super) struct TelemetryState {
    /// `None` if there were no descriptors left.
    sockets: Option<Sockets>,
    process: Option<TelemetryProcess>,
    /// Processes that send their last spans, and the times at which they are killed.
    ending: Vec<(u32, Instant)>,
    backoff: Backoff,
    /// Earliest time of the next start.
    start_after: Option<Instant>,
}

/// What routers and the process share. Each socket has the end of routers, and the end of the
/// process.
#[derive(Debug)]
struct Sockets {
    spans: (OwnedFd, OwnedFd),
    metrics: (OwnedFd, OwnedFd),
    /// Memory with the number of lost spans, which all these processes have.
    lost: OwnedFd,
}

#[derive(Debug)]
struct TelemetryProcess {
    pid: u32,
    socket: OwnedFd,
    started: Instant,
    /// The server that it knows, or will know once the file with its authorities is read.
    route: Option<TelemetryRoute>,
}

impl TelemetryState {
    /// Creates the sockets.
    pub(super) fn new(log: &Log) -> TelemetryState {
        let sockets = Sockets::new()
            .inspect_err(|error| {
                let problem = format_args!("there is no telemetry: no socket for it: {error}");
                log.write(Level::Alert, problem);
            })
            .ok();
        TelemetryState { sockets, ..TelemetryState::default() }
    }

    /// Returns what routers get: the ends of the sockets for spans and for metrics, and the memory
    /// with the number of lost spans.
    pub(super) fn of_routers(&self) -> Option<[BorrowedFd<'_>; 3]> {
        let Sockets { spans, metrics, lost } = self.sockets.as_ref()?;
        Some([spans.0.as_fd(), metrics.0.as_fd(), lost.as_fd()])
    }

    /// Returns the process ids of telemetry processes.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        let running = self.process.as_ref().map(|process| process.pid);
        running.into_iter().chain(self.ending.iter().map(|(pid, _)| *pid))
    }

    /// Passes the log that was opened again to the process.
    pub(super) fn log_reopened(&self, log: BorrowedFd<'_>) {
        if let Some(process) = &self.process {
            let _ = packet::send(&process.socket, &ToTelemetry::Reopened {}.encode(), &[log]);
        }
    }

    /// Tells the process to send its last spans.
    fn dismiss(&mut self, now: Instant) {
        if let Some(TelemetryProcess { pid, socket, .. }) = self.process.take() {
            // Otherwise it is killed at the deadline.
            let _ = packet::send(socket, &ToTelemetry::Finish {}.encode(), &[]);
            self.ending.push((pid, now + FINISH_TIMEOUT));
        }
    }
}

impl Sockets {
    fn new() -> io::Result<Sockets> {
        let (spans, metrics) = (packet::one_way()?, packet::one_way()?);
        // A process that takes nothing must not make metrics pile up in the memory of the kernel.
        packet::hold_few(&metrics.0)?;
        let lost = shm::create("lost-spans", LostSpans::BYTES)?;
        Ok(Sockets { spans, metrics, lost })
    }
}

impl TelemetryProcess {
    fn configure(&self, route: TelemetryRoute, authorities: Option<OwnedFd>) -> io::Result<()> {
        let files: Vec<_> = authorities.iter().map(AsFd::as_fd).collect();
        let message = ToTelemetry::Configure { route }.encode();
        Ok(packet::send(&self.socket, &message, &files)?)
    }
}

impl Tree {
    /// Starts, configures and ends the telemetry process, as the document wants it.
    pub(super) fn advance_telemetry(&mut self, now: Instant) {
        for (pid, deadline) in &mut self.telemetry.ending {
            if *deadline <= now {
                let _ = signals::send(*pid, signals::SIGKILL);
                // The event loop must not run until the process is gone.
                *deadline = now + FINISH_TIMEOUT;
            }
        }
        if self.shutdown.is_some() {
            return; // it is needed until the router has ended
        }
        let Some(route) = self.changes.current.grants.telemetry.clone() else {
            // Until the router has answered a change, spans may be on their way from it.
            if !self.changes.is_changing() {
                self.telemetry.dismiss(now);
                self.telemetry.start_after = None;
            }
            return;
        };
        let is_due = self.telemetry.start_after.is_none_or(|after| after <= now);
        if self.telemetry.process.is_none() && is_due {
            self.start_telemetry(now);
        }
        let Some(process) = &mut self.telemetry.process else { return };
        if process.route.as_ref() != Some(&route) {
            process.route = Some(route.clone());
            match route.authorities {
                Some(path) => self.begin_file_task(Task::ReadTls(path), Origin::Telemetry),
                None => self.configure_telemetry(None),
            }
        }
    }

    /// Returns the time of the next call of [`Tree::advance_telemetry`]; `None` if none is needed.
    pub(super) fn telemetry_due(&self) -> Option<Instant> {
        let state = &self.telemetry;
        let is_wanted = self.shutdown.is_none() && self.changes.current.grants.telemetry.is_some();
        let start = state.start_after.filter(|_| is_wanted && state.process.is_none());
        state.ending.iter().map(|(_, deadline)| *deadline).chain(start).min()
    }

    fn start_telemetry(&mut self, now: Instant) {
        let Some(sockets) = &self.telemetry.sockets else { return };
        match start(&self.options, sockets, &self.log, now) {
            Ok(process) => self.telemetry.process = Some(process),
            Err(error) => {
                let problem = format_args!("cannot start the telemetry process: {error}");
                self.log.write(Level::Alert, problem);
                self.telemetry.start_after = Some(self.telemetry.backoff.next_start(now, now));
            }
        }
    }

    /// Takes the file with the authorities. It may be that of a former document, then another one
    /// is on its way.
    pub(super) fn telemetry_file_read(&mut self, outcome: Outcome) {
        let route = self.telemetry.process.as_ref().and_then(|process| process.route.as_ref());
        let path = route.and_then(|route| route.authorities.as_deref()).unwrap_or_default();
        let file = outcome.unwrap_or_else(|error| {
            let line =
                format_args!("settings/telemetry/authorities: {path} cannot be read: {error}");
            self.log.write(Level::Error, line);
            None
        });
        self.configure_telemetry(file);
    }

    fn configure_telemetry(&mut self, authorities: Option<OwnedFd>) {
        let Some(process) = &self.telemetry.process else { return };
        let Some(route) = process.route.clone() else { return };
        if let Err(error) = process.configure(route, authorities) {
            let problem =
                format_args!("the telemetry process is killed: cannot send it a message: {error}");
            self.log.write(Level::Alert, problem);
            let _ = signals::send(process.pid, signals::SIGKILL);
        }
    }

    /// Tells the process to send its last spans, at the end of the server. Returns the processes.
    pub(super) fn finish_telemetry(&mut self) -> Vec<u32> {
        self.telemetry.dismiss(Instant::now());
        self.telemetry.pids().collect()
    }

    /// Handles the end of a process. Returns false if it was not a telemetry process.
    pub(super) fn telemetry_process_ended(&mut self, pid: u32, exit: Exit) -> bool {
        let state = &mut self.telemetry;
        if let Some(at) = state.ending.iter().position(|(ending, _)| *ending == pid) {
            state.ending.swap_remove(at);
            return true;
        }
        let Some(process) = state.process.take_if(|process| process.pid == pid) else {
            return false;
        };
        state.start_after = Some(state.backoff.next_start(process.started, Instant::now()));
        let line = format_args!("telemetry process {pid} {exit}; another is started");
        self.log.write(Level::Alert, line);
        true
    }
}

/// Starts the telemetry process.
fn start(
    options: &Options,
    sockets: &Sockets,
    log: &Log,
    now: Instant,
) -> io::Result<TelemetryProcess> {
    let (pid, socket) = unprivileged::start(Kind::Telemetry, options, log)?;
    let hello = ToTelemetry::Hello { sandbox: options.sandbox };
    let Sockets { spans, metrics, lost } = sockets;
    let descriptors = [spans.1.as_fd(), metrics.1.as_fd(), lost.as_fd()];
    packet::send(&socket, &hello.encode(), &descriptors)?;
    Ok(TelemetryProcess { pid, socket, started: now, route: None })
}
