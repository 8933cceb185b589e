use std::thread;

use howdah_http::fixture;

use super::*;
use crate::testing::{NOW, entry, entry_for};

const MIB: u64 = 1 << 20;

fn store(memory: u64) -> Arc<Store> {
    Store::new(CacheStore { name: "default".into(), memory, max_object: MIB / 16 })
}

fn find(store: &Store, key: &str, fields: &[(&str, &str)]) -> Lookup {
    let request = fixture::request("/", fields);
    store.lookup(key.as_bytes(), &request.fields, &Settings::default(), NOW)
}

fn body(lookup: Lookup) -> Option<String> {
    match lookup {
        Lookup::Found(entry, _) => Some(String::from_utf8_lossy(&entry.body).into_owned()),
        _ => None,
    }
}

#[test]
fn a_response_is_found_by_its_key() {
    let store = store(MIB);
    assert!(matches!(find(&store, "a", &[]), Lookup::Missing));
    store.insert(b"a", entry("/a", &[], "one"));
    assert_eq!(body(find(&store, "a", &[])).as_deref(), Some("one"));
    store.insert(b"a", entry("/a", &[], "two"));
    assert_eq!(body(find(&store, "a", &[])).as_deref(), Some("two"));
    assert!(matches!(find(&store, "b", &[]), Lookup::Missing));
    store.invalidate(b"a");
    assert!(matches!(find(&store, "a", &[]), Lookup::Missing));
}

#[test]
fn responses_with_one_key_are_told_apart_by_vary() {
    let store = store(MIB);
    let add = |foo: &str| {
        let page = entry_for("/", &[("Foo", foo)], &[("Vary", "Foo")], foo, 0);
        store.insert(b"a", page);
    };
    add("1");
    add("2");
    assert_eq!(body(find(&store, "a", &[("foo", "1")])).as_deref(), Some("1"));
    assert_eq!(body(find(&store, "a", &[("foo", "2")])).as_deref(), Some("2"));
    assert!(matches!(find(&store, "a", &[("foo", "3")]), Lookup::OtherVariants));
    assert!(matches!(find(&store, "a", &[]), Lookup::OtherVariants));
}

/// A client that varies a field without end must not push out all other pages.
#[test]
fn the_number_of_variants_is_limited() {
    let store = store(4 * MIB);
    for number in 0..1000 {
        let value = number.to_string();
        let page = entry_for("/", &[("Foo", &value)], &[("Vary", "Foo")], &value, 0);
        store.insert(b"a", page);
    }
    assert_eq!(store.entries().len(), MAX_VARIANTS);
    assert_eq!(body(find(&store, "a", &[("foo", "999")])).as_deref(), Some("999"));
    assert!(matches!(find(&store, "a", &[("foo", "1")]), Lookup::OtherVariants));
}

#[test]
fn a_response_that_is_not_shared_is_remembered_for_a_while() {
    let store = store(MIB);
    store.mark_not_shared(b"a", Refusal::Private, NOW);
    assert!(matches!(find(&store, "a", &[]), Lookup::NotShared(Refusal::Private)));
    let request = fixture::request("/", &[]);
    let later = NOW + NOT_SHARED_SECONDS;
    let found = store.lookup(b"a", &request.fields, &Settings::default(), later);
    assert!(matches!(found, Lookup::Missing));
    store.insert(b"a", entry("/a", &[], "one"));
    store.mark_not_shared(b"a", Refusal::Private, NOW);
    assert!(body(find(&store, "a", &[])).is_some(), "a stored response stays");
}

#[test]
fn memory_stays_within_its_limit() {
    for memory in [MIB, 2 * MIB, 8 * MIB] {
        let store = store(memory);
        for number in 0..3000u32 {
            let size = (number.wrapping_mul(2_654_435_761) >> 16) as usize % (64 << 10);
            store.insert(number.to_string().as_bytes(), entry("/a", &[], &"x".repeat(size)));
            assert!(store.weight() <= memory, "{} of {memory}", store.weight());
        }
        assert!(store.weight() > memory * 8 / 10, "{} of {memory}", store.weight());
    }
}

#[test]
fn a_purged_response_is_not_found_and_makes_room() {
    let store = store(MIB);
    store.insert(b"a", entry("/a", &[("Cache-Tag", "x")], "one"));
    let purge = |tag: &str, is_soft| {
        store.purge(&Purge::Tags { host: None, tags: vec![tag.into()] }, is_soft, NOW);
    };
    purge("y", false);
    assert!(matches!(find(&store, "a", &[]), Lookup::Found(_, None)));
    purge("x", true);
    assert!(matches!(find(&store, "a", &[]), Lookup::Found(_, Some(NOW))));
    purge("x", false);
    assert!(matches!(find(&store, "a", &[]), Lookup::Missing));
    assert!(store.is_empty());
    store.insert(b"b", entry_for("/b", &[], &[], "two", store.purges.count()));
    store.purge(&Purge::All, false, NOW);
    assert!(store.is_empty() && matches!(find(&store, "b", &[]), Lookup::Missing));
}

#[test]
fn a_response_is_stored_after_a_number_of_uses() {
    let store = store(MIB);
    assert!(store.is_used_enough(b"a", 1));
    assert!(!store.is_used_enough(b"a", 3) && !store.is_used_enough(b"a", 3));
    assert!(!store.is_used_enough(b"b", 3));
    assert!(store.is_used_enough(b"a", 3));
    for number in 0..3 * MAX_COUNTED {
        store.is_used_enough(number.to_string().as_bytes(), 2);
    }
    assert!(store.uses.lock().unwrap().len() <= MAX_COUNTED);
}

/// Each thread finds only complete responses to its own requests.
#[test]
fn threads_share_a_store() {
    let store = store(MIB);
    thread::scope(|scope| {
        for number in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..2000 {
                    let key = ((number + round) % 50).to_string();
                    if let Some(found) = body(find(store, &key, &[])) {
                        assert_eq!(found, key.repeat(500));
                    }
                    store.insert(key.as_bytes(), entry("/a", &[], &key.repeat(500)));
                    if round % 100 == 0 {
                        store.purge(&Purge::All, round % 200 == 0, NOW);
                    }
                }
            });
        }
    });
    assert!(store.weight() <= MIB);
}
