//! Servers that names stand for.

use std::net::IpAddr;

/// A server that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its address.
    pub ip: IpAddr,
    /// Its port; `None` for that of the configuration.
    pub port: Option<u16>,
    /// Its share among the servers of the name, in thousandths of the average.
    pub weight: u32,
    /// The server is used only if all servers that are no backups are down.
    pub is_backup: bool,
}

impl From<IpAddr> for Target {
    fn from(ip: IpAddr) -> Self {
        Target { ip, port: None, weight: 1000, is_backup: false }
    }
}
