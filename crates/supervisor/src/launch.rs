//! The steps from a fork to `howdah-php`, in which a prototype gives up its rights, and those that
//! all processes of an application take.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use howdah_launch::User;
use howdah_launch::known_start::KnownStart;
use howdah_sys::namespaces::{self, Namespaces};
use howdah_sys::process::{self, Forked};
use howdah_sys::{pipe, signals};
use howdah_wire::messages::{ApplicationSpec, FromPrototype, Problem};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::control_groups::ControlGroups;
use crate::identity::{Identity, Maps};
use crate::resources::Plan;
use crate::rootfs;
use crate::unprivileged::NAMESPACE_TITLE;

/// Moves a process into the control group of its application, if that has one. If only
/// `isolation/limits` asks for one and it cannot be entered, the limits are counted.
pub(crate) fn enter_control_group(
    spec: &ApplicationSpec,
    plan: &mut Plan,
    pid: u32,
    groups: &mut ControlGroups,
) -> std::io::Result<()> {
    let Some(group) = &plan.group else { return Ok(()) };
    match groups.put(group, &plan.settings, pid) {
        Err(_) if spec.isolation.cgroup.is_none() => {
            *plan = Plan::counting(spec);
            Ok(())
        }
        result => {
            result.map_err(|error| std::io::Error::other(format!("control group {group}: {error}")))
        }
    }
}

/// A prototype to start.
pub(crate) struct Launch<'a> {
    pub(crate) spec: &'a ApplicationSpec,
    pub(crate) identity: &'a Identity,
    /// The program `howdah-php`.
    pub(crate) executable: Arc<File>,
    /// The socket of requests.
    pub(crate) socket: OwnedFd,
    /// The pipe of reports.
    pub(crate) reports: OwnedFd,
    /// The pipe of its output.
    pub(crate) output: OwnedFd,
    /// Only checks that the application could run; creates and changes nothing. PHP is not started
    /// if it would be as in the known start.
    pub(crate) dry_run: Option<&'a KnownStart>,
}

impl Launch<'_> {
    /// Starts the process and returns its id. Failures in the new process are reported through the
    /// pipe.
    pub(crate) fn start(self, plan: &mut Plan, groups: &mut ControlGroups) -> std::io::Result<u32> {
        let (parent, is_dry_run) = (std::process::id(), self.dry_run.is_some());
        let rights = Rights { spec: self.spec, identity: self.identity };
        rights.start(plan, groups, is_dry_run, || {
            if let Ok(launch) = self.move_descriptors() {
                // Returns only on failure, or after a dry run.
                let report = launch.become_prototype(parent);
                let _ = pipe::send(&launch.reports, &report.encode());
            }
        })
    }

    /// Becomes the prototype. Returns the report if that fails, or after a dry run.
    fn become_prototype(&self, parent: u32) -> FromPrototype {
        let rights = Rights { spec: self.spec, identity: self.identity };
        let (output, is_dry_run) = (self.output.as_fd(), self.dry_run.is_some());
        let files = howdah_launch::read_environment_files(self.spec);
        let prepared = files.and_then(|files| {
            rights.give_up(output, &self.executable, parent, is_dry_run).map(|()| files)
        });
        let files = match prepared {
            Ok(files) => files,
            Err(problem) => return FromPrototype::Failed { problem },
        };
        if let Some(known) = &self.dry_run {
            if self.spec.isolation.rootfs.is_some() {
                return FromPrototype::checked();
            }
            match known.check(self.spec) {
                Err(problem) => return FromPrototype::Failed { problem },
                Ok(Some(notices)) => return self.report_known(notices),
                Ok(None) => {}
            }
        }
        let error = self.execute(&files);
        let problem = Problem::of(format_args!("it cannot be started: {error}"));
        FromPrototype::Failed { problem }
    }

    /// Sends what `howdah-php` would report, but for the settings, which are known, and the last
    /// report, which is returned.
    fn report_known(&self, notices: Vec<Problem>) -> FromPrototype {
        for problem in notices {
            let report = FromPrototype::Noticed { problem, is_note: false };
            let _ = pipe::send(&self.reports, &report.encode());
        }
        FromPrototype::checked()
    }

    fn execute(&self, files: &[(String, String)]) -> std::io::Error {
        let placed = process::duplicate_to(&self.socket, 3)
            .and_then(|()| process::duplicate_to(&self.reports, 4));
        if let Err(error) = placed {
            return error;
        }
        let title = format!("howdah: \"{}\" prototype", self.spec.name);
        // Spaces reserve room for the longer titles of workers.
        let arguments = [title.as_str(), "                "];
        let environment = howdah_launch::environment(self.spec, self.identity.user.as_ref(), files);
        process::exec_file(&self.executable, &arguments, &environment)
    }

    /// Moves descriptors to numbers from 10 on: the program expects others at low numbers.
    fn move_descriptors(self) -> std::io::Result<Self> {
        let moved = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 10);
        let executable = Arc::new(moved(self.executable.as_fd())?.into());
        let (socket, reports) = (moved(self.socket.as_fd())?, moved(self.reports.as_fd())?);
        Ok(Launch { executable, socket, reports, ..self })
    }
}

/// The rights of the processes of an application.
#[derive(Clone, Copy)]
pub(crate) struct Rights<'a> {
    pub(crate) spec: &'a ApplicationSpec,
    pub(crate) identity: &'a Identity,
}

impl Rights<'_> {
    /// Forks a process in the namespaces and the control group of the application. It calls `child`
    /// and exits if that returns. Returns its id.
    pub(crate) fn start(
        &self,
        plan: &mut Plan,
        groups: &mut ControlGroups,
        is_dry_run: bool,
        child: impl FnOnce(),
    ) -> std::io::Result<u32> {
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
        match self.fork()? {
            Forked::Parent(pid) => {
                drop(wait);
                self.admit(pid, plan, groups, is_dry_run).inspect_err(|_| {
                    let _ = signals::send(pid, signals::SIGKILL);
                })?;
                rustix::io::write(&go, b"g")?;
                Ok(pid)
            }
            Forked::Child => {
                // Until its exec this is a copy of the supervisor, with its descriptors and its
                // memory, private keys among them. Like the supervisor it cannot be traced:
                // otherwise scripts of the same user could read both.
                drop(go);
                // The parent maps its users and moves it into its control group.
                if !matches!(rustix::io::read(&wait, &mut [0; 1][..]), Ok(1)) {
                    process::exit_now(0);
                }
                child();
                process::exit_now(127);
            }
        }
    }

    fn fork(&self) -> std::io::Result<Forked> {
        let isolation = &self.spec.isolation;
        let namespaces = Namespaces {
            user: isolation.user_namespace,
            pid: isolation.pid_namespace,
            network: isolation.network_namespace,
            mount: isolation.mount_namespace || isolation.rootfs.is_some(),
            uts: isolation.uts_namespace,
        };
        let forked = match &self.identity.maps {
            _ if namespaces == Namespaces::default() => return process::fork(),
            Some(maps) if !maps.privileged => self.fork_with_own_users(maps, namespaces),
            _ => namespaces::fork_into(namespaces),
        };
        forked.map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied if !namespaces.user => {
                    "; without root it takes the namespace \"credential\" too"
                }
                _ => "",
            };
            std::io::Error::new(error.kind(), format!("namespaces: {error}{hint}"))
        })
    }

    /// Forks the process with its own users, without root: the kernel then maps users only for a
    /// process that can be traced, see [`make_user_namespace`](namespaces::make_user_namespace).
    fn fork_with_own_users(&self, maps: &Maps, namespaces: Namespaces) -> std::io::Result<Forked> {
        let program = process::own_program()?;
        let user = namespaces::make_user_namespace(
            &maps.users,
            &maps.groups,
            program.as_fd(),
            &[NAMESPACE_TITLE],
        )?;
        let others = Namespaces { user: false, ..namespaces };
        namespaces::fork_within(user.as_fd(), others)
    }

    fn admit(
        &self,
        pid: u32,
        plan: &mut Plan,
        groups: &mut ControlGroups,
        is_dry_run: bool,
    ) -> std::io::Result<()> {
        if let Some(maps) = self.identity.maps.as_ref().filter(|maps| maps.privileged) {
            namespaces::map_users(pid, &maps.users, &maps.groups, true)?;
        }
        if is_dry_run {
            return Ok(());
        }
        enter_control_group(self.spec, plan, pid, groups)
    }

    /// Sets up the process of the application. The order matters: each step needs rights that a
    /// later one gives up. `executable` is the program `howdah-php`.
    pub(crate) fn give_up(
        &self,
        output: BorrowedFd<'_>,
        executable: &File,
        parent: u32,
        is_dry_run: bool,
    ) -> Result<(), Problem> {
        let isolation = &self.spec.isolation;
        process::close_on_exec_from(3);
        howdah_launch::begin_session(output)?;
        if isolation.cgroup_namespace {
            namespaces::leave_control_groups()
                .map_err(|error| Problem::at("isolation/namespaces/cgroup", error))?;
        }
        let at_root = |error: std::io::Error| Problem::at("isolation/rootfs", error);
        if isolation.mount_namespace || isolation.rootfs.is_some() {
            rootfs::keep_mounts_private().map_err(at_root)?;
        }
        match &isolation.rootfs {
            Some(directory) if is_dry_run => rootfs::check(directory, &self.spec.roots)?,
            Some(directory) => rootfs::enter(directory, isolation).map_err(at_root)?,
            None => {}
        }
        howdah_launch::set_limits(self.spec)?;
        let has_groups = self.identity.maps.as_ref().is_none_or(|maps| maps.privileged);
        let user = self.identity.user.as_ref();
        let user = user.map(|credentials| User { credentials, has_groups });
        let parent = (!isolation.pid_namespace).then_some(parent);
        howdah_launch::assume_user(self.spec, user, parent)?;
        // A dry run does not enter the root directory, in which these paths name other files.
        if is_dry_run && isolation.rootfs.is_some() {
            return Ok(());
        }
        howdah_launch::enter(self.spec, executable, is_dry_run)
    }
}
