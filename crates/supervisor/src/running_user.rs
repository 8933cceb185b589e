//! The user of an application's processes, compared with the users that there are now. One that was
//! deleted or has another id is of no consequence for processes that run, and prevents the next
//! start, or makes it another user's.

use std::collections::BTreeSet;
use std::fmt;

use howdah_sys::credentials::{Credentials, Unknown};
use howdah_wire::messages::ApplicationSpec;

use crate::identity::Identity;
use crate::options::Options;

/// The user that the processes of an application run as, and the specification that names it.
#[derive(Debug, Clone)]
pub(crate) struct RunningUser {
    spec: ApplicationSpec,
    uid: u32,
    gid: u32,
    /// The supplementary groups; `None` if they are not those of the user, as in a user namespace.
    groups: Option<BTreeSet<u32>>,
}

/// A difference between the user of running processes and that of new ones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The problem, and the remedy.
    pub(crate) problem: String,
    /// The user exists, so a restart mends it.
    pub(crate) can_restart: bool,
}

impl RunningUser {
    /// Takes the user of a process that is started; `None` if the specification names neither a
    /// user nor a group.
    pub(crate) fn of(spec: &ApplicationSpec, identity: &Identity) -> Option<RunningUser> {
        spec.user.as_ref().or(spec.group.as_ref())?;
        let (uid, gid) = match &identity.user {
            Some(user) => (user.uid, user.gid),
            None => {
                let own = Credentials::current();
                (own.uid, own.gid)
            }
        };
        let with_groups = identity.user.as_ref().filter(|_| identity.maps.is_none());
        let groups = with_groups.map(|user| user.groups.iter().copied().collect());
        let spec = ApplicationSpec {
            user: spec.user.clone(),
            group: spec.group.clone(),
            ..ApplicationSpec::new(&spec.name)
        };
        Some(RunningUser { spec, uid, gid, groups })
    }

    /// Returns the difference to the user that new processes would run as; `None` if there is none.
    pub(crate) fn difference(&self, options: &Options) -> Option<Difference> {
        let found = Identity::named(&self.spec, options.user.as_ref())?;
        self.difference_to(found, Credentials::name_of)
    }

    fn difference_to(
        &self,
        found: Result<Credentials, Unknown>,
        name_of: impl Fn(u32) -> Option<String>,
    ) -> Option<Difference> {
        let RunningUser { spec, uid, gid, .. } = self;
        let name = &spec.name;
        let (problem, can_restart) = match found {
            Ok(user) if user.uid != *uid => {
                let owner = match name_of(*uid).filter(|owner| *owner != user.name) {
                    Some(owner) => format!(", which is the user \"{owner}\" now"),
                    None => String::new(),
                };
                let (of, now) = (&user.name, user.uid);
                let problem = format!(
                    "its processes still run as uid {uid}{owner}, and the user \"{of}\" has uid \
                     {now} now; run: howdah restart {name}"
                );
                (problem, true)
            }
            Ok(user) if user.gid != *gid => {
                let now = user.gid;
                let problem = format!(
                    "its processes still run with gid {gid}, and new ones get gid {now}; run: \
                     howdah restart {name}"
                );
                (problem, true)
            }
            Ok(user) => (self.other_groups(&user)?, true),
            // The user may be unchanged.
            Err(Unknown::Unanswered(_)) => return None,
            Err(Unknown::Group(group)) => {
                let problem = format!(
                    "its processes still run with gid {gid}: there is no group \"{group}\" on \
                     this system any more; run: groupadd --system --gid {gid} {group}, or change \
                     \"group\""
                );
                (problem, false)
            }
            Err(Unknown::User(user)) => {
                let problem = match name_of(*uid) {
                    None => format!(
                        "its processes still run as uid {uid}, which no longer has a name: there \
                         is no user \"{user}\" on this system; run: useradd --system --uid {uid} \
                         {user}, or change \"user\""
                    ),
                    Some(other) => format!(
                        "its processes still run as uid {uid}, which is the user \"{other}\" now: \
                         there is no user \"{user}\" on this system; change \"user\", or run: \
                         useradd --system {user}"
                    ),
                };
                (problem, false)
            }
        };
        Some(Difference { problem, can_restart })
    }

    /// Returns the difference between the supplementary groups of running processes and of new
    /// ones.
    fn other_groups(&self, user: &Credentials) -> Option<String> {
        let before = self.groups.as_ref()?;
        let now: BTreeSet<_> = user.groups.iter().copied().collect();
        let list = |groups: Vec<&u32>| {
            groups.into_iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
        };
        let lost = list(before.difference(&now).collect());
        let gained = list(now.difference(before).collect());
        let differences = match (lost.is_empty(), gained.is_empty()) {
            (true, true) => return None,
            (false, true) => format!("still have the groups {lost}, which the user"),
            (true, false) => format!("lack the groups {gained}, which the user"),
            (false, false) => {
                format!("still have the groups {lost} in place of {gained}, which the user")
            }
        };
        let verb = if lost.is_empty() || !gained.is_empty() { "has now" } else { "has lost" };
        let (of, name) = (&user.name, &self.spec.name);
        Some(format!("its processes {differences} \"{of}\" {verb}; run: howdah restart {name}"))
    }
}

impl fmt::Display for RunningUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the user of application \"{}\"", self.spec.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
        let (name, home) = ("shop".to_owned(), String::new());
        Credentials { uid, gid, groups: groups.to_vec(), name, home }
    }

    fn running(groups: Option<&[u32]>) -> RunningUser {
        let spec = ApplicationSpec { user: Some("shop".to_owned()), ..ApplicationSpec::new("app") };
        let groups = groups.map(|groups| groups.iter().copied().collect());
        RunningUser { spec, uid: 700, gid: 701, groups }
    }

    #[test]
    fn processes_of_a_former_user_are_told_from_those_of_the_present_one() {
        let running = running(None);
        let told = |found, other: Option<&str>, expected: &str, can_restart| {
            let other = other.map(str::to_owned);
            let found = running.difference_to(found, |_| other.clone()).unwrap();
            assert!(found.problem.contains(expected), "{expected}: {}", found.problem);
            assert_eq!(found.can_restart, can_restart, "{}", found.problem);
        };
        assert_eq!(running.difference_to(Ok(user(700, 701, &[1])), |_| None), None);
        told(
            Ok(user(800, 701, &[])),
            None,
            "as uid 700, and the user \"shop\" has uid 800 now",
            true,
        );
        told(
            Ok(user(800, 701, &[])),
            Some("eve"),
            "uid 700, which is the user \"eve\" now, and",
            true,
        );
        told(Ok(user(700, 801, &[])), None, "new ones get gid 801", true);
        let gone = || Err(Unknown::User("shop".to_owned()));
        told(gone(), None, "uid 700, which no longer has a name", false);
        told(gone(), Some("eve"), "which is the user \"eve\" now", false);
        let group = Err(Unknown::Group("staff".to_owned()));
        told(group, None, "groupadd --system --gid 701 staff", false);
    }

    #[test]
    fn processes_with_other_groups_than_their_user_are_told() {
        let told = |before: &[u32], now: &[u32]| {
            let found = running(Some(before)).difference_to(Ok(user(700, 701, now)), |_| None);
            found.map(|found| found.problem).unwrap_or_default()
        };
        assert_eq!(told(&[701, 5], &[5, 701]), "");
        let lost = "its processes still have the groups 5, which the user \"shop\" has lost; run: \
                    howdah restart app";
        assert_eq!(told(&[701, 5], &[701]), lost);
        assert!(
            told(&[701], &[701, 6, 7])
                .contains("lack the groups 6, 7, which the user \"shop\" has now")
        );
        assert!(
            told(&[701, 5], &[701, 6]).contains("still have the groups 5 in place of 6, which")
        );
    }
}
