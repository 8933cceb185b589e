//! The event loop: waits for signals, the router, the control process, the prototypes and their
//! output.

mod applications;
mod control;
#[cfg(test)]
mod hostile_router_tests;
#[cfg(any(test, feature = "model"))]
pub mod model;
mod names;
mod requests;
mod wait;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use howdah_sys::family::{self, Endings};
use howdah_sys::log::{Level, Log};
use howdah_sys::packet::{self, Received};
use howdah_sys::{process, signals};
use howdah_wire::messages::{Exit, FromSupervisor, MAX_MESSAGE, ToControl, ToSupervisor};
use howdah_wire::queue::Owner;

use self::control::ControlState;
use self::requests::Refusals;
use crate::backoff::Backoff;
use crate::certificates::Certificates;
use crate::changes::Changes;
use crate::control_groups::ControlGroups;
use crate::grants::Grants;
use crate::open_files;
use crate::options::Options;
use crate::outbox::{Outbox, Refused};
use crate::pid_file::PidFile;
use crate::programs::Programs;
use crate::prototype::Application;
use crate::router::{self, Router};
use crate::sockets::Sockets;
use crate::store;

/// How the server ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// On request.
    Stopped,
    /// The first configuration cannot be run, or something that it needs is missing.
    Refused(String),
}

/// How long a prototype may take to end its workers.
const DISMISSAL: Duration = Duration::from_millis(500);

/// How often things are kept up that change with the calendar.
const UPKEEP: Duration = Duration::from_secs(3600);

/// How long a fast end may take.
const FAST_END: Duration = Duration::from_secs(2);

/// Runs the server until it ends.
pub fn run(mut options: Options) -> Result<Ending, String> {
    process::deny_tracing().map_err(|error| format!("cannot be protected: {error}"))?;
    open_files::raise();
    let document = std::mem::take(&mut options.document);
    let grants = match &options.grants {
        Some(derive) => derive(&document)?,
        None => Grants::default(),
    };
    let signals = signals::descriptor(&[
        signals::SIGCHLD,
        signals::SIGTERM,
        signals::SIGINT,
        signals::SIGQUIT,
        signals::SIGHUP,
        signals::SIGUSR1,
        signals::SIGUSR2,
    ])
    .map_err(|error| format!("cannot receive signals: {error}"))?;
    let log = match &options.log {
        Some(path) => store::open_log(path)
            .map(Log::new)
            .map_err(|error| format!("cannot open the log {}: {error}", path.display()))?,
        None => Log::standard_error().map_err(|error| format!("no standard error: {error}"))?,
    };
    let mut sockets = Sockets::at_start();
    // Before any address: two servers that were meant to be one have both in common.
    let claim = |path: &PathBuf| {
        PidFile::claim(path)
            .map_err(|error| format!("cannot write the PID file {}: {error}", path.display()))
    };
    let pid_file = options.pid.as_ref().map(claim).transpose()?;
    if let Some(control) = &options.control {
        sockets.bind(control, 64, 0o600)?;
    }
    let must_start = options.control.is_none();
    if must_start {
        match sockets.bind_first(&options.own_controls, 64, 0o600) {
            Ok(bound) => options.control = bound,
            Err(problem) => options.warnings.push(format!("there is no control socket: {problem}")),
        }
    }
    for warning in &options.warnings {
        log.write(Level::Warn, format_args!("{warning}"));
    }
    let mut tree = Tree::new(options, log, document, grants);
    tree.can_be_corrected = !must_start;
    tree.sockets = sockets;
    tree.pid_file = pid_file;
    // What applications leave behind is handed to this process, so that it can be ended.
    if let Err(error) = family::adopt_orphans() {
        tree.log.write(Level::Warn, format_args!("cannot adopt processes: {error}"));
    }
    let ending = tree.run(&signals);
    tree.sockets.close();
    Ok(ending)
}

struct Tree {
    options: Options,
    log: Log,
    /// The configuration that runs, and the next one.
    changes: Changes,
    certificates: Certificates,
    sockets: Sockets,
    pid_file: Option<PidFile>,
    control: ControlState,
    /// A first document that cannot be run is no reason to end.
    can_be_corrected: bool,
    router: Option<Router>,
    router_backoff: Backoff,
    /// When to start the router, if none runs.
    router_start: Option<Instant>,
    applications: HashMap<Id, Application>,
    /// What ended prototypes have left, and is being killed.
    orphans: Endings,
    programs: Programs,
    next_upkeep: Instant,
    control_groups: ControlGroups,
    refusals: Refusals,
    /// The router has served once: from then on nothing but a request ends the server.
    served: bool,
    ending: Option<End>,
}

#[derive(Debug)]
struct End {
    graceful: bool,
    deadline: Option<Instant>,
    refused: Option<String>,
}

/// What became readable.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signals,
    Router,
    Control,
    /// A connection waits at the control socket, and no control process runs.
    ControlListener,
    Prototype(Id),
    Output(Id),
    Death(Id, Owner),
}

/// An application: each router gives numbers of its own, and one that is new must not be told
/// about those of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Id {
    /// Process id of the router that it was started for.
    router: u32,
    number: u32,
}

impl Tree {
    /// No process yet; the router is due.
    fn new(options: Options, log: Log, document: Vec<u8>, grants: Grants) -> Tree {
        Tree {
            certificates: Certificates::load(options.certificates.as_deref(), &log),
            options,
            log,
            changes: Changes::new(document, grants),
            sockets: Sockets::at_start(),
            pid_file: None,
            control: ControlState::default(),
            can_be_corrected: false,
            router: None,
            router_backoff: Backoff::default(),
            router_start: Some(Instant::now()),
            applications: HashMap::new(),
            orphans: Endings::default(),
            programs: Programs::default(),
            next_upkeep: Instant::now() + UPKEEP,
            control_groups: ControlGroups::default(),
            refusals: Refusals::default(),
            served: false,
            ending: None,
        }
    }

    fn run(&mut self, signals: &OwnedFd) -> Ending {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            let now = Instant::now();
            self.start_router_if_due(now);
            self.start_control_if_due(now);
            self.stop_applications_if_due(now);
            self.flush_outbox(now);
            self.run_due_in_applications(now);
            self.programs.end_if_due(now);
            self.keep_up_if_due(now);
            if self.is_over(now) {
                return self.finish();
            }
            for source in self.wait(signals, now) {
                match source {
                    Source::Signals => self.on_signals(signals),
                    Source::Router => self.on_router(&mut buffer),
                    Source::Control => self.on_control(&mut buffer),
                    Source::ControlListener => self.control.is_wanted = true,
                    Source::Prototype(id) => self.on_prototype(id),
                    Source::Output(id) => self.on_output(id),
                    Source::Death(id, worker) => self.on_death(id, worker),
                }
            }
        }
    }

    fn keep_up_if_due(&mut self, now: Instant) {
        if let Some(upkeep) = self.options.upkeep.as_mut().filter(|_| self.next_upkeep <= now) {
            upkeep();
            self.next_upkeep = now + UPKEEP;
        }
    }

    // -- signals --

    fn on_signals(&mut self, signals: &OwnedFd) {
        while let Some(signal) = signals::next(signals) {
            match signal {
                signals::SIGCHLD => self.reap(),
                signals::SIGQUIT => self.end(true),
                signals::SIGTERM | signals::SIGINT => self.end(false),
                signals::SIGUSR1 => self.reopen_logs(),
                signals::SIGHUP => self.reload(),
                _ => {}
            }
        }
    }

    fn reap(&mut self) {
        let mut orphans = false;
        while let Some((pid, change)) = process::next_change() {
            let exit = match change {
                process::Change::Ended(process::Exit::Status(status)) => Exit::Status(status),
                process::Change::Ended(process::Exit::Signal(signal)) => Exit::Signal(signal),
                process::Change::Stopped | process::Change::Continued => {
                    self.prototype_stopped(pid, change == process::Change::Stopped);
                    continue;
                }
            };
            if self.router.as_ref().is_some_and(|router| router.pid == pid) {
                self.router_ended(exit);
            } else if self.control.has_pid(pid) {
                self.control_ended(exit);
            } else if let Some(id) = self.application_of(pid) {
                self.prototype_ended(id, exit);
            } else if let Some(((router, number), error)) = self.programs.ended(pid, exit) {
                if self.router.as_ref().is_some_and(|current| current.pid == router) {
                    self.tell_router(&FromSupervisor::Ran { number, error }, &[]);
                }
            } else {
                orphans = true;
            }
        }
        // Those that have ended may have left others.
        if orphans {
            self.end_orphans();
        }
    }

    fn application_of(&self, pid: u32) -> Option<Id> {
        self.applications.iter().find(|(_, application)| application.pid == pid).map(|(id, _)| *id)
    }

    fn end(&mut self, graceful: bool) {
        let already_fast = self.ending.as_ref().is_some_and(|end| !end.graceful);
        if already_fast {
            return;
        }
        let deadline = (!graceful).then(|| Instant::now() + FAST_END);
        self.ending = Some(End { graceful, deadline, refused: None });
        self.router_start = None;
        // The next server may start while this one ends.
        if let Some(file) = &mut self.pid_file {
            file.release();
        }
        self.kill_control();
        self.tell_router(&FromSupervisor::Quit { graceful }, &[]);
    }

    /// Opens the server's log again if it is a file, and has the router open its other logs again:
    /// access log and slow logs. A log of the server that cannot be opened stays the old one and
    /// keeps none of the others from being opened.
    fn reopen_logs(&mut self) {
        if let Some(path) = &self.options.log {
            match store::open_log(path) {
                Ok(file) => self.log.reopen(file),
                Err(error) => self.log.write(
                    Level::Alert,
                    format_args!("cannot open the log {} again: {error}", path.display()),
                ),
            }
        }
        match self.log.handle() {
            Ok(handle) => {
                self.tell_router(&FromSupervisor::Reopened {}, &[handle.as_fd()]);
                self.tell_control(&ToControl::Reopened {}, &[handle.as_fd()]);
            }
            Err(error) => {
                self.log.write(Level::Alert, format_args!("logs are not opened again: {error}"));
            }
        }
    }

    // -- the router --

    fn start_router_if_due(&mut self, now: Instant) {
        if self.ending.is_some() || self.router_start.is_none_or(|due| due > now) {
            return;
        }
        self.router_start = None;
        let started = self.log.handle().and_then(|log| {
            let (options, current) = (&self.options, &self.changes.current);
            let stage =
                router::Stage { can_be_corrected: self.can_be_corrected, has_served: self.served };
            router::start(options, stage, current, &self.certificates, log.as_fd(), now)
        });
        match started {
            Ok(router) => self.router = Some(router),
            Err(error) => {
                self.log.write(Level::Alert, format_args!("cannot start the router: {error}"));
                self.router_start = Some(self.router_backoff.next_start(now, now));
            }
        }
    }

    fn router_ended(&mut self, exit: Exit) {
        let Some(router) = self.router.take() else { return };
        // The control process waits for answers of the router that has gone.
        self.changes.abandon();
        self.kill_control();
        // Workers serve a region that nobody reads any more.
        for application in self.applications.values_mut() {
            application.deadline = Some(Instant::now());
        }
        if self.ending.is_some() {
            return;
        }
        if !self.served {
            let reason = format!("the router {exit} before it served; see the log");
            self.ending = Some(End { graceful: false, deadline: None, refused: Some(reason) });
            return;
        }
        let pid = router.pid;
        match exit {
            Exit::Signal(signal) => {
                let why = match i32::from(signal) {
                    signals::SIGSYS => " (SIGSYS: a system call that its sandbox forbids)",
                    _ => "",
                };
                let what = format_args!("router process {pid} exited on signal {signal}{why}");
                self.log.write(Level::Alert, format_args!("{what}; another is started"));
            }
            exit => self.log.write(
                Level::Alert,
                format_args!("router process {pid} {exit}; another is started"),
            ),
        }
        self.router_start = Some(self.router_backoff.next_start(router.started, Instant::now()));
    }

    fn on_router(&mut self, buffer: &mut [u8]) {
        // Not more than a few messages in one turn, so that prototypes are heard too.
        for _ in 0..32 {
            let Some(router) = &self.router else { return };
            if router.outbox.borrow().is_full() {
                return;
            }
            let (length, descriptors) = match packet::receive(&router.socket, buffer) {
                Ok(Received::Packet(length, descriptors)) => (length, descriptors),
                Ok(Received::Empty) => return,
                Ok(Received::Closed) => {
                    // Its end is reported by SIGCHLD; this only makes sure that it comes.
                    let _ = signals::send(router.pid, signals::SIGKILL);
                    self.reap();
                    return;
                }
                Err(error) => {
                    self.log.write(Level::Alert, format_args!("router message: {error}"));
                    return;
                }
            };
            match ToSupervisor::decode(&buffer[..length]) {
                Ok(message) => self.on_router_message(message, descriptors),
                Err(_) => self.log.write(Level::Alert, "the router sent a malformed message"),
            }
        }
    }

    fn tell_router(&self, message: &FromSupervisor, descriptors: &[BorrowedFd<'_>]) {
        let Some(router) = &self.router else { return };
        let mut outbox = router.outbox.borrow_mut();
        match outbox.send(router.socket.as_fd(), message, descriptors, Instant::now()) {
            Ok(()) => {}
            Err(Refused::OverLimit(number)) => self.kill_prototype(self.id(number)),
            Err(Refused::Broken(error)) => {
                self.log.write(Level::Alert, format_args!("router does not listen: {error}"));
                let _ = signals::send(router.pid, signals::SIGKILL);
            }
        }
    }

    /// Sends what waits for the router. One that does not read for long cannot be trusted to serve.
    fn flush_outbox(&mut self, now: Instant) {
        let Some(router) = &self.router else { return };
        let mut outbox = router.outbox.borrow_mut();
        let sent = outbox.flush(router.socket.as_fd(), now);
        if sent.is_ok() && !outbox.is_stuck(now) {
            return;
        }
        *outbox = Outbox::default();
        let why = sent.err().map_or("it reads nothing".to_owned(), |error| error.to_string());
        self.log.write(Level::Alert, format_args!("router does not listen: {why}"));
        let _ = signals::send(router.pid, signals::SIGKILL);
    }

    // -- the end --

    fn is_over(&self, now: Instant) -> bool {
        let Some(end) = &self.ending else { return false };
        let due = end.deadline.is_some_and(|deadline| deadline <= now);
        due || self.router.is_none()
    }

    /// Kills what is left, waits for it, and says how it ended.
    fn finish(&mut self) -> Ending {
        if let Some(router) = self.router.take() {
            let _ = signals::send(router.pid, signals::SIGKILL);
        }
        self.kill_control();
        self.programs.end();
        // The second time they are killed.
        for patience in [DISMISSAL, Duration::from_secs(1)] {
            self.applications.values_mut().for_each(Application::dismiss);
            let patience = Instant::now() + patience;
            while !self.applications.is_empty() && Instant::now() < patience {
                while let Some((pid, _)) = process::reap() {
                    self.ended_with_the_server(pid);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.end_orphans_now();
        self.control_groups.tidy();
        match self.ending.take().and_then(|end| end.refused) {
            Some(message) => Ending::Refused(message),
            None => Ending::Stopped,
        }
    }

    fn ended_with_the_server(&mut self, pid: u32) {
        let Some(id) = self.application_of(pid) else { return };
        self.on_output(id);
        self.applications.remove(&id);
    }
}
