//! `preset` of a rule: keys for a common case, which the rule's own keys replace.

use serde_json::Value;

use super::LIMIT;
use crate::error::Error;
use crate::node::{Node, quoted};
use crate::suggest::nearest;

/// Names and keys.
const PRESETS: [(&str, &str); 4] = [
    ("login", include_str!("preset/login.json")),
    ("search", include_str!("preset/search.json")),
    ("api", include_str!("preset/api.json")),
    ("crawlers", include_str!("preset/crawlers.json")),
];

/// Returns a rule with the keys of its preset; `None` if it has none.
pub(super) fn merge(node: &Node<'_>) -> Result<Option<Value>, Error> {
    let object = node.object(&LIMIT)?;
    let Some(preset) = object.optional("preset") else { return Ok(None) };
    let name = preset.string()?;
    let names = PRESETS.map(|(name, _)| name);
    let Some((_, keys)) = PRESETS.into_iter().find(|(known, _)| *known == name) else {
        let error = preset.invalid(format_args!("must be {}", quoted(&names)));
        return Err(match nearest(name, names) {
            Some(meant) => error.with_hint(format!("did you mean \"{meant}\"?")),
            None => error,
        });
    };
    let mut merged: Value = serde_json::from_str(keys).unwrap_or_default();
    if let (Value::Object(merged), Some(own)) = (&mut merged, node.value.as_object()) {
        merged.extend(own.clone());
    }
    Ok(Some(merged))
}

#[cfg(test)]
mod tests {
    use super::PRESETS;
    use crate::Config;
    use serde_json::json;

    #[test]
    fn every_preset_is_a_valid_rule() {
        for (name, keys) in PRESETS {
            let keys: serde_json::Value = serde_json::from_str(keys).expect(name);
            for rule in [keys, json!({"preset": name})] {
                let action = json!({"return": 200, "limit": rule});
                let config = Config::from_value(json!({"routes": [{"action": action}]}));
                config.expect(name);
            }
        }
    }
}
