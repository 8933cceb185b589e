//! `pm` and its directives → `processes`.

use serde_json::{Map, Value, json};

use super::super::settings::{Set, Settings};
use crate::{Report, Status};

/// `pm.process_idle_timeout` unless it is set, in seconds.
const DEFAULT_IDLE_TIMEOUT: i64 = 10;

/// Which process managers use a directive.
const USERS: &[(&str, &[&str])] = &[
    ("pm.max_spare_servers", &["dynamic"]),
    ("pm.max_spawn_rate", &["dynamic"]),
    ("pm.min_spare_servers", &["dynamic"]),
    ("pm.process_idle_timeout", &["ondemand"]),
    ("pm.start_servers", &["dynamic"]),
];

/// Returns `processes` of the application; `None` for those that Howdah finds by itself.
pub(super) fn processes(settings: &Settings, report: &mut Report) -> Option<Value> {
    let manager = settings.get("pm");
    let max = settings.get("pm.max_children");
    let (manager, max) = match (manager, max) {
        (Some(manager), Some(max)) if max.number >= 1 => (manager, max),
        (manager, max) => {
            let reason = match (manager, max) {
                (Some(_), Some(_)) => "\"pm.max_children\" must be 1 or more",
                (Some(_), None) => "\"pm.max_children\" is missing",
                (None, _) => "\"pm\" is missing",
            };
            let reason = format!("{reason}, so PHP-FPM does not start; Howdah finds a number");
            for set in manager.into_iter().chain(max) {
                report.mark(set.id, Status::NotConverted, reason.clone());
            }
            return None;
        }
    };
    report.converted(manager.id);
    report.converted(max.id);
    for (name, managers) in USERS {
        if let Some(set) = settings.get(name)
            && !managers.contains(&manager.text.as_str())
        {
            let reason = format!("it has no effect with \"pm = {}\"", manager.text);
            report.mark(set.id, Status::NotNeeded, reason);
        }
    }
    let max = max.number;
    Some(match manager.text.as_str() {
        "static" => json!(max),
        "ondemand" => {
            let timeout = match settings.get("pm.process_idle_timeout") {
                Some(set) if set.number < 1 => {
                    refused(set, "must be 1 second or more", report);
                    DEFAULT_IDLE_TIMEOUT
                }
                Some(set) => {
                    report.converted(set.id);
                    set.number
                }
                None => DEFAULT_IDLE_TIMEOUT,
            };
            json!({ "max": max, "spare": 0, "idle_timeout": timeout })
        }
        _ => Value::Object(dynamic(max, settings, report)),
    })
}

fn dynamic(max: i64, settings: &Settings, report: &mut Report) -> Map<String, Value> {
    let mut bounded =
        |name: &str, low: i64, high: i64, otherwise: i64, meaning: &str| match settings.get(name) {
            Some(set) if (low..=high).contains(&set.number) => {
                report.converted(set.id);
                set.number
            }
            Some(set) => {
                refused(set, meaning, report);
                otherwise
            }
            None => otherwise,
        };
    let spare = bounded(
        "pm.min_spare_servers",
        1,
        max,
        1,
        "must be 1 or more, and at most \"pm.max_children\"",
    );
    let max_spare = bounded(
        "pm.max_spare_servers",
        spare,
        max,
        spare.max(max.min(3)),
        "must be between \"pm.min_spare_servers\" and \"pm.max_children\"",
    );
    // PHP-FPM takes the middle for 0, too.
    let middle = spare + (max_spare - spare) / 2;
    let start = match settings.get("pm.start_servers") {
        Some(set) if set.number <= 0 => middle,
        _ => bounded(
            "pm.start_servers",
            spare,
            max_spare,
            middle,
            "must be between \"pm.min_spare_servers\" and \"pm.max_spare_servers\"",
        ),
    };
    let rate = bounded("pm.max_spawn_rate", 1, i64::MAX, 0, "must be 1 or more");
    if let Some(set) = settings.get("pm.start_servers") {
        report.converted(set.id);
    }
    let mut processes = Map::new();
    processes.insert("max".into(), max.into());
    processes.insert("start".into(), start.into());
    processes.insert("spare".into(), spare.into());
    processes.insert("max_spare".into(), max_spare.into());
    if rate > 0 {
        processes.insert("spawn_rate".into(), rate.into());
    }
    processes
}

fn refused(set: &Set, meaning: &str, report: &mut Report) {
    let reason = format!("the value {meaning}, so PHP-FPM does not start; the document has none");
    report.mark(set.id, Status::NotConverted, reason);
}
