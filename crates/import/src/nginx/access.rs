//! Who may send requests: addresses, passwords, other actions that check them, and limits.

use serde_json::Value;

use super::context::Place;
use super::convert::Converter;
use super::options::{Answer, merge};
use super::state::State;
use super::steps::{object, only_action, step};
use super::variables::Object;
use crate::Status;

/// A rule about addresses.
struct Rule {
    allows: bool,
    /// `None` for all.
    address: Option<String>,
}

impl<'t> Converter<'_> {
    /// Puts the checks of a place in front of its steps.
    pub fn guarded(&mut self, place: &Place<'t>, state: &State, inner: Vec<Value>) -> Vec<Value> {
        if self.has_unknown_checks(place) {
            return vec![step(Object::new(), self.closed(place, state, 403))];
        }
        let (rules, is_known) = self.address_rules(place);
        let mut checks =
            if place.location.is_some() { self.limits(place, state) } else { Object::new() };
        if !is_known {
            return vec![step(Object::new(), self.closed(place, state, 403))];
        }
        let password = match self.basic_auth(place, state) {
            Ok(password) => password,
            Err(()) => return vec![step(Object::new(), self.closed(place, state, 403))],
        };
        let request = match self.auth_request(place, state) {
            Ok(request) => request,
            Err(()) => return vec![step(Object::new(), self.closed(place, state, 403))],
        };
        let is_any = match place.scope.one("satisfy") {
            Some(directive) => {
                self.report.converted(directive.id);
                directive.arg(0) == "any"
            }
            None => false,
        };
        if let (true, true, true, Some(directive)) =
            (is_any, password.is_some(), request.is_some(), place.scope.one("satisfy"))
        {
            let reason = "a request needs both the password and the check by another location";
            self.report.mark(directive.id, Status::Changed, reason);
        }
        let mut login = Object::new();
        if let Some(mut auth) = password {
            if is_any && !rules.is_empty() && auth.remove("if").is_some() {
                // An address that is denied would be let in without a password.
                for directive in place.scope.all("auth_basic") {
                    let reason = "beside addresses and \"satisfy any\", a realm of \"off\" asks for a password, too";
                    self.report.mark(directive.id, Status::Changed, reason);
                }
            }
            login.insert("basic_auth".to_owned(), auth.into());
        }
        if let Some(request) = request {
            login.insert("auth_request".to_owned(), request);
        }
        if is_any && !login.is_empty() && !rules.is_empty() {
            return self.any_of(place, state, &rules, (checks, login), inner);
        }
        self.checked(place, state, &rules, &mut checks, login, inner)
    }

    fn checked(
        &mut self,
        place: &Place<'t>,
        state: &State,
        rules: &[Rule],
        checks: &mut Object,
        login: Object,
        inner: Vec<Value>,
    ) -> Vec<Value> {
        checks.extend(login);
        let Some(addresses) = simple(rules) else {
            // Each rule is a step, the first of which that has the address counts.
            let inner = self.with_checks(place, state, std::mem::take(checks), inner);
            let open = self.pass_to(&self.place_hint(place, "allowed"), inner);
            let mut steps = Vec::new();
            for rule in rules {
                let conditions = match &rule.address {
                    Some(address) => object([("source", address.clone().into())]),
                    None => Object::new(),
                };
                let action =
                    if rule.allows { open.clone() } else { self.returned(place, state, 403) };
                steps.push(step(conditions, action));
            }
            steps.push(step(Object::new(), open));
            return steps;
        };
        if addresses.get("allow").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            return vec![step(Object::new(), self.returned(place, state, 403))];
        }
        checks.extend(addresses);
        let checks = std::mem::take(checks);
        self.with_checks(place, state, checks, inner)
    }

    /// `satisfy any`: an allowed address needs no password.
    fn any_of(
        &mut self,
        place: &Place<'t>,
        state: &State,
        rules: &[Rule],
        checks: (Object, Object),
        inner: Vec<Value>,
    ) -> Vec<Value> {
        let (limits, login) = checks;
        let free = self.with_checks(place, state, limits.clone(), inner.clone());
        let mut asked = limits;
        asked.extend(login);
        let asked = self.with_checks(place, state, asked, inner);
        let free = self.pass_to(&self.place_hint(place, "free"), free);
        let asked = self.pass_to(&self.place_hint(place, "asked"), asked);
        let mut steps = Vec::new();
        for rule in rules {
            let conditions = match &rule.address {
                Some(address) => object([("source", address.clone().into())]),
                None => Object::new(),
            };
            steps.push(step(conditions, if rule.allows { free.clone() } else { asked.clone() }));
        }
        // An address without a rule is neither allowed nor denied.
        steps.push(step(Object::new(), asked));
        steps
    }

    /// Adds checks to the action of steps, or puts an action with them in front.
    fn with_checks(
        &mut self,
        place: &Place<'t>,
        state: &State,
        checks: Object,
        inner: Vec<Value>,
    ) -> Vec<Value> {
        if checks.is_empty() {
            return inner;
        }
        if let Some(action) =
            only_action(&inner).filter(|action| !checks.keys().any(|key| action.contains_key(key)))
        {
            let mut action = action.clone();
            if !action.contains_key("error_pages") {
                self.add_options_of_refusals(&mut action, place, state);
            }
            action.extend(checks);
            return vec![step(Object::new(), action)];
        }
        let name = self.add_route(&self.place_hint(place, "content"), inner);
        let mut action = object([("pass", format!("routes/{name}").into())]);
        self.add_options_of_refusals(&mut action, place, state);
        action.extend(checks);
        vec![step(Object::new(), action)]
    }

    /// Adds the options that a refusal needs to an action that passes requests on.
    fn add_options_of_refusals(&mut self, action: &mut Object, place: &Place<'t>, state: &State) {
        if action.contains_key("return") || action.contains_key("share") {
            return;
        }
        let mut options = Object::new();
        self.add_options(&mut options, place, state, Answer::Own);
        for key in ["error_pages", "response_headers", "access_log"] {
            if let (Some(value), false) = (options.remove(key), action.contains_key(key)) {
                action.insert(key.to_owned(), value);
            }
        }
    }

    /// Returns true if a module that Howdah has not may refuse requests.
    fn has_unknown_checks(&mut self, place: &Place<'t>) -> bool {
        let mut scope = Some(&place.scope);
        let mut found = Vec::new();
        while let Some(level) = scope {
            let checks = level.directives().iter().filter(|directive| {
                let name = directive.name.as_str();
                let is_check = name.starts_with("auth_") || name.starts_with("access_by_lua");
                is_check && !super::grammar::is_known(name) && directive.arg(0) != "off"
            });
            found.extend(checks);
            scope = level.parent();
        }
        for directive in &found {
            self.report.mark(
                directive.id,
                Status::NotConverted,
                "Howdah does not know this check; requests are refused (403)",
            );
        }
        !found.is_empty()
    }

    /// Reads `allow` and `deny`; false if one cannot be read.
    fn address_rules(&mut self, place: &Place<'t>) -> (Vec<Rule>, bool) {
        let mut rules = Vec::new();
        let mut is_known = true;
        for directive in place.scope.any_of(&["allow", "deny"]) {
            let address = match directive.arg(0) {
                "all" => None,
                "unix:" => Some("unix".to_owned()),
                text if is_network(text) => Some(network(text)),
                _ => {
                    self.report.mark(
                        directive.id,
                        Status::NotConverted,
                        "this is no address; all requests are refused (403)",
                    );
                    is_known = false;
                    continue;
                }
            };
            self.report.converted(directive.id);
            rules.push(Rule { allows: directive.name == "allow", address });
        }
        (rules, is_known)
    }

    fn auth_request(&mut self, place: &Place<'t>, state: &State) -> Result<Option<Value>, ()> {
        let Some(directive) = place.scope.one("auth_request") else { return Ok(None) };
        if directive.arg(0) == "off" {
            self.report.converted(directive.id);
            return Ok(None);
        }
        let path = match self.value(directive.arg(0), place, state) {
            Ok(path) if path.beginning().starts_with('/') => path,
            _ => {
                self.report.mark(
                    directive.id,
                    Status::NotConverted,
                    "the path of the check cannot be said; requests are refused (403)",
                );
                return Err(());
            }
        };
        self.report.converted(directive.id);
        let action = self.internal_redirect(place, &path);
        let mut check = object([("action", action.into())]);
        let (mut copied, mut sent) = (Vec::new(), Vec::new());
        for set in place.scope.all("auth_request_set") {
            let field =
                set.arg(1).strip_prefix("$upstream_http_").map(|name| name.replace('_', "-"));
            let Some(field) = field else {
                self.report.mark(
                    set.id,
                    Status::NotConverted,
                    "only a field of the response to the check can be used",
                );
                continue;
            };
            self.report.converted(set.id);
            let variable = set.arg(0);
            let is_sent =
                place.scope.all("add_header").iter().any(|header| header.arg(1) == variable);
            if is_sent { sent.push(field) } else { copied.push(field) }
        }
        if !copied.is_empty() {
            check.insert("copy_headers".to_owned(), copied.into());
        }
        if !sent.is_empty() {
            check.insert("response_headers".to_owned(), sent.into());
        }
        Ok(Some(check.into()))
    }

    /// Adds response fields to an action, beside its own.
    pub fn add_fields(&self, action: &mut Object, fields: Object) {
        if !fields.is_empty() {
            merge(action, "response_headers", fields);
        }
    }
}

/// Returns `allow` and `deny` for rules that do not depend on their order.
fn simple(rules: &[Rule]) -> Option<Object> {
    // What stands behind "all" has no effect.
    let end = rules.iter().position(|rule| rule.address.is_none());
    let (front, is_open) = match end {
        Some(end) => (&rules[..end], rules[end].allows),
        None => (rules, true),
    };
    let list = |allows: bool| -> Vec<String> {
        front
            .iter()
            .filter(|rule| rule.allows == allows)
            .filter_map(|rule| rule.address.clone())
            .collect()
    };
    let (allowed, denied) = (list(true), list(false));
    match (is_open, allowed.is_empty(), denied.is_empty()) {
        (true, _, true) => Some(Object::new()),
        (true, true, false) => Some(object([("deny", denied.into())])),
        (false, _, true) => Some(object([("allow", allowed.into())])),
        (false, false, false) => {
            // Denied addresses in front of all allowed ones win here, too.
            let last_denied = front.iter().rposition(|rule| !rule.allows)?;
            let first_allowed = front.iter().position(|rule| rule.allows)?;
            (last_denied < first_allowed)
                .then(|| object([("allow", allowed.into()), ("deny", denied.into())]))
        }
        (false, true, false) => Some(object([("allow", Value::Array(Vec::new()))])),
        (true, false, false) => None,
    }
}

fn is_network(text: &str) -> bool {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    match address.parse::<std::net::IpAddr>() {
        Ok(address) => {
            let most = if address.is_ipv4() { 32 } else { 128 };
            bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= most))
        }
        Err(_) => false,
    }
}

/// Writes a network without bits behind its length.
pub fn network(text: &str) -> String {
    let Some((address, bits)) = text.split_once('/') else { return text.to_owned() };
    let bits: u32 = bits.parse().unwrap_or(32);
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(address)) => {
            let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits.min(32)) };
            format!("{}/{bits}", std::net::Ipv4Addr::from(u32::from(address) & mask))
        }
        Ok(std::net::IpAddr::V6(address)) => {
            let mask = if bits == 0 { 0 } else { u128::MAX << (128 - bits.min(128)) };
            format!("{}/{bits}", std::net::Ipv6Addr::from(u128::from(address) & mask))
        }
        Err(_) => text.to_owned(),
    }
}
