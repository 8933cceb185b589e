//! The required outcome of each attempt.

use std::fs;

use crate::attacker::Attempt;

/// The outcome that an attempt must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The kernel or the server refuses it.
    Refused,
    /// The attempt may succeed, as it has no effect on others.
    Allowed(&'static str),
    /// This kernel cannot refuse it.
    Skipped(String),
}

/// The facts on which outcomes depend, beside the attempt.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// Version of Landlock that the kernel has; 0 if it has none.
    pub landlock: u32,
    /// The attacker's user id.
    pub uid: u32,
    /// Everything that the server has belongs to that user.
    pub everything_is_one_users: bool,
    /// The other site has the same user.
    pub sites_share_user: bool,
    /// The attacker has a process namespace of its own.
    pub has_own_processes: bool,
    /// Landlock keeps it from files of others.
    pub is_sandboxed: bool,
}

/// The version of Landlock that keeps signals and abstract sockets within a domain.
pub const LANDLOCK_SCOPES: u32 = 6;

impl Circumstances {
    /// The required outcome of an attempt. `user` tells the real and saved user id of a target's
    /// process.
    pub fn wanted(&self, attempt: &Attempt, user: impl Fn(&str) -> Option<[u32; 2]>) -> Wanted {
        let own_prototype = attempt.target == "own prototype";
        let own_worker = matches!(attempt.target.as_str(), "own worker" | "own sibling");
        match attempt.kind.as_str() {
            "inspect" if attempt.attempt.contains("TLS key") => Wanted::Refused,
            "end" | "own" => Wanted::Allowed("its own application"),
            "self" => Wanted::Allowed("its own process"),
            // A prototype speaks with the supervisor: a process that has its descriptors or its
            // memory is taken for it. It may be killed, which costs the application.
            "inspect" if own_prototype => Wanted::Refused,
            _ if own_worker || own_prototype => Wanted::Allowed("its own application"),
            "see" if self.has_own_processes => Wanted::Refused,
            "see" => Wanted::Allowed("it tells little"),
            "file" if self.is_sandboxed => match attempt.attempt.as_str() {
                "chmod" | "chown" | "inotify_add_watch" | "fanotify_mark" => {
                    Wanted::Allowed("Landlock has no say in it")
                }
                _ => Wanted::Refused,
            },
            "file" | "socket" | "tcp" if self.everything_is_one_users => {
                Wanted::Allowed("one user for everything")
            }
            "priority" | "change"
                if user(&attempt.target).is_some_and(|ids| ids.contains(&self.uid)) =>
            {
                Wanted::Allowed("one user for both: it costs time, not what is kept from others")
            }
            "ipc" if self.sites_share_user => Wanted::Allowed("one user for both sites"),
            "signal" | "life" if self.landlock < LANDLOCK_SCOPES => match user(&attempt.target) {
                Some(users) if users.contains(&self.uid) => Wanted::Skipped(format!(
                    "Landlock of version {} lets processes of one user signal each other",
                    self.landlock
                )),
                _ => Wanted::Refused,
            },
            _ => Wanted::Refused,
        }
    }

    /// Describes the problem of an outcome.
    pub fn problem(&self, attempt: &Attempt, wanted: &Wanted) -> Option<String> {
        if *wanted != Wanted::Refused {
            return None;
        }
        // In a process namespace of its own, there are no other processes. The control process and
        // the mail process end by themselves.
        let ends = matches!(attempt.target.as_str(), "control" | "mail");
        let may_be_gone = self.has_own_processes || ends;
        if attempt.found_nobody() && !may_be_gone {
            return Some(format!("{} (nobody was left)", attempt.attempt));
        }
        let Attempt { attempt: name, outcome, .. } = attempt;
        let detail = outcome.strip_prefix("SUCCEEDED: ").map(|detail| format!(" ({detail:.60})"));
        attempt.has_succeeded().then(|| name.clone() + &detail.unwrap_or_default())
    }
}

/// Real and saved user id of a process.
pub fn users_of(pid: u32) -> Option<[u32; 2]> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut ids = ids.split_whitespace().map_while(|id| id.parse().ok());
    let (real, saved) = (ids.next()?, ids.nth(1)?);
    Some([real, saved])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circumstances() -> Circumstances {
        Circumstances {
            landlock: 7,
            uid: 33,
            everything_is_one_users: false,
            sites_share_user: true,
            has_own_processes: false,
            is_sandboxed: false,
        }
    }

    fn attempt(kind: &str, target: &str, outcome: &str) -> Attempt {
        Attempt {
            kind: kind.to_owned(),
            attempt: "kill 0".to_owned(),
            target: target.to_owned(),
            outcome: outcome.to_owned(),
        }
    }

    fn problem(circumstances: &Circumstances, attempt: &Attempt) -> Option<String> {
        let wanted = circumstances.wanted(attempt, |_| Some([33, 33]));
        circumstances.problem(attempt, &wanted)
    }

    #[test]
    fn what_reaches_others_is_a_problem_and_what_stays_inside_is_none() {
        let now = circumstances();
        let reaches = |kind, target| problem(&now, &attempt(kind, target, "SUCCEEDED")).is_some();
        assert!(reaches("signal", "router") && reaches("inspect", "own prototype"));
        assert!(!reaches("signal", "own prototype") && !reaches("inspect", "own worker"));
        assert_eq!(problem(&now, &attempt("signal", "router", "refused EPERM")), None);
        assert!(problem(&now, &attempt("signal", "router", "refused ESRCH")).is_some());
    }

    #[test]
    fn signals_within_a_user_are_skipped_only_where_the_kernel_cannot_refuse_them() {
        let old = Circumstances { landlock: 5, ..circumstances() };
        let tried = attempt("signal", "other worker", "SUCCEEDED");
        assert!(problem(&circumstances(), &tried).is_some());
        assert_eq!(problem(&old, &tried), None);
        let wanted = old.wanted(&tried, |_| Some([0, 0]));
        assert_eq!(wanted, Wanted::Refused, "another user's process");
    }
}
