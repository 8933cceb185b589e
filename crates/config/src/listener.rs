//! `listeners`: the sockets that accept connections.

use crate::address::Address;
use crate::error::Error;
use crate::forwarded::Forwarded;
use crate::node::{Node, Shown};
use crate::support::Feature;
use crate::target::{Pass, Target};

/// A socket and where its requests go.
#[derive(Debug, Clone)]
pub struct Listener {
    /// The key as written, for logs and for the control API.
    pub name: String,
    /// The address to bind.
    pub address: Address,
    /// Where requests go.
    pub pass: Pass,
    /// Connections that may wait to be accepted; `None` for what the system allows.
    pub backlog: Option<u32>,
    /// Proxies that are believed about the client's address and scheme.
    pub forwarded: Option<Forwarded>,
    /// Proxies that are believed about the client's address.
    pub client_ip: Option<Forwarded>,
}

impl Listener {
    /// Reads the members of `listeners`.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<Listener>, Error> {
        let mut listeners: Vec<Listener> = Vec::new();
        let mut taken = std::collections::HashMap::new();
        for (name, member) in node.members()? {
            let listener = Listener::read(name, &member)?;
            if let Some(other) = taken.insert(listener.address.clone(), name) {
                let message = format!("is the same address as \"{}\"", Shown(other));
                return Err(member.invalid(message));
            }
            listeners.push(listener);
        }
        Ok(listeners)
    }

    fn read(name: &str, node: &Node<'_>) -> Result<Listener, Error> {
        let address = Address::parse(name).map_err(|error| node.invalid(error))?;
        let object = node.object()?;
        object.unavailable("tls")?;
        let pass = match object.read("application", read_application)? {
            None => Pass::read(&object.required("pass")?)?,
            Some(_) if object.optional("pass").is_some() => {
                return Err(node.invalid("must have \"pass\" or \"application\", not both"));
            }
            Some(target) => Pass::Fixed(target),
        };
        let backlog = object.read("backlog", |backlog| {
            let length = backlog.integer(-1..=i64::from(i32::MAX))?;
            // Unit's -1 asks for the system's own value.
            Ok(u32::try_from(length).ok())
        })?;
        let forwarded = object.read_gated("forwarded", Feature::Forwarded, Forwarded::read)?;
        let client_ip =
            object.read_gated("client_ip", Feature::Forwarded, Forwarded::read_client_ip)?;
        object.end()?;
        let (name, backlog) = (name.to_owned(), backlog.flatten());
        Ok(Listener { name, address, pass, backlog, forwarded, client_ip })
    }
}

/// Unit's older way to name an application.
fn read_application(node: &Node<'_>) -> Result<Target, Error> {
    let target = Target::Application { name: node.string()?.to_owned(), target: None };
    node.scope.names.check(node, &target)?;
    Ok(target)
}
