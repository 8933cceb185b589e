//! An application as a part of a site.

use serde_json::{Map, Value, json};

/// Returns the members of a site that say what an application with this root does.
pub(super) fn members(application: &Value, root: &str) -> Result<Map<String, Value>, String> {
    let Some(application) = application.as_object() else {
        return Err("its application is missing".to_owned());
    };
    let (mut site, mut php) = (Map::new(), Map::new());
    for (key, value) in application {
        match key.as_str() {
            "type" => match value.as_str().and_then(|kind| kind.strip_prefix("php")) {
                Some("") => {}
                Some(version) => drop(php.insert("version".into(), version.trim().into())),
                None => return Err("its PHP is that of another server".to_owned()),
            },
            "user" | "group" | "environment" => drop(site.insert(key.clone(), value.clone())),
            "processes" => drop(php.insert(key.clone(), value.clone())),
            "root" if value.as_str().is_some_and(|one| one.trim_end_matches('/') == root) => {}
            "options" => php.extend(options(value)?),
            "limits" => limits(value)?,
            "limit_extensions" if *value == json!([".php"]) => {}
            // Of scripts in several places, the root was compared before.
            "targets" | "script" | "index" => {}
            // A site finds files of X-Accel-Redirect in no route; the command says so.
            "internal_redirect" => {}
            key => return Err(format!("its application has \"{key}\"")),
        }
    }
    if !php.is_empty() {
        site.insert("php".into(), php.into());
    }
    Ok(site)
}

fn options(options: &Value) -> Result<Map<String, Value>, String> {
    let mut php = Map::new();
    for (key, value) in options.as_object().into_iter().flatten() {
        match key.as_str() {
            "admin" => drop(php.insert("ini".into(), value.clone())),
            "extensions" => drop(php.insert(key.clone(), value.clone())),
            // A site has the php.ini of Howdah's PHP; the command says so.
            "file" => {}
            _ => return Err("scripts can change its settings of PHP (php_value)".to_owned()),
        }
    }
    Ok(php)
}

/// Accepts the limits that no response depends on.
fn limits(limits: &Value) -> Result<(), String> {
    let usual = ["slow", "slow_log", "requests"];
    let key = limits.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    match key.into_iter().find(|key| !usual.contains(key)) {
        Some(key) => Err(format!("its application has the limit \"{key}\"")),
        None => Ok(()),
    }
}
