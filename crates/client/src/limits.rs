//! `howdah limits top`: the limits and the clients that they refuse most, as tables.

use serde_json::Value;

use crate::output::printable;
use crate::status::columns;

/// Columns of zones: heading and member.
const ZONE: [(&str, &str); 7] = [
    ("REQUESTS", "requests"),
    ("DELAYED", "delayed"),
    ("REFUSED", "refused"),
    ("CLOSED", "closed"),
    ("DRY RUN", "dry_run"),
    ("PENALTIES", "penalties"),
    ("KEYS", "keys"),
];

/// Returns the tables for a response of `/status`.
pub(super) fn table(status: &Value) -> String {
    let limits = status.get("limits").and_then(Value::as_object);
    let Some(limits) = limits.filter(|limits| !limits.is_empty()) else {
        return "The configuration has no \"limit\".\n".to_owned();
    };
    let number = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_u64).map_or("-".to_owned(), |number| number.to_string())
    };
    let heading = std::iter::once("LIMIT").chain(ZONE.map(|(heading, _)| heading));
    let mut zones = vec![heading.map(str::to_owned).collect::<Vec<_>>()];
    let mut keys = Vec::new();
    for (name, zone) in limits {
        let numbers = ZONE.map(|(_, member)| number(zone, member));
        zones.push(std::iter::once(printable(name)).chain(numbers).collect());
        for key in zone.get("top").and_then(Value::as_array).into_iter().flatten() {
            let text = key.get("key").and_then(Value::as_str).unwrap_or_default();
            let refused = key.get("refused").and_then(Value::as_u64).unwrap_or(0);
            let row = vec![
                refused.to_string(),
                printable(text),
                printable(name),
                format!("{} s ago", number(key, "seconds")),
            ];
            keys.push((refused, row));
        }
    }
    let mut text = columns(&zones, &[0]);
    if !keys.is_empty() {
        keys.sort_by_key(|(refused, _)| std::cmp::Reverse(*refused));
        let mut rows = vec![["REFUSED", "KEY", "LIMIT", "LAST"].map(str::to_owned).to_vec()];
        rows.extend(keys.into_iter().map(|(_, row)| row));
        text.push('\n');
        text.push_str(&columns(&rows, &[1, 2]));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_keys_with_the_most_refusals_are_first_whatever_their_limit() {
        let key = |key: &str, refused: u64| json!({"key": key, "refused": refused, "seconds": 3});
        let status = json!({"limits": {
            "login": {"requests": 30, "refused": 7, "top": [key("192.0.2.1", 5), key("192.0.2.2\u{1b}", 2)]},
            "/routes/0/action/limit": {"requests": 9, "refused": 6, "top": [key("example.org", 6)]},
        }});
        let text = table(&status);
        let places: Vec<_> = ["example.org", "192.0.2.1", "192.0.2.2"]
            .map(|key| text.find(key).expect("listed"))
            .to_vec();
        assert!(places.is_sorted() && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("LIMIT") && text.contains("login"), "{text}");
        assert!(table(&json!({})).contains("no \"limit\""));
    }
}
