//! The user of an application, and the id maps of its user namespace.

use howdah_sys::credentials::{self, Credentials, Unknown};
use howdah_sys::namespaces::Range;
use howdah_wire::messages::{ApplicationSpec, IdRange, Problem, ProcessUser};

/// The user and groups of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The user that it becomes; `None`: that of the supervisor.
    pub(crate) user: Option<Credentials>,
    /// The id maps of its user namespace, if it has one.
    pub(crate) maps: Option<Maps>,
}

/// The id maps of a user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Maps {
    pub(crate) users: Vec<Range>,
    pub(crate) groups: Vec<Range>,
    /// This process is root and may map any ids; otherwise only its own.
    pub(crate) privileged: bool,
}

impl Identity {
    /// Looks up the user and checks that the application may run as it. `default` is the user of
    /// applications without `user`. No application may have the server's own id, `private`: its
    /// scripts could signal the router.
    pub(crate) fn of(
        spec: &ApplicationSpec,
        default: Option<&Credentials>,
        private: Option<u32>,
    ) -> Result<Identity, Problem> {
        let identity = Identity::requested(spec, default)?;
        let maps = identity.maps.iter().flat_map(|maps| &maps.users);
        let mut ids: Vec<_> = maps.map(|range| (range.outside, range.size)).collect();
        if identity.maps.is_none() {
            ids.extend(identity.user.as_ref().map(|user| (user.uid, 1)));
        }
        let is_private = |(first, size): &(u32, u32)| {
            private.and_then(|id| id.checked_sub(*first)).is_some_and(|offset| offset < *size)
        };
        match private.filter(|_| ids.iter().any(is_private)) {
            Some(id) => Err(Problem::at(
                if identity.maps.is_some() { "isolation/uidmap" } else { "user" },
                format_args!("the user id {id} belongs to the server itself; choose another user"),
            )),
            None => Ok(identity),
        }
    }

    /// Looks up the user and group that a specification names; `None` if it names neither.
    pub(crate) fn named(
        spec: &ApplicationSpec,
        default: Option<&Credentials>,
    ) -> Option<Result<Credentials, Unknown>> {
        let (user, group) = (spec.user.as_deref(), spec.group.as_deref());
        user.or(group)?;
        let name = match (user, default) {
            (Some(user), _) => user.to_owned(),
            (None, Some(default)) => default.name.clone(),
            (None, None) => Credentials::current().name,
        };
        Some(Credentials::look_up(&name, group))
    }

    fn requested(
        spec: &ApplicationSpec,
        default: Option<&Credentials>,
    ) -> Result<Identity, Problem> {
        let wanted = match Identity::named(spec, default) {
            None => default.cloned(),
            Some(found) => Some(found.map_err(|error| match error {
                Unknown::User(_) | Unknown::Unanswered(_) => Problem::at("user", error),
                Unknown::Group(_) => Problem::at("group", error),
            })?),
        };
        let root = credentials::is_root();
        if spec.isolation.user_namespace {
            let server = Credentials::current();
            let mut user = wanted.unwrap_or_else(|| server.clone());
            let maps = Maps::of(spec, &user, &server, root)?;
            user.groups.retain(|group| maps.groups.iter().any(|range| range.contains(*group)));
            return Ok(Identity { user: Some(user), maps: Some(maps) });
        }
        for (key, map) in [("uidmap", &spec.isolation.uidmap), ("gidmap", &spec.isolation.gidmap)] {
            if !map.is_empty() {
                let key = format!("isolation/{key}");
                return Err(Problem::at(key, "needs the namespace \"credential\""));
            }
        }
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let user = wanted.filter(|user| root || (user.uid, user.gid) != own);
        match user {
            Some(user) if !root => Err(Problem::at(
                "user",
                format_args!(
                    "cannot run as user \"{}\": only a server started by root can change users",
                    user.name
                ),
            )),
            user => Ok(Identity { user, maps: None }),
        }
    }
}

impl Identity {
    /// Returns the user that a process without a user namespace becomes.
    pub(crate) fn process_user(&self) -> Option<ProcessUser> {
        self.user.clone().map(|Credentials { uid, gid, groups, name, home }| ProcessUser {
            uid,
            gid,
            groups,
            name,
            home,
        })
    }

    /// Returns user and group outside of the user namespace; `None`: those of the server.
    pub(crate) fn outside(&self) -> (Option<u32>, Option<u32>) {
        let map = |ranges: &[Range], id: u32| match ranges.iter().find(|range| range.contains(id)) {
            Some(range) => range.outside.wrapping_add(id.wrapping_sub(range.inside)),
            None => id,
        };
        let (users, groups) = match &self.maps {
            Some(maps) => (&maps.users[..], &maps.groups[..]),
            None => (&[][..], &[][..]),
        };
        let user = self.user.as_ref();
        (user.map(|user| map(users, user.uid)), user.map(|user| map(groups, user.gid)))
    }
}

impl Maps {
    fn of(
        spec: &ApplicationSpec,
        user: &Credentials,
        server: &Credentials,
        root: bool,
    ) -> Result<Maps, Problem> {
        let map = |key, given: &[IdRange], inside, own| -> Result<Vec<Range>, Problem> {
            let outside = if root { inside } else { own };
            let ranges: Vec<_> = match given {
                [] => vec![Range { inside, outside, size: 1 }],
                given => given
                    .iter()
                    .map(|r| Range { inside: r.inside, outside: r.outside, size: r.size })
                    .collect(),
            };
            let problem = |text: String| Problem::at(format!("isolation/{key}"), text);
            match ranges.as_slice() {
                [only] if !root && (only.outside, only.size) != (own, 1) => Err(problem(format!(
                    "a server that was not started by root can map its own id {own} alone"
                ))),
                [_, _, ..] if !root => Err(problem(
                    "a server that was not started by root can map one id alone".to_owned(),
                )),
                ranges if !ranges.iter().any(|range| range.contains(inside)) => {
                    let name = &user.name;
                    Err(problem(format!("does not map the id {inside} of user \"{name}\"")))
                }
                _ => Ok(ranges),
            }
        };
        Ok(Maps {
            users: map("uidmap", &spec.isolation.uidmap, user.uid, server.uid)?,
            groups: map("gidmap", &spec.isolation.gidmap, user.gid, server.gid)?,
            privileged: root,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, uid: u32) -> Credentials {
        let (name, home) = (name.to_owned(), "/".to_owned());
        Credentials { uid, gid: uid, groups: vec![uid], name, home }
    }

    fn maps(uidmap: &[(u32, u32, u32)], root: bool) -> Result<Maps, Problem> {
        let range = |r: &(u32, u32, u32)| IdRange { inside: r.0, outside: r.1, size: r.2 };
        let mut spec = ApplicationSpec::new("site");
        spec.isolation.uidmap = uidmap.iter().map(range).collect();
        Maps::of(&spec, &user("site", 33), &user("server", 1000), root)
    }

    #[test]
    fn no_application_has_the_id_of_the_server() {
        let own = Credentials::current();
        let spec = ApplicationSpec::new("site");
        let of = |private| Identity::of(&spec, Some(&user("site", 7)), private);
        if own.uid == 0 {
            assert!(of(Some(8)).is_ok());
            let error = of(Some(7)).unwrap_err();
            assert!(error.to_string().starts_with("user: the user id 7 belongs to"), "{error}");
        }
        let mut spec = ApplicationSpec::new("site");
        spec.isolation.user_namespace = true;
        let outside = if own.uid == 0 { 7 } else { own.uid };
        let error = Identity::of(&spec, Some(&user("site", 7)), Some(outside)).unwrap_err();
        assert!(error.to_string().starts_with("isolation/uidmap: the user id"), "{error}");
    }

    #[test]
    fn root_maps_the_user_to_itself() {
        let range = Range { inside: 33, outside: 33, size: 1 };
        let expected = Maps { users: vec![range], groups: vec![range], privileged: true };
        assert_eq!(maps(&[], true), Ok(expected));
    }

    #[test]
    fn others_map_the_user_to_themselves() {
        let maps = maps(&[], false).unwrap();
        assert_eq!(maps.users, [Range { inside: 33, outside: 1000, size: 1 }]);
        assert!(!maps.privileged);
    }

    #[test]
    fn a_map_must_have_the_user() {
        assert!(maps(&[(0, 100_000, 65536)], true).is_ok());
        let error = maps(&[(0, 100_000, 33)], true).unwrap_err();
        let expected = "isolation/uidmap: does not map the id 33 of user \"site\"";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn without_root_only_the_own_id_can_be_mapped() {
        assert!(maps(&[(33, 1000, 1)], false).is_ok());
        for map in [&[(33, 0, 1)][..], &[(33, 1000, 2)], &[(33, 1000, 1), (34, 1001, 1)]] {
            let error = maps(map, false).unwrap_err();
            assert!(error.to_string().contains("not started by root"), "{error}");
        }
    }
}
