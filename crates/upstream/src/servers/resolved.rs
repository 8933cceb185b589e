//! Addresses and TLS settings of other servers, resolved before a configuration is compiled.

use std::net::SocketAddr;
use std::sync::Arc;

use howdah_config::{self as config, Address, UpstreamTls};
use howdah_tls::{TlsClient, TlsClients};

use crate::names::NameTable;

/// Addresses and TLS settings of the servers that a configuration names.
#[derive(Debug, Clone, Default)]
pub struct ResolvedServers {
    /// TLS clients by their settings in the configuration.
    pub clients: TlsClients,
    /// Addresses by name.
    pub names: NameTable,
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
            let addresses = self.addresses(&server.address);
            addresses.into_iter().map(|address| config::UpstreamServer {
                named: (address != server.address).then(|| server.address.clone()),
                address,
                ..server.clone()
            })
        });
        config::Upstream { servers: servers.collect(), ..upstream.clone() }
    }

    /// Returns the addresses of a name, or the address itself.
    pub fn addresses(&self, address: &Address) -> Vec<Address> {
        let Address::Name(name, port) = address else { return vec![address.clone()] };
        match self.names.get(name) {
            None => vec![address.clone()],
            Some(found) => {
                { found.iter() }.map(|ip| Address::Inet(SocketAddr::new(*ip, *port))).collect()
            }
        }
    }
}
