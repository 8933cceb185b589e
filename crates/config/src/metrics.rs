//! `metrics` of the settings: where the metrics of the server are listened for.

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::listener::Listener;
use crate::node::Node;

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

/// The place of the addresses in the document.
pub(crate) const METRICS_LISTEN: &str = "/settings/metrics/listen";

/// Listeners for the metrics of the server.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// The listeners, which serve nothing else.
    pub listeners: Vec<Listener>,
}

impl Metrics {
    pub(crate) fn read(node: &Node<'_>) -> Result<Metrics, Error> {
        let object = node.object(&METRICS)?;
        let listen = object.required("listen")?;
        let read = |address: Node<'_>| Listener::for_metrics(address.string()?, &address);
        let listeners = listen.strings()?.map(read).collect::<Result<_, _>>()?;
        object.end()?;
        Ok(Metrics { listeners })
    }

    /// Adds the listeners to those of the document. Error: the name of one whose address another
    /// one has.
    pub(crate) fn add_to(&self, all: &mut Vec<Listener>) -> Result<(), String> {
        for listener in &self.listeners {
            if all.iter().any(|other| other.address == listener.address) {
                return Err(listener.name.clone());
            }
            all.push(listener.clone());
        }
        Ok(())
    }
}
