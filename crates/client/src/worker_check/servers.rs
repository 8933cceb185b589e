//! The documents of the two servers that are compared, in which one application runs in the classic
//! mode and in worker mode.

use serde_json::{Map, Value, json};

use crate::copies;

/// Chooses the application that is compared: the one that `name` names, the only resident one, or
/// the only one. Error: which there are.
pub(super) fn application(document: &Value, name: Option<&str>) -> Result<String, String> {
    let none = Map::new();
    let all = document["applications"].as_object().unwrap_or(&none);
    if let Some(name) = name {
        return if all.contains_key(name) {
            Ok(name.to_owned())
        } else {
            Err(format!("there is no application \"{name}\"{}", listed(all)))
        };
    }
    let resident = |(_, application): &(&String, &Value)| !is_classic(&application["worker"]);
    let mut chosen: Vec<_> = all.iter().filter(resident).map(|(name, _)| name).collect();
    if chosen.is_empty() {
        chosen = all.keys().collect();
    }
    match chosen.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err("the server has no PHP application".to_owned()),
        _ => Err(format!("name the application with --application{}", listed(all))),
    }
}

fn listed(applications: &Map<String, Value>) -> String {
    let names: Vec<_> = applications.keys().map(|name| format!("\"{name}\"")).collect();
    format!("; there is {}", names.join(", "))
}

/// Returns true for `worker` of an application that loads its code for each request.
pub(super) fn is_classic(worker: &Value) -> bool {
    matches!(worker, Value::Null | Value::Bool(false))
}

/// Returns the documents of both copies: the application in the classic mode, and in worker mode
/// with `script`, if it is given. In place of the listeners, both have the one with this port.
pub(super) fn documents(
    running: &Value,
    name: &str,
    port: u16,
    script: Option<&str>,
) -> Result<[Value; 2], String> {
    let mut copy = copies::document(running, port)?;
    let application = &mut copy["applications"][name];
    application["processes"] = json!(2);
    let mut classic = copy.clone();
    let without = &mut classic["applications"][name];
    let worker = without.as_object_mut().and_then(|app| app.remove("worker")).unwrap_or_default();
    let is_missing = |script: &Value| script.is_null();
    if without["targets"].is_null() && is_missing(&without["script"]) && !is_classic(&worker) {
        return Err(format!(
            "the application \"{name}\" has no \"script\" for the classic mode beside its \
             \"worker\"; add it, it does not change the worker mode"
        ));
    }
    let resident = &mut copy["applications"][name];
    let front = resident.get_mut("targets").and_then(remove_scripts);
    let resident = &mut resident["worker"];
    match script.or(front.as_deref()) {
        Some(script) => *resident = json!({"script": script}),
        None if is_classic(resident) => *resident = json!(true),
        None => {}
    }
    if let Some(resident) = resident.as_object_mut() {
        resident.remove("watch");
        resident.remove("fallback");
    }
    Ok([classic, copy])
}

/// Removes the scripts of targets, for which there is none in worker mode, and returns the first of
/// them.
fn remove_scripts(targets: &mut Value) -> Option<String> {
    let targets = targets.as_object_mut().into_iter().flat_map(Map::values_mut);
    let scripts: Vec<_> = targets
        .filter_map(|target| {
            let target = target.as_object_mut()?;
            target.remove("index");
            target.remove("script")?.as_str().map(str::to_owned)
        })
        .collect();
    scripts.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Value {
        json!({
            "listeners": {"*:80": {"pass": "routes"}, "*:443": {"pass": "routes", "tls": {}}},
            "access_log": "/var/log/a",
            "applications": {
                "shop": {"type": "php", "root": "/s", "script": "index.php",
                    "worker": {"script": "w.php", "watch": "."}},
                "blog": {"type": "php", "root": "/b", "isolation": {"cgroup": {"path": "b"}},
                    "jobs": {"queue": {"command": ["php", "queue"]}}},
            },
            "settings": {"probes": {"listen": "*:9000"}, "telemetry": {}},
        })
    }

    #[test]
    fn the_copies_differ_in_the_worker_alone() {
        let [classic, resident] = documents(&running(), "shop", 443, None).unwrap();
        assert_eq!(classic["applications"]["shop"]["worker"], Value::Null);
        assert_eq!(resident["applications"]["shop"]["worker"], json!({"script": "w.php"}));
        for copy in [&classic, &resident] {
            assert_eq!(copy["listeners"]["pass"], "routes");
            assert!(copy["listeners"]["tls"].is_null() && copy["access_log"].is_null());
            assert_eq!(copy["applications"]["shop"]["processes"], 2);
            assert_eq!(copy["applications"]["blog"]["isolation"], json!({}));
            assert!(copy["applications"]["blog"]["jobs"].is_null(), "none runs twice");
            assert_eq!(copy["settings"], json!({}));
        }
        let [_, given] = documents(&running(), "shop", 80, Some("other.php")).unwrap();
        assert_eq!(given["applications"]["shop"]["worker"], json!({"script": "other.php"}));
        assert!(documents(&running(), "shop", 81, None).unwrap_err().contains("port 81"));
        let mut with_targets = running();
        with_targets["applications"]["shop"] = json!({
            "type": "php",
            "targets": {"direct": {"root": "/s"}, "front": {"root": "/s", "script": "index.php"}},
        });
        let [classic, resident] = documents(&with_targets, "shop", 80, None).unwrap();
        assert_eq!(classic["applications"]["shop"]["targets"]["front"]["script"], "index.php");
        assert_eq!(resident["applications"]["shop"]["worker"], json!({"script": "index.php"}));
        assert_eq!(resident["applications"]["shop"]["targets"]["front"], json!({"root": "/s"}));
        let [_, given] = documents(&with_targets, "shop", 80, Some("w.php")).unwrap();
        assert_eq!(given["applications"]["shop"]["worker"], json!({"script": "w.php"}));
        let mut without = running();
        without["applications"]["shop"].as_object_mut().unwrap().remove("script");
        assert!(documents(&without, "shop", 80, None).unwrap_err().contains("classic mode"));
    }

    #[test]
    fn the_application_is_the_named_one_the_resident_one_or_the_only_one() {
        assert_eq!(application(&running(), None).unwrap(), "shop");
        assert_eq!(application(&running(), Some("blog")).unwrap(), "blog");
        assert!(
            application(&running(), Some("x")).unwrap_err().contains("\"blog\", \"shop\"")
                || application(&running(), Some("x")).unwrap_err().contains("\"shop\", \"blog\"")
        );
        let mut classic = running();
        classic["applications"]["shop"]["worker"] = json!(false);
        assert!(application(&classic, None).unwrap_err().contains("--application"));
        assert!(application(&json!({}), None).unwrap_err().contains("no PHP application"));
    }
}
