//! `howdah cache`: purges, counters, the most requested pages, and the state of a URL.

use howdah_questions::{CacheEntry, CacheStatus, CachedUrl, Named, Status};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{CacheArgs, CacheCommand, PurgeArgs};
use crate::client::{Client, encode};
use crate::failure::Failure;
use crate::output::{json_text, print_outcome, printable, write_out};
use crate::status::{columns, size};

/// Runs a command.
pub(super) fn run(client: &Client, args: CacheArgs) -> Result<(), Failure> {
    let name = args.name.as_deref();
    let path = |action: &str| {
        let name = name.map_or("*".to_owned(), encode);
        format!("/control/caches/{name}/{action}")
    };
    match args.command {
        CacheCommand::Purge(purge) => {
            for body in bodies(&purge) {
                let done = client.request("POST", &path("purge"), body.to_string().as_bytes());
                print_outcome(&done?)?;
            }
            Ok(())
        }
        CacheCommand::Stat { json } => {
            let mut caches = client.get::<Status>("/status")?.caches;
            caches.retain(|known, _| name.is_none_or(|name| name == known));
            write_out(&if json { json_text(&to_value(&caches)) } else { stat(&caches) })
        }
        CacheCommand::Top { number, json } => {
            let mut top: Named<Vec<CacheEntry>> = client.get(&path("top"))?;
            top.values_mut().for_each(|entries| entries.truncate(number));
            write_out(&if json { json_text(&to_value(&top)) } else { table_of_top(&top) })
        }
        CacheCommand::Inspect { url, json } => {
            let target = path("inspect") + "/" + &encode(&url);
            let found = client.request("GET", &target, b"")?;
            write_out(&if json { json_text(&found) } else { explain(&url, &client.read(found)?) })
        }
    }
}

/// Returns an answer as a value.
fn to_value(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

/// Returns the requests of a purge.
fn bodies(purge: &PurgeArgs) -> Vec<Value> {
    let PurgeArgs { urls, prefix, host, tag, all, soft } = purge;
    let mut bodies: Vec<_> = urls.iter().map(|url| json!({ "url": url })).collect();
    bodies.extend(prefix.iter().map(|prefix| json!({ "prefix": prefix })));
    match (tag.is_empty(), host) {
        (false, Some(host)) => bodies.push(json!({ "tags": tag, "host": host })),
        (false, None) => bodies.push(json!({ "tags": tag })),
        (true, Some(host)) => bodies.push(json!({ "host": host })),
        (true, None) => {}
    }
    if *all {
        bodies.push(json!({ "all": true }));
    }
    if *soft {
        bodies.iter_mut().for_each(|body| body["soft"] = true.into());
    }
    bodies
}

const NO_CACHE: &str = "The configuration has no \"cache\".\n";

/// Returns the table of caches.
fn stat(caches: &Named<CacheStatus>) -> String {
    if caches.is_empty() {
        return NO_CACHE.to_owned();
    }
    let headings = [
        "CACHE",
        "HIT RATIO",
        "MEMORY",
        "OF",
        "ENTRIES",
        "HITS",
        "STALE",
        "COLLAPSED",
        "MISSES",
        "BYPASSED",
        "STORED",
        "REFUSED",
        "PURGES",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for (name, cache) in caches {
        let hits = u128::from(cache.hits) + u128::from(cache.stale) + u128::from(cache.collapsed);
        let ratio = match hits + u128::from(cache.misses) {
            0 => "-".to_owned(),
            all => format!("{} %", hits * 100 / all),
        };
        let CacheStatus { entries, hits, stale, collapsed, misses, bypassed, .. } = cache;
        let CacheStatus { stored, refused, purges, .. } = cache;
        let counters = [entries, hits, stale, collapsed, misses, bypassed, stored, refused, purges];
        let sizes = [printable(name), ratio, size(cache.bytes), size(cache.memory)];
        rows.push(sizes.into_iter().chain(counters.map(ToString::to_string)).collect());
    }
    columns(&rows, &[0])
}

/// Returns the table of the most requested pages.
fn table_of_top(caches: &Named<Vec<CacheEntry>>) -> String {
    let all = caches.iter().flat_map(|(name, entries)| entries.iter().map(move |one| (name, one)));
    let mut pages: Vec<_> = all.collect();
    if pages.is_empty() {
        return "No page is stored.\n".to_owned();
    }
    pages.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.requests));
    let heading = ["REQUESTS", "STATUS", "AGE", "TTL", "SIZE", "IN", "CACHE", "PAGE"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(pages.into_iter().map(|(name, entry)| {
        vec![
            entry.requests.to_string(),
            entry.status.to_string(),
            entry.age.to_string(),
            entry.ttl.to_string(),
            size(entry.bytes),
            printable(&entry.stored_in),
            printable(name),
            printable(&entry.url),
        ]
    }));
    columns(&rows, &[5, 6, 7])
}

/// Returns the state of a URL, in words.
fn explain(url: &str, caches: &Named<CachedUrl>) -> String {
    let mut text = String::new();
    for (name, found) in caches {
        text.extend(found.entries.iter().map(|entry| describe(name, entry)));
        if found.partial {
            text += "The disk has more pages than could be searched in a second.\n";
        }
        let Some(last) = &found.last_miss else { continue };
        text += &format!(
            "The last request that cache \"{}\" did not answer was {} seconds ago, with status \
             {}:\n  {}\n",
            printable(name),
            last.seconds,
            last.status,
            printable(&last.cache_status),
        );
        if !last.decided_by.is_empty() {
            text += &format!("  decided by {}\n", printable(&last.decided_by));
        }
    }
    if !text.is_empty() {
        return text;
    }
    format!(
        "Nothing is stored for {0}, and no request for it is remembered. Request it, with the \
         same host and query, and try again. If there is still nothing, no action with \"cache\" \
         answers it: the response has no field Cache-Status then.\n",
        printable(url)
    )
}

fn describe(cache: &str, entry: &CacheEntry) -> String {
    let mut text = format!(
        "Stored in cache \"{}\": status {}, {}, asked for {} times.\n",
        printable(cache),
        entry.status,
        printable(&entry.state),
        entry.requests,
    );
    text += &match entry.ttl {
        ttl @ 1.. => format!("  {} seconds old, fresh for {ttl} more", entry.age),
        ttl => format!("  {} seconds old, expired {} seconds ago", entry.age, ttl.unsigned_abs()),
    };
    text += &format!("; lifetime of {} by {}\n", entry.lifetime, printable(&entry.decided_by));
    for (name, seconds) in [
        ("while it is refreshed", entry.stale_while_revalidate),
        ("if it cannot be refreshed", entry.stale_if_error),
    ] {
        if seconds > 0 {
            text += &format!("  sent stale for {seconds} seconds {name}\n");
        }
    }
    for (name, value) in &entry.vary {
        let value = value.as_deref().map_or("(absent)".to_owned(), printable);
        text += &format!("  only for requests with {}: {value}\n", printable(name));
    }
    let place = match &*entry.stored_in {
        "disk" => "on the disk",
        "memory and disk" => "in memory, and on the disk",
        _ => "in memory",
    };
    text + &format!("  {} {place}, {} tags\n", size(entry.bytes), entry.tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_purge_is_one_request() {
        let text = |text: &str| text.to_owned();
        let purge = PurgeArgs {
            urls: vec![text("a.org/1"), text("a.org/2")],
            prefix: vec![text("a.org/b/")],
            host: Some(text("a.org")),
            tag: vec![text("x"), text("y")],
            all: false,
            soft: true,
        };
        let expected = [
            json!({"url": "a.org/1", "soft": true}),
            json!({"url": "a.org/2", "soft": true}),
            json!({"prefix": "a.org/b/", "soft": true}),
            json!({"tags": ["x", "y"], "host": "a.org", "soft": true}),
        ];
        assert_eq!(bodies(&purge), expected);
    }

    #[test]
    fn caches_are_a_table_with_their_hit_ratios() {
        let caches = json!({"default": {
            "entries": 3, "bytes": 2 << 20, "memory": 64 << 20, "hits": 97, "stale": 1, "misses": 2
        }});
        let text = stat(&read(caches));
        assert!(text.contains("98 %") && text.contains("64 MB"), "{text}");
        assert_eq!(stat(&Named::default()), NO_CACHE);
    }

    #[test]
    fn a_url_is_explained_without_commands_for_the_terminal() {
        let found = json!({"a": {
            "entries": [{
                "status": 200, "state": "fresh", "requests": 5, "age": 10, "ttl": 50,
                "lifetime": 60,
                "decided_by": "max-age of Cache-Control", "vary": {"foo\u{1b}": "1"}
            }],
            "last_miss": {
                "seconds": 3, "status": 200, "cache_status": "Howdah; fwd=uri-miss",
                "decided_by": "Set-Cookie: sid\u{1b}"
            }
        }});
        let text = explain("a.org/", &read(found));
        for part in
            ["fresh for 50 more", "by max-age of Cache-Control", "decided by Set-Cookie: sid"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains('\u{1b}'));
        assert!(explain("a.org/", &read(json!({"a": {"entries": []}}))).contains("Request it"));
    }

    #[test]
    fn the_most_requested_page_of_all_caches_is_first() {
        let page = |url: &str, requests: u64| json!({"url": url, "requests": requests, "bytes": 1});
        let top = json!({"a": [page("a.org/1", 5)], "b": [page("b.org/2", 9), page("b.org/3", 1)]});
        let text = table_of_top(&read(top));
        let places = ["b.org/2", "a.org/1", "b.org/3"].map(|page| text.find(page).unwrap());
        assert!(places.is_sorted(), "{text}");
    }
}
