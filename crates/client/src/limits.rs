//! `howdah limits top`: the limits and the clients that they refuse most, as tables.

use howdah_questions::{LimitStatus, Named, RefusedKey};

use crate::output::printable;
use crate::status::columns;

/// Returns the tables for the limits of `/status`.
pub(super) fn table(limits: &Named<LimitStatus>) -> String {
    if limits.is_empty() {
        return "The configuration has no \"limit\".\n".to_owned();
    }
    let headings =
        ["LIMIT", "REQUESTS", "DELAYED", "REFUSED", "CLOSED", "DRY RUN", "PENALTIES", "KEYS"];
    let mut zones = vec![headings.map(str::to_owned).to_vec()];
    let mut keys = Vec::new();
    for (name, zone) in limits {
        let LimitStatus {
            requests, delayed, refused, closed, dry_run, penalties, keys: count, ..
        } = zone;
        let numbers = [requests, delayed, refused, closed, dry_run, penalties, count];
        let numbers = numbers.map(ToString::to_string);
        zones.push(std::iter::once(printable(name)).chain(numbers).collect());
        keys.extend(zone.top.iter().map(|key| (name, key)));
    }
    let mut text = columns(&zones, &[0]);
    if !keys.is_empty() {
        keys.sort_by_key(|(_, key)| std::cmp::Reverse(key.refused));
        let mut rows = vec![["REFUSED", "KEY", "LIMIT", "LAST"].map(str::to_owned).to_vec()];
        rows.extend(keys.into_iter().map(|(name, RefusedKey { key, refused, seconds, .. })| {
            let last = format!("{seconds} s ago");
            vec![refused.to_string(), printable(key), printable(name), last]
        }));
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
        let limits = json!({
            "login": {"requests": 30, "refused": 7,
                "top": [key("192.0.2.1", 5), key("192.0.2.2\u{1b}", 2)]},
            "/routes/0/action/limit": {"requests": 9, "refused": 6, "top": [key("example.org", 6)]},
        });
        let text = table(&serde_json::from_value(limits).unwrap());
        let places: Vec<_> = ["example.org", "192.0.2.1", "192.0.2.2"]
            .map(|key| text.find(key).expect("listed"))
            .to_vec();
        assert!(places.is_sorted() && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("LIMIT") && text.contains("login"), "{text}");
        assert!(table(&Named::default()).contains("no \"limit\""));
    }
}
