//! Routes stand in the order in which requests come to them.

use std::collections::HashMap;

use serde_json::Value;

use super::{Object, actions};

/// Puts each route behind the first step that leads to it.
pub fn order(document: &mut Value) {
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut open: Vec<String> = Vec::new();
    for section in ["listeners", "applications", "upstreams"] {
        let named: Vec<&str> = actions::targets(&document[section]).collect();
        open.extend(named.into_iter().rev().map(str::to_owned));
        while let Some(target) = open.pop() {
            let Some(name) = target.strip_prefix("routes/") else { continue };
            if first.contains_key(name) {
                continue;
            }
            first.insert(name.to_owned(), first.len());
            let inner: Vec<&str> = actions::targets(&document["routes"][name]).collect();
            open.extend(inner.into_iter().rev().map(str::to_owned));
        }
    }
    if let Some(Value::Object(routes)) = document.get_mut("routes") {
        let mut all: Vec<(String, Value)> = std::mem::take(routes).into_iter().collect();
        all.sort_by_key(|(name, _)| first.get(name).copied().unwrap_or(usize::MAX));
        *routes = all.into_iter().collect::<Object>();
    }
}
