//! The hosts of a document, and the routes of each.

use serde_json::{Value, json};

/// A host with the route of its requests.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Host {
    /// The names; `*` alone for all.
    pub(super) names: Vec<String>,
    /// The name of its route; empty for the one without a name.
    pub(super) route: String,
    /// The `tls` of its listener, if it has one with TLS.
    tls: Option<Value>,
    /// Why there is no site.
    problem: Option<String>,
}

impl Host {
    /// The name of the site.
    pub(super) fn name(&self) -> String {
        let usable = self.names.iter().find(|name| !name.starts_with('~') && *name != "*");
        let text = usable.map_or(self.route.as_str(), |name| name.trim_start_matches("*."));
        let is_valid = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.');
        let name: String = text.chars().map(|one| if is_valid(one) { one } else { '-' }).collect();
        match name.trim_matches(['.', '-']) {
            "" | "sites" | "default" => "site".to_owned(),
            name => name.to_owned(),
        }
    }

    /// Returns `https` of the site.
    pub(super) fn https(&self) -> Result<Value, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        if let Some(name) = self.names.iter().find(|name| name.starts_with(['~', '!'])) {
            return Err(format!("it has names by a pattern: {name}"));
        }
        let Some(tls) = &self.tls else { return Ok(json!(false)) };
        let certificate = match &tls["certificate"] {
            Value::Array(all) if all.len() == 1 => &all[0],
            Value::Array(_) => return Err("its listener has several certificates".to_owned()),
            one => one,
        };
        match (certificate["chain"].as_str(), certificate["key"].as_str()) {
            (Some(chain), Some(key)) => Ok(json!({ "certificate": chain, "key": key })),
            _ => Err("its certificate is not in files".to_owned()),
        }
    }
}

/// Returns the hosts of all listeners, each route once.
pub(super) fn hosts(document: &Value) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for (_, listener) in document["listeners"].as_object().into_iter().flatten() {
        let pass = listener["pass"].as_str().unwrap_or_default();
        let Some(route) = route_of(pass) else { continue };
        let tls = listener.get("tls").cloned();
        for (names, route, problem) in of_route(document, route) {
            if is_redirect_to_https(document, &route) {
                continue;
            }
            match hosts.iter_mut().find(|host| host.route == route) {
                Some(known) => {
                    // A name in place of all names: the default server of a listener.
                    if known.names == ["*"] {
                        known.names.clear();
                    }
                    let is_new = |name: &String| !known.names.contains(name);
                    let more: Vec<String> = names.into_iter().filter(is_new).collect();
                    if known.names.is_empty() || more != ["*"] {
                        known.names.extend(more);
                    }
                    known.tls = known.tls.take().or(tls.clone());
                    known.problem = known.problem.take().or(problem);
                }
                None => hosts.push(Host { names, route, tls: tls.clone(), problem }),
            }
        }
    }
    hosts
}

fn route_of(pass: &str) -> Option<&str> {
    if pass == "routes" { Some("") } else { pass.strip_prefix("routes/") }
}

fn steps<'a>(document: &'a Value, route: &str) -> &'a [Value] {
    let steps = match &document["routes"] {
        routes @ Value::Array(_) => routes.as_array(),
        routes => routes[route].as_array(),
    };
    steps.map_or(&[], Vec::as_slice)
}

/// Returns the names, the route and the problem of each host of a listener's route.
fn of_route(document: &Value, route: &str) -> Vec<(Vec<String>, String, Option<String>)> {
    let (last, others) = match steps(document, route).split_last() {
        Some((last, others)) if !others.is_empty() => (last, others),
        _ => return vec![(vec!["*".to_owned()], route.to_owned(), None)],
    };
    let mut found = Vec::new();
    for step in others.iter().chain([last]) {
        let names = match step["match"].as_object() {
            Some(conditions) if conditions.len() == 1 => match &conditions.get("host") {
                Some(Value::String(name)) => vec![name.clone()],
                Some(Value::Array(names)) => {
                    names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
                }
                _ => Vec::new(),
            },
            None if step == last => vec!["*".to_owned()],
            _ => Vec::new(),
        };
        let target = step["action"]["pass"].as_str().and_then(route_of);
        let Some(target) = target.filter(|_| !names.is_empty()) else {
            // It chooses by other conditions than the host: the route is that of one host.
            return vec![(vec!["*".to_owned()], route.to_owned(), None)];
        };
        let option =
            step["action"].as_object().and_then(|all| all.keys().find(|key| *key != "pass"));
        let problem = option.map(|key| format!("it has \"{key}\""));
        // The default server has names of its own.
        let is_known = found.iter().any(|(_, known, _): &(_, String, _)| known == target);
        if !(names == ["*"] && is_known) {
            found.push((names, target.to_owned(), problem));
        }
    }
    found
}

/// Returns true for a route that only leads to HTTPS, as a site with HTTPS does by itself.
fn is_redirect_to_https(document: &Value, route: &str) -> bool {
    match steps(document, route) {
        [step] => {
            let action = &step["action"];
            action["return"].as_u64().is_some_and(|status| matches!(status, 301 | 302 | 307 | 308))
                && action["location"].as_str() == Some("https://$host$request_uri")
        }
        _ => false,
    }
}
