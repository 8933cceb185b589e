//! `isolation`: namespaces, root directory, control group and sandbox of an application.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::node::{Node, Object};
use crate::sandbox::Sandbox;

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

impl Default for Automount {
    fn default() -> Automount {
        Automount { language_deps: true, procfs: true, tmpfs: true }
    }
}

impl Isolation {
    /// Returns the path of the control group.
    pub fn group(&self) -> Option<&Path> {
        self.cgroup.as_ref().map(|group| &*group.path)
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Isolation, Error> {
        let object = node.object()?;
        let isolation = Isolation {
            namespaces: object.read("namespaces", Namespaces::read)?.unwrap_or_default(),
            uidmap: object.read("uidmap", IdRange::read_all)?.unwrap_or_default(),
            gidmap: object.read("gidmap", IdRange::read_all)?.unwrap_or_default(),
            rootfs: object.file("rootfs")?,
            automount: object.read("automount", Automount::read)?.unwrap_or_default(),
            new_privs: object.boolean("new_privs")?,
            cgroup: object.read("cgroup", ControlGroup::read)?,
            sandbox: object.read("sandbox", Sandbox::read)?.unwrap_or_default(),
            own_start: switch(&object, "own_start", false)?,
        };
        object.end()?;
        Ok(isolation)
    }
}

impl Namespaces {
    fn read(node: &Node<'_>) -> Result<Namespaces, Error> {
        let object = node.object()?;
        let namespaces = Namespaces {
            credential: switch(&object, "credential", false)?,
            pid: switch(&object, "pid", false)?,
            network: switch(&object, "network", false)?,
            mount: switch(&object, "mount", false)?,
            uname: switch(&object, "uname", false)?,
            cgroup: switch(&object, "cgroup", false)?,
        };
        object.end()?;
        Ok(namespaces)
    }
}

impl Automount {
    fn read(node: &Node<'_>) -> Result<Automount, Error> {
        let object = node.object()?;
        let automount = Automount {
            language_deps: switch(&object, "language_deps", true)?,
            procfs: switch(&object, "procfs", true)?,
            tmpfs: switch(&object, "tmpfs", true)?,
        };
        object.end()?;
        Ok(automount)
    }
}

fn switch(object: &Object<'_>, key: &'static str, default: bool) -> Result<bool, Error> {
    object.boolean(key).map(|value| value.unwrap_or(default))
}

impl IdRange {
    fn read_all(node: &Node<'_>) -> Result<Vec<IdRange>, Error> {
        node.elements()?.map(|range| IdRange::read(&range)).collect()
    }

    fn read(node: &Node<'_>) -> Result<IdRange, Error> {
        let object = node.object()?;
        let id = |key, low| {
            let value = object.required(key)?.integer(low..=i64::from(u32::MAX))?;
            // In range by the line above.
            Ok(u32::try_from(value).unwrap_or(u32::MAX))
        };
        let range =
            IdRange { container: id("container", 0)?, host: id("host", 0)?, size: id("size", 1)? };
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
        let object = node.object()?;
        let path = object.required("path")?;
        let text = path.text()?;
        if text.len() > 4000 || text.split('/').any(|segment| segment == "..") {
            return Err(path.invalid("must be a short path without \"..\""));
        }
        // The range of the kernel.
        let weight = |node: &Node<'_>| {
            node.integer(1..=10_000).map(|weight| u32::try_from(weight).unwrap_or(10_000))
        };
        let group = ControlGroup {
            path: PathBuf::from(text),
            cpu_weight: object.read("cpu_weight", weight)?,
            io_weight: object.read("io_weight", weight)?,
        };
        object.end()?;
        Ok(group)
    }
}
