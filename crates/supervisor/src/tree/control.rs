//! Starting the control process, and what it asks for. It speaks for the administrator, who may
//! change anything.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use howdah_sys::log::Level;
use howdah_sys::packet::{self, Received};
use howdah_sys::signals;
use howdah_wire::messages::{Exit, FromControl, FromSupervisor, Outcome, ToControl};

use super::requests::{MAX_DOCUMENT, read_memory};
use super::{Source, Tree};
use crate::backoff::Backoff;
use crate::certificates;
use crate::control::{self, Control};
use crate::router;

/// The control process, and whether there is need of one.
#[derive(Default)]
pub(super) struct ControlState {
    process: Option<Control>,
    /// Somebody waits for it.
    pub(super) is_wanted: bool,
    /// The configuration is to be read again, and this was tried so many times.
    reload: Option<u32>,
    backoff: Backoff,
    /// Not before, as the last one lived shortly.
    start_after: Option<Instant>,
}

/// How often reading the configuration again is tried if the control process dies of it.
const MAX_RELOADS: u32 = 3;

impl ControlState {
    pub(super) fn has_pid(&self, pid: u32) -> bool {
        self.process.as_ref().is_some_and(|process| process.pid == pid)
    }
}

impl Tree {
    /// What is waited for: the control process, or, if there is none, a connection to it.
    pub(super) fn control_source(&self) -> Option<(Source, BorrowedFd<'_>)> {
        match &self.control.process {
            Some(process) => Some((Source::Control, process.socket.as_fd())),
            None if !self.served || self.control.is_wanted || self.ending.is_some() => None,
            None => {
                let listener = self.sockets.get(self.options.control.as_deref()?)?;
                Some((Source::ControlListener, listener))
            }
        }
    }

    /// When the control process is to be started; `None` if there is no need of one. One that was
    /// started while a change is being applied would begin with the document of before.
    pub(super) fn control_due(&self, now: Instant) -> Option<Instant> {
        let is_wanted = self.control.is_wanted || self.control.reload.is_some();
        let can_start = self.control.process.is_none() && self.served && self.router.is_some();
        (is_wanted && can_start && !self.changes.is_changing() && self.ending.is_none())
            .then(|| self.control.start_after.unwrap_or(now))
    }

    pub(super) fn start_control_if_due(&mut self, now: Instant) {
        if self.control_due(now).is_none_or(|due| due > now) {
            return;
        }
        self.control.is_wanted = false;
        self.control.start_after = None;
        match self.start_control(now) {
            Ok(process) => self.control.process = Some(process),
            Err(error) => {
                self.control.start_after = Some(self.control.backoff.next_start(now, now));
                self.log
                    .write(Level::Alert, format_args!("cannot start the control process: {error}"));
            }
        }
        if let Some(tries) = &mut self.control.reload {
            *tries += 1;
            self.tell_control(&ToControl::Reload {}, &[]);
        }
    }

    fn start_control(&mut self, now: Instant) -> std::io::Result<Control> {
        let log = self.log.handle()?;
        let (router, control) = packet::pair()?;
        let listener = self.options.control.as_deref();
        let listener = listener.and_then(|address| self.sockets.get(address));
        let (document, certificates) = (&self.changes.current.document, &self.certificates);
        let (options, log) = (&self.options, log.as_fd());
        let started =
            control::start(options, document, certificates, log, &control, listener, now)?;
        self.tell_router(&FromSupervisor::Control {}, &[router.as_fd()]);
        Ok(started)
    }

    /// The control process, if it runs.
    pub(super) fn control_pid(&self) -> Option<u32> {
        self.control.process.as_ref().map(|process| process.pid)
    }

    /// Reads the configuration again.
    pub(super) fn reload(&mut self) {
        self.control.reload = Some(0);
        self.tell_control(&ToControl::Reload {}, &[]);
    }

    pub(super) fn kill_control(&mut self) {
        if let Some(process) = &self.control.process {
            let _ = signals::send(process.pid, signals::SIGKILL);
        }
    }

    pub(super) fn control_ended(&mut self, exit: Exit) {
        let Some(process) = self.control.process.take() else { return };
        let now = Instant::now();
        self.control.start_after = Some(self.control.backoff.next_start(process.started, now));
        // After the router it is killed by this process.
        if exit != Exit::Status(0) && exit != Exit::Signal(signals::SIGKILL as u8) {
            let pid = process.pid;
            self.log.write(Level::Alert, format_args!("control process {pid} {exit}"));
        }
        if self.control.reload.is_some_and(|tries| tries >= MAX_RELOADS) {
            self.control.reload = None;
            self.log.write(Level::Alert, "the configuration could not be read again");
        }
    }

    pub(super) fn on_control(&mut self, buffer: &mut [u8]) {
        for _ in 0..32 {
            let Some(process) = &self.control.process else { return };
            let pid = process.pid;
            let (length, descriptors) = match packet::receive(&process.socket, buffer) {
                Ok(Received::Packet(length, descriptors)) => (length, descriptors),
                Ok(Received::Empty) => return,
                Ok(Received::Closed) | Err(_) => {
                    // Its end is reported by SIGCHLD; this only makes sure that it comes.
                    let _ = signals::send(pid, signals::SIGKILL);
                    self.reap();
                    return;
                }
            };
            match FromControl::decode(&buffer[..length]) {
                Ok(message) => self.on_control_message(message, descriptors),
                Err(_) => self.log.write(Level::Alert, "the control process sent nonsense"),
            }
        }
    }

    fn on_control_message(&mut self, message: FromControl, descriptors: Vec<OwnedFd>) {
        match message {
            FromControl::Apply { restart } => {
                if let Err(problem) = self.apply(restart, descriptors) {
                    let outcome = Outcome::NotApplied(problem);
                    self.tell_control(&ToControl::Applied { outcome }, &[]);
                }
            }
            FromControl::ReadDocument {} => {
                let read = match &self.options.read_again {
                    Some(read) => read(),
                    None => Ok(self.changes.current.document.clone()),
                };
                let memory =
                    |text: Vec<u8>| router::memory("document", &text).map_err(|e| e.to_string());
                match read.and_then(memory) {
                    Ok(text) => {
                        let read = ToControl::DocumentRead { error: String::new() };
                        self.tell_control(&read, &[text.as_fd()]);
                    }
                    Err(error) => self.tell_control(&ToControl::DocumentRead { error }, &[]),
                }
            }
            FromControl::StoreCertificate { name } => {
                let stored = read_memory(descriptors, certificates::MAX_LENGTH)
                    .and_then(|pem| self.certificates.store(name, pem));
                self.stored(stored);
            }
            FromControl::DeleteCertificate { name } => {
                let deleted = self.certificates.delete(&name);
                let router = self.router.as_mut();
                if deleted.is_ok() && router.is_some_and(|r| r.certificates.remove(&name)) {
                    self.tell_router(&FromSupervisor::CertificateDeleted { name }, &[]);
                }
                self.stored(deleted);
            }
            FromControl::Reloaded {} => self.control.reload = None,
        }
    }

    fn stored(&self, result: std::io::Result<()>) {
        let error = result.err().map_or(String::new(), |error| error.to_string());
        self.tell_control(&ToControl::Stored { error }, &[]);
    }

    /// Has the router run another configuration.
    fn apply(&mut self, restart: bool, descriptors: Vec<OwnedFd>) -> Result<(), String> {
        let document = read_memory(descriptors, MAX_DOCUMENT).map_err(|error| error.to_string())?;
        let grants = match &self.options.grants {
            Some(derive) => derive(&document)?,
            None => return Err("the server takes no configuration".to_owned()),
        };
        if self.router.is_none() {
            return Err("the router is being started; try again".to_owned());
        }
        let memory = router::memory("document", &document).map_err(|error| error.to_string())?;
        let missing: Vec<_> = {
            let has = |name: &str| {
                self.router.as_ref().is_some_and(|router| router.certificates.contains(name))
            };
            let wanted = |name: &&str| grants.has_certificate(name) && !has(name);
            self.certificates.names().filter(wanted).map(str::to_owned).collect()
        };
        let generation = self.changes.begin(document, grants);
        let generation = generation.ok_or("another configuration is being applied; try again")?;
        for name in missing {
            let pem = self.certificates.get(&name).unwrap_or_default();
            if let Ok(pem) = router::memory("certificate", pem) {
                let message = FromSupervisor::Certificate { name: name.clone() };
                self.tell_router(&message, &[pem.as_fd()]);
                if let Some(router) = &mut self.router {
                    router.certificates.insert(name);
                }
            }
        }
        self.tell_router(&FromSupervisor::Apply { generation, restart }, &[memory.as_fd()]);
        Ok(())
    }

    /// Shows a certificate that the router has got from an authority.
    pub(super) fn show_renewed(&self, name: &str) {
        let pem = self.certificates.get(name).unwrap_or_default();
        if self.control.process.is_some()
            && let Ok(pem) = router::memory("certificate", pem)
        {
            self.tell_control(&ToControl::Renewed { name: name.to_owned() }, &[pem.as_fd()]);
        }
    }

    pub(super) fn tell_control(&self, message: &ToControl, descriptors: &[BorrowedFd<'_>]) {
        let Some(process) = &self.control.process else { return };
        if let Err(error) = packet::send(&process.socket, &message.encode(), descriptors) {
            let problem = format_args!("the control process does not listen: {error}");
            self.log.write(Level::Alert, problem);
            let _ = signals::send(process.pid, signals::SIGKILL);
        }
    }
}
