//! `mod_access_compat`: `Order`, `Allow`, `Deny`, `Satisfy`. A file with any of these replaces all
//! of its parents'.

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::method::Methods;
use crate::record::Record;
use crate::support::{Subnet, SubnetError, client_address, covers, has_prefix, in_domain};

/// Rules of access.
#[derive(Debug, Clone, Default)]
pub struct Config {
    is_set: bool,
    /// The last one that covers a method holds.
    orders: Vec<(Option<Methods>, Order)>,
    satisfies_any: Vec<(Option<Methods>, bool)>,
    allows: Vec<Rule>,
    denies: Vec<Rule>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::AccessCompat;

    fn merged(&self, child: &Config) -> Config {
        if child.is_set { child.clone() } else { self.clone() }
    }

    fn is_constant(&self) -> bool {
        self.allows.is_empty() && self.denies.is_empty() && self.satisfies_any.is_empty()
    }
}

impl Config {
    /// Returns true for `Satisfy Any`.
    pub fn is_satisfied_by_any(&self, method: &[u8]) -> bool {
        let mut all = self.satisfies_any.iter().rev();
        all.find(|(methods, _)| covers(methods.as_ref(), method)).is_some_and(|(_, is_any)| *is_any)
    }
}

const FROM: &str = "'from' followed by hostnames or IP-address wildcards";

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "order",
        arguments: Arguments::One,
        class: Override::LIMIT,
        usage: "'allow,deny', 'deny,allow', or 'mutual-failure'",
        apply: order,
    },
    Directive {
        name: "allow",
        arguments: Arguments::EachAfterFirst,
        class: Override::LIMIT,
        usage: FROM,
        apply: |config, place, arguments| add(config, place, arguments, |own| &mut own.allows),
    },
    Directive {
        name: "deny",
        arguments: Arguments::EachAfterFirst,
        class: Override::LIMIT,
        usage: FROM,
        apply: |config, place, arguments| add(config, place, arguments, |own| &mut own.denies),
    },
    Directive {
        name: "Satisfy",
        arguments: Arguments::One,
        class: Override::AUTH_CONFIG,
        usage: "access policy if both allow and require used ('all' or 'any')",
        apply: satisfy,
    },
];

/// Returns true if a rule has a host name: [`is_allowed`] needs the names of the client then.
pub fn needs_host_names(config: &Config) -> bool {
    let mut all = config.allows.iter().chain(&config.denies);
    all.any(|rule| matches!(rule.from, From::Host(_)))
}

/// Applies the rules to a request. `hosts` are the names of the client's address.
pub fn is_allowed(config: &Config, record: &Record, hosts: &[Vec<u8>]) -> bool {
    let mut orders = config.orders.iter().rev();
    let order = orders.find(|(methods, _)| covers(methods.as_ref(), &record.method));
    let matches = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(record, hosts));
    let (allows, denies) = (|| matches(&config.allows), || matches(&config.denies));
    match order.map_or(Order::DenyThenAllow, |(_, order)| *order) {
        Order::AllowThenDeny | Order::MutualFailure => allows() && !denies(),
        Order::DenyThenAllow => !denies() || allows(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    AllowThenDeny,
    DenyThenAllow,
    MutualFailure,
}

#[derive(Debug, Clone)]
struct Rule {
    from: From,
    methods: Option<Methods>,
}

#[derive(Debug, Clone)]
enum From {
    All,
    Environment { name: Vec<u8>, is_negated: bool },
    Network(Subnet),
    Host(Vec<u8>),
}

impl Rule {
    fn matches(&self, record: &Record, hosts: &[Vec<u8>]) -> bool {
        covers(self.methods.as_ref(), &record.method)
            && match &self.from {
                From::All => true,
                From::Environment { name, is_negated } => {
                    record.env.get(name).is_some() != *is_negated
                }
                From::Network(network) => {
                    client_address(record).is_some_and(|address| network.contains(address))
                }
                From::Host(domain) => hosts.iter().any(|host| in_domain(domain, host)),
            }
    }
}

fn order(config: &mut DirConfig, place: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let name = arguments.first().copied().unwrap_or_default();
    let order = match name.to_ascii_lowercase().as_slice() {
        b"allow,deny" => Order::AllowThenDeny,
        b"deny,allow" => Order::DenyThenAllow,
        b"mutual-failure" => Order::MutualFailure,
        _ => return Err("unknown order".into()),
    };
    config.of_mut::<Config>().is_set = true;
    config.of_mut::<Config>().orders.push((place.methods.cloned(), order));
    Ok(())
}

fn satisfy(config: &mut DirConfig, place: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let name = arguments.first().copied().unwrap_or_default();
    let is_any = match name.to_ascii_lowercase().as_slice() {
        b"all" => false,
        b"any" => true,
        _ => return Err("Satisfy either 'any' or 'all'.".into()),
    };
    config.of_mut::<Config>().is_set = true;
    config.of_mut::<Config>().satisfies_any.push((place.methods.cloned(), is_any));
    Ok(())
}

/// Adds a rule to the list of its kind.
fn add(
    config: &mut DirConfig,
    place: &Place<'_>,
    arguments: &[&[u8]],
    list: fn(&mut Config) -> &mut Vec<Rule>,
) -> Result<(), String> {
    let rule = rule(place, arguments)?;
    config.of_mut::<Config>().is_set = true;
    list(config.of_mut::<Config>()).push(rule);
    Ok(())
}

fn rule(place: &Place<'_>, arguments: &[&[u8]]) -> Result<Rule, String> {
    let from = arguments.first().copied().unwrap_or_default();
    let text = arguments.get(1).copied().unwrap_or_default();
    if !from.eq_ignore_ascii_case(b"from") {
        return Err("allow and deny must be followed by 'from'".into());
    }
    let rest = |length: usize| text.get(length..).unwrap_or_default().to_vec();
    let from = if has_prefix(text, b"env=!") {
        From::Environment { name: rest(5), is_negated: true }
    } else if has_prefix(text, b"env=") {
        From::Environment { name: rest(4), is_negated: false }
    } else if text.eq_ignore_ascii_case(b"all") {
        From::All
    } else {
        match Subnet::parse(text) {
            Ok(network) => From::Network(network),
            Err(SubnetError::NoAddress) if text.contains(&b'/') => {
                return Err("An IP address was expected".into());
            }
            Err(SubnetError::NoAddress) if text.contains(&b'#') => {
                return Err("No comments are allowed here".into());
            }
            Err(SubnetError::NoAddress) => From::Host(text.to_vec()),
            Err(error) => return Err(error.text().into()),
        }
    };
    Ok(Rule { from, methods: place.methods.cloned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::{apply, record};

    #[test]
    fn order_decides_between_allow_and_deny() {
        for (lines, expected) in [
            (vec![], true),
            (vec!["Order allow,deny"], false),
            (vec!["Order deny,allow", "Deny from all"], false),
            (vec!["Order deny,allow", "Deny from all", "Allow from 127.0.0.1"], true),
            (vec!["Order Allow,Deny", "Allow from all", "Deny from 127"], false),
            (vec!["Order mutual-failure", "Allow from 127.0.0.0/8"], true),
            (vec!["Deny from all"], false),
            (vec!["Order allow,deny", "Allow from env=OK"], true),
            (vec!["Order allow,deny", "Allow from env=!OK"], false),
            (vec!["Order allow,deny", "Allow from example.com"], true),
            (vec!["Order allow,deny", "Allow from ample.com"], false),
        ] {
            let config = apply(DIRECTIVES, &lines).unwrap();
            let mut record = record(config);
            record.env.set("OK", "1");
            let config = record.config.clone();
            let hosts = [b"www.example.com".to_vec()];
            assert_eq!(is_allowed(config.of::<Config>(), &record, &hosts), expected, "{lines:?}");
        }
    }

    #[test]
    fn errors_are_those_of_apache() {
        for (line, expected) in [
            ("Order allow", "unknown order"),
            ("Allow of all", "allow and deny must be followed by 'from'"),
            ("Allow from x/8", "An IP address was expected"),
            ("Allow from 10.0.0.0/64", "The specified network mask is invalid."),
            ("Allow from #x", "No comments are allowed here"),
            ("Satisfy none", "Satisfy either 'any' or 'all'."),
        ] {
            assert_eq!(apply(DIRECTIVES, &[line]).unwrap_err(), expected, "{line}");
        }
    }

    #[test]
    fn a_child_replaces_all_rules() {
        let parent = apply(DIRECTIVES, &["Order allow,deny"]).unwrap().of::<Config>().clone();
        let child = apply(DIRECTIVES, &["Satisfy all"]).unwrap().of::<Config>().clone();
        let record = record(DirConfig::default());
        assert!(is_allowed(&parent.merged(&child), &record, &[]));
        assert!(!is_allowed(&parent.merged(&Config::default()), &record, &[]));
    }
}
