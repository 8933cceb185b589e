//! `upstreams`: servers that share the requests passed to them.

use crate::address::Address;
use crate::error::Error;
use crate::node::Node;

/// Servers that take turns by weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The name in `upstreams`.
    pub name: String,
    /// The servers in document order.
    pub servers: Vec<UpstreamServer>,
    /// How many of the servers one request may be tried on.
    pub tries: usize,
    /// How many idle connections to each server a thread keeps.
    pub keepalive: usize,
}

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamServer {
    /// Its address.
    pub address: Address,
    /// Its share of the requests in relation to the others, from 0 to 1,000,000; none if 0.
    pub weight: f64,
}

impl Upstream {
    /// Reads the members of `upstreams`.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<Upstream>, Error> {
        node.members()?.map(|(name, upstream)| Upstream::read(name, &upstream)).collect()
    }

    fn read(name: &str, node: &Node<'_>) -> Result<Upstream, Error> {
        let object = node.object()?;
        let mut servers = Vec::new();
        for (address, server) in object.required("servers")?.members()? {
            servers.push(UpstreamServer::read(address, &server)?);
        }
        let tries = object.read("tries", |node| node.integer(1..=100))?.unwrap_or(1);
        let keepalive = object.read("keepalive", |node| node.integer(0..=10_000))?.unwrap_or(0);
        object.end()?;
        // In range by the lines above.
        let small = |number| usize::try_from(number).unwrap_or(1);
        Ok(Upstream {
            name: name.to_owned(),
            servers,
            tries: small(tries),
            keepalive: small(keepalive),
        })
    }
}

impl UpstreamServer {
    fn read(address: &str, node: &Node<'_>) -> Result<UpstreamServer, Error> {
        let address = Address::parse(address).map_err(|error| node.invalid(error))?;
        let object = node.object()?;
        let weight = object.read("weight", read_weight)?.unwrap_or(1.0);
        object.end()?;
        Ok(UpstreamServer { address, weight })
    }
}

fn read_weight(node: &Node<'_>) -> Result<f64, Error> {
    let weight = node.value.as_f64().ok_or_else(|| node.wrong_type("a number"))?;
    match (0.0..=1_000_000.0).contains(&weight) {
        true => Ok(weight),
        false => Err(node.invalid(format_args!("must be between 0 and 1000000, but is {weight}"))),
    }
}
