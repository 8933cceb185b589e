//! What is known of other servers before a configuration is compiled: the addresses of those that
//! it names, and how TLS is spoken with them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use howdah_config::{self as config, Address, UpstreamTls};
use howdah_tls::{TlsClient, TlsClients};

/// Addresses by name; a name that none are known of is not there.
pub type NameTable = HashMap<String, Arc<[IpAddr]>>;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// How TLS is spoken, by its settings.
    pub clients: TlsClients,
    /// Addresses of names.
    pub names: NameTable,
}

impl Known {
    /// What is ready for these settings. They are made so before a configuration is compiled.
    pub fn client(&self, settings: Option<&UpstreamTls>) -> Option<Arc<TlsClient>> {
        settings.and_then(|settings| self.clients.get(settings)).map(Arc::clone)
    }

    /// An upstream with the servers that its names stand for now. One that stands for none stays,
    /// so that requests to it fail.
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

    /// The addresses that an address stands for.
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
