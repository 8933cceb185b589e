//! An upgrade: replaces this server by a new start of its program.
//!
//! 1. The router stops ordering certificates ([`Tree::begin_upgrade`]).
//! 2. The new server starts beside this one and gets sockets and state ([`Tree::start_successor`]).
//!    This one serves on, and refuses changes.
//! 3. The new server serves. This one releases its PID file and tells it to take over.
//! 4. The new server has taken over. This one finishes its requests and ends. It leaves the new
//!    one's resources alone: files of sockets, PID file, control groups.
//!
//! If the new server fails before step 4, this one continues as before. If the new server dies
//! afterwards, while this one still finishes its requests, this one serves again.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::signals;
use howdah_wire::messages::{Exit, FromSupervisor, ToControl, put_mail_usage};

use super::state::{Shutdown, Tree};
use crate::handover::{Answer, Predecessor, State, Successor};
use crate::pid_file::PidFile;

/// Maximum time to wait for certificate orders in progress before an upgrade.
const RENEWALS_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time to wait for the end of the server that this one has replaced.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for the last responses of the control API.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(2);

/// The upgrade that is in progress, if there is one.
#[derive(Default)]
pub(super) struct Upgrade {
    /// This server is being replaced.
    pub(super) stage: Stage,
    /// This server replaces another one, which still runs.
    pub(super) predecessor: Option<Predecessor>,
    /// This server does not own the PID file and the control socket yet: its predecessor does.
    pub(super) is_standby: bool,
    /// An upgrade begins as soon as the server that this one has replaced has ended; at this time
    /// it is refused.
    pub(super) waits_until: Option<Instant>,
    /// Signals that the new server must get when it has taken over, and this one if it does not.
    pub(super) postponed: Vec<i32>,
}

/// The stage of the replacement of this server.
#[derive(Default)]
pub(super) enum Stage {
    #[default]
    None,
    /// Waits until no certificate is being ordered, at most until this time.
    HoldingRenewals(Instant),
    /// The new server starts, or takes over.
    Starting(Successor),
    /// The new server has taken over; this one finishes its requests.
    Replaced {
        successor: Successor,
        /// Time until which the control process may send its last responses.
        control_until: Instant,
        /// The new server has been told to end, so this one must not serve again.
        is_final: bool,
    },
}

impl Upgrade {
    /// Returns true if this server is being replaced: changes must wait.
    pub(super) fn is_in_progress(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }

    /// Returns true if a new server has taken over.
    pub(super) fn is_replaced(&self) -> bool {
        matches!(self.stage, Stage::Replaced { .. })
    }

    /// Returns the new server, if it runs.
    pub(super) fn successor(&self) -> Option<&Successor> {
        match &self.stage {
            Stage::Starting(successor) | Stage::Replaced { successor, .. } => Some(successor),
            Stage::None | Stage::HoldingRenewals(_) => None,
        }
    }

    /// Returns the new server, if it runs.
    pub(super) fn successor_mut(&mut self) -> Option<&mut Successor> {
        match &mut self.stage {
            Stage::Starting(successor) | Stage::Replaced { successor, .. } => Some(successor),
            Stage::None | Stage::HoldingRenewals(_) => None,
        }
    }

    /// Returns the next deadline.
    pub(super) fn due(&self) -> Option<Instant> {
        let of_stage = match &self.stage {
            Stage::None => None,
            Stage::HoldingRenewals(deadline) => Some(*deadline),
            Stage::Starting(successor) => successor.due(),
            Stage::Replaced { control_until, .. } => Some(*control_until),
        };
        [of_stage, self.waits_until].into_iter().flatten().min()
    }
}

impl Tree {
    /// Begins an upgrade. Its outcome is logged, and sent to the control process. After another
    /// upgrade, it first waits for the end of the server that was replaced.
    pub(super) fn upgrade(&mut self) {
        if self.upgrade.predecessor.is_some() && !self.upgrade.is_in_progress() {
            self.upgrade.waits_until.get_or_insert_with(|| Instant::now() + PREDECESSOR_TIMEOUT);
            return;
        }
        self.upgrade_now();
    }

    /// Begins an upgrade that has waited for the end of the server that this one has replaced.
    pub(super) fn resume_upgrade(&mut self) {
        if self.upgrade.waits_until.take().is_some() {
            self.upgrade_now();
        }
    }

    fn upgrade_now(&mut self) {
        match self.begin_upgrade() {
            Ok(()) => {
                self.send_to_control(&ToControl::UpgradeBegun {}, &[]);
            }
            Err(problem) => {
                self.log.write(Level::Alert, format_args!("there is no upgrade: {problem}"));
                self.send_upgrade_ended(problem);
            }
        }
    }

    fn begin_upgrade(&mut self) -> Result<(), String> {
        if self.upgrade.is_in_progress() {
            return Err("an upgrade is in progress already".to_owned());
        }
        if let Some(predecessor) = &self.upgrade.predecessor {
            return Err(format!(
                "the server that this one has replaced, process {}, still finishes requests; try \
                 again when it has ended, or end it (kill -TERM {0})",
                predecessor.pid()
            ));
        }
        let is_ending = self.shutdown.is_some() || self.leaving.is_some();
        if is_ending || !self.has_served || self.router.is_none() {
            return Err("the server is starting or ending; try again".to_owned());
        }
        if self.changes.is_changing() {
            return Err("another configuration is being applied; try again".to_owned());
        }
        if self.file_helpers.writes_state() {
            return Err("a certificate is being stored; try again".to_owned());
        }
        if std::process::id() == 1 {
            return Err(
                "the first process of a container cannot be replaced, as the container ends \
                        with it; start a container of the new version beside this one, and stop \
                        this one when it serves"
                    .to_owned(),
            );
        }
        if self.is_bound_to_service() {
            return Err(
                "systemd would take the end of this process for that of the service, and end \
                        the new server too: use Type=notify or Type=notify-reload in the unit, or \
                        Type=forking with PIDFile=, --daemon and --pid; until then, restart the \
                        service"
                    .to_owned(),
            );
        }
        if self.options.invocation.is_none() {
            return Err("the path of the program is not known; restart the server".to_owned());
        }
        self.give_up_next();
        self.log.write(Level::Notice, "upgrade: the new server is started");
        self.upgrade.stage = Stage::HoldingRenewals(Instant::now() + RENEWALS_TIMEOUT);
        self.send_to_router(&FromSupervisor::HoldRenewals {}, &[]);
        Ok(())
    }

    /// Returns true if a service of systemd ends with this process, as the service manager cannot
    /// be told that another one is the main process. `INVOCATION_ID` is set for services
    /// (systemd.exec(5)).
    fn is_bound_to_service(&self) -> bool {
        let is_main = rustix::process::getppid().is_some_and(|parent| parent.is_init());
        let is_service = is_main && std::env::var_os("INVOCATION_ID").is_some();
        let follows_pid_file = self.options.is_daemon && self.options.pid.is_some();
        is_service && self.service_manager.notifier.is_none() && !follows_pid_file
    }

    /// Handles the router's report that no certificate is being ordered.
    pub(super) fn renewals_held(&mut self) {
        if !matches!(self.upgrade.stage, Stage::HoldingRenewals(_)) {
            return;
        }
        match self.start_successor() {
            Ok(successor) => {
                // Applications of both servers may have processes in one group.
                self.control_groups.share(true);
                self.upgrade.stage = Stage::Starting(successor);
            }
            Err(problem) => self.fail_upgrade(&problem),
        }
    }

    /// Returns the names of the applications of the current router that run.
    pub(super) fn running_applications(&self) -> Vec<String> {
        let router = self.router.as_ref().map(|router| router.pid);
        let running = self.applications.iter().filter(|(id, app)| {
            Some(id.router) == router && app.is_ready() && app.deadline.is_none()
        });
        let mut running: Vec<_> = running.map(|(_, app)| app.name.clone()).collect();
        running.sort();
        running.dedup();
        running
    }

    fn start_successor(&self) -> Result<Successor, String> {
        let invocation = self.options.invocation.as_ref().ok_or("the program has no path")?;
        let specs = self.changes.current.grants.applications.values();
        let with_php = specs.filter(|spec| self.options.php_for(&spec.php_version).is_some());
        let running = self.running_applications();
        let state = State {
            listeners: self.sockets.all(),
            document: &self.changes.current.document,
            bundles: self.certificates.encode(|_| true),
            origin: self.options.origin.clone(),
            refused: self.document_state.refused().cloned(),
            control: self.options.control.clone(),
            running,
            with_php: with_php.map(|spec| spec.name.clone()).collect(),
            control_groups: self.control_groups.names(),
            http3_secret: self.http3_secret.expose().to_owned(),
        };
        // Output of the program before it has opened the log; afterwards it has /dev/null again.
        let output = self.log.handle().ok().filter(|_| self.options.is_daemon);
        Successor::start(invocation, &state, output.as_ref().map(AsFd::as_fd))
    }

    /// Ends the upgrade if it is late.
    pub(super) fn check_upgrade(&mut self, now: Instant) {
        if self.upgrade.waits_until.is_some_and(|end| end <= now) {
            self.resume_upgrade();
        }
        let problem = match &self.upgrade.stage {
            Stage::HoldingRenewals(deadline) if *deadline <= now => Some(format!(
                "a certificate has been ordered for more than {} s; try again when howdah status \
                 shows its next renewal",
                RENEWALS_TIMEOUT.as_secs()
            )),
            Stage::Starting(successor) => successor.late(now),
            _ => None,
        };
        if let Some(problem) = problem {
            self.fail_upgrade(&problem);
        }
    }

    /// Reads the answers of the new server.
    pub(super) fn on_successor(&mut self) {
        while let Some(successor) = self.upgrade.successor_mut() {
            match successor.answer() {
                Answer::None => return,
                Answer::Ready => self.hand_over(),
                Answer::TookOver => self.replaced(),
                Answer::Closed(address) => self.sockets.forget(&address),
                Answer::Failed(problem) => self.successor_failed(&problem),
                Answer::Stopping(is_graceful) => self.successor_stops(is_graceful),
            }
        }
    }

    fn hand_over(&mut self) {
        let usage = self.hand_usage_over();
        let Stage::Starting(successor) = &mut self.upgrade.stage else { return };
        if let Some(file) = &mut self.pid_file {
            file.release();
        }
        let mail = put_mail_usage(&self.mail.all_usage());
        if let Err(problem) = successor.hand_over(&mail, &usage, Instant::now()) {
            self.fail_upgrade(&problem);
        }
    }

    /// The new server is the server from now on; this one finishes its requests.
    fn replaced(&mut self) {
        let Stage::Starting(mut successor) = std::mem::take(&mut self.upgrade.stage) else {
            return;
        };
        successor.settle();
        let router_link = successor.take_router_link();
        self.usage.counts.handed_over();
        let (pid, version) = (successor.pid, successor.version().to_owned());
        self.log.write(
            Level::Notice,
            format_args!(
                "upgrade: howdah {version}, process {pid}, has taken over; this process ends when \
                 its requests are finished"
            ),
        );
        self.announce_main_process(pid);
        let ended = ToControl::UpgradeEnded { error: String::new(), pid, version: version.clone() };
        self.send_to_control(&ended, &[]);
        let control_until = Instant::now() + CONTROL_TIMEOUT;
        self.upgrade.stage = Stage::Replaced { successor, control_until, is_final: false };
        let deadline = self.drain_deadline(true);
        self.shutdown = Some(Shutdown { is_graceful: true, deadline, refusal: None });
        self.router_start = None;
        let quit = FromSupervisor::Quit { graceful: true, is_replaced: true };
        let router_link: Vec<_> = router_link.iter().map(AsFd::as_fd).collect();
        self.send_to_router(&quit, &router_link);
        for signal in std::mem::take(&mut self.upgrade.postponed) {
            let _ = signals::send(pid, signal);
        }
    }

    fn successor_failed(&mut self, problem: &str) {
        match self.upgrade.stage {
            Stage::Starting(_) => self.fail_upgrade(problem),
            // The new server ends, and its end is handled then.
            _ => self.log.write(Level::Alert, format_args!("the new server reports: {problem}")),
        }
    }

    fn successor_stops(&mut self, is_graceful: bool) {
        match &mut self.upgrade.stage {
            Stage::Replaced { is_final, .. } => {
                *is_final = true;
                // Otherwise clients would connect to this server's copies, which are not accepted
                // from.
                self.sockets.forget_all();
                if !is_graceful {
                    self.shut_down(false);
                }
            }
            _ => self.fail_upgrade("the new server was told to end"),
        }
    }

    /// Continues as if there had been no upgrade.
    pub(super) fn fail_upgrade(&mut self, problem: &str) {
        if let Some(successor) = self.upgrade.successor() {
            successor.kill();
        }
        self.upgrade.stage = Stage::None;
        self.usage.counts.keep();
        let line = format_args!("the upgrade has failed, and this server continues: {problem}");
        self.log.write(Level::Alert, line);
        self.own_again();
        self.send_upgrade_ended(problem.to_owned());
        for signal in std::mem::take(&mut self.upgrade.postponed) {
            self.on_signal(signal);
        }
    }

    fn send_upgrade_ended(&self, error: String) {
        let (pid, version) = (std::process::id(), crate::handover::VERSION.to_owned());
        self.send_to_control(&ToControl::UpgradeEnded { error, pid, version }, &[]);
    }

    /// Takes back the resources that the new server would have owned.
    fn own_again(&mut self) {
        self.control_groups.share(false);
        self.send_to_router(&FromSupervisor::ReleaseRenewals {}, &[]);
        if let Some(Err(error)) = self.pid_file.as_mut().map(PidFile::reclaim) {
            self.log.write(Level::Alert, format_args!("cannot write the PID file again: {error}"));
        }
    }

    /// Handles the end of the new server.
    pub(super) fn successor_ended(&mut self, exit: Exit) {
        // Its last answer may be the reason.
        self.on_successor();
        match std::mem::take(&mut self.upgrade.stage) {
            Stage::Starting(successor) => {
                let pid = successor.pid;
                self.upgrade.stage = Stage::Starting(successor);
                self.fail_upgrade(&format!(
                    "the new server, process {pid}, {exit} before it served; its standard error \
                     may tell more"
                ));
            }
            Stage::Replaced { successor, is_final: false, .. } => {
                let pid = successor.pid;
                self.log.write(
                    Level::Alert,
                    format_args!("the new server, process {pid}, {exit}; this one serves again"),
                );
                self.serve_again();
            }
            Stage::Replaced { successor, control_until, .. } => {
                self.upgrade.stage = Stage::Replaced { successor, control_until, is_final: true };
            }
            stage => self.upgrade.stage = stage,
        }
    }

    /// Serves again after the new server has died.
    fn serve_again(&mut self) {
        self.shutdown = None;
        self.inherit_usage(b"[]");
        self.announce_main_process(std::process::id());
        self.own_again();
        // The router has stopped accepting connections; another one is started.
        if let Some(router) = &self.router {
            let _ = signals::send(router.pid, signals::SIGKILL);
        } else {
            self.router_start = Some(Instant::now());
        }
    }

    /// Keeps a signal for the server that serves after the upgrade. Returns false if there is none
    /// in progress.
    pub(super) fn postpone_signal(&mut self, signal: i32) -> bool {
        let is_postponed = self.upgrade.is_in_progress() && !self.upgrade.is_replaced();
        if is_postponed && !self.upgrade.postponed.contains(&signal) {
            self.upgrade.postponed.push(signal);
        }
        is_postponed
    }

    /// Ends an upgrade, as the server is told to end.
    pub(super) fn end_upgrade(&mut self, is_graceful: bool) {
        self.tell_predecessor_of_end(is_graceful);
        self.upgrade.waits_until = None;
        self.upgrade.postponed.clear();
        if self.upgrade.is_in_progress() && !self.upgrade.is_replaced() {
            self.fail_upgrade("the server is told to end");
        }
    }

    /// Ends an upgrade that waits for the router, which has ended, or that has not begun: the
    /// control process has ended with the router.
    pub(super) fn router_of_upgrade_ended(&mut self) {
        self.upgrade.waits_until = None;
        if matches!(self.upgrade.stage, Stage::HoldingRenewals(_)) {
            self.fail_upgrade("the router has ended; try again");
        }
    }

    /// Returns true if the end of this server must wait for responses of the control API.
    pub(super) fn waits_for_control(&self, now: Instant) -> bool {
        match &self.upgrade.stage {
            Stage::Replaced { control_until, .. } => {
                self.control.process.is_some() && now < *control_until
            }
            _ => false,
        }
    }

    /// Tells the service manager which process is the server from now on (sd_notify(3),
    /// `MAINPID=`). Only the old main process may do that.
    fn announce_main_process(&mut self, pid: u32) {
        self.notify(&[("MAINPID", &pid.to_string())]);
    }
}
