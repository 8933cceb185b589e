//! Applications in other languages than PHP.

use std::collections::BTreeMap;

use howdah_config::Target;
use serde_json::Value;

use super::{Marks, closed};
use crate::{Report, Status};

/// Takes out applications that do not run PHP; requests that are passed to them get 503.
pub(super) fn take_out(document: &mut Value, marks: &Marks, report: &mut Report) {
    let mut removed = BTreeMap::new();
    if let Some(applications) = document.get_mut("applications").and_then(Value::as_object_mut) {
        applications.retain(|name, application| {
            let language = application["type"].as_str().unwrap_or("php");
            let language = language
                .trim_end_matches(|one: char| one.is_ascii_digit() || one == '.' || one == ' ');
            if language == "php" {
                return true;
            }
            let reason = format!(
                "Howdah runs PHP: leave this application ({language}) in Unit or another server, \
                 and use \"proxy\""
            );
            let path = ["applications".to_owned(), name.clone()];
            marks.mark(&path, Status::NotConverted, &reason, report);
            removed.insert(name.clone(), format!("runs {language}"));
            false
        });
    }
    close_passes(document, "applications", &removed, marks, report);
}

/// Closes all places that pass requests to members of a section that were taken out. `removed` has
/// the reasons by their names.
pub(super) fn close_passes(
    document: &mut Value,
    section: &str,
    removed: &BTreeMap<String, String>,
    marks: &Marks,
    report: &mut Report,
) {
    if removed.is_empty() {
        return;
    }
    let reason = |pass: &str| {
        let name = match Target::parse(pass)? {
            Target::Application { name, .. } if section == "applications" => name,
            Target::Upstream(name) if section == "upstreams" => name,
            _ => return None,
        };
        let why = removed.get(&name)?;
        Some(format!("\"{name}\" {why}, so these requests get 503"))
    };
    let mut path = vec!["routes".to_owned()];
    if let Some(routes) = document.get_mut("routes") {
        close_actions(routes, &mut path, &reason, marks, report);
    }
    let listeners = document.get("listeners").and_then(Value::as_object);
    let mut closed = Vec::new();
    for (address, listener) in listeners.into_iter().flatten() {
        let pass = listener["pass"].as_str().map(str::to_owned);
        let old = listener["application"]
            .as_str()
            .map(|name| format!("applications/{}", name.replace('%', "%25").replace('/', "%2F")));
        if let Some(reason) = pass.or(old).and_then(|pass| reason(&pass)) {
            let key = if listener.get("pass").is_some() { "pass" } else { "application" };
            let path = ["listeners".to_owned(), address.clone(), key.to_owned()];
            marks.mark_only(&path, Status::NotConverted, &reason, report);
            closed.push(address.clone());
        }
    }
    for address in closed {
        let target = closed::target(document);
        if let Some(listener) = document["listeners"][&address].as_object_mut() {
            listener.remove("application");
            listener.insert("pass".to_owned(), target.into());
        }
    }
}

/// Closes actions below a value for whose `pass` there is a reason.
fn close_actions(
    value: &mut Value,
    path: &mut Vec<String>,
    reason: &impl Fn(&str) -> Option<String>,
    marks: &Marks,
    report: &mut Report,
) {
    if let Some(why) = value.get("pass").and_then(Value::as_str).and_then(reason) {
        let mut pass = path.clone();
        pass.push("pass".to_owned());
        marks.mark_only(&pass, Status::NotConverted, &why, report);
        // Options of the action, such as fields of the response, need not fit a refusal.
        let why = "the action refuses all requests, as its \"pass\" leads nowhere";
        for key in value.as_object().into_iter().flatten().map(|(key, _)| key) {
            pass.pop();
            pass.push(key.clone());
            if key != "pass" {
                marks.mark(&pass, Status::NotConverted, why, report);
            }
        }
        *value = closed::action();
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                path.push(key.clone());
                close_actions(value, path, reason, marks, report);
                path.pop();
            }
        }
        Value::Array(array) => {
            for (index, value) in array.iter_mut().enumerate() {
                path.push(index.to_string());
                close_actions(value, path, reason, marks, report);
                path.pop();
            }
        }
        _ => {}
    }
}
