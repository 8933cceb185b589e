//! Listeners that are in the way of each other: the system lets a program listen on an address of a
//! port, or on all addresses of it, not on both.

use super::line::{Advice, add};
use howdah_config::{Address, Config, Listener, path};

/// Checks the listeners of a document.
pub(super) fn of_listeners(config: &Config, all: &mut Vec<Advice>) {
    let contains = |wide: &Listener, one: &Listener| {
        let is_same_protocol = wide.is_udp() == one.is_udp();
        match (&wide.address, &one.address) {
            (Address::Inet(wide), Address::Inet(one)) => {
                is_same_protocol
                    && wide.port() == one.port()
                    && wide.is_ipv4() == one.is_ipv4()
                    && wide.ip().is_unspecified()
                    && !one.ip().is_unspecified()
            }
            _ => false,
        }
    };
    for listener in &config.listeners {
        let Some(wide) = config.listeners.iter().find(|wide| contains(wide, listener)) else {
            continue;
        };
        let message = format!(
            "\"{0}\" listens on this address as well, so only one of them can be opened; leave \
             one out, and tell requests apart by \"destination\" in \"match\"",
            wide.name
        );
        add(all, path(["listeners", listener.key.as_str()]), message);
    }
}
