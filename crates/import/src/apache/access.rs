//! Access to paths that are passed to other servers: `Require` and its kin as members of an action.

use serde_json::{Map, Value, json};

use crate::{Report, Status};

use super::scope::{is_access, mark};
use super::tree::Node;

/// Access as members of an action.
#[derive(Debug, Default, PartialEq)]
pub struct Access {
    /// Nobody has access.
    pub is_denied: bool,
    pub members: Map<String, Value>,
    /// Patterns of addresses that are refused.
    pub refused: Vec<Value>,
    /// A directive that cannot be converted: nobody has access.
    pub problem: Option<String>,
}

/// Reads directives of sections, the last of which has `Require` counts.
pub fn of(sections: &[Vec<&Node>]) -> Access {
    let all = || sections.iter().flatten();
    if all().any(|node| depends_on_request(node) && restricts(node)) {
        let problem = "a section of methods or conditions is not known in front of other servers";
        return Access { is_denied: true, problem: Some(problem.to_owned()), ..Access::default() };
    }
    let value = |name: &str| all().rfind(|node| node.name == name).map(|node| node.first());
    let decisive =
        sections.iter().rev().find(|nodes| nodes.iter().any(|node| is_requirement(&node.name)));
    let Some(nodes) = decisive else { return Access::default() };
    let is_old = nodes.iter().any(|node| matches!(node.name.as_str(), "order" | "allow" | "deny"));
    let requirements: Vec<&Node> = nodes
        .iter()
        .copied()
        .filter(|node| node.name == "require" || node.name.starts_with("<require"))
        .collect();
    let mut access = Access::default();
    if is_old {
        old(nodes, &mut access);
    }
    let mut alternatives = Alternatives::default();
    for node in &requirements {
        if let Err(problem) = alternatives.add(node) {
            return Access { is_denied: true, problem: Some(problem), ..Access::default() };
        }
    }
    if requirements.is_empty() {
        return access;
    }
    let Alternatives { is_open, addresses, excluded, users, names, groups } = alternatives;
    let takes_all = users;
    let users = users || !names.is_empty() || !groups.is_empty();
    let is_any = value("satisfy").is_some_and(|word| word.eq_ignore_ascii_case("any"));
    if is_any && is_old && users {
        let problem = "addresses or passwords are not alternatives here".to_owned();
        return Access { is_denied: true, problem: Some(problem), ..Access::default() };
    }
    if users {
        let kind = value("authtype").unwrap_or_default();
        let Some(file) = value("authuserfile").filter(|_| kind.eq_ignore_ascii_case("basic"))
        else {
            let problem = "passwords need AuthType Basic and an AuthUserFile".to_owned();
            return Access { is_denied: true, problem: Some(problem), ..Access::default() };
        };
        if is_open || !addresses.is_empty() {
            let problem = "addresses or passwords are not alternatives here".to_owned();
            return Access { is_denied: true, problem: Some(problem), ..Access::default() };
        }
        let literal = |text: String| Value::from(text.replace('$', "${dollar}"));
        let mut auth = Map::from_iter([("users_file".to_owned(), literal(file))]);
        if let Some(realm) = value("authname") {
            auth.insert("realm".into(), literal(realm));
        }
        // Of alternatives, one that takes every user leaves nothing to the others.
        if !takes_all && !names.is_empty() {
            auth.insert("users".into(), names.into());
        }
        if !takes_all && !groups.is_empty() {
            let Some(file) = value("authgroupfile") else {
                let problem = "Require group needs an AuthGroupFile".to_owned();
                return Access { is_denied: true, problem: Some(problem), ..Access::default() };
            };
            auth.insert("groups_file".into(), file.into());
            auth.insert("groups".into(), groups.into());
        }
        access.members.insert("basic_auth".into(), auth.into());
    } else if !is_open {
        access.is_denied |= addresses.is_empty();
        if !addresses.is_empty() {
            access.refused.push(except(&addresses));
        }
    }
    if !excluded.is_empty() {
        access.refused.push(json!(excluded));
    }
    access
}

/// Marks the directives of sections that cannot be converted, and those that have no effect.
pub fn report(sections: &[Vec<&Node>], access: &Access, report: &mut Report) {
    let all = || sections.iter().flatten();
    if let Some(problem) = &access.problem {
        let is_meant =
            |node: &&&Node| is_access(&node.name) || depends_on_request(node) && restricts(node);
        for node in all().filter(is_meant) {
            node.each(&mut |inside| {
                let reason = format!("{problem}; the place is closed");
                mark(report, inside, Status::NotConverted, reason);
            });
        }
    }
    for node in all().filter(|node| depends_on_request(node)) {
        let reason = "requests to other servers do not have what is in the section";
        mark(report, node, Status::Changed, reason);
    }
}

/// Returns true for a section that holds for some requests of a place alone.
pub fn depends_on_request(node: &Node) -> bool {
    let name = node.name.as_str();
    matches!(name, "<limit" | "<limitexcept" | "<if" | "<elseif" | "<else")
}

/// Returns true if a section has directives that refuse requests.
pub fn restricts(node: &Node) -> bool {
    node.children.iter().any(|child| is_requirement(&child.name) || restricts(child))
}

/// Returns the pattern of all addresses but these.
fn except(addresses: &[String]) -> Value {
    addresses.iter().map(|address| Value::from(format!("!{address}"))).collect()
}

fn is_requirement(name: &str) -> bool {
    matches!(name, "require" | "order" | "allow" | "deny") || name.starts_with("<require")
}

/// Requirements, one of which has to hold.
#[derive(Debug, Default)]
struct Alternatives {
    is_open: bool,
    addresses: Vec<String>,
    excluded: Vec<String>,
    users: bool,
    /// Names of `Require user`.
    names: Vec<String>,
    /// Names of `Require group`.
    groups: Vec<String>,
}

impl Alternatives {
    fn add(&mut self, node: &Node) -> Result<(), String> {
        if node.name == "<requireany" {
            return node.children.iter().try_for_each(|child| self.add(child));
        }
        if node.name == "<requireall" {
            // Addresses that are excluded, and one other requirement.
            let mut others = 0;
            for child in &node.children {
                let words = child.words();
                if child.name == "<requirenone" {
                    for child in &child.children {
                        self.excluded.extend(addresses(&child.words())?);
                    }
                } else if words.first().is_some_and(|word| word.eq_ignore_ascii_case("not")) {
                    self.excluded.extend(addresses(&words[1..])?);
                } else {
                    others += 1;
                    self.add(child)?;
                }
            }
            return if others <= 1 { Ok(()) } else { Err("several requirements at once".into()) };
        }
        if node.is_section() {
            return Err(format!("{}> is not known for other servers", node.written));
        }
        let words = node.words();
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        match lower.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["all", "granted"] => self.is_open = true,
            ["all", "denied"] => {}
            ["valid-user"] => self.users = true,
            ["user", _, ..] => self.names.extend(words.into_iter().skip(1)),
            ["group", _, ..] => self.groups.extend(words.into_iter().skip(1)),
            ["ip" | "local", ..] => self.addresses.extend(addresses(&words)?),
            _ => return Err(format!("Require {} is not known for other servers", node.arguments)),
        }
        Ok(())
    }
}

/// Returns the addresses of `ip …` or `local`.
fn addresses(words: &[String]) -> Result<Vec<String>, String> {
    match words {
        [kind, rest @ ..] if kind.eq_ignore_ascii_case("ip") => {
            rest.iter().map(|text| address(text).ok_or(format!("{text} is no address"))).collect()
        }
        [kind] if kind.eq_ignore_ascii_case("local") => {
            Ok(vec!["127.0.0.0/8".into(), "::1".into()])
        }
        _ => Err(format!("Require {} is not known for other servers", words.join(" "))),
    }
}

/// Returns the pattern of an address, a part of one, or a network.
fn address(text: &str) -> Option<String> {
    let (host, mask) = match text.split_once('/') {
        Some((host, mask)) => (host, Some(mask)),
        None => (text, None),
    };
    if host.contains(':') {
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return Some(text.to_owned());
    }
    let parts: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    if parts.len() > 4 || !parts.iter().all(|part| part.parse::<u8>().is_ok()) {
        return None;
    }
    let mut whole = parts.clone();
    whole.resize(4, "0");
    let bits = match mask {
        None if parts.len() == 4 => return Some(whole.join(".")),
        None => parts.len() * 8,
        Some(mask) => match mask.parse::<std::net::Ipv4Addr>() {
            Ok(mask) => usize::try_from(u32::from(mask).leading_ones()).ok()?,
            Err(_) => mask.parse().ok().filter(|bits| *bits <= 32)?,
        },
    };
    Some(format!("{}/{bits}", whole.join(".")))
}

/// Reads `Order`, `Allow` and `Deny`.
fn old(nodes: &[&Node], access: &mut Access) {
    let mut allows_first = false;
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    for node in nodes {
        let words = node.words();
        match node.name.as_str() {
            "order" => allows_first = node.arguments.to_ascii_lowercase().starts_with("allow"),
            "allow" | "deny" => {
                let list = if node.name == "allow" { &mut allowed } else { &mut denied };
                for word in words.iter().skip(1) {
                    match address(word) {
                        Some(address) => list.push(address),
                        None if word.eq_ignore_ascii_case("all") => list.push("all".into()),
                        None => {
                            access.is_denied = true;
                            access.problem = Some(format!("{word} is no address"));
                        }
                    }
                }
            }
            _ => {}
        }
    }
    let has_all = |list: &[String]| list.iter().any(|word| word == "all");
    let plain = |list: &[String]| -> Vec<String> {
        list.iter().filter(|word| *word != "all").cloned().collect()
    };
    if allows_first {
        // What is not allowed is refused, and what is denied as well.
        access.is_denied |= has_all(&denied);
        if !has_all(&allowed) {
            let allowed = plain(&allowed);
            access.is_denied |= allowed.is_empty();
            access.refused.push(except(&allowed));
        }
        if !plain(&denied).is_empty() {
            access.refused.push(json!(plain(&denied)));
        }
        return;
    }
    // What is allowed passes whatever is denied.
    if has_all(&denied) && !has_all(&allowed) {
        let allowed = plain(&allowed);
        access.is_denied |= allowed.is_empty();
        access.refused.push(except(&allowed));
    } else if !has_all(&allowed) && !plain(&denied).is_empty() {
        let mut list = plain(&denied);
        list.extend(plain(&allowed).iter().map(|address| format!("!{address}")));
        access.refused.push(json!(list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_completed() {
        for (text, expected) in [
            ("10.0.0.1", "10.0.0.1"),
            ("10.1", "10.1.0.0/16"),
            ("192.168.", "192.168.0.0/16"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/255.255.0.0", "10.0.0.0/16"),
            ("fe80::/10", "fe80::/10"),
        ] {
            assert_eq!(address(text).as_deref(), Some(expected));
        }
        assert_eq!(address("example.org"), None);
    }
}
