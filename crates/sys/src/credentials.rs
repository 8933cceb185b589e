//! Users and groups: look-up, and change of a process's user.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::CapabilitySet;

use crate::process::{self, Forked};
use crate::users;

/// A user to run as, with all facts that are needed before privileges are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// User name.
    pub name: String,
    /// Home directory.
    pub home: String,
}

/// Error: a user or group does not exist, or that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// No such user.
    User(String),
    /// No such group.
    Group(String),
    /// The source of users and groups, such as a directory service, does not answer; the reason.
    Unanswered(String),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::User(name) => write!(
                f,
                "there is no user \"{name}\" on this system; correct the name, or make the user \
                 (useradd --system)"
            ),
            Unknown::Group(name) => write!(
                f,
                "there is no group \"{name}\" on this system; correct the name, or make the group \
                 (groupadd --system)"
            ),
            Unknown::Unanswered(reason) => {
                write!(
                    f,
                    "it cannot be looked up: {reason}; see to the source of users \
                     (/etc/nsswitch.conf)"
                )
            }
        }
    }
}

impl std::error::Error for Unknown {}

impl Credentials {
    /// Looks up a user; `group` replaces the primary group.
    pub fn look_up(user: &str, group: Option<&str>) -> Result<Self, Unknown> {
        let unanswered = |error: std::io::Error| Unknown::Unanswered(error.to_string());
        let entry = users::by_name(user).map_err(unanswered)?;
        let entry = entry.ok_or_else(|| Unknown::User(user.to_owned()))?;
        let gid = match group {
            None => entry.gid,
            Some(group) => {
                let found = users::group_id(group).map_err(unanswered)?;
                found.ok_or_else(|| Unknown::Group(group.to_owned()))?
            }
        };
        let groups = users::groups(&entry.name, gid);
        Ok(Credentials { uid: entry.uid, gid, groups, name: entry.name, home: entry.home })
    }

    /// Returns the id of a user; `None` if there is none of this name. Error: the source of users
    /// does not answer.
    pub fn uid_of(name: &str) -> io::Result<Option<u32>> {
        Ok(users::by_name(name)?.map(|entry| entry.uid))
    }

    /// Returns the id of a group; `None` if there is none of this name. Error: the source of groups
    /// does not answer.
    pub fn gid_of(name: &str) -> io::Result<Option<u32>> {
        users::group_id(name)
    }

    /// Returns the name of a user; `None` if there is none with this id.
    pub fn name_of(uid: u32) -> Option<String> {
        users::by_uid(uid).map(|entry| entry.name)
    }

    /// Returns the user that this process runs as.
    pub fn current() -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        match users::by_uid(uid) {
            Some(entry) => {
                let groups = users::groups(&entry.name, gid);
                Credentials { uid, gid, groups, name: entry.name, home: entry.home }
            }
            None => Credentials {
                uid,
                gid,
                groups: vec![gid],
                name: uid.to_string(),
                home: "/".to_owned(),
            },
        }
    }

    /// Returns the user whose rights this process has to files.
    pub fn of_files() -> Self {
        let current = Credentials::current();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        // The real, effective and saved id, and that for files (proc_pid_status(5)).
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let id = |name: &str| field(name)?.split_whitespace().nth(3)?.parse().ok();
        let (Some(uid), Some(gid)) = (id("Uid:"), id("Gid:")) else { return current };
        let groups = field("Groups:").unwrap_or_default().split_whitespace();
        let groups = groups.filter_map(|group| group.parse().ok()).collect();
        let name = users::by_uid(uid).map_or_else(|| uid.to_string(), |entry| entry.name);
        Credentials { uid, gid, groups, name, home: current.home }
    }

    /// Changes the process to this user, irrevocably. The process must have one thread.
    pub fn assume(&self) -> std::io::Result<()> {
        users::set_groups(&self.groups)?;
        self.assume_without_groups()
    }

    /// Changes the process to this user, irrevocably, and keeps its supplementary groups: in a user
    /// namespace that was created without privileges, they cannot be set.
    pub fn assume_without_groups(&self) -> std::io::Result<()> {
        users::set_ids(self.uid, self.gid)
    }

    /// Changes the process to this user for file access, and otherwise to the user `own`,
    /// irrevocably. Other processes of this user can neither signal nor trace this process: the
    /// kernel compares real, effective and saved user ids. The process must have one thread and the
    /// right to change users, and loses all capabilities.
    pub fn assume_for_files(&self, own: u32) -> std::io::Result<()> {
        users::set_groups(&self.groups)?;
        rustix::thread::set_keep_capabilities(true)?;
        users::set_ids(own, self.gid)?;
        process::keep_capability(CapabilitySet::SETUID)?;
        users::set_file_user(self.uid)?;
        process::drop_capabilities()
    }
}

/// Changes the process to the user and the group `own` without other groups (`None`: they stay),
/// and drops all capabilities but those that it takes to become the user of an application and to
/// set its resource limits. It cannot gain further ones.
pub fn keep_rights_to_change_user(own: Option<u32>) -> io::Result<()> {
    if let Some(own) = own {
        rustix::thread::set_keep_capabilities(true)?;
        users::set_groups(&[])?;
        users::set_ids(own, own)?;
    }
    let kept = CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::SETPCAP
        | CapabilitySet::SYS_RESOURCE;
    process::keep_capability(kept & rustix::thread::capabilities(None)?.permitted)?;
    process::no_new_privileges()
}

/// Returns a user id for the server alone: that of the user `howdah` if it exists, otherwise the
/// highest id below 65534 that no user of the system has. `None` if this process cannot assume this
/// id (a user namespace that maps few ids).
pub fn private_user() -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_mapped = |id: u32| {
        map.lines().any(|line| {
            let mut fields = line.split_ascii_whitespace().map(str::parse::<u64>);
            let (Some(Ok(first)), _, Some(Ok(size))) =
                (fields.next(), fields.next(), fields.next())
            else {
                return false;
            };
            (first..first.saturating_add(size)).contains(&u64::from(id))
        })
    };
    let named =
        users::by_name(PRIVATE_USER).ok().flatten().map(|entry| entry.uid).filter(|uid| *uid != 0);
    let mut unnamed = (FIRST_UNNAMED..=LAST_UNNAMED).rev();
    let unnamed = || unnamed.find(|id| is_mapped(*id) && users::by_uid(*id).is_none());
    named.filter(|id| is_mapped(*id)).or_else(unnamed)
}

/// Name of the user that packages create for the server.
const PRIVATE_USER: &str = "howdah";

/// Range of ids that [`private_user`] tries. 65534 is `nobody`, 65535 is reserved; systemd's
/// dynamic users have ids below the range.
const FIRST_UNNAMED: u32 = 65_520;
const LAST_UNNAMED: u32 = 65_533;

/// Runs `ask` in a process of this user, or in this process if `user` is `None`, and returns its
/// result. Only the kernel knows all permissions of a user (access control lists, read-only file
/// systems). The caller must have one thread.
pub fn run_as(user: Option<&Credentials>, ask: impl FnOnce() -> String) -> io::Result<String> {
    let Some(user) = user else { return Ok(ask()) };
    let (answer, question) = pipe_with(PipeFlags::CLOEXEC)?;
    let pid = match process::fork()? {
        Forked::Parent(pid) => pid,
        Forked::Child => {
            drop(answer);
            let answered =
                user.assume().and_then(|()| File::from(question).write_all(ask().as_bytes()));
            process::exit_now(i32::from(answered.is_err()));
        }
    };
    drop(question);
    let mut text = String::new();
    let read = File::from(answer).read_to_string(&mut text);
    match process::wait_for(pid) {
        Some(process::Exit::Status(0)) => read.map(|_| text),
        _ => Err(io::Error::other(format!("cannot become the user \"{}\"", user.name))),
    }
}

/// Returns true if this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_with_its_home() {
        let root = Credentials::look_up("root", None).unwrap();
        assert_eq!((root.uid, root.gid, root.home.as_str()), (0, 0, "/root"));
    }

    #[test]
    fn an_unknown_user_is_named() {
        let error = Credentials::look_up("no-such-user", None).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("there is no user \"no-such-user\" on this system; "), "{text}");
    }

    #[test]
    fn an_unknown_group_is_named() {
        let error = Credentials::look_up("root", Some("no-such-group")).unwrap_err();
        assert_eq!(error, Unknown::Group("no-such-group".to_owned()));
    }
}
