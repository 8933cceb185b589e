//! From a fork to the program that runs PHP: everything that a prototype gives up on the way.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::credentials::Credentials;
use howdah_sys::namespaces::{self, Namespaces};
use howdah_sys::process::{self, Forked, Resource};
use howdah_sys::{packet, signals};
use howdah_wire::messages::{ApplicationSpec, FromPrototype, MAX_MESSAGE};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::control_groups::ControlGroups;
use crate::identity::Identity;
use crate::{output, rootfs};

/// A prototype that is to be started.
pub(crate) struct New<'a> {
    pub(crate) spec: &'a ApplicationSpec,
    pub(crate) identity: &'a Identity,
    /// The program.
    pub(crate) executable: File,
    /// Its end of the socket that it has with the supervisor.
    pub(crate) socket: OwnedFd,
    /// Where its output goes.
    pub(crate) output: OwnedFd,
}

impl New<'_> {
    /// Starts it and returns its process id. What goes wrong in the new process comes as a
    /// message over the socket, as what goes wrong later.
    pub(crate) fn start(self, groups: &mut ControlGroups) -> std::io::Result<u32> {
        let parent = std::process::id();
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
        match self.fork()? {
            Forked::Parent(pid) => {
                drop(wait);
                self.admit(pid, groups).inspect_err(|_| {
                    let _ = signals::send(pid, signals::SIGKILL);
                })?;
                rustix::io::write(&go, b"g")?;
                Ok(pid)
            }
            Forked::Child => {
                drop(go);
                // Only the parent can give it users and a control group.
                if !matches!(rustix::io::read(&wait, &mut [0; 1][..]), Ok(1)) {
                    process::exit_now(0);
                }
                let error = self.become_prototype(parent);
                self.report(&format!("it cannot be started: {error}"));
                process::exit_now(127);
            }
        }
    }

    /// Says why there will be no prototype. A socket that is closed with something unread in it
    /// would lose the message.
    fn report(&self, message: &str) {
        let message = FromPrototype::Failed { message: message.to_owned() };
        let _ = packet::receive(&self.socket, &mut vec![0; MAX_MESSAGE]);
        let _ = packet::send(&self.socket, &message.encode(), &[]);
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
        if namespaces == Namespaces::default() {
            return process::fork();
        }
        namespaces::fork_into(namespaces).map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied if !namespaces.user => {
                    "; without root it takes the namespace \"credential\" too"
                }
                _ => "",
            };
            std::io::Error::new(error.kind(), format!("namespaces: {error}{hint}"))
        })
    }

    fn admit(&self, pid: u32, groups: &mut ControlGroups) -> std::io::Result<()> {
        if let Some(maps) = &self.identity.maps {
            namespaces::map_users(pid, &maps.users, &maps.groups, maps.privileged)?;
        }
        if let Some(group) = &self.spec.isolation.cgroup {
            groups
                .put(group, pid)
                .map_err(|error| std::io::Error::other(format!("cgroup {group}: {error}")))?;
        }
        Ok(())
    }

    fn become_prototype(&self, parent: u32) -> std::io::Error {
        if let Err(error) = self.prepare(parent) {
            return error;
        }
        // The descriptor of the program must not lie where the socket goes.
        let program = match rustix::io::fcntl_dupfd_cloexec(&self.executable, 10) {
            Ok(program) => program,
            Err(error) => return error.into(),
        };
        // Should the program not start, this one still has to say so.
        let socket = match rustix::io::fcntl_dupfd_cloexec(&self.socket, 10) {
            Ok(socket) => socket,
            Err(error) => return error.into(),
        };
        if let Err(error) = process::place(&socket, 3) {
            return error;
        }
        let title = format!("howdah: \"{}\" prototype", self.spec.name);
        // Spaces that give the longer titles of the workers room.
        let arguments = [title.as_str(), "                "];
        process::exec_file(&program, &arguments, &self.environment())
    }

    /// Becomes what the application shall be. The order matters: each step takes rights that a
    /// later one gives up.
    fn prepare(&self, parent: u32) -> std::io::Result<()> {
        let isolation = &self.spec.isolation;
        signals::reset();
        process::close_on_exec_from(3);
        process::standard_streams(self.output.as_fd(), self.output.as_fd())?;
        // No terminal; and where the kernel shares processors out by session, its own share.
        rustix::process::setsid()?;
        if isolation.cgroup_namespace {
            namespaces::leave_control_groups()?;
        }
        if isolation.mount_namespace || isolation.rootfs.is_some() {
            rootfs::keep_mounts_private()?;
        }
        if let Some(directory) = &isolation.rootfs {
            rootfs::enter(directory, isolation)?;
        }
        for (name, limit) in &self.spec.rlimits {
            set_limit(name, *limit)?;
        }
        if !isolation.new_privileges {
            process::bound_capabilities();
        }
        self.assume_identity()?;
        process::drop_capabilities()?;
        if !isolation.new_privileges {
            process::no_new_privileges()?;
        }
        process::die_with((!isolation.pid_namespace).then_some(parent));
        redirect(self.spec)?;
        if let Some(directory) = &self.spec.working_directory {
            std::env::set_current_dir(directory).map_err(|error| {
                std::io::Error::other(format!("working directory {directory}: {error}"))
            })?;
        }
        Ok(())
    }

    fn assume_identity(&self) -> std::io::Result<()> {
        match (&self.identity.user, &self.identity.maps) {
            (Some(user), Some(maps)) if !maps.privileged => user.assume_without_groups(),
            (Some(user), _) => user.assume(),
            (None, _) => Ok(()),
        }
    }

    /// What the application asked for, and who it is: `USER` and `HOME` as PHP-FPM sets them.
    fn environment(&self) -> Vec<(String, String)> {
        let user = self.identity.user.clone().unwrap_or_else(Credentials::current);
        let mut environment = self.spec.environment.clone();
        for (name, value) in [("USER", user.name), ("HOME", user.home)] {
            if !environment.iter().any(|(n, _)| n == name) {
                environment.push((name.to_owned(), value));
            }
        }
        environment
    }
}

fn set_limit(name: &str, limit: Option<u64>) -> std::io::Result<()> {
    let resource = match name {
        "as" => Resource::As,
        "core" => Resource::Core,
        "data" => Resource::Data,
        "fsize" => Resource::Fsize,
        "memlock" => Resource::Memlock,
        "nofile" => Resource::Nofile,
        "nproc" => Resource::Nproc,
        "stack" => Resource::Stack,
        _ => return Err(std::io::Error::other(format!("there is no limit \"{name}\""))),
    };
    process::limit(resource, limit).map_err(|error| {
        std::io::Error::new(error.kind(), format!("limits/rlimits/{name}: {error}"))
    })
}

fn redirect(spec: &ApplicationSpec) -> std::io::Result<()> {
    for (path, target) in [(&spec.stdout, 1), (&spec.stderr, 2)] {
        if let Some(path) = path {
            let file = output::open(path)
                .map_err(|error| std::io::Error::other(format!("{path}: {error}")))?;
            process::place(&file, target)?;
        }
    }
    Ok(())
}
