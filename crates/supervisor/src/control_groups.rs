//! Control groups of applications (cgroup v2).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Control groups that this process has created. A group is removed when it has no processes.
#[derive(Debug, Default)]
pub(crate) struct ControlGroups {
    made: BTreeSet<PathBuf>,
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

    /// Moves a process into a group; creates the group if it does not exist, and writes `settings`
    /// to its files.
    pub(crate) fn put(
        &mut self,
        group: &str,
        settings: &[(String, String)],
        pid: u32,
    ) -> io::Result<()> {
        let root = root().ok_or_else(|| {
            io::Error::other("there is no control group file system of version 2 here")
        })?;
        let group = directory(&root, &fs::read_to_string("/proc/self/cgroup")?, group);
        self.make(&root, &group)?;
        for (file, value) in settings {
            set(&root, &group, file, value)?;
        }
        fs::write(group.join("cgroup.procs"), pid.to_string())
    }

    /// Kills all processes in a group that this process has created, unless one of the `others` is
    /// that group or below it. The kernel kills them at once, so that none can escape by forking.
    /// No effect before Linux 5.14.
    pub(crate) fn kill<'a>(&self, group: &str, others: impl Iterator<Item = &'a str>) {
        let Some(root) = root() else { return };
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        if let Some(group) = self.unused(&root, &own, group, others) {
            let _ = fs::write(group.join("cgroup.kill"), "1");
        }
    }

    /// Returns the directory of a group if this process has created it and no other application
    /// uses it.
    fn unused<'a>(
        &self,
        root: &Path,
        own: &str,
        group: &str,
        mut others: impl Iterator<Item = &'a str>,
    ) -> Option<PathBuf> {
        let group = directory(root, own, group);
        let is_used = others.any(|other| directory(root, own, other).starts_with(&group));
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
                "" => (root()?, "memory.events"),
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
                }
            }
        }
    }
}

/// Writes to a file of a group. Its controller is turned on in the groups above, where it is off
/// and they allow it.
fn set(root: &Path, group: &Path, file: &str, value: &str) -> io::Result<()> {
    let controller = file.split('.').next().unwrap_or_default();
    if !group.join(file).exists() {
        let above: Vec<_> =
            group.ancestors().skip(1).take_while(|at| at.starts_with(root)).collect();
        for directory in above.into_iter().rev() {
            let _ = fs::write(directory.join("cgroup.subtree_control"), format!("+{controller}"));
        }
    }
    fs::write(group.join(file), value).map_err(|error| {
        let parent = group.parent().unwrap_or(root).join("cgroup.subtree_control");
        io::Error::other(format!(
            "{file} cannot be set ({error}); turn the controller on: echo +{controller} > {}",
            parent.display()
        ))
    })
}

fn count(counter: &Path) -> Option<u64> {
    let text = fs::read_to_string(counter).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Returns the mount point of the cgroup2 file system, also beside file systems of version 1.
fn root() -> Option<PathBuf> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .map(PathBuf::from)
        .into_iter()
        .find(|root| root.join("cgroup.controllers").exists())
}

/// Returns the directory of a group: below that of this process (`own` is its /proc/self/cgroup),
/// or below the root if its name begins with a slash.
fn directory(root: &Path, own: &str, group: &str) -> PathBuf {
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let base = if group.starts_with('/') { "" } else { own.trim_matches('/') };
    root.join(base).join(group.trim_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lies_below_ones_own_unless_it_begins_with_a_slash() {
        let own = "4:memory:/other\n0::/system.slice/howdah.service\n";
        let at = |group| directory(Path::new("/sys/fs/cgroup"), own, group);
        let below = "/sys/fs/cgroup/system.slice/howdah.service/sites/blog";
        assert_eq!(at("sites/blog"), Path::new(below));
        assert_eq!(at("/sites/blog/"), Path::new("/sys/fs/cgroup/sites/blog"));
        let at = |own| directory(Path::new("/cg"), own, "a");
        assert_eq!((at("0::/\n"), at("")), (PathBuf::from("/cg/a"), PathBuf::from("/cg/a")));
    }

    #[test]
    fn a_group_that_others_use_is_not_killed() {
        let (root, own) = (Path::new("/cg"), "0::/a\n");
        let made = ["/cg/a", "/cg/a/b"].map(PathBuf::from).into();
        let groups = ControlGroups { made, ..ControlGroups::default() };
        let unused = |group, others: &[&str]| {
            groups.unused(root, own, group, others.iter().copied()).is_some()
        };
        assert!(unused("b", &[]) && unused("b", &["", "c", "/a", "bc"]));
        assert!(!unused("b", &["b"]) && !unused("b", &["/a/b"]) && !unused("b", &["b/c"]));
        assert!(!unused("/x", &[]) && !unused("b/c", &[]), "they were not made here");
    }

    #[test]
    fn a_group_that_another_server_uses_too_is_neither_killed_nor_removed() {
        let root = tempfile::tempdir().unwrap();
        let mut old = ControlGroups::default();
        old.make(root.path(), &root.path().join("a")).unwrap();
        old.share(true);
        old.tidy();
        assert!(root.path().join("a").exists());
        assert_eq!(old.unused(root.path(), "0::/\n", "a", [].into_iter()), None);
        let mut new = ControlGroups::default();
        new.adopt(&old.names());
        assert!(new.unused(root.path(), "0::/\n", "a", [].into_iter()).is_some());
        new.tidy();
        assert!(!root.path().join("a").exists());
    }

    #[test]
    fn each_death_for_want_of_memory_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let counter = directory.path().join("memory.events");
        let set = |count| {
            let text = format!("low 0\noom 9\noom_kill {count}\noom_group_kill 0\n");
            fs::write(&counter, text).unwrap();
        };
        let mut groups = ControlGroups::default();
        set(3);
        assert!(!groups.has_killed(&counter), "nobody watches it");
        groups.caught_up(&counter);
        assert!(!groups.has_killed(&counter));
        set(5);
        assert_eq!([(); 3].map(|()| groups.has_killed(&counter)), [true, true, false]);
        set(6);
        groups.caught_up(&counter);
        assert!(!groups.has_killed(&counter), "that was somebody else");
        fs::remove_file(&counter).unwrap();
        assert!(!groups.has_killed(&counter));
    }

    #[test]
    fn a_weight_is_written_or_the_way_to_turn_it_on_is_told() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("sites/a");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpu.weight"), "100").unwrap();
        set(root.path(), &group, "cpu.weight", "300").unwrap();
        assert_eq!(fs::read_to_string(group.join("cpu.weight")).unwrap(), "300");
        assert!(!root.path().join("cgroup.subtree_control").exists(), "it was on");
        fs::create_dir(group.join("io.weight")).unwrap();
        let problem = set(root.path(), &group, "io.weight", "50").unwrap_err().to_string();
        let way = format!("echo +io > {}/sites/cgroup.subtree_control", root.path().display());
        assert!(problem.contains(&way), "{problem}");
    }

    /// In the kernel's own hierarchy, with a controller that is off and that no other hierarchy
    /// has.
    #[test]
    fn a_controller_is_turned_on_in_the_groups_above() {
        if !howdah_requirements::root() {
            return;
        }
        let Some(root) = root() else {
            return howdah_requirements::skipped("there are no control groups of version 2");
        };
        let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
        let (there, on) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
        let has = |list: &str, name: &str| list.split_whitespace().any(|one| one == name);
        let known = [
            ("cpu", "cpu.weight", "300"),
            ("io", "io.weight", "300"),
            ("pids", "pids.max", "300"),
            ("hugetlb", "hugetlb.2MB.max", "4194304"),
        ];
        let is_off = |name: &str| has(&there, name) && !has(&on, name);
        let Some((controller, file, value)) = known.into_iter().find(|one| is_off(one.0)) else {
            return howdah_requirements::skipped("there is no controller that is off");
        };
        let top = root.join(format!("howdah-test-controller-{}", std::process::id()));
        let group = top.join("sites/a");
        if let Err(error) = fs::create_dir_all(&group) {
            return howdah_requirements::skipped(format!("no control group can be made: {error}"));
        }
        let result = set(&root, &group, file, value);
        let found = fs::read_to_string(group.join(file));
        for directory in [&group, &top.join("sites"), &top] {
            fs::remove_dir(directory).unwrap();
        }
        let off = format!("-{controller}");
        let _ = fs::write(root.join("cgroup.subtree_control"), off);
        result.unwrap();
        let found = found.unwrap();
        assert!(found.split_whitespace().any(|word| word == value), "{file}: {found}");
    }

    #[test]
    fn only_groups_that_were_made_here_are_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("theirs")).unwrap();
        let mut groups = ControlGroups::default();
        groups.make(root.path(), &root.path().join("theirs/ours/inner")).unwrap();
        groups.make(root.path(), &root.path().join("theirs/ours/other")).unwrap();
        fs::create_dir(root.path().join("theirs/ours/other/used")).unwrap();
        groups.tidy();
        assert!(root.path().join("theirs/ours/other").exists(), "it is still used");
        assert!(!root.path().join("theirs/ours/inner").exists());
        fs::remove_dir(root.path().join("theirs/ours/other/used")).unwrap();
        groups.tidy();
        assert!(!root.path().join("theirs/ours").exists() && root.path().join("theirs").exists());
    }
}
