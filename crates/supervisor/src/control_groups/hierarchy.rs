//! The hierarchy of control groups (version 2), and the place of the server in it.
//!
//! The kernel gives memory, processes and disk operations only to groups whose parent has no
//! process. So before a controller is turned on in the server's own group, the processes in it move
//! to the group [`SERVER_GROUP`] below it. That is done if the group is the server's alone: if the
//! service manager has delegated it, or no other process is in it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use howdah_sys::process_tree;
use howdah_wire::messages::SERVER_GROUP;
use rustix::fs::{Access, AtFlags, CWD, accessat, getxattr};
use rustix::io::Errno;

/// Attributes by which systemd marks a group that belongs to a service (`Delegate=yes`).
const DELEGATED: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// Directory that exists if systemd manages the groups of the system.
const SYSTEMD: &str = "/run/systemd/system";

/// Maximum number of attempts to move the processes of a group, as they start others meanwhile.
const MAX_MOVES: u32 = 20;

/// Process id of the supervisor.
static SERVER: OnceLock<u32> = OnceLock::new();

/// Makes this process the supervisor, whose group applications may divide.
pub(crate) fn begin() {
    let _ = SERVER.set(std::process::id());
}

/// The hierarchy, and the server's place.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchy {
    /// The mount point.
    pub(super) root: PathBuf,
    /// The server's own group; `None` if no server runs, as for `howdah check`.
    pub(super) own: Option<PathBuf>,
    /// A service manager decides which groups belong to the server.
    pub(super) is_managed: bool,
    /// Process id of the supervisor.
    pub(super) server: u32,
}

impl Hierarchy {
    /// Returns the hierarchy of this system; `None` if it has none of version 2.
    pub(crate) fn here() -> Option<Hierarchy> {
        let root = root()?;
        let server = SERVER.get().copied();
        let own = server.map(|_| {
            let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            own_group(&root, &own)
        });
        let is_managed = Path::new(SYSTEMD).exists();
        Some(Hierarchy { root, own, is_managed, server: server.unwrap_or(0) })
    }

    /// Returns a pretended hierarchy, of which the server has the root.
    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Hierarchy {
        let own = Some(root.to_owned());
        Hierarchy { root: root.to_owned(), own, is_managed: false, server: std::process::id() }
    }

    /// Returns the directory of a group: below that of the server, or below the root if its name
    /// begins with a slash.
    pub(super) fn directory(&self, group: &str) -> PathBuf {
        let base = if group.starts_with('/') { &self.root } else { self.base() };
        base.join(group.trim_matches('/'))
    }

    fn base(&self) -> &Path {
        self.own.as_deref().unwrap_or(&self.root)
    }

    /// Returns the reason why a file of a group cannot be written, as far as that is known without
    /// creating the group; `None` if it can be. Nothing is changed.
    pub(crate) fn obstacle(&self, group: &str, file: &str) -> Option<String> {
        let controller = controller(file);
        if !has(&self.root.join("cgroup.controllers"), controller) {
            return Some(format!(
                "the control groups of version 2 in {} have no controller \"{controller}\"; boot \
                 with systemd.unified_cgroup_hierarchy=1",
                self.root.display()
            ));
        }
        let is_relative = !group.starts_with('/');
        if is_relative && self.own.is_none() {
            return None; // it is not known where the server will be
        }
        let group = self.directory(group);
        if group.join(file).exists() {
            return not_writable(&group.join(file));
        }
        let above: Vec<_> = self.above(&group).collect();
        let existing = above.iter().rev().take_while(|directory| directory.is_dir());
        let is_off =
            |directory: &&&Path| !has(&directory.join("cgroup.subtree_control"), controller);
        for directory in existing.skip_while(|directory| !is_off(directory)) {
            let is_above_own = is_relative && !directory.starts_with(self.base());
            let is_own = *directory == self.base();
            if is_above_own && self.is_managed || is_own && !self.is_own_delegated() {
                return Some(format!(
                    "the controller \"{controller}\" is not delegated to {}; write Delegate=yes \
                     to the unit of the server",
                    self.base().display()
                ));
            }
            if let Some(problem) = not_writable(&directory.join("cgroup.subtree_control")) {
                return Some(problem);
            }
            if is_whole(directory) || processes(directory).is_empty() {
                continue;
            }
            if !is_own || !self.is_own_alone() {
                return Some(format!(
                    "other processes are in {}; start the server in a group of its own, as \
                     systemd does with Delegate=yes",
                    directory.display()
                ));
            }
        }
        let place = if group.is_dir() { Some(group.as_path()) } else { None };
        place.or_else(|| above.iter().copied().find(|one| one.is_dir())).and_then(not_writable)
    }

    /// Returns the groups above one, the innermost first.
    fn above<'a>(&'a self, group: &'a Path) -> impl Iterator<Item = &'a Path> {
        group.ancestors().skip(1).take_while(|at| at.starts_with(&self.root))
    }

    /// Returns true if the service manager has given the own group to the server, or there is none.
    fn is_own_delegated(&self) -> bool {
        !self.is_managed || is_whole(self.base()) || is_delegated(self.base())
    }

    /// Returns true if only processes of the server are in its own group.
    fn is_own_alone(&self) -> bool {
        let is_of_server = |pid: &u32| {
            let parent = |pid: &u32| process_tree::parent_of(*pid).filter(|parent| *parent != 0);
            let mut above = std::iter::successors(Some(*pid), parent);
            // The parent of one that ends meanwhile is not known; one of another namespace is 0.
            above.any(|pid| pid == self.server) || *pid != 0 && parent(pid).is_none() && *pid != 1
        };
        is_delegated(self.base()) || processes(self.base()).iter().all(is_of_server)
    }

    /// Writes to a file of a group. Its controller is turned on in the groups above, where it is
    /// off and they allow it.
    pub(super) fn set(&self, group: &Path, file: &str, value: &str) -> io::Result<()> {
        let controller = controller(file);
        if !group.join(file).exists() {
            let mut above: Vec<_> = self.above(group).collect();
            above.reverse();
            above.iter().for_each(|directory| self.turn_on(directory, controller));
        }
        let path = group.join(file);
        write(&path, value).map_err(|error| {
            let above = group.parent().unwrap_or(&self.root).join("cgroup.subtree_control");
            io::Error::other(format!(
                "{file} cannot be set ({error}); turn the controller on: echo +{controller} > {}",
                above.display()
            ))
        })
    }

    /// Turns a controller on for the groups below a directory. A failure shows when the file of the
    /// controller is written.
    fn turn_on(&self, directory: &Path, controller: &str) {
        let file = directory.join("cgroup.subtree_control");
        if has(&file, controller) {
            return;
        }
        let is_own = self.own.as_deref() == Some(directory) && !is_whole(directory);
        if is_own && self.is_own_alone() {
            let _ = self.leave_own();
        }
        let _ = write(&file, &format!("+{controller}"));
    }

    /// Moves the processes of the server from its own group to one below it.
    fn leave_own(&self) -> io::Result<()> {
        let below = self.base().join(SERVER_GROUP);
        for _ in 0..MAX_MOVES {
            let all = processes(self.base());
            if all.is_empty() {
                break;
            }
            match fs::create_dir(&below) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            for pid in all {
                let _ = write(&below.join("cgroup.procs"), &pid.to_string());
            }
        }
        Ok(())
    }
}

/// Writes to a file of the kernel, which is never created.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    io::Write::write_all(&mut fs::OpenOptions::new().write(true).open(path)?, text.as_bytes())
}

/// Returns the name of the controller of a file.
fn controller(file: &str) -> &str {
    file.split('.').next().unwrap_or_default()
}

/// Returns true if a file lists a controller.
fn has(list: &Path, controller: &str) -> bool {
    let list = fs::read_to_string(list).unwrap_or_default();
    list.split_whitespace().any(|one| one == controller)
}

/// Returns true for the root of all groups, where processes do not keep controllers off.
fn is_whole(directory: &Path) -> bool {
    !directory.join("cgroup.type").exists()
}

fn is_delegated(directory: &Path) -> bool {
    let mut value = [0; 8];
    DELEGATED.iter().any(|name| getxattr(directory, *name, &mut value[..]) == Ok(1))
        && value[0] == b'1'
}

/// Returns the processes of a group, without those of groups below it.
fn processes(directory: &Path) -> Vec<u32> {
    let list = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    // Those of other namespaces have the number 0.
    list.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Returns the reason why this process may not write to a file or directory.
fn not_writable(path: &Path) -> Option<String> {
    let error = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).err()?;
    let remedy = match error {
        Errno::ROFS => {
            "mount the control groups for writing, as a container does with --privileged"
        }
        _ => "start the server as root, or give the group to its user",
    };
    let error = io::Error::from(error);
    Some(format!(
        "{} cannot be written: {}; {remedy}",
        path.display(),
        howdah_sys::plain::Plain(error)
    ))
}

/// Returns the mount point of the cgroup2 file system, also beside file systems of version 1.
pub(super) fn root() -> Option<PathBuf> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .map(PathBuf::from)
        .into_iter()
        .find(|root| root.join("cgroup.controllers").exists())
}

/// Returns the server's own group, from the text of its `/proc/PID/cgroup`.
pub(super) fn own_group(root: &Path, text: &str) -> PathBuf {
    let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let own = root.join(own.trim_matches('/'));
    match own.parent() {
        Some(above) if own.ends_with(SERVER_GROUP) => above.to_owned(),
        _ => own,
    }
}
