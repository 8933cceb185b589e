//! Changes of parts of a document that files own.

use serde_json::Value;

use super::INCLUDED;
use crate::node::split_path;

/// Returns the parts of an expanded document that come from files and that a change makes different,
/// with the file of each. `after` is the document after the change; a missing `included` is that of
/// `before`.
pub fn changed<'a>(before: &'a Value, after: &mut Value) -> Vec<(&'a str, &'a str)> {
    let Some(included) = before.get(INCLUDED) else {
        // Only the server makes it: it reads the files that are named there.
        let is_new = after.get(INCLUDED).is_some();
        return if is_new { vec![("/included", "the files of the document")] } else { Vec::new() };
    };
    let named = included.as_object().into_iter().flatten();
    let differs = |(part, _): &(&String, &Value)| {
        let steps = split_path(part);
        at(before, &steps) != at(after, &steps)
    };
    let parts = named.filter(differs);
    let parts: Vec<_> =
        parts.map(|(part, file)| (part.as_str(), file.as_str().unwrap_or_default())).collect();
    if !parts.is_empty() {
        return parts;
    }
    match after.as_object_mut() {
        Some(members) if members.contains_key(INCLUDED) => {}
        Some(members) => drop(members.insert(INCLUDED.to_owned(), included.clone())),
        None => {}
    }
    if after.get(INCLUDED) == Some(included) {
        return Vec::new();
    }
    vec![("/included", "the files of the document")]
}

/// Returns the part of a document with this path.
fn at<'a>(document: &'a Value, steps: &[String]) -> Option<&'a Value> {
    steps.iter().try_fold(document, |part, step| match part {
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        part => part.get(step),
    })
}
