//! Evaluation of requirements.

use std::net::IpAddr;

use super::answer::{Answer, Lookups};
use super::provider::{Provider, forward_names};
use super::{Config, Node, Section};
use crate::modules::auth_file::TooManyWait;
use crate::modules::services::Services;
use crate::modules::{access_compat, authz_groupfile};
use crate::record::Record;
use crate::support::lossy;
use crate::work;
use crate::world::{Level, World};

impl Lookups {
    /// Looks up the facts that the requirements for a request need; none without `Require host`,
    /// `Allow from name` and the like.
    pub async fn new(record: &Record, world: &dyn World, services: &dyn Services) -> Lookups {
        let config = record.config.clone();
        let mut lookups = Lookups::default();
        let mut wanted = Wanted::default();
        if let Some(section) = &config.of::<super::Config>().section {
            wanted.add(section, record);
        }
        if wanted.hosts || access_compat::needs_host_names(config.of::<access_compat::Config>()) {
            lookups.hosts = world.host_names(&record.connection.remote_addr).await;
        }
        for text in wanted.names {
            // An error is logged when the requirement is evaluated.
            let Ok(names) = services.text(record, &text) else { continue };
            for name in forward_names(&names) {
                let addresses: Vec<IpAddr> = services.addresses(&name).await;
                let addresses = addresses.into_iter().map(|address| address.to_canonical());
                lookups.addresses.push((name, addresses.collect()));
            }
        }
        lookups
    }

    /// Looks up the groups of the user, if the requirements for a request need them: once, however
    /// many do.
    ///
    /// # Errors
    ///
    /// Too many searches wait.
    pub async fn find_groups(
        &mut self,
        record: &Record,
        world: &dyn World,
    ) -> Result<(), TooManyWait> {
        let mut wanted = Wanted::default();
        if let Some(section) = &record.config.of::<super::Config>().section {
            wanted.add(section, record);
        }
        if let (Some(user), true) = (&record.user, wanted.groups) {
            self.groups = authz_groupfile::groups(record, world, user).await?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Wanted {
    hosts: bool,
    groups: bool,
    names: Vec<crate::modules::pattern::Text>,
}

impl Wanted {
    fn add(&mut self, section: &Section, record: &Record) {
        for child in section.children.iter().filter(|child| child.covers(&record.method)) {
            match child {
                Node::Section(section) => self.add(section, record),
                Node::Require(require) => match &require.provider {
                    Provider::Host(_) => self.hosts = true,
                    Provider::Group(_) | Provider::FileGroup => self.groups = true,
                    Provider::ForwardDns(names) => self.names.push(names.clone()),
                    _ => {}
                },
            }
        }
    }
}

/// Evaluates all requirements; `None` if there are none.
pub(super) fn evaluate(
    config: &Config,
    record: &Record,
    world: &dyn World,
    services: &dyn Services,
    lookups: &Lookups,
) -> Option<Answer> {
    let section = config.section.as_ref()?;
    let context = Context { record, world, services, lookups };
    Some(context.section(section, true))
}

struct Context<'a> {
    record: &'a Record,
    world: &'a dyn World,
    services: &'a dyn Services,
    lookups: &'a Lookups,
}

impl Context<'_> {
    fn section(&self, section: &Section, is_in_and: bool) -> Answer {
        if !section.covers(&self.record.method) {
            return if is_in_and { Answer::Granted } else { Answer::Neutral };
        }
        let mut result = Answer::Neutral;
        for child in &section.children {
            let answer = self.node(child, section.is_and);
            // The answer that ends the section, and the one that a denial without a user replaces.
            let (decisive, weak) = if section.is_and {
                (Answer::Denied, Answer::Granted)
            } else {
                (Answer::Granted, Answer::Denied)
            };
            match answer {
                Answer::Error => return Answer::Error,
                Answer::Neutral => {}
                answer if answer == decisive => {
                    result = answer;
                    break;
                }
                Answer::DeniedNoUser if result == weak => result = answer,
                answer if result == Answer::Neutral => result = answer,
                _ => {}
            }
        }
        negated(result, section.is_negated)
    }

    fn node(&self, node: &Node, is_in_and: bool) -> Answer {
        let require = match node {
            Node::Section(section) => return self.section(section, is_in_and),
            Node::Require(require) => require,
        };
        if !node.covers(&self.record.method) {
            return if is_in_and { Answer::Granted } else { Answer::Neutral };
        }
        if work::is_spent() {
            return Answer::Error;
        }
        let answer = require.provider.check(self.record, self.world, self.services, self.lookups);
        if answer == Answer::Error {
            self.world.log(Level::Error, &format!("{}: {}", lossy(&self.record.uri), require.text));
        }
        negated(answer, require.is_negated)
    }
}

fn negated(answer: Answer, is_negated: bool) -> Answer {
    match answer {
        Answer::Granted if is_negated => Answer::Denied,
        Answer::Denied | Answer::DeniedNoUser if is_negated => Answer::Neutral,
        answer => answer,
    }
}
