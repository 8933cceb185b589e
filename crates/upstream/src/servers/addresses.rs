//! Addresses and TLS settings of other servers, resolved before a configuration is compiled.

use std::net::SocketAddr;
use std::sync::Arc;

use howdah_config::{self as config, Address, UpstreamTls};
use howdah_tls::{TlsClient, TlsClients};

use howdah_dns::NameTable;
use howdah_dns::target::Target;

/// Addresses and TLS settings of the servers that a configuration names.
#[derive(Debug, Clone, Default)]
pub struct ResolvedServers {
    /// TLS clients by their settings in the configuration.
    pub clients: TlsClients,
    /// Addresses by name.
    pub names: NameTable,
    /// Address of the dashboard process; `None` without one.
    pub dashboard: Option<Address>,
}

impl ResolvedServers {
    /// Returns the prepared TLS client for these settings.
    pub fn client(&self, settings: Option<&UpstreamTls>) -> Option<Arc<TlsClient>> {
        settings.and_then(|settings| self.clients.get(settings)).map(Arc::clone)
    }

    /// Replaces names in an upstream by their addresses. A name without an address stays, so that
    /// requests to it fail.
    pub fn resolved(&self, upstream: &config::Upstream) -> config::Upstream {
        let servers = upstream.servers.iter().flat_map(|server| {
            let targets = self.targets(&server.address);
            targets.into_iter().map(|(address, target)| config::UpstreamServer {
                named: (address != server.address).then(|| server.address.clone()),
                address,
                weight: server.weight
                    * target.map_or(1.0, |target| f64::from(target.weight) / 1000.0),
                backup: server.backup || target.is_some_and(|target| target.is_backup),
                ..server.clone()
            })
        });
        config::Upstream { servers: servers.collect(), ..upstream.clone() }
    }

    /// Returns the addresses of a name, or the address itself.
    pub fn addresses(&self, address: &Address) -> Vec<Address> {
        self.targets(address).into_iter().map(|(address, _)| address).collect()
    }

    /// Returns the addresses of a name, each with its target (port, weight, backup), or the
    /// address itself.
    fn targets(&self, address: &Address) -> Vec<(Address, Option<Target>)> {
        let found = address.name().and_then(|name| self.names.get(name));
        let Some(found) = found else { return vec![(address.clone(), None)] };
        let named_port = match address {
            Address::Name(_, port) => Some(*port),
            _ => None,
        };
        let known = found.iter().filter_map(|target| {
            // A name has the port of the configuration, a service its own.
            let port = named_port.or(target.port)?;
            Some((Address::Inet(SocketAddr::new(target.ip, port)), Some(*target)))
        });
        known.collect()
    }
}
