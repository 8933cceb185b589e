//! The state of the event loop.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_sys::log::{Level, Log};
use howdah_sys::process_tree::PendingKills;
use howdah_wire::queue::WorkerId;

use super::application_checks::ApplicationChecks;
use super::control::ControlState;
use super::counting::Counting;
use super::dashboard::DashboardState;
use super::failed_starts::FailedStarts;
use super::id::Id;
use super::jobs::Jobs;
use super::mail::MailState;
use super::refusals::Refusals;
use super::router_replacement::Replacement;
use super::site_usage::UsageState;
use super::tables::Tables;
use super::telemetry::TelemetryState;
use super::unwritable::Unwritable;
use super::upgrade::Upgrade;
use super::users::UserChecks;
use super::watch::Watch;
use super::zygotes::Zygotes;
use crate::backoff::Backoff;
use crate::certificates::Certificates;
use crate::changes::Changes;
use crate::control_groups::ControlGroups;
use crate::document_state::DocumentState;
use crate::file_helpers::FileHelpers;
use crate::grants::Grants;
use crate::http3_secret::Http3Secret;
use crate::options::Options;
use crate::pid_file::PidFile;
use crate::programs::Programs;
use crate::prototype::Application;
use crate::router::Router;
use crate::service_manager::ServiceManager;
use crate::sockets::Sockets;

/// Reason for the end of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// On request.
    Stopped,
    /// The first configuration cannot be run, or a resource that it needs is missing.
    Refused {
        /// The missing resource, and the remedy.
        reason: String,
        /// Another program has an address: another attempt would fail too, or take the address
        /// while that program is restarted.
        is_taken: bool,
    },
}

/// Time within which a fast shutdown ends the server.
pub(super) const FAST_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of [`Options::upkeep`].
pub(super) const UPKEEP_INTERVAL: Duration = Duration::from_secs(3600);

/// The state of the event loop: all running processes and their shared state.
pub(super) struct Tree {
    pub(super) options: Options,
    pub(super) log: Log,
    /// The running configuration, and the one that is being applied.
    pub(super) changes: Changes,
    /// State of the document that runs, compared with its source.
    pub(super) document_state: DocumentState,
    pub(super) certificates: Certificates,
    pub(super) sockets: Sockets,
    pub(super) http3_secret: Http3Secret,
    /// The end for the current router of its socket to the former one.
    pub(super) former_router: Option<OwnedFd>,
    pub(super) pid_file: Option<PidFile>,
    pub(super) control: ControlState,
    pub(super) mail: MailState,
    pub(super) telemetry: TelemetryState,
    pub(super) dashboard: DashboardState,
    pub(super) usage: UsageState,
    /// The server continues if the first document cannot be run: the administrator can correct it
    /// through the control API.
    pub(super) can_be_corrected: bool,
    pub(super) router: Option<Router>,
    pub(super) router_backoff: Backoff,
    /// Time of the next start of the router; `None` if one runs.
    pub(super) router_start: Option<Instant>,
    pub(super) applications: HashMap<Id, Application>,
    pub(super) zygotes: Zygotes,
    pub(super) jobs: Jobs,
    /// Logs of sites with jobs, by their paths.
    pub(super) site_logs: HashMap<String, Arc<Log>>,
    /// Orphans of ended prototypes that are being killed.
    pub(super) orphans: PendingKills,
    pub(super) programs: Programs,
    pub(super) tables: Tables,
    pub(super) file_helpers: FileHelpers,
    /// This process carries out tasks with files itself. Only for tests, which have several
    /// threads.
    pub(super) carries_out_file_tasks: bool,
    pub(super) next_upkeep: Instant,
    pub(super) service_manager: ServiceManager,
    pub(super) control_groups: ControlGroups,
    pub(super) counting: Counting,
    pub(super) refusals: Refusals,
    /// A router has served. From then on only a request of the administrator ends the server.
    pub(super) has_served: bool,
    /// Time at which a graceful shutdown begins: until then, clients learn of it.
    pub(super) leaving: Option<Instant>,
    pub(super) shutdown: Option<Shutdown>,
    pub(super) upgrade: Upgrade,
    pub(super) failed_starts: FailedStarts,
    pub(super) application_checks: ApplicationChecks,
    pub(super) users: UserChecks,
    pub(super) unwritable: Unwritable,
    pub(super) replacement: Replacement,
    pub(super) watch: Watch,
    /// Addresses that were closed, which the router does not know yet.
    pub(super) unbound: Vec<String>,
}

/// A shutdown in progress.
#[derive(Debug)]
pub(super) struct Shutdown {
    /// Requests in progress are finished first.
    pub(super) is_graceful: bool,
    /// Time at which the router is killed; `None` without a limit.
    pub(super) deadline: Option<Instant>,
    /// Reason for which the server ends without having served.
    pub(super) refusal: Option<String>,
}

/// An event source that became readable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Signals,
    Router,
    /// The router with this process id, beside the current one.
    OtherRouter(u32),
    Control,
    /// A connection waits at the control socket, and no control process runs.
    ControlListener,
    /// The mail process.
    Mail,
    /// A script of the application has begun to send a message.
    Submission(Id),
    Prototype(Id),
    Output(Id),
    /// Output of the process with this id, which belongs to a job.
    JobOutput(u32),
    WorkerEnd(Id, WorkerId),
    /// Reports of the zygote with this process id.
    Zygote(u32),
    ZygoteOutput(u32),
    /// The process with this id, which opens and reads files.
    FileHelper(u32),
    /// A socket of the service manager that no listener has.
    Unclaimed,
    /// The server that replaces this one.
    Successor,
    /// The server that this one replaces.
    Predecessor,
}

impl Tree {
    /// Creates the state before any process runs; the router is due.
    pub(super) fn new(mut options: Options, log: Log, document: Vec<u8>, grants: Grants) -> Tree {
        let (http3_secret, error) =
            Http3Secret::new(options.state_directory().map(PathBuf::as_path));
        if let Some(error) = error {
            log.write(Level::Alert, format_args!("cannot use the stored key of HTTP/3: {error}"));
        }
        Tree {
            http3_secret,
            former_router: None,
            service_manager: ServiceManager::new(options.notifier.take(), options.watchdog),
            certificates: Certificates::load(options.certificates.as_deref(), &log),
            options,
            telemetry: TelemetryState::new(&log),
            dashboard: DashboardState::default(),
            log,
            changes: Changes::new(document, grants),
            document_state: DocumentState::default(),
            sockets: Sockets::at_start(),
            pid_file: None,
            control: ControlState::default(),
            mail: MailState::default(),
            usage: UsageState::default(),
            can_be_corrected: false,
            router: None,
            router_backoff: Backoff::default(),
            router_start: Some(Instant::now()),
            applications: HashMap::new(),
            zygotes: Zygotes::default(),
            jobs: Jobs::default(),
            site_logs: HashMap::new(),
            orphans: PendingKills::default(),
            programs: Programs::default(),
            tables: Tables::default(),
            file_helpers: FileHelpers::default(),
            carries_out_file_tasks: false,
            next_upkeep: Instant::now() + UPKEEP_INTERVAL,
            control_groups: ControlGroups::default(),
            counting: Counting::default(),
            refusals: Refusals::default(),
            has_served: false,
            leaving: None,
            shutdown: None,
            upgrade: Upgrade::default(),
            failed_starts: FailedStarts::default(),
            application_checks: ApplicationChecks::default(),
            users: UserChecks::new(Instant::now()),
            unwritable: Unwritable::default(),
            replacement: Replacement::default(),
            watch: Watch::default(),
            unbound: Vec::new(),
        }
    }

    /// Returns the id of the application to which the running router has given a number.
    pub(super) fn id(&self, number: u32) -> Id {
        Id { router: self.router.as_ref().map_or(0, |router| router.pid), number }
    }

    /// Returns the id of the application whose prototype has this process id.
    pub(super) fn application_of(&self, pid: u32) -> Option<Id> {
        self.applications.iter().find(|(_, application)| application.pid == pid).map(|(id, _)| *id)
    }
}
