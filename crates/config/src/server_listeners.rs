//! `metrics` and `probes` of the settings: listeners for answers of the server itself.

use crate::error::{Error, ErrorKind};
use crate::key::{Key, Kind, Shape};
use crate::listener::Listener;
use crate::node::{Node, Shown};
use crate::target::Target;

/// `metrics` of the settings.
pub(crate) static METRICS: Shape = Shape {
    name: "metrics",
    parts: &[&[Key::new(
        "listen",
        Kind::Texts,
        "Address that serves only `/metrics`, such as `\"127.0.0.1:9145\"`, or several",
    )
    .details(
        "As [of a listener](listeners.md), also `\"unix:/run/howdah-metrics.sock\"`. Everybody who \
         reaches it sees the names of sites: let it be an address of this machine",
    )
    .required()]],
};

/// `probes` of the settings.
pub(crate) static PROBES: Shape = Shape {
    name: "probes",
    parts: &[&[Key::new(
        "listen",
        Kind::Texts,
        "Address that serves only `/-/live` and `/-/ready`, such as `\"*:8081\"`, or several",
    )
    .details(
        "As [of a listener](listeners.md). The answers name applications that cannot run: let it \
         be an address that visitors do not reach",
    )
    .required()]],
};

/// Listeners that serve only answers of the server itself.
#[derive(Debug, Clone)]
pub struct ServerListeners {
    /// The key of the settings.
    key: &'static str,
    /// The listeners, which serve nothing else.
    pub listeners: Vec<Listener>,
}

impl ServerListeners {
    /// No listeners.
    pub(crate) fn none(shape: &'static Shape) -> Self {
        ServerListeners { key: shape.name, listeners: Vec::new() }
    }

    /// Reads an object of one of the shapes above; all requests go to the target.
    pub(crate) fn read(
        node: &Node<'_>,
        shape: &'static Shape,
        target: &Target,
    ) -> Result<Self, Error> {
        let object = node.object(shape)?;
        let listen = object.required("listen")?;
        let read =
            |address: Node<'_>| Listener::of_server(address.string()?, target.clone(), &address);
        let listeners = listen.strings()?.map(read).collect::<Result<_, _>>()?;
        object.end()?;
        Ok(ServerListeners { key: shape.name, listeners })
    }

    /// The place of the addresses in the document.
    pub fn place(&self) -> String {
        format!("/settings/{}/listen", self.key)
    }

    /// Adds the listeners to those of the document. Error: another one has the address.
    pub(crate) fn add_to(&self, all: &mut Vec<Listener>) -> Result<(), Error> {
        for listener in &self.listeners {
            let is_same = |other: &Listener| other.address == listener.address && !other.is_udp();
            if all.iter().any(is_same) {
                let message = format!("\"{}\" is the address of a listener", Shown(&listener.name));
                let error = Error::new(ErrorKind::InvalidValue, self.place(), message);
                return Err(error.with_hint("choose another port"));
            }
            all.push(listener.clone());
        }
        Ok(())
    }
}
