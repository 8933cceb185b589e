use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use howdah_config::{Cache as Settings, CacheDisk, CacheStore};
use howdah_http::fixture;
use howdah_http::message::Fields;
use proptest::prelude::*;

use crate::entry::Content;
use crate::purge::Purge;
use crate::report::{BOTH, DISK};
use crate::space::layout::{self, Geometry};
use crate::store::{Lookup, Store};
use crate::testing::{NOW, entry_for, stored_beside_invalidations};

const MIB: u64 = 1 << 20;

struct Site {
    directory: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        Site { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("file")
    }

    /// Starts a store with 16 MiB of disk.
    fn start(&self, memory: u64) -> Arc<Store> {
        start(&self.path(), memory, 16 * MIB)
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn start(path: &Path, memory: u64, size: u64) -> Arc<Store> {
    let disk = Some(CacheDisk { directory: "/".into(), size });
    let store = Store::new(CacheStore { name: "a".into(), memory, max_object: MIB, disk });
    store.open_disk(open(path)).unwrap();
    until(|| store.disk().unwrap().is_ready());
    store
}

fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not come to pass");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn put(store: &Arc<Store>, owner: &str, target: &str, body: &[u8]) {
    put_with(store, owner, target, &[("Cache-Tag", "tag")], body);
}

fn put_with(store: &Arc<Store>, owner: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) {
    let mut entry = entry_for(target, &[], fields, "", store.purges.count());
    entry.body = Bytes::copy_from_slice(body).into();
    store.insert(target.as_bytes(), &store.owner(owner.as_bytes()), entry);
}

fn settle(store: &Store) {
    until(|| store.disk().unwrap().waiting.load(Relaxed) == 0);
}

/// Returns the content that a request gets.
fn get(store: &Arc<Store>, target: &str) -> Option<Bytes> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fields: Fields = fixture::request(target, &[]).fields.clone();
    let settings = Settings { ttl: [(200, 60)].into(), ..Settings::default() };
    let found = runtime.block_on(store.find(target.as_bytes(), &fields, &settings, NOW));
    match found {
        Lookup::Found(entry, None) => Some(match &entry.body {
            Content::Memory(bytes) => bytes.clone(),
            Content::Disk(content) => content.read().unwrap(),
        }),
        _ => None,
    }
}

fn body(number: usize, length: usize) -> Vec<u8> {
    let mut body = format!("{number} ").into_bytes();
    body.resize(length, b'a' + (number % 26) as u8);
    body
}

#[test]
fn what_memory_does_not_take_is_on_the_disk() {
    let site = Site::new();
    let store = site.start(MIB);
    for number in 0..100 {
        put(&store, "a", &format!("/{number}"), &body(number, 50_000));
    }
    settle(&store);
    assert!(store.memory().bytes() <= MIB && store.memory().entries() < 30);
    for number in 0..100 {
        let expected = body(number, 50_000);
        assert_eq!(get(&store, &format!("/{number}")).unwrap(), expected, "{number}");
    }
    assert_eq!(store.disk().unwrap().usage().0, 100);
    // Large ones leave memory.
    put(&store, "a", "/large", &body(7, 600_000));
    settle(&store);
    until(|| !store.entries().iter().any(|(entry, _)| entry.body.len() == 600_000));
    assert_eq!(get(&store, "/large").unwrap(), body(7, 600_000));
    assert!(store.memory().bytes() <= MIB);
}

#[test]
fn pages_that_only_the_disk_has_are_shown_too() {
    let site = Site::new();
    let store = site.start(MIB);
    for number in 0..30 {
        put(&store, "a", &format!("/{number}"), &body(number, 50_000));
    }
    settle(&store);
    let top = store.top(100, NOW);
    let count = |wanted| top.iter().filter(|entry| entry.stored_in == wanted).count();
    let (both, disk) = (count(BOTH), count(DISK));
    assert!(both > 5 && disk > 5 && both + disk == 30, "{both} {disk}");
    assert_eq!(store.top(3, NOW).len(), 3);
    for number in 0..30 {
        let found = store.inspect(b"example.org", format!("/{number}").as_bytes(), b"", NOW);
        assert_eq!(found.entries.len(), 1, "{number}");
        assert!(!found.partial && found.entries[0].bytes >= 50_000);
    }
    // Purged responses are not shown, and the list is made without a read from the disk.
    assert_eq!(store.disk().unwrap().reads.load(Relaxed), 0);
    store.purge(&Purge::Host(b"example.org".to_vec()), false, NOW);
    assert_eq!(store.top(100, NOW).len(), 0);
}

/// Content that is sent from the file counts as if it were in memory: it keeps its place in the
/// file, and must not keep more of it than the limit of the store.
#[test]
fn large_pages_that_are_sent_from_the_disk_count_in_the_memory_limit() {
    let site = Site::new();
    let store = site.start(2 * MIB);
    for number in 0..8 {
        put(&store, "a", &format!("/{number}"), &body(number, 600_000));
    }
    settle(&store);
    for round in 0..3 {
        for number in 0..8 {
            assert_eq!(get(&store, &format!("/{number}")).unwrap(), body(number, 600_000));
            let bytes = store.memory().bytes();
            assert!((600_000..=2 * MIB).contains(&bytes), "{round} {number} {bytes}");
        }
        assert!(store.memory().entries() <= 3);
    }
    let from_file = |entry: &crate::entry::Entry| matches!(entry.body, Content::Disk(_));
    assert!(store.entries().iter().any(|(entry, _)| from_file(entry)));
}

#[test]
fn after_a_restart_everything_is_there_but_what_was_removed() {
    let site = Site::new();
    let store = site.start(8 * MIB);
    for target in ["/kept", "/replaced", "/invalid", "/purged", "/blog/a", "/soft", "/other"] {
        let tag = if target == "/purged" { "purged" } else { "other" };
        put_with(&store, "a", target, &[("Cache-Tag", tag)], target.as_bytes());
    }
    put(&store, "b", "/of-b", b"b");
    settle(&store);
    put(&store, "a", "/replaced", b"new");
    settle(&store);
    store.invalidate(b"/invalid");
    store.purge(&Purge::Tags { host: None, tags: vec![b"purged".to_vec()] }, false, NOW);
    let owner = store.owner(b"a");
    let prefix = Purge::Prefix { host: None, path: b"/blog/".to_vec() };
    store.purge_of(&owner, &prefix, false, NOW);
    let url = |path: &[u8]| Purge::Url {
        host: b"example.org".to_vec(),
        path: path.to_vec(),
        query: Vec::new(),
    };
    store.purge_of(&owner, &url(b"/soft"), true, NOW);
    store.purge_of(&owner, &url(b"/of-b"), false, NOW);
    drop(store); // as if it was killed: nothing is closed
    for round in 0..3 {
        let store = site.start(8 * MIB);
        assert_eq!(get(&store, "/kept").unwrap(), "/kept", "{round}");
        assert_eq!(get(&store, "/replaced").unwrap(), "new");
        assert_eq!(get(&store, "/of-b").unwrap(), "b", "another application's purge");
        for target in ["/invalid", "/purged", "/blog/a", "/soft"] {
            assert_eq!(get(&store, target), None, "{target} {round}");
        }
        assert_eq!(get(&store, "/other").unwrap(), "/other");
    }
    let store = site.start(8 * MIB);
    store.purge(&Purge::All, false, NOW);
    put(&store, "a", "/later", b"later");
    settle(&store);
    drop(store);
    let store = site.start(8 * MIB);
    assert_eq!(get(&store, "/kept"), None);
    assert_eq!(get(&store, "/later").unwrap(), "later");
}

#[test]
fn what_is_removed_before_the_file_is_there_does_not_come_back() {
    let site = Site::new();
    let store = site.start(8 * MIB);
    for target in ["/a", "/b", "/c"] {
        put(&store, "a", target, b"old");
    }
    settle(&store);
    drop(store);
    let disk = Some(CacheDisk { directory: "/".into(), size: 16 * MIB });
    let config = CacheStore { name: "a".into(), memory: MIB, max_object: MIB, disk };
    let store = Store::new(config);
    store.invalidate(b"/a");
    put(&store, "a", "/b", b"new");
    store.open_disk(open(&site.path())).unwrap();
    until(|| store.disk().unwrap().is_ready());
    drop(store);
    let store = site.start(MIB);
    assert_eq!((get(&store, "/a"), get(&store, "/b")), (None, None));
    assert_eq!(get(&store, "/c").unwrap(), "old");
}

#[test]
fn the_limit_holds_and_no_application_takes_the_share_of_another() {
    let site = Site::new();
    let store = start(&site.path(), MIB, 16 * MIB);
    for number in 0..20 {
        put(&store, "small", &format!("/s{number}"), &body(number, 20_000));
        settle(&store);
    }
    for number in 0..3000 {
        put(&store, "large", &format!("/l{number}"), &body(number, 20_000));
        settle(&store);
        let (_, bytes) = store.disk().unwrap().usage();
        assert!(bytes <= 16 * MIB);
    }
    let (objects, bytes) = store.disk().unwrap().usage();
    assert!(bytes > 14 * MIB && objects > 400, "{objects} {bytes}");
    for number in 0..20 {
        assert_eq!(get(&store, &format!("/s{number}")).unwrap(), body(number, 20_000));
    }
    let length = std::fs::metadata(site.path()).unwrap().len();
    assert!(length <= 16 * MIB && length > 15 * MIB, "{length}");
}

#[test]
fn what_is_being_sent_is_not_overwritten() {
    let site = Site::new();
    let store = start(&site.path(), MIB, 16 * MIB);
    put(&store, "a", "/kept", &body(1, 500_000));
    settle(&store);
    assert!(get(&store, "/kept").is_some());
    let fields: Fields = fixture::request("/kept", &[]).fields.clone();
    let settings = Settings::default();
    let Lookup::Found(entry, _) = store.lookup(b"/kept", &fields, &settings, NOW) else { panic!() };
    store.invalidate(b"/kept");
    for number in 0..200 {
        put(&store, "a", &format!("/{number}"), &body(number, 400_000));
        settle(&store);
    }
    let Content::Disk(content) = &entry.body else { panic!() };
    assert_eq!(content.read().unwrap(), body(1, 500_000));
}

/// Changes each part of the file in turn. A page is as it was, or missing.
#[test]
fn a_changed_byte_on_the_disk_is_a_miss_and_no_wrong_page() {
    let site = Site::new();
    let store = site.start(MIB);
    for number in 0..4 {
        put(&store, "a", &format!("/{number}"), &body(number, 300_000 * (number % 2) + 30_000));
    }
    settle(&store);
    drop(store);
    let original = std::fs::read(site.path()).unwrap();
    let geometry = Geometry::of(16 * MIB);
    let table = geometry.line(0);
    let places = [0, 20, geometry.half(0), geometry.half(1) + 30, table + 3, table + 700];
    let data = (0..16).map(|step| geometry.chunk(0) + step * 5_003);
    let mut missing = 0;
    for place in places.into_iter().chain(data) {
        std::fs::write(site.path(), &original).unwrap();
        let changed = original[place as usize] ^ 0x40;
        open(&site.path()).write_all_at(&[changed], place).unwrap();
        let store = site.start(MIB);
        for number in 0..4 {
            match get(&store, &format!("/{number}")) {
                None => missing += 1,
                Some(found) => {
                    assert_eq!(found, body(number, 300_000 * (number % 2) + 30_000), "{place}")
                }
            }
        }
    }
    assert!(missing >= 16, "{missing}");
}

#[test]
fn a_file_of_another_boot_counts_only_if_it_was_closed() {
    let site = Site::new();
    let other_boot = |is_closed| {
        let header = layout::Header { size: 16 * MIB, boot: 1, is_closed };
        open(&site.path()).write_all_at(&header.encode(), 0).unwrap();
    };
    let store = site.start(MIB);
    put(&store, "a", "/a", b"a");
    settle(&store);
    store.disk().unwrap().close(Duration::from_secs(5));
    put(&store, "a", "/b", b"b"); // is not written any more
    drop(store);
    other_boot(true);
    let store = site.start(MIB);
    assert_eq!(get(&store, "/a").unwrap(), "a");
    assert_eq!(get(&store, "/b"), None);
    drop(store);
    other_boot(false);
    let store = site.start(MIB);
    assert_eq!(get(&store, "/a"), None);
}

#[test]
fn a_file_that_has_failed_begins_empty_although_it_is_closed() {
    let site = Site::new();
    let store = site.start(8 * MIB);
    put(&store, "a", "/x", b"removed");
    put(&store, "a", "/large", &body(1, 300_000));
    settle(&store);
    let read = || get(&store, "/large").unwrap();
    assert_eq!(read(), body(1, 300_000));
    store.disk().unwrap().fail();
    assert_eq!(
        read(),
        body(1, 300_000),
        "memory knows where it is, and so do those that it is sent to"
    );
    store.disk().unwrap().close(Duration::from_secs(20));
    drop(store);
    let store = site.start(MIB);
    assert_eq!((get(&store, "/x"), get(&store, "/large")), (None, None));
}

#[test]
fn an_update_of_a_response_that_was_removed_is_not_stored() {
    let site = Site::new();
    let store = site.start(MIB);
    let owner = store.owner(b"a");
    let entry = || entry_for("/x", &[], &[], "", store.purges.count());
    let old = store.insert(b"/x", &owner, entry());
    store.update(b"/x", &owner, &old, entry());
    let newer = store.insert(b"/x", &owner, entry());
    store.invalidate(b"/x");
    store.update(b"/x", &owner, &newer, entry());
    assert!(store.is_empty());
    assert_eq!(get(&store, "/x"), None);
}

#[test]
fn another_size_begins_anew() {
    let site = Site::new();
    let store = site.start(MIB);
    put(&store, "a", "/a", b"a");
    settle(&store);
    drop(store);
    let store = start(&site.path(), MIB, 17 * MIB);
    assert_eq!(get(&store, "/a"), None);
    put(&store, "a", "/b", b"b");
    settle(&store);
    drop(store);
    assert_eq!(get(&start(&site.path(), MIB, 17 * MIB), "/b").unwrap(), "b");
}

#[test]
fn with_less_memory_than_before_the_newest_are_kept() {
    let site = Site::new();
    let store = site.start(MIB);
    for number in 0..600 {
        put(&store, "a", &format!("/{number}"), &body(number, 100));
    }
    settle(&store);
    assert_eq!(store.disk().unwrap().usage().0, 600);
    drop(store);
    // Memory for the index entries of 400.
    let store = site.start(100 << 10);
    until(|| store.disk().unwrap().usage() == (400, 400 * layout::CHUNK));
    assert_eq!(get(&store, "/0"), None);
    assert_eq!(get(&store, "/599").unwrap(), body(599, 100));
    drop(store);
    assert_eq!(site.start(MIB).disk().unwrap().usage().0, 400, "the others are gone for good");
}

#[test]
fn many_purges_are_kept_in_the_room_that_they_have() {
    let site = Site::new();
    let store = site.start(8 * MIB);
    put(&store, "b", "/of-b", b"b");
    settle(&store);
    let (owner, other) = (store.owner(b"a"), store.owner(b"b"));
    for number in 0..20_000 {
        let tags = vec![format!("tag-{number}").into_bytes()];
        store.purge_of(&owner, &Purge::Tags { host: None, tags }, false, NOW);
    }
    put_with(&store, "a", "/a", &[("Cache-Tag", "mine")], b"a");
    settle(&store);
    let tags = vec![b"mine".to_vec()];
    store.purge_of(&owner, &Purge::Tags { host: None, tags }, false, NOW);
    store.purge_of(&other, &Purge::Host(b"other.org".to_vec()), false, NOW);
    drop(store);
    let store = site.start(8 * MIB);
    assert_eq!(get(&store, "/a"), None);
    assert_eq!(get(&store, "/of-b").unwrap(), "b");
}

/// Variants of a key are found although memory has another one.
#[test]
fn the_variant_that_only_the_disk_has_is_found() {
    let site = Site::new();
    let store = site.start(MIB);
    let put = |store: &Arc<Store>, language: &str| {
        let fields = [("Vary", "Accept-Language"), ("Cache-Control", "max-age=60")];
        let request = [("Accept-Language", language)];
        let entry = entry_for("/a", &request, &fields, language, store.purges.count());
        store.insert(b"/a", &store.owner(b"a"), entry);
    };
    put(&store, "de");
    put(&store, "fr");
    settle(&store);
    drop(store);
    let store = site.start(MIB);
    put(&store, "en");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for language in ["en", "de", "fr"] {
        let fields = fixture::request("/a", &[("Accept-Language", language)]).fields.clone();
        let settings = Settings::default();
        let found = runtime.block_on(store.find(b"/a", &fields, &settings, NOW));
        let Lookup::Found(entry, None) = found else { panic!("{language} {found:?}") };
        assert_eq!(entry.body.memory().unwrap(), language);
    }
    assert_eq!(store.disk().unwrap().reads.load(Relaxed), 2, "all are in memory");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With any contents of the file after a crash, pages are whole.
    #[test]
    fn any_bytes_in_place_of_a_file_do_no_harm(
        writes in prop::collection::vec((any::<prop::sample::Index>(), any::<Vec<u8>>()), 1..8),
        cut: Option<prop::sample::Index>,
    ) {
        let site = Site::new();
        let store = site.start(MIB);
        for number in 0..8 {
            put(&store, "a", &format!("/{number}"), &body(number, 9_000 * (number + 1)));
        }
        settle(&store);
        drop(store);
        let geometry = Geometry::of(16 * MIB);
        let file = open(&site.path());
        let used = geometry.chunk(64);
        for (at, bytes) in writes {
            // Half of them where something is.
            let at = at.index(used as usize) as u64;
            file.write_all_at(&bytes, at).unwrap();
        }
        if let Some(cut) = cut {
            file.set_len(cut.index(used as usize) as u64).unwrap();
        }
        let store = site.start(MIB);
        for number in 0..8 {
            if let Some(found) = get(&store, &format!("/{number}")) {
                prop_assert_eq!(found, body(number, 9_000 * (number + 1)));
            }
        }
        put(&store, "a", "/new", b"new");
        settle(&store);
        drop(store);
        prop_assert_eq!(get(&site.start(MIB), "/new").unwrap(), "new");
    }
}

#[test]
fn a_response_that_is_stored_at_the_moment_of_an_invalidation_is_not_on_the_disk_either() {
    let site = Site::new();
    let store = site.start(8 * MIB);
    let stored = stored_beside_invalidations(&store, || get(&store, "/a").is_some());
    assert_eq!(stored, 0);
    settle(&store);
    assert_eq!(store.disk().unwrap().usage().0, 0);
}
