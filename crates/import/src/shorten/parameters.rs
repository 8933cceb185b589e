//! Variables that all requests to a FastCGI server get stand in its application.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Object, actions};

/// Moves variables of actions to the applications of type `fastcgi` that they pass requests to.
pub fn share(document: &mut Value) {
    let mut shared: BTreeMap<String, Object> = BTreeMap::new();
    let names = document["applications"].as_object().into_iter().flatten();
    for (name, application) in names {
        if application["type"] == "fastcgi" {
            shared.insert(name.clone(), Object::new());
        }
    }
    let mut seen: BTreeMap<String, bool> = BTreeMap::new();
    let mut of_others: Vec<String> = Vec::new();
    actions::each_action(document, &mut |action| {
        let own = action.get("environment").and_then(Value::as_object).cloned().unwrap_or_default();
        match application(action) {
            Some(name) => {
                let Some(common) = shared.get_mut(name) else { return };
                if seen.insert(name.to_owned(), true).is_none() {
                    common.extend(own.into_iter().filter(|(_, value)| is_constant(value)));
                } else {
                    common.retain(|key, value| own.get(key) == Some(value));
                }
            }
            // Variables of several actions add up.
            None => of_others.extend(own.keys().cloned()),
        }
    });
    for (name, common) in &mut shared {
        let params = document["applications"][name.as_str()]["params"].as_object();
        common.retain(|key, _| {
            !of_others.contains(key) && !params.is_some_and(|params| params.contains_key(key))
        });
    }
    actions::each_action(document, &mut |action| {
        let Some(common) = application(action).and_then(|name| shared.get(name)) else { return };
        let Some(own) = action.get_mut("environment").and_then(Value::as_object_mut) else {
            return;
        };
        own.retain(|key, _| !common.contains_key(key));
        if own.is_empty() {
            action.shift_remove("environment");
        }
    });
    for (name, common) in shared {
        let Some(application) = document["applications"][&name].as_object_mut() else { continue };
        if common.is_empty() {
            continue;
        }
        match application.get_mut("params").and_then(Value::as_object_mut) {
            Some(params) => params.extend(common),
            None => {
                application.insert("params".to_owned(), common.into());
            }
        }
    }
}

/// Returns the application that an action passes requests to.
fn application(action: &Object) -> Option<&str> {
    let target = action.get("pass").or(action.get("scripts"))?.as_str()?;
    let name = target.strip_prefix("applications/")?;
    Some(name.split('/').next().unwrap_or(name))
}

/// Returns true for a text without variables that is not empty.
fn is_constant(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty() && !text.contains('$'))
}
