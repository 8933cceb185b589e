//! `isolation`: namespaces, root directory, control group and sandbox of an application.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, default_of_reader};
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

/// The range of weights of the kernel.
const WEIGHT: Kind = Kind::Integer(1, 10_000);

/// `cgroup` of the isolation.
static CGROUP: Shape = Shape {
    name: "cgroup",
    parts: &[&[
        Key::new(
            "path",
            Kind::Text,
            "Path, below the server's own group unless it begins with a slash",
        )
        .details("A missing group is created, and removed with the application")
        .required()
        .unit(),
        Key::new("cpu_weight", WEIGHT, "Share of processor time beside other groups")
            .default("the system's (100)")
            .details("The controller is turned on where the groups above allow it"),
        Key::new("io_weight", WEIGHT, "Share of disk operations beside other groups")
            .default("the system's (100)")
            .details("The controller is turned on where the groups above allow it"),
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
    /// Restrictions that the kernel enforces.
    pub sandbox: Sandbox,
    /// PHP is started for this application alone.
    pub own_start: bool,
}

/// The control group of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    /// Its path, relative to the server's own group unless it starts with a slash.
    pub path: PathBuf,
    /// Its share of processor time beside other groups; the kernel's default is 100.
    pub cpu_weight: Option<u32>,
    /// Its share of disk input and output beside other groups; the kernel's default is 100.
    pub io_weight: Option<u32>,
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
    /// Returns the path of the control group.
    pub fn group(&self) -> Option<&Path> {
        self.cgroup.as_ref().map(|group| &*group.path)
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Isolation, Error> {
        let object = node.object(&ISOLATION)?;
        let isolation = Isolation {
            namespaces: object.read("namespaces", Namespaces::read)?.unwrap_or_default(),
            uidmap: object.read("uidmap", IdRange::read_all)?.unwrap_or_default(),
            gidmap: object.read("gidmap", IdRange::read_all)?.unwrap_or_default(),
            rootfs: object.file("rootfs")?,
            automount: object.read("automount", Automount::read)?.unwrap_or_default(),
            new_privs: object.boolean("new_privs")?,
            cgroup: object.read("cgroup", ControlGroup::read)?,
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

impl ControlGroup {
    fn read(node: &Node<'_>) -> Result<ControlGroup, Error> {
        let object = node.object(&CGROUP)?;
        let path = object.required("path")?;
        let text = path.text()?;
        if text.len() > 4000 || text.split('/').any(|segment| segment == "..") {
            return Err(path.invalid("must be a short path without \"..\""));
        }
        let group = ControlGroup {
            path: PathBuf::from(text),
            cpu_weight: object.integer("cpu_weight")?,
            io_weight: object.integer("io_weight")?,
        };
        object.end()?;
        Ok(group)
    }
}
