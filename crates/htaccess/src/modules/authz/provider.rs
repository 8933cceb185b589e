//! Providers of `Require`: arguments and answers.

use super::answer::{Answer, Lookups};
use crate::method;
use crate::modules::pattern::{Condition, Text};
use crate::modules::services::Services;
use crate::query::Found;
use crate::record::{FileKind, Record};
use crate::support::{
    Subnet, SubnetError, address_of, client_address, has_prefix, in_domain, lossy, words,
};
use crate::world::{Level, World};

/// Test of a `Require` line.
#[derive(Debug)]
pub(super) enum Provider {
    All(bool),
    Env(Vec<Vec<u8>>),
    Method(Vec<Vec<u8>>),
    Expression { condition: Condition, wants_user: bool },
    User(Text),
    ValidUser,
    Group(Text),
    FileOwner,
    FileGroup,
    Ip(Vec<Subnet>),
    Host(Text),
    ForwardDns(Text),
    Local,
}

impl Provider {
    pub fn parse(name: &[u8], line: &[u8]) -> Result<Provider, String> {
        let text = || {
            Text::parse(line)
                .map_err(|error| format!("Cannot parse expression in require line: {error}"))
        };
        Ok(match name {
            b"all" if line.eq_ignore_ascii_case(b"granted") => Provider::All(true),
            b"all" if line.eq_ignore_ascii_case(b"denied") => Provider::All(false),
            b"all" => return Err("Argument for 'Require all' must be 'granted' or 'denied'".into()),
            b"env" => Provider::Env(words(line)),
            b"method" => Provider::Method(methods(line)?),
            b"expr" => expression(line)?,
            b"user" => Provider::User(text()?),
            b"valid-user" => Provider::ValidUser,
            b"group" => Provider::Group(text()?),
            b"file-owner" => Provider::FileOwner,
            b"file-group" => Provider::FileGroup,
            b"ip" => Provider::Ip(networks(line)?),
            b"host" => Provider::Host(text()?),
            b"forward-dns" => Provider::ForwardDns(text()?),
            b"local" => Provider::Local,
            _ => return Err(format!("Unknown Authz provider: {}", lossy(name))),
        })
    }

    pub fn check(
        &self,
        record: &Record,
        world: &dyn World,
        services: &dyn Services,
        lookups: &Lookups,
    ) -> Answer {
        let granted_if =
            |is_granted: bool| if is_granted { Answer::Granted } else { Answer::Denied };
        match self {
            Provider::All(is_granted) => granted_if(*is_granted),
            Provider::Env(names) => {
                granted_if(names.iter().any(|name| record.env.get(name).is_some()))
            }
            Provider::Method(methods) => {
                let method: &[u8] = if record.method == b"HEAD" { b"GET" } else { &record.method };
                granted_if(methods.iter().any(|name| name == method))
            }
            Provider::Expression { condition, wants_user } => match services
                .holds(record, condition)
            {
                Ok(true) => Answer::Granted,
                Ok(false) if *wants_user => Answer::DeniedNoUser,
                Ok(false) => Answer::Denied,
                Err(error) => {
                    let message = format!("Error evaluating expression in 'Require expr': {error}");
                    world.log(Level::Error, &message);
                    Answer::Error
                }
            },
            Provider::User(names) => with_user(record, |user| {
                let names = evaluated(
                    record,
                    world,
                    services,
                    names,
                    "authz_user authorize: require user",
                )?;
                Some(granted_if(words(&names).iter().any(|name| name == user)))
            }),
            Provider::ValidUser => with_user(record, |_| Some(Answer::Granted)),
            Provider::Group(names) => with_user(record, |_| {
                let groups = lookups.groups.as_ref()?;
                if groups.is_empty() {
                    return None;
                }
                let context = "authz_groupfile authorize: require group";
                let names = evaluated(record, world, services, names, context)?;
                let is_member = words(&names).iter().any(|name| contains(groups, name));
                Some(granted_if(is_member))
            }),
            Provider::FileOwner => with_user(record, |user| {
                let owner = file_owner(record).and_then(|(owner, _)| services.user_name(owner))?;
                Some(granted_if(owner == user))
            }),
            Provider::FileGroup => with_user(record, |_| {
                let groups = lookups.groups.as_ref()?;
                let group = file_owner(record).and_then(|(_, group)| services.group_name(group))?;
                Some(granted_if(contains(groups, &group)))
            }),
            Provider::Ip(networks) => {
                let address = client_address(record);
                let is_in =
                    |network: &Subnet| address.is_some_and(|address| network.contains(address));
                granted_if(networks.iter().any(is_in))
            }
            Provider::Host(names) => host(record, world, services, names, lookups),
            Provider::ForwardDns(names) => {
                let context = "authz_host authorize: require forward-dns";
                let Some(names) = evaluated(record, world, services, names, context) else {
                    return Answer::Denied;
                };
                let client = client_address(record);
                let mut names = forward_names(&names).into_iter();
                granted_if(names.any(|name| {
                    let found = lookups.addresses.iter().find(|(other, _)| *other == name);
                    found.is_some_and(|(_, all)| client.is_some_and(|client| all.contains(&client)))
                }))
            }
            Provider::Local => {
                let client = client_address(record);
                let server = address_of(&record.connection.server_addr);
                granted_if(
                    client.is_some_and(|client| Some(client) == server || client.is_loopback()),
                )
            }
        }
    }
}

/// Names of a `Require forward-dns`, up to a comment.
pub(super) fn forward_names(text: &[u8]) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for word in words(text) {
        let end = word.iter().position(|&byte| byte == b'#');
        let name = word.get(..end.unwrap_or(word.len())).unwrap_or_default();
        if !name.is_empty() {
            names.push(name.to_vec());
        }
        if end.is_some() {
            break;
        }
    }
    names
}

fn with_user(record: &Record, check: impl FnOnce(&[u8]) -> Option<Answer>) -> Answer {
    match &record.user {
        None => Answer::DeniedNoUser,
        Some(user) => check(user).unwrap_or(Answer::Denied),
    }
}

fn evaluated(
    record: &Record,
    world: &dyn World,
    services: &dyn Services,
    text: &Text,
    context: &str,
) -> Option<Vec<u8>> {
    let value = services.text(record, text);
    let log = |error: &String| {
        world.log(Level::Error, &format!("{context}: Can't evaluate require expression: {error}"));
    };
    value.inspect_err(log).ok()
}

fn contains(groups: &Found, name: &[u8]) -> bool {
    groups.contains(&name.to_ascii_lowercase())
}

fn file_owner(record: &Record) -> Option<(u32, u32)> {
    (record.file.kind != FileKind::None).then_some((record.file.user, record.file.group))
}

fn host(
    record: &Record,
    world: &dyn World,
    services: &dyn Services,
    names: &Text,
    lookups: &Lookups,
) -> Answer {
    if lookups.hosts.is_empty() {
        let message = format!(
            "access check to {} failed, reason: unable to get the remote host name",
            lossy(&record.uri)
        );
        world.log(Level::Error, &message);
        return Answer::Denied;
    }
    let context = "authz_host authorize: require host";
    let Some(names) = evaluated(record, world, services, names, context) else {
        return Answer::Denied;
    };
    // A number sign is no part of a host name: the rest is taken for a comment.
    let end = names.iter().position(|&byte| byte == b'#').unwrap_or(names.len());
    let domains = words(names.get(..end).unwrap_or_default());
    let is_in = |host: &Vec<u8>| domains.iter().any(|domain| in_domain(domain, host));
    if lookups.hosts.iter().any(is_in) { Answer::Granted } else { Answer::Denied }
}

fn methods(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let names = words(line).into_iter().map(|name| match name.as_slice() {
        b"HEAD" => Ok(b"GET".to_vec()),
        known if method::is_known(known) => Ok(name),
        unknown => Err(format!("Invalid Method '{}'", lossy(unknown))),
    });
    names.collect()
}

fn expression(line: &[u8]) -> Result<Provider, String> {
    let inner = line.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\""));
    let text = inner.unwrap_or(line);
    let condition = Condition::parse(text)
        .map_err(|error| format!("Cannot parse expression in require line: {error}"))?;
    let wants_user = text.windows(13).any(|part| has_prefix(part, b"%{REMOTE_USER"));
    Ok(Provider::Expression { condition, wants_user })
}

fn networks(line: &[u8]) -> Result<Vec<Subnet>, String> {
    let words = words(line);
    if words.is_empty() {
        return Err("'require ip' requires an argument".into());
    }
    let parse = |word: &Vec<u8>| {
        Subnet::parse(word).map_err(|error| match error {
            SubnetError::NoAddress => format!("ip address '{}' appears to be invalid", lossy(word)),
            _ => format!("ip address '{}' appears to be invalid: {}", lossy(word), error.text()),
        })
    };
    words.iter().map(parse).collect()
}
