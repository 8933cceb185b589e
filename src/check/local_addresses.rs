//! Addresses of this machine, on which a listener can be opened. The module binds no socket.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use howdah_config::{Address, Listener};

/// The addresses of all interfaces.
pub(super) struct LocalAddresses {
    /// `None` if they are not known, or programs may listen on others.
    known: Option<BTreeSet<IpAddr>>,
}

impl LocalAddresses {
    /// Reads `/proc/net`.
    pub(super) fn of_machine() -> LocalAddresses {
        let may_be_others = ["ipv4", "ipv6"].iter().any(|version| {
            let setting = format!("/proc/sys/net/{version}/ip_nonlocal_bind");
            fs::read_to_string(setting).is_ok_and(|value| value.trim() != "0")
        });
        let v4 = fs::read_to_string("/proc/net/fib_trie").ok().filter(|_| !may_be_others);
        let v6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        LocalAddresses { known: v4.map(|v4| addresses(&v4, &v6)) }
    }

    /// Returns a line about an address that no interface has.
    pub(super) fn problem(&self, listener: &Listener) -> Option<String> {
        let (Address::Inet(address), Some(known)) = (&listener.address, &self.known) else {
            return None;
        };
        let ip = address.ip();
        if ip.is_unspecified() || ip.is_loopback() || known.contains(&ip) {
            return None;
        }
        let port = address.port();
        let all = if ip.is_ipv4() { "*".to_owned() } else { "[::]".to_owned() };
        Some(format!(
            "no interface of this machine has the address {ip}; write \"{all}:{port}\" for all \
             addresses, or one that `ip address` lists"
        ))
    }
}

/// Reads the local addresses of `fib_trie` (each above a line with `host LOCAL`) and of `if_inet6`.
fn addresses(v4: &str, v6: &str) -> BTreeSet<IpAddr> {
    let mut all = BTreeSet::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in v4.lines().map(str::trim) {
        match line.strip_prefix("|-- ") {
            Some(address) => last = address.parse().ok(),
            None if line.contains("host LOCAL") => all.extend(last.map(IpAddr::from)),
            None => {}
        }
    }
    let digits = v6.lines().filter_map(|line| line.split_ascii_whitespace().next());
    let numbers = digits.filter_map(|digits| u128::from_str_radix(digits, 16).ok());
    all.extend(numbers.map(|bits| IpAddr::from(Ipv6Addr::from(bits))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_interfaces_are_read() {
        let v4 = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
                  |-- 10.0.0.5\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link \
                  BROADCAST\n";
        let v6 = "fe800000000000000000000000000001 02 40 20 80     eth0\n";
        let found: Vec<_> = addresses(v4, v6).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.5", "fe80::1"]);
    }
}
