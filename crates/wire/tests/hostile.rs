//! A compromised worker can write anything anywhere in the region: router and workers must then
//! continue without a panic and in bounded time.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use howdah_wire::queue::{Producer, Work, WorkerId};
use howdah_wire::region::{Geometry, Region};
use howdah_wire::stream::{Reader, Writer};
use proptest::prelude::*;

const GEOMETRY: Geometry =
    Geometry { slots: 8, threads: 2, request_bytes: 4096, response_bytes: 8192 };
const ME: WorkerId = WorkerId { index: 1, incarnation: 1 };

/// Memory with a second handle for the hostile worker.
#[derive(Clone)]
struct Shared(Arc<[AtomicU64]>);

impl AsRef<[AtomicU64]> for Shared {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Numbers that are likely to have a meaning.
fn words() -> impl Strategy<Value = u64> {
    let claim = (any::<u32>(), prop_oneof![0u64..8, 0xfffd..0x10000u64]);
    prop_oneof![
        0u64..64,
        (0u64..2048).prop_map(|words| words * 8),
        any::<u64>(),
        Just(u64::MAX),
        claim.prop_map(|(ticket, owner)| u64::from(ticket) << 32 | owner),
    ]
}

/// Tail, head, wake, retire, ring entries, threads and slots are all before the first page of
/// requests.
fn control() -> impl Strategy<Value = Vec<(usize, u64)>> {
    prop::collection::vec((0usize..512, words()), 0..60)
}

fn scribble(memory: &Shared, noise: Vec<(usize, u64)>) {
    for (index, value) in noise {
        memory.0[index].store(value, Relaxed);
    }
}

proptest! {
    #[test]
    fn any_words_in_the_region_are_survived(
        before in control(),
        between in control(),
        slot in 0u32..10,
    ) {
        let words = GEOMETRY.region_bytes() / 8;
        let memory = Shared((0..words).map(|_| AtomicU64::new(0)).collect());
        let region = Region::new(memory.clone(), GEOMETRY).unwrap();
        let mut producer = Producer::new(&region);
        scribble(&memory, before);
        let mut held = Vec::new();
        while let Some(slot) = producer.take_slot() {
            prop_assert!(region.stage(slot, 0, b"request"));
            let _ = producer.publish(&region, slot);
            held.push(slot);
        }
        prop_assert_eq!(held.len(), 8, "the router's own list of slots is its own");
        scribble(&memory, between);
        let mut request = Vec::new();
        for _ in 0..64 {
            match region.take(ME) {
                Work::Request { slot, thread, .. } => {
                    region.request(slot, &mut request);
                    prop_assert!(request.len() <= 4096);
                    let mut writer = Writer::new(slot, thread);
                    writer.put(&region, 1, b"answer");
                    writer.publish(&region);
                    writer.wait_for_room(&region, 8000);
                }
                Work::Idle | Work::Exit => break,
            }
        }
        region.claim_of(slot);
        region.cancel(slot, slot);
        for thread in 0..4 {
            region.thread_sleeps(thread, false);
            let mut dirty = 0;
            region.take_dirty(thread, |_| dirty += 1);
            prop_assert!(dirty <= 64);
            region.thread_wakes(thread);
        }
        let mut reader = Reader::default();
        let mut out = Vec::new();
        let mut frames = 0;
        while let Ok(Some(_)) = reader.next(&region, slot, &mut out) {
            frames += 1;
            prop_assert!(frames <= 1024 && out.len() <= 8192);
        }
        reader.release(&region, slot);
        held.into_iter().for_each(|slot| producer.release(&region, slot));
    }
}
