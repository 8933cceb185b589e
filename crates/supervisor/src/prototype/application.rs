//! The state of an application, and the start of its prototype.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use howdah_sys::credentials::Credentials;
use howdah_sys::process_tree::PendingKills;
use howdah_sys::{packet, pipe, signals};
use howdah_wire::messages::{ApplicationSpec, MAX_REPORT, Problem, ProcessUser, ToPrototype};
use howdah_wire::queue::WorkerId;
use rustix::io::Errno;

use super::pending::PendingRequests;
use super::requirements::{Requirements, requirements};
use super::start_variables::start_variables;
use super::unrequested::UnrequestedReports;
use super::workers::Workers;
use crate::control_groups::ControlGroups;
use crate::counting;
use crate::identity::Identity;
use crate::launch::{self, Launch};
use crate::mail::Submissions;
use crate::options::Options;
use crate::output::Output;
use crate::resources::Plan;
use crate::running_user::RunningUser;
use crate::zygote::{ForkFailure, Zygote};

/// Reason why a zygote has not forked a prototype.
#[derive(Debug)]
pub(crate) enum NotForked {
    /// The zygote cannot fork; another start may succeed.
    Zygote(ForkFailure),
    /// The application cannot run.
    Application(Problem),
}

/// The supervisor's ends of the connection to a prototype that is being started.
struct Connection {
    commands: OwnedFd,
    reports: OwnedFd,
    output: Output,
    submissions: Submissions,
}

/// The prototype's ends.
struct Ends {
    socket: OwnedFd,
    reports: OwnedFd,
    output: OwnedFd,
    /// The socket of its mail, which belongs to the first message.
    mail: OwnedFd,
}

impl Connection {
    fn new(options: &Options, identity: &Identity) -> io::Result<(Connection, Ends)> {
        let (output, writer) = Output::new()?;
        let (commands, socket) = packet::one_way()?;
        let (reports, reporting) = pipe::new()?;
        let user = identity.user.as_ref().or(options.user.as_ref());
        let user = user.map_or_else(|| Credentials::current().name, |user| user.name.clone());
        let (submissions, mail) = Submissions::new(user, Instant::now())?;
        let ends = Ends { socket, reports: reporting, output: writer, mail };
        Ok((Connection { commands, reports, output, submissions }, ends))
    }

    /// Sends the specification to a new process, with the descriptors that belong to it.
    fn introduce(
        &self,
        hello: &ToPrototype,
        descriptors: &[OwnedFd],
        mail: &OwnedFd,
    ) -> io::Result<()> {
        let descriptors: Vec<_> = descriptors.iter().chain([mail]).map(AsFd::as_fd).collect();
        match packet::send(&self.commands, &hello.encode(), &descriptors) {
            // `PIPE`: the prototype has ended already and has reported the reason.
            Ok(()) | Err(Errno::PIPE) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the state of an application whose prototype is the process `pid`.
    fn application(
        self,
        spec: &ApplicationSpec,
        identity: &Identity,
        pid: u32,
        plan: Plan,
        groups: &mut ControlGroups,
    ) -> Application {
        let Connection { commands, reports, output, submissions } = self;
        Application {
            has_pid_namespace: spec.isolation.pid_namespace,
            output: Some(output),
            submissions: Some(submissions),
            plan,
            out_of_memory: groups.watch(pid),
            output_owner: (spec.stdout.is_none() || spec.stderr.is_none())
                .then(|| identity.outside()),
            separates_output: spec.separates_output(),
            user: RunningUser::of(spec, identity),
            spec: Some(Box::new(spec.clone())),
            ..Application::new(spec.name.clone(), pid, commands, reports)
        }
    }
}

/// Returns the first message to a prototype.
fn hello(options: &Options, spec: &ApplicationSpec, user: Option<ProcessUser>) -> ToPrototype {
    let program = options.php_for(&spec.php_version);
    let sendmail = program.map(|program| program.path.with_file_name("howdah-sendmail"));
    ToPrototype::Hello {
        spec: spec.clone(),
        tmp: options.tmp.display().to_string(),
        sendmail: sendmail.map(|path| path.display().to_string()).unwrap_or_default(),
        // A zygote has read its settings, without any variables.
        variables: if user.is_none() { start_variables(spec) } else { Vec::new() },
        user,
    }
}

fn unstartable(error: io::Error) -> Problem {
    Problem::of(format_args!("cannot start a process: {error}"))
}

/// An application: its prototype and its workers.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// The application has a process namespace of its own: its process ids differ from those here.
    pub(super) has_pid_namespace: bool,
    /// A zygote has forked the prototype.
    pub(super) shares_start: bool,
    /// The process from which a resident application forks its workers.
    pub(super) template: Option<u32>,
    /// The socket that carries requests to the prototype.
    pub(super) commands: OwnedFd,
    /// The pipe that carries reports of the prototype.
    pub(super) reports: OwnedFd,
    pub(super) reader: pipe::Reader,
    pub(crate) output: Option<Output>,
    /// Connections for the mail of its scripts.
    pub(crate) submissions: Option<Submissions>,
    pub(super) stage: Stage,
    /// Time at which the prototype is dismissed; set once the application must stop.
    pub(crate) deadline: Option<Instant>,
    /// Time of the next check whether the application can be unloaded; set once it is not used.
    pub(super) unload_check: Option<Instant>,
    /// The prototype was in order, and was not told to end, but has closed its pipe.
    pub(crate) has_ended_unexpectedly: bool,
    /// The prototype was told to end at once.
    pub(super) is_dismissed: bool,
    /// Time at which it was started.
    pub(crate) started: SystemTime,
    /// Reason why the application cannot run, as its prototype reported, or the prototype was
    /// killed.
    pub(crate) failure: Option<Problem>,
    pub(super) workers: Workers,
    /// Workers that have not been requested of the prototype yet, the oldest first.
    pub(super) to_spawn: VecDeque<WorkerId>,
    pub(super) pending: PendingRequests,
    pub(super) unrequested: UnrequestedReports,
    /// The prototype was asked for changed files, and has not answered.
    pub(super) checks_files: bool,
    /// Index of the worker that was measured last.
    pub(super) last_measured: u16,
    /// Time at which a signal stopped the prototype; `None` if it is not stopped.
    pub(super) stopped_since: Option<Instant>,
    /// Workers that are being killed, with the processes that they have started.
    pub(super) ending_processes: PendingKills,
    /// How the resources of all its processes are limited.
    pub(crate) plan: Plan,
    /// What is known of the resources that are counted.
    pub(crate) counting: counting::State,
    /// Workers that are ended because all processes together exceed a limit.
    pub(super) over_limit: HashSet<WorkerId>,
    /// Counter of out-of-memory kills of the application's control group.
    pub(crate) out_of_memory: Option<PathBuf>,
    /// User and group that own the pipes of the workers' output, so that scripts can open
    /// `/dev/stderr`. `None` if both outputs are files and there are no pipes.
    pub(super) output_owner: Option<(Option<u32>, Option<u32>)>,
    /// As in [`ApplicationSpec::separates_output`].
    pub(super) separates_output: bool,
    /// The user that its processes run as, if its specification names a user or a group.
    pub(crate) user: Option<RunningUser>,
    /// The specification with which it was started.
    spec: Option<Box<ApplicationSpec>>,
}

/// The stages of a prototype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The prototype loads PHP.
    Loading,
    /// The prototype can start workers.
    Ready,
    /// The prototype has reported why it cannot run, and ends.
    Failed,
    /// The prototype has been killed; its reports are no longer read.
    Killed,
}

impl Application {
    /// Starts an application's prototype. `processes` is the maximum of its user's processes.
    pub(crate) fn start(
        options: &Options,
        spec: &ApplicationSpec,
        processes: Option<u64>,
        descriptors: &[OwnedFd],
        groups: &mut ControlGroups,
    ) -> Result<Self, Problem> {
        let Requirements { executable, identity } = requirements(options, spec)?;
        let start = || -> io::Result<Self> {
            let (connection, ends) = Connection::new(options, &identity)?;
            let Ends { socket, reports, output, mail } = ends;
            let mut plan = Plan::of(spec);
            let guarded = plan.guarded(spec, processes);
            let launch = Launch {
                spec: &guarded,
                identity: &identity,
                executable,
                socket,
                reports,
                output,
                dry_run: None,
            };
            let pid = launch.start(&mut plan, groups)?;
            connection.introduce(&hello(options, &guarded, None), descriptors, &mail)?;
            Ok(connection.application(spec, &identity, pid, plan, groups))
        };
        start().map_err(unstartable)
    }

    /// Lets a zygote fork an application's prototype. `processes` is the maximum of its user's
    /// processes.
    pub(crate) fn fork(
        options: &Options,
        spec: &ApplicationSpec,
        processes: Option<u64>,
        descriptors: &[OwnedFd],
        groups: &mut ControlGroups,
        zygote: &mut Zygote,
    ) -> Result<Self, NotForked> {
        let Requirements { identity, .. } =
            requirements(options, spec).map_err(NotForked::Application)?;
        let not_started = |error| NotForked::Application(unstartable(error));
        let (connection, ends) = Connection::new(options, &identity).map_err(not_started)?;
        let mail = ends.mail;
        let ends = [ends.socket.as_fd(), ends.reports.as_fd(), ends.output.as_fd()];
        let pid = zygote.fork(ends).map_err(NotForked::Zygote)?;
        let mut plan = Plan::of(spec);
        let admitted = launch::enter_control_group(spec, &mut plan, pid, groups);
        // The prototype begins with the first message, so it is in its group before it does
        // anything.
        let guarded = plan.guarded(spec, processes);
        let hello = hello(options, &guarded, identity.process_user());
        let introduced = admitted.and_then(|()| connection.introduce(&hello, descriptors, &mail));
        match introduced {
            Ok(()) => {
                let application = connection.application(spec, &identity, pid, plan, groups);
                Ok(Application { shares_start: true, ..application })
            }
            Err(error) => {
                let _ = signals::send(pid, signals::SIGKILL);
                Err(not_started(error))
            }
        }
    }

    /// Creates the state of an application whose prototype has just been started.
    pub(super) fn new(name: String, pid: u32, commands: OwnedFd, reports: OwnedFd) -> Self {
        Application {
            name,
            pid,
            has_pid_namespace: false,
            shares_start: false,
            template: None,
            commands,
            reports,
            reader: pipe::Reader::new(MAX_REPORT),
            output: None,
            submissions: None,
            stage: Stage::Loading,
            deadline: None,
            unload_check: None,
            is_dismissed: false,
            has_ended_unexpectedly: false,
            started: SystemTime::now(),
            failure: None,
            workers: Workers::default(),
            to_spawn: VecDeque::new(),
            pending: PendingRequests::default(),
            unrequested: UnrequestedReports::default(),
            checks_files: false,
            last_measured: 0,
            stopped_since: None,
            ending_processes: PendingKills::default(),
            plan: Plan::default(),
            counting: counting::State::default(),
            over_limit: HashSet::new(),
            out_of_memory: None,
            output_owner: None,
            separates_output: false,
            user: None,
            spec: None,
        }
    }

    /// Returns the pipe of reports, to poll; `None` if it is no longer read.
    pub(crate) fn reports(&self) -> Option<BorrowedFd<'_>> {
        (self.stage != Stage::Killed).then(|| self.reports.as_fd())
    }

    /// Returns true if a report is in memory already.
    pub(crate) fn has_buffered(&self) -> bool {
        self.stage != Stage::Killed && self.reader.has_read()
    }

    /// Returns descriptors to poll that become readable when workers end.
    pub(crate) fn worker_ends(&self) -> impl Iterator<Item = (WorkerId, BorrowedFd<'_>)> {
        let running = self.workers.processes().filter(|(_, process)| !process.has_ended);
        running.filter_map(|(owner, process)| Some((owner, process.handle.as_ref()?.as_fd())))
    }

    /// Returns true if the prototype has loaded PHP and can start workers.
    pub(crate) fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Returns true if the prototype loads PHP, or its worker script starts.
    pub(crate) fn is_loading(&self) -> bool {
        self.stage == Stage::Loading
    }

    /// Returns true if it was started with this specification, but for the sizes of the shared
    /// region.
    pub(crate) fn has_spec(&self, spec: &ApplicationSpec) -> bool {
        let own = self.spec.as_deref().filter(|own| own.name == spec.name);
        own.is_some_and(|own| *own == ApplicationSpec { geometry: own.geometry, ..spec.clone() })
    }

    /// Returns the specification with which it was started, but for limits that have changed since.
    pub(crate) fn spec(&self) -> Option<&ApplicationSpec> {
        self.spec.as_deref()
    }

    /// Returns the configured nice value.
    pub(crate) fn priority(&self) -> Option<i32> {
        Some(i32::try_from(self.spec.as_deref()?.priority?).ok()? - 20)
    }

    /// Takes the limits of all processes of a changed specification, if nothing else has changed.
    /// Returns true if the limits have changed.
    pub(crate) fn take_resources(&mut self, new: &ApplicationSpec) -> bool {
        let Some(own) = self.spec.as_deref_mut().filter(|own| own.name == new.name) else {
            return false;
        };
        let (settings, limits) = (&new.isolation.cgroup_settings, &new.isolation.limits);
        if own.isolation.cgroup_settings == *settings && own.isolation.limits == *limits
            || own.isolation.limits.is_some() != limits.is_some()
        {
            return false;
        }
        let mut changed = own.clone();
        changed.isolation.cgroup_settings.clone_from(settings);
        changed.isolation.limits.clone_from(limits);
        if changed != (ApplicationSpec { geometry: own.geometry, ..new.clone() }) {
            return false;
        }
        *own = changed;
        let plan = Plan::of(own);
        // Its processes stay where they are.
        self.plan = match (&plan.group, self.plan.group.take()) {
            (Some(_), None) => Plan::counting(own),
            (_, group) => Plan { group, ..plan },
        };
        true
    }

    /// Returns true if there is no worker.
    pub(crate) fn is_idle(&self) -> bool {
        self.workers.is_empty()
    }

    /// Sends a request to the prototype.
    pub(super) fn send(&self, message: &ToPrototype) -> std::io::Result<()> {
        Ok(packet::send(&self.commands, &message.encode(), &[])?)
    }
}
