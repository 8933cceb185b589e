use std::collections::BTreeSet;

use super::*;

const SMALL: Geometry =
    Geometry { slots: 2, threads: 1, request_bytes: 4096, response_bytes: 8192 };

fn region(geometry: Geometry) -> Region<Vec<AtomicU64>> {
    let words = (0..geometry.region_bytes() / 8).map(|_| AtomicU64::new(0)).collect();
    Region::new(words, geometry).unwrap()
}

/// Returns the offsets of all reachable words of a region, in the order of its layout.
fn words(region: &Region<Vec<AtomicU64>>) -> Vec<usize> {
    let base = region.memory.as_ptr().addr();
    let at = |word: &AtomicU64| (std::ptr::from_ref(word).addr() - base) / 8;
    let geometry = region.geometry();
    let mut all = vec![at(region.tail()), at(region.head()), at(region.wake_word())];
    all.extend([at(region.calling()), at(region.retire_word())]);
    all.extend([at(region.closing()), at(region.shed_word())]);
    all.extend(region.sleepers().iter().map(at));
    all.extend((0..region.entries()).map(|position| at(region.entry(position))));
    for thread in 0..u64::from(geometry.threads) {
        all.push(at(region.sleeping(thread).unwrap()));
        all.extend(region.dirty(thread).unwrap().iter().map(at));
    }
    for slot in 0..geometry.slots {
        let s = region.slot(slot).unwrap();
        all.extend([s.claim, s.thread, s.request_len, s.aborted, s.consumed, s.space].map(at));
        all.extend([s.written, s.waiting, s.started].map(at));
    }
    all.extend((0..geometry.slots).flat_map(|slot| region.request_area(slot)).map(at));
    all.extend((0..geometry.slots).flat_map(|slot| region.response_area(slot)).map(at));
    all
}

#[test]
fn no_word_of_a_region_has_two_meanings() {
    for (workers, threads) in [(1, 1), (3, 2), (40, 3), (100, 1)] {
        let pool = Geometry::for_pool(workers, threads);
        for geometry in [Geometry { request_bytes: 4096, response_bytes: 8192, ..pool }, SMALL] {
            let region = region(geometry);
            assert_eq!(region.entries(), 2 * u64::from(geometry.slots));
            let words = words(&region);
            assert!(words.is_sorted(), "{geometry:?}");
            assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{geometry:?}");
            assert_eq!(words.last().map(|last| (last + 1) * 8), Some(geometry.region_bytes()));
        }
    }
}

#[test]
fn what_different_processors_write_is_on_different_lines_and_areas_begin_on_pages() {
    let geometry = Geometry { threads: 2, ..SMALL };
    let region = region(geometry);
    let base = region.memory.as_ptr().addr();
    let line = |word: &AtomicU64| (std::ptr::from_ref(word).addr() - base) / 64;
    let slots = [region.slot(0).unwrap(), region.slot(1).unwrap()];
    let threads = [0, 1].map(|thread| {
        [line(region.sleeping(thread).unwrap()), line(&region.dirty(thread).unwrap()[0])]
    });
    let mut lines = vec![line(region.tail()), line(region.head()), line(region.wake_word())];
    lines.extend([line(region.retire_word()), line(&region.sleepers()[0]), line(region.entry(0))]);
    lines.extend(threads.as_flattened());
    lines.extend(slots.iter().flat_map(|slot| [line(slot.claim), line(slot.written)]));
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), lines.len(), "{lines:?}");
    for slot in 0..2 {
        for area in [region.request_area(slot), region.response_area(slot)] {
            assert_eq!((area.as_ptr().addr() - base) % 4096, 0);
        }
        assert_eq!(region.request_area(slot).len() * 8, geometry.request_bytes as usize);
        assert_eq!(region.response_area(slot).len() * 8, geometry.response_bytes as usize);
    }
    assert_eq!(geometry.region_bytes() % 4096, 0);
}

#[test]
fn there_is_nothing_beyond_the_last_slot_and_thread() {
    let region = region(SMALL);
    assert!(region.slot(1).is_some() && region.slot(2).is_none());
    assert!(region.sleeping(0).is_some() && region.sleeping(1).is_none());
    assert!(region.dirty(0).is_some() && region.dirty(1).is_none());
    assert_eq!((region.entries(), region.sleepers().len()), (4, 1));
    assert!(std::ptr::eq(region.entry(1), region.entry(5)));
    let short = (1..SMALL.region_bytes() / 8).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    assert!(Region::new(short, SMALL).is_none());
}

#[test]
fn a_pool_has_a_second_slot_for_each_worker() {
    let slots = |workers| Geometry::for_pool(workers, 1).slots;
    assert_eq!([0, 1, 2, 3, 2048, u32::MAX].map(slots), [2, 2, 4, 8, 4096, 4096]);
    let threads = |threads| Geometry::for_pool(1, threads).threads;
    assert_eq!([0, 1, 64, 65].map(threads), [1, 1, 64, 64]);
    assert!(
        Geometry::for_pool(1, 1).check().is_ok() && Geometry::for_pool(9999, 99).check().is_ok()
    );
    let pool = Geometry::for_pool(1, 1);
    assert_eq!((pool.request_bytes, pool.response_bytes), (32_768, 131_072));
}

#[test]
fn a_geometry_beyond_its_limits_is_refused() {
    let is_good = |change: &dyn Fn(&mut Geometry)| {
        let mut geometry = SMALL;
        change(&mut geometry);
        geometry.check().is_ok()
    };
    for (slots, expected) in [(0, false), (1, true), (3, false), (4096, true), (8192, false)] {
        assert_eq!(is_good(&|geometry| geometry.slots = slots), expected, "{slots}");
    }
    for (threads, expected) in [(0, false), (1, true), (64, true), (65, false)] {
        assert_eq!(is_good(&|geometry| geometry.threads = threads), expected, "{threads}");
    }
    let largest = 1 << 24;
    for (bytes, expected) in [
        (0, false),
        (4096, true),
        (4104, false),
        (12_288, true),
        (largest, true),
        (largest + 4096, false),
    ] {
        assert_eq!(is_good(&|geometry| geometry.request_bytes = bytes), expected, "{bytes}");
    }
    for (bytes, expected) in
        [(4096, false), (8192, true), (12_288, false), (largest, true), (largest * 2, false)]
    {
        assert_eq!(is_good(&|geometry| geometry.response_bytes = bytes), expected, "{bytes}");
    }
}
