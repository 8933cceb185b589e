//! Answers about stored responses.

use std::time::{SystemTime, UNIX_EPOCH};

use howdah_router::process::{EntryReport, UrlReports};
use serde_json::{Map, Value, json};

/// Returns the entries that were requested most, by cache.
pub(super) fn top(caches: &[(String, Vec<EntryReport>)]) -> Value {
    let cache = |(name, entries): &(String, Vec<EntryReport>)| {
        (name.clone(), entries.iter().map(entry).collect::<Vec<_>>().into())
    };
    caches.iter().map(cache).collect::<Map<_, _>>().into()
}

/// Returns what is known about a URL, by cache.
pub(super) fn url(caches: &UrlReports) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let found = caches.iter().map(|(name, report)| {
        let entries: Vec<_> = report.entries.iter().map(entry).collect();
        let mut value = json!({ "entries": entries });
        if report.is_partial {
            value["partial"] = true.into();
        }
        if let Some(last) = &report.last {
            value["last_miss"] = json!({
                "seconds": now.saturating_sub(last.at),
                "status": last.status,
                "cache_status": last.outcome.to_string(),
            });
            if !last.cause.is_empty() {
                value["last_miss"]["decided_by"] = (*last.cause).into();
            }
        }
        (name.clone(), value)
    });
    found.collect::<Map<_, _>>().into()
}

fn entry(report: &EntryReport) -> Value {
    let state = match report {
        EntryReport { is_purged: true, .. } => "purged softly",
        EntryReport { no_cache: true, .. } => "validated before each use",
        EntryReport { ttl, .. } if *ttl > 0 => "fresh",
        _ => "stale",
    };
    let selection = report.selection.iter().map(|(name, value)| (name.clone(), json!(value)));
    let mut value = json!({
        "url": report.url,
        "status": report.status,
        "state": state,
        "requests": report.requests,
        "where": report.stored_in.name(),
        "bytes": report.bytes,
        "age": report.age,
        "ttl": report.ttl,
        "lifetime": report.lifetime,
        "decided_by": report.source.map_or("a validator", |source| source.name()),
        "stale_while_revalidate": report.stale_while_revalidate,
        "stale_if_error": report.stale_if_error,
        "tags": report.tags,
    });
    if !report.selection.is_empty() {
        value["vary"] = selection.collect::<Map<_, _>>().into();
    }
    value
}
