//! The running configuration, the one that is being applied, and the grants of each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_wire::messages::ApplicationSpec;

use crate::grants::{Grants, SocketAccess};

/// A configuration. A new router starts with the current one.
#[derive(Debug, Default)]
pub(crate) struct Current {
    /// Number of the configuration; grows with each.
    pub(crate) generation: u32,
    pub(crate) document: Arc<Vec<u8>>,
    pub(crate) grants: Grants,
}

/// A configuration that is being applied.
#[derive(Debug)]
struct Candidate {
    next: Current,
    /// The configuration is being stored.
    is_saving: bool,
    /// The configuration is stored and current; the router is applying it.
    is_committed: bool,
}

/// The current configuration, the one that is being applied, and applications of previous ones.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) current: Current,
    candidate: Option<Candidate>,
    last_generation: u32,
    /// Another change waits for the one that was asked for last.
    pub(crate) is_hurried: bool,
    /// The last document that the control process was sent, until it sends one to be applied.
    pub(crate) derived: Option<DerivedGrants>,
    former: VecDeque<Former>,
    /// Numbers of former configurations, the oldest first, and when the router can no longer use
    /// them.
    former_generations: VecDeque<(u32, Instant)>,
}

/// A document that was read, and its grants.
#[derive(Debug)]
pub(crate) struct DerivedGrants {
    pub(crate) document: Vec<u8>,
    pub(crate) grants: Grants,
}

/// An application as it was before a change. The router may have to start it for requests that
/// began to arrive before the change.
#[derive(Debug)]
struct Former {
    generation: u32,
    spec_name: String,
    spec: ApplicationSpec,
    until: Instant,
}

/// Time for which applications can be started as they were before a change.
const FORMER_LIFETIME: Duration = Duration::from_secs(3600);

/// Maximum number of applications that can be started as they were before a change.
const MAX_FORMER: usize = 1024;

impl Changes {
    /// Starts with a configuration.
    pub(crate) fn new(mut document: Vec<u8>, grants: Grants) -> Changes {
        document.shrink_to_fit(); // its text has grown step by step
        let current = Current { generation: 0, document: Arc::new(document), grants };
        Changes { current, ..Changes::default() }
    }

    /// Begins a change. Returns its generation; `None` if another one is being applied.
    pub(crate) fn begin(&mut self, document: Vec<u8>, grants: Grants) -> Option<u32> {
        if self.candidate.is_some() {
            return None;
        }
        self.last_generation = self.last_generation.wrapping_add(1);
        let generation = self.last_generation;
        let next = Current { generation, document: Arc::new(document), grants };
        self.candidate = Some(Candidate { next, is_saving: false, is_committed: false });
        Some(generation)
    }

    /// Returns true if a change is being applied.
    pub(crate) fn is_changing(&self) -> bool {
        self.candidate.is_some()
    }

    /// Returns the document of a change that has begun, and is neither being stored nor committed:
    /// it is being stored from now on.
    pub(crate) fn begin_saving(&mut self, generation: u32) -> Option<&[u8]> {
        let candidate = self.candidate.as_mut().filter(|candidate| !candidate.is_committed);
        let candidate = candidate.filter(|candidate| candidate.next.generation == generation);
        let candidate = candidate.filter(|candidate| !candidate.is_saving)?;
        candidate.is_saving = true;
        Some(candidate.next.document.as_slice())
    }

    /// Returns true if a document is being stored. The change can neither be ended nor abandoned
    /// meanwhile.
    pub(crate) fn is_saving(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.is_saving)
    }

    /// A document was stored, or could not be.
    pub(crate) fn end_saving(&mut self) {
        if let Some(candidate) = &mut self.candidate {
            candidate.is_saving = false;
        }
    }

    /// Makes the change current, if one has begun. Returns the names of the applications that are
    /// new or different.
    pub(crate) fn commit(&mut self, now: Instant) -> Vec<String> {
        let Some(candidate) = self.candidate.as_mut().filter(|found| !found.is_committed) else {
            return Vec::new();
        };
        candidate.is_committed = true;
        let next = std::mem::take(&mut candidate.next);
        candidate.next.generation = next.generation;
        let old = std::mem::replace(&mut self.current, next);
        self.former.retain(|former| former.until > now);
        self.former_generations.retain(|(_, until)| *until > now);
        self.former_generations.push_back((old.generation, now + FORMER_LIFETIME));
        let former = &old.grants.applications;
        let is_changed =
            |(name, spec): &(&String, &ApplicationSpec)| former.get(*name) != Some(spec);
        let changed = self.current.grants.applications.iter().filter(is_changed);
        let changed = changed.map(|(name, _)| name.clone()).collect();
        for (spec_name, spec) in old.grants.applications {
            if self.current.grants.applications.get(&spec_name) != Some(&spec) {
                let (generation, until) = (old.generation, now + FORMER_LIFETIME);
                self.former.push_back(Former { generation, spec_name, spec, until });
            }
        }
        while self.former.len() > MAX_FORMER {
            self.former.pop_front();
        }
        while self.former_generations.len() > MAX_FORMER {
            self.former_generations.pop_front();
        }
        changed
    }

    /// Ends a change, which was committed and carried out, or has failed. Returns false if the
    /// change does not exist.
    pub(crate) fn end(&mut self, generation: u32) -> bool {
        let is_over =
            |found: &mut Candidate| found.next.generation == generation && !found.is_saving;
        self.candidate.take_if(is_over).is_some()
    }

    /// Ends the change because the router has ended. One whose document is being stored is decided
    /// by that.
    pub(crate) fn abandon(&mut self) {
        self.candidate.take_if(|candidate| !candidate.is_saving);
    }

    /// Returns true if the current configuration names a resource, or the one that is being
    /// applied.
    pub(crate) fn allow(&self, names: impl Fn(&Grants) -> bool) -> bool {
        let candidate = self.candidate.iter().map(|candidate| &candidate.next.grants);
        candidate.chain([&self.current.grants]).any(names)
    }

    /// Returns who may connect to a listener, in the configuration that is being applied if that has
    /// it; true if it is that one, and not current yet.
    pub(crate) fn socket_access(&self, address: &str) -> Option<(&SocketAccess, bool)> {
        let candidate = self.candidate.as_ref().filter(|candidate| !candidate.is_committed);
        let next = candidate.and_then(|found| found.next.grants.listeners.get(address));
        let next = next.map(|access| (access, true));
        next.or_else(|| Some((self.current.grants.listeners.get(address)?, false)))
    }

    /// Returns the application of this name in the configuration with this number.
    pub(crate) fn application(
        &self,
        name: &str,
        generation: u32,
        now: Instant,
    ) -> Option<&ApplicationSpec> {
        let candidate = self.candidate.iter().map(|candidate| &candidate.next);
        let mut known = std::iter::once(&self.current).chain(candidate);
        let known = known.find(|known| known.generation == generation);
        let known = known.and_then(|known| known.grants.applications.get(name));
        known.or_else(|| {
            // As it was before its first change after that configuration, or as it still is.
            let is_former =
                |(number, until): &(u32, Instant)| *number == generation && *until > now;
            self.former_generations.iter().find(|former| is_former(former))?;
            let mut later = self.former.iter().filter(|former| former.generation >= generation);
            match later.find(|former| former.spec_name == name) {
                Some(former) => (former.until > now).then_some(&former.spec),
                None => self.current.grants.applications.get(name),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    fn grants(listener: &str, applications: &[(&str, &str)]) -> Grants {
        let specs = applications.iter().map(|(name, user)| {
            let spec =
                ApplicationSpec { user: Some((*user).to_owned()), ..ApplicationSpec::new("site") };
            ((*name).to_owned(), spec)
        });
        Grants {
            listeners: BTreeMap::from([(listener.to_owned(), SocketAccess::default())]),
            applications: specs.collect::<HashMap<_, _>>(),
            ..Grants::default()
        }
    }

    fn user(changes: &Changes, name: &str, generation: u32, now: Instant) -> Option<String> {
        changes.application(name, generation, now).and_then(|spec| spec.user.clone())
    }

    #[test]
    fn what_either_configuration_names_is_allowed_until_one_of_them_has_gone() {
        let mut changes = Changes::new(b"old".to_vec(), grants("*:1", &[]));
        let listens = |changes: &Changes, address: &str| {
            changes.allow(|grants| grants.listeners.contains_key(address))
        };
        assert!(listens(&changes, "*:1") && !listens(&changes, "*:2"));
        let generation = changes.begin(b"new".to_vec(), grants("*:2", &[])).unwrap();
        assert!(listens(&changes, "*:1") && listens(&changes, "*:2"));
        assert_eq!(changes.begin(Vec::new(), Grants::default()), None, "one after the other");
        assert_eq!(changes.begin_saving(generation + 1), None);
        assert_eq!(changes.begin_saving(generation), Some(&b"new"[..]));
        assert_eq!(changes.begin_saving(generation), None, "it is being stored");
        changes.abandon();
        assert!(changes.is_saving() && !changes.end(generation));
        changes.end_saving();
        changes.commit(Instant::now());
        assert!(!listens(&changes, "*:1") && listens(&changes, "*:2"));
        assert_eq!(changes.begin_saving(generation), None, "it is committed once");
        assert!(changes.is_changing() && changes.end(generation));
        assert!(!changes.is_changing() && !changes.end(generation));
        let failed = changes.begin(Vec::new(), grants("*:3", &[])).unwrap();
        assert!(changes.end(failed) && !listens(&changes, "*:3") && listens(&changes, "*:2"));
    }

    #[test]
    fn an_application_can_be_started_as_it_was_for_an_hour_after_a_change() {
        let now = Instant::now();
        let mut changes = Changes::new(Vec::new(), grants("*:1", &[("a", "x"), ("b", "x")]));
        let generation =
            changes.begin(Vec::new(), grants("*:1", &[("a", "y"), ("b", "x")])).unwrap();
        assert_eq!(user(&changes, "a", 0, now).as_deref(), Some("x"));
        assert_eq!(user(&changes, "a", generation, now).as_deref(), Some("y"));
        changes.commit(now);
        assert_eq!(user(&changes, "a", 0, now).as_deref(), Some("x"));
        assert_eq!(user(&changes, "a", generation, now).as_deref(), Some("y"));
        assert_eq!(user(&changes, "b", 0, now).as_deref(), Some("x"), "it is the same");
        assert_eq!(user(&changes, "b", 0, now + FORMER_LIFETIME), None);
        assert_eq!(user(&changes, "a", 0, now + FORMER_LIFETIME), None);
        assert_eq!(user(&changes, "c", generation, now), None);
    }
}
