//! The control process: starts it and carries out its messages. It acts with the rights of the
//! administrator: it may change anything.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::packet::{self, Received};
use howdah_sys::signals;
use howdah_wire::messages::{ChangeOutcome, Exit, FromControl, FromSupervisor, ToControl};

use super::state::{Source, Tree};
use crate::backoff::Backoff;
use crate::certificates;
use crate::control::{self, Control, ControlSockets};
use crate::file_task::Task;
use crate::memory::{memory_file, read_memory_file};
use crate::store;

/// Maximum number of attempts to read the configuration again if the control process dies during
/// one.
const MAX_RELOAD_ATTEMPTS: u32 = 3;

/// Time within which the control process ends once it has closed its socket.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of messages of the control process in one turn of the event loop.
const MAX_MESSAGES_PER_TURN: usize = 32;

/// The control process, if it runs, and the reasons to start one.
#[derive(Default)]
pub(super) struct ControlState {
    pub(super) process: Option<Control>,
    /// The time at which a control process is killed that has closed its socket and has not ended.
    pub(super) closing: Option<Instant>,
    /// This process has killed the control process.
    pub(super) is_killed: bool,
    /// Time of the next look whether the control socket has its file.
    pub(super) file_due: Option<Instant>,
    /// Reason why the control socket could not be opened anew.
    pub(super) file_problem: Option<String>,
    /// A connection waits at the control socket.
    pub(super) is_wanted: bool,
    /// Number of attempts to read the configuration again; `None` if no reload is requested.
    pub(super) reload_attempts: Option<u32>,
    /// The reload is only of tables in files.
    pub(super) reloads_tables: bool,
    pub(super) backoff: Backoff,
    /// Earliest time of the next start.
    pub(super) start_after: Option<Instant>,
}

impl ControlState {
    /// Returns true if the control process runs and has this process id.
    pub(super) fn has_pid(&self, pid: u32) -> bool {
        self.process.as_ref().is_some_and(|process| process.pid == pid)
    }
}

impl Tree {
    /// Returns the event sources: the socket of the control process, or the sockets that it serves
    /// if none runs.
    pub(super) fn control_sources(&self) -> Vec<(Source, BorrowedFd<'_>)> {
        match &self.control.process {
            Some(_) if self.control.closing.is_some() => Vec::new(),
            Some(process) => vec![(Source::Control, process.socket.as_fd())],
            None if !self.has_served || self.upgrade.is_standby => Vec::new(),
            None if self.control.is_wanted || self.shutdown.is_some() => Vec::new(),
            None => {
                let own = self.options.own_addresses();
                let listeners = own.filter_map(|address| self.sockets.get(address));
                listeners.map(|listener| (Source::ControlListener, listener)).collect()
            }
        }
    }

    /// Returns the time at which the control process must be started; `None` if none is needed. Not
    /// during a change: it would begin with the old document.
    pub(super) fn control_due(&self, now: Instant) -> Option<Instant> {
        let is_wanted = self.control.is_wanted || self.control.reload_attempts.is_some();
        let can_start = self.control.process.is_none() && self.has_served && self.router.is_some();
        let can_start = can_start && !self.upgrade.is_standby;
        (is_wanted && can_start && !self.changes.is_changing() && self.shutdown.is_none())
            .then(|| self.control.start_after.unwrap_or(now))
    }

    pub(super) fn start_control_if_due(&mut self, now: Instant) {
        if self.control_due(now).is_none_or(|due| due > now) {
            return;
        }
        self.control.is_wanted = false;
        self.control.start_after = None;
        match self.start_control() {
            Ok(process) => {
                self.control.process = Some(process);
                self.tell_replaced();
                if self.upgrade.is_in_progress() {
                    self.send_to_control(&ToControl::UpgradeBegun {}, &[]);
                }
            }
            Err(error) => {
                self.control.start_after = Some(self.control.backoff.next_start(now, now));
                self.log
                    .write(Level::Alert, format_args!("cannot start the control process: {error}"));
            }
        }
        if let Some(attempts) = &mut self.control.reload_attempts {
            *attempts += 1;
            let tables = self.control.reloads_tables;
            self.send_to_control(&ToControl::Reload { tables }, &[]);
        }
    }

    fn start_control(&mut self) -> std::io::Result<Control> {
        let (router, control) = packet::pair()?;
        let socket = |address: &Option<String>| self.sockets.get(address.as_deref()?);
        let sockets = ControlSockets {
            router: control.as_fd(),
            site_users: socket(&self.options.site_users),
            listener: socket(&self.options.control),
        };
        let (document, certificates) = (&self.changes.current.document, &self.certificates);
        let (options, log) = (&self.options, &self.log);
        let refused = self.document_state.refused().cloned();
        let hello = control::hello(options, refused, sockets.site_users.is_some());
        let started = control::start(options, &hello, document, certificates, log, &sockets)?;
        self.send_to_router(&FromSupervisor::Control { only_reads: false }, &[router.as_fd()]);
        Ok(started)
    }

    /// Returns the process id of the control process, if it runs.
    pub(super) fn control_pid(&self) -> Option<u32> {
        self.control.process.as_ref().map(|process| process.pid)
    }

    /// Makes the control process read the configuration again.
    pub(super) fn reload(&mut self) {
        self.control.reload_attempts = Some(0);
        self.control.reloads_tables = false;
        self.notify_reloading();
        self.send_to_control(&ToControl::Reload { tables: false }, &[]);
    }

    /// Makes the control process read the tables of the configuration that are in files again.
    pub(super) fn reload_tables(&mut self) {
        self.control.reload_attempts = Some(0);
        self.control.reloads_tables = true;
        self.send_to_control(&ToControl::Reload { tables: true }, &[]);
    }

    pub(super) fn kill_control(&mut self) {
        if let Some(process) = &self.control.process {
            self.control.is_killed = true;
            let _ = signals::send(process.pid, signals::SIGKILL);
        }
    }

    /// Kills the control process if it has closed its socket and does not end.
    pub(super) fn kill_closed_control(&mut self, now: Instant) {
        if self.control.closing.take_if(|due| *due <= now).is_some() {
            self.control.closing = Some(now + CLOSING_TIMEOUT);
            self.kill_control();
        }
    }

    pub(super) fn control_ended(&mut self, exit: Exit) {
        self.changes.derived = None;
        let Some(process) = self.control.process.take() else { return };
        let now = Instant::now();
        self.control.start_after = Some(self.control.backoff.next_start(process.started, now));
        self.control.closing = None;
        // This process kills it when the router has ended.
        let is_killed = std::mem::take(&mut self.control.is_killed);
        if exit != Exit::Status(0) && !is_killed && self.shutdown.is_none() {
            let pid = process.pid;
            let line = format_args!(
                "control process {pid} {exit}; another is started for the next command"
            );
            self.log.write(Level::Alert, line);
            self.note_replaced(pid, format!("control process {pid}: it {exit}"));
        }
        if self.control.reload_attempts.is_some_and(|attempts| attempts >= MAX_RELOAD_ATTEMPTS) {
            self.control.reload_attempts = None;
            self.log.write(
                Level::Alert,
                format_args!(
                    "the configuration was not read again: the control process ended \
                     {MAX_RELOAD_ATTEMPTS} times while it did so"
                ),
            );
            self.notify_ready();
        }
    }

    pub(super) fn on_control(&mut self, buffer: &mut [u8]) {
        for _ in 0..MAX_MESSAGES_PER_TURN {
            let Some(process) = &self.control.process else { return };
            let (length, descriptors) = match packet::receive(&process.socket, buffer) {
                Ok(Received::Packet(length, descriptors)) => (length, descriptors),
                Ok(Received::Empty) => return,
                Ok(Received::Closed) | Err(_) => {
                    // SIGCHLD reports how it has ended.
                    self.control.closing = Some(Instant::now() + CLOSING_TIMEOUT);
                    self.reap();
                    return;
                }
            };
            match FromControl::decode(&buffer[..length]) {
                Ok(message) => self.on_control_message(message, descriptors),
                Err(_) => {
                    self.log.write(Level::Alert, "the control process sent a malformed message")
                }
            }
        }
    }

    fn on_control_message(&mut self, message: FromControl, descriptors: Vec<OwnedFd>) {
        let is_upgrading = self.upgrade.is_in_progress();
        match message {
            FromControl::Apply { .. } if is_upgrading => {
                let outcome = ChangeOutcome::Upgrading;
                self.send_to_control(&ToControl::Applied { outcome }, &[]);
            }
            FromControl::StoreCertificate { .. } | FromControl::DeleteCertificate { .. }
                if is_upgrading =>
            {
                let error = "the server is being upgraded; try again".to_owned();
                self.send_to_control(&ToControl::Stored { error, is_upgrading }, &[]);
            }
            FromControl::Upgrade {} => self.upgrade(),
            FromControl::SourceRead { error } => self.source_read(error),
            FromControl::Hurry {} => self.hurry(),
            FromControl::FindUsers {} => self.begin_for_control(self.find_users()),
            FromControl::Pong { number } => self.control_answered(number),
            FromControl::Apply { restart } => {
                self.changes.is_hurried = false;
                if let Err(problem) = self.apply(restart, descriptors) {
                    let outcome = ChangeOutcome::NotApplied(problem);
                    self.send_to_control(&ToControl::Applied { outcome }, &[]);
                }
            }
            FromControl::ReadDocument { tables } => self.send_document(tables),
            FromControl::CompileDocument {} => {
                match read_memory_file(descriptors, store::MAX_DOCUMENT) {
                    Ok(document) => {
                        let running = self.changes.current.document.clone();
                        self.begin_for_control(Task::CompileDocument { document, running });
                    }
                    Err(error) => {
                        let read = ToControl::DocumentRead { error: error.to_string() };
                        self.send_to_control(&read, &[]);
                    }
                }
            }
            FromControl::StoreCertificate { name } => self.store_certificate(name, descriptors),
            FromControl::DeleteCertificate { name } => {
                self.begin_for_control(Task::DeleteCertificate { name });
            }
            // A reload of the tables is no answer to a signal that has come meanwhile.
            FromControl::Reloaded { tables } if tables != self.control.reloads_tables => {}
            FromControl::Reloaded { .. } => {
                self.tables.is_taken_over();
                self.control.reload_attempts = None;
                self.notify_ready();
            }
        }
    }

    fn send_document(&mut self, tables: bool) {
        if !tables && self.options.reload_document.is_some() {
            let running = self.changes.current.document.clone();
            return self.begin_for_control(Task::ReadDocument(running));
        }
        let current = &self.changes.current;
        let changed = if tables { self.tables.changed(current.generation) } else { None };
        let in_memory =
            |text: &[u8]| memory_file("document", text).map_err(|error| error.to_string());
        let read = match changed {
            Some(changed) => changed.and_then(|text| in_memory(&text)),
            None => in_memory(&current.document),
        };
        match read {
            Ok(file) => {
                let read = ToControl::DocumentRead { error: String::new() };
                self.send_to_control(&read, &[file.as_fd()]);
            }
            Err(error) => self.send_to_control(&ToControl::DocumentRead { error }, &[]),
        }
    }

    fn store_certificate(&mut self, name: String, descriptors: Vec<OwnedFd>) {
        match read_memory_file(descriptors, certificates::MAX_LENGTH) {
            Ok(pem) => self.begin_for_control(Task::StoreCertificate { name, pem }),
            Err(error) => {
                let stored = ToControl::Stored { error: error.to_string(), is_upgrading: false };
                self.send_to_control(&stored, &[]);
            }
        }
    }

    /// Removes a certificate bundle that was deleted.
    pub(super) fn certificate_deleted(&mut self, name: &str) {
        self.certificates.remove(name);
        if self.router.as_mut().is_some_and(|router| router.certificates.remove(name)) {
            let name = name.to_owned();
            self.send_to_router(&FromSupervisor::CertificateDeleted { name }, &[]);
        }
    }

    /// Sends the control process a certificate that the router has obtained from an authority.
    pub(super) fn send_renewed(&self, name: &str) {
        let pem = self.certificates.get(name).unwrap_or_default();
        if self.control.process.is_some()
            && let Ok(pem) = memory_file("certificate", pem)
        {
            self.send_to_control(&ToControl::Renewed { name: name.to_owned() }, &[pem.as_fd()]);
        }
    }

    /// Sends a message to the control process, if it runs. Kills it if that fails.
    pub(super) fn send_to_control(&self, message: &ToControl, descriptors: &[BorrowedFd<'_>]) {
        let Some(process) = &self.control.process else { return };
        if let Err(error) = packet::send(&process.socket, &message.encode(), descriptors) {
            // The control process has ended, and its socket tells.
            if error == rustix::io::Errno::PIPE || error == rustix::io::Errno::CONNRESET {
                return;
            }
            let problem =
                format_args!("control process is killed: cannot send it a message: {error}");
            self.log.write(Level::Alert, problem);
            let _ = signals::send(process.pid, signals::SIGKILL);
        }
    }
}
