//! Advice on steps that refuse requests without the right field, cookie or argument: a request that
//! has none of the name passes them.

use serde_json::Value;

use howdah_config::{Action, ActionKind, path};

use super::line::{Advice, add};

/// Checks the conditions at `place` of a step with this action. `steps` are all steps of its route.
pub(super) fn of_match(
    place: &str,
    conditions: &Value,
    action: &Action,
    steps: Option<&Value>,
    all: &mut Vec<Advice>,
) {
    if !matches!(&action.kind, ActionKind::Return(answer) if answer.status >= 400) {
        return;
    }
    for (key, variable) in [("headers", "header"), ("cookies", "cookie"), ("arguments", "arg")] {
        let Some(value) = conditions.get(key) else { continue };
        let objects = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let names = objects.iter().filter_map(Value::as_object).flatten();
        for (name, patterns) in names {
            let variable = format!("${variable}_{}", name.replace('-', "_"));
            if !only_excludes(patterns) || considers(steps, &variable) {
                continue;
            }
            let message = "holds only for requests that have it, so a request without it is not \
                           refused; take those that may pass in a step in front, by the pattern \
                           without \"!\", and refuse the others";
            add(all, format!("{place}/{key}{}", path([name.as_str()])), message);
        }
    }
}

/// Returns true if all patterns have a `!`.
fn only_excludes(patterns: &Value) -> bool {
    let is_negative = |pattern: &Value| pattern.as_str().is_some_and(|text| text.starts_with('!'));
    match patterns.as_array() {
        Some(patterns) => !patterns.is_empty() && patterns.iter().all(is_negative),
        None => is_negative(patterns),
    }
}

/// Returns true if a step has an `if` with the variable, whose value is empty without the name.
fn considers(steps: Option<&Value>, variable: &str) -> bool {
    let steps = steps.and_then(Value::as_array).into_iter().flatten();
    let mut conditions = steps.filter_map(|step| step.get("match")?.get("if")?.as_str());
    conditions.any(|text| text.to_ascii_lowercase().contains(&variable.to_ascii_lowercase()))
}
