//! Servers that a name stands for: its addresses, or those of a service (RFC 2782).

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use howdah_wire::dns::Service;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::lookup::{Found, Problem, look_up, look_up_service};
use crate::target::Target;

/// Maximum number of machines of a service that are looked up.
const MAX_MACHINES: usize = 64;

/// Maximum wait for further machines of a service that has no server yet, after the first answer:
/// requests wait for it, and other machines follow with the next look-up.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// Addresses of machines by their names.
pub type Machines = HashMap<String, Vec<IpAddr>>;

/// Servers of a name, and the time for which they are valid.
#[derive(Debug)]
pub struct Targets {
    pub targets: Vec<Target>,
    pub time_to_live: Duration,
    /// Machines of a service, for the next look-up.
    pub machines: Machines,
    /// A machine of a service that could not be looked up. It has the addresses that it had before.
    pub missing: Option<(String, Problem)>,
}

/// Looks up the servers of a name. A name with two labels that begin with an underscore is a
/// service, whose machines were `known` under these addresses before.
pub async fn look_up_targets(
    name: &str,
    servers: &[SocketAddr],
    known: &Machines,
) -> Result<Targets, Problem> {
    if !is_service(name) {
        let Found { addresses, time_to_live } = look_up(name, servers).await?;
        return Ok(Targets {
            targets: addresses.into_iter().map(Target::from).collect(),
            time_to_live,
            machines: Machines::new(),
            missing: None,
        });
    }
    let answer = look_up_service(name, servers).await?;
    let mut services = answer.services;
    // The best ones, if there are too many.
    services.sort_by_key(|service| (service.priority, std::cmp::Reverse(service.weight)));
    services.truncate(MAX_MACHINES);
    let mut found = look_up_machines(&services, servers, known.is_empty()).await;
    found.time_to_live = found.time_to_live.min(Duration::from_secs(u64::from(answer.ttl)));
    for service in &services {
        let before = known.get(&service.name);
        if let (None, Some(before)) = (found.machines.get(&service.name), before) {
            found.machines.insert(service.name.clone(), before.clone());
        }
        let addresses = found.machines.get(&service.name).into_iter().flatten();
        let target = target(service, &services);
        found.targets.extend(addresses.map(|ip| Target { ip: *ip, ..target }));
    }
    match (found.targets.is_empty(), found.missing) {
        (true, Some((_, problem))) => Err(problem),
        (true, None) => Err(Problem::Unknown),
        (false, missing) => Ok(Targets { missing, ..found }),
    }
}

/// Looks up the machines of these services at once. Some are missing if their DNS servers fail, or
/// do not answer soon when the answer `is_urgent`.
async fn look_up_machines(
    services: &[Service],
    servers: &[SocketAddr],
    is_urgent: bool,
) -> Targets {
    let names: BTreeSet<_> = services.iter().map(|service| service.name.clone()).collect();
    let mut look_ups = JoinSet::new();
    for name in names.iter().cloned() {
        let servers = servers.to_vec();
        look_ups.spawn(async move {
            // With a dot at its end, so that no domain of the machine is searched.
            let found = look_up(&format!("{name}."), &servers).await;
            (name, found)
        });
    }
    let mut all = Targets {
        targets: Vec::new(),
        time_to_live: Duration::MAX,
        machines: Machines::new(),
        missing: None,
    };
    let mut end = None;
    loop {
        let next = match end {
            Some(end) => timeout_at(end, look_ups.join_next()).await.ok().flatten(),
            None => look_ups.join_next().await,
        };
        match next {
            Some(Ok((name, Ok(found)))) => {
                all.time_to_live = all.time_to_live.min(found.time_to_live);
                all.machines.insert(name, found.addresses);
                if is_urgent {
                    end.get_or_insert_with(|| Instant::now() + FIRST_WAIT);
                }
            }
            Some(Ok((name, Err(problem)))) => all.missing = Some((name, problem)),
            Some(Err(_)) => {} // a look-up is neither cancelled nor does it panic
            None => break,
        }
    }
    if all.missing.is_none() {
        let missing = names.into_iter().find(|name| !all.machines.contains_key(name));
        all.missing = missing.map(|name| (name, Problem::Late));
    }
    all
}

/// Returns true for the name of a service and its protocol in front of a domain.
fn is_service(name: &str) -> bool {
    name.splitn(3, '.').take(2).all(|label| label.starts_with('_'))
}

/// Returns a server of a service, without its address. `all` are the servers of the service.
fn target(service: &Service, all: &[Service]) -> Target {
    let best = all.iter().map(|service| service.priority).min();
    let same = || all.iter().filter(|other| other.priority == service.priority);
    let sum: u64 = same().map(|other| u64::from(other.weight)).sum();
    let weight = match sum {
        // Without weights, all are equal.
        0 => 1000,
        // A server of weight 0 gets a very small share.
        sum => (u64::from(service.weight) * 1000 * same().count() as u64 / sum).max(1),
    };
    Target {
        port: Some(service.port),
        weight: u32::try_from(weight).unwrap_or(u32::MAX),
        is_backup: best.is_some_and(|best| service.priority > best),
        ..Target::from(std::net::IpAddr::from([0, 0, 0, 0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(priority: u16, weight: u16) -> Service {
        Service { priority, weight, port: 80, name: "a".to_owned() }
    }

    #[test]
    fn weights_are_shares_and_later_priorities_are_backups() {
        let all = [service(1, 30), service(1, 10), service(1, 0), service(2, 0), service(2, 0)];
        let found: Vec<_> =
            all.iter().map(|one| target(one, &all)).map(|t| (t.weight, t.is_backup)).collect();
        assert_eq!(found, [(2250, false), (750, false), (1, false), (1000, true), (1000, true)]);
        let most = [service(0, u16::MAX), service(0, 0)];
        assert_eq!(target(&most[0], &most).weight, 2000);
    }

    #[test]
    fn a_service_has_two_marked_labels() {
        assert!(is_service("_http._tcp.a.b"));
        for name in ["_http.tcp.a", "http._tcp.a", "a", ""] {
            assert!(!is_service(name), "{name}");
        }
    }
}
