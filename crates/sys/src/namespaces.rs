//! Namespaces, see namespaces(7): forks a process into new ones, and maps its users.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::process::{self, Forked, thread_count};
use crate::signals;

/// New namespaces of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces {
    /// User namespace: users, groups and capabilities.
    pub user: bool,
    /// Process namespace: the new process has id 1, and all others in it end with it.
    pub pid: bool,
    /// Network namespace: interfaces, addresses, ports.
    pub network: bool,
    /// Mount namespace.
    pub mount: bool,
    /// UTS namespace: host name.
    pub uts: bool,
}

/// Range of ids in a user namespace, and the ids outside that they are mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First id inside.
    pub inside: u32,
    /// First id outside.
    pub outside: u32,
    /// Number of ids.
    pub size: u32,
}

impl Range {
    /// Returns true if an id inside is mapped.
    pub fn contains(&self, inside: u32) -> bool {
        inside.checked_sub(self.inside).is_some_and(|offset| offset < self.size)
    }
}

/// Duplicates this process; the new one is in new namespaces. In a new user namespace it has all
/// capabilities and no user until [`map_users`] maps some.
///
/// # Panics
/// As [`fork`](crate::process::fork).
pub fn fork_into(namespaces: Namespaces) -> io::Result<Forked> {
    clone(namespaces, 0)
}

/// Duplicates this process like [`fork_into`], in the user namespace `user` from
/// [`make_user_namespace`].
///
/// Only a process itself can join a user namespace: an intermediate copy of this process joins and
/// forks again. The kernel makes the result a child of this process (`CLONE_PARENT`).
///
/// # Panics
/// As [`fork`](crate::process::fork).
pub fn fork_within(user: BorrowedFd<'_>, namespaces: Namespaces) -> io::Result<Forked> {
    let (answer, result) = pipe_with(PipeFlags::CLOEXEC)?;
    let between = match process::fork()? {
        Forked::Parent(between) => between,
        Forked::Child => {
            drop(answer);
            let cloned = join(user).and_then(|()| clone(namespaces, libc::CLONE_PARENT));
            let number = match cloned {
                Ok(Forked::Child) => return Ok(Forked::Child),
                Ok(Forked::Parent(pid)) => i64::from(pid),
                Err(error) => -i64::from(error.raw_os_error().unwrap_or(libc::EIO)),
            };
            let _ = rustix::io::write(&result, &number.to_ne_bytes());
            process::exit_now(0);
        }
    };
    drop(result);
    let mut number = [0; 8];
    let read = File::from(answer).read_exact(&mut number);
    wait_for(between);
    read?;
    match i64::from_ne_bytes(number) {
        pid if pid > 0 => Ok(Forked::Parent(u32::try_from(pid).map_err(io::Error::other)?)),
        error => Err(io::Error::from_raw_os_error(i32::try_from(-error).unwrap_or(libc::EIO))),
    }
}

/// Creates a user namespace with these maps for [`fork_within`], without privileges.
///
/// A process that is not root can write the maps only of a process that can be traced, and a copy
/// of this process must not be traced: it has the same memory and descriptors. Therefore another
/// program runs in the new namespace: the executable `becomes`, which must wait until its standard
/// input is closed, as [`wait_for_stdin_close`] does. `arguments` begin with its title.
///
/// # Panics
/// As [`fork`](crate::process::fork).
pub fn make_user_namespace(
    users: &[Range],
    groups: &[Range],
    becomes: BorrowedFd<'_>,
    arguments: &[&str],
) -> io::Result<OwnedFd> {
    let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
    let (failed, fails) = pipe_with(PipeFlags::CLOEXEC)?;
    let holder = match fork_into(Namespaces { user: true, ..Namespaces::default() })? {
        Forked::Parent(holder) => holder,
        Forked::Child => {
            signals::reset();
            process::close_on_exec_from(3);
            let nowhere = File::options().write(true).open("/dev/null");
            let started = nowhere
                .and_then(|file| process::set_standard_streams(file.as_fd(), file.as_fd()))
                .and_then(|()| process::duplicate_to(&wait, 0));
            let error = match started {
                Ok(()) => process::exec_file(becomes, arguments, &[]),
                Err(error) => error,
            };
            let code = error.raw_os_error().unwrap_or(libc::EIO);
            let _ = rustix::io::write(&fails, &code.to_ne_bytes());
            process::exit_now(127);
        }
    };
    drop((wait, fails));
    let made = (|| {
        let mut code = [0; 4];
        // Exec closes the other end.
        if rustix::io::retry_on_intr(|| rustix::io::read(&failed, &mut code))? > 0 {
            return Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code)));
        }
        map_users(holder, users, groups, false)?;
        Ok(File::open(format!("/proc/{holder}/ns/user"))?.into())
    })();
    drop(go);
    wait_for(holder);
    made
}

/// Waits until standard input is closed. This is all that the program of [`make_user_namespace`]
/// does.
pub fn wait_for_stdin_close() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

fn clone(namespaces: Namespaces, more: libc::c_int) -> io::Result<Forked> {
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
    .fold(libc::SIGCHLD | more, |flags, (_, flag)| flags | flag);
    // SAFETY: without CLONE_VM and with a null stack this is a fork: the child has a copy of all
    // memory, and there is one thread (checked above), so no lock is held by another one. `more` is
    // 0 or CLONE_PARENT, which changes only whose child it is.
    match unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid as u32)),
    }
}

fn join(user: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes integers, of which one is an open descriptor; the call changes credentials
    // only.
    match unsafe { libc::setns(user.as_raw_fd(), libc::CLONE_NEWUSER) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn wait_for(child: u32) {
    if let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) {
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    }
}

/// Moves this process into a new control group namespace whose root is its current group.
pub fn leave_control_groups() -> io::Result<()> {
    // SAFETY: takes an integer. Unlike CLONE_FILES and its like, this flag changes the content of
    // /proc/PID/cgroup and nothing that memory safety could rest on.
    match unsafe { libc::unshare(libc::CLONE_NEWCGROUP) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps the users and groups of a process in a new user namespace; possible only once. If this
/// process has no privileges, the kernel does not allow the other one to set supplementary groups.
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

/// Returns the text of uid_map and gid_map, see user_namespaces(7).
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
