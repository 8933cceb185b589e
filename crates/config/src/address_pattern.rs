//! Patterns for addresses: `source` and `destination` of a step, `source` of trusted proxies.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use howdah_text::network;

use crate::error::Error;
use crate::node::Node;

/// One pattern: addresses, ports, or both.
///
/// `10.0.0.1`, `10.0.0.0-10.0.0.9`, `10.0.0.0/8`, each also with `:80` or `:8000-8999`; `::1`,
/// `::1-::9`, `fe80::/10`, with a port in brackets (`[::1]:80`); `*:80` for any address; `unix` for
/// connections over Unix sockets. A `!` in front negates the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPattern {
    negative: bool,
    test: Test,
}

/// A list of patterns, with the meaning of [`crate::Patterns`], except that an empty list accepts
/// no address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPatterns {
    excluding: Vec<AddressPattern>,
    including: Vec<AddressPattern>,
}

/// Reason why a string is not an address pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressPatternError {
    /// nginx's `all`.
    All,
    /// The text has none of the known forms.
    Form,
    /// The number after `/` is not a prefix length of this address family.
    Prefix,
    /// The port is not between 0 and 65535, or is missing after the colon.
    Port,
    /// A range ends before it starts.
    Order,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Unix,
    /// All addresses if `hosts` is `None`.
    Inet {
        hosts: Option<RangeInclusive<IpAddr>>,
        ports: RangeInclusive<u16>,
    },
}

impl AddressPattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<AddressPattern, AddressPatternError> {
        let (negative, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if text.eq_ignore_ascii_case("all") {
            return Err(AddressPatternError::All);
        }
        Ok(AddressPattern { negative, test: Test::parse(text)? })
    }

    /// Returns true if the pattern, with its `!`, accepts an address; `None` is a Unix socket.
    ///
    /// An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is compared in both forms, so that it does
    /// not bypass patterns for IPv4 addresses.
    pub fn matches(&self, address: Option<SocketAddr>) -> bool {
        let found = match (&self.test, address) {
            (Test::Unix, None) => true,
            (Test::Unix, Some(_)) | (Test::Inet { .. }, None) => false,
            (Test::Inet { hosts, ports }, Some(address)) => {
                let ip = address.ip();
                ports.contains(&address.port())
                    && hosts.as_ref().is_none_or(|hosts| {
                        hosts.contains(&ip) || hosts.contains(&ip.to_canonical())
                    })
            }
        };
        found != self.negative
    }
}

impl AddressPatterns {
    /// Adds a pattern.
    pub fn push(&mut self, pattern: AddressPattern) {
        if pattern.negative { self.excluding.push(pattern) } else { self.including.push(pattern) }
    }

    /// Returns true if the list accepts an address; `None` is a Unix socket.
    pub fn matches(&self, address: Option<SocketAddr>) -> bool {
        if self.including.is_empty() && self.excluding.is_empty() {
            return false;
        }
        self.excluding.iter().all(|pattern| pattern.matches(address))
            && (self.including.is_empty()
                || self.including.iter().any(|pattern| pattern.matches(address)))
    }

    /// Reads a pattern or an array of patterns.
    pub(crate) fn read(node: &Node<'_>) -> Result<AddressPatterns, Error> {
        let mut patterns = AddressPatterns::default();
        for element in node.strings()? {
            patterns.add(&element)?;
        }
        Ok(patterns)
    }

    /// Reads one pattern and adds it.
    pub(crate) fn add(&mut self, node: &Node<'_>) -> Result<(), Error> {
        let pattern = AddressPattern::parse(node.string()?);
        self.push(pattern.map_err(|error| node.invalid(error))?);
        Ok(())
    }
}

impl Test {
    fn parse(text: &str) -> Result<Test, AddressPatternError> {
        use AddressPatternError::{Form, Port};
        if text == "unix" {
            return Ok(Test::Unix);
        }
        let (hosts, ports) = if let Some(ports) = text.strip_prefix("*:") {
            (None, Some(ports))
        } else if let Some(rest) = text.strip_prefix('[') {
            let (hosts, ports) = rest.split_once(']').ok_or(Form)?;
            let hosts = parse_hosts(hosts)?;
            if hosts.start().is_ipv4() {
                return Err(Form);
            }
            (Some(hosts), Some(ports.strip_prefix(':').ok_or(Port)?))
        } else {
            // Addresses of IPv6 have several colons.
            match text.split_once(':').filter(|(_, rest)| !rest.contains(':')) {
                Some((hosts, ports)) => (Some(parse_hosts(hosts)?), Some(ports)),
                None => (Some(parse_hosts(text)?), None),
            }
        };
        let ports = ports.map_or(Ok(0..=u16::MAX), parse_ports)?;
        Ok(Test::Inet { hosts, ports })
    }
}

/// Reads `A`, `A-B` or `A/PREFIX`.
fn parse_hosts(text: &str) -> Result<RangeInclusive<IpAddr>, AddressPatternError> {
    use AddressPatternError::{Form, Order, Prefix};
    let Some((first, last)) = text.split_once('-') else {
        return network::parse(text).map_err(|invalid| match invalid {
            network::Invalid::Address => Form,
            network::Invalid::Prefix => Prefix,
        });
    };
    let address = |text: &str| text.parse::<IpAddr>().map_err(|_| Form);
    let (first, last) = (address(first)?, address(last)?);
    if first.is_ipv4() != last.is_ipv4() {
        return Err(Form);
    }
    if first <= last { Ok(first..=last) } else { Err(Order) }
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, AddressPatternError> {
    use AddressPatternError::{Order, Port};
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse_number(first).ok_or(Port)?, parse_number(last).ok_or(Port)?);
    if first <= last { Ok(first..=last) } else { Err(Order) }
}

/// Reads decimal digits. `parse` alone would accept a sign.
fn parse_number(text: &str) -> Option<u16> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl fmt::Display for AddressPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressPatternError::All => {
                "is not an address pattern; leave \"all\" out: with \"allow\" all others are \
                 refused, and without it all are allowed that \"deny\" does not name"
            }
            AddressPatternError::Form => {
                "is not an address pattern; write \"10.0.0.1\", \"10.0.0.0/8\", \
                 \"10.0.0.1-10.0.0.9\", \"10.0.0.1:80\", \"::1\", \"[::1]:80\", \"*:80\" or \
                 \"unix\""
            }
            AddressPatternError::Prefix => {
                "must have a prefix length after \"/\", up to 32 for IPv4 and 128 for IPv6"
            }
            AddressPatternError::Port => {
                "must have a port between 0 and 65535 after the colon, or a range as in \
                 \"8000-8999\""
            }
            AddressPatternError::Order => "has a range that ends before it starts",
        })
    }
}

impl std::error::Error for AddressPatternError {}

#[cfg(test)]
mod tests;
