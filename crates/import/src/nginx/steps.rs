//! Steps of routes.

use serde_json::{Value, json};

use super::variables::Object;

/// Makes a step with conditions; without any, it always holds.
pub fn step(conditions: Object, action: Object) -> Value {
    if conditions.is_empty() {
        json!({ "action": action })
    } else {
        json!({ "match": conditions, "action": action })
    }
}

/// Makes an object of members.
pub fn object<const N: usize>(members: [(&str, Value); N]) -> Object {
    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the action of steps that are a single one without conditions.
pub fn only_action(steps: &[Value]) -> Option<&Object> {
    match steps {
        [step] if step.get("match").is_none() => step["action"].as_object(),
        _ => None,
    }
}

/// Writes a path for a pattern.
pub fn path_pattern(path: &str) -> String {
    path.replace('%', "%25").replace('*', "%2A")
}

/// Returns patterns as one text or an array.
pub fn patterns(mut patterns: Vec<String>) -> Value {
    match patterns.len() {
        1 => patterns.pop().unwrap_or_default().into(),
        _ => patterns.into(),
    }
}

/// Conditions on the path: this pattern and none of those expressions.
pub fn uri(pattern: String, excluded: &[String]) -> Object {
    let mut all = vec![pattern];
    all.extend(excluded.iter().map(|expression| format!("!~{expression}")));
    object([("uri", patterns(all))])
}

/// Writes a path so that it can be a part of a `rewrite`.
pub fn path_text(path: &str) -> String {
    let mut out = String::new();
    for c in path.chars() {
        match c {
            '%' => out.push_str("%25"),
            '#' => out.push_str("%23"),
            c => out.push(c),
        }
    }
    out
}
