//! Whether the document that runs is the one on the disk.

use serde_json::Value;

/// Returns a line about the document in a response of `/status`; `None` if it is not refused. It may have
/// control characters.
pub(super) fn refused(status: &Value) -> Option<String> {
    let refused = status.pointer("/document/refused")?;
    let member = |name: &str| refused.get(name).and_then(Value::as_str).unwrap_or_default();
    let (since, reason) = (member("since"), member("reason"));
    Some(format!("document on disk refused since {since}, another one is served: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refused_document_is_told_in_a_line() {
        assert_eq!(refused(&json!({"connections": {}})), None);
        let line = refused(&json!({"document": {"refused": {"since": "S", "reason": "why"}}}));
        assert_eq!(
            line.as_deref(),
            Some("document on disk refused since S, another one is served: why")
        );
    }
}
