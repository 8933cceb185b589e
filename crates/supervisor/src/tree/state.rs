//! The state of the event loop.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use howdah_sys::log::Log;
use howdah_sys::process_tree::PendingKills;
use howdah_wire::queue::WorkerId;

use super::control_state::ControlState;
use super::refusals::Refusals;
use crate::backoff::Backoff;
use crate::certificates::Certificates;
use crate::changes::Changes;
use crate::control_groups::ControlGroups;
use crate::grants::Grants;
use crate::options::Options;
use crate::pid_file::PidFile;
use crate::programs::Programs;
use crate::prototype::Application;
use crate::router::Router;
use crate::sockets::Sockets;

/// How the server ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// On request.
    Stopped,
    /// The first configuration cannot be run, or something that it needs is missing. The text says
    /// why.
    Refused(String),
}

/// Time within which a server ends that does not wait for its clients.
pub(super) const FAST_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of [`Options::upkeep`].
pub(super) const UPKEEP_INTERVAL: Duration = Duration::from_secs(3600);

/// The state of the event loop: each running process, and what it shares with the others.
pub(super) struct Tree {
    pub(super) options: Options,
    pub(super) log: Log,
    /// The running configuration, and the one that is being applied.
    pub(super) changes: Changes,
    pub(super) certificates: Certificates,
    pub(super) sockets: Sockets,
    pub(super) pid_file: Option<PidFile>,
    pub(super) control: ControlState,
    /// The server goes on if the first document cannot be run: it can be corrected through the
    /// control API.
    pub(super) can_be_corrected: bool,
    pub(super) router: Option<Router>,
    pub(super) router_backoff: Backoff,
    /// When to start the router, if none runs.
    pub(super) router_start: Option<Instant>,
    pub(super) applications: HashMap<Id, Application>,
    /// Processes that ended prototypes have left behind and that are being killed.
    pub(super) orphans: PendingKills,
    pub(super) programs: Programs,
    pub(super) next_upkeep: Instant,
    pub(super) control_groups: ControlGroups,
    pub(super) refusals: Refusals,
    /// A router has served. From then on nothing but a request of the administrator's ends the
    /// server.
    pub(super) has_served: bool,
    pub(super) shutdown: Option<Shutdown>,
}

/// An end of the server that has begun.
#[derive(Debug)]
pub(super) struct Shutdown {
    /// Requests in progress are finished first.
    pub(super) is_graceful: bool,
    /// When the router is killed; `None` if it may take its time.
    pub(super) deadline: Option<Instant>,
    /// Why the server ends without having served.
    pub(super) refusal: Option<String>,
}

/// An event source that became readable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Signals,
    Router,
    Control,
    /// A connection waits at the control socket, and no control process runs.
    ControlListener,
    Prototype(Id),
    Output(Id),
    WorkerEnd(Id, WorkerId),
}

/// An application's number and the router that assigned it. Each router assigns its own, and a new
/// router gets no messages about applications of the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    /// Process id of the router.
    pub(super) router: u32,
    pub(super) number: u32,
}

impl Tree {
    /// The state before any process runs; the router is due.
    pub(super) fn new(options: Options, log: Log, document: Vec<u8>, grants: Grants) -> Tree {
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
            orphans: PendingKills::default(),
            programs: Programs::default(),
            next_upkeep: Instant::now() + UPKEEP_INTERVAL,
            control_groups: ControlGroups::default(),
            refusals: Refusals::default(),
            has_served: false,
            shutdown: None,
        }
    }

    /// The application to which the running router has given a number.
    pub(super) fn id(&self, number: u32) -> Id {
        Id { router: self.router.as_ref().map_or(0, |router| router.pid), number }
    }

    /// The application whose prototype has this process id.
    pub(super) fn application_of(&self, pid: u32) -> Option<Id> {
        self.applications.iter().find(|(_, application)| application.pid == pid).map(|(id, _)| *id)
    }
}
