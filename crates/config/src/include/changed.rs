//! Changes of parts of a document that files own.

use std::cmp::Reverse;

use serde_json::Value;

use super::INCLUDED;
use super::places::PLACES;
use crate::definitions::LEFT_OUT;
use crate::node::split_path;

/// The members that the server makes when it reads files.
const MADE: [&str; 3] = [INCLUDED, LEFT_OUT, PLACES];

/// Returns the parts of an expanded document that come from files and that a change makes
/// different, with the file of each. `after` is the document after the change; a missing `included`
/// is that of `before`.
pub fn changed<'a>(before: &'a Value, after: &mut Value) -> Vec<(&'a str, &'a str)> {
    let Some(included) = before.get(INCLUDED) else {
        // Only the server makes it: it reads the files that are named there.
        let is_new = MADE.iter().any(|name| after.get(*name).is_some());
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
        return innermost(parts, before, after);
    }
    for name in MADE {
        let (Some(members), Some(own)) = (after.as_object_mut(), before.get(name)) else {
            continue;
        };
        members.entry(name).or_insert_with(|| own.clone());
    }
    if MADE.iter().all(|name| after.get(*name) == before.get(*name)) {
        return Vec::new();
    }
    vec![("/included", "the files of the document")]
}

/// Leaves out the parts that differ only by other parts in them: a section of several files belongs
/// to the first of them, and differs with each part of the others.
fn innermost<'a>(
    parts: Vec<(&'a str, &'a str)>,
    before: &Value,
    after: &Value,
) -> Vec<(&'a str, &'a str)> {
    let (mut before, mut after) = (before.clone(), after.clone());
    let mut by_depth: Vec<_> = parts.iter().map(|(part, _)| split_path(part)).enumerate().collect();
    by_depth.sort_by_key(|(_, steps)| Reverse(steps.len()));
    let mut differs = vec![false; parts.len()];
    for (index, steps) in by_depth {
        if at(&before, &steps) != at(&after, &steps) {
            differs[index] = true;
            hide(&mut before, &steps);
            hide(&mut after, &steps);
        }
    }
    parts.into_iter().zip(differs).filter_map(|(part, differs)| differs.then_some(part)).collect()
}

/// Removes a member from its object, or replaces an element of an array by null.
pub(super) fn hide(document: &mut Value, steps: &[String]) {
    let Some((last, steps)) = steps.split_last() else { return };
    let parent = steps.iter().try_fold(document, |part, step| match part {
        Value::Array(elements) => elements.get_mut(step.parse::<usize>().ok()?),
        part => part.get_mut(step),
    });
    match parent {
        Some(Value::Object(members)) => drop(members.remove(last)),
        Some(Value::Array(elements)) => {
            if let Some(element) = last.parse().ok().and_then(|at: usize| elements.get_mut(at)) {
                *element = Value::Null;
            }
        }
        _ => {}
    }
}

/// Returns the part of a document with this path.
pub(super) fn at<'a>(document: &'a Value, steps: &[String]) -> Option<&'a Value> {
    steps.iter().try_fold(document, |part, step| match part {
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        part => part.get(step),
    })
}
