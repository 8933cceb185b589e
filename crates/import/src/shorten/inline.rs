//! A route that a single step leads to moves into the place of the step.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Object, actions, names};

/// Maximum number of steps that get the conditions of the step in their place.
const MAX_STEPS: usize = 3;

/// Maximum length of conditions that several steps get, in bytes.
const MAX_CONDITIONS: usize = 100;

/// Moves routes into steps. Returns true if there were any.
pub fn inline(document: &mut Value) -> bool {
    let mut uses: HashMap<String, usize> = HashMap::new();
    for target in actions::targets(document) {
        *uses.entry(target.to_owned()).or_default() += 1;
    }
    let fixed = names::fixed(document);
    let Some(routes) = document.get_mut("routes").and_then(Value::as_object_mut) else {
        return false;
    };
    let before = routes.len();
    let all: Vec<String> = routes.keys().cloned().collect();
    for name in all {
        let Some(steps) = routes.get_mut(&name).map(Value::take) else { continue };
        let Value::Array(steps) = steps else { continue };
        let mut moved = Vec::new();
        let mut rest = steps.as_slice();
        while let [step, behind @ ..] = rest {
            rest = behind;
            let inner = names::target(step)
                .filter(|target| !fixed.contains(*target))
                .filter(|target| uses.get(&format!("routes/{target}")) == Some(&1))
                .and_then(|target| Some((target, joined(step, routes.get(target)?, behind)?)));
            match inner {
                Some((target, inner)) => {
                    routes.shift_remove(target);
                    moved.extend(inner);
                }
                None => moved.push(step.clone()),
            }
        }
        routes.insert(name, moved.into());
    }
    routes.len() != before
}

/// Returns the steps of a route with the conditions of the step that leads to it. Steps with which
/// both routes end are left out.
fn joined(step: &Value, route: &Value, behind: &[Value]) -> Option<Vec<Value>> {
    let mut steps = route.as_array()?.clone();
    let is_last = |step: &Value| step.get("match").is_none();
    if !behind.is_empty() && steps.ends_with(behind) {
        steps.truncate(steps.len() - behind.len());
    } else if !steps.last().is_some_and(is_last) {
        // Requests that no step is for are not for the steps behind either.
        steps.push(json!({ "action": { "return": 404 } }));
    }
    let Some(outer) = step.get("match").and_then(Value::as_object) else { return Some(steps) };
    let text = step["match"].to_string();
    if steps.len() > MAX_STEPS || (steps.len() > 1 && text.len() > MAX_CONDITIONS) {
        return None;
    }
    let is_regex = text.contains("\"~") || text.contains("\"!~");
    let with_outer = |step: Value| {
        let empty = Object::new();
        let inner = step.get("match").and_then(Value::as_object).unwrap_or(&empty);
        let mut all = outer.clone();
        for (key, value) in inner {
            if all.insert(key.clone(), value.clone()).is_some_and(|other| other != *value) {
                return None;
            }
        }
        // The groups would be those of another expression.
        (!is_regex || !actions::has_captures(&step["action"]))
            .then(|| json!({ "match": all, "action": step["action"] }))
    };
    steps.into_iter().map(with_outer).collect()
}
