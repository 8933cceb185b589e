//! `isolation`: namespaces, root directory, control group, limits and sandbox of an application.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, default_of_reader};
use crate::resources::{CGROUP, ControlGroup, RESOURCES, ResourceLimits};
use crate::sandbox::{SANDBOX, Sandbox};

/// `isolation` of an application.
pub(crate) static ISOLATION: Shape = Shape {
    name: "isolation",
    parts: &[&[
        Key::new(
            "namespaces",
            Kind::Object(&NAMESPACES),
            "Namespaces that are created for the application",
        )
        .default("{}")
        .unit(),
        Key::new(
            "uidmap",
            Kind::Array(&Kind::Object(&ID_RANGE)),
            "Mapping of user ids, for the namespace `credential`",
        )
        .default("its user")
        .details("Must include the application's user")
        .unit(),
        Key::new(
            "gidmap",
            Kind::Array(&Kind::Object(&ID_RANGE)),
            "Mapping of group ids, for the namespace `credential`",
        )
        .default("its group")
        .details("Must include the application's group")
        .unit(),
        Key::new(
            "rootfs",
            Kind::Text,
            "Directory that becomes the root directory of the processes",
        )
        .default("none")
        .details(
            "Always with a mount namespace. `root`, `working_directory`, `options.file`, `stdout` \
             and `stderr` are then paths inside it",
        )
        .unit(),
        Key::new(
            "automount",
            Kind::Object(&AUTOMOUNT),
            "File systems that are mounted in the `rootfs`",
        )
        .default("all")
        .unit(),
        Key::switch(
            "new_privs",
            false,
            "Allows executed programs to gain privileges, as `sudo` does",
        )
        .details("Unit: `true`")
        .unit(),
        Key::new("cgroup", Kind::Object(&CGROUP), "The control group (version 2) of the processes")
            .default("none")
            .unit(),
        Key::new(
            "limits",
            Kind::Object(&RESOURCES),
            "Limits of all processes of the application together",
        )
        .default("none")
        .details(
            "By a control group, or approximately where there is none, see \
             [Limits of a site](../hosting.md#limits-of-a-site)",
        ),
        Key::new(
            "sandbox",
            Kind::Either(&[Kind::Switch, Kind::Object(&SANDBOX)]),
            "Restrictions by the kernel: `true` restricts files to the application's and the \
             system's, `false` lifts all restrictions",
        )
        .default("signals and tracing")
        .details(
            "By default the processes cannot signal or trace others. `true`, or an object: they \
             can use only files of the application, system files, and the files named, see \
             [Security](../security.md#isolationsandbox). `false`: no restrictions except those \
             of the user",
        ),
        Key::switch("own_start", false, "Starts PHP for this application alone")
            .details("Takes 10 MB more than the start [with others](../php.md#the-start-of-php)"),
    ]],
};

/// `namespaces` of the isolation.
static NAMESPACES: Shape = Shape {
    name: "namespaces",
    parts: &[&[
        Key::switch("credential", false, "A namespace of user and group ids").unit(),
        Key::switch("pid", false, "A namespace of processes").unit(),
        Key::switch("network", false, "A namespace of network interfaces").unit(),
        Key::switch("mount", false, "A namespace of mount points").unit(),
        Key::switch("uname", false, "A namespace of the host name").unit(),
        Key::switch("cgroup", false, "A namespace of control groups").unit(),
    ]],
};

/// `automount` of the isolation.
static AUTOMOUNT: Shape = Shape {
    name: "automount",
    parts: &[&[
        Key::switch("language_deps", true, "Mounts the files that PHP needs, read-only")
            .details(
                "Libraries, extensions and settings of PHP, time zones, certificates, name \
                 resolution",
            )
            .unit(),
        Key::switch(
            "procfs",
            true,
            "Mounts `/proc`, with the processes of the application's user only",
        )
        .unit(),
        Key::switch("tmpfs", true, "Mounts `/tmp`, 64 MB of memory").unit(),
    ]],
};

/// A range of `uidmap` or `gidmap`.
static ID_RANGE: Shape = Shape {
    name: "id_range",
    parts: &[&[
        Key::new("container", Kind::Integer(0, u32::MAX as i64), "First id inside the namespace")
            .required()
            .unit(),
        Key::new("host", Kind::Integer(0, u32::MAX as i64), "First id outside the namespace")
            .required()
            .unit(),
        Key::new("size", Kind::Integer(1, u32::MAX as i64), "Number of ids").required().unit(),
    ]],
};

/// Isolation of an application's processes from the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Isolation {
    /// Namespaces that are created for the application.
    pub namespaces: Namespaces,
    /// User ids inside the namespace and the ids outside that they map to.
    pub uidmap: Vec<IdRange>,
    /// Group ids inside the namespace and the ids outside that they map to.
    pub gidmap: Vec<IdRange>,
    /// The directory that becomes the application's root.
    pub rootfs: Option<PathBuf>,
    /// File systems that are mounted in `rootfs`.
    pub automount: Automount,
    /// True if processes may gain rights by executing files; they may not if `None`.
    pub new_privs: Option<bool>,
    /// The control group.
    pub cgroup: Option<ControlGroup>,
    /// Limits of all processes together; `None` if there are none.
    pub limits: Option<ResourceLimits>,
    /// Restrictions that the kernel enforces.
    pub sandbox: Sandbox,
    /// PHP is started for this application alone.
    pub own_start: bool,
}

/// Linux namespaces, see namespaces(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces {
    /// `credential`: users and groups.
    pub credential: bool,
    /// `pid`: processes.
    pub pid: bool,
    /// `network`: interfaces, addresses, ports.
    pub network: bool,
    /// `mount`: mounts.
    pub mount: bool,
    /// `uname`: host name.
    pub uname: bool,
    /// `cgroup`: control groups.
    pub cgroup: bool,
}

/// A range of ids inside a namespace and the range outside that it maps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The first id inside.
    pub container: u32,
    /// The first id outside.
    pub host: u32,
    /// Number of ids.
    pub size: u32,
}

/// File systems that are mounted in a `rootfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Automount {
    /// Directories that PHP needs to run.
    pub language_deps: bool,
    /// `/proc`.
    pub procfs: bool,
    /// `/tmp`.
    pub tmpfs: bool,
}

default_of_reader!(Automount, Automount::read);

impl Isolation {
    /// Returns the path of the control group, in which the processes are if the system has such
    /// groups.
    pub fn group(&self) -> Option<&Path> {
        let named = self.cgroup.as_ref().map(|group| &*group.path);
        named.or_else(|| self.limits.as_ref().map(|limits| &*limits.group))
    }

    /// Returns the maximum number of workers, beside the prototype and the process from which
    /// resident workers are forked; `None` without a limit.
    pub fn max_workers(&self, is_resident: bool) -> Option<u32> {
        let of_group = self.cgroup.as_ref().and_then(|group| group.pids_max);
        let own = self.limits.as_ref().and_then(|limits| limits.processes);
        let tasks = of_group.into_iter().chain(own).min()?;
        Some(tasks.saturating_sub(1 + u32::from(is_resident)).max(1))
    }

    /// Takes the resources of another isolation, if those of running processes can become the
    /// same.
    pub(crate) fn take_resources(&mut self, other: &Isolation) {
        if self.group() == other.group() && self.limits.is_some() == other.limits.is_some() {
            self.cgroup.clone_from(&other.cgroup);
            self.limits.clone_from(&other.limits);
        }
    }

    /// Reads the isolation of the application `name`.
    pub(crate) fn read(name: &str, node: &Node<'_>) -> Result<Isolation, Error> {
        let object = node.object(&ISOLATION)?;
        let isolation = Isolation {
            namespaces: object.read("namespaces", Namespaces::read)?.unwrap_or_default(),
            uidmap: object.read("uidmap", IdRange::read_all)?.unwrap_or_default(),
            gidmap: object.read("gidmap", IdRange::read_all)?.unwrap_or_default(),
            rootfs: object.file("rootfs")?,
            automount: object.read("automount", Automount::read)?.unwrap_or_default(),
            new_privs: object.boolean("new_privs")?,
            cgroup: object.read("cgroup", ControlGroup::read)?,
            limits: object
                .read("limits", |node| ResourceLimits::read(name, node))?
                .filter(|limits| !limits.is_empty()),
            sandbox: object.read("sandbox", Sandbox::read)?.unwrap_or_default(),
            own_start: object.switch("own_start")?,
        };
        object.end()?;
        Ok(isolation)
    }
}

impl Namespaces {
    fn read(node: &Node<'_>) -> Result<Namespaces, Error> {
        let object = node.object(&NAMESPACES)?;
        let namespaces = Namespaces {
            credential: object.switch("credential")?,
            pid: object.switch("pid")?,
            network: object.switch("network")?,
            mount: object.switch("mount")?,
            uname: object.switch("uname")?,
            cgroup: object.switch("cgroup")?,
        };
        object.end()?;
        Ok(namespaces)
    }
}

impl Automount {
    fn read(node: &Node<'_>) -> Result<Automount, Error> {
        let object = node.object(&AUTOMOUNT)?;
        let automount = Automount {
            language_deps: object.switch("language_deps")?,
            procfs: object.switch("procfs")?,
            tmpfs: object.switch("tmpfs")?,
        };
        object.end()?;
        Ok(automount)
    }
}

impl IdRange {
    fn read_all(node: &Node<'_>) -> Result<Vec<IdRange>, Error> {
        node.elements()?.map(|range| IdRange::read(&range)).collect()
    }

    fn read(node: &Node<'_>) -> Result<IdRange, Error> {
        let object = node.object(&ID_RANGE)?;
        let id = |key| object.required_integer(key);
        let range = IdRange { container: id("container")?, host: id("host")?, size: id("size")? };
        object.end()?;
        let last = |first: u32| first.checked_add(range.size - 1);
        match (last(range.container), last(range.host)) {
            (Some(_), Some(_)) => Ok(range),
            _ => Err(node.invalid("must not go beyond the id 4294967295")),
        }
    }
}
