//! Servers that a name stands for: its addresses, or those of a service (RFC 2782).

use std::net::SocketAddr;
use std::time::Duration;

use howdah_wire::dns::Service;

use super::lookup::{Found, Problem, look_up, look_up_service};
use super::target::Target;

/// Maximum number of machines of a service that are looked up.
const MAX_MACHINES: usize = 64;

/// Servers of a name, and the time for which they are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    pub targets: Vec<Target>,
    pub time_to_live: Duration,
}

/// Looks up the servers of a name. A name that begins with an underscore and has no addresses is a
/// service.
pub async fn look_up_targets(name: &str, servers: &[SocketAddr]) -> Result<Targets, Problem> {
    if !is_service(name) {
        let Found { addresses, time_to_live } = look_up(name, servers).await?;
        return Ok(Targets {
            targets: addresses.into_iter().map(Target::from).collect(),
            time_to_live,
        });
    }
    let answer = look_up_service(name, servers).await?;
    let mut time_to_live = Duration::from_secs(u64::from(answer.ttl));
    let (mut targets, mut problem) = (Vec::new(), Problem::Unknown);
    let mut services = answer.services;
    // The best ones, if there are too many.
    services.sort_by_key(|service| (service.priority, std::cmp::Reverse(service.weight)));
    services.truncate(MAX_MACHINES);
    for service in &services {
        // With a dot at its end, so that no domain of the machine is searched.
        match look_up(&format!("{}.", service.name), servers).await {
            Ok(found) => {
                time_to_live = time_to_live.min(found.time_to_live);
                let target = target(service, &services);
                targets.extend(found.addresses.into_iter().map(|ip| Target { ip, ..target }));
            }
            Err(error) => problem = error,
        }
    }
    match targets.is_empty() {
        true => Err(problem),
        false => Ok(Targets { targets, time_to_live }),
    }
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
