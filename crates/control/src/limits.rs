//! `limits` in `/status`: counters of limits, and the clients that are refused most.

use serde_json::{Map, Value, json};

/// Counters of a zone, since it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitStatus {
    /// Name of the zone, or path of the rule in the document.
    pub name: String,
    /// Requests that its rules are about.
    pub requests: u64,
    /// Requests that had to wait.
    pub delayed: u64,
    /// Refused requests.
    pub refused: u64,
    /// Refused requests that were not answered.
    pub closed: u64,
    /// Requests that a dry run would have refused.
    pub dry_run: u64,
    /// Penalties that began.
    pub penalties: u64,
    /// Keys that are remembered.
    pub keys: u64,
    /// Requests whose key was not kept because there were too many.
    pub untracked: u64,
    /// Keys with the most refusals, those with most first.
    pub top: Vec<RefusedKey>,
}

/// A key with refusals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedKey {
    /// The key.
    pub key: String,
    /// Refusals, at most.
    pub refused: u64,
    /// Number by which `refused` may be too high.
    pub error: u64,
    /// Seconds since the last refusal.
    pub seconds: u64,
}

/// Returns the zones by their names.
pub(crate) fn to_value(limits: &[LimitStatus]) -> Value {
    let zone = |limit: &LimitStatus| {
        let top = limit.top.iter().map(|ranked| {
            json!({
                "key": ranked.key,
                "refused": ranked.refused,
                "error": ranked.error,
                "seconds": ranked.seconds,
            })
        });
        let value = json!({
            "requests": limit.requests,
            "delayed": limit.delayed,
            "refused": limit.refused,
            "closed": limit.closed,
            "dry_run": limit.dry_run,
            "penalties": limit.penalties,
            "keys": limit.keys,
            "untracked": limit.untracked,
            "top": top.collect::<Vec<_>>(),
        });
        (limit.name.clone(), value)
    };
    limits.iter().map(zone).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_its_counters_and_its_most_refused_keys() {
        let top = vec![RefusedKey { key: "192.0.2.1".into(), refused: 9, error: 1, seconds: 2 }];
        let limit = LimitStatus {
            name: "login".into(),
            requests: 20,
            refused: 9,
            top,
            ..LimitStatus::default()
        };
        let value = to_value(&[limit]);
        assert_eq!(value["login"]["refused"], 9);
        assert_eq!(value["login"]["top"][0]["key"], "192.0.2.1");
        assert_eq!(value["login"].as_object().map(Map::len), Some(9));
    }
}
