//! Namespaces, see namespaces(7): forking a process into new ones, and mapping its users.

use std::io;

use crate::process::{Forked, thread_count};

/// Which namespaces a new process has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces {
    /// Users, groups and capabilities.
    pub user: bool,
    /// Processes: the new one is number 1, and all in it end when it does.
    pub pid: bool,
    /// Interfaces, addresses, ports.
    pub network: bool,
    /// Mounts.
    pub mount: bool,
    /// Host name.
    pub uts: bool,
}

/// Ids inside a user namespace and those outside that they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first id inside.
    pub inside: u32,
    /// The first id outside.
    pub outside: u32,
    /// How many there are.
    pub size: u32,
}

impl Range {
    /// Whether an id inside has one outside.
    pub fn contains(&self, inside: u32) -> bool {
        inside.checked_sub(self.inside).is_some_and(|offset| offset < self.size)
    }
}

/// Duplicates this process; the new one is in namespaces of its own. In a new user namespace it
/// has all capabilities and no user until [`map_users`] gives it some.
///
/// # Panics
/// As [`fork`](crate::process::fork).
pub fn fork_into(namespaces: Namespaces) -> io::Result<Forked> {
    assert_eq!(thread_count(), 1, "fork of a process with several threads");
    let flags: libc::c_int = [
        (namespaces.user, libc::CLONE_NEWUSER),
        (namespaces.pid, libc::CLONE_NEWPID),
        (namespaces.network, libc::CLONE_NEWNET),
        (namespaces.mount, libc::CLONE_NEWNS),
        (namespaces.uts, libc::CLONE_NEWUTS),
    ]
    .iter()
    .filter(|(wanted, _)| *wanted)
    .fold(libc::SIGCHLD, |flags, (_, flag)| flags | flag);
    // SAFETY: without CLONE_VM and with a null stack this is a fork: the child has a copy of all
    // memory, and there is one thread (checked above), so no lock is held by another one.
    match unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid as u32)),
    }
}

/// Gives this process a control group namespace whose root is the group that it is in.
pub fn leave_control_groups() -> io::Result<()> {
    // SAFETY: takes an integer. Unlike CLONE_FILES and its like, this flag changes what
    // /proc/PID/cgroup shows and nothing that memory safety could rest on.
    match unsafe { libc::unshare(libc::CLONE_NEWCGROUP) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps the users and groups of a process in a new user namespace, once and for all. Without
/// privileges here it can set no supplementary groups then; the kernel demands it.
pub fn map_users(pid: u32, users: &[Range], groups: &[Range], privileged: bool) -> io::Result<()> {
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/{pid}/{file}"), text)
            .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))
    };
    if !privileged {
        write("setgroups", "deny".to_owned())?;
    }
    write("uid_map", lines(users))?;
    write("gid_map", lines(groups))
}

/// The text of uid_map and gid_map, see user_namespaces(7).
fn lines(ranges: &[Range]) -> String {
    ranges.iter().map(|r| format!("{} {} {}\n", r.inside, r.outside, r.size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_what_lies_in_it_and_does_not_wrap() {
        let range = Range { inside: 10, outside: 1000, size: 2 };
        assert!(!range.contains(9) && range.contains(10) && range.contains(11));
        assert!(!range.contains(12));
        let last = Range { inside: u32::MAX, outside: 0, size: 1 };
        assert!(last.contains(u32::MAX) && !last.contains(0));
    }

    #[test]
    fn a_map_has_a_line_for_each_range() {
        let range = |inside, outside, size| Range { inside, outside, size };
        assert_eq!(lines(&[range(0, 1000, 1), range(1, 2000, 10)]), "0 1000 1\n1 2000 10\n");
    }
}
