//! Routes with the same steps, and routes that only pass requests on, have one name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::actions;

/// Gives the same routes one name. Returns true if there were any.
pub fn join(document: &mut Value) -> bool {
    let fixed = fixed(document);
    let Some(routes) = document["routes"].as_object() else { return false };
    let mut known: HashMap<String, &str> = HashMap::new();
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    let mut all: Vec<(&String, &Value)> = routes.iter().collect();
    // The shortest of several names stays.
    all.sort_by_key(|(name, _)| name.len());
    for (name, steps) in all {
        if fixed.contains(name) {
            continue;
        }
        if let Some(other) = passes_to(steps).filter(|other| *other != name) {
            renamed.insert(name.clone(), other.to_owned());
            continue;
        }
        // A route that leads to itself is the same as another one that leads to itself.
        let own = Value::from(format!("routes/{name}")).to_string();
        let text = steps.to_string().replace(&own, "itself");
        match known.get(&text) {
            Some(other) => {
                renamed.insert(name.clone(), (*other).to_owned());
            }
            None => {
                known.insert(text, name);
            }
        }
    }
    let ends: BTreeMap<String, String> = renamed
        .keys()
        .filter_map(|name| {
            Some((format!("routes/{name}"), format!("routes/{}", end(name, &renamed)?)))
        })
        .collect();
    if ends.is_empty() {
        return false;
    }
    actions::each_target(document, &mut |target| {
        if let Some(other) = ends.get(target) {
            target.clone_from(other);
        }
    });
    if let Some(routes) = document.get_mut("routes").and_then(Value::as_object_mut) {
        routes.retain(|name, _| !ends.contains_key(&format!("routes/{name}")));
    }
    true
}

/// Returns the routes that stay: those with a file of messages, and those whose name is written in
/// another way where it is a destination.
pub fn fixed(document: &Value) -> BTreeSet<String> {
    let of = |section: &str| document[section].as_object().into_iter().flatten();
    let logs = of("error_logs").map(|(name, _)| name);
    let encoded = of("routes").map(|(name, _)| name).filter(|name| name.contains(['/', '%', '$']));
    logs.chain(encoded).cloned().collect()
}

/// Returns the route that steps pass all requests to, as they are.
fn passes_to(steps: &Value) -> Option<&str> {
    match steps.as_array()?.as_slice() {
        [step] if step.get("match").is_none() => target(step),
        _ => None,
    }
}

/// Returns the route that a step passes requests to, with no other option.
pub fn target(step: &Value) -> Option<&str> {
    let action = step["action"].as_object().filter(|action| action.len() == 1)?;
    action.get("pass")?.as_str()?.strip_prefix("routes/")
}

/// Returns the last of the names that a name leads to; `None` for a circle.
fn end<'n>(name: &'n str, renamed: &'n BTreeMap<String, String>) -> Option<&'n str> {
    let mut end = renamed.get(name)?;
    for _ in 0..renamed.len() {
        match renamed.get(end) {
            Some(next) => end = next,
            None => return Some(end),
        }
    }
    None
}
