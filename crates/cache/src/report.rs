//! Answers to administrators about a store: counters, the most requested entries, the entries of a
//! URL.

use howdah_questions::{CacheEntry, CacheStatus, CachedUrl, DiskStatus, LastMiss};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::disk::file;
use crate::disk::record::{Stored, variant_of};
use crate::entry::Entry;
use crate::freshness::Source;
use crate::place::Subject;
use crate::purge::Verdict;
use crate::store::Store;

/// Longest time for which the disk is searched.
const MAX_SEARCH: Duration = Duration::from_secs(1);

/// Place of a stored response: in memory, on the disk, or in both.
const MEMORY: &str = "memory";
pub(crate) const DISK: &str = "disk";
pub(crate) const BOTH: &str = "memory and disk";

/// Fields whose values are for one client, and not repeated.
const SECRET: [&[u8]; 3] = [b"authorization", b"cookie", b"proxy-authorization"];

impl Store {
    /// Returns the counters and the size.
    pub fn report(&self) -> CacheStatus {
        let counters = &self.counters;
        let number = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
        let disk = self.disk().map(|disk| {
            let (disk_entries, disk_bytes) = disk.usage();
            DiskStatus {
                disk_entries,
                disk_bytes,
                disk_size: disk.size(),
                disk_ready: u64::from(disk.is_ready()),
                disk_reads: number(&disk.reads),
                disk_errors: number(&disk.errors),
            }
        });
        CacheStatus {
            entries: self.memory().entries(),
            bytes: self.memory().bytes(),
            memory: self.config().memory,
            hits: number(&counters.hits),
            stale: number(&counters.stale_hits),
            collapsed: number(&counters.collapsed),
            misses: number(&counters.misses),
            bypassed: number(&counters.bypassed),
            revalidated: number(&counters.revalidated),
            stored: number(&counters.stored),
            refused: number(&counters.refused),
            purges: number(&counters.purges),
            disk,
        }
    }

    /// Returns the entries that have answered most requests, at most `max`: those that only the
    /// disk has come last, the newest first. Blocks.
    pub fn top(&self, max: usize, now: u64) -> Vec<CacheEntry> {
        let mut all = self.entries();
        let uses = |(entry, _): &(Arc<Entry>, _)| std::cmp::Reverse(entry.uses.load(Relaxed));
        if all.len() > max {
            all.select_nth_unstable_by_key(max, uses);
            all.truncate(max);
        }
        all.sort_by_key(uses);
        let mut reports = self.describe_all(&all, now);
        reports.extend(self.only_on_disk(max - reports.len(), now, |_| true).0);
        reports
    }

    /// Returns the entries of a URL, given as host, decoded path and query, and its last miss.
    /// Blocks.
    pub fn inspect(&self, host: &[u8], path: &[u8], query: &[u8], now: u64) -> CachedUrl {
        let (url, any_query) = (Subject::url(host, path, query), Subject::path(host, path));
        let is_for =
            |entry: &Entry| entry.place.url == url || entry.place.tags.contains(&any_query);
        let in_memory: Vec<_> =
            self.entries().into_iter().filter(|(entry, _)| is_for(entry)).collect();
        let mut entries = self.describe_all(&in_memory, now);
        let (others, is_whole) = self.only_on_disk(usize::MAX, now, is_for);
        entries.extend(others);
        let last_miss = self.decisions.of(url).map(|last| LastMiss {
            seconds: now.saturating_sub(last.at),
            status: last.status,
            cache_status: last.outcome.to_string(),
            decided_by: last.cause.into(),
        });
        CachedUrl { entries, partial: !is_whole, last_miss }
    }

    /// Describes entries that are in memory.
    fn describe_all(&self, entries: &[(Arc<Entry>, Verdict)], now: u64) -> Vec<CacheEntry> {
        let mut on_disk = HashSet::new();
        if let Some(disk) = self.disk() {
            let wanted: HashSet<_> = entries.iter().map(|(entry, _)| Arc::as_ptr(entry)).collect();
            self.memory().each(|key, entry, _| {
                if wanted.contains(&Arc::as_ptr(entry)) && disk.has_entry(key, entry) {
                    on_disk.insert(Arc::as_ptr(entry));
                }
            });
        }
        let describe = |(entry, state): &(Arc<Entry>, Verdict)| {
            let stored_in = if on_disk.contains(&Arc::as_ptr(entry)) { BOTH } else { MEMORY };
            describe(entry, *state, stored_in, now)
        };
        entries.iter().map(describe).collect()
    }

    /// Describes entries that only the disk has, at most `max`, and tells whether it was searched
    /// in full. It has no index of URLs: descriptions are read one by one, the newest first.
    fn only_on_disk(
        &self,
        max: usize,
        now: u64,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> (Vec<CacheEntry>, bool) {
        let mut found = Vec::new();
        let objects = self.disk().map(|disk| disk.all()).unwrap_or_default();
        let start = Instant::now();
        for object in objects {
            if found.len() >= max {
                break;
            }
            if start.elapsed() > MAX_SEARCH {
                return (found, false);
            }
            let Some(Stored { key, owner, entry }) = file::peek(&object) else { continue };
            if !is_wanted(&entry) {
                continue;
            }
            let variant = variant_of(&entry);
            let in_memory = self.memory().peek(&key).is_some_and(|slot| {
                slot.entries().iter().any(|other| variant_of(other) == variant)
            });
            let verdict = self.purges.judge(&entry, &self.owner(&owner).purges);
            if !in_memory && verdict != Verdict::Gone {
                let mut report = describe(&entry, verdict, DISK, now);
                report.bytes = object.capacity();
                found.push(report);
            }
        }
        (found, true)
    }
}

fn describe(entry: &Entry, state: Verdict, stored_in: &'static str, now: u64) -> CacheEntry {
    let (terms, place) = (&entry.terms, &entry.place);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut url = text(place.host()) + &text(place.path());
    if !place.query.is_empty() {
        url = url + "?" + &text(&place.query);
    }
    let age = entry.age(now).min(i32::MAX as u64);
    let lifetime = terms.lifetime.min(i32::MAX as u64);
    let value = |name: &[u8], value: &[u8]| {
        if SECRET.contains(&name) { "(not shown)".to_owned() } else { crate::cause::shown(value) }
    };
    let ttl = i64::try_from(lifetime).unwrap_or(0).saturating_sub_unsigned(age);
    let state = match state {
        Verdict::Stale(_) => "purged softly",
        _ if terms.no_cache => "validated before each use",
        _ if ttl > 0 => "fresh",
        _ => "stale",
    };
    CacheEntry {
        url,
        status: entry.status,
        state: state.into(),
        stored_in: stored_in.into(),
        bytes: entry.weight() as u64,
        requests: entry.uses.load(Relaxed),
        age,
        ttl,
        lifetime: terms.lifetime,
        decided_by: terms.source.map_or("a validator", Source::name).into(),
        stale_while_revalidate: terms.stale_while_revalidate,
        stale_if_error: terms.stale_if_error,
        tags: place.tags.len(),
        vary: { entry.selection.iter() }
            .map(|(name, known)| (text(name), known.as_ref().map(|known| value(name, known))))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use howdah_config::CacheStore;

    use super::*;
    use crate::testing::{NOW, entry, entry_for};

    fn store() -> Arc<Store> {
        Store::new(CacheStore {
            name: "a".into(),
            memory: 1 << 20,
            max_object: 1 << 16,
            disk: None,
        })
    }

    #[test]
    fn the_most_requested_entries_come_first() {
        let store = store();
        for number in 0..10 {
            let target = format!("/{number}");
            let entry =
                store.insert(target.as_bytes(), &store.owner(b"a"), entry(&target, &[], "x"));
            (0..number).for_each(|_| entry.count_use());
        }
        let top = store.top(3, NOW + 10);
        let found: Vec<_> = top.iter().map(|e| (e.url.as_str(), e.requests, e.ttl)).collect();
        let expected =
            [("example.org/9", 9, 50), ("example.org/8", 8, 50), ("example.org/7", 7, 50)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_url_shows_its_entries_and_hides_what_is_secret() {
        let store = store();
        let request = [("Cookie", "secret"), ("Foo", "1")];
        store.insert(
            b"a",
            &store.owner(b"a"),
            entry_for(
                "/a?b",
                &request,
                &[("Vary", "Cookie, Foo"), ("Cache-Control", "max-age=60")],
                "x",
                0,
            ),
        );
        store.insert(b"b", &store.owner(b"a"), entry("/b", &[], "x"));
        let found = store.inspect(b"example.org", b"/a", b"b", NOW);
        let [one] = &found.entries[..] else { panic!("{found:?}") };
        assert_eq!(one.url, "example.org/a?b");
        assert_eq!(one.vary["foo"].as_deref(), Some("1"));
        assert!(!format!("{one:?}").contains("secret"));
        assert_eq!(store.report().entries, 2);
    }
}
