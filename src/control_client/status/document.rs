//! What is out of order in the document.

use serde_json::Value;

/// Returns lines about the document in a response of `/status`; none if it is in order. They may have control
/// characters.
pub(super) fn problems(status: &Value) -> Vec<String> {
    let member = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut lines = Vec::new();
    if let Some(refused) = status.pointer("/document/refused") {
        lines.push(format!(
            "document on disk refused since {}, another one is served: {}",
            member(refused, "since"),
            member(refused, "reason")
        ));
    }
    let left_out = status.pointer("/document/left_out").and_then(Value::as_object);
    for (file, about) in left_out.into_iter().flatten() {
        let consequence = match about.get("former") {
            Some(Value::Bool(true)) => "its former content is served",
            _ => "requests for what it defines get 503",
        };
        lines.push(format!(
            "{} is left out since {} ({consequence}): {}",
            file,
            member(about, "since"),
            member(about, "reason")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_out_of_order_is_told_in_lines() {
        assert_eq!(problems(&json!({"connections": {}})), [""; 0]);
        let left_out = json!({"/a.json": {"since": "T", "reason": "bad", "former": true}});
        let refused = json!({"since": "S", "reason": "why"});
        let lines = problems(&json!({"document": {"refused": refused, "left_out": left_out}}));
        assert!(lines[0].starts_with("document on disk refused since S, "), "{lines:?}");
        assert!(lines[1].starts_with("/a.json is left out since T (its former"), "{lines:?}");
    }
}
