use proptest::prelude::*;

use super::*;
use crate::region::Geometry;

const CAPACITY: u64 = 8192;

fn region() -> Region<Vec<AtomicU64>> {
    let geometry =
        Geometry { slots: 2, threads: 1, request_bytes: 4096, response_bytes: CAPACITY as u32 };
    let words = (0..geometry.region_bytes() / 8).map(|_| AtomicU64::new(0)).collect();
    Region::new(words, geometry).unwrap()
}

fn next(reader: &mut Reader, region: &Region<Vec<AtomicU64>>) -> Option<(u8, Vec<u8>)> {
    let mut out = Vec::new();
    reader.next(region, 1, &mut out).unwrap().map(|kind| (kind, out))
}

#[test]
fn nothing_is_read_before_it_is_published() {
    let region = region();
    let (mut writer, mut reader) = (Writer::new(1, 0), Reader::default());
    assert!(writer.put(&region, 3, b"hello"));
    assert_eq!(next(&mut reader, &region), None);
    assert!(!writer.publish(&region), "the thread does not sleep");
    assert_eq!(next(&mut reader, &region), Some((3, b"hello".to_vec())));
    assert_eq!(next(&mut reader, &region), None);
}

#[test]
fn a_thread_that_sleeps_briefly_is_woken_when_the_worker_likes() {
    let region = region();
    let mut writer = Writer::new(0, 0);
    assert!(writer.put(&region, 1, b"") && writer.publish_last(&region) == Wake::NotNeeded);
    region.take_dirty(0, |_| {});
    assert!(!region.thread_sleeps(0, true));
    assert!(writer.put(&region, 1, b"") && writer.publish_last(&region) == Wake::MayWait);
    assert!(writer.put(&region, 1, b"") && writer.publish_last(&region) == Wake::MayWait);
    assert!(region.take_sleep(0), "now it is woken");
    assert!(!region.take_sleep(0));
    assert!(region.thread_sleeps(0, true), "a slot is dirty");
    region.take_dirty(0, |_| {});
    assert!(!region.thread_sleeps(0, true));
    assert!(writer.put(&region, 1, b"") && writer.publish(&region), "in the middle of a response");
    region.take_dirty(0, |_| {});
    assert!(!region.thread_sleeps(0, false));
    assert!(writer.put(&region, 1, b"") && writer.publish_last(&region) == Wake::Needed);
}

#[test]
fn a_thread_that_sleeps_is_woken_once() {
    let region = region();
    let mut writer = Writer::new(1, 0);
    assert!(!region.thread_sleeps(0, false));
    assert!(writer.put(&region, 1, b"") && writer.publish(&region));
    assert!(writer.put(&region, 1, b"") && !writer.publish(&region));
    assert!(region.thread_sleeps(0, false), "something is there: it must not sleep");
    let mut slots = Vec::new();
    region.take_dirty(0, |slot| slots.push(slot));
    assert_eq!(slots, [1]);
    assert!(!region.thread_sleeps(0, false));
}

#[test]
fn a_worker_that_waits_for_room_is_woken_when_there_is_some() {
    let region = region();
    let (mut writer, mut reader) = (Writer::new(1, 0), Reader::default());
    let payload = vec![7; Writer::max_payload(&region)];
    while writer.put(&region, 2, &payload) {}
    assert_eq!(writer.unpublished(), CAPACITY);
    writer.publish(&region);
    let sequence = writer.wait_for_room(&region, payload.len()).expect("there is no room");
    assert!(next(&mut reader, &region).is_some());
    assert!(reader.release(&region, 1), "the worker waits");
    assert_ne!(region.slot(1).unwrap().space.load(Relaxed) as u32, sequence);
    assert!(!reader.release(&region, 1), "it waits no longer");
    assert_eq!(writer.wait_for_room(&region, payload.len()), None);
    assert!(writer.put(&region, 2, &payload));
}

#[test]
fn a_worker_that_overwrites_what_is_being_read_cannot_keep_the_reader_busy() {
    let region = region();
    let mut reader = Reader::default();
    let mut out = Vec::new();
    let words = region.slot(1).unwrap();
    words.written.store(CAPACITY, Relaxed);
    let mut frames = 0;
    // All of the ring is empty frames. For each one that is read, the worker adds another.
    while let Ok(Some(_)) = reader.next(&region, 1, &mut out) {
        words.written.fetch_add(8, Relaxed);
        frames += 1;
        assert!(frames <= CAPACITY / 8);
    }
    assert_eq!(reader.next(&region, 1, &mut out), Err(Corrupt("more than the ring holds")));
}

#[test]
fn a_count_that_goes_back_is_corrupt() {
    let region = region();
    let (mut writer, mut reader) = (Writer::new(1, 0), Reader::default());
    assert!(writer.put(&region, 1, b"12345678"));
    writer.publish(&region);
    assert!(next(&mut reader, &region).is_some());
    for written in [0, 8, 15, u64::MAX, u64::MAX - 7] {
        region.slot(1).unwrap().written.store(written, Relaxed);
        assert!(reader.next(&region, 1, &mut Vec::new()).is_err(), "{written}");
    }
    reader.release(&region, 1);
    region.slot(1).unwrap().written.store(8, Relaxed);
    assert!(reader.next(&region, 1, &mut Vec::new()).is_err());
}

proptest! {
    /// Frames of random lengths go round the ring; room is refused only where there is none.
    #[test]
    fn frames_come_out_as_they_went_in(
        lengths in prop::collection::vec(0usize..2041, 1..200),
        batch in 1usize..8,
    ) {
        let region = region();
        let (mut writer, mut reader) = (Writer::new(1, 0), Reader::default());
        let mut sent = std::collections::VecDeque::new();
        let mut used = 0;
        for (index, length) in lengths.into_iter().enumerate() {
            let payload: Vec<u8> = (0..length).map(|at| (index + at) as u8).collect();
            let need = 8 + length.next_multiple_of(8) as u64;
            while !writer.put(&region, index as u8, &payload) {
                prop_assert!(used + need > CAPACITY);
                writer.publish(&region);
                for expected in sent.drain(..) {
                    prop_assert_eq!(next(&mut reader, &region), Some(expected));
                }
                reader.release(&region, 1);
                used = 0;
            }
            used += need;
            sent.push_back((index as u8, payload));
            if index % batch == 0 {
                writer.publish(&region);
            }
        }
        writer.publish(&region);
        for expected in sent {
            prop_assert_eq!(next(&mut reader, &region), Some(expected));
        }
        prop_assert_eq!(next(&mut reader, &region), None);
    }

    /// Reading ends with any content of the ring and of the control words, without a panic and with
    /// no more bytes than the ring has.
    #[test]
    fn random_memory_is_read_to_an_end(
        written in prop_oneof![(0u64..1025).prop_map(|words| words * 8), any::<u64>()],
        headers in prop::collection::vec((0u64..256, 0u64..70), 1..200),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..50),
    ) {
        let region = region();
        let words = region.response_area(1);
        for (word, (kind, length)) in words.iter().zip(headers.iter().cycle()) {
            word.store(kind | length << 32, Relaxed);
        }
        for (index, value) in noise {
            index.get(words).store(value, Relaxed);
        }
        region.slot(1).unwrap().written.store(written, Relaxed);
        let mut reader = Reader::default();
        let mut out = Vec::new();
        let mut frames = 0u64;
        while let Ok(Some(_)) = reader.next(&region, 1, &mut out) {
            frames += 1;
            prop_assert!(frames <= CAPACITY / 8 && out.len() as u64 <= CAPACITY);
        }
        reader.release(&region, 1);
    }
}

#[test]
fn a_frame_may_fill_a_quarter_of_the_ring() {
    let region = region();
    assert_eq!(Writer::max_payload(&region) as u64, CAPACITY / 4 - 8);
    let mut writer = Writer::new(1, 0);
    let payload = vec![7; Writer::max_payload(&region)];
    let count = (0..).take_while(|_| writer.put(&region, 2, &payload)).count();
    assert_eq!(count, 4);
    assert!(!Writer::new(9, 0).put(&region, 2, b""), "there is no such slot");
}

#[test]
fn a_writer_knows_what_it_has_published() {
    let region = region();
    let mut writer = Writer::new(1, 0);
    assert!(writer.put(&region, 1, b"123456789"));
    assert_eq!((writer.unpublished(), writer.has_published()), (24, false));
    writer.publish(&region);
    assert_eq!((writer.unpublished(), writer.has_published()), (0, true));
    assert!(writer.put(&region, 1, b""));
    assert_eq!(writer.unpublished(), 8);
}

#[test]
fn a_writer_waits_only_if_there_is_no_room() {
    let region = region();
    let (mut writer, mut reader) = (Writer::new(1, 0), Reader::default());
    let quarter = Writer::max_payload(&region);
    let waits = |writer: &Writer, payload| {
        let waits = writer.wait_for_room(&region, payload).is_some();
        assert_eq!(region.slot(1).unwrap().waiting.load(Relaxed), u64::from(waits));
        waits
    };
    for _ in 0..3 {
        assert!(writer.put(&region, 2, &vec![7; quarter]));
    }
    assert!(!waits(&writer, quarter) && waits(&writer, quarter + 1));
    assert!(writer.put(&region, 2, &vec![7; quarter - 8]));
    assert!(!waits(&writer, 0) && waits(&writer, 1));
    writer.publish(&region);
    assert!(next(&mut reader, &region).is_some());
    assert!(waits(&writer, 1), "room is there once it is released");
    assert!(reader.release(&region, 1));
    assert!(!waits(&writer, 1));
}

#[test]
fn a_frame_is_shown_before_it_is_taken() {
    let region = region();
    let (mut writer, mut reader) = (Writer::new(1, 0), Reader::default());
    assert_eq!(reader.peek(&region, 1), Ok(None));
    assert!(writer.put(&region, 3, b"123456789") && writer.put(&region, 4, b""));
    writer.publish(&region);
    let frame = Frame { kind: 3, len: 9, behind: 8 };
    assert_eq!(
        (reader.peek(&region, 1), reader.peek(&region, 1)),
        (Ok(Some(frame)), Ok(Some(frame)))
    );
    let mut out = b"before".to_vec();
    reader.take(&region, 1, frame, &mut out);
    assert_eq!(out, b"before123456789");
    assert_eq!(reader.peek(&region, 1), Ok(Some(Frame { kind: 4, len: 0, behind: 0 })));
    assert!(reader.peek(&region, 9).is_err(), "there is no such slot");
    assert!(!reader.release(&region, 9));
}

#[test]
fn a_frame_longer_than_what_was_written_is_corrupt() {
    let region = region();
    let (mut writer, reader) = (Writer::new(1, 0), Reader::default());
    assert!(writer.put(&region, 3, b"12345678"));
    writer.publish(&region);
    assert!(reader.peek(&region, 1).is_ok());
    region.response_area(1)[0].store(3 | 9 << 32, Relaxed);
    assert_eq!(
        reader.peek(&region, 1),
        Err(Corrupt("a frame longer than the bytes that were written"))
    );
    region.slot(1).unwrap().written.store(12, Relaxed);
    assert_eq!(reader.peek(&region, 1), Err(Corrupt("more than the ring holds")));
}

#[test]
fn dirty_slots_are_marked_for_their_thread_alone_and_taken_once() {
    let geometry = Geometry { slots: 128, threads: 2, request_bytes: 4096, response_bytes: 8192 };
    let words = (0..geometry.region_bytes() / 8).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let region = Region::new(words, geometry).unwrap();
    for slot in [0, 63, 64, 127] {
        let mut writer = Writer::new(slot, 1);
        assert!(writer.put(&region, 1, b"") && !writer.publish(&region));
    }
    assert!(region.is_dirty(1) && !region.is_dirty(0) && !region.is_dirty(2));
    let taken = |thread| {
        let mut slots = Vec::new();
        region.take_dirty(thread, |slot| slots.push(slot));
        slots
    };
    assert_eq!((taken(0), taken(2), taken(1)), (vec![], vec![], vec![0, 63, 64, 127]));
    assert!(!region.is_dirty(1) && taken(1).is_empty());
    let mut lost = Writer::new(0, 2);
    assert!(lost.put(&region, 1, b"") && !lost.publish(&region), "there is no such thread");
}

#[test]
fn a_thread_that_runs_again_is_not_woken() {
    let region = region();
    let mut writer = Writer::new(1, 0);
    assert!(!region.thread_sleeps(0, false) && !region.thread_sleeps(9, false));
    region.thread_wakes(0);
    region.thread_wakes(9);
    assert!(writer.put(&region, 1, b"") && !writer.publish(&region));
    assert!(region.thread_sleeps(0, false), "a slot is dirty");
    assert!(writer.put(&region, 1, b"") && !writer.publish(&region), "so it does not sleep");
}
