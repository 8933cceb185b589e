//! Variables in strings in which they are not expanded.

use howdah_config::{Shown, Variable, path, split_name};
use serde_json::Value;

use super::line::{Advice, add, note};

/// Finds variables in all strings of a document in which they are not expanded.
pub(super) fn unfilled(document: &Value, all: &mut Vec<Advice>) {
    let mut keys = Vec::new();
    visit(document, &mut keys, all);
}

/// Finds references to variables of the environment in that of applications, as a shell replaces
/// them.
pub(super) fn of_shells(document: &Value, all: &mut Vec<Advice>) {
    let applications = document.get("applications").and_then(Value::as_object);
    for (application, value) in applications.into_iter().flatten() {
        let environment = value.get("environment").and_then(Value::as_object);
        for (name, text) in environment.into_iter().flatten() {
            let Some(reference) = text.as_str().and_then(shell_reference) else { continue };
            let message = format!(
                "\"{}\" is not replaced, but passed on as it is; write the value itself, or \
                 {{\"env\": \"{}\"}} for that of the server",
                Shown(reference),
                Shown(reference.trim_matches(['$', '{', '}']))
            );
            note(
                all,
                path(["applications", application.as_str(), "environment", name.as_str()]),
                message,
            );
        }
    }
}

/// Returns the first `$NAME` or `${NAME}` of a text, as names of the environment are written.
fn shell_reference(text: &str) -> Option<&str> {
    let starts = text.match_indices('$').filter_map(|(at, _)| text.get(at..));
    starts.into_iter().find_map(|rest| {
        let name = rest.get(1..)?;
        let is_braced = name.starts_with('{');
        let name = name.strip_prefix('{').unwrap_or(name);
        let is_of_name = |c: &u8| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == b'_';
        let length = name.bytes().take_while(is_of_name).count();
        let is_name = length > 1 && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
        let is_closed = !is_braced || name.get(length..).is_some_and(|end| end.starts_with('}'));
        let end = 1 + length + if is_braced { 2 } else { 0 };
        rest.get(..end).filter(|_| is_name && is_closed)
    })
}

/// Checks a value; `keys` lead to it. Recursion is bounded by the depth of the document.
fn visit(value: &Value, keys: &mut Vec<String>, all: &mut Vec<Advice>) {
    match value {
        Value::String(text) if !is_pattern(text, keys) => {
            if let Some(name) = variable(text) {
                let message = format!(
                    "variables are not filled in here, so \"${}\" stands for itself",
                    Shown(name)
                );
                add(all, path(keys.iter()), message);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                keys.push(index.to_string());
                visit(element, keys, all);
                keys.pop();
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                if has_variables(key, keys) {
                    continue;
                }
                keys.push(key.clone());
                visit(member, keys, all);
                keys.pop();
            }
        }
        _ => {}
    }
}

/// Returns true if strings of a key are templates; `parents` are the keys that lead to it.
fn has_variables(key: &str, parents: &[String]) -> bool {
    const TEMPLATES: [&str; 20] = [
        "body",
        "chroot",
        "cookie_domain",
        "cookie_path",
        "environment",
        "format",
        "hash",
        "if",
        "location",
        "params",
        "pass",
        "realm",
        "request_headers",
        "response_headers",
        "rewrite",
        "rewrite_location",
        "scripts",
        "share",
        "try",
        "users_file",
    ];
    let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
    match parents.as_slice() {
        // Names chosen by the user.
        ["applications" | "upstreams" | "listeners" | "routes" | "error_logs"] => false,
        ["variables", ..] => true,
        [.., "limit"] | [.., "limit", _] | [.., "cache"] if key == "key" => true,
        ["applications", _] if key == "environment" => false,
        [.., "match"] if matches!(key, "file" | "directory" | "exists" | "executable") => true,
        ["applications", _, "limits"] if key == "fair" => true,
        [.., "environment" | "targets" | "admin" | "user"] => false,
        ["upstreams", _, "health"] => false,
        ["upstreams", _] => TEMPLATES.contains(&key) || matches!(key, "host" | "headers"),
        _ => TEMPLATES.contains(&key),
    }
}

/// Returns true if a string is a regular expression of a condition, in which `$` is an anchor.
fn is_pattern(text: &str, keys: &[String]) -> bool {
    keys.iter().any(|key| key == "match" || key == "except" || key == "types")
        && text.strip_prefix('!').unwrap_or(text).starts_with('~')
}

/// Returns the name of the first variable in a text. Unknown names after a `$` are text.
fn variable(text: &str) -> Option<&str> {
    let mut references = text.split('$').skip(1);
    references.find_map(|reference| {
        let (name, _) = split_name(reference)?;
        let is_of_nginx = name.starts_with("http_")
            || matches!(name, "document_root" | "request_filename" | "server_name");
        (Variable::named(name).is_some() || is_of_nginx).then_some(name)
    })
}
