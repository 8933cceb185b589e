//! Parsers of the machine's `/etc/resolv.conf` and `/etc/hosts`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Settings of the machine's resolver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// DNS servers in the order in which they are queried.
    pub servers: Vec<SocketAddr>,
    /// Domains in which short names are searched.
    pub search: Vec<String>,
    /// Minimum number of dots in a name that is first looked up without a domain (`ndots`).
    pub dots: usize,
    /// Maximum wait for an answer.
    pub timeout: Duration,
    /// Number of times that all servers are queried.
    pub attempts: usize,
}

impl System {
    /// Parses resolv.conf(5). Unknown lines and options are ignored.
    pub fn read(text: &str) -> System {
        /// Maximum number of servers, as in glibc.
        const MAX_SERVERS: usize = 3;
        /// Maximum number of domains, as in glibc.
        const MAX_DOMAINS: usize = 6;
        let mut system = System {
            servers: Vec::new(),
            search: Vec::new(),
            dots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    system.servers.extend(address.map(|ip| SocketAddr::new(ip, 53)));
                }
                Some("search" | "domain") => system.search = words.map(str::to_owned).collect(),
                Some("options") => words.for_each(|word| system.option(word)),
                _ => {}
            }
        }
        if system.servers.is_empty() {
            system.servers.push(([127, 0, 0, 1], 53).into());
        }
        system.servers.truncate(MAX_SERVERS);
        system.search.truncate(MAX_DOMAINS);
        system
    }

    fn option(&mut self, word: &str) {
        let Some((name, value)) = word.split_once(':') else { return };
        let Ok(value) = value.parse::<u8>() else { return };
        match name {
            "ndots" => self.dots = usize::from(value.min(15)),
            "timeout" => self.timeout = Duration::from_secs(u64::from(value.clamp(1, 30))),
            "attempts" => self.attempts = usize::from(value.clamp(1, 5)),
            _ => {}
        }
    }

    /// Returns the names to look up for a name, in this order.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let as_it_is = std::iter::once(name.to_owned());
        let searched = self.search.iter().map(|domain| format!("{name}.{domain}"));
        if name.matches('.').count() >= self.dots {
            as_it_is.chain(searched).collect()
        } else {
            searched.chain(as_it_is).collect()
        }
    }
}

/// Returns the addresses of a name in hosts(5); those of `localhost` even without an entry
/// (RFC 6761, 6.3).
pub fn hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        if words.any(|word| word.eq_ignore_ascii_case(name)) && !found.contains(&address) {
            found.push(address);
        }
    }
    if found.is_empty() && name.eq_ignore_ascii_case("localhost") {
        found.extend([IpAddr::from([127, 0, 0, 1]), IpAddr::from(Ipv6Addr::LOCALHOST)]);
    }
    found
}

/// Returns the first name of an address in hosts(5), in lower case.
pub fn name_in_hosts(text: &str, address: IpAddr) -> Option<String> {
    text.lines().find_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let is_own = words.next()?.parse() == Ok(address);
        words.next().filter(|_| is_own).map(str::to_ascii_lowercase)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolvers_file_is_read_as_others_do() {
        let system = System::read(
            "# comment\nnameserver 10.0.0.1\nnameserver ::1\nnameserver nonsense\n\
             search a.example b.example\noptions ndots:2 timeout:0 attempts:99 edns0\n",
        );
        let servers = system.servers.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(servers, ["10.0.0.1:53", "[::1]:53"]);
        assert_eq!((system.dots, system.timeout.as_secs(), system.attempts), (2, 1, 5));
        assert_eq!(system.candidates("a.b.c"), ["a.b.c", "a.b.c.a.example", "a.b.c.b.example"]);
        assert_eq!(system.candidates("a"), ["a.a.example", "a.b.example", "a"]);
        assert_eq!(system.candidates("a."), ["a."]);
        assert_eq!(System::read("").servers, [SocketAddr::from(([127, 0, 0, 1], 53))]);
    }

    #[test]
    fn names_of_the_hosts_file_have_all_their_addresses() {
        let text = "127.0.0.1 localhost\n::1 localhost ip6-localhost # Local\nx y\n10.0.0.1\tApp\n";
        assert_eq!(hosts(text, "LOCALHOST").len(), 2);
        assert_eq!(hosts(text, "app."), [IpAddr::from([10, 0, 0, 1])]);
        assert_eq!(hosts("", "Localhost.")[0], IpAddr::from([127, 0, 0, 1]));
        assert!(hosts(text, "Local").is_empty() && hosts(text, "y").is_empty());
        assert_eq!(name_in_hosts(text, [10, 0, 0, 1].into()).as_deref(), Some("app"));
        assert_eq!(name_in_hosts(text, Ipv6Addr::LOCALHOST.into()).as_deref(), Some("localhost"));
        assert_eq!(name_in_hosts(text, [10, 0, 0, 2].into()), None);
    }
}
