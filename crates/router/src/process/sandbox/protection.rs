//! Describes the isolation of the server's processes from each other, for `/status` and `howdah
//! check`.

use howdah_config::{Application, Config, Sandbox};
use howdah_questions::ProcessProtection as ProtectionStatus;
use howdah_sys::credentials::{self, Credentials};
use howdah_sys::process;
use howdah_sys::sandbox::landlock;

/// Isolation of the server's processes from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protection {
    /// Landlock ABI version of the kernel; 0 without Landlock.
    pub landlock: u32,
    /// The server was started by root.
    pub by_root: bool,
    /// Isolation of the router.
    pub router: ProcessProtection,
}

/// Isolation of one process from the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessProtection {
    /// User name; `None` for an application without a configured user.
    pub user: Option<String>,
    /// Restrictions in force.
    pub restrictions: Vec<Restriction>,
    /// Namespaces by their names in the configuration.
    pub namespaces: Vec<&'static str>,
}

/// A restriction of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restriction {
    /// No system calls that the process does not need.
    SystemCalls,
    /// No tracing of other processes.
    Tracing,
    /// No signals to other processes.
    Signals,
    /// No files that the process does not need.
    Files,
    /// A root directory of its own.
    Root,
    /// No binding of TCP sockets.
    Bind,
    /// No privileges through executed files.
    NewPrivileges,
}

impl Restriction {
    /// Returns the name in `/status`.
    pub fn name(self) -> &'static str {
        match self {
            Restriction::SystemCalls => "system_calls",
            Restriction::Tracing => "tracing",
            Restriction::Signals => "signals",
            Restriction::Files => "files",
            Restriction::Root => "root",
            Restriction::Bind => "bind",
            Restriction::NewPrivileges => "new_privileges",
        }
    }

    fn explain(self) -> &'static str {
        match self {
            Restriction::SystemCalls => "make system calls that it does not need",
            Restriction::Tracing => "trace other processes",
            Restriction::Signals => "send signals to other processes",
            Restriction::Files => "use files that it does not need",
            Restriction::Root => "use files outside of its root",
            Restriction::Bind => "listen on TCP sockets",
            Restriction::NewPrivileges => "gain privileges",
        }
    }
}

impl Protection {
    /// Reads the isolation of this router process before it restricts itself.
    pub(super) fn at_start() -> Protection {
        let mut router = ProcessProtection {
            user: Some(Credentials::current().name),
            ..ProcessProtection::default()
        };
        if process::has_no_new_privileges(std::process::id()) {
            router.restrictions.push(Restriction::NewPrivileges);
        }
        let supervisor = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
        let by_root = supervisor.is_some_and(process::runs_as_root);
        Protection { landlock: landlock::version(), by_root, router }
    }

    /// Returns the isolation that a server started by this process would have.
    pub fn of_machine() -> Protection {
        Protection {
            landlock: landlock::version(),
            by_root: credentials::is_root(),
            router: ProcessProtection::default(),
        }
    }

    /// Returns the isolation of an application.
    pub fn of(&self, application: &Application) -> ProcessProtection {
        let isolation = &application.isolation;
        let names = isolation.namespaces;
        let namespaces = [
            (names.credential, "credential"),
            (names.pid, "pid"),
            (names.network, "network"),
            (names.mount || isolation.rootfs.is_some(), "mount"),
            (names.uname, "uname"),
            (names.cgroup, "cgroup"),
        ];
        let new_privileges = isolation.new_privs.unwrap_or(false);
        let can_restrict_itself = !new_privileges || self.by_root || names.credential;
        let has_domain = can_restrict_itself
            && isolation.sandbox != Sandbox::Off
            && self.landlock >= landlock::FILES;
        let restrictions = [
            (has_domain, Restriction::Tracing),
            (has_domain && self.landlock >= landlock::SIGNALS, Restriction::Signals),
            (has_domain && matches!(isolation.sandbox, Sandbox::Files(_)), Restriction::Files),
            (isolation.rootfs.is_some(), Restriction::Root),
            (!new_privileges, Restriction::NewPrivileges),
        ];
        ProcessProtection {
            user: application.user.clone(),
            restrictions: selected(restrictions),
            namespaces: selected(namespaces),
        }
    }

    /// Explains the isolation: a line for the router, if it runs, and one for all applications that
    /// have the same.
    pub fn explain(&self, config: &Config) -> Vec<String> {
        let router = self.router.user.iter().map(|user| {
            let own = if user.parse::<u32>().is_ok() { ", an id of its own," } else { "" };
            format!("the router runs as \"{user}\"{own} and {}", self.router.explain())
        });
        let mut lines: Vec<_> = router.collect();
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for application in &config.applications {
            let explained = self.of(application).explain();
            match groups.iter_mut().find(|(known, _)| *known == explained) {
                Some((_, names)) => names.push(&application.name),
                None => groups.push((explained, vec![&application.name])),
            }
        }
        lines.extend(groups.into_iter().map(|(explained, names)| match names.as_slice() {
            [one] => format!("application \"{one}\" {explained}"),
            many => {
                let shown = many.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join("\", \"");
                let more = match many.len().saturating_sub(MAX_NAMES) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("applications \"{shown}\"{more} {explained}")
            }
        }));
        lines
    }
}

impl ProcessProtection {
    /// Returns the isolation as the control API shows it.
    pub(in crate::process) fn status(self) -> ProtectionStatus {
        ProtectionStatus {
            restrictions: self.restrictions.into_iter().map(|one| one.name().into()).collect(),
            namespaces: self.namespaces.into_iter().map(Into::into).collect(),
            user: self.user,
        }
    }

    /// Explains the isolation in words that follow the name of the process.
    fn explain(&self) -> String {
        let kept: Vec<_> = self.restrictions.iter().map(|one| one.explain()).collect();
        let kept = match kept.as_slice() {
            [] => "has all rights of its user".to_owned(),
            kept => format!("cannot {}", kept.join(", ")),
        };
        match self.namespaces.as_slice() {
            [] => kept,
            own => format!("{kept}; namespaces of its own: {}", own.join(", ")),
        }
    }
}

/// Returns the values whose condition is true.
fn selected<T, const N: usize>(all: [(bool, T); N]) -> Vec<T> {
    all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, one)| one).collect()
}

/// Maximum number of applications that a line names.
const MAX_NAMES: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explained(isolation: serde_json::Value, landlock: u32, by_root: bool) -> String {
        let application = json!({"type": "php", "root": "/", "isolation": isolation});
        let config = Config::from_value(json!({"applications": {"a": application}})).unwrap();
        let protection = Protection { landlock, by_root, ..Protection::default() };
        protection.of(&config.applications[0]).explain()
    }

    #[test]
    fn an_application_has_what_kernel_document_and_user_allow() {
        let no_files =
            "cannot trace other processes, send signals to other processes, gain privileges";
        assert_eq!(explained(json!({}), 6, false), no_files);
        assert_eq!(explained(json!({}), 5, true), "cannot trace other processes, gain privileges");
        assert_eq!(explained(json!({}), 1, true), "cannot gain privileges");
        let files =
            "cannot trace other processes, use files that it does not need, gain privileges";
        assert_eq!(explained(json!({"sandbox": true}), 2, false), files);
        assert_eq!(explained(json!({"sandbox": true}), 0, false), "cannot gain privileges");
        assert_eq!(explained(json!({"sandbox": false}), 7, true), "cannot gain privileges");
        let privileged = json!({"new_privs": true});
        assert_eq!(
            explained(privileged.clone(), 7, true),
            "cannot trace other processes, send signals to other processes"
        );
        assert_eq!(explained(privileged, 7, false), "has all rights of its user");
        let own = json!({"new_privs": true, "namespaces": {"credential": true, "pid": true}});
        let expected = "cannot trace other processes, send signals to other processes; namespaces \
             of its own: credential, pid";
        assert_eq!(explained(own, 7, false), expected);
    }

    #[test]
    fn applications_that_are_alike_share_a_line() {
        let app = |isolation| json!({"type": "php", "root": "/", "isolation": isolation});
        let config = Config::from_value(json!({"applications": {
            "a": app(json!({})), "b": app(json!({"sandbox": true})), "c": app(json!({})),
        }}));
        let protection = Protection { landlock: 7, ..Protection::default() };
        let lines = protection.explain(&config.unwrap());
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("applications \"a\", \"c\" cannot trace"), "{lines:?}");
        assert!(lines[1].starts_with("application \"b\" cannot "), "{lines:?}");
        let many: serde_json::Map<_, _> =
            (0..10).map(|n| (n.to_string(), app(json!({})))).collect();
        let lines = protection.explain(&Config::from_value(json!({"applications": many})).unwrap());
        assert!(lines[0].contains(", \"7\" and 2 more cannot"), "{lines:?}");
    }
}
