//! Rules for the index files of directories.
//!
//! Apache asks the rules for the path of a directory, then for each of its index files. Routes serve an index file
//! without asking again, so steps for directories come between the rules and the files: those of rules that are
//! found in the path of an index file.

use serde_json::{Map, Value, json};

use crate::entry::with_fields;
use crate::matching::Match;
use crate::residual::{Directories, directories};
use crate::rules::{Action, Step};
use crate::template::literal;
use crate::variants::finds;

const REFUSED: Action = Action::Refuse(403);

/// Returns the steps of each index file: none if no rule holds for one. Those of the first file are the route
/// `{files}-index-0`; behind the last one comes the route `{files}-found`.
pub fn steps(
    rules: &[Step],
    names: &[String],
    files: &str,
    answers: &Map<String, Value>,
) -> Vec<Vec<Value>> {
    let found: Vec<(&String, Vec<(Match, &Action)>)> = { names.iter() }
        .map(|name| {
            let mut all = Vec::new();
            let mut is_stopped = false;
            for rule in rules {
                is_stopped |= rule.action == Action::Stop;
                for matching in &rule.matches {
                    // What holds for some methods only is not asked again.
                    let action = match (&rule.action, matching.method.is_empty()) {
                        (Action::Redirect { .. } | Action::Rewrite { .. }, false) => &REFUSED,
                        (action, _) => action,
                    };
                    let found = variant(matching, name, rule.action == Action::Stop, is_stopped);
                    all.extend(found.map(|matching| (matching, action)));
                }
            }
            (name, all)
        })
        .collect();
    let leads = |(_, action): &(Match, &Action)| **action != Action::Stop;
    if !found.iter().any(|(_, all)| all.iter().any(leads)) {
        return Vec::new();
    }
    let last = found.len() - 1;
    let routes = found.into_iter().enumerate().map(|(number, (name, all))| {
        let next = match number == last {
            true => format!("routes/{files}-found"),
            false => format!("routes/{files}-index-{}", number + 1),
        };
        let mut steps: Vec<Value> = { all.into_iter() }
            .map(|(matching, action)| {
                matching.step(match action {
                    Action::Stop => json!({ "pass": next }),
                    Action::Refuse(status) => with_fields(json!({ "return": status }), answers),
                    // The rule itself says where to.
                    _ => json!({
                        "rewrite": format!("${{uri}}{}", literal(name).replace('%', "%25")),
                        "pass": "routes/main",
                    }),
                })
            })
            .collect();
        steps.push(json!({ "action": { "pass": next } }));
        steps
    });
    routes.collect()
}

/// Returns the conditions on a directory that hold if some hold for its index file. Those for a step that lets
/// requests through must not hold for more. `is_stopped`: such a step stands in front.
fn variant(matching: &Match, name: &str, is_stop: bool, is_stopped: bool) -> Option<Match> {
    let has_method = !matching.method.is_empty();
    if is_stop && has_method {
        return None;
    }
    // Apache looks for the file with GET, then asks again with the method of the request.
    let method = match has_method {
        true if accepts_get(&matching.method) => Vec::new(),
        _ => matching.method.clone(),
    };
    let uri = match matching.uri.is_empty() {
        // The step holds for the directory, and has been asked.
        true if !has_method && !is_stopped => return None,
        true => vec!["*/".to_owned()],
        false => paths(&matching.uri, name, is_stop)?,
    };
    Some(Match { uri, method, ..matching.clone() })
}

fn accepts_get(patterns: &[String]) -> bool {
    let finds_get = |pattern: &str| match pattern.strip_prefix('~') {
        Some(text) => finds(text, "GET"),
        None => pattern == "GET",
    };
    let (excluding, accepting): (Vec<&String>, Vec<&String>) =
        patterns.iter().partition(|pattern| pattern.starts_with('!'));
    (accepting.is_empty() || accepting.iter().any(|pattern| finds_get(pattern)))
        && !excluding.iter().any(|pattern| finds_get(pattern.trim_start_matches('!')))
}

/// Returns patterns of directories; `None` if there are none.
fn paths(patterns: &[String], name: &str, is_stop: bool) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut excluded = Vec::new();
    let mut accepts_all = true;
    for pattern in patterns {
        let (is_negated, text) = match pattern.strip_prefix('!') {
            Some(text) => (true, text),
            None => (false, pattern.as_str()),
        };
        accepts_all &= is_negated;
        // Patterns without an expression are of directories themselves.
        let Some(expression) = text.strip_prefix('~') else { continue };
        match (is_negated, directories(expression, name.as_bytes())) {
            (_, Directories::None) => {}
            (false, Directories::Found(text)) => found.push(format!("~{text}")),
            (true, Directories::Found(text)) => excluded.push(format!("!~{text}")),
            (_, Directories::Unknown) if is_stop => return None,
            (false, Directories::Unknown) => found.push("*/".to_owned()),
            (true, Directories::Unknown) => {}
        }
    }
    if accepts_all {
        found.push("*/".to_owned());
    }
    (!found.is_empty()).then(|| [found, excluded].concat())
}
