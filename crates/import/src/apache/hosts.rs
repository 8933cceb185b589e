//! Virtual hosts: their addresses and names, and which one a request is for.

use std::net::IpAddr;

use super::tree::Node;

/// An address of a virtual host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `None` for all addresses.
    pub ip: Option<IpAddr>,
    /// `None` for all ports.
    pub port: Option<u16>,
    /// A name in place of the address, which is not resolved.
    pub name: Option<String>,
}

/// A socket that Apache listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// `None` for all addresses.
    pub ip: Option<IpAddr>,
    pub port: u16,
}

impl Socket {
    /// Returns the key of the listener.
    pub fn key(&self) -> String {
        match self.ip {
            None => format!("*:{}", self.port),
            Some(IpAddr::V4(ip)) => format!("{ip}:{}", self.port),
            Some(IpAddr::V6(ip)) => format!("[{ip}]:{}", self.port),
        }
    }

    /// Returns true if connections of the socket may be for an address.
    pub fn may_be(&self, address: &Address) -> bool {
        let is_port = address.port.is_none_or(|port| port == self.port);
        let is_any = |ip: IpAddr| ip.is_unspecified();
        is_port
            && match (self.ip, address.ip) {
                (None, _) | (_, None) => true,
                (Some(own), Some(ip)) => own == ip || is_any(own),
            }
    }
}

/// Reads the argument of `Listen`.
pub fn socket(text: &str) -> Option<Socket> {
    if let Ok(port) = text.parse() {
        return Some(Socket { ip: None, port });
    }
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    if matches!(host, "*" | "0.0.0.0") {
        return Some(Socket { ip: None, port });
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(Socket { ip: Some(host.parse().ok()?), port })
}

/// Reads an argument of `<VirtualHost>`.
pub fn address(text: &str) -> Address {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').unwrap_or((rest, ""));
        (host, rest.strip_prefix(':'))
    } else {
        match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        }
    };
    let port = port.filter(|port| *port != "*").and_then(|port| port.parse().ok());
    if matches!(host, "*" | "_default_" | "") {
        return Address { ip: None, port, name: None };
    }
    match host.parse::<IpAddr>() {
        // Apache takes 0.0.0.0 and [::] for all addresses.
        Ok(ip) if ip.is_unspecified() => Address { ip: None, port, name: None },
        Ok(ip) => Address { ip: Some(ip), port, name: None },
        Err(_) => Address { ip: None, port, name: Some(host.to_ascii_lowercase()) },
    }
}

/// A virtual host, or the server outside of all.
#[derive(Debug)]
pub struct Host<'n> {
    /// The section; `None` for the server outside of all.
    pub section: Option<&'n Node>,
    pub addresses: Vec<Address>,
    /// Names of the host: those of `ServerName`, `ServerAlias` and its addresses.
    pub names: Vec<String>,
    /// Name of its route and application.
    pub label: String,
}

impl<'n> Host<'n> {
    /// Reads a section.
    pub fn new(section: &'n Node) -> Host<'n> {
        let addresses: Vec<Address> = section.words().iter().map(|word| address(word)).collect();
        let mut names: Vec<String> =
            addresses.iter().filter_map(|address| address.name.clone()).collect();
        names.extend(names_of(section.children.iter()));
        Host { section: Some(section), addresses, names, label: String::new() }
    }

    /// Returns the name of `ServerName`.
    pub fn server_name(&self) -> Option<String> {
        self.section?.children.iter().rev().find(|node| node.name == "servername").map(name_of)
    }
}

/// Returns the names of hosts in directives.
pub fn names_of<'n>(nodes: impl Iterator<Item = &'n Node>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut server_name = None;
    for node in nodes {
        match node.name.as_str() {
            "servername" => server_name = Some(name_of(node)),
            "serveralias" => {
                names.extend(node.words().iter().map(|name| name.to_ascii_lowercase()));
            }
            _ => {}
        }
    }
    let mut all: Vec<String> = server_name.into_iter().collect();
    all.append(&mut names);
    all.retain(|name| !name.is_empty());
    all
}

/// Returns the name in `ServerName`, without scheme and port.
pub fn name_of(node: &Node) -> String {
    let name = node.first().to_ascii_lowercase();
    let name = name.split_once("://").map_or(name.as_str(), |(_, name)| name).to_owned();
    match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_owned(),
        _ => name,
    }
}

/// Returns a pattern of Howdah for the name of a host with `*` and `?`.
pub fn pattern(name: &str) -> String {
    let is_simple = !name.contains('?') && !name.contains("**") && !name.starts_with(['~', '!']);
    if is_simple {
        return name.to_owned();
    }
    let mut expression = String::from("~^");
    for c in name.chars() {
        match c {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            c => expression.push_str(&super::scope::escaped(&c.to_string())),
        }
    }
    expression.push('$');
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hosts_and_sockets_are_read() {
        let of = |text| {
            let Address { ip, port, name } = address(text);
            (ip.map(|ip| ip.to_string()), port, name)
        };
        assert_eq!(of("*:80"), (None, Some(80), None));
        assert_eq!(of("_default_:443"), (None, Some(443), None));
        assert_eq!(of("*"), (None, None, None));
        assert_eq!(of("0.0.0.0:80"), (None, Some(80), None));
        assert_eq!(of("[::]:80"), (None, Some(80), None));
        assert_eq!(of("10.0.0.1"), (Some("10.0.0.1".into()), None, None));
        assert_eq!(of("[::1]:81"), (Some("::1".into()), Some(81), None));
        assert_eq!(of("A.example:80"), (None, Some(80), Some("a.example".into())));
        assert_eq!(socket("80").unwrap().key(), "*:80");
        assert_eq!(socket("0.0.0.0:81").unwrap().key(), "*:81");
        assert_eq!(socket("[::1]:81").unwrap().key(), "[::1]:81");
        assert!(socket("x").is_none());
        let local = socket("127.0.0.1:80").unwrap();
        assert!(local.may_be(&address("*:80")) && !local.may_be(&address("10.0.0.1:80")));
    }

    #[test]
    fn names_become_patterns() {
        assert_eq!(pattern("*.example.org"), "*.example.org");
        assert_eq!(pattern("a?.example.org"), "~^a.\\.example\\.org$");
    }
}
