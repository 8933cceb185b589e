//! Control groups of applications (cgroup v2).

mod hierarchy;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

pub(crate) use self::hierarchy::{Hierarchy, begin};

/// Files of a group, and the values that are written to them.
pub(crate) type Settings = Vec<(String, String)>;

/// Reason why a system has no control groups that applications can use.
pub(crate) const NONE: &str = "this system has no control groups of version 2; boot it with \
     systemd.unified_cgroup_hierarchy=1, or mount them (mount -t cgroup2 none /sys/fs/cgroup)";

/// Control groups that this process has created. A group is removed when it has no processes.
#[derive(Debug, Default)]
pub(crate) struct ControlGroups {
    made: BTreeSet<PathBuf>,
    /// The settings that were written last to each group.
    written: BTreeMap<PathBuf, Settings>,
    /// For each counter, the number of out-of-memory kills that have been reported.
    killed: BTreeMap<PathBuf, u64>,
    /// Another server may have processes in the same groups (an upgrade).
    is_shared: bool,
}

impl ControlGroups {
    /// Records whether another server may have processes in the same groups. While one may, no
    /// group is killed or removed.
    pub(crate) fn share(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// Returns the directories of the groups that this process has created.
    pub(crate) fn names(&self) -> Vec<String> {
        self.made.iter().filter_map(|group| Some(group.to_str()?.to_owned())).collect()
    }

    /// Takes groups over that another server has created and handed over.
    pub(crate) fn adopt(&mut self, names: &[String]) {
        self.made.extend(names.iter().map(PathBuf::from));
    }

    /// Moves a process into a group. Creates the group if it does not exist, and writes `settings`
    /// to its files before.
    pub(crate) fn put(&mut self, group: &str, settings: &Settings, pid: u32) -> io::Result<()> {
        let hierarchy = Hierarchy::here().ok_or_else(|| io::Error::other(NONE))?;
        let group = hierarchy.directory(group);
        self.make(&hierarchy.root, &group)?;
        self.write(&hierarchy, &group, settings)?;
        hierarchy::write(&group.join("cgroup.procs"), &pid.to_string())
    }

    /// Writes changed settings to a group whose processes run.
    pub(crate) fn change(&mut self, group: &str, settings: &Settings) -> io::Result<()> {
        let hierarchy = Hierarchy::here().ok_or_else(|| io::Error::other(NONE))?;
        let group = hierarchy.directory(group);
        self.write(&hierarchy, &group, settings)
    }

    /// Writes settings to a group. A setting that was written before and is not there any more gets
    /// the system's value.
    fn write(
        &mut self,
        hierarchy: &Hierarchy,
        group: &Path,
        settings: &Settings,
    ) -> io::Result<()> {
        let before = self.written.remove(group).unwrap_or_default();
        let is_gone = |file: &str| settings.iter().all(|(other, _)| other != file);
        for (file, _) in before.iter().filter(|(file, _)| is_gone(file)) {
            let _ = hierarchy::write(&group.join(file), initial(file));
        }
        for (file, value) in settings {
            match hierarchy.set(group, file, value) {
                // Not every kernel counts memory on disks.
                Err(_) if file == SWAP && !group.join(SWAP).exists() => {}
                result => result?,
            }
        }
        if !settings.is_empty() {
            self.written.insert(group.to_owned(), settings.clone());
        }
        Ok(())
    }

    /// Kills all processes in a group that this process has created, unless one of the `others` is
    /// that group or below it. The kernel kills them at once, so that none can escape by forking.
    /// No effect before Linux 5.14.
    pub(crate) fn kill<'a>(&self, group: &str, others: impl Iterator<Item = &'a str>) {
        let Some(hierarchy) = Hierarchy::here() else { return };
        if let Some(group) = self.unused(&hierarchy, group, others) {
            let _ = fs::write(group.join("cgroup.kill"), "1");
        }
    }

    /// Returns the directory of a group if this process has created it and no other application
    /// uses it.
    fn unused<'a>(
        &self,
        hierarchy: &Hierarchy,
        group: &str,
        mut others: impl Iterator<Item = &'a str>,
    ) -> Option<PathBuf> {
        let group = hierarchy.directory(group);
        let is_used = others.any(|other| hierarchy.directory(other).starts_with(&group));
        (self.made.contains(&group) && !is_used && !self.is_shared).then_some(group)
    }

    fn make(&mut self, root: &Path, group: &Path) -> io::Result<()> {
        let above: Vec<_> = group.ancestors().take_while(|path| *path != root).collect();
        for directory in above.into_iter().rev() {
            match fs::create_dir(directory) {
                Ok(()) => {
                    self.made.insert(directory.to_owned());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts to watch the counter of out-of-memory kills in the group of a process, and returns
    /// its path. Counters of version 1 are supported too.
    pub(crate) fn watch(&mut self, pid: u32) -> Option<PathBuf> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let counter = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let (mount, file) = match controllers {
                "" => (hierarchy::root()?, "memory.events"),
                "memory" => ("/sys/fs/cgroup/memory".into(), "memory.oom_control"),
                _ => return None,
            };
            let counter = mount.join(path.trim_matches('/')).join(file);
            counter.exists().then_some(counter)
        })?;
        self.caught_up(&counter);
        Some(counter)
    }

    /// Marks all kills that have been counted so far as reported.
    pub(crate) fn caught_up(&mut self, counter: &Path) {
        if let Some(count) = count(counter) {
            self.killed.insert(counter.to_owned(), count);
        }
    }

    /// Returns true once for each out-of-memory kill that was not reported yet.
    pub(crate) fn has_killed(&mut self, counter: &Path) -> bool {
        let (Some(count), Some(known)) = (count(counter), self.killed.get_mut(counter)) else {
            return false;
        };
        let is_new = count > *known;
        *known += u64::from(is_new);
        is_new
    }

    /// Removes unused groups that this process has created. The kernel refuses to remove the
    /// others.
    pub(crate) fn tidy(&mut self) {
        if self.is_shared {
            return;
        }
        // In reverse order of names: children before their parents.
        let made: Vec<_> = self.made.iter().rev().cloned().collect();
        for group in made {
            match fs::remove_dir(&group) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => {
                    self.made.remove(&group);
                    self.written.remove(&group);
                }
            }
        }
    }
}

/// File with the maximum memory of a group on disks.
pub(crate) const SWAP: &str = "memory.swap.max";

/// Returns the value that a file of a group has at first.
fn initial(file: &str) -> &'static str {
    match file {
        "cpu.weight" => "100",
        "io.weight" => "default 100",
        _ => "max",
    }
}

fn count(counter: &Path) -> Option<u64> {
    let text = fs::read_to_string(counter).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}
