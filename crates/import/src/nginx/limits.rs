//! `limit_req` and `limit_conn`.

use serde_json::Value;

use super::context::Place;
use super::convert::Converter;
use super::reader::Directive;
use super::state::State;
use super::steps::object;
use super::variables::{Object, names_of};
use crate::Status;

/// Writes a name of a zone, which has letters, digits and a few other characters.
fn zone_name(name: &str) -> String {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().map(|c| if is_known(c) { c } else { '-' }).collect()
}

/// A zone of limits.
#[derive(Debug, Clone)]
pub struct Zone {
    /// Members that all of its limits have.
    rule: Object,
    /// A key that is another one in each server.
    key_of_server: Option<String>,
    /// Why the zone cannot be used.
    problem: Option<String>,
}

impl<'t> Converter<'_> {
    /// Returns true if a limit is that of the server and no location has another one. Then it
    /// counts each request once, though the request may come to several locations.
    pub fn is_limit_of_server(&self, place: &Place<'t>, name: &str) -> bool {
        fn has_it(directives: &[Directive], name: &str) -> bool {
            directives.iter().any(|directive| {
                directive.name == name
                    || matches!(directive.name.as_str(), "location" | "if" | "limit_except")
                        && has_it(directive.children(), name)
            })
        }
        let Some(site) = &place.site else { return false };
        let blocks = site.directive.children().iter().filter(|directive| directive.block.is_some());
        !site.scope.all(name).is_empty()
            && !blocks.into_iter().any(|block| has_it(block.children(), name))
    }

    /// Returns the limits that hold at a place.
    pub fn limits(&mut self, place: &Place<'t>, _state: &State) -> Object {
        let mut rules = Vec::new();
        for (name, zones) in [("limit_req", "limit_req_zone"), ("limit_conn", "limit_conn_zone")] {
            let directives = place.scope.all(name);
            let is_of_server = place.location.is_some() && self.is_limit_of_server(place, name);
            if directives.is_empty() || is_of_server {
                continue;
            }
            let status = match place.scope.one(&format!("{name}_status")) {
                Some(directive) => {
                    self.report.converted(directive.id);
                    directive.arg(0).parse().unwrap_or(503)
                }
                None => 503_u16,
            };
            let is_dry = place.scope.one(&format!("{name}_dry_run")).is_some_and(|directive| {
                self.report.converted(directive.id);
                directive.arg(0).eq_ignore_ascii_case("on")
            });
            for directive in directives {
                match self.limit(directive, zones, place) {
                    Ok(mut rule) => {
                        self.report.converted(directive.id);
                        // nginx counts no requests with an empty key.
                        if rule.get("key").and_then(Value::as_str) == Some("") {
                            continue;
                        }
                        if status != 429 {
                            rule.insert("status".to_owned(), status.into());
                        }
                        if is_dry {
                            rule.insert("dry_run".to_owned(), true.into());
                        }
                        rules.push(Value::from(rule));
                    }
                    Err(reason) => self.report.mark(directive.id, Status::NotConverted, reason),
                }
            }
        }
        match rules.len() {
            0 => Object::new(),
            1 => object([("limit", rules.pop().unwrap_or_default())]),
            _ => object([("limit", rules.into())]),
        }
    }

    fn limit(
        &mut self,
        directive: &'t Directive,
        zones: &str,
        place: &Place<'t>,
    ) -> Result<Object, String> {
        let argument = |name: &str| {
            directive
                .args
                .iter()
                .find_map(|arg| arg.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')))
        };
        let is_requests = directive.name == "limit_req";
        let zone =
            if is_requests { argument("zone").unwrap_or_default() } else { directive.arg(0) };
        let key = (zones.to_owned(), zone.to_owned());
        let zone =
            self.zones.get(&key).cloned().ok_or_else(|| format!("there is no zone \"{zone}\""))?;
        if let Some(reason) = zone.problem {
            return Err(reason);
        }
        let mut rule = zone.rule;
        if let Some(text) = zone.key_of_server {
            let key = self.value(&text, place, &State::default())?.render();
            // A zone of a document has one key.
            let name = rule.get("zone").and_then(Value::as_str).unwrap_or_default();
            rule.insert(
                "zone".to_owned(),
                zone_name(&format!("{name}-{}", place.server_name)).into(),
            );
            rule.insert("key".to_owned(), key.into());
        }
        if !is_requests {
            let number: u64 = directive
                .arg(1)
                .parse()
                .map_err(|_| "the number of connections is none".to_owned())?;
            rule.insert("concurrency".to_owned(), number.max(1).into());
            return Ok(rule);
        }
        if let Some(burst) = argument("burst") {
            let burst: u64 = burst.parse().map_err(|_| "the burst is no number".to_owned())?;
            rule.insert("burst".to_owned(), burst.into());
            let delay = argument("delay").and_then(|delay| delay.parse::<u64>().ok());
            match (directive.args.iter().any(|arg| arg == "nodelay"), delay) {
                (true, _) => {}
                (false, Some(delay)) => {
                    rule.insert("delay".to_owned(), delay.into());
                }
                (false, None) => {
                    rule.insert("delay".to_owned(), true.into());
                }
            }
        }
        Ok(rule)
    }

    /// Reads the zones of limits.
    pub fn read_zones(&mut self, place: &Place<'t>) {
        for directive in place.scope.directives() {
            if !matches!(directive.name.as_str(), "limit_req_zone" | "limit_conn_zone") {
                continue;
            }
            let argument = |name: &str| {
                directive
                    .args
                    .iter()
                    .find_map(|arg| arg.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')))
            };
            let zone = argument("zone")
                .unwrap_or_default()
                .split(':')
                .next()
                .unwrap_or_default()
                .to_owned();
            let mut rule = object([("zone", zone_name(&zone).into())]);
            let mut problem = None;
            let is_of_server = names_of(directive.arg(0)).iter().any(|name| name == "server_name");
            match self.value(directive.arg(0), place, &State::default()) {
                _ if is_of_server => {}
                Ok(key) if key.only_variable() == Some("remote_addr") => {}
                Ok(key) => {
                    rule.insert("key".to_owned(), key.render().into());
                }
                Err(reason) => problem = Some(reason),
            }
            if directive.name == "limit_req_zone" {
                let rate = argument("rate").unwrap_or_default();
                let rate = rate
                    .strip_suffix("r/s")
                    .map(|n| (n, "s"))
                    .or_else(|| rate.strip_suffix("r/m").map(|n| (n, "m")));
                match rate
                    .filter(|(number, _)| number.parse::<u64>().is_ok_and(|number| number > 0))
                {
                    Some((number, unit)) => {
                        rule.insert("rate".to_owned(), format!("{number}/{unit}").into());
                    }
                    None => problem = Some("the rate is none of nginx's".to_owned()),
                }
            }
            match &problem {
                None => self.report.converted(directive.id),
                Some(reason) => {
                    self.report.mark(directive.id, Status::NotConverted, reason.clone())
                }
            }
            let key_of_server = is_of_server.then(|| directive.arg(0).to_owned());
            self.zones
                .insert((directive.name.clone(), zone), Zone { rule, key_of_server, problem });
        }
    }
}
