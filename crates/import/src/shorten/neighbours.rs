//! Steps one behind the other with the same action, or the same conditions, become one.

use serde_json::{Value, json};

use super::{Object, actions};

/// Conditions that take a list of patterns.
const PATTERNS: [&str; 2] = ["host", "uri"];

/// Merges steps. Returns true if there were any.
pub fn merge(document: &mut Value) -> bool {
    let Some(routes) = document.get_mut("routes").and_then(Value::as_object_mut) else {
        return false;
    };
    let mut has_merged = false;
    for steps in routes.values_mut().filter_map(Value::as_array_mut) {
        let before = steps.len();
        let mut merged: Vec<Value> = Vec::new();
        for step in steps.drain(..) {
            let same = merged.last().and_then(|last| one_of(last, &step));
            match same {
                Some(one) => {
                    merged.pop();
                    merged.push(one);
                }
                None => merged.push(step),
            }
        }
        has_merged |= merged.len() != before;
        *steps = merged;
    }
    has_merged
}

/// Returns the step in place of two.
fn one_of(first: &Value, second: &Value) -> Option<Value> {
    if first.get("match").is_none() || first.get("match") == second.get("match") {
        // No request comes to the second.
        return Some(first.clone());
    }
    if first["action"] != second["action"] || actions::has_captures(&first["action"]) {
        return None;
    }
    let (Some(one), Some(other)) = (first.get("match"), second.get("match")) else {
        // Without conditions, the second is for the requests of the first, too.
        return second.get("match").is_none().then(|| second.clone());
    };
    let conditions = either(one.as_object()?, other.as_object()?)?;
    Some(json!({ "match": conditions, "action": first["action"] }))
}

/// Returns conditions for the requests of both, which differ in the patterns of one condition.
fn either(one: &Object, other: &Object) -> Option<Object> {
    let mut differing = one.iter().filter(|(key, value)| other.get(*key) != Some(value));
    let (key, value) = differing.next()?;
    let is_alone = differing.next().is_none() && one.len() == other.len();
    if !is_alone || !PATTERNS.contains(&key.as_str()) {
        return None;
    }
    let mut patterns = accepted(value)?;
    for pattern in accepted(other.get(key)?)? {
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    let mut all = one.clone();
    all.insert(key.clone(), patterns.into());
    Some(all)
}

/// Returns the patterns of a condition, unless it excludes some.
fn accepted(value: &Value) -> Option<Vec<Value>> {
    let patterns = match value {
        Value::Array(patterns) if !patterns.is_empty() => patterns.clone(),
        Value::String(_) => vec![value.clone()],
        _ => return None,
    };
    let excludes = |pattern: &Value| pattern.as_str().is_none_or(|text| text.starts_with('!'));
    (!patterns.iter().any(excludes)).then_some(patterns)
}
