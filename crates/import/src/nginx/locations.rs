//! The choice of a location, as steps of which the first that holds counts.
//!
//! nginx takes an exact location first. Otherwise the longest prefix decides whether expressions
//! count: those of locations within it first, then those beside it in their order. So prefixes with
//! locations within them, and those with `^~`, stand in front of the expressions of their level,
//! without the paths that a longer prefix has; other prefixes stand behind the expressions.

use std::rc::Rc;

use serde_json::{Value, json};

use super::context::{Kind, Location, Place};
use super::convert::Converter;
use super::pcre::NO_EQUIVALENT;
use super::state::{Captures, State};
use super::steps::{object, path_pattern, patterns, step, uri};
use super::template::Template;
use super::variables::Object;
use crate::Status;

/// A level of locations that is converted.
struct Level<'l, 't> {
    place: &'l Place<'t>,
    state: &'l State,
    /// The request is an internal one.
    is_internal: bool,
}

impl<'t> Converter<'_> {
    /// Returns the steps that choose a location of a server.
    pub fn selection(&mut self, place: &Place<'t>, state: &State, is_internal: bool) -> Vec<Value> {
        let Some(site) = place.site.clone() else { return Vec::new() };
        let level = Level { place, state, is_internal };
        let mut steps = self.level(&level, &site.locations, &[]);
        if steps.last().is_none_or(|last| last.get("match").is_some()) {
            let own = self.server_action(&level);
            steps.push(step(Object::new(), own));
        }
        steps
    }

    /// Returns the steps of a level; `outer` are those of expressions around it. What they do not
    /// decide is for the location around the level.
    fn level(
        &mut self,
        level: &Level<'_, 't>,
        locations: &[Rc<Location<'t>>],
        outer: &[Value],
    ) -> Vec<Value> {
        let mut steps = Vec::new();
        let exact = locations.iter().filter(|location| location.kind == Kind::Exact);
        for location in exact.clone() {
            let conditions = uri(path_pattern(&location.name), &[]);
            steps.push(step(conditions, self.location_action(level, location)));
        }
        let regexes = self.regex_steps(level, locations);
        let mut prefixes: Vec<_> = locations
            .iter()
            .filter(|location| matches!(location.kind, Kind::Prefix | Kind::Forced))
            .collect();
        prefixes.sort_by_key(|location| std::cmp::Reverse(location.name.len()));
        for location in &prefixes {
            let Some(short) = location.name.strip_suffix('/').filter(|short| !short.is_empty())
            else {
                continue;
            };
            let is_taken = locations
                .iter()
                .any(|other| other.name == short && !matches!(other.kind, Kind::Regex { .. }));
            if !is_taken && self.is_passed_on(location) {
                let action = object([
                    ("return", 301.into()),
                    ("location", location.name.clone().into()),
                    ("keep_query", true.into()),
                ]);
                steps.push(step(uri(path_pattern(short), &[]), action));
            }
        }
        let is_special = |location: &Location<'_>| {
            let regexes_count = !regexes.is_empty() || !outer.is_empty();
            !location.inner.is_empty() || location.kind == Kind::Forced && regexes_count
        };
        for (place, location) in prefixes.iter().enumerate() {
            if !is_special(location) {
                continue;
            }
            let mut accepted = vec![prefix_pattern(&location.name)];
            for longer in &prefixes[..place] {
                if longer.name.starts_with(&location.name) && !is_special(longer) {
                    accepted.push(format!("!{}", prefix_pattern(&longer.name)));
                }
            }
            let mut behind =
                if location.kind == Kind::Forced { Vec::new() } else { regexes.clone() };
            behind.extend_from_slice(outer);
            let own = self.location_action(level, location);
            let action = if location.inner.is_empty() && behind.is_empty() {
                own
            } else {
                let mut inner = self.level(level, &location.inner, &behind);
                inner.push(step(Object::new(), own));
                let hint = self.route_hint(level, location, "inner");
                self.pass_to(&hint, inner)
            };
            steps.push(step(object([("uri", patterns(accepted))]), action));
        }
        steps.extend(regexes.iter().cloned());
        steps.extend_from_slice(outer);
        for location in &prefixes {
            if !is_special(location) {
                let action = self.location_action(level, location);
                let conditions = if location.name == "/" {
                    Object::new()
                } else {
                    uri(prefix_pattern(&location.name), &[])
                };
                steps.push(step(conditions, action));
            }
        }
        steps
    }

    fn regex_steps(&mut self, level: &Level<'_, 't>, locations: &[Rc<Location<'t>>]) -> Vec<Value> {
        let mut steps = Vec::new();
        for location in locations {
            let Kind::Regex { expression, superset } = &location.kind else { continue };
            let Some(expression) = expression else {
                let own =
                    location.scope.own("return").and_then(|own| own.arg(0).parse::<u16>().ok());
                let status = own.filter(|status| (400..600).contains(status)).unwrap_or(403);
                let reason =
                    format!("{NO_EQUIVALENT}; all paths that it may match are refused ({status})");
                self.report.mark(location.directive.id, Status::NotConverted, reason);
                let conditions = match superset {
                    Some(superset) => uri(format!("~{}", superset.text), &[]),
                    None => Object::new(),
                };
                self.skip_all(
                    location.directive.children(),
                    "the place of the location is refused",
                );
                steps.push(step(conditions, object([("return", status.into())])));
                continue;
            };
            let mut inner_state = level.state.clone();
            let captures = Captures {
                subject: Template::variable("uri"),
                expression: expression.clone(),
                is_direct: false,
            };
            self.set_captures(&mut inner_state, captures);
            let own_level = Level { state: &inner_state, ..*level };
            let own = self.location_action(&own_level, location);
            let action = if location.inner.is_empty() {
                own
            } else {
                let mut inner = self.level(&own_level, &location.inner, &[]);
                inner.push(step(Object::new(), own));
                let hint = self.route_hint(level, location, "inner");
                self.pass_to(&hint, inner)
            };
            steps.push(step(uri(format!("~{}", expression.text), &expression.excluded), action));
        }
        steps
    }

    /// Returns the action for requests of a location.
    fn location_action(&mut self, level: &Level<'_, 't>, location: &Rc<Location<'t>>) -> Object {
        self.report.converted(location.directive.id);
        let place = level.place.in_location(location);
        if location.is_internal() {
            if let Some(directive) = location.scope.one("internal") {
                self.report.converted(directive.id);
            }
            if !level.is_internal {
                return self.returned(&place, level.state, 404);
            }
        }
        self.location_steps(&place, level.state)
    }

    /// Returns the action for what happens in a location once it is chosen.
    pub fn location_steps(&mut self, place: &Place<'t>, state: &State) -> Object {
        let Some(location) = &place.location else { return Object::new() };
        let key = (
            std::ptr::from_ref(location.directive) as usize,
            place.variant.clone(),
            state.captures.clone(),
        );
        if let Some(action) = self.converted_locations.get(&key) {
            return action.clone();
        }
        let hint = format!(
            "{}-{}",
            place.site.as_ref().map_or("", |site| &site.name),
            slug(&location.name)
        );
        let steps = self.rewrites_of_location(place, state);
        let action = self.pass_to(&hint, steps);
        self.converted_locations.insert(key, action.clone());
        action
    }

    /// Returns the action for requests without a location.
    fn server_action(&mut self, level: &Level<'_, 't>) -> Object {
        let steps = self.content(level.place, level.state);
        let hint = format!("{}-files", level.place.site.as_ref().map_or("", |site| &site.name));
        self.pass_to(&hint, steps)
    }

    /// Returns true if the requests of a location are passed to another server. Then nginx
    /// redirects its path without the slash.
    fn is_passed_on(&self, location: &Location<'_>) -> bool {
        ["proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass", "grpc_pass"]
            .iter()
            .any(|name| location.scope.own(name).is_some())
    }

    fn route_hint(&self, level: &Level<'_, '_>, location: &Location<'_>, kind: &str) -> String {
        let site = level.place.site.as_ref().map_or("", |site| &site.name);
        let internal = if level.is_internal { "-internal" } else { "" };
        format!("{site}-{}-{kind}{internal}", slug(&location.name))
    }

    /// Makes a route of steps, unless they are a single action.
    pub fn pass_to(&mut self, hint: &str, steps: Vec<Value>) -> Object {
        if let Some(action) = super::steps::only_action(&steps) {
            return action.clone();
        }
        let name = self.add_route(hint, steps);
        object([("pass", json!(format!("routes/{name}")))])
    }
}

fn prefix_pattern(name: &str) -> String {
    format!("{}*", path_pattern(name))
}

/// Returns a part of a name for a route.
pub fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() >= 32 {
            break;
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "root".to_owned() } else { out.to_owned() }
}
