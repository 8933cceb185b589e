//! Parts of a document that Howdah refuses: they are taken out, and what depends on them is closed.

use std::collections::BTreeMap;

use howdah_config::{Config, Defaults, Unknown, split_path};
use serde_json::Value;

use super::languages::close_passes;
use super::{Marks, closed};
use crate::{Report, Status};

/// Maximum number of times that a document is read.
const MAX_ROUNDS: usize = 100;

/// Members of an application without which it still answers the same requests, and closes the same.
const LOOSE: [&str; 6] = ["limits", "processes", "options", "environment", "stdout", "stderr"];

/// Takes out parts until Howdah accepts the document. An error is a message.
pub(super) fn repair(
    document: &mut Value,
    marks: &Marks,
    report: &mut Report,
) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..MAX_ROUNDS {
        let Err(error) = Config::check(document, &Defaults::default()) else { return Ok(()) };
        last = error.to_string();
        // Parts may be gone with the part of an earlier error: its path leads nowhere then.
        for error in [&error].into_iter().chain(error.others()) {
            let mut path = split_path(error.path());
            if path.is_empty() && error.unknown().is_none() {
                return Err(last);
            }
            let unknown = match error.unknown() {
                Some(Unknown::Key { name, .. }) => Some(name.clone()),
                _ => None,
            };
            path.extend(unknown);
            let reason = match error.hint() {
                Some(hint) => format!("Howdah refuses it: {}; {hint}", error.message()),
                None => format!("Howdah refuses it: {}", error.message()),
            };
            // If there is no such member, it is a mistake of the object around it.
            marks.mark_only(&path, Status::NotConverted, &reason, report);
            marks.mark(&path, Status::NotConverted, &reason, report);
            take_out(document, &path, marks, report);
        }
    }
    Err(last)
}

/// Takes out the part at a path, or closes what depends on it.
fn take_out(document: &mut Value, path: &[String], marks: &Marks, report: &mut Report) {
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    match keys[..] {
        ["listeners", address] => {
            if document["listeners"][address].is_object() && is_address(address) {
                close(document, address, marks, report);
            } else {
                remove(document, path);
            }
        }
        ["listeners", address, "tls", "conf_commands", ..] => {
            remove(document, &path_of(&["listeners", address, "tls", "conf_commands"]));
        }
        // Who a client is, how it is asked for, and where its requests go decide who gets in.
        ["listeners", address, "tls" | "pass" | "forwarded" | "client_ip" | "application", ..] => {
            close(document, address, marks, report);
        }
        ["listeners", address, key, ..] => {
            remove(document, &path_of(&["listeners", address, key]));
        }
        ["routes", ..] => in_routes(document, path, marks, report),
        ["applications" | "upstreams", _] => section(document, path, marks, report),
        ["applications", _, key, ..] if LOOSE.contains(&key) => remove(document, path),
        ["applications" | "upstreams", _, _, ..] => section(document, &path[..2], marks, report),
        ["settings", _, ..] => remove(document, path),
        ["access_log", "format" | "if", ..] => remove(document, &path[..2]),
        [first, ..] => remove(document, &path_of(&[first])),
        [] => {}
    }
}

fn path_of(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

/// Returns true if Howdah can listen at an address.
fn is_address(address: &str) -> bool {
    let mut document = serde_json::json!({ "listeners": {}, "routes": [] });
    document["listeners"][address] = serde_json::json!({ "pass": "routes" });
    Config::check(&document, &Defaults::default()).is_ok()
}

fn close(document: &mut Value, address: &str, marks: &Marks, report: &mut Report) {
    let reason = "requests of this listener get 503, as a part of it cannot be kept";
    let path = path_of(&["listeners", address]);
    marks.mark(&path, Status::NotConverted, reason, report);
    closed::close_listener(document, address);
}

/// Takes out an application or a group of servers, and closes what passes requests to it.
fn section(document: &mut Value, path: &[String], marks: &Marks, report: &mut Report) {
    let reason = "Howdah refuses a part of it, so the document does not have it";
    marks.mark(path, Status::NotConverted, reason, report);
    remove(document, path);
    let removed = BTreeMap::from([(path[1].clone(), "is not in the document".to_owned())]);
    close_passes(document, &path[0], &removed, marks, report);
}

/// Takes out a part of a step. A condition without which a step would be for more requests is
/// taken out, too: then the step refuses them.
fn in_routes(document: &mut Value, path: &[String], marks: &Marks, report: &mut Report) {
    // The step is `routes/N` or `routes/NAME/N`.
    let length = if document["routes"].is_array() { 2 } else { 3 };
    if path.len() < length {
        return remove(document, path);
    }
    let (step_path, inside) = path.split_at(length);
    let Some(step) = at(document, step_path) else { return };
    if !step.is_object() {
        return remove(document, step_path);
    }
    let keys: Vec<&str> = inside.iter().map(String::as_str).collect();
    match keys[..] {
        ["match", ..] => {
            let condition = &path[..path.len().min(length + 2)];
            let reason = "a condition of this step cannot be kept, so the step refuses all \
                          requests that meet the others";
            let action = [step_path, &["action".to_owned()]].concat();
            marks.mark(&action, Status::NotConverted, reason, report);
            step["action"] = closed::action();
            remove(document, condition);
        }
        ["action", ..] => in_action(document, path, length, marks, report),
        [_, ..] => remove(document, &path[..=length]),
        [] => step["action"] = closed::action(),
    }
}

/// Takes out fields of responses, and closes the action for other parts of it.
fn in_action(
    document: &mut Value,
    path: &[String],
    length: usize,
    marks: &Marks,
    report: &mut Report,
) {
    let fields = path.iter().skip(length).position(|key| key == "response_headers");
    if let Some(at) = fields {
        // One field, or all.
        return remove(document, &path[..path.len().min(length + at + 2)]);
    }
    let mut end = length + 1;
    while path.get(end).is_some_and(|key| key == "fallback") {
        end += 1;
    }
    let reason = "a part of the action cannot be kept, so it refuses all requests";
    marks.mark(&path[..end], Status::NotConverted, reason, report);
    if let Some(action) = at(document, &path[..end]) {
        *action = closed::action();
    }
}

/// Returns the part at a path.
fn at<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, key| match value {
        Value::Object(object) => object.get_mut(key),
        Value::Array(array) => array.get_mut(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Takes out the part at a path. An element of an array would move those behind it: the whole
/// array is taken out.
fn remove(document: &mut Value, path: &[String]) {
    let Some((key, around)) = path.split_last() else { return };
    match at(document, around) {
        Some(Value::Object(object)) => drop(object.shift_remove(key)),
        Some(Value::Array(_)) => remove(document, around),
        _ => {}
    }
}
