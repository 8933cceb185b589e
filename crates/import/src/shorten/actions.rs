//! The actions of a document, and the destinations that it passes requests to.

use serde_json::Value;

use super::Object;

/// Returns the destinations of requests, each as often as the document names it.
pub fn targets(document: &Value) -> impl Iterator<Item = &str> {
    let mut found = Vec::new();
    collect(document, &mut found);
    found.into_iter()
}

fn collect<'d>(value: &'d Value, found: &mut Vec<&'d str>) {
    match value {
        Value::String(text) if text.starts_with("routes/") || text.starts_with("applications/") => {
            found.push(text);
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        Value::Object(members) => members.values().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// Calls a function with each place of a document that names a destination of requests.
pub fn each_target(document: &mut Value, change: &mut dyn FnMut(&mut String)) {
    for (section, key) in [
        ("listeners", "pass"),
        ("applications", "internal_redirect"),
        ("upstreams", "internal_redirect"),
    ] {
        for member in members(document, section) {
            if let Some(Value::String(target)) = member.get_mut(key) {
                change(target);
            }
            let named = member.get_mut("named_redirects").and_then(Value::as_object_mut);
            for (_, target) in named.into_iter().flatten() {
                if let Value::String(target) = target {
                    change(target);
                }
            }
        }
    }
    each_action(document, &mut |action| {
        for key in ["pass", "scripts"] {
            if let Some(Value::String(target)) = action.get_mut(key) {
                change(target);
            }
        }
    });
}

/// Calls a function with each action of a document, inner ones too.
pub fn each_action(document: &mut Value, change: &mut dyn FnMut(&mut Object)) {
    let Some(routes) = document.get_mut("routes").and_then(Value::as_object_mut) else { return };
    for step in routes.values_mut().filter_map(Value::as_array_mut).flatten() {
        within(step.get_mut("action"), change);
    }
}

fn within(action: Option<&mut Value>, change: &mut dyn FnMut(&mut Object)) {
    let Some(Value::Object(action)) = action else { return };
    change(action);
    within(action.get_mut("fallback"), change);
    for key in ["auth_request", "mirror"] {
        match action.get_mut(key) {
            Some(Value::Array(all)) => {
                all.iter_mut().for_each(|one| within(one.get_mut("action"), change));
            }
            Some(one) => within(one.get_mut("action"), change),
            None => {}
        }
    }
    let pages = action.get_mut("error_pages").and_then(Value::as_object_mut);
    for (_, page) in pages.into_iter().flatten() {
        within(page.get_mut("action"), change);
    }
}

/// Returns the objects of a section.
fn members<'d>(document: &'d mut Value, section: &str) -> impl Iterator<Item = &'d mut Object> {
    let section = document.get_mut(section).and_then(Value::as_object_mut);
    section.into_iter().flat_map(|section| section.values_mut()).filter_map(Value::as_object_mut)
}

/// Returns true if a value has the group of a regular expression, such as `$1`.
pub fn has_captures(value: &Value) -> bool {
    match value {
        Value::String(text) => text.match_indices('$').any(|(at, _)| {
            let rest = text[at + 1..].trim_start_matches('{');
            rest.starts_with(|c: char| c.is_ascii_digit())
        }),
        Value::Array(values) => values.iter().any(has_captures),
        Value::Object(members) => members.values().any(has_captures),
        _ => false,
    }
}
