//! Access control: `Require` and mod_access_compat, as steps in front of all others.

use std::net::IpAddr;

use howdah_htaccess::parse::Node;
use serde_json::{Value, json};

use crate::folder::{Log, words_of};
use crate::matching::Match;

/// Who gets through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Requests that are refused whatever else holds.
    pub refusals: Vec<Match>,
    /// Grants, one of which has to hold; without any, everything is refused.
    pub grants: Vec<Grant>,
}

/// Conditions that all have to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Addresses of clients; empty for all.
    pub allow: Vec<String>,
    /// Addresses that are excluded.
    pub deny: Vec<String>,
    /// Conditions, one of which has to hold; empty for none.
    pub when: Vec<Match>,
    /// A password is needed.
    pub needs_user: bool,
}

/// Variables that directives may ask for: name, and when they are set.
pub type Variables<'v> = [(String, Vec<Match>)];

impl Access {
    /// Everybody.
    pub fn granted() -> Access {
        Access { refusals: Vec::new(), grants: vec![Grant::default()] }
    }

    /// Nobody.
    pub fn denied() -> Access {
        Access::default()
    }

    /// Returns true if everybody gets through.
    pub fn is_granted(&self) -> bool {
        self.refusals.is_empty() && self.grants.contains(&Grant::default())
    }

    fn only(grant: Grant) -> Access {
        Access { refusals: Vec::new(), grants: vec![grant] }
    }

    /// Appends steps for requests that `target` matches: those that get through go on as `pass` says.
    ///
    /// `auth` is the value of `basic_auth`. Returns false if routes cannot combine the conditions: then all is
    /// refused.
    pub fn steps(
        &self,
        target: &Match,
        auth: Option<&Value>,
        pass: &Value,
        refuse: &Value,
        steps: &mut Vec<Value>,
    ) -> bool {
        let before = steps.len();
        let done = self.try_steps(target, auth, pass, refuse, steps);
        if done.is_none() {
            steps.truncate(before);
            steps.push(target.step(refuse.clone()));
        }
        done.is_some()
    }

    fn try_steps(
        &self,
        target: &Match,
        auth: Option<&Value>,
        pass: &Value,
        refuse: &Value,
        steps: &mut Vec<Value>,
    ) -> Option<()> {
        for refusal in &self.refusals {
            steps.push(target.and(refusal)?.step(refuse.clone()));
        }
        let mut grants: Vec<&Grant> = self.grants.iter().collect();
        // Whoever gets through without a password is not asked for one.
        grants.sort_by_key(|grant| grant.needs_user);
        grants.dedup();
        for (index, grant) in grants.iter().enumerate() {
            if **grant == Grant::default() {
                steps.push(target.step(pass.clone()));
                return Some(());
            }
            let is_last = index + 1 == grants.len();
            if is_last && grant.when.is_empty() {
                let mut action = pass.clone();
                if !grant.allow.is_empty() {
                    action["allow"] = json!(grant.allow);
                }
                if !grant.deny.is_empty() {
                    action["deny"] = json!(grant.deny);
                }
                if grant.needs_user {
                    action["basic_auth"] = auth?.clone();
                }
                steps.push(target.step(action));
                return Some(());
            }
            let when = match grant.when.as_slice() {
                [] => vec![Match::default()],
                when => when.to_vec(),
            };
            let excluded = grant.deny.iter().map(|address| format!("!{address}"));
            let source = grant.allow.iter().cloned().chain(excluded).collect();
            let source = Match { source, ..Match::default() };
            for condition in when {
                let matching = target.and(&condition)?.and(&source)?;
                let mut action = pass.clone();
                if grant.needs_user {
                    action["basic_auth"] = auth?.clone();
                }
                steps.push(matching.step(action));
            }
        }
        steps.push(target.step(refuse.clone()));
        Some(())
    }
}

/// Combination of directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    All,
    Any,
    None,
}

/// Translates the `Require` directives of a place, one of which has to hold.
///
/// # Errors
///
/// The directive that does not convert, with the reason: nobody may be let through.
pub fn require<'a>(
    nodes: &[&'a Node],
    variables: &Variables<'_>,
    log: &mut Log<'_>,
) -> Result<Access, (&'a Node, String)> {
    combined(nodes, Mode::Any, variables, log)
}

fn combined<'a>(
    nodes: &[&'a Node],
    mode: Mode,
    variables: &Variables<'_>,
    log: &mut Log<'_>,
) -> Result<Access, (&'a Node, String)> {
    let mut all = if mode == Mode::Any { Access::denied() } else { Access::granted() };
    let mut has_grant = false;
    for &node in nodes {
        let words = words_of(node);
        let is_not = words.first().is_some_and(|word| word.eq_ignore_ascii_case("not"));
        let fail = |reason: &str| (node, reason.to_owned());
        if is_not || mode == Mode::None {
            let refused = match is_not {
                true => leaf(&words[1..], variables).map_err(|reason| (node, reason))?,
                false => part(node, &words, variables, log)?,
            };
            if mode == Mode::Any {
                return Err(fail("routes cannot combine it with the others"));
            }
            add_refusals(&mut all, &refused)
                .ok_or_else(|| fail("routes cannot combine it with the others"))?;
            continue;
        }
        let access = match part(node, &words, variables, log) {
            Ok(access) => access,
            // One of several: without it, fewer requests get through.
            Err((inner, reason)) if mode == Mode::Any && nodes.len() > 1 => {
                log.left_out(inner, &reason);
                continue;
            }
            Err(error) => return Err(error),
        };
        match mode {
            Mode::Any if access.refusals.is_empty() => all.grants.extend(access.grants),
            Mode::Any if nodes.len() == 1 => all = access,
            Mode::All => {
                has_grant = true;
                all = both(&all, &access)
                    .ok_or_else(|| fail("routes cannot combine it with the others"))?;
            }
            _ => return Err(fail("routes cannot combine it with the others")),
        }
    }
    if mode == Mode::All && !has_grant {
        // What only excludes lets nobody through.
        return Ok(Access::denied());
    }
    Ok(all)
}

/// Translates a directive or a section.
fn part<'a>(
    node: &'a Node,
    words: &[String],
    variables: &Variables<'_>,
    log: &mut Log<'_>,
) -> Result<Access, (&'a Node, String)> {
    let mode = match node.name.to_ascii_lowercase().as_str() {
        "<requireall" => Mode::All,
        "<requireany" => Mode::Any,
        "<requirenone" => Mode::None,
        _ => return leaf(words, variables).map_err(|reason| (node, reason)),
    };
    let children: Vec<&Node> = node.children.iter().collect();
    combined(&children, mode, variables, log)
}

fn leaf(words: &[String], variables: &Variables<'_>) -> Result<Access, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((first, rest)) = words.split_first() else {
        return Err("it names nobody".to_owned());
    };
    match (first.to_ascii_lowercase().as_str(), rest) {
        ("all", ["granted"]) => Ok(Access::granted()),
        ("all", ["denied"]) => Ok(Access::denied()),
        ("valid-user", []) => Ok(Access::only(Grant { needs_user: true, ..Grant::default() })),
        ("local", []) => {
            let allow = vec!["127.0.0.0/8".to_owned(), "::1".to_owned()];
            Ok(Access::only(Grant { allow, ..Grant::default() }))
        }
        ("ip", addresses) if !addresses.is_empty() => {
            let allow = addresses.iter().map(|text| network(text)).collect::<Result<_, _>>()?;
            Ok(Access::only(Grant { allow, ..Grant::default() }))
        }
        ("method", methods) if !methods.is_empty() => {
            let mut names: Vec<String> = methods.iter().map(|&name| name.to_owned()).collect();
            if names.iter().any(|name| name == "GET") {
                names.push("HEAD".to_owned());
            }
            let when = vec![Match { method: names, ..Match::default() }];
            Ok(Access::only(Grant { when, ..Grant::default() }))
        }
        ("env", [name]) => {
            let when = variable(name, variables)?;
            Ok(Access::only(Grant { when, ..Grant::default() }))
        }
        ("user" | "group", _) => {
            Err("routes let every user of the file through, not some of them".to_owned())
        }
        _ => Err("routes have no equivalent".to_owned()),
    }
}

fn variable(name: &str, variables: &Variables<'_>) -> Result<Vec<Match>, String> {
    let found: Vec<Match> = { variables.iter() }
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .flat_map(|(_, matches)| matches.clone())
        .collect();
    let is_unknown = |(known, matches): &(String, Vec<Match>)| {
        matches.is_empty() && known.eq_ignore_ascii_case(name)
    };
    match found.is_empty() || variables.iter().any(is_unknown) {
        true => Err(format!("routes do not know the variable {name}")),
        false => Ok(found),
    }
}

/// Excludes what another access lets through.
fn add_refusals(all: &mut Access, refused: &Access) -> Option<()> {
    if !refused.refusals.is_empty() {
        return None;
    }
    for grant in &refused.grants {
        let Grant { allow, deny, when, needs_user } = grant;
        match (allow.is_empty(), deny.is_empty(), when.is_empty(), needs_user) {
            (true, true, true, false) => all.grants.clear(),
            (false, true, true, false) => {
                all.grants.iter_mut().for_each(|grant| grant.deny.extend(allow.iter().cloned()));
            }
            (true, true, false, false) => all.refusals.extend(when.iter().cloned()),
            _ => return None,
        }
    }
    Some(())
}

fn both(left: &Access, right: &Access) -> Option<Access> {
    let mut grants = Vec::new();
    for a in &left.grants {
        for b in &right.grants {
            if !a.allow.is_empty() && !b.allow.is_empty() && a.allow != b.allow {
                return None;
            }
            let allow = if a.allow.is_empty() { &b.allow } else { &a.allow };
            let when = match (a.when.as_slice(), b.when.as_slice()) {
                ([], when) | (when, []) => when.to_vec(),
                (a, b) => crate::matching::product(a, b)?,
            };
            grants.push(Grant {
                allow: allow.clone(),
                deny: a.deny.iter().chain(&b.deny).cloned().collect(),
                when,
                needs_user: a.needs_user || b.needs_user,
            });
        }
    }
    let refusals = left.refusals.iter().chain(&right.refusals).cloned().collect();
    Some(Access { refusals, grants })
}

/// Reads an address or a network: `10.1`, `10.1.0.0/16`, `10.1.0.0/255.255.0.0`, `2001:db8::/32`.
fn network(text: &str) -> Result<String, String> {
    let unknown = || Err(format!("\"{text}\" is no address or network of routes"));
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    if let Ok(address) = address.parse::<IpAddr>() {
        let most: u32 = if address.is_ipv4() { 32 } else { 128 };
        return match mask {
            None => Ok(address.to_string()),
            Some(mask) => match (mask.parse::<u32>(), mask.parse::<std::net::Ipv4Addr>()) {
                (Ok(bits), _) if bits <= most => Ok(format!("{address}/{bits}")),
                (_, Ok(mask)) => {
                    let bits = u32::from(mask);
                    match bits.leading_ones() + bits.trailing_zeros() >= 32 {
                        true => Ok(format!("{address}/{}", bits.leading_ones())),
                        false => unknown(),
                    }
                }
                _ => unknown(),
            },
        };
    }
    let parts: Option<Vec<u8>> =
        address.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect();
    match (parts, mask) {
        (Some(parts), None) if (1..4).contains(&parts.len()) => {
            let bits = parts.len() * 8;
            let mut octets: Vec<String> = parts.iter().map(u8::to_string).collect();
            octets.resize(4, "0".to_owned());
            Ok(format!("{}/{bits}", octets.join(".")))
        }
        _ => unknown(),
    }
}

/// What `Allow` and `Deny` name.
#[derive(Default)]
struct Named {
    all: bool,
    addresses: Vec<String>,
    when: Vec<Match>,
    unknown: Option<String>,
}

impl Named {
    fn add(&mut self, words: &[String], variables: &Variables<'_>) {
        for word in words.iter().skip(1) {
            let lower = word.to_ascii_lowercase();
            if lower == "all" {
                self.all = true;
            } else if let Some(name) = lower.strip_prefix("env=") {
                match variable(name, variables) {
                    Ok(when) => self.when.extend(when),
                    Err(reason) => self.unknown = Some(reason),
                }
            } else {
                match network(word) {
                    Ok(network) => self.addresses.push(network),
                    Err(reason) => self.unknown = Some(reason),
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        !self.all && self.addresses.is_empty() && self.when.is_empty()
    }

    fn grants(&self) -> Vec<Grant> {
        if self.all {
            return vec![Grant::default()];
        }
        let mut grants = Vec::new();
        if !self.addresses.is_empty() {
            grants.push(Grant { allow: self.addresses.clone(), ..Grant::default() });
        }
        if !self.when.is_empty() {
            grants.push(Grant { when: self.when.clone(), ..Grant::default() });
        }
        grants
    }
}

/// Translates `Order`, `Allow` and `Deny` of a place.
///
/// # Errors
///
/// The directive that does not convert, with the reason: nobody may be let through.
pub fn compat<'a>(
    nodes: &[&'a Node],
    variables: &Variables<'_>,
    log: &mut Log<'_>,
) -> Result<Access, (&'a Node, String)> {
    let (mut allowed, mut denied) = (Named::default(), Named::default());
    let mut allows_by_default = true;
    for &node in nodes {
        let words = words_of(node);
        match node.name.to_ascii_lowercase().as_str() {
            "order" => {
                let order = words.concat().to_ascii_lowercase();
                allows_by_default = order == "deny,allow";
            }
            "allow" => {
                allowed.add(&words, variables);
                if let Some(reason) = allowed.unknown.take() {
                    log.left_out(node, &reason);
                }
            }
            "deny" => {
                denied.add(&words, variables);
                if let Some(reason) = denied.unknown.take() {
                    return Err((node, reason));
                }
            }
            _ if words.first().is_some_and(|word| word.eq_ignore_ascii_case("all")) => {}
            _ => return Err((node, "routes have no equivalent".to_owned())),
        }
    }
    let last = || (nodes[nodes.len() - 1], "routes cannot combine these directives".to_owned());
    if allows_by_default {
        if allowed.all || denied.is_empty() {
            return Ok(Access::granted());
        }
        if denied.all {
            return Ok(Access { refusals: Vec::new(), grants: allowed.grants() });
        }
        if !(allowed.is_empty() || allowed.when.is_empty() && denied.when.is_empty()) {
            return Err(last());
        }
        let kept = allowed.addresses.iter().map(|address| format!("!{address}"));
        let deny = denied.addresses.iter().cloned().chain(kept).collect();
        let deny = if denied.addresses.is_empty() { Vec::new() } else { deny };
        let grants = vec![Grant { deny, ..Grant::default() }];
        return Ok(Access { refusals: denied.when, grants });
    }
    if denied.all {
        return Ok(Access::denied());
    }
    let mut grants = allowed.grants();
    grants.iter_mut().for_each(|grant| grant.deny.clone_from(&denied.addresses));
    Ok(Access { refusals: denied.when, grants })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_form_of_routes() {
        for (text, expected) in [
            ("10.1", "10.1.0.0/16"),
            ("192.168.1.", "192.168.1.0/24"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("::1", "::1"),
            ("2001:db8::/32", "2001:db8::/32"),
        ] {
            assert_eq!(network(text).as_deref(), Ok(expected));
        }
        for text in ["example.org", "10.0.0.0/33", "10.0.0.0/255.0.255.0", "1.2.3.4.5", ""] {
            assert!(network(text).is_err(), "{text}");
        }
    }

    #[test]
    fn whoever_needs_no_password_is_not_asked() {
        let user = Grant { needs_user: true, ..Grant::default() };
        let local = Grant { allow: vec!["127.0.0.1".to_owned()], ..Grant::default() };
        let access = Access { refusals: Vec::new(), grants: vec![user, local] };
        let mut steps = Vec::new();
        let (pass, auth) = (json!({"pass": "routes/x"}), json!({"users_file": "/u"}));
        assert!(access.steps(
            &Match::default(),
            Some(&auth),
            &pass,
            &json!({"return": 403}),
            &mut steps
        ));
        assert_eq!(steps[0]["match"]["source"], "127.0.0.1");
        assert_eq!(steps[1]["action"]["basic_auth"]["users_file"], "/u");
        assert_eq!(steps.len(), 2);
    }
}
