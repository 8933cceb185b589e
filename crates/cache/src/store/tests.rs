use std::thread;

use howdah_http::fixture;

use super::*;
use crate::testing::{NOW, entry, entry_for, stored_beside_invalidations};

const MIB: u64 = 1 << 20;

fn store(memory: u64) -> Arc<Store> {
    Store::new(CacheStore { name: "default".into(), memory, max_object: MIB / 16, disk: None })
}

fn owner(store: &Store) -> Arc<Owner> {
    store.owner(b"app")
}

fn find(store: &Store, key: &str, fields: &[(&str, &str)]) -> Lookup {
    let request = fixture::request("/", fields);
    store.lookup(key.as_bytes(), &request.fields, &Settings::default(), NOW)
}

fn body(lookup: Lookup) -> Option<String> {
    match lookup {
        Lookup::Found(entry, _) => {
            Some(String::from_utf8_lossy(entry.body.memory().unwrap()).into_owned())
        }
        _ => None,
    }
}

#[test]
fn a_response_is_found_by_its_key() {
    let store = store(MIB);
    assert!(matches!(find(&store, "a", &[]), Lookup::Missing));
    store.insert(b"a", &owner(&store), entry("/a", &[], "one"));
    assert_eq!(body(find(&store, "a", &[])).as_deref(), Some("one"));
    store.insert(b"a", &owner(&store), entry("/a", &[], "two"));
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
        store.insert(b"a", &owner(&store), page);
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
        store.insert(b"a", &owner(&store), page);
    }
    assert_eq!(store.entries().len(), MAX_VARIANTS);
    assert_eq!(body(find(&store, "a", &[("foo", "999")])).as_deref(), Some("999"));
    assert!(matches!(find(&store, "a", &[("foo", "1")]), Lookup::OtherVariants));
}

#[test]
fn a_response_that_is_not_shared_is_remembered_for_a_while() {
    let store = store(MIB);
    store.mark_not_shared(b"a", &owner(&store), Refusal::Private, NOW);
    assert!(matches!(find(&store, "a", &[]), Lookup::NotShared(Refusal::Private)));
    let request = fixture::request("/", &[]);
    let later = NOW + NOT_SHARED_SECONDS;
    let found = store.lookup(b"a", &request.fields, &Settings::default(), later);
    assert!(matches!(found, Lookup::Missing));
    store.insert(b"a", &owner(&store), entry("/a", &[], "one"));
    store.mark_not_shared(b"a", &owner(&store), Refusal::Private, NOW);
    assert!(body(find(&store, "a", &[])).is_some(), "a stored response stays");
}

#[test]
fn memory_stays_within_its_limit() {
    for memory in [MIB, 2 * MIB, 8 * MIB] {
        let store = store(memory);
        for number in 0..3000u32 {
            let size = (number.wrapping_mul(2_654_435_761) >> 16) as usize % (64 << 10);
            store.insert(
                number.to_string().as_bytes(),
                &owner(&store),
                entry("/a", &[], &"x".repeat(size)),
            );
            assert!(store.memory().bytes() <= memory, "{} of {memory}", store.memory().bytes());
        }
        assert!(store.memory().bytes() > memory * 8 / 10, "{} of {memory}", store.memory().bytes());
    }
}

#[test]
fn a_purged_response_is_not_found_and_makes_room() {
    let store = store(MIB);
    store.insert(b"a", &owner(&store), entry("/a", &[("Cache-Tag", "x")], "one"));
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
    store.insert(b"b", &owner(&store), entry_for("/b", &[], &[], "two", store.purges.count()));
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
                    store.insert(key.as_bytes(), &owner(store), entry("/a", &[], &key.repeat(500)));
                    if round % 100 == 0 {
                        store.purge(&Purge::All, round % 200 == 0, NOW);
                    }
                }
            });
        }
    });
    assert!(store.memory().bytes() <= MIB);
}

/// A purge writes one mark, for any number of entries: they are compared with it when they are
/// asked for.
#[test]
fn a_purge_of_a_tag_looks_at_no_entry() {
    let store = store(256 * MIB);
    let owner = owner(&store);
    for number in 0..100_000 {
        let target = format!("/{number}");
        store.insert(target.as_bytes(), &owner, entry(&target, &[("Cache-Tag", "list")], ""));
    }
    let purge = Purge::Tags { host: None, tags: vec![b"list".to_vec()] };
    let started = std::time::Instant::now();
    store.purge_of(&owner, &purge, false, NOW);
    println!("purge of a tag with 100,000 entries: {:?}", started.elapsed());
    assert_eq!(store.len(), 100_000, "they are removed when they are asked for");
    assert!(store.entries().is_empty());
    assert!(matches!(find(&store, "/99999", &[]), Lookup::Missing));
    assert_eq!(store.len(), 99_999);
}

#[test]
fn copies_in_other_encodings_count_as_long_as_the_entry_is_stored() {
    let store = store(MIB);
    let owner = owner(&store);
    let stored = store.insert(b"a", &owner, entry("/a", &[], "one"));
    let before = store.memory().bytes();
    let copy = Bytes::from(vec![0; 1000]);
    store.keep_copy(&owner, &stored, Encoding::Gzip, copy.clone());
    store.keep_copy(&owner, &stored, Encoding::Gzip, copy.clone());
    assert_eq!(stored.copies.get(Encoding::Gzip), Some(copy.clone()));
    assert!(!stored.copies.claim(Encoding::Gzip), "it is known");
    assert!(stored.copies.claim(Encoding::Zstandard) && !stored.copies.claim(Encoding::Zstandard));
    stored.copies.release(Encoding::Zstandard);
    assert!(stored.copies.claim(Encoding::Zstandard));
    assert_eq!(stored.copies.get(Encoding::Brotli), None);
    assert_eq!(store.memory().bytes(), before + 1000);
    store.invalidate(b"a");
    store.keep_copy(&owner, &stored, Encoding::Brotli, copy);
    assert_eq!((store.memory().bytes(), owner.bytes()), (0, 0));
}

#[test]
fn a_response_that_is_stored_at_the_moment_of_an_invalidation_does_not_stay() {
    let store = store(MIB);
    let is_there = || body(find(&store, "/a", &[])).is_some();
    assert_eq!(stored_beside_invalidations(&store, is_there), 0);
}

#[test]
fn a_response_that_nobody_waits_for_is_not_stored_after_an_invalidation() {
    let (store, keys) = (store(MIB), [&b"/a"[..], b"/b"]);
    let [a, b] = keys.map(|key| store.ask(key, None));
    store.invalidate(b"/a");
    let owner = owner(&store);
    let put =
        |key: &[u8], inquiry| store.insert_current(key, &owner, entry("/", &[], "old"), inquiry);
    assert_eq!((put(b"/a", &a).1, put(b"/b", &b).1), (false, true));
    assert!(put(b"/a", &store.ask(b"/a", None)).1, "it was asked for later");
}
