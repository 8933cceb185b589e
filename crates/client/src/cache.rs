//! `howdah cache`: purges, counters, the most requested pages, and what is known about a URL.

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
            let mut status = client.request("GET", "/status", b"")?;
            let mut caches = status["caches"].take();
            if let (Some(name), Some(members)) = (name, caches.as_object_mut()) {
                members.retain(|known, _| known == name);
            }
            write_out(&if json { json_text(&caches) } else { stat(&caches) })
        }
        CacheCommand::Top { number, json } => {
            let mut top = client.request("GET", &path("top"), b"")?;
            for entries in top.as_object_mut().into_iter().flat_map(|caches| caches.values_mut()) {
                if let Some(entries) = entries.as_array_mut() {
                    entries.truncate(number);
                }
            }
            write_out(&if json { json_text(&top) } else { table_of_top(&top) })
        }
        CacheCommand::Inspect { url, json } => {
            let target = path("inspect") + "/" + &encode(&url);
            let found = client.request("GET", &target, b"")?;
            write_out(&if json { json_text(&found) } else { explain(&url, &found) })
        }
    }
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

/// Columns of counters: heading and member.
const COUNTERS: [(&str, &str); 9] = [
    ("ENTRIES", "entries"),
    ("HITS", "hits"),
    ("STALE", "stale"),
    ("COLLAPSED", "collapsed"),
    ("MISSES", "misses"),
    ("BYPASSED", "bypassed"),
    ("STORED", "stored"),
    ("REFUSED", "refused"),
    ("PURGES", "purges"),
];

/// Returns the table of caches.
fn stat(caches: &Value) -> String {
    let Some(caches) = caches.as_object().filter(|caches| !caches.is_empty()) else {
        return NO_CACHE.to_owned();
    };
    let heading = ["CACHE", "HIT RATIO", "MEMORY", "OF"].into_iter();
    let heading = heading.chain(COUNTERS.map(|(heading, _)| heading));
    let mut rows = vec![heading.map(str::to_owned).collect::<Vec<_>>()];
    for (name, cache) in caches {
        let number = |member: &str| cache.get(member).and_then(Value::as_u64).unwrap_or(0);
        let hits = number("hits") + number("stale") + number("collapsed");
        let ratio = match hits + number("misses") {
            0 => "-".to_owned(),
            all => format!("{} %", u128::from(hits) * 100 / u128::from(all)),
        };
        let sizes = [printable(name), ratio, size(number("bytes")), size(number("memory"))];
        rows.push(sizes.into_iter().chain(COUNTERS.map(|(_, m)| number(m).to_string())).collect());
    }
    columns(&rows, &[0])
}

/// Returns the table of the most requested pages.
fn table_of_top(caches: &Value) -> String {
    let mut pages = Vec::new();
    for (name, entries) in caches.as_object().into_iter().flatten() {
        for entry in entries.as_array().into_iter().flatten() {
            let text = |member: &str| match entry.get(member) {
                Some(Value::String(text)) => printable(text),
                Some(value) => value.to_string(),
                None => "-".to_owned(),
            };
            let requests = entry.get("requests").and_then(Value::as_u64).unwrap_or(0);
            let bytes = entry.get("bytes").and_then(Value::as_u64).unwrap_or(0);
            let row = ["requests", "status", "age", "ttl"].map(text).into_iter();
            let row = row
                .chain([size(bytes), text("where"), printable(name), text("url")])
                .collect::<Vec<_>>();
            pages.push((requests, row));
        }
    }
    if pages.is_empty() {
        return "No page is stored.\n".to_owned();
    }
    pages.sort_by_key(|(requests, _)| std::cmp::Reverse(*requests));
    let heading = ["REQUESTS", "STATUS", "AGE", "TTL", "SIZE", "IN", "CACHE", "PAGE"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(pages.into_iter().map(|(_, row)| row));
    columns(&rows, &[5, 6, 7])
}

/// Returns what is known about a URL, in words.
fn explain(url: &str, caches: &Value) -> String {
    let mut text = String::new();
    for (name, found) in caches.as_object().into_iter().flatten() {
        let entries = found.get("entries").and_then(Value::as_array);
        for entry in entries.into_iter().flatten() {
            text += &describe(name, entry);
        }
        if found.get("partial").is_some() {
            text += "The disk has more pages than could be searched in a second.\n";
        }
        let Some(last) = found.get("last_miss") else { continue };
        let word = |member: &str| last.get(member).and_then(Value::as_str).unwrap_or_default();
        let number = |member: &str| last.get(member).and_then(Value::as_u64).unwrap_or(0);
        text += &format!(
            "The last request that cache \"{}\" did not answer was {} seconds ago, with status {}:\n  {}\n",
            printable(name),
            number("seconds"),
            number("status"),
            printable(word("cache_status")),
        );
        if !word("decided_by").is_empty() {
            text += &format!("  decided by {}\n", printable(word("decided_by")));
        }
    }
    match text.is_empty() {
        true => format!(
            "Nothing is stored for {0}, and no request for it is remembered. Request it, with the same host and \
             query, and try again. If there is still nothing, no action with \"cache\" answers it: the response has no \
             field Cache-Status then.\n",
            printable(url)
        ),
        false => text,
    }
}

fn describe(cache: &str, entry: &Value) -> String {
    let word = |member: &str| entry.get(member).and_then(Value::as_str).unwrap_or_default();
    let number = |member: &str| entry.get(member).and_then(Value::as_i64).unwrap_or(0);
    let mut text = format!(
        "Stored in cache \"{}\": status {}, {}, asked for {} times.\n",
        printable(cache),
        number("status"),
        printable(word("state")),
        number("requests"),
    );
    text += &match number("ttl") {
        ttl @ 1.. => format!("  {} seconds old, fresh for {ttl} more", number("age")),
        ttl => format!("  {} seconds old, expired {} seconds ago", number("age"), -ttl),
    };
    text += &format!("; lifetime of {} by {}\n", number("lifetime"), printable(word("decided_by")));
    for (name, member) in [
        ("while it is refreshed", "stale_while_revalidate"),
        ("if it cannot be refreshed", "stale_if_error"),
    ] {
        if number(member) > 0 {
            text += &format!("  sent stale for {} seconds {name}\n", number(member));
        }
    }
    for (name, value) in entry.get("vary").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().map_or("(absent)".to_owned(), printable);
        text += &format!("  only for requests with {}: {value}\n", printable(name));
    }
    let bytes = u64::try_from(number("bytes")).unwrap_or(0);
    let place = match word("where") {
        "disk" => "on the disk",
        "memory and disk" => "in memory, and on the disk",
        _ => "in memory",
    };
    text + &format!("  {} {place}, {} tags\n", size(bytes), number("tags"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = stat(&caches);
        assert!(text.contains("98 %") && text.contains("64 MB"), "{text}");
        assert_eq!(stat(&Value::Null), NO_CACHE);
    }

    #[test]
    fn a_url_is_explained_without_commands_for_the_terminal() {
        let found = json!({"a": {
            "entries": [{
                "status": 200, "state": "fresh", "requests": 5, "age": 10, "ttl": 50, "lifetime": 60,
                "decided_by": "max-age of Cache-Control", "vary": {"foo\u{1b}": "1"}
            }],
            "last_miss": {
                "seconds": 3, "status": 200, "cache_status": "Howdah; fwd=uri-miss",
                "decided_by": "Set-Cookie: sid\u{1b}"
            }
        }});
        let text = explain("a.org/", &found);
        for part in
            ["fresh for 50 more", "by max-age of Cache-Control", "decided by Set-Cookie: sid"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains('\u{1b}'));
        assert!(explain("a.org/", &json!({"a": {"entries": []}})).contains("Request it"));
    }

    #[test]
    fn the_most_requested_page_of_all_caches_is_first() {
        let page = |url: &str, requests: u64| json!({"url": url, "requests": requests, "bytes": 1});
        let top = json!({"a": [page("a.org/1", 5)], "b": [page("b.org/2", 9), page("b.org/3", 1)]});
        let text = table_of_top(&top);
        let places = ["b.org/2", "a.org/1", "b.org/3"].map(|page| text.find(page).unwrap());
        assert!(places.is_sorted(), "{text}");
    }
}
