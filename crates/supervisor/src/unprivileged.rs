//! Starts the unprivileged processes of this program: the router, and the control, mail, telemetry
//! and dashboard processes.
//!
//! Each is the same program, executed again with its own title. It drops its privileges itself
//! ([`assume_role`]), as the first step after the exec: an exec makes a process dumpable, and if it
//! already had the sites' user, a script could trace it for a moment. Until then it is root, which
//! no script can trace, and afterwards it is not dumpable.
//!
//! A server that was not started by root has one user for all processes. There, only the Landlock
//! domains separate applications.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use howdah_sys::credentials::Credentials;
use howdah_sys::log::Log;
use howdah_sys::{packet, process, signals};

use crate::options::Options;

/// Title (argument zero) of the router, by which the program recognises its role.
pub const ROUTER_TITLE: &str = "howdah: router";

/// Title of the control process.
pub const CONTROL_TITLE: &str = "howdah: control";

/// Title of the mail process.
pub const MAIL_TITLE: &str = "howdah: mail";

/// Title of the telemetry process.
pub const TELEMETRY_TITLE: &str = "howdah: telemetry";

/// Title of the dashboard process.
pub const DASHBOARD_TITLE: &str = "howdah: dashboard";

/// Title of the process that holds a new user namespace until an application has joined it.
pub const NAMESPACE_TITLE: &str = "howdah: namespace";

/// Environment variable that holds the role of a process.
const VARIABLE: &str = "HOWDAH_BECOMES";

/// The user of a process, and the parent with which it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Role {
    /// Process id of the supervisor.
    parent: u32,
    /// `None` if the user stays the same.
    user: Option<Ids>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Ids {
    /// Real, effective and saved user id.
    uid: u32,
    /// User id for file access.
    files: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// The unprivileged processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads the files of sites: has the sites' user for file access, and the server's own user
    /// otherwise.
    Router,
    /// Opens no files: has the server's own user.
    Control,
    /// Connects to mail servers: has the server's own user.
    Mail,
    /// Connects to the server of OpenTelemetry: has the server's own user.
    Telemetry,
    /// Serves the page of the server, and asks the router: has the server's own user.
    Dashboard,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Kind::Router => ROUTER_TITLE,
            Kind::Control => CONTROL_TITLE,
            Kind::Mail => MAIL_TITLE,
            Kind::Telemetry => TELEMETRY_TITLE,
            Kind::Dashboard => DASHBOARD_TITLE,
        }
    }

    fn ids(self, options: &Options) -> Option<Ids> {
        let user = options.user.as_ref()?;
        let own = options.private_user.unwrap_or(user.uid);
        let Credentials { uid, gid, groups, .. } = user.clone();
        Some(match self {
            Kind::Router => Ids { uid: own, files: uid, gid, groups },
            // The group with the same number, which need not exist.
            Kind::Control | Kind::Mail | Kind::Telemetry | Kind::Dashboard => {
                Ids { uid: own, files: own, gid: own, groups: Vec::new() }
            }
        })
    }
}

/// Starts a process. Returns its process id and the supervisor's end of its socket.
pub(crate) fn start(kind: Kind, options: &Options, log: &Log) -> io::Result<(u32, OwnedFd)> {
    let (ours, theirs) = packet::pair()?;
    let output = log.handle()?;
    let role = Role { parent: std::process::id(), user: kind.ids(options) };
    match process::fork()? {
        process::Forked::Parent(pid) => Ok((pid, ours)),
        process::Forked::Child => {
            let error = execute(kind, &role, &theirs, output.as_fd(), log.variables());
            eprintln!("howdah: cannot start {}: {error}", kind.title());
            process::exit_now(127);
        }
    }
}

fn execute(
    kind: Kind,
    role: &Role,
    socket: &OwnedFd,
    log: BorrowedFd<'_>,
    log_variables: Vec<(String, String)>,
) -> io::Error {
    let prepare = || -> io::Result<()> {
        signals::reset();
        process::close_on_exec_from(3);
        process::set_standard_streams(log, log)?;
        process::duplicate_to(socket, 3)?;
        rustix::process::setpgid(None, None)?;
        Ok(())
    };
    // The kernel's link instead of the program's path, which may lead through directories that the
    // process cannot enter later.
    match prepare() {
        Ok(()) => {
            let mut variables = vec![(VARIABLE.to_owned(), role.to_text())];
            variables.extend(log_variables);
            process::exec("/proc/self/exe", &[kind.title()], &variables)
        }
        Err(error) => error,
    }
}

/// Takes the role that the supervisor has given this process: another user, no capabilities and no
/// way to gain any, not dumpable, killed when the supervisor ends. Must be the first call in
/// `main`. Fails if the process was not started by a supervisor.
pub fn assume_role() -> io::Result<()> {
    let role = std::env::var(VARIABLE).ok().and_then(|text| Role::from_text(&text));
    let role =
        role.ok_or_else(|| io::Error::other("only the server itself can start this process"))?;
    process::drop_bounding_set();
    if let Some(Ids { uid, files, gid, groups }) = role.user {
        let (name, home) = (String::new(), String::new());
        Credentials { uid: files, gid, groups, name, home }.assume_for_files(uid)?;
    }
    process::drop_capabilities()?;
    process::no_new_privileges()?;
    process::deny_tracing()?;
    process::die_with_parent(Some(role.parent));
    Ok(())
}

impl Role {
    fn to_text(&self) -> String {
        let Some(Ids { uid, files, gid, groups }) = &self.user else {
            return self.parent.to_string();
        };
        let all = [self.parent, *uid, *files, *gid].into_iter().chain(groups.iter().copied());
        all.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
    }

    fn from_text(text: &str) -> Option<Role> {
        let numbers: Result<Vec<u32>, _> = text.split(' ').map(str::parse).collect();
        match *numbers.ok()? {
            [parent] => Some(Role { parent, user: None }),
            [parent, uid, files, gid, ref groups @ ..] => {
                Some(Role { parent, user: Some(Ids { uid, files, gid, groups: groups.to_vec() }) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_back_from_its_text() {
        let ids = Ids { uid: 65_533, files: 33, gid: 33, groups: vec![33, 4] };
        for user in [None, Some(Ids { groups: Vec::new(), ..ids.clone() }), Some(ids)] {
            let role = Role { parent: 7, user };
            assert_eq!(Role::from_text(&role.to_text()), Some(role));
        }
        for bad in ["", "x", "1 2", "1 2 3", "1 -2 3 4", "1  2 3 4"] {
            assert_eq!(Role::from_text(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_router_has_the_sites_user_for_files_alone() {
        let www = Credentials {
            uid: 33,
            gid: 33,
            groups: vec![33],
            name: "www-data".to_owned(),
            home: "/".to_owned(),
        };
        let options = Options { user: Some(www), private_user: Some(65_533), ..Options::default() };
        let router = Kind::Router.ids(&options).unwrap();
        assert_eq!((router.uid, router.files, router.gid), (65_533, 33, 33));
        let control = Kind::Control.ids(&options).unwrap();
        assert_eq!((control.uid, control.files, control.gid), (65_533, 65_533, 65_533));
        assert!(control.groups.is_empty());
        assert_eq!(Kind::Router.ids(&Options::default()), None);
    }
}
