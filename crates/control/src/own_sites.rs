//! The sites of one user, and what that user may ask about them.
//!
//! A site is that of the user whose processes run its scripts: only of one that the document names
//! for its application. Of another site, and of the server as a whole, no question is answered.

use std::collections::{BTreeMap, BTreeSet};

use howdah_config::include::sites_by_application;
use howdah_questions::{
    FileStatus, MemoryStatus, Named, PartStatus, ProfileOrder, Protection, Question, Status,
};
use serde_json::Value;

use crate::command::Command;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::translate::translate;

/// Maximum duration in seconds of a profile that the user of a site asks for.
pub const MAX_PROFILE_SECONDS: u32 = 60;

/// Maximum number of requests in an answer.
pub const MAX_REQUESTS: usize = 1000;

/// Maximum length in bytes of a name: the router knows its requests by so much of it.
const MAX_NAME: usize = 128;

/// The sites of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnSites {
    /// Names of applications.
    applications: BTreeSet<String>,
    /// Names by which requests and profiles know them: those of applications and of their sites.
    names: BTreeSet<String>,
}

impl OwnSites {
    /// Finds the sites of each user of a document. `users` has lines of id, tab and name. Two names
    /// of one id are one user.
    pub fn by_user(document: &Value, users: &str) -> BTreeMap<u32, OwnSites> {
        let lines = users.lines().filter_map(|line| line.split_once('\t'));
        let ids: BTreeMap<&str, u32> =
            lines.filter_map(|(id, name)| Some((name, id.parse().ok()?))).collect();
        let members = |name: &str| document.get(name).and_then(Value::as_object);
        let applications = members("applications");
        let upstreams = members("upstreams");
        let mut sites = sites_by_application(document);
        let mut owners = BTreeMap::<u32, OwnSites>::new();
        for (name, application) in applications.into_iter().flatten() {
            let user = application.get("user").and_then(Value::as_str);
            let Some(id) = user.and_then(|user| ids.get(user)) else { continue };
            let own = owners.entry(*id).or_default();
            own.applications.insert(name.clone());
            own.names.insert(name.clone());
            own.names.extend(sites.remove(name).into_iter().flatten());
        }
        for OwnSites { applications: own, names } in owners.values_mut() {
            // Requests of others could have the same name.
            let is_others = |name: &String| {
                let is_application = applications.is_some_and(|all| all.contains_key(name));
                let is_upstream = upstreams.is_some_and(|all| all.contains_key(name));
                is_upstream || is_application && !own.contains(name)
            };
            names.retain(|name| name.len() < MAX_NAME && !is_others(name));
        }
        owners
    }

    /// Translates a request of the user. The part is that of the answer.
    pub fn question(
        &self,
        method: &[u8],
        target: &[u8],
        body: &[u8],
    ) -> Result<(Question, Path), Refusal> {
        let command = translate(method, target, body)?;
        let Command::Ask { mut question, part } = command else {
            return Err(Refusal::ForAdministrators);
        };
        match &mut question {
            Question::Status => {}
            Question::Pools { application: Some(name) } => check(&self.applications, name)?,
            Question::Jobs { applications: Some(names) } => {
                names.iter().try_for_each(|name| check(&self.applications, name))?;
            }
            Question::Jobs { applications } => {
                *applications = Some(self.applications.iter().cloned().collect());
            }
            Question::JobLog { application, .. } | Question::OrderJob { application, .. } => {
                check(&self.applications, application)?;
            }
            Question::Profile(order) => {
                check(&self.names, &order.site)?;
                if order.seconds > MAX_PROFILE_SECONDS {
                    return Err(Refusal::TooMuchAtOnce {
                        detail: format!(
                            "the profile of a site's user takes at most {MAX_PROFILE_SECONDS} s, \
                             that of an administrator {} s",
                            ProfileOrder::MAX_SECONDS
                        ),
                    });
                }
            }
            Question::SlowScripts { name, applications } => {
                if let Some(name) = name {
                    check(&self.names, name)?;
                }
                // A site of another application could have the same name.
                *applications = Some(self.applications.iter().cloned().collect());
            }
            Question::LastRequests(filter) => {
                for name in filter.sites.iter().flatten() {
                    check(&self.names, name)?;
                }
                filter.sites.get_or_insert_with(|| self.names.iter().cloned().collect());
                filter.max = filter.max.min(MAX_REQUESTS);
            }
            _ => return Err(Refusal::ForAdministrators),
        }
        Ok((question, part))
    }

    /// Returns what a status says about the sites of the user.
    pub fn status(&self, all: &Status, log: &str) -> Status {
        let php = own(&self.applications, &all.php);
        let used = php.values().map(|php| &php.memory);
        let used = used.map(|memory| memory.prototype.saturating_add(memory.processes));
        Status {
            applications: own(&self.applications, &all.applications),
            sites: own(&self.names, &all.sites),
            jobs: own(&self.applications, &all.jobs),
            memory: MemoryStatus { used: used.fold(0, u64::saturating_add), budget: None },
            server: all.server.clone(),
            protection: Protection {
                applications: own(&self.applications, &all.protection.applications),
                ..Protection::default()
            },
            out: self.parts(&all.out),
            warnings: self.parts(&all.warnings),
            files: Some(FileStatus { document: None, log: log.to_owned() }),
            php,
            ..Status::default()
        }
    }

    fn parts(&self, all: &[PartStatus]) -> Vec<PartStatus> {
        let is_own = |part: &&PartStatus| match &*part.kind {
            "application" => self.applications.contains(&part.name),
            "site" => self.names.contains(&part.name),
            _ => false,
        };
        all.iter().filter(is_own).cloned().collect()
    }
}

/// Refuses a name that is not known.
fn check(known: &BTreeSet<String>, name: &str) -> Result<(), Refusal> {
    let name = name.to_owned();
    if known.contains(&name) { Ok(()) } else { Err(Refusal::NoSuchOwnSite { name }) }
}

fn own<T: Clone>(names: &BTreeSet<String>, all: &Named<T>) -> Named<T> {
    let own = all.iter().filter(|(name, _)| names.contains(*name));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests;
