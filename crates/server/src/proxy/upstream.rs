//! Servers that requests are passed to, compiled from the configuration.

use std::fmt;

use howdah_config::{self as config, Address};

/// One or more HTTP servers that answer the same requests.
#[derive(Debug)]
pub struct Upstream {
    /// For the log: `upstreams/NAME`, or the `proxy` of an action.
    pub name: Box<str>,
    /// The servers in the order of the document.
    pub servers: Box<[Server]>,
    /// Servers that one request may be tried on.
    pub tries: usize,
    /// Idle connections that a thread keeps to each server.
    pub keepalive: usize,
}

/// One server.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: Address,
    /// Its share in relation to the others.
    pub weight: f64,
}

impl Upstream {
    /// The servers of a member of `upstreams`.
    pub fn new(upstream: &config::Upstream) -> Self {
        let servers = upstream.servers.iter();
        let servers = servers
            .map(|server| Server { address: server.address.clone(), weight: server.weight })
            .collect();
        Upstream {
            name: format!("upstreams/{}", upstream.name).into(),
            servers,
            tries: upstream.tries,
            keepalive: upstream.keepalive,
        }
    }

    /// The server of a `proxy`: asked once, over a connection of its own, as Unit does.
    pub fn single(address: &Address) -> Self {
        Upstream {
            name: format!("http://{address}").into(),
            servers: Box::new([Server { address: address.clone(), weight: 1.0 }]),
            tries: 1,
            keepalive: 0,
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
